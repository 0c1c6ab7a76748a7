//! The arguments of `asat bench`.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};

/// Which benchmark to run, and where.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The folder in which to make a temporary one; without it, the system's
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(super) dir: Option<PathBuf>,
    /// Write the report as JSON to this file too
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) what: What,
}

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// A valuation run is published again and again: what it costs the writer, the disk and the reader
    Valuation(ValuationArgs),
    /// A large store is published after few of its rows have changed, all over it
    Large(LargeArgs),
    /// A long history is listed
    Listing(ListingArgs),
}

#[derive(Debug, Args)]
pub(super) struct ValuationArgs {
    /// How many publications
    #[arg(long, value_name = "N", default_value_t = 95, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) iterations: u32,
    /// How many investments are valued before each publication
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rows: u32,
    /// The journal mode of the stores
    #[arg(long, value_enum, value_name = "MODE", default_value_t = JournalMode::Wal)]
    pub(super) journal_mode: JournalMode,
    /// What keeps the versions
    #[arg(long, value_name = "BACKEND", default_value = "pages", value_parser = ["pages"])]
    pub(super) backend: String,
    /// Measure also a writer that goes on committing small transactions during publications
    #[arg(long)]
    pub(super) while_writing: bool,
}

#[derive(Debug, Args)]
pub(super) struct LargeArgs {
    /// How large the store is, for example 2GB
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    pub(super) size: ByteSize,
    /// How many of a hundred rows change before each publication
    #[arg(long, value_name = "PERCENT", default_value_t = 0.15, value_parser = percent)]
    pub(super) changed: f64,
    /// How many publications after the first
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
}

#[derive(Debug, Args)]
pub(super) struct ListingArgs {
    /// How many versions there are
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(300..=1_000_000))]
    pub(super) versions: u32,
    /// How often each page is asked for
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) requests: u32,
}

/// A journal mode that a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum JournalMode {
    Wal,
    Delete,
    Truncate,
    Persist,
}

impl JournalMode {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("write a number above 0 and up to 100, for example 0.15".to_owned()),
    }
}
