//! `GET /v1/stores/{name}/tables/{table}/rows/{key}/history`: the life of a row.

use std::sync::Arc;

use asat_core::register::{Entry, Register};
use asat_core::version::{State as VersionState, Version};
use asat_core::{Code, Problem, StoreName, VersionId};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Parameters, Segments};
use super::work::{Wanted, blocking};
use super::{Answer, Caller, Face, cursor};
use crate::daemon::{RowChanged, RowFound, RowOf};
use asat_wire::{Fields, ProblemBody, RowChange, RowHistory};

/// How many changes are answered at most.
const MOST: u32 = 1000;

/// Which changes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryParameters {
    /// Only changes of this column.
    column: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Shows the versions in which a row changed, newest first, with who vouched for them.
///
/// The key is the value of the table's primary key, or the rowid. Several columns are written as a JSON array, `["EUR",7]`, or with commas
/// between them.
#[utoipa::path(
    get, path = "/stores/{name}/tables/{table}/rows/{key}/history", tag = "changes",
    params(
        ("name" = String, Path, description = "The store"),
        ("table" = String, Path, description = "The table"),
        ("key" = String, Path, description = "The row's key"),
        HistoryParameters,
    ),
    responses(
        (status = 200, description = "The changes", body = RowHistory),
        (status = 400, description = "A parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 409, description = "A version is not in the archive yet", body = ProblemBody),
        (status = 422, description = "No such table or column, or no key of it", body = ProblemBody),
        (status = 500, description = "Stored data is damaged", body = ProblemBody),
        (status = 503, description = "As many versions are compared as may be at once, or the daemon is stopping", body = ProblemBody),
    )
)]
pub(super) async fn history(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments((name, table, key)): Segments<(String, String, String)>,
    Parameters(HistoryParameters { column, limit, cursor: after }): Parameters<HistoryParameters>,
) -> Answer<Json<RowHistory>> {
    let store = extract::store(&name)?;
    let limit = limit.unwrap_or(100);
    if !(1..=MOST).contains(&limit) {
        let detail = format!("limit {limit} is not from 1 to {MOST}");
        return Err(Problem::new(Code::Invalid, detail, "ask for fewer, and go on with next_cursor").into());
    }
    let row = RowOf { table, key, column };
    let filter = (&store, &row);
    let first = after.as_deref().map(|text| cursor::read_number(text, &filter)).transpose()?;
    let newest =
        face.handle.engine().register().history(&store)?.newest_readable().map(|e| e.version.id.clone());
    if let Some(newest) = newest.filter(|_| first.is_none()) {
        face.handle.until_archived(&newest).await?;
    }
    let versions = readable(face.handle.engine().register(), &store, first.unwrap_or(u64::MAX))?;
    let share = face.work.comparisons.take(&caller)?;
    let (comparisons, wanted, asked) = (Arc::clone(&face.comparisons), Wanted::default(), row.clone());
    let given_up = wanted.given_up();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let RowFound { key, changes, next } =
        blocking(move || comparisons.row_history(&versions, &asked, limit, &given_up)).await?;
    drop(share);
    let engine = face.handle.engine();
    Ok(Json(RowHistory {
        changes: changes.into_iter().map(|change| written(engine.register(), change)).collect(),
        next_cursor: next.map(|next| cursor::write_number(next.number, &filter)),
        store: store.to_string(),
        table: row.table.clone(),
        key,
    }))
}

/// The versions of a store that can be read from the archive, from a number down.
fn readable(register: &Register, store: &StoreName, first: u64) -> Result<Vec<VersionId>, Problem> {
    let is_readable = |version: &&Version| version.state == VersionState::Ready && version.is_archived();
    let versions = register.history(store)?.versions.range(..=first).rev().map(|entry| &entry.version);
    Ok(versions.filter(is_readable).map(|version| version.id.clone()).collect())
}

fn written(register: &Register, change: RowChanged) -> RowChange {
    let RowChanged { version, since, before, after } = change;
    let entry = register.entry(&version).ok();
    let known_by = entry.and_then(Entry::known_by);
    let said = known_by.map(|publication| &publication.attributes);
    let op = match (&before, &after) {
        (None, _) => "insert",
        (_, None) => "delete",
        _ => "update",
    };
    RowChange {
        version: version.to_string(),
        since: since.map(|since| since.to_string()),
        op: op.to_owned(),
        cut_at: entry.and_then(|entry| Some(entry.version.content.as_ref()?.cut_at)),
        label: said.and_then(|said| said.label.clone()),
        certified_by: said.and_then(|said| said.certified_by.clone()),
        business_date: said.and_then(|said| Some(said.business_date?.to_string())),
        changed: before
            .as_ref()
            .zip(after.as_ref())
            .map(|(before, after)| changed(before, after))
            .unwrap_or_default(),
        before,
        after,
    }
}

/// The columns of which two states of a row have different values, or that only one of them has.
fn changed(before: &Fields, after: &Fields) -> Vec<String> {
    let Fields(columns) = after;
    let of_new = columns.iter().filter(|(name, value)| before.get(name) != Some(value)).map(|(name, _)| name);
    let Fields(columns) = before;
    let dropped = columns.iter().map(|(name, _)| name).filter(|name| after.get(name).is_none());
    of_new.chain(dropped).cloned().collect()
}
