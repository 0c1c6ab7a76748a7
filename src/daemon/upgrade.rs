//! Archives of the format before today's taken over, in the place of the daemon.

use std::collections::BTreeSet;
use std::path::Path;

use asat_catalogue::Catalogue;
use asat_core::register::Register;
use asat_core::version::State;
use asat_core::{Problem, StoreName};
use asat_host::StateFolder;
use asat_upgrade::Wanted;

use crate::config::Config;
use asat_wire::Upgraded;

/// Takes the archive of one store over, or those of all; `tell` hears how far it is. If it is
/// interrupted, the next upgrade goes on from there. Versions that cannot be read are left out if `leave_damaged` says so.
///
/// # Errors
/// Where the daemon runs, a version cannot be read, or the machine refuses. That archive is as it was then.
pub fn upgrade(
    config: &Path,
    store: Option<&StoreName>,
    leave_damaged: bool,
    tell: &dyn Fn(&str),
) -> Result<Vec<Upgraded>, Problem> {
    #[cfg(debug_assertions)]
    super::crash::listen();
    let config = Config::load(config)?;
    let _state = StateFolder::claim(&config.state)?;
    let register = register(&config)?;
    let mut stores = match store {
        Some(store) => vec![store.clone()],
        None => asat_archive::stores_in(&config.archives())?,
    };
    stores.sort();
    let take_over = |store: StoreName| {
        let histories = register.stores().filter(|history| history.store.name == store);
        let versions = histories.flat_map(|history| history.versions.values()).map(|entry| &entry.version);
        let expected: BTreeSet<u64> = versions
            .filter(|version| version.is_archived() && (version.is_kept() || version.state == State::Lost))
            .map(|version| version.id.number)
            .collect();
        let wanted = Wanted { expected, leave_damaged };
        let tell = |text: &str| tell(&format!("{store}: {text}"));
        let outcome = asat_upgrade::upgrade(&config.archives(), &store, &wanted, &tell)?;
        let versions = outcome.versions.map(|versions| u64::try_from(versions).unwrap_or(u64::MAX));
        let left_out = outcome.left_out.iter().map(|(number, _)| format!("{store}@{number}")).collect();
        Ok(Upgraded {
            versions,
            left_out,
            bytes_before: outcome.bytes_before,
            bytes_after: outcome.bytes_after,
            kept: outcome.kept.map(|kept| kept.display().to_string()),
            store: store.to_string(),
        })
    };
    stores.into_iter().map(take_over).collect()
}

/// What is recorded. It is read from a copy: only a start brings the catalogue forward, so that until then the asat before can still be
/// started, to put right what is damaged.
fn register(config: &Config) -> Result<Register, Problem> {
    let path = config.catalogue();
    if Catalogue::is_missing(&path)? {
        return Ok(Register::default());
    }
    let folder = tempfile::tempdir().map_err(|error| super::failed("make a folder for a moment", &error))?;
    let copy = folder.path().join("catalogue.db");
    Catalogue::back_up(&path, &copy)?;
    Ok(Catalogue::open(&copy)?.load()?)
}

/// Refuses archives of the format before, before anything else is changed.
pub(super) fn refuse_old(config: &Config) -> Result<(), Problem> {
    config.stores.keys().try_for_each(|store| asat_upgrade::refuse_old(&config.archive(store)))
}
