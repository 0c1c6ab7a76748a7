//! What may be written after `asat init` and `asat token`.

use std::path::PathBuf;

use asat_core::StoreName;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use jiff::civil::Date;

use super::config::ConfigArgs;
use super::day;

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// The database file whose history is to be kept
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) store: PathBuf,
    /// What the store is called; if left out, as its file is
    #[arg(long)]
    pub(in crate::cli) name: Option<StoreName>,
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
    /// The folder of what is kept, best on another disk than the store; if left out, /var/lib/asat for the configuration in /etc/asat,
    /// and else the folder `state` beside the configuration
    #[arg(long, value_name = "FOLDER")]
    pub(in crate::cli) state: Option<PathBuf>,
    /// Replace the configuration if it exists
    #[arg(long, short)]
    pub(in crate::cli) force: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TokenArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TokenCommand {
    /// Make a token for callers over TCP; it is shown once, and the configuration has its SHA-256 alone
    New(NewTokenArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct NewTokenArgs {
    /// What its bearer may do
    #[arg(long, value_parser = PossibleValuesParser::new(["read", "publish", "admin"]))]
    pub(in crate::cli) role: String,
    /// Whose it is, for people and for the audit trail; if left out, USER@HOST
    #[arg(long)]
    pub(in crate::cli) name: Option<String>,
    /// The last day on which it is good; if left out, it does not expire
    #[arg(long, value_name = "DAY", value_parser = day)]
    pub(in crate::cli) expires: Option<Date>,
    /// Write the token to this new file, which only its owner may read, instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) to: Option<PathBuf>,
    /// Add it to this file of tokens, which `listen.tokens` in the configuration names, instead of printing what to add
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) add: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::args::Cli;

    #[test]
    fn lines_that_are_taken_and_refused() {
        for line in [
            "init --store report.db",
            "init --store report.db --name report -c asat.toml --state state -f",
            "token new --role read",
            "token new --role admin --name ann --expires 2027-06-30 --to token --add tokens.toml",
            "status",
            "status --json",
        ] {
            assert!(Cli::try_parse_from(format!("asat {line}").split(' ')).is_ok(), "{line}");
        }
        for line in [
            "init",
            "init report.db",
            "init --store report.db --name a/b",
            "token",
            "token new",
            "token new --role owner",
            "token new --role read --expires never",
            "status report",
        ] {
            assert!(Cli::try_parse_from(format!("asat {line}").split(' ')).is_err(), "{line}");
        }
    }
}
