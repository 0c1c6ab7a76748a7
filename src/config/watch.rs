//! Watch mode in the configuration: the marker, and how soon it is asked for.

use std::time::Duration;

use asat_core::Problem;
use asat_core::watch::Debounce;
use asat_host::store::check_query;

use super::raw;
use super::validate::{duration, wrong};

/// What watch mode needs to know of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchConfig {
    /// The query whose value moves when somebody certifies the store.
    pub marker: String,
    /// How long its answer may take.
    pub deadline: Duration,
    /// When it is asked for.
    pub pace: Debounce,
    /// How often the store's files are looked at where nobody tells of changes to them.
    pub poll: Duration,
}

/// The longest of all of them.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) fn validate(raw: &raw::Watch) -> Result<WatchConfig, Problem> {
    let raw::Watch { marker, deadline, debounce, longest, poll } = raw;
    check_query(marker).map_err(|why| {
        let hint = "write one SELECT that gives one value, for example \"select max(id) from certification\"";
        wrong("store.watch.marker", format!("cannot be asked: {why}"), hint)
    })?;
    let time = |key: &str, text: &Option<String>, default: Duration| {
        let time = text.as_deref().map_or(Ok(default), |text| duration(key, text))?;
        match time > LONGEST {
            true => Err(wrong(key, "is longer than a minute".to_owned(), "write for example \"1s\"")),
            false => Ok(time),
        }
    };
    let deadline = time("store.watch.deadline", deadline, Duration::from_secs(1))?;
    let debounce = time("store.watch.debounce", debounce, Duration::from_millis(30))?;
    let longest = time("store.watch.longest", longest, Duration::from_millis(75).max(debounce))?;
    if longest < debounce {
        let what = "is shorter than debounce, which it bounds".to_owned();
        return Err(wrong("store.watch.longest", what, "make it at least as long"));
    }
    let poll = time("store.watch.poll", poll, Duration::from_secs(2))?;
    Ok(WatchConfig { marker: marker.clone(), deadline, pace: Debounce { debounce, longest }, poll })
}
