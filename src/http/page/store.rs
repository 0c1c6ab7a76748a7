//! `/page/stores/{name}`: one store: whether it is fresh, what retention gives up next, and what was verified.

use std::sync::Arc;

use asat_core::retention::retires_next;
use asat_core::{Problem, StoreName};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;

use super::super::access::{Caller, SignedIn};
use super::super::extract::{self, Segments};
use super::super::verified::LastVerified;
use super::super::{Answer, Face, stores};
use super::Frame;
use super::calendar::Year;
use super::home::{self, Card};
use super::words::Moment;
use crate::text::size;
use asat_wire::RetentionRules;

/// So many days ahead it is said what retention gives up, and of so many versions at most.
const DAYS_AHEAD: i64 = 62;
const MOST_GOING: usize = 12;

#[derive(Template)]
#[template(path = "store.html")]
struct Page {
    frame: Frame,
    card: Card,
    year: Year,
    retention: Retention,
    verified: Option<(Moment, LastVerified)>,
}

/// What retention keeps of a store, and what it gives up next.
struct Retention {
    /// Its rules, in words.
    rules: Vec<String>,
    going: Vec<Going>,
    /// Why it is not known what it gives up.
    unknown: Option<String>,
}

/// A version that retention gives up.
struct Going {
    version: String,
    /// `now`, or the day.
    when: String,
    why: String,
}

pub(super) async fn show(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Extension(signed_in): Extension<SignedIn>,
    Segments(name): Segments<String>,
) -> Answer<Response> {
    let store = extract::store(&name)?;
    face.handle.engine().register().history(&store)?;
    let now = face.machine.believed().time;
    let retention = Retention::read(&face, &store, now).await?;
    let listed = stores::listed(&face).stores;
    let written = listed.iter().find(|written| written.name == store.as_str());
    let written = written.ok_or_else(|| {
        Problem::new(
            asat_core::Code::UnknownStore,
            format!("there is no store {store}"),
            "load the page again",
        )
    })?;
    let consequences = home::consequences(&face);
    let year = Year::ending(&face, &store, now).await?;
    let engine = face.handle.engine();
    let card = Card::new(written, &engine, &consequences, now);
    drop(engine);
    let verified = face.verified.last(&store).map(|last| (Moment::new(last.at, now), last));
    let page = Page { frame: Frame::of(&caller, signed_in), card, year, retention, verified };
    Ok(super::answer(StatusCode::OK, &page))
}

impl Retention {
    async fn read(face: &Face, store: &StoreName, now: Timestamp) -> Result<Self, Problem> {
        if face.machine.follows().config().is_some() {
            let unknown = Some("The asat that publishes the store says what is retired.".to_owned());
            return Ok(Self { rules: Vec::new(), going: Vec::new(), unknown });
        }
        let rules = face.handle.engine().policy().stores.get(store).map(|policy| policy.retention.clone());
        let rules = rules.unwrap_or_default();
        let written = RetentionRules::from(&rules);
        let (handle, wanted) = (face.handle.clone(), store.clone());
        let found = match rules.keeps_everything() {
            true => Vec::new(),
            false => {
                // A publication waits for the plan of one day at most, and not for those of two months.
                let plan = move |at| handle.engine().retention_plan(&wanted, &rules, None, at);
                let look = move || retires_next(now, DAYS_AHEAD, MOST_GOING, plan);
                face.work.run(look).await?
            }
        };
        let going = found.into_iter().map(|(at, verdict)| Going {
            version: format!("{store}@{}", verdict.number),
            when: if at <= now { "now".to_owned() } else { format!("by {}", at.strftime("%Y-%m-%d")) },
            why: verdict.why,
        });
        Ok(Self { rules: words(&written), going: going.collect(), unknown: None })
    }
}

/// The rules as people read them.
fn words(rules: &RetentionRules) -> Vec<String> {
    let mut words = vec![match &rules.keep {
        Some(keep) => format!("By age: {keep}."),
        None => "By age, everything is kept.".to_owned(),
    }];
    for label in &rules.labels {
        words.push(format!("With labels like {:?}: {}.", label.pattern, label.keep));
    }
    if let Some(most) = rules.at_most_bytes {
        words.push(format!(
            "The archive takes at most {}; more than that retires versions before their age does.",
            size(most)
        ));
    }
    if rules.at_least > 0 {
        words.push(format!("The newest {} versions stay in any case.", rules.at_least));
    }
    words
}
