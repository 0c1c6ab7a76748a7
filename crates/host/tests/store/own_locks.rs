//! The locks that this process has on a file.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The POSIX locks that this process holds on a file, as lines of `/proc/locks`. They are read where the kernel lists them with each
/// descriptor: `/proc/locks` itself is read in parts, and misses locks if others are given up meanwhile.
pub(crate) fn own_locks(path: &Path) -> Vec<String> {
    let of_file = format!(":{} ", fs::metadata(path).unwrap().ino());
    let descriptors = fs::read_dir("/proc/self/fdinfo").unwrap();
    // A descriptor that another thread closes meanwhile has no locks.
    let texts = descriptors.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let locks = lines.iter().filter_map(|line| line.strip_prefix("lock:\t"));
    locks.filter(|lock| lock.contains(" POSIX ") && lock.contains(&of_file)).map(str::to_owned).collect()
}
