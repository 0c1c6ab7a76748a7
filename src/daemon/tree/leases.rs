//! The leases of what is open in the tree.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use asat_core::event::{Event, Open, Reply};
use asat_core::version::LeaseId;
use asat_core::{Code, Problem, VersionId, VersionRef};

use crate::daemon::Handle;
use crate::daemon::handle::stopping;
use crate::daemon::machine::lock;

/// The name under which open versions are leased.
const HOLDER: &str = "fuse";

/// A lease that ends as it is dropped.
pub(super) struct Lease {
    id: LeaseId,
    leases: Arc<Leases>,
}

impl Lease {
    /// Leases a version.
    ///
    /// # Errors
    /// Where it cannot be leased.
    pub(super) fn take(leases: &Arc<Leases>, version: &VersionId) -> Result<Self, Problem> {
        let id = LeaseId(asat_host::clock::new_lease_id());
        let (sender, answer) = channel();
        // Nobody waits any more where the daemon stops.
        leases.handle.tell(leases.opening(&id, version), move |reply| drop(sender.send(reply)));
        match answer.recv().map_err(|_| stopping())?? {
            Reply::Leased(_) => {
                lock(&leases.held).insert(id.clone(), version.clone());
                Ok(Self { id, leases: Arc::clone(leases) })
            }
            other => {
                let detail = format!("a lease got another answer: {other:?}");
                Err(Problem::new(Code::Internal, detail, "report this as a defect"))
            }
        }
    }
}

impl Lease {
    /// Whether it has this name.
    pub(super) fn is(&self, id: &LeaseId) -> bool {
        self.id == *id
    }

    /// Takes note that it is over, so that it is neither renewed nor taken again.
    pub(super) fn forget(&self) {
        lock(&self.leases.held).remove(&self.id);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.end(&self.id);
    }
}

/// The leases of what is open.
pub(super) struct Leases {
    pub(super) handle: Handle,
    ttl_s: u32,
    held: Mutex<BTreeMap<LeaseId, VersionId>>,
}

impl Leases {
    /// None yet. Each one lasts for so many seconds, unless it is renewed.
    pub(super) fn new(handle: Handle, ttl_s: u32) -> Self {
        Self { handle, ttl_s, held: Mutex::default() }
    }

    /// No longer than a lease may last at the moment.
    fn ttl_s(&self) -> u32 {
        self.ttl_s.min(self.handle.engine().policy().max_ttl_s)
    }

    fn opening(&self, lease: &LeaseId, version: &VersionId) -> Event {
        Event::Open(Open {
            version: VersionRef::Exact(version.clone()),
            lease: lease.clone(),
            holder: HOLDER.to_owned(),
            ttl_s: self.ttl_s(),
            in_tree: true,
        })
    }

    /// Gives each of them its time anew.
    pub(super) fn renew(self: &Arc<Self>) {
        let ttl_s = self.ttl_s();
        for (lease, version) in lock(&self.held).clone() {
            let renewal = Event::Renew { version: version.clone(), lease: lease.clone(), ttl_s };
            // One that expired, as while the machine was asleep, is taken anew.
            let leases = Arc::clone(self);
            self.handle.tell(renewal, move |renewed| match renewed {
                Err(problem) if problem.code == Code::UnknownLease => leases.take_again(&lease, version),
                renewed => warn_of(&version, renewed),
            });
        }
    }

    fn take_again(&self, lease: &LeaseId, version: VersionId) {
        // Whoever closes it meanwhile says so after this, or has taken it from what is held.
        let held = lock(&self.held);
        if held.contains_key(lease) {
            self.handle.tell(self.opening(lease, &version), move |taken| warn_of(&version, taken));
        }
    }

    /// Ends all of them.
    pub(super) fn end_all(&self) {
        let held: Vec<LeaseId> = lock(&self.held).keys().cloned().collect();
        held.iter().for_each(|lease| self.end(lease));
    }

    fn end(&self, lease: &LeaseId) {
        let Some(version) = lock(&self.held).remove(lease) else { return };
        // One that has expired is over as well.
        self.handle.tell(Event::Close { version, lease: lease.clone() }, drop);
    }
}

/// What is open is read on in any case: the reader keeps its files.
fn warn_of(version: &VersionId, renewed: Result<Reply, Problem>) {
    if let Err(problem) = renewed {
        tracing::warn!(%version, "{version}: it is open in the tree, and its lease cannot be renewed: {problem}");
    }
}
