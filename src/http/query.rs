//! `POST /v1/query`: one query over as many moments as one likes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use asat_core::event::{Event, Open, Reply};
use asat_core::version::{Lease, LeaseId, State as VersionState};
use asat_core::{By, Code, Problem, StoreName, VersionId, VersionRef};
use asat_host::query::{Asked, Attached, Bounds};
use asat_rows::query::{Moment, Named, Query, read};
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;

use super::extract::{self, Body};
use super::work::Wanted;
use super::{Answer, Caller, Face, streamed};
use crate::config::QueryConfig;
use crate::daemon::{Changes, Handle};
use asat_wire::{ProblemBody, QueryLine, QueryRequest};

/// How much longer than the query its versions are leased.
const BESIDES: Duration = Duration::from_secs(120);

/// Answers a query over versions.
///
/// In front of a table, `report@12`, `report@latest` or `"report@month-end"` stands for a version; `report` alone is the newest one. Between
/// two versions, `report@11..12.diff_valuation` has the rows that differ, with `op`, `from_COLUMN` and `to_COLUMN`. `report.diff_valuation` has
/// those between all neighbours, and `report.history_valuation` each state of each row, with `valid_from` and `valid_to`.
///
/// The answer has a line for the names of the columns, one for each row, an array, and one for the end. Values are as in JSON; a blob is
/// `{"hex":"00ff"}`. Nothing can be written.
#[utoipa::path(
    post, path = "/query", tag = "changes", request_body = QueryRequest,
    responses(
        (status = 200, description = "The rows", content((QueryLine = "application/x-ndjson"))),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "A version cannot be read, or not yet", body = ProblemBody),
        (status = 410, description = "A version was retired", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "The query cannot be answered", body = ProblemBody),
        (status = 429, description = "As many leases are open as may be", body = ProblemBody),
        (status = 500, description = "Stored data is damaged", body = ProblemBody),
        (status = 503, description = "As many queries are answered as may be at once, or the daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room for a copy", body = ProblemBody),
    )
)]
pub(super) async fn query(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Body(request): Body<QueryRequest>,
) -> Answer<Response> {
    let bounds = bounds(&face, &request)?;
    let query = face.read(&request.sql)?;
    let share = face.work.queries.take(&caller)?;
    let mut parts = Parts::default();
    for (name, named) in query.named {
        face.find(&name, &named, &mut parts).await?;
    }
    // In a task of its own: a caller who leaves while a version is opened would leave its lease behind.
    let (leasing, versions) = (Arc::clone(&face), parts.versions);
    let task = tokio::spawn(async move { leasing.lease_all(versions, caller.by, bounds.time).await });
    let leased = task.await.map_err(|error| {
        Problem::new(
            Code::Internal,
            format!("the versions could not be leased: {error}"),
            "report this as a defect",
        )
    })?;
    let (mut attached, mut leases) = leased?;
    let (comparisons, wanted, sql) = (Arc::clone(&face.comparisons), Wanted::default(), query.sql);
    let given_up = wanted.given_up();
    let most_rows = face.queries.bounds.max_rows;
    streamed::answer("application/x-ndjson", share, wanted, move |out| {
        let workspace = comparisons.workspace(bounds.disk_bytes)?;
        let mut made = Vec::new();
        for (name, changes) in parts.changes {
            let tables = comparisons.made_up(&changes, most_rows, &workspace, &given_up)?;
            attached.push(Attached { name, path: tables.path().to_owned() });
            made.push(tables);
        }
        let bounds = Bounds { disk_bytes: workspace.left()?, ..bounds };
        let answered = comparisons.query(&Asked { sql, attached, bounds }, &workspace, &given_up, out);
        // Who has the answer finds no lease of it.
        leases.give_back().iter().for_each(|recorded| _ = recorded.recv());
        answered
    })
    .await
}

/// How much queries may take, as the configuration says.
#[derive(Clone, Copy, Debug)]
pub struct Queries {
    /// Of rows, time and memory.
    pub bounds: QueryConfig,
    /// The longest time for which a lease is granted, in seconds.
    pub max_ttl_s: u32,
}

/// What is attached for a query.
#[derive(Default)]
struct Parts {
    versions: Vec<(String, VersionId)>,
    changes: Vec<(String, Changes)>,
}

/// How much the query may take, which is at most what the configuration allows.
fn bounds(face: &Face, request: &QueryRequest) -> Result<Bounds, Problem> {
    let most = &face.queries.bounds;
    let refused = |detail: String| Err(Problem::new(Code::Invalid, detail, "ask for more than nothing"));
    let seconds = request.timeout_seconds.map(Duration::from_secs);
    if request.limit == Some(0) || seconds == Some(Duration::ZERO) {
        return refused("limit and timeout_seconds are at least 1".to_owned());
    }
    Ok(Bounds {
        rows: request.limit.unwrap_or(most.max_rows).min(most.max_rows),
        time: seconds.unwrap_or(most.max_time).min(most.max_time),
        memory_bytes: most.max_memory_bytes,
        disk_bytes: most.max_disk_bytes,
    })
}

impl Face {
    /// Reads which versions a query names.
    fn read(&self, sql: &str) -> Result<Query, Problem> {
        let stores: Vec<String> = {
            let engine = self.handle.engine();
            engine.register().stores().map(|history| history.store.name.to_string()).collect()
        };
        read(sql, &stores).map_err(|why| {
            Problem::new(
                Code::Invalid,
                format!("the query: {why}"),
                "name versions as in report@12.valuation",
            )
        })
    }

    /// Finds what a query names.
    async fn find(&self, name: &str, named: &Named, parts: &mut Parts) -> Result<(), Problem> {
        let store = extract::store(&named.store)?;
        let numbers = match &named.moment {
            Moment::At(moment) => {
                let wanted: VersionRef = extract::version(&format!("{store}@{moment}"))?;
                let id = self.handle.engine().register().resolve(&wanted)?.version.id.clone();
                parts.versions.push((name.to_owned(), id));
                return Ok(());
            }
            Moment::Between(from, to) => {
                let from = self.archived(&format!("{store}@{from}")).await?;
                (from.number, self.archived(&format!("{store}@{to}")).await?.number)
            }
            Moment::All => (0, u64::MAX),
        };
        let of_two = matches!(named.moment, Moment::Between(..));
        let versions = self.between(&store, numbers)?;
        parts.changes.push((name.to_owned(), Changes { versions, tables: made_up(&named.tables), of_two }));
        Ok(())
    }

    /// The versions of a store that can be read, from one number to another, which may be the lower one.
    fn between(
        &self,
        store: &StoreName,
        (from, to): (u64, u64),
    ) -> Result<Vec<(VersionId, Timestamp)>, Problem> {
        let engine = self.handle.engine();
        let versions = engine.register().history(store)?.versions.range(from.min(to)..=from.max(to));
        let mut found: Vec<_> = versions
            .map(|entry| &entry.version)
            .filter(|version| version.state == VersionState::Ready && version.is_archived())
            .filter_map(|version| Some((version.id.clone(), version.content.as_ref()?.cut_at)))
            .collect();
        if from > to {
            found.reverse();
        }
        Ok(found)
    }

    /// Leases the versions that a query names.
    async fn lease_all(
        &self,
        versions: Vec<(String, VersionId)>,
        by: By,
        time: Duration,
    ) -> Result<(Vec<Attached>, Leases), Problem> {
        let mut leases = Leases { handle: self.handle.clone(), by: by.clone(), open: Vec::new() };
        let mut attached = Vec::new();
        for (name, id) in versions {
            attached.push(Attached { name, path: self.lease(&id, &by, time, &mut leases).await? });
        }
        Ok((attached, leases))
    }

    /// Leases a version for a query; answers where its file is.
    async fn lease(
        &self,
        id: &VersionId,
        by: &By,
        time: Duration,
        leases: &mut Leases,
    ) -> Result<PathBuf, Problem> {
        let lease = LeaseId(asat_host::clock::new_lease_id());
        let ttl_s = u32::try_from((time + BESIDES).as_secs()).unwrap_or(u32::MAX).min(self.queries.max_ttl_s);
        let holder = format!("query of {}", by.actor);
        let in_tree = self.machine.has_tree();
        let open = Open { version: VersionRef::Exact(id.clone()), lease, holder, ttl_s, in_tree };
        let Reply::Leased(lease) = self.handle.ask(by.clone(), Event::Open(open)).await? else {
            return Err(Problem::new(
                Code::Internal,
                "a lease got another answer",
                "report this as a defect",
            ));
        };
        let engine = self.handle.engine();
        let path = self.machine.path(&engine.register().entry(&lease.version)?.version);
        drop(engine);
        leases.open.push(lease);
        path.ok_or_else(|| {
            Problem::new(Code::InUse, format!("the copy of {id} is being made"), "try again in a moment")
        })
    }
}

/// The tables of what changed among those that stand behind a name.
fn made_up(tables: &BTreeSet<String>) -> BTreeSet<String> {
    tables.iter().map(|table| table.to_ascii_lowercase()).collect()
}

/// The leases of a query, which are given back as it ends.
struct Leases {
    handle: Handle,
    by: By,
    open: Vec<Lease>,
}

impl Leases {
    /// Gives them back; answers with what tells when that is recorded.
    fn give_back(&mut self) -> Vec<Receiver<()>> {
        self.open.drain(..).map(|lease| self.handle.close(self.by.clone(), lease)).collect()
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.give_back();
    }
}
