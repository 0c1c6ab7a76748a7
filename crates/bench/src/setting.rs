//! The setting: on what machine, and with what programs, the figures were measured.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A machine's class. It names no machine.
#[derive(Debug, Serialize)]
pub(super) struct Setting {
    asat: String,
    build: String,
    sqlite: String,
    cores: usize,
    processor: String,
    memory_bytes: u64,
    file_system: String,
    kernel: String,
}

impl Setting {
    /// The setting of a benchmark that works in `folder`.
    pub(super) fn of(folder: &Path) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            asat: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            sqlite: rusqlite::version().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            memory_bytes: field("/proc/meminfo", "MemTotal").as_deref().and_then(kib).unwrap_or_default(),
            file_system: file_system(folder).unwrap_or_else(unknown),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }

    /// The kind of the file system of the folder.
    pub(super) fn file_system(&self) -> &str {
        &self.file_system
    }

    /// The setting in a line or two.
    pub(super) fn text(&self) -> String {
        let Self { asat, build, sqlite, cores, processor, memory_bytes, file_system, kernel } = self;
        let memory = bytesize::ByteSize::b(*memory_bytes).display().iec();
        format!(
            "asat {asat} ({build}), SQLite {sqlite}\n\
             {cores} cores ({processor}), {memory} of memory, {file_system}, Linux {kernel}"
        )
    }
}

/// The first value of this name in a file of lines like `name : value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The kind of the file system that a folder is on.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    find_mount(&fs::read_to_string("/proc/self/mountinfo").ok()?, &folder)
}

/// The kind of the innermost mount that holds a folder. The later of two on one place hides the other.
fn find_mount(mounts: &str, folder: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let place = PathBuf::from(place.split(' ').nth(4)?);
        folder.starts_with(&place).then_some((place.components().count(), kind.split(' ').next()?.to_owned()))
    };
    mounts.lines().filter_map(mount).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_latest_mount_counts() {
        let mounts = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /tmp rw shared:2 - tmpfs tmpfs rw
24 23 0:22 / /tmp rw - xfs /dev/sdb rw
25 22 0:23 / /tmpfiles rw - btrfs /dev/sdc rw
broken line";
        for (folder, kind) in
            [("/home/x", "ext4"), ("/tmp/asat", "xfs"), ("/tmpfiles", "btrfs"), ("/tm", "ext4")]
        {
            assert_eq!(find_mount(mounts, Path::new(folder)).as_deref(), Some(kind), "{folder}");
        }
        assert_eq!(find_mount("", Path::new("/")), None);
    }

    #[test]
    fn this_machine_has_a_class() {
        let setting = Setting::of(Path::new("/"));
        assert!(setting.memory_bytes > 0 && setting.cores > 0, "{setting:?}");
        assert!(setting.file_system != "unknown", "{setting:?}");
    }
}
