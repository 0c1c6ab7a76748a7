//! Which stores are tracked, so that a publication reads only what has changed.

use std::time::Duration;

use asat_core::Problem;
use asat_core::snapshot::BackendKind;

use super::raw;
use super::validate::{duration, size, wrong};

/// How a store is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackConfig {
    /// A shorter file is not tracked: to read it takes little.
    pub least_bytes: u64,
    /// The longest that the WAL may become by asat's doing, in bytes.
    pub max_wal: u64,
    /// How often all of the store is read all the same, and held against what is known.
    pub check: Duration,
}

/// What is shorter is not tracked, unless the configuration says so of the store.
const LEAST_FOR_AUTO: u64 = 64 << 20;
/// SQLite itself moves a WAL into the file at some 4 MiB. With much less than this it would be let go all the time.
const LEAST_WAL: u64 = 16 << 20;
const DAY: Duration = Duration::from_secs(86_400);

/// How a store is tracked of which the configuration says this; not at all if that is `None`.
pub(super) fn validate(
    raw: &raw::Track,
    store: &raw::Store,
    backend: Option<BackendKind>,
) -> Result<Option<TrackConfig>, Problem> {
    let max_wal = raw.max_wal.as_deref().map_or(Ok(64 << 20), |text| size("track.max_wal", text))?;
    if max_wal < LEAST_WAL {
        let what = "is less than 16 MiB, at which it would be released all the time".to_owned();
        return Err(wrong("track.max_wal", what, "write for example \"64 MiB\""));
    }
    let check = raw.check.as_deref().map_or(Ok(DAY), |text| duration("track.check", text))?;
    let global = raw.mode.as_deref().unwrap_or("off");
    let (key, mode) = store.track.as_deref().map_or(("track.mode", global), |mode| ("store.track", mode));
    let track = |least_bytes| Ok(Some(TrackConfig { least_bytes, max_wal, check }));
    match mode {
        "off" => Ok(None),
        "auto" => track(LEAST_FOR_AUTO),
        "wal" if store.track.is_some() && backend.is_some_and(|backend| backend != BackendKind::Pages) => {
            let what = format!("is \"wal\" for {}, which is not read by pages", store.name);
            Err(wrong("store.track", what, "leave it out, or write backend \"pages\""))
        }
        "wal" => track(0),
        other => Err(wrong(key, format!("{other:?} is none of them"), "write \"off\", \"auto\" or \"wal\"")),
    }
}

/// Refuses what makes no sense, whatever stores there are.
pub(super) fn check(raw: &raw::Track) -> Result<(), Problem> {
    match raw.mode.as_deref() {
        None | Some("off" | "auto" | "wal") => Ok(()),
        Some(other) => Err(wrong(
            "track.mode",
            format!("{other:?} is none of them"),
            "write \"off\", \"auto\" or \"wal\"",
        )),
    }
}
