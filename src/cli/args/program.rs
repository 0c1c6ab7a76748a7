//! The arguments of what concerns the program on this machine, and asks no daemon.

use std::path::PathBuf;

use asat_host::worker::Identity;
use clap::Args;

use super::config::ConfigArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct ServeArgs {
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
    /// Only check the configuration, as a reload by SIGHUP does; exits with 78 if it is wrong
    #[arg(long)]
    pub(in crate::cli) check: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DoctorArgs {
    /// The configuration file; if left out /etc/asat/asat.toml, if that is there
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// The shell
    pub(in crate::cli) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ManArgs {
    /// The folder to write them to; it is made if it does not exist
    #[arg(long, required_unless_present = "markdown")]
    pub(in crate::cli) dir: Option<PathBuf>,
    /// Print one document of all commands instead, in Markdown
    #[arg(long, conflicts_with = "dir")]
    pub(in crate::cli) markdown: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ConfigurationArgs {
    /// Print it as a document, in Markdown
    #[arg(long)]
    pub(in crate::cli) markdown: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct BrakeArgs {
    /// Resume what a brake has left suspended, and end
    #[arg(long)]
    pub(in crate::cli) let_go: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StoreWorkerArgs {
    /// Act as this user: its number, its group's, and those of all its groups
    #[arg(long, value_name = "USER:GROUP:GROUPS")]
    pub(in crate::cli) as_user: Option<Identity>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct BackupArgs {
    /// The file to write; there must be none
    pub(in crate::cli) to: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RebuildArgs {
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
    /// Replace a catalogue that is there, and keep it beside the new one
    #[arg(long)]
    pub(in crate::cli) replace: bool,
    /// Take over the snapshots of this installation, which no other daemon uses; `lvs -o lv_name,lv_tags @asat` shows the ids. Without it
    /// they are those of the installation that the state folder is of
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) installation: Option<String>,
}
