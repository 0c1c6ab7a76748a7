//! The catalogue saved, and made anew where it is lost.
//!
//! What a new one knows comes from what the archives say of their versions, and the snapshots of the installation that the
//! old one was of. The engine adopts them as it does at a start; here it is shown an empty catalogue. That is made under another name
//! and put in place when it is whole, so that until then everything is as it was.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use asat_catalogue::{Catalogue, Trail};
use asat_core::clock;
use asat_core::event::{Archived, Change, Event, Survey};
use asat_core::version::State;
use asat_core::{By, Code, Engine, Problem, VersionId};
use asat_host::StateFolder;
use asat_host::lvm::InstallationId;

use super::{Machine, Notices};
use crate::config::Config;
use crate::metrics::Metrics;
use asat_wire::{BackedUp, Rebuilt};

/// Writes a consistent copy of the catalogue, which a daemon may be using, to a path at which there is nothing.
///
/// # Errors
/// Where there is no catalogue, something is at `to` already or that is in the state folder, or the copy cannot be written. Nothing
/// is left there then.
pub fn back_up(config: &Path, to: &Path) -> Result<BackedUp, Problem> {
    let config = Config::load(config)?;
    let path = config.catalogue();
    // To SQLite a name alone may be more than that, such as `:memory:`.
    let to =
        &std::path::absolute(to).map_err(|error| super::failed("tell where the copy is to be", &error))?;
    check_outside(&config.state, to)?;
    // One that is not brought forward yet may have no trail: then there is nothing to note down, and nothing is copied.
    Trail::open(&path)?.head()?;
    Catalogue::back_up(&path, to)?;
    let bytes = std::fs::metadata(to).map_err(|error| super::failed("look at the copy", &error))?.len();
    let audit_head = Trail::open(to)?.head()?.to_string();
    Ok(BackedUp { path: to.display().to_string(), bytes, audit_head })
}

/// Refuses a copy in the state folder: what has the name of a log there is applied to the catalogue or removed, and the rest is lost
/// with it.
fn check_outside(state: &Path, to: &Path) -> Result<(), Problem> {
    let folder = to.parent().and_then(|folder| folder.canonicalize().ok());
    let is_inside = folder.zip(state.canonicalize().ok()).is_some_and(|(to, state)| to.starts_with(state));
    if !is_inside {
        return Ok(());
    }
    let detail = format!("{} is in the state folder, where a backup is in the way", to.display());
    Err(Problem::new(Code::Invalid, detail, "name a file elsewhere, on another disk if there is one"))
}

/// Makes the catalogue anew; `tell` hears how far it is. One that is there is kept beside it, where it may be replaced. The new one is
/// of this installation; where none is named, of the one that the state folder is of, and else of a new one.
///
/// # Errors
/// Where a catalogue is there that may not be replaced, the daemon runs, or an archive cannot be read.
pub fn rebuild(
    config: &Path,
    replace: bool,
    installation: Option<&str>,
    tell: &dyn Fn(&str),
) -> Result<Rebuilt, Problem> {
    #[cfg(debug_assertions)]
    super::crash::listen();
    let config = Config::load(config)?;
    let state = StateFolder::claim(&config.state)?;
    let path = config.catalogue();
    if !Catalogue::is_missing(&path)? && !replace {
        let detail = format!("there is a catalogue at {}", path.display());
        let hint = "start the daemon, which uses it; or add --replace, which keeps it beside the new one";
        return Err(Problem::new(Code::InUse, detail, hint));
    }
    let installation = match installation {
        Some(named) => Some(named.parse().map_err(|_| no_id(named))?),
        None => state.installation()?,
    };
    let mut anew = Catalogue::begin_anew(&path, installation.as_ref().map(InstallationId::as_str))?;
    let told = match tell_all(&config, &mut anew, tell) {
        Ok(told) => told,
        Err(problem) => {
            // Why it was given up says more than why it cannot be removed.
            let _ = anew.give_up();
            return Err(problem);
        }
    };
    let installation: InstallationId = anew.installation().parse()?;
    state.write_down(&installation)?;
    let now = asat_host::clock::now();
    let kept = anew.put_in_place(&path, &format!("replaced-{}", now.as_microsecond()))?;
    let kept = kept.map(|kept| kept.display().to_string());
    Ok(Rebuilt { kept, ..told })
}

/// Tells an empty catalogue of everything that the archives and the snapshots hold.
fn tell_all(config: &Config, anew: &mut Catalogue, tell: &dyn Fn(&str)) -> Result<Rebuilt, Problem> {
    let installation: InstallationId = anew.installation().parse()?;
    tell("reading what the archives and the snapshots say of themselves");
    let metrics = Arc::<Metrics>::default();
    let (machine, backings) =
        Machine::open(config, installation.clone(), None, Notices::default(), &metrics)?;
    let engine = Engine::new(config.policy(&backings), anew.load()?);
    let mut engine = engine.opened_at(anew.newest_commit());
    let survey = machine.look_for_all()?;
    let is_damaged = |archived: &&Archived| archived.described.is_err();
    let damaged: BTreeSet<VersionId> =
        survey.archived.iter().filter(is_damaged).map(|archived| archived.version.clone()).collect();
    let decision = engine.decide_for(asat_host::clock::now(), &By::asat(), &Event::Started(survey));
    let mut remarks: Vec<String> = decision.remarks.into_iter().map(|remark| remark.text).collect();
    anew.record(&decision.changes)?;
    decision.changes.iter().for_each(|change| engine.evolve(change));
    remarks.extend(machine.archives().unread().into_iter().map(|problem| problem.to_string()));
    remarks.extend(witness_clock(&mut engine, anew)?);
    remarks.iter().for_each(|remark| tell(remark));
    let entries = engine.register().stores().flat_map(|history| history.versions.values());
    let (mut versions, mut lost) = (Vec::new(), Vec::new());
    for version in entries.map(|entry| &entry.version) {
        match version.state {
            State::Ready => versions.push(version.id.to_string()),
            State::Lost if damaged.contains(&version.id) => lost.push(version.id.to_string()),
            _ => {}
        }
    }
    let installation = installation.as_str().to_owned();
    Ok(Rebuilt { versions, damaged: lost, kept: None, installation, remarks })
}

/// Records what the versions say of the time, as what was believed of the clock is lost. Nothing else is asked: the new catalogue was
/// written by the very clock that is to be held against it. Says so if the clock will be doubted.
fn witness_clock(engine: &mut Engine, anew: &mut Catalogue) -> Result<Option<String>, Problem> {
    let reading = asat_host::clock::read();
    let Some(anchor) = engine.witnessed(&Survey::default(), None, &reading) else { return Ok(None) };
    let first = Change::Clock(anchor);
    anew.record(std::slice::from_ref(&first))?;
    engine.evolve(&first);
    let believed = engine.believed(&reading);
    let hint = clock::hint(&engine.policy().clock);
    Ok(believed.doubted.then(|| format!("{}, as the newest version was cut then ({hint})", believed.what())))
}

fn no_id(named: &str) -> Problem {
    let detail = format!("{named:?} is no installation's id: 32 hexadecimal digits in lower case");
    Problem::new(Code::Invalid, detail, "see the tags of asat's snapshots: lvs -o lv_name,lv_tags @asat")
}
