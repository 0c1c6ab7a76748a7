//! A daemon in the lab: its store on a volume, its state on a disk of its own, and what must be true of both.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::World;
use crate::lab::{Fs, Lab, Machine, Volume, VolumeGroup, wait_until};

/// How long the daemon may take to archive and drop what it has to.
const PATIENCE: Duration = Duration::from_secs(90);

/// The volume, the state's disk, and the world that has both. The daemon ends before what it stands on goes.
pub struct Ground<'a> {
    pub world: World,
    pub kind: Kind,
    machine: &'a Machine,
    _group: VolumeGroup<'a>,
    state: PathBuf,
    /// The folder of the store, where the clones are too.
    folder: PathBuf,
}

/// What the store's volume is, and what the configuration asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain volume, cut by classic snapshots.
    Classic,
    /// A thin volume, cut by thin snapshots.
    Thin,
    /// A thin volume, cut by whatever asat finds best.
    ThinAuto,
    /// A plain volume whose file system clones files.
    Reflink,
}

impl Kind {
    /// The backend as the configuration has it.
    pub fn backend(self) -> &'static str {
        match self {
            Self::Classic => "lvm-classic",
            Self::Thin => "lvm-thin",
            Self::ThinAuto => "auto",
            Self::Reflink => "reflink",
        }
    }
}

impl Kind {
    /// Whether the store's volume lies in a pool.
    fn is_thin(self) -> bool {
        matches!(self, Self::Thin | Self::ThinAuto)
    }
}

/// The same folder, by a path that is the same at the next boot.
fn at_a_lasting_path(folder: &Path) -> PathBuf {
    let path = std::env::temp_dir().join("asat-lab-clones");
    let _ = std::fs::remove_file(&path);
    symlink(folder, &path).unwrap();
    path
}

/// The disks that a ground needs: the group's, the state's, and a small one for whoever wants it.
pub fn lab() -> Lab {
    Lab::new().disk_sizes(&["4G", "256M", "4M"])
}

impl<'a> Ground<'a> {
    /// Makes everything new.
    pub fn make(machine: &'a Machine, kind: Kind, fs: Fs) -> Self {
        let group = machine.volume_group("vg", &[0]);
        // XFS is never smaller than 300 MiB.
        let size = if fs == Fs::Xfs { "320M" } else { "192M" };
        let origin = if kind.is_thin() {
            group.thin_pool("pool", "640M");
            group.thin_origin("pool", "data", size, fs)
        } else {
            group.origin("data", size, fs)
        };
        Self::on(machine, group, origin, kind)
    }

    /// On a volume that somebody has made, with a new state.
    pub fn on(machine: &'a Machine, group: VolumeGroup<'a>, origin: Volume, kind: Kind) -> Self {
        machine.run("mkfs.ext4", &["-q", machine.disks[1].to_str().unwrap()]);
        Self::stand(machine, group, origin, kind)
    }

    /// What an earlier boot made.
    pub fn of_before(machine: &'a Machine, kind: Kind, fs: Fs) -> Self {
        let group = machine.volume_group_of_before("vg");
        let mut origin = group.volume("data", fs);
        group.mount(&mut origin);
        Self::stand(machine, group, origin, kind)
    }

    fn stand(machine: &'a Machine, group: VolumeGroup<'a>, origin: Volume, kind: Kind) -> Self {
        let state = machine.mount_point();
        machine.run("mount", &["-t", "ext4", machine.disks[1].to_str().unwrap(), state.to_str().unwrap()]);
        let mut world = World::new();
        let folder = origin.folder.unwrap();
        symlink(&folder, world.path("store")).unwrap();
        // Clones are known by their path, and each boot mounts the volume at another.
        let folder = if kind == Kind::Reflink { at_a_lasting_path(&folder) } else { folder };
        let inside = state.join("asat");
        let _ = std::fs::create_dir(&inside);
        symlink(inside, world.path("state")).unwrap();
        world.env = machine.env();
        let mut ground = Self { world, kind, machine, _group: group, state, folder };
        ground.configure("");
        ground
    }

    /// Has the next daemon started with more lines about the store.
    pub fn configure(&mut self, more: &str) {
        let backend = self.kind.backend();
        self.world.store_config =
            format!("backend = \"{backend}\"\nbusy_timeout = \"30s\"\nmax_hold = \"20s\"\n{more}");
        if self.kind == Kind::Reflink {
            self.world.store_config += &format!("\nclones = \"{}\"", self.folder.join("clones").display());
        }
    }

    /// Waits until the daemon has nothing more to do: every version is archived, and no more than the `keep` newest have
    /// a snapshot. Answers the versions.
    pub fn settled(&self, keep: usize) -> Vec<Value> {
        // The next one is compared with the newest of these.
        let keep = if matches!(self.kind, Kind::Reflink | Kind::Thin) { keep.max(1) } else { keep };
        let patience = Instant::now() + PATIENCE;
        loop {
            let versions = self.versions();
            let hot: Vec<_> = versions.iter().filter(|version| snapshot_of(version).is_some()).collect();
            let done = versions.iter().all(|version| match version["state"].as_str().unwrap() {
                "ready" => is_archived(version),
                "cutting" | "retiring" => false,
                _ => true,
            });
            // They are listed newest first.
            let newest: Vec<_> = versions.iter().filter(|v| v["state"] == "ready").take(keep).collect();
            if done && hot.iter().all(|version| newest.contains(version)) {
                return versions;
            }
            assert!(Instant::now() < patience, "it does not come to rest: {versions:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Every version that the daemon speaks of, newest first.
    pub fn versions(&self) -> Vec<Value> {
        let mut versions = Vec::new();
        let mut query = "/versions?state=any&limit=100".to_owned();
        loop {
            let page = self.world.get(&query).json();
            versions.extend(page["versions"].as_array().unwrap().iter().cloned());
            let Some(next) = page["next_cursor"].as_str() else { return versions };
            query = format!("/versions?state=any&limit=100&cursor={next}");
        }
    }

    /// Waits until the daemon has nothing more to do and nothing is left that it does not speak of: every volume is the
    /// store's, its pool's, or a snapshot that a version has, and so is all that is mounted. Answers the versions.
    pub fn at_rest(&self, keep: usize) -> Vec<Value> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let versions = self.settled(keep);
            // A snapshot that may stay can be on its way out all the same.
            match self.check_volumes(&versions).and_then(|()| self.check_mounts(&versions)) {
                Ok(()) => return versions,
                Err(why) => assert!(Instant::now() < patience, "{why}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn check_volumes(&self, versions: &[Value]) -> Result<(), String> {
        let mut known: BTreeSet<String> = versions.iter().filter_map(snapshot_of).collect();
        if self.kind == Kind::Reflink {
            let found = self.clones();
            let told = || Err(format!("there are {found:?}, and versions speak of {known:?}"));
            return if found == known { Ok(()) } else { told() };
        }
        known.insert("vg/data".to_owned());
        if self.kind.is_thin() {
            known.extend(["pool", "[pool_tdata]", "[pool_tmeta]"].map(|name| format!("vg/{name}")));
        }
        let listed =
            self.machine.run("lvs", &["-a", "--noheadings", "--separator=/", "-o", "vg_name,lv_name"]);
        let found: BTreeSet<String> = listed.lines().map(|line| line.trim().to_owned()).collect();
        if found == known {
            Ok(())
        } else {
            Err(format!("there are {found:?}, and versions speak of {known:?}"))
        }
    }

    /// Everything that lies where clones do, of whichever installation.
    fn clones(&self) -> BTreeSet<String> {
        let below = |folder: PathBuf| {
            std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path())
        };
        let clones = below(self.folder.join("clones")).flat_map(below);
        clones.map(|path| path.into_os_string().into_string().unwrap()).collect()
    }

    /// The pool has the thin volumes that LVM knows, and no other.
    ///
    /// Of a removal that was interrupted, LVM tells the pool with the next snapshot that is taken in it.
    pub fn check_pool(&self) {
        if self.kind.is_thin() {
            self.machine.run("lvcreate", &["-q", "--snapshot", "--name", "next", "vg/data"]);
            self.machine.run("lvremove", &["-q", "--yes", "vg/next"]);
            self.machine.check_pool("vg", "pool");
        }
    }

    fn check_mounts(&self, versions: &[Value]) -> Result<(), String> {
        let hot = versions.iter().filter(|version| snapshot_of(version).is_some());
        let held: BTreeSet<&str> = hot.filter_map(|version| version["id"].as_str()).collect();
        let root = self.world.path("mnt");
        let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let points = table.lines().filter_map(|line| line.split(' ').nth(1));
        let below = points.filter_map(|point| point.strip_prefix(root.to_str().unwrap()));
        let mounted = below.map(|place| place.split('/').find(|part| part.contains('@')).unwrap_or(place));
        let folders = [root.clone(), root.join(".snapshots")];
        let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut found = mounted.map(str::to_owned).chain(names.filter(|name| name != ".snapshots"));
        match found.find(|name| !held.contains(name.as_str())) {
            Some(name) => Err(format!("{name} is left among the mounts, and only {held:?} have snapshots")),
            None => Ok(()),
        }
    }
}

impl Drop for Ground<'_> {
    fn drop(&mut self) {
        self.world.daemon = None;
        let unmount = || self.machine.try_run("umount", &[self.state.to_str().unwrap()]);
        // A panic while another one unwinds would end the whole run.
        if std::thread::panicking() {
            let _ = unmount();
        } else {
            // A command that the daemon was just about to run would have its files open until it runs.
            wait_until("nobody uses the state folder's disk", || unmount().is_ok());
        }
    }
}

/// The snapshot that a version has, as `group/volume`.
pub fn snapshot_of(version: &Value) -> Option<String> {
    let holdings = version["holdings"].as_array().unwrap();
    holdings.iter().find(|holding| holding["kind"] == "snapshot")?["name"].as_str().map(str::to_owned)
}

pub fn is_archived(version: &Value) -> bool {
    version["holdings"].as_array().unwrap().iter().any(|holding| holding["kind"] == "archive")
}
