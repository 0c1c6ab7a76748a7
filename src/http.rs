//! The HTTP face: routes by resource, JSON in and out, problems as RFC 9457 says.
//!
//! Handlers translate: a request becomes an event for the engine or a look at its register, and what comes
//! back is written as `asat_wire` says. Nothing is decided here.

mod access;
mod answers;
mod audit;
mod capacity;
mod clock;
pub(crate) mod cursor;
mod database;
mod diff;
mod document;
mod events;
mod extract;
mod find;
mod follow;
mod freshness;
pub(crate) mod head;
mod leases;
mod metrics;
mod mounts;
mod page;
mod pins;
mod problem;
mod query;
pub(crate) mod ranges;
mod remote;
mod requests;
mod restore;
mod retention;
mod retiring;
mod route;
mod row_history;
mod snapshots;
mod status;
mod stores;
mod streamed;
mod tags;
mod verified;
mod verify;
mod versions;
mod work;

use std::sync::Arc;

use asat_core::query::Filter;
use asat_core::register::{Entry, Register};
use asat_core::version::{Lease, Publication, State as VersionState};
use asat_core::{Code, Problem, VersionId, VersionRef};
use axum::extract::DefaultBodyLimit;
use axum::{Extension, Router};
use tokio::sync::watch;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use access::Caller;
pub use access::{Access, Address, Peer, Rules, Source};
pub use answers::{Known, Pages};
pub use problem::Crowded;
use problem::Failure;
pub use query::Queries;
pub use requests::Names;
pub use status::{RefusedConfiguration, is_of_health};
pub use verified::Verified;
pub use work::Work;

use crate::daemon::{Comparisons, Handle, Machine};
use asat_wire as wire;

/// The longest request body in bytes. The longest allowed note fits several times.
const MAX_BODY: usize = 64 * 1024;

/// What every handler may use.
pub struct Face {
    /// The way to the engine.
    pub handle: Handle,
    /// The archives and the copies, to read from.
    pub machine: Arc<Machine>,
    /// What changed between versions.
    pub comparisons: Arc<Comparisons>,
    /// Turns true when the daemon begins to stop.
    pub stopping: watch::Receiver<bool>,
    /// What was answered to those who published what was known.
    pub known: Known,
    /// Pages of the list of versions.
    pub pages: Pages,
    /// Names for requests that have none.
    pub names: Names,
    /// What the last verification of each store has found.
    pub verified: Verified,
    /// Why the configuration that was read again is not in force.
    pub refused: RefusedConfiguration,
    /// What requests may have done at once.
    pub work: Work,
    /// How much queries may take.
    pub queries: Queries,
}

impl Face {
    /// The version that a path segment means, as it is written.
    fn version(&self, wanted: &str) -> Result<wire::Version, Problem> {
        let wanted: VersionRef = extract::version(wanted)?;
        let engine = self.handle.engine();
        Ok(self.shown(engine.register(), engine.register().resolve(&wanted)?))
    }

    /// The exact name of the version that a path segment means.
    fn version_id(&self, wanted: &str) -> Result<VersionId, Problem> {
        let wanted: VersionRef = extract::version(wanted)?;
        Ok(self.handle.engine().register().resolve(&wanted)?.version.id.clone())
    }

    /// A lease as it is written, with where its copy is.
    fn mount(&self, register: &Register, lease: &Lease) -> Result<wire::Mount, Problem> {
        let version = &register.entry(&lease.version)?.version;
        let path = self.machine.path(version).ok_or_else(|| {
            let detail = format!("the copy of {} is being made", version.id);
            Problem::new(Code::InUse, detail, "try again in a moment")
        })?;
        Ok(wire::Mount::new(lease, path.display().to_string()))
    }

    /// A version among others, as it is written.
    fn listed(&self, register: &Register, entry: &Entry) -> wire::Version {
        self.written(wire::Version::IN_LISTS, register, entry, None)
    }

    /// The same, with the publication that was asked for.
    fn found(&self, register: &Register, entry: &Entry, filter: &Filter) -> wire::Version {
        self.written(wire::Version::IN_LISTS, register, entry, filter.found(entry))
    }

    /// A version by itself, as it is written.
    fn shown(&self, register: &Register, entry: &Entry) -> wire::Version {
        self.written(wire::Version::SHOWN, register, entry, None)
    }

    /// What tells a list of versions from one that was written before something in it has changed.
    fn revision(&self) -> u64 {
        // Both only grow, so their sum is the same only if both are.
        self.handle.revision().wrapping_add(self.machine.remotes().revision())
    }

    fn written(
        &self,
        newest: usize,
        register: &Register,
        entry: &Entry,
        found: Option<&Publication>,
    ) -> wire::Version {
        let path = || self.machine.path(&entry.version).map(|path| path.display().to_string());
        let is_kept = entry.version.state == VersionState::Ready;
        let remote = self.machine.remotes().state(&entry.version.id).filter(|_| is_kept);
        let remote = remote.map(|state| state.text().to_owned());
        wire::Version { remote, ..wire::Version::new(newest, register, entry, found, path) }
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "asat",
        description = "Keeps a SQLite store's history as it was at each certified moment.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(wire::ProblemBody, wire::Progress))
)]
struct Document;

/// The routes of the API, each of which is served with the version before it and without.
fn api() -> OpenApiRouter<Arc<Face>> {
    OpenApiRouter::new()
        .routes(routes!(snapshots::publish))
        .routes(routes!(versions::list))
        .routes(routes!(versions::show, retiring::retire))
        .routes(routes!(retiring::plan))
        .routes(routes!(retiring::unretire))
        .routes(routes!(versions::publications))
        .routes(routes!(versions::as_of))
        .routes(routes!(versions::as_of_business_date))
        .routes(routes!(find::find))
        .routes(routes!(mounts::open_found))
        .routes(routes!(capacity::why))
        .routes(routes!(mounts::open))
        .routes(routes!(mounts::renew, mounts::close))
        .routes(routes!(leases::list))
        .routes(routes!(leases::revoke))
        .routes(routes!(audit::audit))
        .routes(routes!(database::download))
        .routes(routes!(diff::diff))
        .routes(routes!(row_history::history))
        .routes(routes!(query::query))
        .routes(routes!(pins::pin, pins::unpin))
        .routes(routes!(stores::list))
        .routes(routes!(stores::archive))
        .routes(routes!(verify::verify))
        .routes(routes!(retention::plan))
        .routes(routes!(tags::list))
        .routes(routes!(tags::tag, tags::untag))
        .routes(routes!(restore::restore))
        .routes(routes!(remote::take_over))
        .routes(routes!(remote::push))
        .routes(routes!(capacity::capacity))
        .routes(routes!(capacity::acknowledge))
        .routes(routes!(clock::clock))
        .routes(routes!(clock::accept))
        .routes(routes!(events::events))
        .routes(routes!(status::openapi))
}

/// All routes, for callers who come in by `access`.
pub fn router(face: Arc<Face>, access: Access) -> Router {
    let (newest, _) = api().split_for_parts();
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(metrics::metrics))
        .routes(routes!(status::healthz))
        .routes(routes!(status::readyz))
        .nest(route::VERSION, api())
        .split_for_parts();
    let document = document::complete(&document, &access);
    router
        .merge(newest)
        .merge(page::routes(&document, access.clone()))
        .route_layer(axum::middleware::from_fn_with_state(head::Bare::new(&document), head::check))
        .layer(Extension(status::Written::new(&document)))
        .fallback(status::not_found)
        .method_not_allowed_fallback(status::method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(axum::middleware::from_fn_with_state(access, access::check))
        .layer(axum::middleware::from_fn(page::for_people))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&face), requests::observe))
        .with_state(face)
}

/// What a handler answers.
type Answer<T> = Result<T, Failure>;
