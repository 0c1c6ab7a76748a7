//! `/version`: the one version that is meant, by a moment, by a business day or by a label, in the words of the command line.

use std::sync::Arc;

use asat_core::query::Filter;
use asat_core::register::{Entry, Register};
use asat_core::version::State as VersionState;
use asat_core::{Code, Problem, StoreName};
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Parameters};
use super::{Answer, Face};
use crate::when;
use asat_wire::{ProblemBody, Version};

/// How many versions of one label are named to a caller who must choose.
const CHOICE: usize = 5;

/// Which version is meant: one of `as_of`, `business_date` and `label` says so.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FindParameters {
    /// The store; may be left out if there is only one.
    store: Option<String>,
    /// The newest version cut at or before this time: an instant, a day (its end, in UTC), or `now`, `yesterday`, `month-end`, `-7d`.
    #[param(example = "2026-11-19")]
    as_of: Option<String>,
    /// The version published last for this business day, or else for the last one before it: a day, `yesterday`, `month-end`, `-7d`.
    #[param(example = "2026-11-19")]
    business_date: Option<String>,
    /// The only version published with this label.
    label: Option<String>,
}

/// Finds the version that is meant. If several have the label, none is taken.
#[utoipa::path(
    get, path = "/version", tag = "versions", params(FindParameters),
    responses(
        (status = 200, description = "The version", body = Version),
        (status = 400, description = "A parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store, or no version is meant", body = ProblemBody),
        (status = 409, description = "The version of that moment was lost", body = ProblemBody),
        (status = 410, description = "The version of that moment was retired", body = ProblemBody),
        (status = 422, description = "A time cannot be understood, or no version or several are named", body = ProblemBody),
    )
)]
pub(super) async fn find(
    State(face): State<Arc<Face>>,
    Parameters(parameters): Parameters<FindParameters>,
) -> Answer<Json<Version>> {
    let by = By::read(&parameters, face.machine.believed().time)?;
    let engine = face.handle.engine();
    let register = engine.register();
    let store = extract::meant(register, parameters.store.as_deref())?;
    Ok(Json(face.shown(register, by.find(register, &store)?)))
}

impl FindParameters {
    /// The exact name of the version that is meant.
    pub(super) fn version(&self, face: &Face) -> Result<asat_core::VersionId, Problem> {
        let by = By::read(self, face.machine.believed().time)?;
        let engine = face.handle.engine();
        let store = extract::meant(engine.register(), self.store.as_deref())?;
        Ok(by.find(engine.register(), &store)?.version.id.clone())
    }
}

/// By what a version of a store is found.
enum By {
    Moment(Timestamp),
    BusinessDay(jiff::civil::Date),
    Label(String),
}

impl By {
    fn read(parameters: &FindParameters, now: Timestamp) -> Result<Self, Problem> {
        match (&parameters.as_of, &parameters.business_date, &parameters.label) {
            (Some(text), None, None) => {
                let at = when::day_ends(text, now).map_err(|hint| not_understood("as_of", text, hint))?;
                Ok(Self::Moment(at))
            }
            (None, Some(text), None) => {
                let day = when::day(text, now).map_err(|hint| not_understood("business_date", text, hint))?;
                Ok(Self::BusinessDay(day))
            }
            (None, None, Some(label)) => Ok(Self::Label(label.clone())),
            (None, None, None) => Err(Problem::new(
                Code::Invalid,
                "no version is named",
                "add as_of, business_date or label; STORE@latest is the newest version",
            )),
            _ => Err(Problem::new(
                Code::Invalid,
                "the version is named in several ways",
                "write one of as_of, business_date and label",
            )),
        }
    }

    fn find<'a>(&self, register: &'a Register, store: &StoreName) -> Result<&'a Entry, Problem> {
        match self {
            Self::Moment(at) => register.as_of(store, *at),
            Self::BusinessDay(day) => register.as_of_business_date(store, *day),
            Self::Label(label) => labelled(register, store, label),
        }
    }
}

/// The only version with a label. Nothing is guessed if there are several: a reader who audits one of them must know which.
fn labelled<'a>(register: &'a Register, store: &StoreName, label: &str) -> Result<&'a Entry, Problem> {
    let filter = Filter { store: Some(store.clone()), label: Some(label.to_owned()), ..Filter::default() };
    let (found, _) = register.list(&filter, None, CHOICE)?;
    let quoted = extract::shorten(label, 80);
    match found.as_slice() {
        [only] => Ok(*only),
        [] => {
            // Another version than the one that was given up, or lost, would be other data.
            let gone = Some(vec![VersionState::Retiring, VersionState::Retired, VersionState::Lost]);
            let (gone, _) = register.list(&Filter { states: gone, ..filter }, None, 1)?;
            if let Some(entry) = gone.first() {
                entry.version.check_readable()?;
            }
            let detail = format!("no version of {store} has the label {quoted:?}");
            let hint = format!("GET /v1/versions?store={store} (asat ls {store}) shows the labels");
            Err(Problem::new(Code::UnknownVersion, detail, hint))
        }
        several => {
            let ids: Vec<String> = several.iter().map(|entry| entry.version.id.to_string()).collect();
            let detail = format!("several versions of {store} have the label {quoted:?}: {}", ids.join(", "));
            Err(Problem::new(Code::Invalid, detail, "name the one that you mean"))
        }
    }
}

fn not_understood(field: &str, text: &str, hint: String) -> Problem {
    let detail = format!("{field}: {:?} cannot be understood", extract::shorten(text, 80));
    let hint = if extract::lost_plus(text) { "write the + of the offset as %2B".to_owned() } else { hint };
    Problem::new(Code::Invalid, detail, hint)
}
