//! The arguments of `asat-bench`.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::compare::Kind;

/// Measures asat on this machine, with a daemon of its own.
#[derive(Debug, Parser)]
#[command(name = "asat-bench", version, max_term_width = 100)]
pub(crate) struct BenchArgs {
    /// The folder in which to make a temporary one; without it, the system's
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(super) dir: Option<PathBuf>,
    /// Write the report as JSON to this file too
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Print the report, or a problem, as JSON on one line, and nothing else
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) what: What,
}

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// A valuation run is published again and again: what it costs the writer, the disk and the reader
    Valuation(ValuationArgs),
    /// A large store is published after few of its rows have changed, all over it
    Large(LargeArgs),
    /// Stores whose WAL is followed, a large one and a small one: publishing costs what changed, however large the store is
    Track(TrackArgs),
    /// What changed between two versions of a large store, beside the tools that join whole tables
    Diff(DiffArgs),
    /// A long history costs what a short one does, and is thinned to a few versions
    History(HistoryArgs),
    /// A daemon with a history that nobody asks anything: its memory, and its time
    Idle(IdleArgs),
    /// A long history is listed, by one and by many, while versions are published too
    Listing(ListingArgs),
    /// A store that has not changed is published again and again, by many at the same time
    Publishing(PublishingArgs),
    /// Versions are read by their paths in the tree (FUSE): how fast, beside plain files of the same content
    Reading(ReadingArgs),
    /// Watch mode: how soon a commit is noticed, and what it costs while nothing is written
    Watch(WatchArgs),
    /// A bucket: what it costs the publisher, how soon a version is there, and what is asked of the service
    Remote(RemoteArgs),
    /// A daemon that follows a bucket: how soon and with how many requests it lists and answers
    Follow(FollowArgs),
    /// Many stores, many leases and many readers of one daemon, beside few: what grows, and what does not
    Scale(ScaleArgs),
    /// asat beside cp, SQLite's backup, restic, borg and Litestream, on the same work in one run
    Compare(CompareArgs),
    /// The guard: what it costs while nothing is written, and how soon a snapshot is extended that a writer fills
    Guard(GuardArgs),
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
    /// What keeps the versions; those on volumes need root and --disks
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t = Backend::Pages)]
    pub(super) backend: Backend,
    /// Measure also a writer that goes on committing small transactions during publications (backend pages)
    #[arg(long)]
    pub(super) while_writing: bool,
    #[command(flatten)]
    pub(super) volumes: VolumesArgs,
}

/// What only the backends on volumes take.
#[derive(Debug, Args)]
pub(super) struct VolumesArgs {
    /// Three empty block devices: for the store that asat publishes, for the one with plain LVM snapshots, and for
    /// the one that nobody versions. Everything on them is lost
    #[arg(long, value_name = "A,B,C", value_parser = disks)]
    pub(super) disks: Option<Disks>,
    /// Begin the next run at once, instead of when the version is archived and its snapshot dropped
    #[arg(long)]
    pub(super) back_to_back: bool,
    /// How many of the newest versions keep their snapshots (keep_snapshots in the configuration)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(super) keep_snapshots: u32,
}

/// The devices: of asat's store, of the one with plain snapshots, and of the one that nobody versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disks {
    pub(super) asat: PathBuf,
    pub(super) plain: PathBuf,
    pub(super) none: PathBuf,
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
pub(super) struct TrackArgs {
    /// How large the large store is
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    pub(super) size: ByteSize,
    /// How large the small one is
    #[arg(long, value_name = "SIZE", default_value = "200MB")]
    pub(super) small: ByteSize,
    /// How much of each changes before each publication, in pages all over it
    #[arg(long, value_name = "SIZE", default_value = "10MB")]
    pub(super) changed: ByteSize,
    /// How long a WAL may become, as the stores are configured
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(super) max_wal: ByteSize,
    /// How many publications of each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// How many short transactions there are before each publication
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) transactions: u32,
}

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// How large the store is, for example 100MB
    #[arg(long, value_name = "SIZE", default_value = "4MB")]
    pub(super) size: ByteSize,
    /// How many of a hundred rows change before each publication
    #[arg(long, value_name = "PERCENT", default_value_t = 0.004, value_parser = percent)]
    pub(super) changed: f64,
    /// How many versions there are
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=200_000))]
    pub(super) versions: u32,
    /// How many of them are kept
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..))]
    pub(super) keep: u32,
}

#[derive(Debug, Args)]
pub(super) struct PublishingArgs {
    /// For how many seconds each kind of question is asked in a round
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(super) seconds: u64,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
}

#[derive(Debug, Args)]
pub(super) struct IdleArgs {
    /// How large the store is, for example 50MB
    #[arg(long, value_name = "SIZE", default_value = "50MB")]
    pub(super) size: ByteSize,
    /// How many versions there are
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) versions: u32,
    /// For how many seconds nothing is asked and nothing is written
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
}

#[derive(Debug, Args)]
pub(super) struct ListingArgs {
    /// How many versions there are
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(300..=1_000_000))]
    pub(super) versions: u32,
    /// How often each page is asked for
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) requests: u32,
    /// How many clients ask at the same time, while versions are published
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) clients: u32,
    /// For how many seconds they ask
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(super) seconds: u64,
    /// How many pages they ask for in a second, all together, where they do not ask as fast as they are answered
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) rate: u32,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// How large the store is of which two versions are compared
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    pub(super) size: ByteSize,
    /// How many of a hundred rows change between them
    #[arg(long, value_name = "PERCENT", default_value = "0.15", value_parser = percent)]
    pub(super) changed: f64,
    /// How large the store is of whose versions the history of a row is asked
    #[arg(long, value_name = "SIZE", default_value = "100MB")]
    pub(super) history_size: ByteSize,
    /// How many versions of that there are
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(super) versions: u32,
}

#[derive(Debug, Args)]
pub(super) struct ReadingArgs {
    /// How many versions there are
    #[arg(long, value_name = "N", default_value_t = 95, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) versions: u32,
    /// How many investments are valued before each publication
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rows: u32,
}

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// How many commits move the marker
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) commits: u32,
    /// For how many seconds nothing is written
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
    /// The journal mode of the store
    #[arg(long, value_enum, value_name = "MODE", default_value_t = JournalMode::Wal)]
    pub(super) journal_mode: JournalMode,
}

#[derive(Debug, Args)]
pub(super) struct RemoteArgs {
    /// The bucket, which must be empty; without it, a folder. Credentials come from the environment
    #[arg(long)]
    pub(super) url: Option<String>,
    /// Measure this program of Litestream beside it
    #[arg(long, value_name = "PROGRAM", requires = "url")]
    pub(super) litestream: Option<PathBuf>,
    /// How many publications of each store
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(super) publications: u32,
    /// How many rows are written before each
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rows: u32,
    /// For how many seconds nothing is published in the end
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
}

#[derive(Debug, Args)]
pub(super) struct ScaleArgs {
    /// How many stores the daemon with many has
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) stores: u32,
    /// How many leases are open at the daemon with many
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(super) leases: u32,
    /// How many readers there are at the most
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) readers: u32,
    /// How large each store is, for example 300KiB
    #[arg(long, value_name = "SIZE", default_value = "300KiB")]
    pub(super) size: ByteSize,
    /// How many versions the leases and the readers share
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) versions: u32,
    /// How many publications of each kind are measured
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// For how many seconds nothing is asked, and for how many each number of readers reads
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
}

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// How many moments are kept
    #[arg(long, value_name = "N", default_value_t = 95, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) publications: u32,
    /// How many rows are written before each
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rows: u32,
    /// Measure this program of Litestream, too
    #[arg(long, value_name = "PROGRAM")]
    pub(super) litestream: Option<PathBuf>,
    /// Compare on these file systems too, with copies and snapshots that share blocks; each is made in a file, which only root may.
    /// snapper notes its configuration in /etc while it is measured
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub(super) also_on: Vec<Kind>,
    /// Write a document with plots into this folder, which must exist
    #[arg(long, value_name = "FOLDER")]
    pub(super) document: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct FollowArgs {
    /// The bucket, which must be empty; without it, a folder. Credentials and the endpoint come from the environment
    #[arg(long)]
    pub(super) url: Option<String>,
    /// How many milliseconds each request of the follower takes longer; needs a bucket at the plain HTTP endpoint AWS_ENDPOINT
    #[arg(long, value_name = "N", default_value_t = 0, requires = "url", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub(super) delay: u64,
    /// Encrypt what is in the bucket
    #[arg(long)]
    pub(super) encrypt: bool,
    /// Certify each version once more, without a change
    #[arg(long)]
    pub(super) again: bool,
    /// How large the store is, for example 100MB
    #[arg(long, value_name = "SIZE", default_value = "4MB")]
    pub(super) size: ByteSize,
    /// How many of a hundred rows change before each publication
    #[arg(long, value_name = "PERCENT", default_value_t = 0.004, value_parser = percent)]
    pub(super) changed: f64,
    /// How many versions there are when the follower starts
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=200_000))]
    pub(super) versions: u32,
    /// How many publications are followed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) publications: u32,
    /// For how many seconds nothing is published in the end
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
}

#[derive(Debug, Args)]
pub(super) struct GuardArgs {
    /// An empty block device. Everything on it is lost
    #[arg(long, value_name = "DEVICE")]
    pub(super) disk: PathBuf,
    /// How many snapshots there are while nothing is written
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) snapshots: u32,
    /// Thin snapshots instead of classic ones. Nothing is extended then: all of them share a pool
    #[arg(long, conflicts_with = "extensions")]
    pub(super) thin: bool,
    /// For how many seconds nothing is written, at each of two ticks
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
    /// How many extensions there are at the least
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) extensions: u32,
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

/// What keeps the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Backend {
    /// Pages, on any file system
    Pages,
    /// Classic snapshots of a plain volume
    LvmClassic,
    /// Thin snapshots of a thin volume
    LvmThin,
    /// A thin volume, and whatever snapshots asat finds best for it
    Auto,
}

impl Backend {
    /// As the configuration calls it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::LvmClassic => "lvm-classic",
            Self::LvmThin => "lvm-thin",
            Self::Auto => "auto",
        }
    }
}

fn disks(text: &str) -> Result<Disks, String> {
    match text.split(',').collect::<Vec<_>>().as_slice() {
        [asat, plain, none] if ![asat, plain, none].iter().any(|path| path.is_empty()) => {
            Ok(Disks { asat: asat.into(), plain: plain.into(), none: none.into() })
        }
        _ => {
            Err("write three devices with commas between them, for example /dev/sdb,/dev/sdc,/dev/sdd"
                .to_owned())
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("write a number above 0 and up to 100, for example 0.15".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        BenchArgs::command().debug_assert();
    }

    #[test]
    fn three_disks_are_taken_and_no_other_number() {
        let three = Disks { asat: "/dev/a".into(), plain: "/dev/b".into(), none: "/dev/c".into() };
        assert_eq!(disks("/dev/a,/dev/b,/dev/c"), Ok(three));
        for text in ["", "/dev/a", "/dev/a,/dev/b", "/dev/a,,/dev/c", "/dev/a,/dev/b,/dev/c,/dev/d"] {
            assert!(disks(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn backends_are_written_as_in_the_configuration() {
        for backend in Backend::value_variants() {
            assert_eq!(backend.to_possible_value().unwrap().get_name(), backend.text());
        }
    }
}
