//! Why LVM refused, read from its exit status and its words.
//!
//! LVM has one exit status for nearly everything, and its messages are not numbered. So its words are
//! looked for, as versions 2.03.11 to 2.03.16 write them. Words that are not known make [`Refusal::Other`],
//! which nobody may take for a particular reason.

use asat_core::Code;

use super::super::units::Extents;

/// Why LVM refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It gave up in the middle. Volumes may be suspended, and half-made ones left behind.
    HalfDone,
    /// This process may not do it.
    NotPermitted,
    /// Another command holds the lock.
    Locked,
    /// There is no such volume group.
    NoSuchGroup,
    /// There is no such logical volume.
    NoSuchVolume,
    /// The name is taken.
    AlreadyExists,
    /// The group has too few free extents.
    NoRoom {
        /// How many are needed, where LVM says.
        needed: Option<Extents>,
        /// How many there are, where LVM says.
        available: Option<Extents>,
    },
    /// The thin pool's data or metadata is filled beyond what LVM allows for a new volume.
    PoolFull,
    /// The group's metadata area, in which LVM describes its volumes, is full.
    MetadataFull,
    /// The volume is mounted, or somebody has it open.
    InUse,
    /// The volume must not be active for this.
    MustBeInactive,
    /// The volume has the size already that was asked for, as LVM's records say.
    SameSize,
    /// The volume cannot be what was asked of it.
    NotSupported,
    /// The group lacks a physical volume.
    Incomplete,
    /// An option or a name was not taken.
    BadArgument,
    /// Anything else.
    Other,
}

/// Words and what they mean. The first that are found count: LVM goes on to tell consequences, so causes
/// stand first.
const WORDS: [(&str, Refusal); 34] = [
    ("Manual intervention required", Refusal::HalfDone),
    ("Failed to suspend", Refusal::HalfDone),
    ("Failed to resume", Refusal::HalfDone),
    ("Problem reactivating", Refusal::HalfDone),
    ("device(s) still suspended", Refusal::HalfDone),
    ("open failed: Permission denied", Refusal::NotPermitted),
    ("Operation not permitted", Refusal::NotPermitted),
    ("flock failed: Resource temporarily unavailable", Refusal::Locked),
    ("Can't get lock for", Refusal::Locked),
    ("Cannot access VG", Refusal::NotPermitted),
    ("while PVs are missing", Refusal::Incomplete),
    ("PVs are missing", Refusal::Incomplete),
    ("reached threshold", Refusal::PoolFull),
    ("Insufficient free space", Refusal::NoRoom { needed: None, available: None }),
    ("insufficient free space", Refusal::NoRoom { needed: None, available: None }),
    ("Insufficient suitable", Refusal::NoRoom { needed: None, available: None }),
    ("VG metadata too large", Refusal::MetadataFull),
    ("exceeds maximum metadata size", Refusal::MetadataFull),
    ("already exists in volume group", Refusal::AlreadyExists),
    ("Failed to find logical volume", Refusal::NoSuchVolume),
    ("not found in Volume group", Refusal::NoSuchVolume),
    ("not found in volume group", Refusal::NoSuchVolume),
    ("Volume group \"", Refusal::NoSuchGroup),
    ("contains a filesystem in use", Refusal::InUse),
    ("is used by another device", Refusal::InUse),
    (" in use.", Refusal::InUse),
    ("only while inactive", Refusal::MustBeInactive),
    ("matches existing size", Refusal::SameSize),
    ("are not supported", Refusal::NotSupported),
    ("not detected in your kernel", Refusal::NotSupported),
    ("is invalid.", Refusal::BadArgument),
    ("are reserved.", Refusal::BadArgument),
    ("Invalid argument for", Refusal::BadArgument),
    ("Error during parsing of command line", Refusal::BadArgument),
];

/// Finds out why LVM refused.
#[must_use]
pub fn refusal(status: i32, errors: &str) -> Refusal {
    let lines = || errors.lines().map(str::trim).filter(|line| !line.starts_with("WARNING:"));
    for (words, refusal) in WORDS {
        let Some(line) = lines().find(|line| line.contains(words)) else { continue };
        match refusal {
            Refusal::NoRoom { .. } => return no_room(line),
            Refusal::NoSuchGroup if !line.ends_with("not found") => {}
            found => return found,
        }
    }
    // LVM's ECMD_... values: 3 is a command line that it does not take, 5 is any failure.
    if status == 3 { Refusal::BadArgument } else { Refusal::Other }
}

/// Reads `Insufficient free space: 4064 extents needed, but only 407 available`, and
/// `Volume group "vg" has insufficient free space (252 extents): 100000 required.`
fn no_room(line: &str) -> Refusal {
    let after = |words: &str| line.split_once(words).and_then(|(_, rest)| leading_number(rest));
    let (needed, available) = match after("nsufficient free space: ") {
        Some(needed) => (Some(needed), after("but only ")),
        None => (after("extents): "), after("nsufficient free space (")),
    };
    Refusal::NoRoom { needed: needed.map(Extents), available: available.map(Extents) }
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

impl Refusal {
    /// The code for the problem, and what to do.
    pub(super) fn advice(self) -> (Code, &'static str) {
        match self {
            Self::HalfDone => (
                Code::Internal,
                "look for suspended volumes (dmsetup info -c), resume what is (lvchange --refresh on the volume that snapshots are taken of), and look at lvs for what was left behind",
            ),
            Self::NotPermitted => {
                (Code::Configuration, "run the daemon as root, or choose the backend `pages`")
            }
            Self::Locked => (Code::Internal, "wait until the other LVM command has ended, then try again"),
            Self::NoRoom { .. } => {
                (Code::StorageFull, "add a physical volume to the group (vgextend), or retire versions")
            }
            Self::PoolFull => (Code::StorageFull, "extend the thin pool (lvextend), or retire versions"),
            Self::MetadataFull => (
                Code::StorageFull,
                "remove volumes of the group that nobody needs, or give it a larger metadata area (docs/recover.md)",
            ),
            Self::InUse => (Code::InUse, "see who uses it: lsof, findmnt"),
            Self::Incomplete => (Code::Internal, "bring the missing disk back, then try again: pvs"),
            Self::NotSupported => (Code::Configuration, "choose another backend for the store"),
            Self::AlreadyExists => (
                Code::Internal,
                "somebody else has made a volume of that name: rename it (lvrename) or remove it, then try again",
            ),
            Self::NoSuchGroup | Self::NoSuchVolume | Self::MustBeInactive | Self::SameSize => {
                (Code::Internal, "look at the volumes: lvs -a")
            }
            Self::BadArgument => {
                (Code::Internal, "report this as a defect, with the output of `lvm version`")
            }
            Self::Other => (Code::Internal, "run the command by hand to see more"),
        }
    }
}

#[cfg(test)]
mod tests;
