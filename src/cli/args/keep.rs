//! What may be written after `asat pin` and `asat restore`.

use clap::Args;
use jiff::Timestamp;

use super::{VersionArg, day_ends};

#[derive(Debug, Args)]
pub(in crate::cli) struct PinArgs {
    /// The version: report@12, report@latest or report@TAG
    pub(in crate::cli) version: VersionArg,
    /// Why it must stay
    #[arg(long, short)]
    pub(in crate::cli) reason: String,
    /// Who wants it
    #[arg(long)]
    pub(in crate::cli) owner: Option<String>,
    /// When the pin ends, for example 2027-06-30 or +30d; if left out, never; a day alone means its end
    #[arg(long, value_name = "TIME", value_parser = day_ends, allow_hyphen_values = true)]
    pub(in crate::cli) until: Option<Timestamp>,
    /// Keep its snapshot too, if it has one
    #[arg(long)]
    pub(in crate::cli) hot: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RestoreArgs {
    /// The version: report@12, report@latest or report@TAG
    pub(in crate::cli) version: VersionArg,
    /// Do it without asking; needed if there is no terminal to ask on
    #[arg(long, short)]
    pub(in crate::cli) yes: bool,
    /// Who vouches for it
    #[arg(long, value_name = "WHO")]
    pub(in crate::cli) certified_by: Option<String>,
    /// Anything else worth saying
    #[arg(long)]
    pub(in crate::cli) note: Option<String>,
}
