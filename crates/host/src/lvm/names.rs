//! Which logical volumes are ours: the one place that names them and that recognises them.
//!
//! A volume group belongs to its administrator. asat may extend and remove the volumes that it made, and no
//! other, whatever they are called. So every snapshot of a version carries three marks, and all must agree:
//!
//! * its name, `asat.<number>.<end of the installation's id>.<store>`, with `_` in the store's name written
//!   as `+`. LVM reserves names with certain words behind an underscore (`_tmeta`, `_mimage`), and there is
//!   none in such a name. A store's name has no `+`, so the name is read back exactly;
//! * its tags, which say in full which installation made it, for which store and which version;
//! * its UUID, which LVM gives it and nobody can choose: it is recorded after the volume is made.
//!
//! Besides, its tags say what is known of the version itself (see [`further`](further())), for where all records are lost.
//!
//! A volume that was made just before a crash has no recorded UUID. Its name and tags must agree with a
//! recorded intent then, it must say that it was made after that, and it must be a snapshot of the very volume that the intent
//! names, or a plain volume that was about to become one (see `marks::is_half_made`). [`Ours`] can be had from [`recognise`], and by making a
//! volume, and in no other way; whatever changes a volume should ask for one.

use std::collections::BTreeMap;
use std::str::FromStr;

use asat_core::{Code, Problem, StoreName, VersionId};
use jiff::Timestamp;

use super::report::{LogicalVolume, Name, Uuid};

mod marks;

pub(super) use marks::tagged;
pub use marks::{further, is_finished, made_by, named_for};
use marks::{is_half_made, is_older};

/// The tag that all of our volumes have, so that `lvs @asat` lists them.
pub(super) const TAG: &str = "asat";
const TAG_INSTALLATION: &str = "asat.installation=";
const TAG_STORE: &str = "asat.store=";
const TAG_NUMBER: &str = "asat.number=";
/// What the kernel's names of a snapshot's parts end with, at the longest (`-cow`, `-real`).
const LONGEST_SUFFIX: usize = 5;
/// The longest name that the kernel gives a device.
const MOST_DEVICE_NAME: usize = 127;

/// An installation of asat: its id, and the volumes that it recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Its id.
    pub id: InstallationId,
    /// What the catalogue says of each version's snapshot.
    pub records: BTreeMap<VersionId, Record>,
}

/// The id of an installation: 32 hexadecimal digits in lower case, made at random once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallationId(String);

/// What is recorded of a version's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The group that it was to be made in.
    pub group: Uuid,
    /// The volume that it was to be a snapshot of.
    pub origin: Uuid,
    /// Which volume it is.
    pub volume: Which,
}

/// Which volume is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with this UUID.
    Known(Uuid),
    /// None yet: only the intent is recorded, and a volume that was made for it says an instant that is not before this one. What
    /// is older is a version that nothing is recorded of any more, whose number was given again.
    MadeSince(Timestamp),
}

/// Whose a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// It is ours: every mark agrees with the record.
    Ours(Ours),
    /// It is not, or cannot be shown to be.
    Foreign(Foreign),
}

/// A volume that is ours: [`recognise`] found it so, or LVM has made it in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    version: VersionId,
    installation: InstallationId,
    group: Name,
    group_uuid: Uuid,
    name: Name,
    uuid: Uuid,
    recorded: bool,
}

/// Why a volume is not ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// Its name is none that asat gives.
    #[error("its name is none that asat gives")]
    Name,
    /// It is a hidden part of another volume.
    #[error("it is a part of another volume")]
    Hidden,
    /// A tag is missing, or there is another of the same kind.
    #[error("its tags are not exactly those that asat gives: {0}")]
    Tags(&'static str),
    /// Another installation of asat made it.
    #[error("another installation of asat made it")]
    Installation,
    /// Nothing is recorded of such a snapshot.
    #[error("nothing is recorded of a snapshot of {0}")]
    NotRecorded(VersionId),
    /// Another volume is recorded for that version.
    #[error("its UUID is not the recorded one")]
    Uuid,
    /// It lies in another group.
    #[error("it lies in another volume group than the recorded one")]
    Group,
    /// It is not a snapshot of the recorded origin.
    #[error("it is no snapshot of the recorded origin")]
    Origin,
}

/// Finds out whose a volume is.
#[must_use]
pub fn recognise(volume: &LogicalVolume, installation: &Installation) -> Whose {
    match check(volume, installation) {
        Ok(ours) => Whose::Ours(ours),
        Err(foreign) => Whose::Foreign(foreign),
    }
}

fn check(volume: &LogicalVolume, installation: &Installation) -> Result<Ours, Foreign> {
    let (version, short) = parse(&volume.name).ok_or(Foreign::Name)?;
    if volume.hidden {
        return Err(Foreign::Hidden);
    }
    if short != installation.id.short() {
        return Err(Foreign::Installation);
    }
    check_tags(volume, installation, &version)?;
    let record = installation.records.get(&version).ok_or_else(|| Foreign::NotRecorded(version.clone()))?;
    if volume.group_uuid != record.group {
        return Err(Foreign::Group);
    }
    match record.volume {
        Which::Known(uuid) if uuid != volume.uuid => return Err(Foreign::Uuid),
        Which::MadeSince(at) if is_older(volume, at) => return Err(Foreign::NotRecorded(version)),
        Which::MadeSince(_) if !is_of(volume, record.origin) && !is_half_made(volume) => {
            return Err(Foreign::Origin);
        }
        _ => {}
    }
    // A snapshot is never the volume that it is taken from, whatever a damaged record says.
    if volume.uuid == record.origin {
        return Err(Foreign::Origin);
    }
    Ok(Ours {
        version,
        installation: installation.id.clone(),
        group: volume.group.clone(),
        group_uuid: volume.group_uuid,
        name: volume.name.clone(),
        uuid: volume.uuid,
        recorded: matches!(record.volume, Which::Known(_)),
    })
}

fn is_of(volume: &LogicalVolume, origin: Uuid) -> bool {
    volume.origin.as_ref().is_some_and(|(_, uuid)| *uuid == origin)
}

impl LogicalVolume {
    /// Whether it says to be a snapshot of an asat's, this one or another. Nothing may be done to it for that alone; see
    /// [`recognise`].
    #[must_use]
    pub fn has_our_tag(&self) -> bool {
        self.tags.contains(TAG)
    }
}

/// Every tag of ours must be there, and no second one of its kind. The administrator may add tags.
fn check_tags(
    volume: &LogicalVolume,
    installation: &Installation,
    version: &VersionId,
) -> Result<(), Foreign> {
    let value = |prefix: &'static str| {
        let mut values = volume.tags.iter().filter_map(|tag| tag.strip_prefix(prefix));
        values.next().filter(|_| values.next().is_none()).ok_or(Foreign::Tags(prefix))
    };
    if !volume.has_our_tag() {
        return Err(Foreign::Tags(TAG));
    }
    if value(TAG_INSTALLATION)? != installation.id.0 {
        return Err(Foreign::Installation);
    }
    if value(TAG_STORE)? != version.store.as_str() {
        return Err(Foreign::Tags(TAG_STORE));
    }
    if value(TAG_NUMBER)? != version.number.to_string() {
        return Err(Foreign::Tags(TAG_NUMBER));
    }
    Ok(())
}

/// The name of a version's snapshot.
///
/// # Errors
/// Where the kernel's name for it would be too long. LVM notices that only after it has suspended the
/// origin, and leaves a volume behind that somebody must remove.
pub fn name(version: &VersionId, id: &InstallationId, group: &Name) -> Result<Name, TooLong> {
    let VersionId { store, number } = version;
    let text = format!("asat.{number}.{}.{}", id.short(), store.as_str().replace('_', "+"));
    let too_long = || TooLong { store: store.clone(), group: group.clone() };
    let name: Name = text.parse().map_err(|()| too_long())?;
    if group.device_len() + 1 + name.device_len() + LONGEST_SUFFIX > MOST_DEVICE_NAME {
        return Err(too_long());
    }
    Ok(name)
}

/// Looks whether every version of a store will have a name that fits.
///
/// # Errors
/// As [`name`], for the highest number that there is.
pub fn check_store(store: &StoreName, id: &InstallationId, group: &Name) -> Result<(), TooLong> {
    name(&VersionId { store: store.clone(), number: u64::MAX }, id, group).map(|_| ())
}

/// The tags of a version's snapshot.
#[must_use]
pub fn tags(version: &VersionId, id: &InstallationId) -> [String; 4] {
    [
        TAG.to_owned(),
        format!("{TAG_INSTALLATION}{}", id.0),
        format!("{TAG_STORE}{}", version.store),
        format!("{TAG_NUMBER}{}", version.number),
    ]
}

/// Reads a name back. What [`name`] would spell otherwise is not one of ours.
fn parse(name: &Name) -> Option<(VersionId, &str)> {
    let mut parts = name.as_str().splitn(4, '.');
    let ("asat", number, short, store) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?) else {
        return None;
    };
    if store.contains('_') {
        return None;
    }
    // The parser of versions knows that a number has one spelling.
    let version: VersionId = format!("{}@{number}", store.replace('+', "_")).parse().ok()?;
    Some((version, short))
}

/// Whether a device of the device-mapper has the name that an installation of asat gives the snapshot of a version:
/// the group and the volume with a hyphen between them, and every other hyphen doubled. This is less than
/// [`recognise`] asks for, and enough only where nothing of the snapshot is changed.
#[must_use]
pub fn is_device_name(device: &str) -> bool {
    // No device has a slash in its name.
    let parts = device.replace("--", "/");
    let mut parts = parts.split('-').map(|part| part.replace('/', "-").parse::<Name>());
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Ok(_)), Some(Ok(volume)), None) => !device.contains('/') && parse(&volume).is_some(),
        _ => false,
    }
}

/// The UUID of a thin pool's device in the device-mapper: the one that takes messages, below the pool that LVM shows.
#[must_use]
pub fn pool_uuid(group: Uuid, pool: Uuid) -> String {
    format!("LVM-{}{}-tpool", group.compact(), pool.compact())
}

impl Ours {
    /// The volume that LVM has just made for a version: the kernel told its UUIDs.
    pub(super) fn made(
        (version, installation): (&VersionId, &InstallationId),
        (group, group_uuid): (&Name, Uuid),
        (name, uuid): (Name, Uuid),
    ) -> Self {
        let (version, installation, group) = (version.clone(), installation.clone(), group.clone());
        Self { version, installation, group, group_uuid, name, uuid, recorded: true }
    }

    /// The version that it holds.
    #[must_use]
    pub fn version(&self) -> &VersionId {
        &self.version
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> &Name {
        &self.group
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The UUID of its device in the device-mapper, by which no other volume is ever meant.
    #[must_use]
    pub fn device_uuid(&self) -> String {
        format!("LVM-{}{}", self.group_uuid.compact(), self.uuid.compact())
    }

    /// Whether its UUID is recorded. If not, it was made just before a crash.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// It as an operand of LVM's commands.
    #[must_use]
    pub fn operand(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    /// The value of `--select` with which a command leaves any other volume alone that has taken this name
    /// since. Such a command then ends well and has done nothing, so look again.
    #[must_use]
    pub fn selection(&self) -> String {
        format!("lv_uuid={}", self.uuid)
    }

    /// The same, for a volume that still has all of our tags: who took one away has taken the volume over.
    pub(super) fn tagged_selection(&self) -> String {
        let tags = tags(&self.version, &self.installation).map(|tag| format!(" && lv_tags=\"{tag}\""));
        format!("{}{}", self.selection(), tags.concat())
    }
}

impl InstallationId {
    /// The part that is in the names of volumes: the end, for UUIDs begin with the time.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(24..).unwrap_or_default()
    }

    /// The whole id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InstallationId {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 32 && text.bytes().all(hexadecimal) {
            return Ok(Self(text.to_owned()));
        }
        Err(Problem::new(
            Code::Damaged,
            "the recorded id of this installation is not 32 hexadecimal digits in lower case",
            "restore the catalogue from a backup",
        ))
    }
}

/// A name that the kernel would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "snapshots of the store {store} in the volume group {group} would have names longer than the kernel takes"
)]
pub struct TooLong {
    /// The store.
    pub store: StoreName,
    /// The group.
    pub group: Name,
}

impl From<TooLong> for Problem {
    fn from(error: TooLong) -> Self {
        let hint = "give the store a shorter name, with fewer hyphens, or choose the backend `pages`";
        Self::new(Code::Configuration, error.to_string(), hint)
    }
}

#[cfg(test)]
mod tests;
