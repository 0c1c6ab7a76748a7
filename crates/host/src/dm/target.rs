//! The state of each kind of target, in the kernel's words.
//!
//! The words are those of `Documentation/admin-guide/device-mapper` and of the kernel's `status` functions.
//! An unknown word is an error: the guard must not take a state that it does not understand for a healthy
//! one. Fields that later kernels appended may be missing.

use super::error::Error;
use super::wire::Target;
use crate::lvm::units::Sectors;

/// The state of a classic snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// It holds what it should.
    Valid {
        /// What is taken of its space, its own records included.
        used: Sectors,
        /// Its space.
        total: Sectors,
        /// What its own records take.
        metadata: Sectors,
    },
    /// It was full when its origin was written, or its device failed: its content is lost.
    Invalid,
    /// It was full when it was written itself, and is about to become invalid.
    Overflow,
    /// Merging it into its origin failed.
    MergeFailed,
    /// The kernel cannot say.
    Unknown,
}

/// The state of a thin volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thin {
    /// It can be used.
    Mapped {
        /// How much of it has space in the pool, shared with others or not.
        mapped: Sectors,
        /// The highest sector that has; `None` where none has.
        highest: Option<Sectors>,
    },
    /// It is about to be made or has no device in the pool.
    Unmapped,
    /// Its pool has failed.
    Failed,
}

/// The state of a thin pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThinPool {
    /// It can be asked.
    Running(PoolState),
    /// It has failed: neither reads nor writes.
    Failed,
}

/// The state of a thin pool that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// The number that LVM gave its last change.
    pub transaction: u64,
    /// Its metadata.
    pub metadata: Usage,
    /// Its data.
    pub data: Usage,
    /// The block that a reader of the metadata holds, if there is one. Only one may at a time.
    pub held_root: Option<u64>,
    /// Whether it takes writes.
    pub mode: PoolMode,
    /// What happens to discards.
    pub discards: Discards,
    /// Whether a write that finds no space fails at once, instead of waiting for space.
    pub error_if_no_space: bool,
    /// Whether its metadata must be checked before it can be trusted.
    pub needs_check: bool,
    /// Free metadata blocks at which the kernel sends an event; `None` where the kernel does not say.
    pub metadata_low_water: Option<u64>,
}

/// Blocks used, of how many. Metadata blocks have 4 KiB, data blocks the size that the pool's table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Used.
    pub used: u64,
    /// Of how many.
    pub total: u64,
}

/// Whether a pool takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// It does.
    ReadWrite,
    /// It does not: its metadata is full, or damaged, or it was asked not to.
    ReadOnly,
    /// Only where no new block is needed.
    OutOfDataSpace,
}

/// What a pool does with discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discards {
    /// Nothing.
    Ignored,
    /// It frees blocks, and tells its own device nothing.
    Kept,
    /// It frees blocks, and tells its own device.
    PassedDown,
}

/// What the table of a thin pool says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolTable {
    /// The device that holds its metadata.
    pub metadata: (u32, u32),
    /// The device that holds its data.
    pub data: (u32, u32),
    /// The size of a data block.
    pub block: Sectors,
    /// Free data blocks at which the kernel sends an event.
    pub low_water: u64,
}

/// What the table of a thin volume says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinTable {
    /// The device of its pool.
    pub pool: (u32, u32),
    /// Its number in the pool.
    pub number: u64,
}

/// What the table of a classic snapshot's origin says: writes to it are copied first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginTable {
    /// The device that holds its content. The tables of its snapshots name the same one.
    pub content: (u32, u32),
}

/// What the table of a classic snapshot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotTable {
    /// The device that holds the content of its origin.
    pub origin: (u32, u32),
    /// The device that takes what is copied.
    pub cow: (u32, u32),
    /// How much is copied at once.
    pub chunk: Sectors,
}

impl Snapshot {
    /// Reads the state of a `snapshot` target.
    ///
    /// # Errors
    /// Where it is another kind, or an unknown state.
    pub fn parse(target: &Target) -> Result<Self, Error> {
        read("snapshot", target, |text| match text {
            "Invalid" => Some(Self::Invalid),
            "Overflow" => Some(Self::Overflow),
            "Merge failed" => Some(Self::MergeFailed),
            "Unknown" => Some(Self::Unknown),
            _ => {
                let (usage, metadata) = text.split_once(' ')?;
                let Usage { used, total } = usage_of(usage)?;
                Some(Self::Valid {
                    used: Sectors(used),
                    total: Sectors(total),
                    metadata: Sectors(number(metadata)?),
                })
            }
        })
    }
}

impl Thin {
    /// Reads the state of a `thin` target.
    ///
    /// # Errors
    /// Where it is another kind, or an unknown state.
    pub fn parse(target: &Target) -> Result<Self, Error> {
        read("thin", target, |text| match text {
            "Fail" => Some(Self::Failed),
            "-" => Some(Self::Unmapped),
            _ => {
                let (mapped, highest) = text.split_once(' ')?;
                let highest = if highest == "-" { None } else { Some(Sectors(number(highest)?)) };
                Some(Self::Mapped { mapped: Sectors(number(mapped)?), highest })
            }
        })
    }
}

impl ThinPool {
    /// Reads the state of a `thin-pool` target.
    ///
    /// # Errors
    /// Where it is another kind, or an unknown state.
    pub fn parse(target: &Target) -> Result<Self, Error> {
        read("thin-pool", target, |text| match text {
            "Fail" => Some(Self::Failed),
            _ => pool_state(text).map(Self::Running),
        })
    }
}

/// Reads `13 138/1024 492/10240 - rw no_discard_passdown queue_if_no_space - 256`.
fn pool_state(text: &str) -> Option<PoolState> {
    let mut words = text.split(' ');
    let state = PoolState {
        transaction: number(words.next()?)?,
        metadata: usage_of(words.next()?)?,
        data: usage_of(words.next()?)?,
        held_root: match words.next()? {
            "-" => None,
            block => Some(number(block)?),
        },
        mode: match words.next()? {
            "rw" => PoolMode::ReadWrite,
            "ro" => PoolMode::ReadOnly,
            "out_of_data_space" => PoolMode::OutOfDataSpace,
            _ => return None,
        },
        discards: match words.next()? {
            "ignore_discard" => Discards::Ignored,
            "no_discard_passdown" => Discards::Kept,
            "discard_passdown" => Discards::PassedDown,
            _ => return None,
        },
        error_if_no_space: match words.next()? {
            "error_if_no_space" => true,
            "queue_if_no_space" => false,
            _ => return None,
        },
        needs_check: match words.next() {
            Some("needs_check") => true,
            Some("-") | None => false,
            Some(_) => return None,
        },
        metadata_low_water: match words.next() {
            Some(blocks) => Some(number(blocks)?),
            None => None,
        },
    };
    Some(state)
}

impl PoolTable {
    /// Reads the table of a `thin-pool` target.
    ///
    /// # Errors
    /// Where it is another kind, or an unknown table.
    pub fn parse(target: &Target) -> Result<Self, Error> {
        read("thin-pool", target, |text| {
            let mut words = text.split(' ');
            Some(Self {
                metadata: device(words.next()?)?,
                data: device(words.next()?)?,
                block: Sectors(number(words.next()?)?),
                low_water: number(words.next()?)?,
            })
        })
    }
}

impl ThinTable {
    /// Reads the table of a `thin` target. One that shows another device where it has nothing itself is not known here.
    ///
    /// # Errors
    /// Where it is another kind, or an unknown table.
    pub fn parse(target: &Target) -> Result<Self, Error> {
        read("thin", target, |text| {
            let (pool, number_in_pool) = text.split_once(' ')?;
            Some(Self { pool: device(pool)?, number: number(number_in_pool)? })
        })
    }
}

impl SnapshotTable {
    /// Reads the table of a `snapshot` target.
    ///
    /// # Errors
    /// Where it is another kind, or an unknown table.
    pub fn parse(target: &Target) -> Result<Self, Error> {
        read("snapshot", target, |text| {
            let mut words = text.split(' ');
            let (origin, cow) = (device(words.next()?)?, device(words.next()?)?);
            // P, or PO where the kernel may call the snapshot overflowed: persistent, either way.
            words.next()?.strip_prefix('P')?;
            Some(Self { origin, cow, chunk: Sectors(number(words.next()?)?) })
        })
    }
}

impl OriginTable {
    /// Reads the table of a `snapshot-origin` target.
    ///
    /// # Errors
    /// Where it is another kind, or an unknown table.
    pub fn parse(target: &Target) -> Result<Self, Error> {
        read("snapshot-origin", target, |text| Some(Self { content: device(text)? }))
    }
}

fn read<T>(kind: &'static str, target: &Target, read: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
    let state = if target.kind == kind { read(target.text.trim()) } else { None };
    state.ok_or_else(|| Error::UnknownState {
        kind,
        text: format!("{} {}", target.kind, target.text).chars().take(200).collect(),
    })
}

fn usage_of(text: &str) -> Option<Usage> {
    let (used, total) = text.split_once('/')?;
    Some(Usage { used: number(used)?, total: number(total)? })
}

/// A device as a table names it: `254:1`.
fn device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((u32::try_from(number(major)?).ok()?, u32::try_from(number(minor)?).ok()?))
}

/// A number as the kernel writes it: digits alone, where `u64::from_str` would also take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests;
