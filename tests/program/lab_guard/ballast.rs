//! A large file on a volume: what is written over it fills the snapshots of that.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

const MIB: usize = 1 << 20;
/// What is overwritten: more than a snapshot's first space, and less than its volume.
pub const FLOOD_MIB: usize = 100;
/// What a device must have of what is written to it directly.
const ALIGNMENT: usize = 4096;

/// How a flood went, as its writer saw it.
#[derive(Debug, Default)]
pub struct Flood {
    pub took: Duration,
    /// The longest that it waited for one write.
    pub longest: Duration,
    /// How many writes failed.
    pub failed: usize,
}

/// Makes the file, all of it on the disk: nobody has seen the volume written fast when the flood comes.
pub fn make_ballast(path: &Path, mib: usize) {
    let mut file = File::create(path).unwrap();
    let bytes = vec![7; MIB];
    (0..mib).for_each(|_| file.write_all(&bytes).unwrap());
    rustix::fs::sync();
}

/// Writes over the file, past every cache, as fast as the disk takes it.
pub fn flood(file: &Path) -> Flood {
    write_to_each_mib(file, MIB)
}

/// Writes a little everywhere, as fast: each write takes a block of its own in a pool, and a leaf of the mappings in
/// each part.
pub fn scatter(file: &Path) -> Flood {
    write_to_each_mib(file, ALIGNMENT)
}

fn write_to_each_mib(path: &Path, length: usize) -> Flood {
    let bytes = vec![8; length + ALIGNMENT];
    let begin = bytes.as_ptr().align_offset(ALIGNMENT);
    let bytes = &bytes[begin..begin + length];
    let file = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
    let file = file.unwrap();
    let offsets = (0..file.metadata().unwrap().len()).step_by(MIB);
    let (since, mut flood) = (Instant::now(), Flood::default());
    offsets.for_each(|offset| flood.count(|| file.write_all_at(bytes, offset)));
    flood.count(|| file.sync_all());
    flood.took = since.elapsed();
    flood
}

impl Flood {
    fn count(&mut self, write: impl FnOnce() -> Result<()>) {
        let since = Instant::now();
        self.failed += usize::from(write().is_err());
        self.longest = self.longest.max(since.elapsed());
    }
}
