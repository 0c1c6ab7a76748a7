//! The archives of all stores, and their versions as they were certified.

mod certified;
mod held;
mod note;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use asat_archive::{Archive, Error};
use asat_core::{Code, Problem, StoreName};

use super::{Follows, Handle};
use crate::config::Config;
pub(super) use certified::{ADVICE, of_another_history};
pub(super) use held::HeldByArchives;
pub(super) use note::{Note, describe};

/// The archives of one state folder, or of the bucket that is followed.
pub struct Archives {
    known: RwLock<Known>,
    follows: Arc<Follows>,
    /// The way to what was certified; the archives are opened before there is one.
    records: OnceLock<Handle>,
}

/// The archives by their stores, and why some have none.
#[derive(Default)]
struct Known {
    open: BTreeMap<StoreName, Arc<Archive>>,
    /// Those of which no file can be read. Another history must not begin in their place, and the other stores are kept all the same.
    unread: BTreeMap<StoreName, Problem>,
}

impl Archives {
    /// Opens the archive of every store that is configured, or that has one.
    ///
    /// # Errors
    /// If one cannot be opened for another reason than damage.
    pub(super) fn open(config: &Config, follows: &Arc<Follows>) -> Result<Self, Problem> {
        let follows = Arc::clone(follows);
        if follows.config().is_some() {
            return Self::of_bucket(config, follows);
        }
        let mut names: BTreeSet<StoreName> = config.stores.keys().cloned().collect();
        names.extend(asat_archive::stores_in(&config.archives())?);
        let mut known = Known::default();
        for name in names {
            match open(config, &name) {
                Ok(archive) => _ = known.open.insert(name, archive),
                Err(error) if error.is_loss() => {
                    let problem = refused(&name, error);
                    tracing::error!(store = %name, "{problem}");
                    known.unread.insert(name, problem);
                }
                Err(error) => return Err(refused(&name, error)),
            }
        }
        Ok(Self { known: RwLock::new(known), follows, records: OnceLock::new() })
    }

    /// None yet: they are opened when the bucket answers.
    fn of_bucket(config: &Config, follows: Arc<Follows>) -> Result<Self, Problem> {
        if let Some(store) = asat_archive::stores_in(&config.archives())?.first() {
            let detail = format!("{} has an archive of {store} of its own", config.state.display());
            let hint =
                "give an asat that follows a bucket a state folder of its own: `state` in its configuration";
            return Err(Problem::new(Code::Configuration, detail, hint));
        }
        Ok(Self { known: RwLock::default(), follows, records: OnceLock::new() })
    }

    /// Has a store's archive be read from the bucket from now on.
    pub(super) fn follow(&self, store: &StoreName, archive: &Archive) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.open.entry(store.clone()).or_insert_with(|| Arc::new(archive.clone()));
    }

    /// Whether they are those of a bucket, which others write.
    #[must_use]
    pub fn are_followed(&self) -> bool {
        self.follows.config().is_some()
    }

    /// Opens the archive of a store that was added to the configuration, unless it is open already.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn add(&self, config: &Config, name: &StoreName) -> Result<(), Problem> {
        let open = |_| open(config, name).map_err(|error| refused(name, error));
        let archive = self.of(name).or_else(open)?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).open.insert(name.clone(), archive);
        Ok(())
    }

    /// Holds versions against these records from now on.
    pub(super) fn hold_against(&self, records: Handle) {
        // There is one driver for as long as the archives are open.
        let _ = self.records.set(records);
    }

    /// A store's archive.
    ///
    /// # Errors
    /// [`Code::UnknownStore`]; [`Code::Damaged`] if no file of it can be read.
    pub fn of(&self, store: &StoreName) -> Result<Arc<Archive>, Problem> {
        let known = self.known();
        let missing = || {
            Problem::new(Code::UnknownStore, format!("store {store} has no archive"), "restart the daemon")
        };
        let why = || known.unread.get(store).cloned().or_else(|| self.follows.unseen(store));
        known.open.get(store).cloned().ok_or_else(|| why().unwrap_or_else(missing))
    }

    /// What a store's archive takes, in bytes; nothing if it has none.
    #[must_use]
    pub fn bytes(&self, store: &StoreName) -> u64 {
        self.of(store).map_or(0, |archive| archive.bytes())
    }

    /// The stores that have an archive.
    pub(super) fn stores(&self) -> Vec<StoreName> {
        self.known().open.keys().cloned().collect()
    }

    /// The archives of which no file can be read, and why.
    pub(super) fn unreadable(&self) -> BTreeMap<StoreName, Problem> {
        self.known().unread.clone()
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a store's archive, and makes it if there is none.
fn open(config: &Config, name: &StoreName) -> Result<Arc<Archive>, Error> {
    let (archive, opened) = Archive::open(&config.archive(name))?;
    if !opened.removed.is_empty() {
        tracing::info!(store = %name, files = ?opened.removed, "{name}: removed what a crash had left");
    }
    for error in archive.unread() {
        tracing::warn!(store = %name, %error, "{name}: a file of its archive cannot be read: {error}");
    }
    if !opened.foreign.is_empty() {
        tracing::warn!(store = %name, files = ?opened.foreign, "{name}: left alone what is not the archive's");
    }
    Ok(Arc::new(archive))
}

/// Why an archive cannot be opened. If none of its files can be read, asat asks somebody first: it would begin an empty one.
fn refused(name: &StoreName, error: Error) -> Problem {
    let is_loss = error.is_loss();
    let problem = Problem::from(error);
    if !is_loss {
        return problem;
    }
    let detail = format!("no file of the archive of {name} can be read: {}", problem.detail);
    let hint = "put the files back from a backup, or move them out of their folder to go on without these versions, and start asat \
                again (docs/recover.md)";
    Problem::new(problem.code, detail, hint)
}
