//! Finding the version that is meant: by its name, by a time, by a business day, or by a label.

use asat_client::{Client, Request};
use asat_core::{Code, Problem, StoreName};
use asat_wire::Version;
use jiff::Timestamp;
use jiff::civil::Date;

use super::args::FindArgs;
use super::typed::{VersionArg, Wanted};
use crate::text::clean;

/// By what a version of a store is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment<'a> {
    /// The newest one cut by then.
    At(Timestamp),
    /// The one published last for this day, or for the last one before it.
    BusinessDay(Date),
    /// The only one that was published with this label.
    Label(&'a str),
}

/// The version that is meant.
///
/// # Errors
/// [`Code::Invalid`] if none is named; else what the daemon says.
pub(super) async fn version(args: &FindArgs, client: &Client) -> Result<VersionArg, Problem> {
    let moment = args.as_of.map(Moment::At).or(args.business_date.map(Moment::BusinessDay));
    let moment = moment.or(args.label.as_deref().map(Moment::Label));
    let (moment, store) = match (&args.wanted, moment) {
        (Some(Wanted::Version(version)), None) => return Ok(version.clone()),
        (Some(Wanted::Version(version)), Some(_)) => return Err(one_already(version)),
        (wanted, None) => return Err(not_said(wanted.as_ref())),
        (Some(Wanted::Store(store)), Some(moment)) => (moment, Some(store)),
        (None, Some(moment)) => (moment, None),
    };
    let found = at(moment, store, client).await?.id;
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
    moment: Moment<'_>,
    store: Option<&StoreName>,
    client: &Client,
) -> Result<Version, Problem> {
    let (name, value) = match moment {
        Moment::At(at) => ("as_of", at.to_string()),
        Moment::BusinessDay(day) => ("business_date", day.to_string()),
        Moment::Label(label) => ("label", label.to_owned()),
    };
    let request = Request::get(&["version"]).query("store", store.map(StoreName::as_str));
    client.ask(&request.query(name, Some(value))).await
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
        Some(Wanted::Store(store)) => (format!("no version of {store} is named"), store.as_str()),
        _ => ("no version is named".to_owned(), "STORE"),
    };
    let hint =
        format!("{store}@latest is the newest; or add --as-of TIME, --business-date DAY or --label LABEL");
    Problem::new(Code::Invalid, detail, hint)
}
