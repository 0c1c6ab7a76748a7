//! How much space a classic snapshot gets.
//!
//! A classic snapshot has a fixed space, into which the kernel copies each chunk of the origin before it is
//! first overwritten. When that space is full, the snapshot is lost. So it must last until the version is
//! archived; it is taken from the group's free space only for that long. Everything here is integer
//! arithmetic in bytes, and what does not fit into 64 bits is cut off at their end.

/// How much is copied at once, in bytes.
///
/// It is the page of most stores and the block of most file systems, so a page that is written somewhere
/// copies no more than itself. Larger chunks copy the pages around it too: for 2,000 pages written here and
/// there over 256 MiB, chunks of 4, 16, 64 and 256 KiB wrote 15, 59, 198 and 440 MiB into the snapshot, its own
/// records included. `tests/program/lab_volumes/sizes.rs` measures it.
pub const CHUNK: u64 = 4 << 10;

/// The least space, in bytes: what a burst of writes takes that no rate of the past foretells.
pub const FLOOR: u64 = 64 << 20;

/// By how much the expected writes are multiplied: the rate is one of the past, an archive may take longer
/// than the last one, and a file system writes its journal besides.
pub const MARGIN: u64 = 4;

/// Where no rate is known, this part of the origin may be overwritten.
const UNKNOWN_PART: u64 = 8;

/// What one record takes in the snapshot's space: `struct disk_exception` of `dm-snap-persistent.c`.
const RECORD: u64 = 16;

/// LVM takes no smaller chunks.
const LEAST_CHUNK: u64 = 4 << 10;

/// What is known when a snapshot is about to be taken. All sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The size of the origin.
    pub origin: u64,
    /// How much is copied at once; see [`CHUNK`].
    pub chunk: u64,
    /// The size of the group's extents, of which space is made.
    pub extent: u64,
    /// How fast the origin has been seen to be written, in bytes a second; `None` where nobody looked yet.
    pub write_rate: Option<u64>,
    /// How long it may take until the version is archived.
    pub seconds: u64,
    /// The size of the store, with its log.
    pub store: u64,
}

/// The space for a snapshot, in bytes and whole extents: enough for [`MARGIN`] times what is written until the
/// version is archived. It is never less than [`FLOOR`], and never more extents than [`most_needed`] takes.
///
/// Where no rate is known, it is enough to write the whole store once (a `VACUUM`, or a file that replaces
/// it), or an eighth of the origin, whichever is more.
#[must_use]
pub fn space(need: &Need) -> u64 {
    let written = match need.write_rate {
        Some(rate) => rate.saturating_mul(need.seconds).saturating_mul(MARGIN),
        None => need.store.max(need.origin / UNKNOWN_PART),
    };
    let chunk = need.chunk.max(LEAST_CHUNK);
    let wanted = holding(written.div_ceil(chunk), chunk).max(FLOOR);
    whole_extents(wanted.min(most_needed(need.origin, chunk)), need.extent)
}

/// The size in bytes at which a classic snapshot of an origin cannot overflow, not rounded to extents. A chunk
/// smaller than LVM takes is taken for the smallest.
#[must_use]
pub fn most_needed(origin: u64, chunk: u64) -> u64 {
    let chunk = chunk.max(LEAST_CHUNK);
    holding(origin.div_ceil(chunk), chunk)
}

/// The space that holds so many copied chunks.
///
/// `drivers/md/dm-snap-persistent.c` lays it out as one chunk for the header, and then areas: a chunk of
/// records, followed by as many copied chunks as it has records. It clears the next area's records in the
/// moment in which it fills an area, so an area that is exactly full needs one chunk more behind it.
fn holding(copied: u64, chunk: u64) -> u64 {
    let records = chunk / RECORD;
    let areas = (copied / records).saturating_add(1);
    copied.saturating_add(areas).saturating_add(1).saturating_mul(chunk)
}

/// The same in whole extents; where the last one does not fit into 64 bits, it is left out.
fn whole_extents(bytes: u64, extent: u64) -> u64 {
    let extent = extent.max(1);
    bytes.checked_next_multiple_of(extent).unwrap_or(u64::MAX / extent * extent)
}

#[cfg(test)]
mod tests;
