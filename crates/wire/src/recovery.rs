//! What is said of a catalogue that was copied, or made anew, and of an archive that was taken over into today's format.

use serde::{Deserialize, Serialize};

/// A copy of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUp {
    /// Its path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Where the audit trail ends in it: a place to be noted down.
    pub audit_head: String,
}

/// A catalogue that was made anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuilt {
    /// The versions that are known again.
    pub versions: Vec<String>,
    /// The versions whose pages the archives cannot give; they are recorded as lost.
    pub damaged: Vec<String>,
    /// The path of the catalogue that was there before; `None` if there was none.
    pub kept: Option<String>,
    /// The installation that it is of: whose snapshots are its own.
    pub installation: String,
    /// What was said of versions, snapshots and files meanwhile.
    pub remarks: Vec<String>,
}

/// An archive that was taken over into today's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgraded {
    /// The store.
    pub store: String,
    /// How many versions were taken over; `None` where the archive has today's format already.
    pub versions: Option<u64>,
    /// The versions that were left out, since they cannot be read.
    pub left_out: Vec<String>,
    /// What the archive took before.
    pub bytes_before: u64,
    /// What it takes now.
    pub bytes_after: u64,
    /// The path of the old archive, if files that are not asat's are with it.
    pub kept: Option<String>,
}
