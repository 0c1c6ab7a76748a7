//! The tree of versions: whether it can be had, what may be opened in it, and the leases of what is open.
//!
//! An open version holds a lease, which all who have it open share. It is short and renewed for as long as anybody has,
//! so that a daemon that is killed leaves no version held for long.

mod leases;
mod recent;
mod shelf;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use asat_core::Problem;
use asat_core::version::Lease;
use asat_host::tree::{self, Serving, Settings, Tree};

use super::{Handle, Machine};
use crate::config::Config;
use leases::Leases;
pub(super) use recent::Recent;
pub(super) use shelf::Shelf;

/// How long a lease lasts, in seconds, where no shorter one is the longest.
const TTL_S: u32 = 60;
/// How often it is renewed while it lasts.
const RENEWALS: u32 = 3;

/// Mounts the tree that the configuration asks for. Where it cannot be had, versions are read as copies, as they are
/// without that configuration.
pub(super) fn mount(config: &Config, installation: &str) -> Option<Tree<Shelf>> {
    let fuse = config.fuse.as_ref()?;
    let settings = Settings {
        root: fuse.root.clone(),
        name: tree::name(installation),
        allow_other: fuse.allow_other,
        mode: fuse.mode,
        group: fuse.group,
    };
    match Tree::mount(&settings) {
        Ok(tree) => {
            tracing::info!("versions are read below {}", settings.root.display());
            if let Err(error) = tree.read_further_ahead() {
                tracing::info!("whole versions are read a little slower at first: {}", Problem::from(error));
            }
            Some(tree)
        }
        Err(error) => {
            let Problem { detail, hint, .. } = Problem::from(error);
            tracing::warn!("versions are read as copies, not in the tree of [fuse]: {detail}; {hint}");
            None
        }
    }
}

impl Machine {
    /// Has whoever reads a version in the tree read it no longer, where it is by this lease, which was revoked.
    pub fn take_away(&self, lease: &Lease) {
        if let Some(opened) = self.recent.bar(&lease.version, |opened| opened.is_held_by(&lease.id)) {
            opened.revoke();
        }
    }
}

/// A tree that is served, and the thread that renews its leases.
pub(super) struct Served {
    serving: Serving,
    machine: Arc<Machine>,
    leases: Arc<Leases>,
    stop: Sender<()>,
    renewing: JoinHandle<()>,
}

impl Served {
    /// Begins to answer whoever looks into the tree.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn start(
        tree: Tree<Shelf>,
        handle: Handle,
        machine: Arc<Machine>,
        config: &Config,
    ) -> Result<Self, Problem> {
        let ttl_s = TTL_S.min(config.max_ttl_s);
        let leases = Arc::new(Leases::new(handle, ttl_s));
        let (stop, stopped) = channel();
        let (recent, renewed) = (Arc::clone(&machine), Arc::clone(&leases));
        let pause = Duration::from_secs(ttl_s.into()) / RENEWALS;
        let renew = move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                recent.recent.look();
                renewed.renew();
            }
        };
        let renewing = Builder::new().name("leases".to_owned()).spawn(renew);
        let renewing = renewing.map_err(|error| super::failed("renew leases", &error))?;
        let shelf = Shelf::new(Arc::clone(&machine), Arc::clone(&leases));
        Ok(Self { serving: tree.serve(shelf)?, machine, leases, stop, renewing })
    }

    /// Takes the tree away, and ends what it leased: who has a file open loses it with the daemon.
    pub(super) fn stop(self) {
        if let Err(error) = self.serving.stop() {
            tracing::warn!("{}", Problem::from(error));
        }
        drop(self.stop);
        if self.renewing.join().is_err() {
            tracing::error!("the renewal of leases ended with a panic; they expire");
        }
        self.machine.recent.clear();
        self.leases.end_all();
    }
}
