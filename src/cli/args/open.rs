//! What may be written after `asat open`, `exec`, `close` and `renew`.

use std::ffi::OsString;

use clap::Args;

use super::FindArgs;
use crate::cli::typed::VersionArg;
use crate::when::seconds;

#[derive(Debug, Args)]
#[command(after_help = OPEN_EXAMPLES)]
pub(in crate::cli) struct OpenArgs {
    #[command(flatten)]
    pub(in crate::cli) find: FindArgs,
    /// Who will read it; if left out, USER@HOST
    #[arg(long)]
    pub(in crate::cli) holder: Option<String>,
    /// For how long, for example 90m or 2d
    #[arg(long, short, value_name = "DURATION", default_value = "1h", value_parser = seconds, allow_hyphen_values = true)]
    pub(in crate::cli) ttl: u32,
}

/// What is typed most.
const OPEN_EXAMPLES: &str = "\
The lease ends by itself after --ttl, or with `asat close`; `asat leases` lists it. If the output is no terminal, it is the \
path alone:
  sqlite3 -readonly \"$(asat open report --as-of month-end)\" 'select count(*) from sale'";

#[derive(Debug, Args)]
#[command(after_help = EXEC_EXAMPLES)]
pub(in crate::cli) struct ExecArgs {
    #[command(flatten)]
    pub(in crate::cli) find: FindArgs,
    /// Who reads it; if left out, USER@HOST
    #[arg(long)]
    pub(in crate::cli) holder: Option<String>,
    /// For how long it is leased at a time; if asat is killed, the lease ends after this
    #[arg(long, short, value_name = "DURATION", default_value = "10m", value_parser = seconds, allow_hyphen_values = true)]
    pub(in crate::cli) ttl: u32,
    /// The command and its arguments; {} in them stands for the path of the version's file. No shell reads them
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(in crate::cli) command: Vec<OsString>,
}

/// What is typed most, and how it ends.
const EXEC_EXAMPLES: &str = "\
The command finds the path in ASAT_PATH and the version's name in ASAT_VERSION. The lease is renewed as long as the command \
runs, and given back when it ends. The exit status is the command's; 128 and the signal's number if a signal ended it; 127 if \
there is no such command, and 126 if it cannot be run.

  asat exec report@12 -- sqlite3 -readonly {} 'select count(*) from sale'
  asat exec report --as-of month-end -- sh -c 'python3 audit.py \"$ASAT_PATH\"'";

#[derive(Debug, Args)]
pub(in crate::cli) struct LeaseArgs {
    /// The version: report@12
    pub(in crate::cli) version: VersionArg,
    /// The lease, as `open` prints it on a terminal, or as `leases` lists it
    pub(in crate::cli) lease: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RenewArgs {
    #[command(flatten)]
    pub(in crate::cli) lease: LeaseArgs,
    /// For how long from now, for example 90m or 2d
    #[arg(long, short, value_name = "DURATION", default_value = "1h", value_parser = seconds, allow_hyphen_values = true)]
    pub(in crate::cli) ttl: u32,
}
