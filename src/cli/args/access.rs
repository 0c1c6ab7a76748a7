//! The arguments of `audit` and `leases`: who did what, and who holds what.

use asat_core::StoreName;
use asat_core::audit::{Action, Place};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use jiff::Timestamp;

use crate::cli::typed::VersionArg;
use crate::cli::when::{day_begins, day_ends};

#[derive(Debug, Args)]
pub(in crate::cli) struct AuditArgs {
    /// Only what was done to this store
    pub(in crate::cli) store: Option<StoreName>,
    /// Only what was done to this version: report@12, or report@latest
    #[arg(long)]
    pub(in crate::cli) version: Option<VersionArg>,
    /// Only what this one did, written as in the trail: "uid 1000 (ann)", "token report server" or "asat"
    #[arg(long, value_name = "WHO")]
    pub(in crate::cli) actor: Option<String>,
    /// Only this
    #[arg(long, value_parser = actions())]
    pub(in crate::cli) action: Option<String>,
    /// Only what was done at or after this time; a day alone means its beginning
    #[arg(long, value_name = "TIME", value_parser = day_begins, allow_hyphen_values = true)]
    pub(in crate::cli) from: Option<Timestamp>,
    /// Only what was done at or before this time; a day alone means its end
    #[arg(long, value_name = "TIME", value_parser = day_ends, allow_hyphen_values = true)]
    pub(in crate::cli) to: Option<Timestamp>,
    /// At most this many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) limit: u32,
    /// All of them
    #[arg(long, short, conflicts_with = "limit")]
    pub(in crate::cli) all: bool,
    /// Instead of a list, say whether the whole trail is what was written, and where it ends; exits with 9 if it is not
    #[arg(
        long,
        conflicts_with_all = ["store", "version", "actor", "action", "from", "to", "limit", "all"],
    )]
    pub(in crate::cli) verify: bool,
    /// The same, and hold this place against it, which an earlier --verify has printed
    #[arg(
        long, value_name = "NUMBER:CHAIN", value_parser = place,
        conflicts_with_all = ["store", "version", "actor", "action", "from", "to", "limit", "all"],
    )]
    pub(in crate::cli) noted: Option<Place>,
}

/// What may be written for an action.
fn actions() -> PossibleValuesParser {
    Action::ALL.map(Action::text).into()
}

fn place(text: &str) -> Result<Place, String> {
    text.parse().map_err(|problem: asat_core::Problem| problem.detail)
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct LeasesArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<LeasesCommand>,
    /// Only those on versions of this store
    pub(in crate::cli) store: Option<StoreName>,
    /// Only those of this holder
    #[arg(long)]
    pub(in crate::cli) holder: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LeasesCommand {
    /// Take a lease from its holder at once; it is written down, with the reason
    Revoke {
        /// The lease, as `leases` shows it
        lease: String,
        /// Why; it stands in the audit trail
        #[arg(long, short)]
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::args::Cli;

    #[test]
    fn lines_that_are_taken_and_refused() {
        let place = format!("37:{}", "0a".repeat(32));
        let taken = [
            "audit",
            "audit report --action retire --limit 3 --json",
            "audit --version report@latest --from 2026-11-01 --to 2026-11-19T17:00:00Z --all",
            "audit --verify",
            &format!("audit --noted {place}"),
            &format!("audit --verify --noted {place}"),
            "leases",
            "leases report --holder ann",
            "leases revoke 0193 --reason incident",
        ];
        for line in taken {
            assert!(Cli::try_parse_from(format!("asat {line}").split(' ')).is_ok(), "{line}");
        }
        let refused = [
            "audit ../x",
            "audit --action explode",
            "audit --limit 0",
            "audit --all --limit 3",
            "audit --verify report",
            "audit --verify --limit 1",
            "audit --noted 37",
            &format!("audit --noted {}", &place[..place.len() - 1]),
            "leases revoke",
            "leases revoke 0193",
            "leases --holder ann revoke 0193 --reason incident",
        ];
        for line in refused {
            assert!(Cli::try_parse_from(format!("asat {line}").split(' ')).is_err(), "{line}");
        }
    }
}
