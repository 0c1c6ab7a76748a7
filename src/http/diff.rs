//! `GET /v1/versions/{id}/diff/{other}`: what differs between two versions.

use std::sync::Arc;

use asat_core::{Code, Problem, VersionId};
use asat_rows::{Comparison, Format, Selection};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Parameters, Segments};
use super::work::{Wanted, blocking};
use super::{Answer, Caller, Face, cursor, streamed};
use asat_wire::{Diff, DiffLine, ProblemBody, TableDiff};

/// What of the differences to answer, and in which format.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DiffParameters {
    /// `summary` says how many rows differ in which table. `jsonl` has the rows, a JSON object on each line, and ends with one that says how
    /// many there were, and where to go on. `sql` is a script, and `changeset` one of SQLite's changesets, that make the older version
    /// the newer one. `csv` and `html` are for people and their programs.
    #[param(example = "jsonl", default = "summary")]
    format: Option<String>,
    /// Only this table.
    table: Option<String>,
    /// Rows are the same if these columns are, separated by commas, and not by the table's key. It needs a table.
    #[param(example = "currency,day")]
    by: Option<String>,
    /// Shadow tables of virtual tables, and SQLite's own, too.
    all: Option<bool>,
    /// How many rows at most; all of them if it is left out.
    #[param(minimum = 1)]
    limit: Option<u64>,
    /// Where to go on: `next_cursor` of the answer before.
    cursor: Option<String>,
}

/// Says what differs between two versions.
///
/// Only pages that differ are read. Versions of different stores can be compared, too, for which all of both is read.
#[utoipa::path(
    get, path = "/versions/{id}/diff/{other}", tag = "changes",
    params(
        ("id" = String, Path, description = "The version that counts as the older one: `report@11`, `report@latest` or `report@TAG`"),
        ("other" = String, Path, description = "The version that counts as the newer one"),
        DiffParameters,
    ),
    responses(
        (status = 200, description = "What differs", content(
            (Diff = "application/json"), (DiffLine = "application/x-ndjson"), (String = "application/sql"),
            (String = "application/octet-stream"), (String = "text/csv; charset=utf-8"), (String = "text/html; charset=utf-8"),
        )),
        (status = 400, description = "No version's name, or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "A version cannot be read, or not yet", body = ProblemBody),
        (status = 410, description = "A version was retired", body = ProblemBody),
        (status = 422, description = "No such table or column", body = ProblemBody),
        (status = 500, description = "Stored data is damaged", body = ProblemBody),
        (status = 503, description = "As many versions are compared as may be at once, or the daemon is stopping", body = ProblemBody),
    )
)]
pub(super) async fn diff(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments((id, other)): Segments<(String, String)>,
    Parameters(parameters): Parameters<DiffParameters>,
) -> Answer<Response> {
    let (from, to) = (face.archived(&id).await?, face.archived(&other).await?);
    let share = face.work.comparisons.take(&caller)?;
    let (comparisons, wanted) = (Arc::clone(&face.comparisons), Wanted::default());
    let given_up = wanted.given_up();
    let Some(format) = parameters.format()? else {
        let table = parameters.table.clone();
        let mut diff = blocking(move || {
            let diff = comparisons.diff(&from, &to, &given_up)?;
            // A table that is the same is not in the summary, and neither is one that is not there.
            if let Some(name) = table.filter(|name| !has(&diff, name)) {
                comparisons
                    .compare(&from, &to, &given_up, |comparison| Ok(comparison.table(&name).map(drop)?))?;
            }
            Ok(diff)
        })
        .await?;
        drop(share);
        parameters.select(&mut diff);
        return Ok(Json(diff).into_response());
    };
    let filter = (from.clone(), to.clone(), parameters.table.clone(), parameters.by.clone(), parameters.all);
    let skip = parameters.cursor.as_deref().map(|text| cursor::read_number(text, &filter)).transpose()?;
    let selection = Selection {
        table: parameters.table,
        all_kinds: parameters.all == Some(true),
        by: parameters.by.map(|columns| columns.split(',').map(str::to_owned).collect()).unwrap_or_default(),
        skip: skip.unwrap_or(0),
        limit: parameters.limit,
    };
    streamed::answer(format.media_type(), share, wanted, move |out| {
        let write = |comparison: &Comparison<'_>| {
            let next = |passed| cursor::write_number(passed, &filter);
            Ok(asat_rows::write(comparison, &selection, format, &next, out)?)
        };
        comparisons.compare(&from, &to, &given_up, write).map(drop)
    })
    .await
}

impl Face {
    /// The exact name of the version that a path segment means, as soon as it is in the archive.
    pub(super) async fn archived(&self, wanted: &str) -> Result<VersionId, Problem> {
        let id = self.version_id(wanted)?;
        self.handle.until_archived(&id).await?;
        Ok(id)
    }
}

impl DiffParameters {
    /// The format of the rows; none of a summary.
    fn format(&self) -> Result<Option<Format>, Problem> {
        let refused = |detail: String, hint: &str| Err(Problem::new(Code::Invalid, detail, hint));
        if self.limit == Some(0) {
            return refused("limit is 0".to_owned(), "ask for a row at least");
        }
        if self.by.is_some() && self.table.is_none() {
            return refused("by needs a table".to_owned(), "name the table whose columns they are");
        }
        let name = self.format.as_deref().unwrap_or("summary");
        if name == "summary" {
            return match &self.by {
                None => Ok(None),
                Some(_) => refused(
                    "a summary counts rows by their keys".to_owned(),
                    "ask for the rows: format=jsonl",
                ),
            };
        }
        let format: Format = match name.parse() {
            Ok(format) => format,
            Err(error) => return refused(format!("format: {error}"), "leave it out for a summary"),
        };
        if format.is_whole() && (self.limit.is_some() || self.cursor.is_some() || self.by.is_some()) {
            let detail = format!("a part of a {format} would not make the older version the newer one");
            return refused(detail, "leave limit, cursor and by out");
        }
        Ok(Some(format))
    }

    /// Leaves of a summary what was asked for.
    fn select(&self, diff: &mut Diff) {
        match &self.table {
            Some(name) => diff.tables.retain(|table| is_called(table, name)),
            None => diff.tables.retain(|table| self.all == Some(true) || table.kind == "table"),
        }
    }
}

/// Whether a table differs that has this name in one of the versions.
fn has(diff: &Diff, name: &str) -> bool {
    diff.tables.iter().any(|table| is_called(table, name))
}

fn is_called(table: &TableDiff, name: &str) -> bool {
    let names = [Some(&table.table), table.renamed_from.as_ref()];
    names.into_iter().flatten().any(|own| own.eq_ignore_ascii_case(name))
}
