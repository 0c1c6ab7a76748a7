//! Taking exported history in, while no daemon runs.
//!
//! It is done in the daemon's place, with its state folder claimed, as the engine knows of no version that it has not
//! cut. Each version is stored and then recorded, as by a publication, so a crash leaves the first ones of them, and
//! importing again goes on from there.

mod folder;

use std::path::Path;

use asat_archive::{Archive, Cut, Kept};
use asat_core::audit::{Action, By, Deed};
use asat_core::event::Change;
use asat_core::register::Register;
use asat_core::snapshot::Cost;
use asat_core::version::{Attributes, Holding, Publication, State, Store, Version};
use asat_core::{Code, Problem, StoreName};
use asat_host::StateFolder;
use jiff::Timestamp;

use super::machine::Note;
use crate::config::Config;
use crate::wire::Imported;
use folder::{Exported, Said};

/// Takes in what `asat export` has written; `tell` hears how far it is. Nothing changes unless all of it is sound and
/// fits what is there.
///
/// # Errors
/// Where the folder is not what was exported, the daemon runs, or the history here is another one.
pub fn import(config: &Path, folder: &Path, tell: &dyn Fn(&str)) -> Result<Imported, Problem> {
    let config = Config::load(config)?;
    let (store, versions) = folder::read(folder, asat_host::clock::now(), tell)?;
    let Some(configured) = config.stores.get(&store) else {
        let detail = format!("the folder has versions of a store {store}, which is not configured");
        return Err(Problem::new(Code::UnknownStore, detail, "add it to the configuration"));
    };
    let state = StateFolder::claim(&config.state)?;
    let mut catalogue = super::open_catalogue(&config, &state)?;
    let (archive, _) = Archive::open(&config.archive(&store))?;
    let mut history = History { register: catalogue.load()?, archive };
    history.check_settled(&store, &versions)?;
    let fresh = versions.iter().map(|version| history.is_new(version)).collect::<Result<Vec<_>, _>>()?;
    let mut imported = Imported { store: store.to_string(), imported: Vec::new(), there_already: Vec::new() };
    let by = importer();
    let added = Store { name: store, path: configured.path.clone(), added_at: asat_host::clock::now() };
    for (version, is_new) in versions.iter().zip(fresh) {
        let changes = if is_new {
            tell(&format!("storing {}", version.id));
            history.take_in(version, &added)?
        } else {
            history.publications(version)
        };
        let changes = written_down(&by, changes);
        catalogue.record(&changes)?;
        changes.iter().for_each(|change| history.register.evolve(change));
        let names = if is_new { &mut imported.imported } else { &mut imported.there_already };
        names.push(version.id.to_string());
    }
    Ok(imported)
}

/// Who imports.
fn importer() -> By {
    let uid = asat_host::peer::own_user();
    let known = asat_host::peer::look_up(uid, uid).ok();
    By::user(uid, known.and_then(|known| known.name).as_deref())
}

/// The changes, and that they are made, for the audit trail.
fn written_down(by: &By, changes: Vec<Change>) -> Vec<Change> {
    let now = asat_host::clock::now();
    let with_deed = |change: Change| {
        let deed = match &change {
            Change::Published(publication) => {
                Some(Deed::of_publication(now, by.clone(), Action::Import, publication))
            }
            _ => None,
        };
        deed.map(|deed| Change::Noted(Box::new(deed))).into_iter().chain([change])
    };
    changes.into_iter().flat_map(with_deed).collect()
}

/// What is here already.
struct History {
    register: Register,
    archive: Archive,
}

impl History {
    /// Refuses a store of which something is under way: the daemon has to end that first.
    fn check_settled(&self, store: &StoreName, versions: &[Exported]) -> Result<(), Problem> {
        let known = self.register.history(store).ok();
        let of_store = |id: &asat_core::VersionId| id.store == *store;
        let open = self.register.intents().any(|intent| intent.effect.version().is_some_and(of_store));
        let mut here = known.iter().flat_map(|history| history.versions.values()).map(|entry| &entry.version);
        let hot = here.any(|version| version.state == State::Ready && !version.is_archived());
        let is_known = |number: &u64| known.is_some_and(|history| history.versions.contains_key(number));
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

    /// Whether the archive has exactly this version.
    fn is_stored(&self, version: &Exported) -> bool {
        let number = version.id.number;
        let is_same = self.archive.describe(number).is_ok_and(|meta| {
            meta.fingerprint == version.fingerprint && meta.cut_at == version.content.cut_at
        });
        is_same && self.archive.read(number).is_ok()
    }

    /// Whether a version is to be taken in, or is there; refuses one that fits neither way.
    fn is_new(&self, version: &Exported) -> Result<bool, Problem> {
        let id = &version.id;
        let refused = |why: String| {
            let hint = "nothing was imported; export a range that begins after what is here";
            Err(Problem::new(Code::Invalid, format!("{id} {why}"), hint))
        };
        let Ok(history) = self.register.history(&id.store) else { return Ok(true) };
        if let Some(entry) = history.versions.get(&id.number) {
            let Version { state, content, .. } = &entry.version;
            let same = |content: &asat_core::version::Content| {
                content.cut_at == version.content.cut_at && content.fingerprint == version.content.fingerprint
            };
            return match state {
                State::Ready if content.as_ref().is_some_and(same) => Ok(false),
                State::Ready => refused("is here already, with another content".to_owned()),
                state => refused(format!("is here already, and {}", state.text())),
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
            _ => Ok(true),
        }
    }

    /// Stores a version; answers what is to be recorded of it.
    fn take_in(&self, version: &Exported, store: &Store) -> Result<Vec<Change>, Problem> {
        let bytes = match self.archive.stored_bytes(version.id.number) {
            Some(bytes) => bytes,
            None => self.write(version)?,
        };
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

    /// Writes the pages into the archive; answers what they take there.
    fn write(&self, version: &Exported) -> Result<u64, Problem> {
        let content = &version.content;
        let mut writer = self.archive.begin(version.id.number, content.page_size, content.page_count)?;
        let found = folder::pages(version, |number, page| Ok(writer.page(number, page)?))?;
        if found != version.fingerprint {
            let detail = format!("{} has changed since it was checked", version.path.display());
            return Err(Problem::new(Code::Damaged, detail, "import it again when nobody writes to it"));
        }
        let note = version.publications.first().map_or_else(Note::default, |said| Note {
            attributes: said.attributes.clone(),
            key: None,
            checks: said.checks.clone(),
            of_set: said.of_set.clone(),
        });
        let internal = |what: String| Problem::new(Code::Internal, what, "report this as a defect");
        let cut = Cut {
            store: version.id.store.clone(),
            cut_at: content.cut_at,
            wal: content.wal,
            note: serde_json::to_value(note).map_err(|error| internal(error.to_string()))?,
            even_if_unchanged: true,
        };
        match writer.finish(cut)? {
            Kept::Stored { bytes, .. } => Ok(bytes),
            Kept::Unchanged { .. } => Err(internal(format!("{} was not stored", version.id))),
        }
    }

    /// Those publications of a version that are not recorded.
    fn publications(&self, version: &Exported) -> Vec<Change> {
        let entry = self.register.entry(&version.id).ok();
        let known: Vec<(Timestamp, &Attributes)> = entry
            .iter()
            .flat_map(|entry| &entry.publications)
            .filter_map(|&number| self.register.publication(number))
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
