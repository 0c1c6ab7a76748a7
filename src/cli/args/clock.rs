//! What may be written after `asat clock`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(in crate::cli) struct ClockArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<ClockCommand>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ClockCommand {
    /// Believe the machine's clock; what ends by it ends at once
    Accept {
        /// Do it without asking; needed if there is no terminal to ask on
        #[arg(long, short)]
        yes: bool,
        /// Why; it stands in the audit trail
        #[arg(long, short)]
        reason: Option<String>,
    },
}
