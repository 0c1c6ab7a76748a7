//! Keeping the tree at its place, and what is open in it leased.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use asat_core::Problem;
use asat_host::tree::{Error, Serving, Tree, Watch};

use super::leases::Leases;
use super::{Mounting, Shelf};
use crate::config::Config;
use crate::daemon::{Handle, Machine, failed};

/// How long a lease lasts, in seconds, where no shorter one is the longest.
const TTL_S: u32 = 60;
/// How often it is renewed while it lasts.
const RENEWALS: u32 = 3;

/// A tree that is served, and the thread that keeps it.
pub(in crate::daemon) struct Served {
    watch: Arc<Watch>,
    stopping: Arc<AtomicBool>,
    keeping: JoinHandle<Keeper>,
}

impl Served {
    /// Begins to answer whoever looks into the tree.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(in crate::daemon) fn start(
        mut mounting: Mounting,
        handle: Handle,
        machine: Arc<Machine>,
        config: &Config,
    ) -> Result<Self, Problem> {
        let ttl_s = TTL_S.min(config.max_ttl_s);
        let (watch, stopping) = (Arc::clone(&mounting.watch), Arc::<AtomicBool>::default());
        let (leases, tree) = (Arc::new(Leases::new(handle, ttl_s)), mounting.tree.take());
        let mut keeper = Keeper { mounting, machine, leases, serving: None };
        keeper.serving = tree.map(|tree| keeper.serve(tree)).transpose()?;
        let (stop, pause) = (Arc::clone(&stopping), Duration::from_secs(ttl_s.into()) / RENEWALS);
        let keeping = Builder::new().name("tree".to_owned()).spawn(move || keeper.keep(&stop, pause));
        Ok(Self { watch, stopping, keeping: keeping.map_err(|error| failed("keep the tree", &error))? })
    }

    /// Takes the tree away, and ends what it leased: who has a file open loses it with the daemon.
    pub(in crate::daemon) fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        self.watch.ring();
        match self.keeping.join() {
            Ok(keeper) => keeper.stop(),
            Err(_) => tracing::error!("what keeps the tree ended with a panic; its leases expire"),
        }
    }
}

/// Looks after the tree.
struct Keeper {
    mounting: Mounting,
    machine: Arc<Machine>,
    leases: Arc<Leases>,
    /// What was served last, although it may be gone from its place.
    serving: Option<Serving>,
}

impl Keeper {
    fn keep(mut self, stopping: &AtomicBool, pause: Duration) -> Self {
        let mut renewal = Instant::now() + pause;
        loop {
            self.mounting.watch.wait(renewal.saturating_duration_since(Instant::now()));
            if stopping.load(Ordering::Acquire) {
                return self;
            }
            self.look();
            if Instant::now() >= renewal {
                self.machine.recent.look();
                self.leases.renew();
                renewal = Instant::now() + pause;
            }
        }
    }

    /// Sees to it that the tree is at its place, or that versions are read as copies.
    fn look(&mut self) {
        match self.serving.as_ref().map(Serving::check) {
            Some(Ok(())) => return self.read_in_tree(Ok(())),
            Some(Err(gone @ Error::Gone { .. })) if self.mounting.told == Some(Ok(())) => {
                tracing::warn!("{}", Problem::from(gone));
                self.mounting.told = None;
            }
            Some(Err(Error::Gone { .. })) | None => {}
            Some(Err(error)) => return tracing::warn!("{}", Problem::from(error)),
        }
        let mounted = self.mounting.mount().and_then(|tree| self.serve(tree));
        let there = mounted.map(|serving| {
            if let Some(gone) = self.serving.replace(serving) {
                gone.leave();
            }
        });
        self.read_in_tree(there);
    }

    /// From now on versions are read in the tree, or as copies.
    fn read_in_tree(&mut self, there: Result<(), Problem>) {
        let root = there.is_ok().then(|| self.mounting.settings.root.clone());
        self.machine.set_tree(root);
        self.mounting.tell(there);
    }

    fn serve(&self, tree: Tree<Shelf>) -> Result<Serving, Problem> {
        Ok(tree.serve(Shelf::new(Arc::clone(&self.machine), Arc::clone(&self.leases)))?)
    }

    fn stop(self) {
        if let Some(Err(error)) = self.serving.map(Serving::stop) {
            tracing::warn!("{}", Problem::from(error));
        }
        self.machine.recent.clear();
        self.leases.end_all();
    }
}
