//! The ten characters of `lv_attr`, as the manual page `lvs(8)` explains them.

use std::str::FromStr;

/// What `lv_attr` says of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What kind of volume it is.
    pub kind: Kind,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether its device is there.
    pub activity: Activity,
    /// Whether somebody has its device open.
    pub open: bool,
    /// Whether something is wrong with it.
    pub health: Health,
    /// Whether LVM leaves it out when it activates the group's volumes.
    pub skipped: bool,
}

/// What kind of volume it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of its own, linear or striped.
    Plain,
    /// The origin of classic snapshots.
    Origin,
    /// An origin into which a snapshot is being merged.
    MergingOrigin,
    /// A classic snapshot.
    Snapshot,
    /// A classic snapshot that is being merged.
    MergingSnapshot,
    /// A thin volume, or a thin snapshot.
    Thin,
    /// A thin pool.
    ThinPool,
    /// Any other: a cache, a RAID, a mirror, a part of another volume.
    Other(char),
}

/// Whether a volume's device is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It is, and works.
    Active,
    /// It is not.
    Inactive,
    /// It is, and whoever uses it waits.
    Suspended,
    /// A classic snapshot whose content is lost; its device may be suspended besides.
    InvalidSnapshot,
    /// Any other: a failed merge, a missing table, a state that LVM could not find out.
    Other(char),
}

/// Whether something is wrong with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing that LVM knows of.
    Good,
    /// A physical volume is missing.
    Partial,
    /// A thin pool that has failed.
    Failed,
    /// A thin pool without free data blocks.
    OutOfData,
    /// A thin pool whose metadata cannot be written.
    MetadataReadOnly,
    /// Any other.
    Other(char),
}

impl FromStr for Attributes {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let characters: Vec<char> = text.chars().collect();
        let &[kind, permissions, _, _, activity, open, _, _, health, skipped] = characters.as_slice() else {
            return Err(());
        };
        Ok(Self {
            kind: match kind {
                '-' => Kind::Plain,
                'o' => Kind::Origin,
                'O' => Kind::MergingOrigin,
                's' => Kind::Snapshot,
                'S' => Kind::MergingSnapshot,
                'V' => Kind::Thin,
                't' => Kind::ThinPool,
                other => Kind::Other(other),
            },
            writable: permissions == 'w',
            activity: match activity {
                'a' => Activity::Active,
                '-' => Activity::Inactive,
                's' => Activity::Suspended,
                'I' | 'S' => Activity::InvalidSnapshot,
                other => Activity::Other(other),
            },
            open: match open {
                'o' => true,
                '-' | 'X' => false,
                _ => return Err(()),
            },
            health: match health {
                '-' => Health::Good,
                'p' => Health::Partial,
                'F' => Health::Failed,
                'D' => Health::OutOfData,
                'M' => Health::MetadataReadOnly,
                other => Health::Other(other),
            },
            skipped: skipped == 'k',
        })
    }
}
