//! Work that requests cause and that blocks a thread: so much of it at once, and of the long kinds no caller more than a share.
//!
//! All of it runs on the runtime's pool of threads, which is shared and has an end. A request that waits for its client holds none
//! of them, and public routes are answered without.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use asat_core::{Code, Problem};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

use super::Caller;
use crate::config::{Listen, QueryConfig};

/// How many threads work for requests at once. What is short waits for its turn; what is long has a share besides.
const THREADS: usize = 16;
/// How many verifications run at once: each reads as fast as it can.
const VERIFICATIONS: (usize, usize) = (4, 2);
/// How many comparisons of versions run at once, and how many row histories are read. A thread waits for its client.
const COMPARISONS: (usize, usize) = (8, 4);

/// What requests may have done at once.
pub struct Work {
    threads: Arc<Semaphore>,
    /// Versions that are sent to clients.
    pub(super) downloads: Arc<Shares>,
    /// Archives that are verified.
    pub(super) verifications: Arc<Shares>,
    /// Versions whose rows are compared.
    pub(super) comparisons: Arc<Shares>,
    /// Queries over versions.
    pub(super) queries: Arc<Shares>,
}

impl Work {
    /// As much as the configuration allows.
    #[must_use]
    pub fn new(limits: &Listen, queries: &QueryConfig) -> Self {
        let shares =
            |what, hint, (all, each)| Arc::new(Shares { what, hint, all, each, taken: Mutex::default() });
        let of_downloads = (limits.max_downloads, limits.max_downloads_per_caller);
        let more = "raise listen.max_downloads or listen.max_downloads_per_caller";
        Self {
            threads: Arc::new(Semaphore::new(THREADS)),
            downloads: shares("downloads", more, of_downloads),
            verifications: shares("verifications", "wait for one of them to end", VERIFICATIONS),
            comparisons: shares("comparisons", "wait for one of them to end", COMPARISONS),
            queries: shares("queries", "raise query.at_once", (queries.at_once, queries.at_once.div_ceil(2))),
        }
    }

    /// Does what blocks for a short time, in its turn.
    ///
    /// # Errors
    /// What the work itself answers, or that it was broken off.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let threads = Arc::clone(&self.threads);
        let in_turn = async move {
            // It is never closed.
            let turn = threads.acquire_owned().await;
            blocking(move || {
                let _turn = turn;
                work()
            })
            .await
        };
        // In a task of its own: a request whose client takes nothing is not gone on with, and would keep the turn that it waited for.
        let mut task = Task(tokio::spawn(in_turn.in_current_span()));
        (&mut task.0).await.unwrap_or_else(|error| Err(broken_off(&error)))
    }
}

/// A task that is aborted if the one that waits for it is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Does blocking work on a thread of the pool, as part of the request that caused it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let cause = tracing::Span::current();
    let done = tokio::task::spawn_blocking(move || cause.in_scope(work)).await;
    done.unwrap_or_else(|error| Err(broken_off(&error)))
}

fn broken_off(error: &JoinError) -> Problem {
    Problem::new(Code::Internal, format!("the work was broken off: {error}"), "report this as a defect")
}

/// Somebody waits for an answer, for as long as this lives.
#[derive(Default)]
pub(super) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// What becomes true when nobody waits any more.
    pub(super) fn given_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How much of one kind of long work there may be.
pub(super) struct Shares {
    what: &'static str,
    hint: &'static str,
    all: usize,
    each: usize,
    /// How many each caller has begun.
    taken: Mutex<BTreeMap<String, usize>>,
}

/// One of them, for as long as this lives.
pub(super) struct Share {
    shares: Arc<Shares>,
    who: String,
}

impl Shares {
    /// A share for one more.
    ///
    /// # Errors
    /// [`Code::Overloaded`] if the caller, or all callers together, have as many as there may be.
    pub(super) fn take(self: &Arc<Self>, caller: &Caller) -> Result<Share, Problem> {
        let who = &caller.by.actor;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, all) = (taken.get(who).copied().unwrap_or(0), taken.values().sum::<usize>());
        let refused = |detail| {
            Err(Problem::new(Code::Overloaded, detail, format!("try again in a moment, or {}", self.hint)))
        };
        if own >= self.each {
            return refused(format!("{who} has {own} {} under way, and may not have more", self.what));
        }
        if all >= self.all {
            return refused(format!("{all} {} are under way, and there may not be more", self.what));
        }
        *taken.entry(who.clone()).or_default() += 1;
        Ok(Share { shares: Arc::clone(self), who: who.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use asat_core::By;

    use super::*;
    use crate::config::Role;

    fn caller(actor: &str) -> Caller {
        Caller { role: Role::Read, by: By { actor: actor.to_owned(), request: None } }
    }

    #[test]
    fn no_caller_has_more_than_a_share_and_all_no_more_than_there_are() {
        let shares =
            Arc::new(Shares { what: "downloads", hint: "wait", all: 3, each: 2, taken: Mutex::default() });
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(caller);
        let first = shares.take(&ann).unwrap();
        let _second = shares.take(&ann).unwrap();
        let refused = |caller| shares.take(caller).err().map(|problem| (problem.code, problem.detail));
        let said = |text: &str| Some((Code::Overloaded, text.to_owned()));
        assert_eq!(refused(&ann), said("ann has 2 downloads under way, and may not have more"));
        let third = shares.take(&bob).unwrap();
        assert_eq!(refused(&eve), said("3 downloads are under way, and there may not be more"));
        drop(first);
        let _fourth = shares.take(&ann).unwrap();
        drop(third);
        assert!(shares.take(&eve).is_ok());
        assert_eq!(shares.taken.lock().unwrap().len(), 1, "who has none is not remembered");
    }
}
