//! What may be written after `asat publish`.

use asat_core::{SetName, StoreName};
use clap::Args;
use jiff::civil::Date;

use super::{attribute, day, key};

#[derive(Debug, Args)]
pub(in crate::cli) struct PublishArgs {
    /// The store; may be left out if there is only one
    pub(in crate::cli) store: Option<StoreName>,
    /// A set of stores, instead of one: all as they are at one instant, or none
    #[arg(long, value_name = "NAME", conflicts_with = "store")]
    pub(in crate::cli) set: Option<SetName>,
    /// What the publication is called
    #[arg(long, short)]
    pub(in crate::cli) label: Option<String>,
    /// Who vouches for it
    #[arg(long, value_name = "WHO")]
    pub(in crate::cli) certified_by: Option<String>,
    /// The business day that it stands for
    #[arg(long, short, value_name = "DAY", value_parser = day, allow_hyphen_values = true)]
    pub(in crate::cli) business_date: Option<Date>,
    /// Anything else worth saying
    #[arg(long)]
    pub(in crate::cli) note: Option<String>,
    /// An attribute of your own, as a text; may be given several times
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = attribute)]
    pub(in crate::cli) attributes: Vec<(String, String)>,
    /// The idempotency key: publishing twice with one key publishes once. Without it, each run has a new one
    #[arg(long, value_parser = key)]
    pub(in crate::cli) key: Option<String>,
    /// Return only when the version is in the bucket
    #[arg(long)]
    pub(in crate::cli) wait_remote: bool,
}
