//! Finding the version that is meant: by its name, by a time, by a business day, or by a label.

use asat_client::{Client, Request};
use asat_core::{Code, Problem, StoreName};
use asat_wire::{Version, VersionList};
use jiff::Timestamp;
use jiff::civil::Date;

use super::args::FindArgs;
use super::typed::{VersionArg, Wanted};
use crate::text::clean;

/// How many versions of one label are named to somebody who must choose.
const CHOICE: &str = "5";

/// By what a version of a store is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// The newest one cut by then.
    At(Timestamp),
    /// The one published last for this day, or for the last one before it.
    BusinessDay(Date),
}

/// The version that is meant.
///
/// # Errors
/// [`Code::Invalid`] if it is not said which one; else what the daemon says.
pub(super) async fn version(args: &FindArgs, client: &Client) -> Result<VersionArg, Problem> {
    let moment = args.as_of.map(Moment::At).or(args.business_date.map(Moment::BusinessDay));
    let store = match (&args.wanted, moment, &args.label) {
        (Some(Wanted::Version(version)), None, None) => return Ok(version.clone()),
        (Some(Wanted::Version(version)), ..) => return Err(one_already(version)),
        (wanted, None, None) => return Err(not_said(wanted.as_ref())),
        (Some(Wanted::Store(store)), ..) => Some(store),
        (None, ..) => None,
    };
    let found = match moment {
        Some(moment) => at(moment, store, client).await?.id,
        None => labelled(args.label.as_deref().unwrap_or_default(), store, client).await?,
    };
    found.parse().map_err(|error| {
        let detail = format!("the daemon found the version {:?}: {error}", clean(&found));
        Problem::new(Code::Internal, detail, "use a client and a daemon of the same version")
    })
}

/// The version of a moment.
///
/// # Errors
/// What the daemon says.
pub(super) async fn at(
    moment: Moment,
    store: Option<&StoreName>,
    client: &Client,
) -> Result<Version, Problem> {
    let request = match moment {
        Moment::At(at) => Request::get(&["as-of", &at.to_string()]),
        Moment::BusinessDay(day) => Request::get(&["as-of-business-date", &day.to_string()]),
    };
    client.ask(&request.query("store", store.map(StoreName::as_str))).await
}

/// The only version with a label. Nothing is guessed if there are several: a reader who audits one of them must know which.
async fn labelled(label: &str, store: Option<&StoreName>, client: &Client) -> Result<String, Problem> {
    let request = Request::get(&["versions"])
        .query("store", store.map(StoreName::as_str))
        .query("label", Some(label))
        .query("limit", Some(CHOICE));
    let list: VersionList = client.ask(&request).await?;
    let of = store.map_or_else(String::new, |store| format!(" of {store}"));
    match list.versions.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => {
            let detail = format!("no version{of} has the label {label:?}");
            let hint =
                format!("asat ls{} shows the labels", store.map_or_else(String::new, |s| format!(" {s}")));
            Err(Problem::new(Code::UnknownVersion, detail, hint))
        }
        several => {
            let ids: Vec<String> = several.iter().map(|version| clean(&version.id)).collect();
            let detail = format!("several versions{of} have the label {label:?}: {}", ids.join(", "));
            Err(Problem::new(Code::Invalid, detail, "name the one that you mean"))
        }
    }
}

fn one_already(version: &VersionArg) -> Problem {
    let store = version.store();
    let detail = format!("{version} is one version already, so there is nothing to find");
    let hint =
        format!("write {version} alone, or the store {store} with --as-of, --business-date or --label");
    Problem::new(Code::Invalid, detail, hint)
}

fn not_said(wanted: Option<&Wanted>) -> Problem {
    let (detail, store) = match wanted {
        Some(Wanted::Store(store)) => {
            (format!("it is not said which version of {store} is meant"), store.as_str())
        }
        _ => ("it is not said which version is meant".to_owned(), "STORE"),
    };
    let hint =
        format!("{store}@latest is the newest; or add --as-of TIME, --business-date DAY or --label LABEL");
    Problem::new(Code::Invalid, detail, hint)
}
