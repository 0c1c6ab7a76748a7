//! The section `[log]`: in which form the log is written, and how much of it.

use asat_core::Problem;

use super::raw;
use super::validate::wrong;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Where it goes, and in which form.
    pub format: LogFormat,
    /// How much is written. The environment variable `ASAT_LOG` says more than this, and goes first.
    pub level: LogLevel,
}

/// Where the log goes, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// To the journal where the standard error goes there, else as text.
    Auto,
    /// Text on the standard error.
    Text,
    /// A JSON object a line, on the standard error.
    Json,
    /// To the journal, with fields.
    Journald,
}

/// How much is logged: this, and what is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What somebody should look at.
    Warn,
    /// What was done.
    Info,
    /// Why it was done so.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The level as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

pub(super) fn validate(raw: &raw::Log) -> Result<LogConfig, Problem> {
    let format = match raw.format.as_str() {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        "journald" => LogFormat::Journald,
        other => {
            let hint = "write \"auto\", \"text\", \"json\" or \"journald\"";
            return Err(wrong("log.format", format!("{other:?} is no form of the log"), hint));
        }
    };
    let level = LogLevel::ALL.into_iter().find(|level| level.text() == raw.level).ok_or_else(|| {
        let hint = "write \"error\", \"warn\", \"info\", \"debug\" or \"trace\"";
        wrong("log.level", format!("{:?} is no level of the log", raw.level), hint)
    })?;
    Ok(LogConfig { format, level })
}
