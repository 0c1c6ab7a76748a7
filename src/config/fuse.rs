//! The section `[fuse]`: where versions are read by their paths, and by whom.

use std::path::{Path, PathBuf};

use asat_core::Problem;
use asat_host::tree::group_number;

use super::raw;
use super::validate::{at, wrong};

/// Where the tree of versions is mounted, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuseConfig {
    /// The folder.
    pub root: PathBuf,
    /// Whether others than the daemon's user may look, as far as the mode lets them.
    pub allow_other: bool,
    /// The permissions of the files.
    pub mode: u16,
    /// The group that they belong to, by number; that of the daemon where none is named.
    pub group: Option<u32>,
}

pub(super) fn validate(raw: &raw::Fuse, folder: &Path) -> Result<FuseConfig, Problem> {
    let mode = u16::from_str_radix(&raw.mode, 8).ok().filter(|mode| mode & !0o444 == 0 && *mode != 0);
    let mode = mode.filter(|_| raw.mode.bytes().all(|digit| digit.is_ascii_digit())).ok_or_else(|| {
        let what = format!("{:?} is not a mode in which somebody may read and nobody may do more", raw.mode);
        wrong("fuse.mode", what, "write for example \"0440\"")
    })?;
    let group = raw.group.as_deref().map(group).transpose()?;
    Ok(FuseConfig { root: at("fuse.root", folder, &raw.root)?, allow_other: raw.allow_other, mode, group })
}

fn group(name: &str) -> Result<u32, Problem> {
    let unknown = |why: String| wrong("fuse.group", why, "name a group of this machine, or leave it out");
    let number =
        group_number(name).map_err(|error| unknown(format!("{name:?} cannot be looked up: {error}")))?;
    number.ok_or_else(|| unknown(format!("there is no group {name:?}")))
}
