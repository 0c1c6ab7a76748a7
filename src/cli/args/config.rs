//! Which configuration is meant.

use std::path::PathBuf;

use clap::Args;

use crate::doctor::DEFAULT_CONFIG;

#[derive(Debug, Args)]
pub(in crate::cli) struct ConfigArgs {
    /// The daemon's configuration file
    #[arg(long = "config", short = 'c', value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub(in crate::cli) file: PathBuf,
}
