//! Open leases on the status page, and how they are given back there.

use std::cmp::Reverse;
use std::sync::Arc;

use asat_core::event::Event;
use asat_core::{Code, StoreName, VersionId};
use axum::extract::State;
use axum::response::Redirect;
use jiff::Timestamp;

use super::super::access::Caller;
use super::super::extract::{self, Segments};
use super::super::{Answer, Face, leases};
use super::encoded;
use super::words::Moment;
use crate::config::Role;
use asat_wire::Lease;

/// How many open leases stand on the page, those that were taken last.
const MOST: usize = 20;
/// What the audit trail says of a lease that an administrator ends on the page.
const REASON: &str = "ended on the status page";

/// The open leases.
pub(super) struct Leases {
    pub(super) rows: Vec<Row>,
    /// How many more there are.
    pub(super) more: usize,
}

/// An open lease.
pub(super) struct Row {
    pub(super) version: String,
    pub(super) holder: String,
    pub(super) actor: String,
    pub(super) granted: Moment,
    pub(super) expires: Moment,
    pub(super) path: Option<String>,
    pub(super) id: String,
    /// The request that gives it back, and its words; nothing for those who may not do that.
    pub(super) end: Option<(String, &'static str)>,
}

impl Leases {
    pub(super) fn read(face: &Face, caller: &Caller, store: Option<&StoreName>, now: Timestamp) -> Self {
        Self::newest_of(leases::open(face, store, None).leases, caller, now)
    }

    /// Those of one version.
    pub(super) fn of_version(face: &Face, caller: &Caller, id: &VersionId, now: Timestamp) -> Self {
        let (mut leases, id) = (leases::open(face, Some(&id.store), None).leases, id.to_string());
        leases.retain(|lease| lease.version == id);
        Self::newest_of(leases, caller, now)
    }

    fn newest_of(mut leases: Vec<Lease>, caller: &Caller, now: Timestamp) -> Self {
        leases.sort_by_key(|lease| Reverse(lease.granted_at));
        let more = leases.len().saturating_sub(MOST);
        Self { rows: leases.into_iter().take(MOST).map(|lease| Row::new(lease, caller, now)).collect(), more }
    }
}

impl Row {
    fn new(lease: Lease, caller: &Caller, now: Timestamp) -> Self {
        let is_own = lease.actor.as_ref().is_none_or(|actor| *actor == caller.by.actor);
        let words = if is_own { "Give back" } else { "End" };
        let href = format!("/page/leases/{}/end", encoded(&lease.lease));
        Self {
            end: (is_own || caller.role >= Role::Admin).then_some((href, words)),
            version: lease.version,
            holder: lease.holder,
            actor: lease.actor.unwrap_or_else(|| "not recorded".to_owned()),
            granted: Moment::new(lease.granted_at, now),
            expires: Moment::new(lease.expires_at, now),
            path: lease.path,
            id: lease.lease,
        }
    }
}

/// Gives a lease back, or ends somebody else's; leads back to the leases. One that has ended already is no problem.
pub(super) async fn end(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(lease): Segments<String>,
) -> Answer<Redirect> {
    face.check_own(&caller, &lease)?;
    let id = extract::lease(&lease);
    let found = face.handle.engine().register().lease(&id).cloned();
    let ended = match found {
        Some(own) if own.is_of(&caller.by) => {
            face.handle.ask(caller.by, Event::Close { version: own.version, lease: id }).await.map(drop)
        }
        Some(_) => leases::revoked(&face, caller.by, id, Some(REASON.to_owned())).await.map(drop),
        None => Ok(()),
    };
    match ended {
        Err(problem) if problem.code != Code::UnknownLease => Err(problem.into()),
        _ => Ok(Redirect::to("/#leases")),
    }
}
