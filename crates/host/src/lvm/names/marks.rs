//! What a volume's marks say where its UUID is not recorded.

use std::collections::BTreeMap;

use asat_core::VersionId;
use jiff::Timestamp;

use super::{Installation, InstallationId, TAG_INSTALLATION, check_tags, parse};
use crate::lvm::report::{Kind, LogicalVolume};
use crate::store::Told;

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

/// The version that a volume's name is for, where this installation gives such a name; whatever else is said of the volume, the
/// snapshot of another version of that number could not have it.
#[must_use]
pub fn named_for(volume: &LogicalVolume, id: &InstallationId) -> Option<VersionId> {
    let (version, short) = parse(&volume.name)?;
    (short == id.short()).then_some(version)
}

/// Whether LVM has come to the end of making a snapshot; a power cut may leave a plain volume, with nothing in it.
#[must_use]
pub fn is_finished(volume: &LogicalVolume) -> bool {
    volume.origin.is_some() || volume.pool.is_some()
}

/// Whether a volume can be what a power cut leaves of a classic snapshot.
///
/// LVM makes one in two steps. It records a plain volume with the name and the tags, clears it, and only then
/// records whose snapshot it is; it spends most of the command's time in between. Such a volume has no origin
/// yet, and nothing else could tell which one it was to have: so it must be just that, and nobody may use it.
/// A thin snapshot has its origin from the first step on.
pub(super) fn is_half_made(volume: &LogicalVolume) -> bool {
    let plain = ["linear", "striped"].map(|word| [word.to_owned()].into());
    volume.origin.is_none()
        && volume.pool.is_none()
        && volume.attributes.kind == Kind::Plain
        && plain.contains(&volume.layout)
        && !volume.attributes.open
}

/// Whether a volume was made before this instant, as it says itself; one that does not say when it was made may have been.
pub(super) fn is_older(volume: &LogicalVolume, at: Timestamp) -> bool {
    Told::cut_at(further(volume)).is_none_or(|cut_at| cut_at < at)
}
