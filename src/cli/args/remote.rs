//! Arguments of what is done with history in object storage.

use std::path::PathBuf;
use std::time::Duration;

use asat_core::StoreName;
use clap::{Args, Subcommand};

use crate::cli::typed::duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct RemoteArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: RemoteCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RemoteCommand {
    /// Make a repository, once; tries whether the service keeps two publishers apart
    Init(RemoteInitArgs),
    /// Show what of each store is in the bucket, as the daemon knows it; exits with 13 if something keeps versions from coming there
    Status {
        /// The store; every store if left out
        store: Option<StoreName>,
    },
    /// Have all of a store's archive be in the bucket now, also what could wait for the next publication; new versions follow by themselves
    Push {
        /// The store
        store: StoreName,
    },
    /// Publish a store to the bucket from here on, in the place of a machine that is gone; that one is fenced then
    TakeOver {
        /// The store
        store: StoreName,
    },
    /// List the stores in a repository, with who publishes each; no daemon is needed
    List(RepositoryArgs),
    /// Look whether the bucket has what its newest manifests name; exits with 9 if something is missing or damaged
    Verify(RemoteVerifyArgs),
    /// Delete what nothing in the bucket needs any more
    Prune(PruneArgs),
    /// Say what a repository costs a month
    Cost(RemoteCostArgs),
    /// Put the archive of a store back from the bucket, on a machine that needs nothing but the URL
    Restore(RemoteRestoreArgs),
}

#[derive(Debug, Args)]
#[group(id = "place", multiple = false)]
pub(in crate::cli) struct RepositoryArgs {
    /// The repository: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER. Credentials come from the environment
    #[arg(long)]
    pub(in crate::cli) url: Option<String>,
    /// The daemon's configuration file, which names the repository; without it and --url, /etc/asat/asat.toml
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RemoteInitArgs {
    #[command(flatten)]
    pub(in crate::cli) repository: RepositoryArgs,
    /// Encrypt everything that is stored to this recipient of age (age1...), so that only its identity reads it; may be given more than once. If left out,
    /// those of the configuration
    #[arg(long = "recipient", value_name = "AGE1...")]
    pub(in crate::cli) recipients: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RemoteVerifyArgs {
    #[command(flatten)]
    pub(in crate::cli) repository: RepositoryArgs,
    /// The file with the age identity that reads what is encrypted; if left out, that of the configuration
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) identity: Option<PathBuf>,
    /// The store; every store if left out
    pub(in crate::cli) store: Option<StoreName>,
    /// Read every byte too
    #[arg(long, conflicts_with = "sample")]
    pub(in crate::cli) read: bool,
    /// Read so many per cent of the files too, other ones each time
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(in crate::cli) sample: Option<u8>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PruneArgs {
    #[command(flatten)]
    pub(in crate::cli) repository: RepositoryArgs,
    /// The store; every store if left out
    pub(in crate::cli) store: Option<StoreName>,
    /// How long what was superseded is kept, as 7d
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = duration)]
    pub(in crate::cli) grace: Duration,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RemoteCostArgs {
    #[command(flatten)]
    pub(in crate::cli) repository: RepositoryArgs,
    /// How often each store is published a day
    #[arg(long, value_name = "N", default_value_t = 95)]
    pub(in crate::cli) publications: u32,
    /// What a gigabyte costs a month, in dollars
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.023, value_parser = price)]
    pub(in crate::cli) gigabyte: f64,
    /// What 1,000 requests cost that write or list, in dollars
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.005, value_parser = price)]
    pub(in crate::cli) writes: f64,
    /// What 1,000 requests cost that read, in dollars
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.0004, value_parser = price)]
    pub(in crate::cli) reads: f64,
}

/// Reads an amount that is not below nothing.
fn price(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "write it as 0.023".to_owned())
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RemoteRestoreArgs {
    #[command(flatten)]
    pub(in crate::cli) repository: RepositoryArgs,
    /// The file with the age identity that reads what is encrypted; if left out, that of the configuration
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) identity: Option<PathBuf>,
    /// The store
    pub(in crate::cli) store: StoreName,
    /// The folder of the archive, which must not exist: archive/STORE in the state folder of a daemon
    #[arg(long, value_name = "FOLDER")]
    pub(in crate::cli) to: PathBuf,
    /// An older manifest than the newest one, by its number
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) manifest: Option<u64>,
}
