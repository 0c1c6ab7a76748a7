//! The folders of a lab: one for the scripts that a guest starts with, one for its disks. Both go with the lab.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;
use tempfile::{Builder, TempDir};

/// The memory file system where disks are fastest.
const IN_MEMORY: &str = "/dev/shm";

pub struct Folders {
    scripts: TempDir,
    disks: TempDir,
    count: usize,
}

impl Folders {
    /// New folders, with empty disks of these sizes.
    pub fn new(sizes: &[u64]) -> Self {
        // A guest has a /dev of its own from its first moment: what it starts with must lie elsewhere.
        let usual = std::env::temp_dir();
        let scripts = if usual.starts_with("/dev") { PathBuf::from("/tmp") } else { usual };
        let made = |folder: &Path| Builder::new().prefix("asat-lab.").tempdir_in(folder).unwrap();
        let disks = if has_room(sizes.iter().sum()) { made(Path::new(IN_MEMORY)) } else { made(&scripts) };
        let folders = Self { scripts: made(&scripts), disks, count: sizes.len() };
        for (disk, bytes) in folders.disks().iter().zip(sizes) {
            File::create(disk).unwrap().set_len(*bytes).unwrap();
        }
        folders.script("guest-init", include_str!("guest-init"));
        folders.script("guest-run", include_str!("guest-run"));
        folders.library("registers", include_str!("registers.c"));
        folders
    }

    /// Compiles something that is loaded before the guest's kernel. What compiles the tests has compiled C as well.
    fn library(&self, name: &str, source: &str) {
        let [code, library] = ["c", "so"].map(|kind| self.scripts().join(name).with_extension(kind));
        std::fs::write(&code, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).args([library, code]);
        assert!(compiler.status().unwrap().success(), "{compiler:?} failed");
    }

    /// Writes something that the guest can execute.
    pub fn script(&self, name: &str, text: &str) {
        let path = self.scripts().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    pub fn scripts(&self) -> &Path {
        self.scripts.path()
    }

    pub fn disks(&self) -> Vec<PathBuf> {
        (0..self.count).map(|number| self.disks.path().join(format!("disk{number}"))).collect()
    }

    /// Both folders, with `:` between them.
    pub fn both(&self) -> String {
        format!("{}:{}", self.scripts().display(), self.disks.path().display())
    }

    /// Waits until no process of a guest that was ended holds a disk any more.
    pub fn wait_for_release(&self) {
        for disk in self.disks() {
            let disk = OpenOptions::new().write(true).open(disk).unwrap();
            rustix::fs::fcntl_lock(&disk, FlockOperation::LockExclusive).unwrap();
        }
    }
}

/// Whether the memory file system can hold the disks even when they are written full.
fn has_room(bytes: u64) -> bool {
    rustix::fs::statvfs(IN_MEMORY).is_ok_and(|found| found.f_bavail * found.f_frsize >= bytes)
}
