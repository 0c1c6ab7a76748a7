//! The catalogue saved, and made anew where it is lost.
//!
//! What a new one knows comes from what the packs of the archives say of themselves. The engine adopts them as it does at
//! a start; here it is shown an empty catalogue. That is made under another name and put in place when it is whole, so that
//! until then everything is as it was.

use std::collections::BTreeMap;
use std::path::Path;

use asat_catalogue::{Catalogue, Trail};
use asat_core::audit::By;
use asat_core::event::{Archived, Event, Survey};
use asat_core::version::State;
use asat_core::{Code, Engine, Problem, VersionId};
use asat_host::StateFolder;

use super::machine::{describe, open_archives};
use crate::config::Config;
use crate::wire::{BackedUp, Rebuilt};

/// Writes a consistent copy of the catalogue, which a daemon may be using, to a path at which there is nothing.
///
/// # Errors
/// Where there is no catalogue, or something at `to` already, or the copy cannot be written. Nothing is left there then.
pub fn back_up(config: &Path, to: &Path) -> Result<BackedUp, Problem> {
    let path = Config::load(config)?.catalogue();
    // One that is not brought forward yet may have no trail: then there is nothing to note down, and nothing is copied.
    Trail::open(&path)?.head()?;
    Catalogue::back_up(&path, to)?;
    let bytes = std::fs::metadata(to).map_err(|error| super::failed("look at the copy", &error))?.len();
    let audit_head = Trail::open(to)?.head()?.to_string();
    Ok(BackedUp { path: to.display().to_string(), bytes, audit_head })
}

/// Makes the catalogue anew; `tell` hears how far it is. One that is there is kept beside it, where it may be replaced.
///
/// # Errors
/// Where a catalogue is there that may not be replaced, the daemon runs, or an archive cannot be read.
pub fn rebuild(config: &Path, replace: bool, tell: &dyn Fn(&str)) -> Result<Rebuilt, Problem> {
    #[cfg(debug_assertions)]
    super::crash::listen();
    let config = Config::load(config)?;
    let _state = StateFolder::claim(&config.state)?;
    let path = config.catalogue();
    if !replace && !Catalogue::is_missing(&path)? {
        let detail = format!("there is a catalogue at {}", path.display());
        let hint = "start the daemon, which goes by it; or add --replace, which keeps it beside the new one";
        return Err(Problem::new(Code::InUse, detail, hint));
    }
    let mut archived = Vec::new();
    for (store, archive) in open_archives(&config)? {
        let live = archive.live();
        tell(&format!("reading what the archive of {store} says of {} versions", live.len()));
        for number in live {
            let version = VersionId { store: store.clone(), number };
            let described = Some(describe(&archive, &version)?);
            archived.push(Archived { version, described });
        }
    }
    let mut anew = Catalogue::begin_anew(&path)?;
    let mut engine = Engine::new(config.policy(&BTreeMap::new()), anew.load()?);
    let survey = Survey { archived, ..Survey::default() };
    let now = asat_host::clock::now();
    let decision = engine.decide_for(now, &By::asat(), &Event::Started(survey));
    decision.remarks.iter().for_each(|remark| tell(&remark.text));
    anew.record(&decision.changes)?;
    decision.changes.iter().for_each(|change| engine.evolve(change));
    let entries = engine.register().stores().flat_map(|history| history.versions.values());
    let ready = entries.map(|entry| &entry.version).filter(|version| version.state == State::Ready);
    let versions = ready.map(|version| version.id.to_string()).collect();
    let kept = anew.put_in_place(&path, &format!("replaced-{}", now.as_microsecond()))?;
    Ok(Rebuilt { versions, kept: kept.map(|kept| kept.display().to_string()) })
}
