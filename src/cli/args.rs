//! The arguments: what may be written after `asat`, and what is refused before anybody is asked.

mod access;
mod archive;
mod changes;
mod clock;
mod config;
mod find;
mod keep;
mod open;
mod program;
mod publish;
mod remote;
mod setup;
mod tag;
mod transfer;

use std::path::PathBuf;
use std::time::Duration;

use asat_core::version::State;
use asat_core::{SetName, StoreName};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use jiff::civil::Date;

use super::typed::{VersionArg, VersionChoice, attribute, duration, key};
use super::when::{day, day_begins, day_ends};
use super::{exit, when};
pub(super) use access::{AuditArgs, LeasesArgs, LeasesCommand};
pub(super) use archive::{
    ArchiveArgs, ArchiveCommand, PlanArgs, RetentionArgs, RetentionCommand, UpgradeArgs,
};
use asat_client::Server;
pub(super) use changes::{DiffArgs, DiffFormat, HistoryArgs, SqlArgs, SqlFormat};
pub(super) use clock::{ClockArgs, ClockCommand};
pub(super) use find::{AsOfArgs, FindArgs};
pub(super) use keep::{PinArgs, RestoreArgs};
pub(super) use open::{ExecArgs, LeaseArgs, OpenArgs, RenewArgs};
pub(super) use program::{
    BackupArgs, BrakeArgs, CompletionsArgs, ConfigurationArgs, DoctorArgs, ManArgs, RebuildArgs, ServeArgs,
    StoreWorkerArgs,
};
pub(super) use publish::PublishArgs;
pub(super) use remote::{
    PruneArgs, RemoteArgs, RemoteCommand, RemoteCostArgs, RemoteInitArgs, RemoteRestoreArgs,
    RemoteVerifyArgs, RepositoryArgs,
};
pub(super) use setup::{InitArgs, NewTokenArgs, TokenArgs, TokenCommand};
pub(super) use tag::TagArgs;
pub(super) use transfer::{ExportArgs, ImportArgs};

/// Keeps a SQLite store's history as it was at each certified moment.
#[derive(Debug, Parser)]
#[command(name = "asat", version, max_term_width = 100, after_help = after_help())]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) globals: Globals,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// The address at which the daemon listens: unix:PATH or http://HOST:PORT. If left out, what ASAT_SERVER says, or unix:/run/asat/asat.sock
    #[arg(long, short, global = true, value_name = "ADDRESS")]
    pub(super) server: Option<Server>,
    /// A file with the token to present; a token is never an argument, which others could see. If left out, what ASAT_TOKEN_FILE says
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Print JSON: the answer on standard output, a problem on standard error, each on one line
    #[arg(long, short, global = true)]
    pub(super) json: bool,
    /// How long to wait for an answer, and for each further piece of a long one, for example 90s. If left out,
    /// 30s, and without end for publish, open, exec, retire, restore, verify, export and events
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write a first configuration, or add the first store to one, and say what was found and what to type next
    Init(InitArgs),
    /// Show how everything stands on one screen, and what to do next; exits with 13 if something is wrong
    Status,
    /// Run the daemon
    Serve(ServeArgs),
    /// Certify a store: keep it as it is now
    Publish(PublishArgs),
    /// List versions, newest first
    #[command(visible_alias = "versions")]
    Ls(LsArgs),
    /// Show everything about a version
    Show(OneVersion),
    /// Show the newest version cut at or before a time
    AsOf(AsOfArgs),
    /// Show what changed between two versions; exits with 1 if they differ
    Diff(DiffArgs),
    /// Show the life of one row: each version in which it changed, with who certified that
    History(HistoryArgs),
    /// Ask one query over as many versions as you like: report@12.valuation is a table of a version, report.history_valuation has each state
    /// of each row
    Sql(SqlArgs),
    /// Open a version for reading, and print the path of its file
    Open(OpenArgs),
    /// Run a command on a version, which is open as long as the command runs
    Exec(ExecArgs),
    /// Give a lease back
    Close(LeaseArgs),
    /// Give a lease more time
    Renew(RenewArgs),
    /// List who holds which version, or take a lease back
    Leases(LeasesArgs),
    /// Keep a version whatever retention says
    Pin(PinArgs),
    /// Let retention have a version again
    Unpin(OneVersion),
    /// Have a name lead to a version, which keeps it; report@NAME then stands for that version
    Tag(TagArgs),
    /// Give a version up; until its grace is over, `unretire` brings it back
    Retire(RetireArgs),
    /// Bring a retired version back
    Unretire(UnretireArgs),
    /// Bring a store back to a version, after keeping it as it is now
    Restore(RestoreArgs),
    /// List the stores
    Stores,
    /// Look into the archives
    Archive(ArchiveArgs),
    /// Look ahead at what retention does
    Retention(RetentionArgs),
    /// Read what is kept and compare it with what was written; exits with 9 if they differ, even if that is put right
    Verify(VerifyArgs),
    /// Keep history in object storage, and get it back from there
    Remote(RemoteArgs),
    /// Copy a version into a file, or a range of versions into a folder that `import` takes
    Export(ExportArgs),
    /// Take exported versions into the history of a daemon that does not run
    Import(ImportArgs),
    /// Write a consistent copy of the catalogue, whether the daemon runs or not
    Backup(BackupArgs),
    /// Make a lost catalogue anew from what the archives and snapshots say, for a daemon that does not run
    RebuildCatalogue(RebuildArgs),
    /// Show what can run out of space, how near it is, and what the guard does about it. Exits with 13 if an
    /// alarm is on that nobody has acknowledged, or the guard is kept from its work
    Capacity(CapacityArgs),
    /// Say that an alarm is known, so that it is not repeated
    Acknowledge(AcknowledgeArgs),
    /// Show which time asat uses, or accept what the machine's clock says; exits with 13 if the clock is doubted
    Clock(ClockArgs),
    /// Show what the guard did for a version or with it, and why
    Why(WhyArgs),
    /// List who did what, newest first, or say whether that is what was written down
    Audit(AuditArgs),
    /// Make tokens for callers over TCP
    Token(TokenArgs),
    /// Print what happens, as it happens
    Events,
    /// Look at this machine and a configuration, and say what does not fit; exits with 78 if asat cannot
    /// work
    Doctor(DoctorArgs),
    /// Print a configuration with every key, what it does and its default
    Configuration(ConfigurationArgs),
    /// Print a shell's completion script
    Completions(CompletionsArgs),
    /// Write the manual pages, one for each command
    Man(ManArgs),
    /// Hold the brake for the daemon, which starts this itself
    #[command(hide = true)]
    Brake(BrakeArgs),
    /// Work on a store for the daemon, which starts this itself
    #[command(hide = true)]
    StoreWorker(StoreWorkerArgs),
    /// Answer a query for the daemon, which starts this itself
    #[command(hide = true)]
    QueryWorker,
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Only this store's
    pub(super) store: Option<StoreName>,
    /// Only those published under this label
    #[arg(long, short)]
    pub(super) label: Option<String>,
    /// Only those that this person has certified
    #[arg(long, value_name = "WHO")]
    pub(super) certified_by: Option<String>,
    /// Only those published for this business day
    #[arg(long, short, value_name = "DAY", value_parser = day, allow_hyphen_values = true)]
    pub(super) business_date: Option<Date>,
    /// Only those published with exactly this note
    #[arg(long)]
    pub(super) note: Option<String>,
    /// Only those published with an attribute of this value
    #[arg(long, value_name = "NAME=VALUE", value_parser = attribute)]
    pub(super) attribute: Option<(String, String)>,
    /// Only those published with this set of stores
    #[arg(long, value_name = "NAME")]
    pub(super) set: Option<SetName>,
    /// Only those published with a set as of this instant, which is the set's cut
    #[arg(long, value_name = "TIME", value_parser = day_begins, allow_hyphen_values = true)]
    pub(super) set_cut_at: Option<Timestamp>,
    /// Only those cut at or after this time; a day alone means its beginning
    #[arg(long, value_name = "TIME", value_parser = day_begins, allow_hyphen_values = true)]
    pub(super) from: Option<Timestamp>,
    /// Only those cut at or before this time; a day alone means its end
    #[arg(long, value_name = "TIME", value_parser = day_ends, allow_hyphen_values = true)]
    pub(super) to: Option<Timestamp>,
    /// Only those in these states, or in any; without it, those that are ready or lost
    #[arg(long, value_delimiter = ',', value_parser = states())]
    pub(super) state: Vec<String>,
    /// At most this many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: u32,
    /// All of them
    #[arg(long, short, conflicts_with = "limit")]
    pub(super) all: bool,
}

#[derive(Debug, Args)]
pub(super) struct OneVersion {
    /// The version: report@12, report@latest or report@TAG
    pub(super) version: VersionArg,
}

#[derive(Debug, Args)]
pub(super) struct RetireArgs {
    /// The version: report@12 or report@latest
    pub(super) version: VersionArg,
    /// Why; it stands in the audit trail
    #[arg(long, short, value_name = "REASON")]
    pub(super) reason: Option<String>,
    /// Say what would happen, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Delete its pages at once, so that nobody can bring it back
    #[arg(long)]
    pub(super) now: bool,
    /// Do it without asking; needed if there is no terminal to ask on
    #[arg(long, short, conflicts_with = "dry_run")]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct UnretireArgs {
    /// The version: report@12
    pub(super) version: VersionArg,
    /// Why; it stands in the audit trail
    #[arg(long, short, value_name = "REASON")]
    pub(super) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The store; without it, and without a version, every store
    pub(super) store: Option<StoreName>,
    /// Only this version: 12, report@12 or report@latest
    #[arg(long, value_name = "VERSION")]
    pub(super) version: Option<VersionChoice>,
}

#[derive(Debug, Args)]
pub(super) struct CapacityArgs {
    /// Show it again every second, and whenever the guard does something, until it is stopped
    #[arg(long)]
    pub(super) watch: bool,
}

#[derive(Debug, Args)]
pub(super) struct AcknowledgeArgs {
    /// The alarm's key, as `capacity` shows it; it may be written without quotes
    #[arg(required = true)]
    pub(super) key: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    /// The version: report@12, report@latest or report@TAG
    pub(super) version: VersionArg,
    /// At most this many actions, the newest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) limit: u32,
}

/// What stands below the help of the program: how times are written, and what the exit codes say.
fn after_help() -> String {
    format!("{}\n\n{}", when::GRAMMAR, exit::help())
}

/// What may be written for a state.
fn states() -> PossibleValuesParser {
    State::ALL.map(State::text).into_iter().chain(["any"]).into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_arguments_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lines_that_are_taken() {
        for line in [
            "asat publish",
            "asat publish report --label close --business-date 2026-11-19 --key k",
            "asat publish --attribute batch=41 --attribute a=b=c",
            "asat ls --attribute batch=41",
            "asat ls --all --json",
            "asat ls report --state ready,lost --limit 3",
            "asat --server http://localhost:7878 show report@latest",
            "asat versions report",
            "asat ls --from -7d --to yesterday",
            "asat as-of -7d",
            "asat as-of 2026-11-19 report",
            "asat as-of --business-date month-end report",
            "asat open report@12 --ttl 90m --timeout 5s",
            "asat open report --as-of yesterday",
            "asat open report --business-date -7d",
            "asat open --label close",
            "asat exec report@12 -- sqlite3 {}",
            "asat exec report --as-of -7d -- sqlite3 -readonly {} --json",
            "asat diff report@11 report@12",
            "asat diff report@12 --rows --table valuation --by currency,day --limit 3",
            "asat diff report --as-of 2026-10-31 --as-of month-end --format sql",
            "asat history report valuation 7",
            "asat history report valuation --all",
            "asat history report delta -7 --column price --all",
            "asat verify --version report@12",
            "asat verify report --version 12",
            "asat restore report@12 --yes --certified-by ops",
            "asat retire report@12 --yes --reason mistake --now",
            "asat retire report@latest --dry-run",
            "asat unretire report@12 --reason needed",
            "asat tag report month-end-2026-10 report@12",
            "asat tag report month-end-2026-10 report@latest",
            "asat tag --list",
            "asat tag --list report",
            "asat tag --delete report month-end-2026-10",
            "asat show report@month-end-2026-10",
            "asat capacity --watch --json",
            "asat acknowledge group vg: short",
            "asat why report@latest --limit 3",
            "asat retention plan",
            "asat retention plan report --config other.toml --all --json",
            "asat serve",
            "asat backup copy.db -c asat.toml",
            "asat serve --config asat.toml",
            "asat serve --config asat.toml --check",
            "asat completions bash",
            "asat backup catalogue-copy.db --config asat.toml",
            "asat rebuild-catalogue --config asat.toml",
            "asat rebuild-catalogue --config asat.toml --replace",
            "asat rebuild-catalogue --config asat.toml --installation 0193aa55c3d47e019f3b2c77d0e1f2a3",
            "asat brake",
            "asat brake --let-go",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn lines_that_are_refused() {
        for line in [
            "asat",
            "asat publish ../x",
            "asat publish --attribute batch",
            "asat publish --attribute =41",
            "asat publish --business-date 2026-02-30",
            "asat ls --all --limit 3",
            "asat ls --limit 0",
            "asat ls --state happy",
            "asat show report",
            "asat show report@0",
            "asat open report@1 --ttl 0s",
            "asat open report --as-of yesterday --label close",
            "asat open report --business-date -7h",
            "asat exec report@1",
            "asat exec report@1 sqlite3",
            "asat pin report@1",
            "asat diff report@1 report@2 report@3",
            "asat diff report@1 --rows --format sql",
            "asat diff report@1 --by id",
            "asat history report",
            "asat history report valuation --column price",
            "asat tag",
            "asat tag report",
            "asat tag report month-end",
            "asat tag report 12 report@12",
            "asat tag report latest report@12",
            "asat tag --list report month-end",
            "asat tag --delete report",
            "asat tag --delete report month-end report@1",
            "asat tag --delete --list",
            "asat show report@a..b",
            "asat restore report",
            "asat stores --server https://localhost",
            "asat stores --token secret",
            "asat export report@1",
            "asat acknowledge",
            "asat why",
            "asat why report",
            "asat why report@1 --limit 1001",
            "asat retention",
            "asat retention plan report@1",
        ] {
            let refused = parse(line).err().map(|error| error.exit_code());
            assert_eq!(refused, Some(i32::from(exit::USAGE)), "{line}");
        }
    }
}
