//! The arguments of `archive` and `retention`: what is kept, and what of it will go.

use std::path::PathBuf;

use asat_core::StoreName;
use clap::{Args, Subcommand};

use super::config::ConfigArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct ArchiveArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ArchiveCommand {
    /// Show how much each version takes, and how much of that no other version needs
    Stats {
        /// The store; every store if left out
        store: Option<StoreName>,
    },
    /// Take archives that an older asat wrote over into today's format, for a daemon that does not run; if it is interrupted, it continues
    /// when it is typed again
    Upgrade(UpgradeArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct UpgradeArgs {
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
    /// The store; every store if left out
    pub(in crate::cli) store: Option<StoreName>,
    /// Leave out versions that cannot be read, which are lost then; exits with 9 if there are any
    #[arg(long)]
    pub(in crate::cli) leave_damaged: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RetentionArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: RetentionCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RetentionCommand {
    /// Show which versions the rules retire now, why, and what that gives back; nothing is changed
    Plan(PlanArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PlanArgs {
    /// The store; every store if left out
    pub(in crate::cli) store: Option<StoreName>,
    /// Use the rules in this configuration file instead of those that the daemon runs with
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) config: Option<PathBuf>,
    /// Show the versions that stay, too
    #[arg(long, short)]
    pub(in crate::cli) all: bool,
}
