//! What may be written for a version: its name, or its store and how it is found there.

use asat_core::StoreName;
use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;

use crate::cli::typed::Wanted;
use crate::cli::when::{day, day_ends};

#[derive(Debug, Args)]
#[group(skip)]
pub(in crate::cli) struct FindArgs {
    /// The version: report@12, report@latest or report@TAG. Or a store, with --as-of, --business-date or --label; it may be left out if
    /// there is only one
    #[arg(value_name = "VERSION|STORE")]
    pub(in crate::cli) wanted: Option<Wanted>,
    /// Find the newest version of the store cut at or before this time: 2026-11-19, 2026-11-19T17:00:00Z, yesterday, month-end or -7d;
    /// a day alone means its end
    #[arg(
        long, value_name = "TIME", value_parser = day_ends, allow_hyphen_values = true,
        conflicts_with_all = ["business_date", "label"],
    )]
    pub(in crate::cli) as_of: Option<Timestamp>,
    /// Find the version published last for this business day, or else for the last one before it
    #[arg(
        long, short = 'b', value_name = "DAY", value_parser = day, allow_hyphen_values = true, conflicts_with = "label",
    )]
    pub(in crate::cli) business_date: Option<Date>,
    /// Find the version published under this label
    #[arg(long, short)]
    pub(in crate::cli) label: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "asat as-of [OPTIONS] <TIME> [STORE]\n       asat as-of [OPTIONS] --business-date <DAY> [STORE]"
)]
pub(in crate::cli) struct AsOfArgs {
    /// The time: 2026-11-19T17:00:00+01:00, or in UTC 2026-11-19 17:00, yesterday, month-end or -7d; a day alone means its end. It is left
    /// out with --business-date
    #[arg(allow_hyphen_values = true, value_name = "TIME", required_unless_present = "business_date")]
    pub(in crate::cli) time: Option<String>,
    /// The store; may be left out if there is only one
    #[arg(conflicts_with = "business_date")]
    pub(in crate::cli) store: Option<StoreName>,
    /// Instead of a time, the business day that the version was published for, or else the last one before it
    #[arg(long, short = 'b', value_name = "DAY", value_parser = day, allow_hyphen_values = true)]
    pub(in crate::cli) business_date: Option<Date>,
}
