//! Whether anybody writes to some devices, seen by the kernel's counters alone, read from files that stay open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Devices whose counters were noted, to see later whether anybody has written since.
#[derive(Debug, Default)]
pub struct Watch {
    devices: Vec<(u32, u32)>,
    counters: Vec<Counter>,
    /// What was counted of each; `None` where that says nothing of what comes.
    marked: Option<Vec<Written>>,
}

/// One device's counters.
#[derive(Debug)]
struct Counter {
    stat: File,
    /// Whether an administrator wants this device's writes counted.
    iostats: File,
    wanted: Vec<u8>,
}

/// What the kernel has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    writes: u64,
    sectors: u64,
    /// Kernels before 4.18 count no discards, which does not concern their writes.
    discards: u64,
}

impl Watch {
    /// Watches these devices from now on. Where they are others than before, nothing is noted of them yet.
    pub fn over(&mut self, devices: &[(u32, u32)]) {
        if devices != self.devices {
            let folders =
                devices.iter().map(|(major, minor)| PathBuf::from(format!("/sys/dev/block/{major}:{minor}")));
            *self =
                Self { counters: open(folders).unwrap_or_default(), devices: devices.to_vec(), marked: None };
        }
    }

    /// Notes what is counted. What is looked at after that is as new as this, or newer.
    pub fn mark(&mut self) {
        let all =
            || self.counters.iter().map(|counter| counter.counted().filter(|_| counter.counts())).collect();
        self.marked = if self.counters.is_empty() { None } else { all() };
    }

    /// Whether nothing was written since it was noted what is counted. Where that is not certain, as where something is
    /// under way, it is false: newer kernels count a write as it ends.
    #[must_use]
    pub fn is_still(&self) -> bool {
        let Some(marked) = &self.marked else { return false };
        self.counters.iter().zip(marked).all(|(counter, marked)| counter.counted() == Some(*marked))
    }
}

/// Where one cannot be watched, none is.
fn open(folders: impl Iterator<Item = PathBuf>) -> io::Result<Vec<Counter>> {
    folders.map(|folder| Counter::open(&folder)).collect()
}

impl Counter {
    fn open(folder: &Path) -> io::Result<Self> {
        let (stat, iostats) = (File::open(folder.join("stat"))?, File::open(folder.join("queue/iostats"))?);
        let wanted = read(&iostats)?;
        Ok(Self { stat, iostats, wanted })
    }

    /// What is counted; `None` where something is under way, and where the device is gone.
    fn counted(&self) -> Option<Written> {
        parse(std::str::from_utf8(&read(&self.stat).ok()?).ok()?)
    }

    /// Whether the kernel seems to count. Kernels up to 6.1 say 0 of devices like LVM's, and count all the same; later
    /// ones do as they are told. A device that was mounted was written to, so where none is counted, none will be.
    fn counts(&self) -> bool {
        let unchanged = read(&self.iostats).is_ok_and(|wanted| wanted == self.wanted);
        unchanged && self.counted().is_some_and(|written| written.writes > 0)
    }
}

/// A short file of the kernel's, which is made anew for whoever reads it from its beginning.
fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut text = vec![0; 512];
    let length = file.read_at(&mut text, 0)?;
    text.truncate(length);
    Ok(text)
}

/// The numbers in a device's `stat` (`Documentation/block/stat.rst`), where nothing is under way.
pub(crate) fn parse(stat: &str) -> Option<Written> {
    let numbers: Option<Vec<u64>> = stat.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    match numbers?.as_slice() {
        [_, _, _, _, writes, _, sectors, _, 0, _, _, more @ ..] => {
            Some(Written { writes: *writes, sectors: *sectors, discards: more.first().copied().unwrap_or(0) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const STILL: &str = "    12  0  800  5  7  0  4096  3  0  8  8  0  0  0  0  0  0\n";

    fn device(stat: &str, iostats: &str) -> (tempfile::TempDir, Watch) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("queue")).unwrap();
        fs::write(folder.path().join("stat"), stat).unwrap();
        fs::write(folder.path().join("queue/iostats"), iostats).unwrap();
        let counters = open([folder.path().to_owned()].into_iter()).unwrap();
        (folder, Watch { counters, ..Watch::default() })
    }

    #[test]
    fn a_device_is_still_until_something_is_written_discarded_or_under_way() {
        let (folder, mut watch) = device(STILL, "1\n");
        assert!(!watch.is_still(), "nothing is noted yet");
        watch.mark();
        for (stat, still, why) in [
            (STILL, true, "nothing happened"),
            ("99 0 900 5 7 0 4096 3 0 9 9 0 0 0 0 1 1\n", true, "it was read and flushed"),
            ("12 0 800 5 8 0 4104 3 0 8 8 0 0 0 0 0 0\n", false, "a write"),
            ("12 0 800 5 7 0 4096 3 1 8 8 0 0 0 0 0 0\n", false, "something is under way"),
            ("12 0 800 5 7 0 4096 3 0 8 8 1 0 8 0 0 0\n", false, "a discard"),
            ("12 0 800 5 7 0 0 3 0 8 8\n", false, "a counter that began anew"),
            ("12 0 800 5 7 0 4096 3 x 8 8\n", false, "what is no number"),
            ("12 0 800\n", false, "too few numbers"),
            ("", false, "nothing"),
        ] {
            fs::write(folder.path().join("stat"), stat).unwrap();
            assert_eq!(watch.is_still(), still, "{why}");
        }
        watch.mark();
        assert!(!watch.is_still(), "what cannot be read is not still");
    }

    #[test]
    fn counters_that_do_not_count_are_not_believed() {
        for (stat, then, still) in [
            (STILL, "0\n", true),
            (STILL, "1\n", false),
            (STILL, "", false),
            ("12 0 800 5 0 0 0 3 0 8 8\n", "0\n", false),
            ("12 0 800 5 7 0 4096 3 2 8 8\n", "0\n", false),
        ] {
            let (folder, mut watch) = device(stat, "0\n");
            fs::write(folder.path().join("queue/iostats"), then).unwrap();
            watch.mark();
            assert_eq!(watch.is_still(), still, "{stat:?} {then:?}");
        }
    }

    #[test]
    fn other_devices_are_noted_anew() {
        let (_folder, mut watch) = device(STILL, "1\n");
        watch.mark();
        watch.over(&[]);
        assert!(watch.is_still(), "they are the same");
        watch.over(&[(0, 0)]);
        watch.mark();
        assert!(!watch.is_still(), "one that is not there cannot be watched");
        watch.over(&[]);
        watch.mark();
        assert!(!watch.is_still(), "of no device nothing is known");
    }
}
