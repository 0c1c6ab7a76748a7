//! The bytes of a question to the device-mapper, and of its answer: `struct dm_ioctl` of `linux/dm-ioctl.h`,
//! interface version 4, followed by a buffer for the answer.
//!
//! The kernel is trusted not to lie, but not to be the one that this was written for: every offset in an
//! answer is checked, and what does not fit is an error that says so.

use super::error::Error;
use crate::lvm::units::Sectors;

/// The size of `struct dm_ioctl`.
pub const HEADER: usize = 312;
/// The most bytes of a name and of a UUID, without the closing NUL.
pub const MOST_NAME: usize = 127;
const MOST_UUID: usize = 128;

const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const OPEN_COUNT: usize = 24;
const FLAGS: usize = 28;
const EVENT: usize = 32;
const DEVICE: usize = 40;
const NAME: usize = 48;
const UUID: usize = 176;

/// Ask for the table instead of the state.
pub const STATUS_TABLE: u32 = 1 << 4;
/// Do not let a thin pool commit its metadata before it answers: a pool in trouble would block the
/// question. What is used is counted without the commit too; what was freed shows up a second later, after
/// the next one.
///
/// With the command that suspends, the same bit says that what waits in the device is kept there, not written first.
pub const NO_FLUSH: u32 = 1 << 11;
/// In an answer: the device is suspended. With the command that suspends: do so, and do not resume.
pub const SUSPENDED: u32 = 1 << 1;
/// Suspend without bringing the file system on the device in order first, which would have to write.
pub const SKIP_LOCKFS: u32 = 1 << 10;
const READ_ONLY: u32 = 1;
const BUFFER_FULL: u32 = 1 << 8;

/// Which device is meant. LVM gives each of its devices a UUID, which no renaming changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector<'a> {
    /// The device of this name, for example `vg-data`.
    Name(&'a str),
    /// The device of this UUID, for example `LVM-` and two times 32 characters.
    Uuid(&'a str),
}

/// A device, as the list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its number, major and minor.
    pub number: (u32, u32),
}

/// A device's state, and that of each of its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    /// The device's name.
    pub name: String,
    /// Its UUID; empty where it has none.
    pub uuid: String,
    /// Its number, major and minor.
    pub number: (u32, u32),
    /// Whether it is suspended: whoever writes to it waits.
    pub suspended: bool,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// How many have it open, other devices and mounts included.
    pub open_count: u32,
    /// The number of its last event.
    pub event: u32,
    /// Its targets, in order.
    pub targets: Vec<Target>,
}

/// A stretch of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it begins.
    pub start: Sectors,
    /// How long it is.
    pub length: Sectors,
    /// Its kind: `linear`, `snapshot`, `thin-pool`, ...
    pub kind: String,
    /// Its state or its table, in the words of its kind.
    pub text: String,
}

impl Selector<'_> {
    /// The name or UUID as text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Name(text) | Self::Uuid(text) => text,
        }
    }
}

/// Builds a question in a buffer of `size` bytes. Only a question with no device may go without a selector.
///
/// # Errors
/// Where no device can have that name or UUID.
pub fn question(size: usize, flags: u32, device: Option<Selector<'_>>) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; size.max(HEADER)];
    if fill(&mut bytes, flags, device) {
        return Ok(bytes);
    }
    let text: String = device.iter().flat_map(|device| device.text().chars()).take(160).collect();
    Err(Error::BadName(text))
}

/// Builds a message to the target of a device that has but one: `struct dm_target_msg` follows the header, which is the
/// sector of the target and the text.
///
/// # Errors
/// As [`question`].
pub fn message(device: Selector<'_>, text: &str) -> Result<Vec<u8>, Error> {
    let sector = size_of::<u64>();
    let mut bytes = question(HEADER + sector + text.len() + 1, 0, Some(device))?;
    put(&mut bytes, HEADER + sector, text.as_bytes());
    Ok(bytes)
}

/// Writes a question into a buffer of zeros, which must have room for a header. It asks for no memory. Answers whether
/// any device can have that name or UUID, and the kernel can be told how long the buffer is.
#[must_use]
pub fn fill(bytes: &mut [u8], flags: u32, device: Option<Selector<'_>>) -> bool {
    let (Ok(size), Ok(header)) = (u32::try_from(bytes.len()), u32::try_from(HEADER)) else { return false };
    for (at, word) in [(0, 4), (DATA_SIZE, size), (DATA_START, header), (FLAGS, flags)] {
        put(bytes, at, &word.to_ne_bytes());
    }
    let Some(device) = device else { return size >= header };
    let (at, most) = match device {
        Selector::Name(_) => (NAME, MOST_NAME),
        Selector::Uuid(_) => (UUID, MOST_UUID),
    };
    let text = device.text();
    put(bytes, at, text.get(..most.min(text.len())).unwrap_or_default().as_bytes());
    size >= header && !text.is_empty() && text.len() <= most && !text.contains('\0')
}

/// The version of the interface that the answer was written by.
#[must_use]
pub fn version(answer: &[u8]) -> Option<(u32, u32, u32)> {
    Some((word(answer, 0)?, word(answer, 4)?, word(answer, 8)?))
}

/// Whether the buffer was too small for the answer.
#[must_use]
pub fn is_too_small(answer: &[u8]) -> bool {
    word(answer, FLAGS).is_some_and(|flags| flags & BUFFER_FULL != 0)
}

/// Whether the device that an answer speaks of is suspended.
#[must_use]
pub fn is_suspended(answer: &[u8]) -> bool {
    word(answer, FLAGS).is_some_and(|flags| flags & SUSPENDED != 0)
}

/// Reads the list of devices. `None` where it is not built as it should be.
#[must_use]
pub fn devices(answer: &[u8]) -> Option<Vec<Device>> {
    let mut rest = data(answer)?;
    let mut found = Vec::new();
    // The first entry of an empty list is all zeros.
    if rest.len() < 8 || long(rest, 0)? == 0 {
        return Some(found);
    }
    loop {
        let name = text(rest.get(12..)?)?;
        found.push(Device { name, number: number(long(rest, 0)?) });
        let next = usize::try_from(word(rest, 8)?).ok()?;
        if next == 0 {
            return Some(found);
        }
        // An entry is longer than its fixed part, so the walk always gets on.
        rest = rest.get(next..).filter(|_| next > 12)?;
    }
}

/// Reads the state of a device. `None` where it is not built as it should be.
#[must_use]
pub fn state(answer: &[u8]) -> Option<DeviceState> {
    let flags = word(answer, FLAGS)?;
    Some(DeviceState {
        name: text(answer.get(NAME..UUID)?)?,
        uuid: text(answer.get(UUID..UUID + MOST_UUID + 1)?)?,
        number: number(long(answer, DEVICE)?),
        suspended: flags & SUSPENDED != 0,
        read_only: flags & READ_ONLY != 0,
        open_count: word(answer, OPEN_COUNT)?,
        event: word(answer, EVENT)?,
        targets: targets(data(answer)?, word(answer, TARGET_COUNT)?)?,
    })
}

/// Reads `count` entries of `struct dm_target_spec`, each followed by its text. An entry says where the next
/// begins, counted from the first.
fn targets(data: &[u8], count: u32) -> Option<Vec<Target>> {
    let mut found = Vec::new();
    let mut at = 0_usize;
    for _ in 0..count {
        let entry = data.get(at..)?;
        found.push(Target {
            start: Sectors(long(entry, 0)?),
            length: Sectors(long(entry, 8)?),
            kind: text(entry.get(24..40)?)?,
            text: text(entry.get(40..)?)?.trim().to_owned(),
        });
        let next = usize::try_from(word(entry, 20)?).ok()?;
        at = Some(next).filter(|&next| next > at)?;
    }
    Some(found)
}

/// The part of an answer behind its header.
fn data(answer: &[u8]) -> Option<&[u8]> {
    let start = usize::try_from(word(answer, DATA_START)?).ok()?;
    let end = usize::try_from(word(answer, DATA_SIZE)?).ok()?;
    // A kernel with nothing to say shortens the answer to less than a header.
    answer.get(start..end.clamp(start, answer.len().max(start)))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The text up to the closing NUL.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
}

fn number(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

#[cfg(test)]
mod tests;
