//! `GET /versions/{id}/diff/{other}`: what differs between two versions.

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
use asat_wire::{Diff, DiffLine, ProblemBody};

/// What of the differences to answer, and in which format.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DiffParameters {
    /// `summary`, which says how many rows differ in which table, or the rows as `jsonl`, which has a JSON object on each line and
    /// ends with one that says how many there were, and where to go on.
    #[param(example = "jsonl", default = "summary")]
    format: Option<String>,
    /// Only this table.
    table: Option<String>,
    /// Shadow tables of virtual tables, and SQLite's own, too.
    all: Option<bool>,
    /// How many rows at most; all of them where it is left out.
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
            (Diff = "application/json"), (DiffLine = "application/x-ndjson"),
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
    let (machine, wanted) = (Arc::clone(&face.machine), Wanted::default());
    let given_up = wanted.given_up();
    let Some(format) = parameters.format()? else {
        let mut diff = blocking(move || machine.diff(&from, &to, &given_up)).await?;
        drop(share);
        parameters.select(&mut diff);
        return Ok(Json(diff).into_response());
    };
    let filter = (from.clone(), to.clone(), parameters.table.clone(), parameters.all);
    let skip = parameters.cursor.as_deref().map(|text| cursor::read_number(text, &filter)).transpose()?;
    let selection = Selection {
        table: parameters.table,
        all_kinds: parameters.all == Some(true),
        skip: skip.unwrap_or(0),
        limit: parameters.limit,
    };
    streamed::answer(format.media_type(), share, wanted, move |out| {
        let write = |comparison: &Comparison<'_>| {
            let next = |passed| cursor::write_number(passed, &filter);
            Ok(asat_rows::write(comparison, &selection, format, &next, out)?)
        };
        machine.compare(&from, &to, &given_up, write).map(drop)
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
        if self.limit == Some(0) {
            return Err(Problem::new(Code::Invalid, "limit is 0", "ask for a row at least"));
        }
        match self.format.as_deref() {
            None | Some("summary") => Ok(None),
            Some(name) => name.parse().map(Some).map_err(|error: String| {
                Problem::new(Code::Invalid, format!("format: {error}"), "leave it out for a summary")
            }),
        }
    }

    /// Leaves of a summary what was asked for.
    fn select(&self, diff: &mut Diff) {
        diff.tables.retain(|table| self.all == Some(true) || self.table.is_some() || table.kind == "table");
        if let Some(name) = &self.table {
            diff.tables.retain(|table| {
                let names = [Some(&table.table), table.renamed_from.as_ref()];
                names.into_iter().flatten().any(|own| own.eq_ignore_ascii_case(name))
            });
        }
    }
}
