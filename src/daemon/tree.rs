//! The tree of versions: where it is mounted, what may be opened in it, and the leases of what is open.
//!
//! An open version holds a lease, which all who have it open share. It is short and renewed for as long as anybody has,
//! so that a daemon that is killed leaves no version held for long.

mod keeper;
mod leases;
mod recent;
mod shelf;

use std::path::PathBuf;
use std::sync::Arc;

use asat_core::Problem;
use asat_core::version::Lease;
use asat_host::tree::{self, Settings, Tree, Watch};

use super::Machine;
use crate::config::Config;
pub(super) use keeper::Served;
pub(super) use recent::Recent;
pub(super) use shelf::Shelf;

/// The tree that the configuration asks for.
pub(super) struct Mounting {
    settings: Settings,
    watch: Arc<Watch>,
    /// What is mounted and not served yet. Where it cannot be had, versions are read as copies, as they are without that
    /// configuration.
    tree: Option<Tree<Shelf>>,
    /// What the log was told last: that it is there, or why not.
    told: Option<Result<(), Problem>>,
}

impl Mounting {
    /// Mounts it, where that can be.
    ///
    /// # Errors
    /// Where the kernel does not tell what is mounted.
    pub(super) fn begin(config: &Config, installation: &str) -> Result<Option<Self>, Problem> {
        let name = tree::name(installation);
        match tree::clean(&name) {
            Ok(places) => places.iter().for_each(|place| {
                tracing::info!("{}: the tree that a daemon has left there is taken away", place.display());
            }),
            Err(error) => {
                tracing::warn!("what a daemon has left mounted stays there: {}", Problem::from(error));
            }
        }
        let Some(fuse) = &config.fuse else { return Ok(None) };
        let settings = Settings {
            root: fuse.root.clone(),
            name,
            allow_other: fuse.allow_other,
            mode: fuse.mode,
            group: fuse.group,
        };
        let mut mounting = Self { settings, watch: Arc::new(Watch::new()?), tree: None, told: None };
        let there = mounting.mount().map(|tree| mounting.tree = Some(tree));
        mounting.tell(there);
        Ok(Some(mounting))
    }

    /// The root of the tree, where it is mounted.
    pub(super) fn root(&self) -> Option<PathBuf> {
        self.tree.as_ref().map(|_| self.settings.root.clone())
    }

    fn mount(&self) -> Result<Tree<Shelf>, Problem> {
        let tree = Tree::mount(&self.settings, &self.watch)?;
        if let Err(error) = tree.read_further_ahead() {
            tracing::info!("whole versions are read a little slower at first: {}", Problem::from(error));
        }
        Ok(tree)
    }

    /// Tells where versions are read from now on, and why not in the tree where that is so.
    fn tell(&mut self, there: Result<(), Problem>) {
        if self.told.as_ref() != Some(&there) {
            match &there {
                Ok(()) => tracing::info!("versions are read below {}", self.settings.root.display()),
                Err(Problem { detail, hint, .. }) => {
                    tracing::warn!(
                        "versions are read as copies, not in the tree of [fuse]: {detail}; {hint}"
                    );
                }
            }
        }
        self.told = Some(there);
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
