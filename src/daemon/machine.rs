//! The machine: performs the engine's effects with the stores, the archives and the cache of as-at copies.
//!
//! It decides nothing. Each method does what one effect says and reports what came of it.

mod cut;
mod restore;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use asat_archive::{Archive, Report};
use asat_core::event::{Archived, Described, Effect, Outcome, Retired, Survey};
use asat_core::register::Register;
use asat_core::version::{Attributes, Content, Holding};
use asat_core::{Code, Host, Problem, StoreName, VersionId};
use asat_host::copies::Copies;
use asat_host::scratch::Scratch;
use asat_host::store::Limits;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::driver::{Notice, Notices};
use super::progress::Meter;
use crate::config::Config;

/// How much compaction writes between two looks whether the daemon stops.
const COMPACT_BYTES: u64 = 64 * 1024 * 1024;

/// The stores, archives and copies of one state folder.
pub struct Machine {
    stores: BTreeMap<StoreName, (PathBuf, Limits)>,
    archives: BTreeMap<StoreName, Archive>,
    copies: Copies,
    /// Where versions lie while a store is brought back to them.
    scratch: PathBuf,
    notices: Notices,
    last_cuts: Mutex<BTreeMap<StoreName, Timestamp>>,
    stopping: AtomicBool,
}

/// What a pack says of the publication that it was made for, so that a lost catalogue can be rebuilt.
#[derive(Serialize, Deserialize)]
struct Note {
    attributes: Attributes,
    key: Option<String>,
}

impl Machine {
    /// Opens every archive that the configuration or the state folder names.
    ///
    /// # Errors
    /// Where an archive cannot be opened.
    pub fn open(config: &Config, notices: Notices) -> Result<Self, Problem> {
        let mut names: Vec<StoreName> = config.stores.keys().cloned().collect();
        names.extend(asat_archive::stores_in(&config.archives())?);
        let mut archives = BTreeMap::new();
        for name in names {
            if archives.contains_key(&name) {
                continue;
            }
            let (archive, opened) = Archive::open(&config.archive(&name))?;
            if !opened.removed.is_empty() {
                tracing::info!(store = %name, files = ?opened.removed, "removed what a crash had left");
            }
            if !opened.foreign.is_empty() {
                tracing::warn!(store = %name, files = ?opened.foreign, "left alone what is not the archive's");
            }
            archives.insert(name, archive);
        }
        let limits = |name: &StoreName| {
            let store = config.stores.get(name)?;
            Some((store.path.clone(), Limits { busy: store.busy_timeout, hold: store.max_hold }))
        };
        let stores = config.stores.keys().filter_map(|name| Some((name.clone(), limits(name)?))).collect();
        let copies = Copies::new(config.copies());
        Scratch::clean(&config.scratch())?;
        Ok(Self {
            stores,
            archives,
            copies,
            scratch: config.scratch(),
            notices,
            last_cuts: Mutex::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// A store's archive.
    ///
    /// # Errors
    /// [`Code::UnknownStore`].
    pub fn archive(&self, store: &StoreName) -> Result<&Archive, Problem> {
        self.archives.get(store).ok_or_else(|| {
            Problem::new(Code::UnknownStore, format!("store {store} has no archive"), "restart the daemon")
        })
    }

    /// Where a version's as-at copy is, or would be.
    #[must_use]
    pub fn copy_path(&self, version: &VersionId) -> PathBuf {
        self.copies.path(version)
    }

    /// Verifies what is kept of a store, or what one version of it needs; answers also how many bytes were read.
    ///
    /// # Errors
    /// Where the archive cannot be read at all, or the daemon stops.
    pub fn verify(&self, store: &StoreName, number: Option<u64>) -> Result<(Report, u64), Problem> {
        let archive = self.archive(store)?;
        let mut meter = Meter::new(store.to_string(), "verify", "bytes", |progress| self.tell(progress));
        let mut read = 0;
        let report = archive.verify(number, &mut |done, total| {
            read = done;
            meter.expect(total);
            meter.reach(done);
            if self.stopping.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok((report, read))
    }

    fn make_copy(&self, id: &VersionId) -> Result<u64, Problem> {
        let reader = self.archive(&id.store)?.read(id.number)?;
        let path = self.copies.path(id);
        let mut meter = Meter::new(id.to_string(), "copy", "bytes", |progress| self.tell(progress));
        meter.expect(reader.len());
        let meter = Mutex::new(meter);
        let told = |done| meter.lock().unwrap_or_else(PoisonError::into_inner).reach(done);
        self.copies.make(id, reader.len(), |file| Ok(reader.write_to_file(file, &path, &told)?))
    }

    fn retire(&self, id: &VersionId) -> Result<Retired, Problem> {
        Ok(match self.archive(&id.store)?.retire(id.number)? {
            asat_archive::Retired::Retired { freed_bytes, worth_compacting } => {
                Retired { freed_bytes, worth_compacting }
            }
            asat_archive::Retired::AlreadyGone => Retired { freed_bytes: 0, worth_compacting: false },
        })
    }

    /// Compacts in steps, so that a stop does not have to wait for a large archive.
    fn compact(&self, store: &StoreName) -> Result<(), Problem> {
        let archive = self.archive(store)?;
        while archive.compact(Some(COMPACT_BYTES))?.more {
            if self.stopping.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    fn describe(&self, id: &VersionId) -> Result<Described, Problem> {
        let archive = self.archive(&id.store)?;
        let meta = archive.describe(id.number)?;
        let note: Note = serde_json::from_value(meta.note.clone()).map_err(|error| {
            let detail = format!("the pack of {id} says nothing readable of its publication: {error}");
            Problem::new(Code::Damaged, detail, "move the pack out of the archive, and restart")
        })?;
        let content = Content {
            cut_at: meta.cut_at,
            fingerprint: meta.fingerprint,
            page_size: meta.page_size,
            page_count: meta.page_count,
            wal: meta.wal,
        };
        let bytes = archive.stored_bytes(id.number).unwrap_or(0);
        Ok(Described { content, bytes, attributes: note.attributes, key: note.key })
    }

    fn tell(&self, progress: crate::wire::Progress) {
        // Nobody has to listen.
        let _ = self.notices.send(Notice::Progress(progress));
    }
}

impl Host for Machine {
    fn now(&self) -> Timestamp {
        asat_host::clock::now()
    }

    fn survey(&self, register: &Register) -> Result<Survey, Problem> {
        let known = |id: &VersionId| {
            let entry = register.entry(id).ok();
            entry.is_some_and(|e| e.version.holdings.iter().any(|h| matches!(h, Holding::Archive { .. })))
        };
        let mut archived = Vec::new();
        for (store, archive) in &self.archives {
            for number in archive.live() {
                let version = VersionId { store: store.clone(), number };
                let described = if known(&version) { None } else { Some(self.describe(&version)?) };
                archived.push(Archived { version, described });
            }
        }
        Ok(Survey { archived, copies: self.copies.survey()? })
    }

    fn perform(&self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Cut { version, attributes, key, after, .. } => {
                let note = Note { attributes: attributes.clone(), key: key.clone() };
                Outcome::Cut(self.cut(version, &note, *after))
            }
            Effect::Restore { version, before, .. } => Outcome::Restore(self.restore(version, before)),
            Effect::Retire { version } => Outcome::Retire(self.retire(version)),
            Effect::Compact { store } => Outcome::Compact(self.compact(store)),
            Effect::MakeCopy { version, .. } => Outcome::MakeCopy(self.make_copy(version)),
            Effect::DropCopy { version } => {
                Outcome::DropCopy(self.copies.drop_copy(version).map_err(Problem::from))
            }
        }
    }

    fn undo(&self, effect: &Effect) -> Result<(), Problem> {
        match effect {
            Effect::Cut { version, .. } => self.retire(version).map(drop),
            Effect::MakeCopy { version, .. } => Ok(self.copies.drop_copy(version)?),
            // The others are done again at the next start.
            _ => Ok(()),
        }
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}
