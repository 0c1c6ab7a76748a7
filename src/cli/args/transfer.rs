//! The arguments of the commands that move versions out of a history and into one.

use std::path::PathBuf;

use clap::Args;

use super::config::ConfigArgs;

use crate::cli::typed::ExportChoice;

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    /// The version: report@12, or report@latest; or a range: report@3..12, or report@3.. to the newest. Only a range can be
    /// imported: of one version, report@12..12
    pub(in crate::cli) version: ExportChoice,
    /// The file to write; of a range, the folder to make
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) to: PathBuf,
    /// Replace the file if it exists
    #[arg(long, short)]
    pub(in crate::cli) force: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The folder that `asat export` has written of a range: a version alone is one, as report@12..12
    pub(in crate::cli) folder: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
}
