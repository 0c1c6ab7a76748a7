//! What may be written after `asat tag`.

use asat_core::{StoreName, TagName};
use clap::Args;

use super::VersionArg;

#[derive(Debug, Args)]
pub(in crate::cli) struct TagArgs {
    /// The store
    #[arg(required_unless_present = "list")]
    pub(in crate::cli) store: Option<StoreName>,
    /// The name, for example month-end-2026-10; neither a number nor latest
    #[arg(required_unless_present = "list", conflicts_with = "list")]
    pub(in crate::cli) tag: Option<TagName>,
    /// The version: report@12, report@latest or report@TAG
    #[arg(required_unless_present_any = ["list", "delete"], conflicts_with_all = ["list", "delete"])]
    pub(in crate::cli) version: Option<VersionArg>,
    /// List the tags of the store, or of every store
    #[arg(long)]
    pub(in crate::cli) list: bool,
    /// Delete the tag; the version stays
    #[arg(long, conflicts_with = "list")]
    pub(in crate::cli) delete: bool,
}
