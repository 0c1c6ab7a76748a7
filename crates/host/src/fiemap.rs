//! Where a file's bytes are on its device: the ioctl `FS_IOC_FIEMAP`, as `linux/fiemap.h` has it.
#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Range;

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Updater, opcode};

/// `_IOWR('f', 11, struct fiemap)`, where the structure is counted without its extents.
const FS_IOC_FIEMAP: Opcode = opcode::read_write::<[u8; 32]>(b'f', 11);

/// Flags of an extent that say nothing against its place: it is the file's last one, or it was made up from
/// several blocks of a map. All others mean that its bytes are not simply there, or not this file's alone.
const HARMLESS: u32 = LAST | 0x1000;
/// The flag of a file's last extent.
const LAST: u32 = 0x0001;
/// The flag of an extent whose blocks are other files' too.
const SHARED: u32 = 0x2000;

/// Has the file written out first: what is not yet on the device has no place there.
const SYNC: u32 = 0x0001;
/// How many extents are asked for at a time.
const AT_A_TIME: usize = 256;
/// A file in more pieces than this is not looked at: a list of them takes 56 bytes for each.
const MOST: usize = 1 << 20;

/// `struct fiemap` with room for so many extents.
#[repr(C)]
struct Question<const ROOM: usize> {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; ROOM],
}

/// `struct fiemap_extent`: a part of a file that lies in one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Extent {
    /// Where it begins in the file, in bytes.
    pub(crate) logical: u64,
    /// Where it begins on the device, in bytes.
    pub(crate) physical: u64,
    /// Its length in bytes.
    pub(crate) length: u64,
    pub(crate) reserved64: [u64; 2],
    pub(crate) flags: u32,
    pub(crate) reserved: [u32; 3],
}

/// The extent with the first byte of a file; `None` where there is none, or the file system cannot tell.
pub(crate) fn first(file: &File) -> rustix::io::Result<Option<Extent>> {
    let answer = ask::<1>(file, 0, 1, 0)?;
    Ok(answer.filter(|answer| answer.mapped == 1).and_then(|answer| answer.extents.first().copied()))
}

/// In how many pieces a file lies; `None` where the file system cannot tell.
pub(crate) fn count(file: &File) -> rustix::io::Result<Option<u32>> {
    // With room for none, the kernel counts them. What is not written out yet counts too.
    Ok(ask::<0>(file, 0, u64::MAX, 0)?.map(|answer| answer.mapped))
}

/// All pieces that a file lies in, in order, as the kernel tells them; `None` where the file system cannot tell, there are
/// very many, or what it tells comes to no end.
pub(crate) fn extents(file: &File) -> rustix::io::Result<Option<Vec<Extent>>> {
    let mut all = Vec::new();
    let mut start = 0;
    loop {
        let Some(answer) = ask::<AT_A_TIME>(file, start, u64::MAX - start, SYNC)? else { return Ok(None) };
        let mapped = usize::try_from(answer.mapped).ok().and_then(|mapped| answer.extents.get(..mapped));
        let Some(mapped) = mapped else { return Ok(None) };
        all.extend_from_slice(mapped);
        let Some(last) = mapped.last() else { return Ok(Some(all)) };
        if last.flags & LAST != 0 {
            return Ok(Some(all));
        }
        let next = last.logical.checked_add(last.length).filter(|next| *next > start && all.len() <= MOST);
        let Some(next) = next else { return Ok(None) };
        start = next;
    }
}

/// The bytes of the device that a file shares with other files, in the order of the file; none if the file system cannot tell.
///
/// # Errors
/// If the kernel refuses to tell.
pub fn shared(file: &File) -> rustix::io::Result<Vec<Range<u64>>> {
    let extents = extents(file)?.unwrap_or_default();
    let shared = extents.iter().filter(|extent| extent.is_shared());
    Ok(shared.map(|extent| extent.physical..extent.physical.saturating_add(extent.length)).collect())
}

/// Asks for the extents from one byte of a file on. `None` where the file system cannot tell.
fn ask<const ROOM: usize>(
    file: &File,
    start: u64,
    length: u64,
    flags: u32,
) -> rustix::io::Result<Option<Box<Question<ROOM>>>> {
    let room = u32::try_from(ROOM).unwrap_or(0);
    let extents = [Extent::default(); ROOM];
    let mut question = Box::new(Question { start, length, flags, mapped: 0, room, reserved: 0, extents });
    // SAFETY: the opcode is that of `FS_IOC_FIEMAP`, for which the kernel expects a `struct fiemap` followed by
    // `fm_extent_count` extents. `Question` is laid out so, with `room` no more than the extents that follow, and is
    // borrowed mutably for the call; any bytes are valid in it. The kernel writes at most the header and those extents.
    let answer = unsafe { ioctl::ioctl(file, Updater::<FS_IOC_FIEMAP, Question<ROOM>>::new(&mut question)) };
    match answer {
        Ok(()) => Ok(Some(question)),
        Err(Errno::OPNOTSUPP | Errno::NOTTY) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl Extent {
    /// Whether its bytes are plainly where it says, and another file's too.
    pub(crate) fn is_shared(&self) -> bool {
        self.flags & !HARMLESS == SHARED && self.physical != 0
    }

    /// Whether its bytes are plainly where it says, be they another file's too or not.
    pub(crate) fn is_plain(&self) -> bool {
        self.flags & !(HARMLESS | SHARED) == 0 && self.physical != 0
    }

    /// Where the file's first `block` bytes are on the device; `None` where they are not plainly there.
    pub(crate) fn first_block(&self, block: usize) -> Option<u64> {
        let block = u64::try_from(block).ok()?;
        let is_plain = self.flags & !HARMLESS == 0;
        let is_aligned = block != 0 && self.physical.is_multiple_of(block) && self.physical != 0;
        (is_plain && is_aligned && self.logical == 0 && self.length >= block).then_some(self.physical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!((size_of::<Question<0>>(), size_of::<Question<1>>()), (32, 32 + 56));
        assert_eq!((size_of::<Question<AT_A_TIME>>(), size_of::<Extent>()), (32 + 56 * AT_A_TIME, 56));
    }

    #[test]
    fn only_a_block_that_is_plainly_there_is_found() {
        let plain = Extent { physical: 1 << 20, length: 4096, ..Extent::default() };
        let flagged = |flags| Extent { flags, ..plain };
        for extent in [plain, flagged(0x1), flagged(0x1000), flagged(0x1001)] {
            assert_eq!(extent.first_block(512), Some(1 << 20), "{extent:?}");
            assert_eq!(extent.first_block(4096), Some(1 << 20), "{extent:?}");
        }
        for extent in [
            // Unknown place, delayed, encoded, encrypted, not aligned, inline, packed, unwritten, shared.
            flagged(0x2),
            flagged(0x4),
            flagged(0x8),
            flagged(0x80),
            flagged(0x100),
            flagged(0x200),
            flagged(0x400),
            flagged(0x800),
            flagged(0x2001),
            // A flag that no kernel has yet.
            flagged(0x8000),
            Extent { logical: 4096, ..plain },
            Extent { physical: 0, ..plain },
            Extent { physical: (1 << 20) + 512, ..plain },
            Extent { length: 1024, ..plain },
        ] {
            assert_eq!(extent.first_block(4096), None, "{extent:?}");
        }
    }
}
