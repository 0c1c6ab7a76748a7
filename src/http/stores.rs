//! `/stores`: what is watched, and what is kept of it.

use std::sync::Arc;

use asat_core::{Backing, VersionId};
use axum::Json;
use axum::extract::State as Shared;

use super::extract::{self, Segments};
use super::{Answer, Face, follow, freshness, remote};
use crate::daemon::Watched;
use asat_wire::{ArchiveStats, ArchivedVersion, LastingTrouble, ProblemBody, Store, StoreList, Watch};

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
    let now = face.machine.believed().time;
    let engine = face.handle.engine();
    let stores = engine.register().stores().map(|history| {
        let name = &history.store.name;
        let bytes = face.machine.archives().bytes(name);
        let policy = engine.policy().stores.get(name);
        let watch = face.handle.watches().read().get(name).map(watched);
        let followed = follow::written(face, name);
        let backend =
            if followed.is_some() { "bucket" } else { backend(policy.map(|policy| &policy.backing)) };
        let remote = remote::written(face, history);
        let configured = policy.is_some() || followed.is_some();
        let failed = face.handle.failures().of(name).filter(|_| configured).map(LastingTrouble::new);
        let expected = freshness::written(&engine, history, now);
        Store { expected, failed, watch, remote, followed, ..Store::new(history, backend, configured, bytes) }
    });
    StoreList { stores: stores.collect() }
}

/// How watch mode stands with a store, as it is written.
pub(super) fn watched(watched: &Watched) -> Watch {
    let Watched { value, since, asked_at, published, polls, trouble } = watched.clone();
    Watch { value, since, asked_at, published, polls, trouble: trouble.map(LastingTrouble::new) }
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
        (status = 503, description = "The daemon may open no more files", body = ProblemBody),
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
    };
    Ok(Json(ArchiveStats {
        store: store.to_string(),
        bytes: stats.bytes,
        files: u64::try_from(stats.segments).unwrap_or(u64::MAX),
        versions: stats.versions.into_iter().map(version).collect(),
    }))
}
