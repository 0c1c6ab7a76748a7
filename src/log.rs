//! The log: where it goes, in which form, and which request caused what it tells of.
//!
//! Under systemd each line goes to the journal with its fields; on a terminal it is text. A line about a version names it in
//! the field `version`, and one about something that a request caused has the request's name in the field `request`.

mod seldom;

use std::io::{self, IsTerminal as _};

use asat_core::{Code, Problem};
use asat_host::journal;
use tracing::Subscriber;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, fmt};

pub(crate) use seldom::Seldom;

use crate::config::{LogConfig, LogFormat};

/// Begins to log. A second daemon in one process, as in a test, keeps the first one's log.
///
/// # Errors
/// Where the journal is wanted, and cannot be reached.
pub(crate) fn begin(config: &LogConfig) -> Result<(), Problem> {
    let filter = EnvFilter::try_from_env("ASAT_LOG").unwrap_or_else(|_| EnvFilter::new(config.level.text()));
    let registry = tracing_subscriber::registry().with(filter);
    // A log that cannot be written, to a full disk or to nobody, must not end what it tells of.
    let stderr = fmt::layer().with_writer(io::stderr).log_internal_errors(false);
    let text = stderr.with_ansi(io::stderr().is_terminal());
    match config.format {
        LogFormat::Journald => go_by(registry.with(to_journal().map_err(|error| unreachable(&error))?)),
        LogFormat::Auto if journal::has_stderr() => match to_journal() {
            Ok(layer) => go_by(registry.with(layer)),
            // The journal reads the text all the same.
            Err(_) => go_by(registry.with(text)),
        },
        LogFormat::Auto | LogFormat::Text => go_by(registry.with(text)),
        LogFormat::Json => {
            let stderr = fmt::layer().with_writer(io::stderr).log_internal_errors(false);
            go_by(registry.with(stderr.json().flatten_event(true).with_span_list(false)));
        }
    }
    Ok(())
}

fn to_journal() -> io::Result<tracing_journald::Layer> {
    let priorities =
        PriorityMappings { info: Priority::Informational, debug: Priority::Debug, ..PriorityMappings::new() };
    let layer = tracing_journald::layer()?.with_field_prefix(None);
    Ok(layer.with_syslog_identifier("asat".to_owned()).with_priority_mappings(priorities))
}

fn go_by(subscriber: impl Subscriber + Send + Sync) {
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn unreachable(error: &io::Error) -> Problem {
    let detail = format!("log.format is \"journald\", and the journal cannot be reached: {error}");
    Problem::new(Code::Configuration, detail, "write \"auto\", or start asat where systemd-journald runs")
}
