//! What a volume's marks say where nothing is recorded of it.

use std::collections::BTreeMap;

use asat_core::VersionId;

use super::{Installation, InstallationId, TAG_INSTALLATION, check_tags, parse};
use crate::lvm::report::LogicalVolume;

/// How the tags begin that say more of a version than whose it is.
const FURTHER: &str = "asat.";

/// The tags that say more of a version, in lines `name=value`.
pub(in crate::lvm) fn tagged(line: &str) -> String {
    format!("{FURTHER}{line}")
}

/// The lines that a volume's tags say, those by which it is recognised among them.
pub fn further(volume: &LogicalVolume) -> impl Iterator<Item = &str> + Clone {
    volume.tags.iter().filter_map(|tag| tag.strip_prefix(FURTHER))
}

/// The installation that made a volume, and the version that it was made for, where all its marks say the same. This makes it
/// nobody's: whose it is, is for [`recognise`](super::recognise) to say.
#[must_use]
pub fn made_by(volume: &LogicalVolume) -> Option<(InstallationId, VersionId)> {
    let (version, short) = parse(&volume.name)?;
    let mut ids = volume.tags.iter().filter_map(|tag| tag.strip_prefix(TAG_INSTALLATION));
    let id: InstallationId = ids.next()?.parse().ok()?;
    let installation = Installation { id, records: BTreeMap::new() };
    let agree = short == installation.id.short() && check_tags(volume, &installation, &version).is_ok();
    (agree && !volume.hidden).then_some((installation.id, version))
}

/// Whether LVM has come to the end of making a snapshot; a power cut may leave a plain volume, with nothing in it.
#[must_use]
pub fn is_finished(volume: &LogicalVolume) -> bool {
    volume.origin.is_some() || volume.pool.is_some()
}
