//! What is here already of a store whose history is taken in, and what is stored and recorded beside it.

use std::ops::ControlFlow;

use asat_archive::{Archive, Contents, Cut, Kept, Meta, Rebuild};
use asat_core::audit::{Action, Deed};
use asat_core::event::Change;
use asat_core::register::Register;
use asat_core::snapshot::Cost;
use asat_core::version::{Attributes, Content, Holding, Publication, State, Store, Version};
use asat_core::{By, Code, Problem, StoreName};
use jiff::Timestamp;

use super::folder::{self, Exported, Said};
use crate::daemon::archives::Note;

/// What is here already.
pub(super) struct History {
    pub(super) register: Register,
    pub(super) archive: Archive,
}

/// How a version that was exported stands here.
pub(super) enum Presence {
    New,
    /// It is recorded, and its pages are gone.
    Gone(Box<Version>),
    Here,
}

impl History {
    /// Refuses a store of which something is under way: the daemon has to end that first.
    pub(super) fn check_settled(&self, store: &StoreName, versions: &[Exported]) -> Result<(), Problem> {
        let known = self.register.history(store).ok();
        let of_store = |id: &asat_core::VersionId| id.store == *store;
        let open = self.register.intents().any(|intent| intent.effect.version().is_some_and(of_store));
        let mut here = known.iter().flat_map(|history| history.versions.values()).map(|entry| &entry.version);
        let hot = here.any(|version| version.state == State::Ready && !version.is_archived());
        let is_known = |number: &u64| known.is_some_and(|history| history.versions.get(*number).is_some());
        // One that an import has stored and not recorded is taken up again.
        let is_ours = |number: &u64| {
            let ours = versions.iter().find(|version| version.id.number == *number);
            ours.is_some_and(|version| self.is_stored(version))
        };
        let unknown = self.archive.live().iter().any(|number| !is_known(number) && !is_ours(number));
        if !(open || hot || unknown) {
            return Ok(());
        }
        let detail = format!("the last run of the daemon has left something of {store} to be done");
        let hint = "start the daemon, wait until every version is archived, stop it and import again";
        Err(Problem::new(Code::InUse, detail, hint))
    }

    /// Whether the archive has exactly this version, with each of its pages.
    fn is_stored(&self, version: &Exported) -> bool {
        let number = version.id.number;
        let is_same = self.archive.describe(number).is_ok_and(|meta| {
            meta.fingerprint == version.fingerprint && meta.cut_at == version.content.cut_at
        });
        is_same && self.archive.read(number).and_then(|reader| reader.fingerprint()).is_ok()
    }

    /// Whether a version is to be taken in, or is there; refuses one that fits neither way.
    pub(super) fn standing(&self, version: &Exported) -> Result<Presence, Problem> {
        let id = &version.id;
        let refused = |why: String| {
            let hint = "nothing was imported; export a range that begins after what is here";
            Err(Problem::new(Code::Invalid, format!("{id} {why}"), hint))
        };
        let Ok(history) = self.register.history(&id.store) else { return Ok(Presence::New) };
        if let Some(entry) = history.versions.get(id.number) {
            let Version { state, content, .. } = &entry.version;
            let same = |content: &Content| {
                content.cut_at == version.content.cut_at && content.fingerprint == version.content.fingerprint
            };
            return match (state, content) {
                (State::Ready | State::Lost, Some(content)) if same(content) => {
                    Ok(self.standing_of_known(version, &entry.version))
                }
                (State::Ready, _) | (State::Lost, Some(_)) => {
                    refused("is here already, with another content".to_owned())
                }
                (State::Lost, None) => refused("is lost here, and what it was is not known".to_owned()),
                (state, _) => refused(format!("is here already, and {}", state.text())),
            };
        }
        let newest = history.next_number() - 1;
        if id.number <= newest {
            return refused(format!("is not here, and {}@{newest} is, which is newer", id.store));
        }
        let cuts = history.versions.values().filter_map(|entry| entry.version.content.as_ref());
        match cuts.map(|content| content.cut_at).max() {
            Some(last) if last >= version.content.cut_at => {
                refused(format!("was cut before {last}, the instant of the last cut here"))
            }
            _ => Ok(Presence::New),
        }
    }

    /// Whether the pages of a version that is recorded are there, or are put back.
    fn standing_of_known(&self, version: &Exported, record: &Version) -> Presence {
        let is_here = record.state == State::Ready && self.is_stored(version);
        if is_here { Presence::Here } else { Presence::Gone(Box::new(record.clone())) }
    }

    /// Stores a version whose pages are gone; answers what is to be recorded of it.
    pub(super) fn put_back(
        &self,
        version: &Exported,
        record: Version,
        by: &By,
    ) -> Result<Vec<Change>, Problem> {
        let bytes = self.stored_bytes_again(version)?;
        let recovered = (record.state == State::Lost).then(|| {
            let now = asat_host::clock::now();
            let deed = Deed::new(now, by.clone(), Action::Recover, version.id.clone());
            Change::Noted(Box::new(deed))
        });
        let others = record.holdings.iter().filter(|holding| !matches!(holding, Holding::Archive { .. }));
        let holdings = others.cloned().chain([Holding::Archive { bytes }]).collect();
        let ready = Change::Version(Box::new(Version { state: State::Ready, end: None, holdings, ..record }));
        Ok(recovered.into_iter().chain([ready]).chain(self.publications(version)).collect())
    }

    /// Has files that were damaged written once more, as far as what is put back lets all of them come out.
    pub(super) fn put_in_order(&self) -> Result<(), Problem> {
        let report = self.archive.verify(None, &mut |_, _| ControlFlow::Continue(()))?;
        self.archive.repair(&report.damage, &Contents::new(), &mut |_| ControlFlow::Continue(()))?;
        Ok(())
    }

    /// Stores a version; answers what is to be recorded of it.
    pub(super) fn take_in(&self, version: &Exported, store: &Store) -> Result<Vec<Change>, Problem> {
        let bytes = self.stored_bytes(version)?;
        let begun_at = version.publications.first().map_or(version.content.cut_at, |said| said.at);
        let ready = Version {
            id: version.id.clone(),
            state: State::Ready,
            begun_at,
            content: Some(version.content.clone()),
            holdings: vec![Holding::Archive { bytes }],
            copy: None,
            pin: None,
            end: None,
        };
        let is_added = self.register.history(&store.name).is_err().then(|| Change::Store(store.clone()));
        let ready = Change::Version(Box::new(ready));
        Ok(is_added.into_iter().chain([ready]).chain(self.publications(version)).collect())
    }

    /// What the pages take in the archive, where they are written unless they are there.
    fn stored_bytes(&self, version: &Exported) -> Result<u64, Problem> {
        match self.archive.stored_bytes(version.id.number) {
            Some(bytes) => Ok(bytes),
            None => self.write(version),
        }
    }

    /// The same for a version of which what is left is of no use, and above which others may be stored.
    fn stored_bytes_again(&self, version: &Exported) -> Result<u64, Problem> {
        let number = version.id.number;
        if self.archive.ends_below(number) {
            return self.write(version);
        }
        if !self.is_stored(version) {
            let Exported { content: Content { page_size, page_count, .. }, fingerprint, .. } = *version;
            let Cut { store, cut_at, wal, note, .. } = cut_of(version)?;
            let meta = Meta { store, number, page_size, page_count, fingerprint, wal, cut_at, note };
            let copy =
                |rebuild: &mut Rebuild| folder::pages(version, |_, page| Ok(rebuild.page(page)?)).map(drop);
            self.archive.put_back(meta, false, copy)?.ok_or_else(|| has_changed(version))?;
        }
        Ok(self.archive.stored_bytes(number).unwrap_or(0))
    }

    /// Writes the pages into the archive; answers what they take there.
    fn write(&self, version: &Exported) -> Result<u64, Problem> {
        let content = &version.content;
        let mut writer = self.archive.begin(version.id.number, content.page_size, content.page_count)?;
        let found = folder::pages(version, |number, page| Ok(writer.page(number, page)?))?;
        if found != version.fingerprint {
            return Err(has_changed(version));
        }
        match writer.finish(cut_of(version)?)? {
            Kept::Stored { bytes, .. } => Ok(bytes),
            Kept::Unchanged { .. } => {
                let what = format!("{} was not stored", version.id);
                Err(Problem::new(Code::Internal, what, "report this as a defect"))
            }
        }
    }

    /// Those publications of a version that are not recorded.
    pub(super) fn publications(&self, version: &Exported) -> Vec<Change> {
        let entry = self.register.entry(&version.id).ok();
        let known: Vec<(Timestamp, &Attributes)> = entry
            .iter()
            .flat_map(|entry| &entry.publications)
            .map(|publication| (publication.at, &publication.attributes))
            .collect();
        let missing =
            version.publications.iter().filter(|said| !known.contains(&(said.at, &said.attributes)));
        let numbered = missing.zip(self.register.next_publication()..);
        let publication = |(said, number): (&Said, u64)| {
            let first = version.publications.first().is_some_and(|first| first.at == said.at);
            Change::Published(Publication {
                number,
                version: version.id.clone(),
                at: said.at,
                attributes: said.attributes.clone(),
                key: None,
                of_set: said.of_set.clone(),
                reused: !first,
                cost: Cost::default(),
                elapsed_us: 0,
                checks: said.checks.clone(),
            })
        };
        numbered.map(publication).collect()
    }
}

/// What is known of a version beside its pages.
fn cut_of(version: &Exported) -> Result<Cut, Problem> {
    let note = version.publications.first().map_or_else(Note::default, |said| Note {
        attributes: said.attributes.clone(),
        key: None,
        checks: said.checks.clone(),
        of_set: said.of_set.clone(),
    });
    let note = serde_json::to_value(note)
        .map_err(|error| Problem::new(Code::Internal, error.to_string(), "report this as a defect"))?;
    let Content { cut_at, wal, .. } = version.content;
    Ok(Cut { store: version.id.store.clone(), cut_at, wal, note, even_if_unchanged: true })
}

fn has_changed(version: &Exported) -> Problem {
    let detail = format!("{} has changed since it was checked", version.path.display());
    Problem::new(Code::Damaged, detail, "import it again when nobody writes to it")
}
