//! How stores stand to the bucket, and `POST /v1/stores/{name}/remote/push` and `…/take-over`.

use std::sync::Arc;
use std::time::Duration;

use asat_core::register::History;
use asat_core::version::State as VersionState;
use asat_core::{Code, Problem, StoreName, VersionId};
use axum::Json;
use axum::extract::State;
use tokio::time::timeout;

use super::extract::{self, Segments};
use super::{Answer, Face, work};
use crate::daemon::{RemoteAnswer, Remotes, Standing};
use asat_wire::{LastingTrouble, ProblemBody, StoreRemote};

/// How often the version that a caller waits for is checked: it may have been retired.
const LOOK: Duration = Duration::from_secs(1);

/// Has this daemon publish a store to the bucket from now on, instead of the machine that does so far; that one is fenced then.
///
/// The archive must have everything that is in the bucket: if it does not, it is restored from there first.
#[utoipa::path(
    post, path = "/stores/{name}/remote/take-over", operation_id = "take_over", tag = "stores",
    params(("name" = String, Path, description = "The store")),
    responses(
        (status = 200, description = "It is taken over", body = StoreRemote),
        (status = 400, description = "The name cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 409, description = "The archive lacks what is in the bucket, or somebody else was faster", body = ProblemBody),
        (status = 422, description = "No bucket is configured", body = ProblemBody),
        (status = 500, description = "The archive or the bucket cannot be read", body = ProblemBody),
        (status = 503, description = "The bucket does not answer, or the daemon is stopping", body = ProblemBody),
    )
)]
pub(super) async fn take_over(
    State(face): State<Arc<Face>>,
    Segments(name): Segments<String>,
) -> Answer<Json<StoreRemote>> {
    ask(&face, &name, Remotes::take_over).await
}

/// Has all of a store's archive be in the bucket now. That includes what was merged or given up and could wait for an hour, and what has
/// failed and would be tried again later. A new version needs no push: it follows by itself.
#[utoipa::path(
    post, path = "/stores/{name}/remote/push", operation_id = "push", tag = "stores",
    params(("name" = String, Path, description = "The store")),
    responses(
        (status = 200, description = "It is there", body = StoreRemote),
        (status = 400, description = "The name cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 409, description = "Somebody else publishes the store there", body = ProblemBody),
        (status = 422, description = "No bucket is configured", body = ProblemBody),
        (status = 500, description = "The archive or the bucket cannot be read", body = ProblemBody),
        (status = 503, description = "The bucket does not answer, or the daemon is stopping", body = ProblemBody),
    )
)]
pub(super) async fn push(
    State(face): State<Arc<Face>>,
    Segments(name): Segments<String>,
) -> Answer<Json<StoreRemote>> {
    ask(&face, &name, Remotes::push).await
}

/// Asks what pushes a store for something, and says how the store stands then.
async fn ask(
    face: &Face,
    name: &str,
    what: impl FnOnce(&Remotes, &StoreName) -> Result<RemoteAnswer, Problem>,
) -> Answer<Json<StoreRemote>> {
    let store = extract::store(name)?;
    face.handle.engine().register().history(&store)?;
    let answered = what(face.machine.remotes(), &store)?;
    let stopping = || Problem::new(Code::Stopping, "the daemon is stopping", "try again when it runs again");
    answered.await.unwrap_or_else(|_| Err(stopping()))?;
    let engine = face.handle.engine();
    let history = engine.register().history(&store)?;
    Ok(Json(written(face, history).ok_or_else(Remotes::no_bucket)?))
}

/// Waits until publications are in the bucket: their versions, and of a version that was there already, what was said of it now.
pub(super) async fn wait(face: &Face, publications: &[(VersionId, bool)]) -> Result<(), Problem> {
    let remotes = face.machine.remotes();
    if remotes.config().is_none() {
        return Err(Remotes::no_bucket());
    }
    let all = async {
        for (version, is_reused) in publications {
            let records = if *is_reused { keep_records(face, &version.store).await? } else { 0 };
            loop {
                match timeout(LOOK, remotes.until_stored(version, records)).await {
                    Ok(stored) => break stored?,
                    // What is given up meanwhile does not come there any more.
                    Err(_) => must_be_ready(face, version)?,
                }
            }
        }
        Ok(())
    };
    let mut stopping = face.stopping.clone();
    tokio::select! {
        stored = all => stored,
        _ = stopping.wait_for(|stopping| *stopping) => {
            let detail = "it is published, and not in the bucket yet: the daemon is stopping";
            Err(Problem::new(Code::Stopping, detail, "publish it again when the daemon runs again"))
        }
    }
}

/// Has what is recorded of a store's versions be in its archive; answers in which file.
async fn keep_records(face: &Face, store: &StoreName) -> Result<u64, Problem> {
    let (machine, store) = (Arc::clone(&face.machine), store.clone());
    work::blocking(move || machine.keep_records(&store)).await
}

fn must_be_ready(face: &Face, version: &VersionId) -> Result<(), Problem> {
    let engine = face.handle.engine();
    if engine.register().entry(version)?.version.state == VersionState::Ready {
        return Ok(());
    }
    let detail = format!("{version} was retired or lost before it was in the bucket");
    Err(Problem::new(Code::Retired, detail, "`asat show` and `asat audit` say what became of it"))
}

/// How a store stands, as it is written; nothing without a bucket.
pub(super) fn written(face: &Face, history: &History) -> Option<StoreRemote> {
    let remotes = face.machine.remotes();
    let (config, standing) = (remotes.config()?, remotes.standing(&history.store.name)?);
    let (stored, pending, oldest) = counted(history, &standing);
    let state = match (standing.is_fenced, pending) {
        (true, _) => "fenced",
        (false, 0) => "stored",
        (false, _) => "pending",
    };
    Some(StoreRemote {
        url: config.place.url.clone(),
        state: state.to_owned(),
        stored,
        pending,
        pending_since: oldest.and_then(|number| cut_at(history, number)),
        manifest: standing.manifest.as_ref().map(|head| head.number),
        bytes: standing.manifest.as_ref().map(|head| head.bytes()),
        trouble: standing.trouble.map(LastingTrouble::new),
    })
}

/// How many versions that can be opened are in the bucket, how many are not, and the oldest of these.
pub(super) fn counted(history: &History, standing: &Standing) -> (u64, u64, Option<u64>) {
    let ready = history.versions.headlines().filter(|headline| headline.state == VersionState::Ready);
    ready.fold((0, 0, None), |(stored, pending, oldest), headline| {
        if standing.stored.contains(&headline.number) {
            (stored + 1, pending, oldest)
        } else {
            (stored, pending + 1, oldest.or(Some(headline.number)))
        }
    })
}

/// When a version was cut.
pub(super) fn cut_at(history: &History, number: u64) -> Option<jiff::Timestamp> {
    let entry = history.versions.range(number..=number).next()?;
    Some(entry.version.listed_at())
}
