//! A volume with a store, snapshots of it, and a folder in which versions are mounted.

#![allow(unreachable_pub)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Output;

use asat_core::VersionId;
use asat_host::mounts::{Error, Log, Mounts};

use crate::lab::{Fs, Machine, Volume, VolumeGroup};

/// How the volume's snapshots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Classic,
    Thin,
}

pub const KINDS: [Kind; 2] = [Kind::Classic, Kind::Thin];

/// Where the store is on its volume.
pub const INSIDE: &str = "/srv/report.db";

pub struct Site<'a> {
    pub machine: &'a Machine,
    pub group: VolumeGroup<'a>,
    pub origin: Volume,
    pub root: PathBuf,
    pub mounts: Mounts,
    kind: Kind,
}

impl<'a> Site<'a> {
    /// Everything on the disk that is the kind's own, so that one check can have both.
    pub fn set_up(machine: &'a Machine, kind: Kind, fs: Fs) -> Self {
        let (name, disk) = match kind {
            Kind::Classic => ("classic", 0),
            Kind::Thin => ("thin", 1),
        };
        let group = machine.volume_group(name, &[disk]);
        // XFS is never smaller than 300 MiB.
        let size = if fs == Fs::Xfs { "320M" } else { "96M" };
        let origin = match kind {
            Kind::Classic => group.origin("data", size, fs),
            Kind::Thin => {
                group.thin_pool("pool", "512M");
                group.thin_origin("pool", "data", size, fs)
            }
        };
        let root = machine.folder(name).join("mnt");
        // Readers of other users come by here.
        for folder in root.ancestors().skip(1).take(2) {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(origin.path("srv")).unwrap();
        Self { machine, group, origin, mounts: Mounts::new(root.clone()), root, kind }
    }

    /// The store on the origin.
    pub fn store(&self) -> PathBuf {
        self.origin.path(&INSIDE[1..])
    }

    pub fn sql(&self, sql: &str) -> String {
        self.machine.run("sqlite3", &[self.store().to_str().unwrap(), sql])
    }

    /// Cuts a version of the volume.
    pub fn cut(&self, name: &str) -> Volume {
        match self.kind {
            Kind::Classic => self.group.classic_snapshot(&self.origin, name, "16M"),
            Kind::Thin => self.group.thin_snapshot(&self.origin, name),
        }
    }

    /// Mounts a snapshot as a version.
    pub fn mount(&self, id: &VersionId, snapshot: &Volume) -> Result<PathBuf, Error> {
        self.mounts.mount(id, &snapshot.device, numbers(snapshot), snapshot.fs.name(), Log::Empty)
    }

    pub fn show(&self, id: &VersionId) -> Result<PathBuf, Error> {
        self.mounts.show(id, Path::new(INSIDE))
    }

    pub fn remove(&self, snapshot: &Volume) -> Result<String, String> {
        let volume = format!("{}/{}", self.group.name, snapshot.name);
        self.machine.try_run("lvremove", &["-q", "--yes", &volume])
    }

    /// What the snapshots take: 512-byte sectors of a classic one's own, or blocks of the pool of thin ones.
    pub fn used(&self, snapshot: &Volume) -> u64 {
        let (status, word) = match self.kind {
            Kind::Classic => (self.group.status(snapshot), 3),
            Kind::Thin => {
                let pool = format!("{}-pool-tpool", self.group.name);
                (self.machine.run("dmsetup", &["status", &pool]), 5)
            }
        };
        let word = status.split(' ').nth(word).unwrap().to_owned();
        word.split_once('/').unwrap().0.parse().unwrap()
    }
}

/// A snapshot's device, major and minor.
pub fn numbers(volume: &Volume) -> (u32, u32) {
    let device = fs::metadata(&volume.device).unwrap().rdev();
    (rustix::fs::major(device), rustix::fs::minor(device))
}

pub fn id(number: u64) -> VersionId {
    format!("report@{number}").parse().unwrap()
}

/// Runs stock `sqlite3` on a database as a user who is nobody, in this group.
pub fn read_as(machine: &Machine, group: u32, path: &Path, sql: &str) -> Output {
    let database = format!("file:{}?mode=ro", path.display());
    let group = format!("--regid={group}");
    let mut command = machine.command("setpriv");
    command.args(["--reuid=65534", &group, "--clear-groups", "sqlite3", &database, sql]).output().unwrap()
}

/// The same in the group that may look into the root folder, with its answer.
pub fn read(machine: &Machine, path: &Path, sql: &str) -> String {
    let output = read_as(machine, 0, path, sql);
    assert!(output.status.success(), "{}: {output:?}", path.display());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
