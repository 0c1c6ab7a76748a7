//! `/stores`: what is watched, and whether what is kept of it is whole.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use asat_archive::Report;
use asat_core::version::{State, Version};
use asat_core::{Backing, Problem, StoreName, VersionId};
use axum::Json;
use axum::extract::State as Shared;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Parameters, Segments};
use super::work::blocking;
use super::{Answer, Caller, Face};
use crate::daemon::Watched;
use crate::wire::{
    ArchiveStats, ArchivedVersion, Finding, LostVersion, ProblemBody, Store, StoreList, Verification, Watch,
    WatchTrouble,
};

/// Lists the stores, with what is kept of each.
#[utoipa::path(
    get, path = "/stores", operation_id = "list_stores", tag = "stores",
    responses((status = 200, description = "The stores", body = StoreList))
)]
pub(super) async fn list(Shared(face): Shared<Arc<Face>>) -> Json<StoreList> {
    Json(listed(&face))
}

/// The stores as they are written.
pub(super) fn listed(face: &Face) -> StoreList {
    let engine = face.handle.engine();
    let stores = engine.register().stores().map(|history| {
        let name = &history.store.name;
        let bytes = face.machine.archive(name).map_or(0, |archive| archive.bytes());
        let policy = engine.policy().stores.get(name);
        let watch = face.handle.watches().read().get(name).map(watched);
        let backend = backend(policy.map(|policy| &policy.backing));
        Store { watch, ..Store::new(history, backend, policy.is_some(), bytes) }
    });
    StoreList { stores: stores.collect() }
}

/// How watch mode stands with a store, as it is written.
pub(super) fn watched(watched: &Watched) -> Watch {
    let Watched { value, since, asked_at, published, polls, trouble } = watched.clone();
    let trouble = trouble.map(|(Problem { code, detail, hint }, since)| WatchTrouble {
        code: code.text().0.to_owned(),
        detail,
        hint,
        since,
    });
    Watch { value, since, asked_at, published, polls, trouble }
}

/// How a store is cut, in a word.
fn backend(backing: Option<&Backing>) -> &'static str {
    match backing {
        Some(Backing::Pages) => "pages",
        Some(Backing::Volume(origin)) => origin.backend.text(),
        Some(Backing::Unusable(_)) | None => "none",
    }
}

/// Says what a store's archive takes, version by version, and what of it each version alone needs.
#[utoipa::path(
    get, path = "/stores/{name}/archive", operation_id = "archive_stats", tag = "stores",
    params(("name" = String, Path, description = "The store")),
    responses(
        (status = 200, description = "What it takes", body = ArchiveStats),
        (status = 400, description = "The name cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 500, description = "The archive cannot be read", body = ProblemBody),
    )
)]
pub(super) async fn archive(
    Shared(face): Shared<Arc<Face>>,
    Segments(name): Segments<String>,
) -> Answer<Json<ArchiveStats>> {
    let store = extract::store(&name)?;
    face.handle.engine().register().history(&store)?;
    let (machine, asked) = (Arc::clone(&face.machine), store.clone());
    let stats = face.work.run(move || machine.archive_stats(&asked)).await?;
    let version = |version: asat_archive::VersionStats| ArchivedVersion {
        id: VersionId { store: store.clone(), number: version.number }.to_string(),
        bytes: version.bytes,
        only_bytes: version.only_bytes,
        damaged: version.damaged,
    };
    Ok(Json(ArchiveStats {
        store: store.to_string(),
        bytes: stats.bytes,
        files: u64::try_from(stats.layers).unwrap_or(u64::MAX),
        retired_bytes: stats.retired_bytes,
        versions: stats.versions.into_iter().map(version).collect(),
    }))
}

/// What to verify.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyParameters {
    /// Only the version of this number, and what it needs; everything where left out.
    version: Option<u64>,
}

/// Reads what is kept of a store and compares it with its checksums, and the catalogue's records with what was committed. Pages that are damaged, and are in the store still,
/// are stored again. It may take long, and holds nobody up.
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
        (status = 503, description = "The daemon is stopping, or verifies as much as it may at once", body = ProblemBody),
    )
)]
pub(super) async fn verify(
    Shared(face): Shared<Arc<Face>>,
    caller: Caller,
    Segments(name): Segments<String>,
    Parameters(VerifyParameters { version }): Parameters<VerifyParameters>,
) -> Answer<Json<Verification>> {
    let store = extract::store(&name)?;
    let lost = {
        let engine = face.handle.engine();
        let history = engine.register().history(&store)?;
        match version.map(|number| engine.register().entry(&VersionId { store: store.clone(), number })) {
            None => history.lost().map(lost).collect(),
            Some(entry) => match &entry?.version {
                version if version.state == State::Lost => vec![lost(version)],
                version => version.check_readable().map(|()| Vec::new())?,
            },
        }
    };
    if version.is_some() && !lost.is_empty() {
        return Ok(Json(written(&store, Report::default(), 0, lost, None)));
    }
    let _share = face.work.verifications.take(&caller)?;
    let (machine, name) = (Arc::clone(&face.machine), store.clone());
    // A caller who has gone drops this, and nobody wants to know what would be found.
    let wanted = Wanted::default();
    let gone = Arc::clone(&wanted.0);
    let handle = face.handle.clone();
    let (report, bytes, catalogue) = blocking(move || {
        let (report, bytes) = machine.verify(&name, version, &gone)?;
        let catalogue = handle.verify_catalogue().map(|problem| of_catalogue(handle.catalogue(), problem));
        Ok::<_, Problem>((report, bytes, catalogue))
    })
    .await?;
    Ok(Json(written(&store, report, bytes, lost, catalogue)))
}

/// Somebody waits for the answer, for as long as this lives.
#[derive(Default)]
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lost(version: &Version) -> LostVersion {
    let reason = version.end.as_ref().map(|end| end.reason.clone()).unwrap_or_default();
    LostVersion { version: version.id.to_string(), reason }
}

/// What is wrong with the catalogue. Which versions that is about, nobody can say.
fn of_catalogue(file: &Path, problem: Problem) -> Finding {
    let (file, what, hint) = (file.display().to_string(), problem.detail, problem.hint);
    Finding { file, what, versions: Vec::new(), hint }
}

fn written(
    store: &StoreName,
    report: Report,
    bytes: u64,
    lost: Vec<LostVersion>,
    catalogue: Option<Finding>,
) -> Verification {
    let name = |number| VersionId { store: store.clone(), number }.to_string();
    let finding = |finding: asat_archive::Finding| Finding {
        file: finding.file.display().to_string(),
        what: finding.what,
        versions: finding.affects.into_iter().map(name).collect(),
        hint: finding.advice,
    };
    Verification {
        ok: report.findings.is_empty() && lost.is_empty() && catalogue.is_none(),
        versions: u64::try_from(report.versions).unwrap_or(u64::MAX),
        bytes,
        findings: report.findings.into_iter().map(finding).chain(catalogue).collect(),
        lost,
    }
}
