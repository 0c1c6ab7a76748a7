//! Taking exported history in, while no daemon runs.
//!
//! It is done in the daemon's place, with its state folder claimed, as the engine knows of no version that it has not
//! cut. Each version is stored and then recorded, as by a publication, so a crash leaves the first ones of them, and
//! importing again goes on from there.

pub(crate) mod folder;
mod history;

use std::path::Path;

use asat_archive::Archive;
use asat_core::audit::{Action, Deed};
use asat_core::event::Change;
use asat_core::version::Store;
use asat_core::{By, Code, Problem};
use asat_host::StateFolder;

use crate::config::Config;
use asat_wire::Imported;
use history::{History, Presence};

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
    let register = catalogue.load()?;
    let mut history = History { register, archive };
    history.check_settled(&store, &versions)?;
    let standings =
        versions.iter().map(|version| history.standing(version)).collect::<Result<Vec<_>, _>>()?;
    let mut imported = Imported::none(store.as_str());
    let by = importer();
    let added =
        Store { name: store, path: configured.path.clone(), added_at: asat_host::clock::now(), damage: None };
    for (version, standing) in versions.iter().zip(standings) {
        if !matches!(standing, Presence::Here) {
            tell(&format!("storing {}", version.id));
        }
        let (changes, names) = match standing {
            Presence::New => (history.take_in(version, &added)?, &mut imported.imported),
            Presence::Gone(record) => (history.put_back(version, *record, &by)?, &mut imported.recovered),
            Presence::Here => (history.publications(version), &mut imported.there_already),
        };
        let changes = written_down(&by, changes);
        catalogue.record(&changes)?;
        changes.iter().for_each(|change| history.register.evolve(change));
        names.push(version.id.to_string());
    }
    if !imported.recovered.is_empty() {
        tell("verifying what was put back");
        history.put_in_order()?;
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
