//! `/audit`: who did what.

use std::sync::Arc;

use asat_core::audit::{Filter, Page, Place, Verdict};
use asat_core::{Code, Problem};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Parameters};
use super::problem::Failure;
use super::{Answer, Face, cursor};
use asat_wire::{AuditEntry, AuditHead, AuditList, AuditVerdict, ProblemBody};

/// Which entries to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditParameters {
    /// Only those about this store.
    store: Option<String>,
    /// Only those about this version: `report@12` or `report@latest`.
    version: Option<String>,
    /// Only what this caller did, written exactly as the trail has it.
    #[param(example = "uid 1000 (ann)")]
    actor: Option<String>,
    /// Only this: `publish`, `import`, `pin`, `unpin`, `retire`, `restore`, `revoke`, `lose` or `recover`.
    #[param(example = "retire")]
    action: Option<String>,
    /// Only what was done at or after this instant.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Only what was done at or before this instant.
    #[param(format = DateTime)]
    to: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
    /// Whether to say if the whole trail is what was written; all of it is read then.
    verify: Option<bool>,
    /// The `place` of a head that was noted down, which the trail must have in it; this asks for `verify`, too.
    noted: Option<String>,
}

/// Lists who did what, newest first.
#[utoipa::path(
    get, path = "/audit", operation_id = "list_audit", tag = "daemon", params(AuditParameters),
    responses(
        (status = 200, description = "A page of the audit trail", body = AuditList),
        (status = 400, description = "A parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store or version", body = ProblemBody),
        (status = 422, description = "A parameter is not allowed", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
    )
)]
pub(super) async fn audit(
    State(face): State<Arc<Face>>,
    Parameters(parameters): Parameters<AuditParameters>,
) -> Answer<Json<AuditList>> {
    let filter = filter(&face, &parameters)?;
    let limit = parameters.limit.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(Failure::new(Code::Invalid, format!("limit is {limit}"), "write a limit from 1 to 1000"));
    }
    let before = parameters.cursor.as_deref().map(|text| cursor::read_number(text, &filter)).transpose()?;
    let noted = parameters.noted.as_deref().map(str::parse::<Place>).transpose()?;
    let verify = parameters.verify.unwrap_or(false) || noted.is_some();
    let (handle, wanted) = (face.handle.clone(), filter.clone());
    let read = move || {
        let page = handle.trail(&wanted, before, limit)?;
        let verdict = verify.then(|| handle.verify_trail(noted)).transpose()?;
        Ok((page, verdict))
    };
    let (page, verdict): (Page, Option<Verdict>) = face.work.run(read).await?;
    let last = page.entries.last().filter(|_| page.more);
    let next_cursor = last.map(|entry| cursor::write_number(entry.number, &filter));
    Ok(Json(AuditList {
        next_cursor,
        head: AuditHead::new(page.head),
        entries: page.entries.into_iter().map(AuditEntry::new).collect(),
        verdict: verdict.map(AuditVerdict::new),
    }))
}

fn filter(face: &Face, parameters: &AuditParameters) -> Result<Filter, Problem> {
    let instant =
        |field, text: &Option<String>| text.as_deref().map(|t| extract::timestamp(field, t)).transpose();
    let store = parameters.store.as_deref().map(extract::store).transpose()?;
    if let Some(store) = &store {
        face.handle.engine().register().history(store)?;
    }
    Ok(Filter {
        store,
        version: parameters.version.as_deref().map(|text| face.version_id(text)).transpose()?,
        actor: parameters.actor.clone(),
        action: parameters.action.as_deref().map(str::parse).transpose()?,
        from: instant("from", &parameters.from)?,
        to: instant("to", &parameters.to)?,
    })
}
