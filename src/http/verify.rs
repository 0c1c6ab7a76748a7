//! `POST /v1/stores/{name}/verify`: whether what is kept of a store is whole; what is not is put right.

use std::path::Path;
use std::sync::Arc;

use asat_archive::Report;
use asat_core::event::{Event, Repaired, Reply};
use asat_core::version::{State, Version};
use asat_core::{Code, Problem, StoreName, VersionId};
use axum::Json;
use axum::extract::State as Shared;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Parameters, Segments};
use super::work::{Wanted, blocking};
use super::{Answer, Caller, Face};
use crate::daemon::found;
use asat_wire::{Finding, LostVersion, ProblemBody, RepairedFile, Verification};

/// What to verify.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyParameters {
    /// Only the version of this number, and what it needs; everything if left out.
    version: Option<u64>,
}

/// Reads what is kept of a store and compares it with its checksums, and the catalogue's records with what was committed.
///
/// If something is damaged, all of the store's archive is repaired from whatever still has the content: the store, or a snapshot of
/// it. The answer comes when that is done. It may take long, and holds nobody up.
#[utoipa::path(
    post, path = "/stores/{name}/verify", tag = "stores",
    params(("name" = String, Path, description = "The store"), VerifyParameters),
    responses(
        (status = 200, description = "What was found", body = Verification),
        (status = 400, description = "A parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store or version", body = ProblemBody),
        (status = 409, description = "The version cannot be read", body = ProblemBody),
        (status = 410, description = "The version was retired", body = ProblemBody),
        (status = 500, description = "The archive cannot be read", body = ProblemBody),
        (status = 503, description = "The daemon is stopping, verifies as much as it may at once, or may open no more files", body = ProblemBody),
    )
)]
pub(super) async fn verify(
    Shared(face): Shared<Arc<Face>>,
    caller: Caller,
    Segments(name): Segments<String>,
    Parameters(VerifyParameters { version }): Parameters<VerifyParameters>,
) -> Answer<Json<Verification>> {
    let store = extract::store(&name)?;
    let lost = lost_of(&face, &store, version)?;
    if version.is_some() && !lost.is_empty() {
        return Ok(Json(Verification { ok: false, lost, ..Verification::default() }));
    }
    let known = face.handle.engine().register().history(&store)?.store.damage.clone();
    let share = face.work.verifications.take(&caller)?;
    let (machine, name) = (Arc::clone(&face.machine), store.clone());
    // A caller who has gone drops this, and nobody wants to know what would be found.
    let wanted = Wanted::default();
    let gone = wanted.given_up();
    let handle = face.handle.clone();
    let (report, bytes, catalogue) = blocking(move || {
        let (report, bytes) = machine.verify(&name, version, &gone)?;
        let catalogue = handle.verify_catalogue().map(|problem| of_catalogue(handle.catalogue(), problem));
        Ok::<_, Problem>((report, bytes, catalogue))
    })
    .await?;
    drop(share);
    let findings = found(&report);
    let is_damaged = !findings.is_empty();
    let mut repaired = Ok(Repaired::default());
    if is_damaged || version.is_none() {
        let event = Event::Verified { store: store.clone(), whole: version.is_none(), known, findings };
        repaired = match face.handle.ask(caller.by, event).await {
            Ok(Reply::Repaired(repaired)) => Ok(repaired),
            Ok(_) => repaired,
            Err(problem) => Err(problem),
        };
    }
    let lost = lost_of(&face, &store, version)?;
    let mut found = written(&store, report, bytes, &repaired, lost);
    found.ok &= catalogue.is_none();
    found.findings.extend(catalogue);
    if version.is_none() {
        face.verified.note(store, face.machine.believed().time, &found);
    }
    Ok(Json(found))
}

/// The versions of a store that are recorded as lost; of one version, whether it is.
fn lost_of(face: &Face, store: &StoreName, version: Option<u64>) -> Result<Vec<LostVersion>, Problem> {
    let engine = face.handle.engine();
    let history = engine.register().history(store)?;
    match version.map(|number| engine.register().entry(&VersionId { store: store.clone(), number })) {
        None => Ok(history.lost().map(lost).collect()),
        Some(entry) => match &entry?.version {
            version if version.state == State::Lost => Ok(vec![lost(version)]),
            version => version.check_readable().map(|()| Vec::new()),
        },
    }
}

fn lost(version: &Version) -> LostVersion {
    let reason = version.end.as_ref().map(|end| end.reason.clone()).unwrap_or_default();
    LostVersion { version: version.id.to_string(), reason }
}

/// What is wrong with the catalogue. Which versions that is about, nobody can say.
fn of_catalogue(file: &Path, problem: Problem) -> Finding {
    let (file, what, hint) = (file.display().to_string(), problem.detail, problem.hint);
    Finding { file, what, versions: Vec::new(), repaired: false, hint }
}

fn written(
    store: &StoreName,
    report: Report,
    bytes: u64,
    repaired: &Result<Repaired, Problem>,
    lost: Vec<LostVersion>,
) -> Verification {
    let mended = repaired.iter().flat_map(|repaired| &repaired.mended);
    Verification {
        ok: report.findings.is_empty() && lost.is_empty(),
        versions: u64::try_from(report.versions).unwrap_or(u64::MAX),
        bytes,
        findings: report.findings.into_iter().map(|finding| told(store, finding, repaired)).collect(),
        repaired: mended
            .map(|mended| RepairedFile { file: mended.file.clone(), from: mended.from.clone() })
            .collect(),
        lost,
    }
}

/// What was found, and what has become of it.
fn told(store: &StoreName, finding: asat_archive::Finding, repaired: &Result<Repaired, Problem>) -> Finding {
    let asat_archive::Finding { file, what, mut affects, advice } = finding;
    let file = file.display().to_string();
    let left = repaired.as_ref().map(|repaired| {
        let of_file = repaired.left.iter().filter(|left| left.file == file);
        of_file.map(|left| left.versions.as_slice()).collect::<Vec<_>>()
    });
    let is_repaired = left.as_ref().is_ok_and(Vec::is_empty);
    let hint = match left {
        Ok(_) if is_repaired => "it was put right; if it happens again, look at the disk".to_owned(),
        Ok(left) => {
            affects.retain(|number| left.concat().contains(number));
            format!("nothing has its content any more: {advice}")
        }
        Err(problem) if problem.code == Code::Stopping => {
            "the repair continues when the daemon runs again".to_owned()
        }
        Err(problem) => format!("it could not be put right ({problem}): {advice}"),
    };
    let name = |number| VersionId { store: store.clone(), number }.to_string();
    let versions = affects.into_iter().map(name).collect();
    Finding { file, what, versions, repaired: is_repaired, hint }
}
