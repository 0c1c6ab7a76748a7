//! Reading the configuration again while the daemon runs: it is checked first, and one that is refused changes nothing.

use std::path::Path;

use asat_core::Problem;
use sd_notify::NotifyState;

use super::Daemon;
use crate::config::{Config, Later};
use crate::http::{RefusedConfiguration, Rules};

/// Has the daemon go by what the file says now, and tells the log and the service manager what came of it.
pub(super) fn reload(
    file: &Path,
    config: &mut Config,
    daemon: &Daemon,
    rules: &Rules,
    refused: &RefusedConfiguration,
) {
    tracing::info!("reading the configuration again");
    let began: Vec<_> =
        NotifyState::monotonic_usec_now().into_iter().chain([NotifyState::Reloading]).collect();
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(&began);
    let adopted = adopt(file, config, daemon);
    refused.note(file, adopted.as_ref().err());
    let status = match adopted {
        Ok((merged, later)) => {
            rules.change(&merged);
            *config = merged;
            told(&later)
        }
        Err(problem) => {
            tracing::error!("the new configuration is refused, and the one before stays: {problem}");
            format!("The new configuration is refused, and the one before stays: {}", problem.detail)
        }
    };
    // A status is one line.
    let status = status.lines().collect::<Vec<_>>().join(" ");
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// What can change, changes; after an error nothing has.
fn adopt(file: &Path, config: &Config, daemon: &Daemon) -> Result<(Config, Vec<Later>), Problem> {
    let (merged, later) = config.reloaded(Config::load(file)?)?;
    daemon.adopt(config, &merged)?;
    let gone = config.stores.keys().filter(|name| !merged.stores.contains_key(name));
    gone.for_each(
        |store| tracing::info!(%store, "{store}: left the configuration; its versions stay, and can be read"),
    );
    let added = merged.stores.keys().filter(|name| !config.stores.contains_key(name));
    added.for_each(|store| tracing::info!(%store, "{store}: came into the configuration"));
    Ok((merged, later))
}

fn told(later: &[Later]) -> String {
    for key in later {
        tracing::warn!("{key} has changed, which takes effect when asat is restarted");
    }
    match later.len() {
        0 => tracing::info!("the configuration was read again, and is in force"),
        waiting => tracing::info!(
            waiting,
            "the configuration was read again, and is in force but for what waits for a restart"
        ),
    }
    if later.is_empty() {
        return "Uses the new configuration".to_owned();
    }
    let keys: Vec<String> = later.iter().map(ToString::to_string).collect();
    format!("Uses the new configuration, except for what waits for a restart: {}", keys.join(", "))
}
