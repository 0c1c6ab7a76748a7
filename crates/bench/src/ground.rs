//! The ground of a store that is measured on volumes: a disk with a volume group, a volume, and a file system.
//!
//! All of it is removed at the end, also where the benchmark fails or is interrupted. What is removed is found by
//! the disk: the group that LVM says is on it, and only where it has the name that was given to it here.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use asat_core::{Code, Problem};
use asat_host::lvm::report::{Name, PhysicalVolume};
use asat_host::lvm::{Call, LogicalVolume, Lvm};
use asat_host::volume::mounts;

use super::disk::Disk;
use super::{Tell, failed, tools};

/// The volume that the store lies on.
const VOLUME: &str = "data";
/// The pool of a thin one.
const POOL: &str = "pool";
/// A pool's metadata: enough for thousands of snapshots.
const POOL_METADATA: u64 = 128 << 20;
/// How long LVM may take to remove a hundred snapshots.
const REMOVAL: Duration = Duration::from_secs(600);

/// What the volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A volume of its own, of which classic snapshots are taken.
    Classic,
    /// A thin volume, in a pool that takes the rest of the disk but for what is to stay free.
    Thin,
}

impl Kind {
    /// What LVM needs for itself of a disk.
    pub(super) fn overhead_bytes(self) -> u64 {
        match self {
            Self::Classic => 20 << 20,
            Self::Thin => (20 << 20) + POOL_METADATA,
        }
    }
}

/// What is to be made on a disk.
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) volume_bytes: u64,
    /// What a thin pool leaves free in the group.
    pub(super) spare_bytes: u64,
}

/// A disk with a mounted volume. Dropped, it is an empty disk again.
pub(super) struct Ground<'a> {
    disk: Disk,
    lvm: Lvm,
    group: Name,
    /// Where the volume is mounted.
    pub(super) folder: PathBuf,
    tell: Tell<'a>,
    removed: bool,
}

impl<'a> Ground<'a> {
    /// Makes a volume of this size on an empty disk, with ext4 on it, and mounts it at a folder that it makes.
    pub(super) fn make(
        disk: Disk,
        (lvm, group): (&Lvm, &str),
        shape: &Shape,
        folder: PathBuf,
        tell: Tell<'a>,
    ) -> Result<Self, Problem> {
        let group = group.parse().map_err(|()| failed("name a volume group", group))?;
        // From here on an error removes what was made so far.
        let ground = Self { disk, lvm: lvm.clone(), group, folder, tell, removed: false };
        ground.make_volume(shape)?;
        ground.make_file_system()?;
        Ok(ground)
    }

    /// The volume, as LVM's commands take it.
    pub(super) fn volume(&self) -> String {
        format!("{}/{VOLUME}", self.group)
    }

    /// All volumes of the group.
    pub(super) fn volumes(&self) -> Result<Vec<LogicalVolume>, Problem> {
        Ok(self.lvm.volumes(&self.group)?)
    }

    /// Runs one of LVM's commands.
    pub(super) fn run(&self, call: &Call) -> Result<(), Problem> {
        self.lvm.run(call)?;
        Ok(())
    }

    /// How many bytes were written to the disk so far, once all that was written to the file system is on it.
    pub(super) fn written_bytes(&self) -> Result<u64, Problem> {
        let synced = File::open(&self.folder).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        synced.map_err(|error| failed(&format!("sync {}", self.folder.display()), error))?;
        self.disk.written_bytes()
    }

    /// Makes it an empty disk again.
    pub(super) fn remove(mut self) -> Result<(), Problem> {
        self.removed = true;
        self.take_down()
    }

    fn make_volume(&self, shape: &Shape) -> Result<(), Problem> {
        let &Shape { kind, volume_bytes: bytes, spare_bytes } = shape;
        // Without `--yes`: where something was written to the disk meanwhile, LVM asks, and hears no.
        // LVM's default of 1 MiB has room for about 500 snapshots.
        let call = Call::new("vgcreate").option("--metadatasize", "4m").operand(&self.group);
        self.run(&call.operand(self.disk.path.display()))?;
        let create = || Call::new("lvcreate").flag("--yes");
        match kind {
            Kind::Classic => {
                let call = create().option("--size", format!("{bytes}b")).option("--name", VOLUME);
                self.run(&call.operand(&self.group))
            }
            Kind::Thin => {
                let group = self.lvm.group(&self.group)?;
                let free = group.free.to_bytes(group.extent_size).map_or(0, |free| free.0);
                let size = free.saturating_sub(POOL_METADATA + spare_bytes);
                let call = create().option("--type", "thin-pool").option("--size", format!("{size}b"));
                let call = call.option("--poolmetadatasize", format!("{POOL_METADATA}b"));
                let call = call.option("--poolmetadataspare", "n").option("--chunksize", "64k");
                self.run(&call.option("--name", POOL).operand(&self.group))?;
                let call = create().option("--virtualsize", format!("{bytes}b")).option("--thinpool", POOL);
                self.run(&call.option("--name", VOLUME).operand(&self.group))
            }
        }
    }

    fn make_file_system(&self) -> Result<(), Problem> {
        let device = PathBuf::from(format!("/dev/{}", self.volume()));
        // What ext4 would write later, beside the workload, is written now.
        let features = OsStr::new("lazy_itable_init=0,lazy_journal_init=0,nodiscard");
        tools::run("mkfs.ext4", &[OsStr::new("-q"), OsStr::new("-E"), features, device.as_os_str()])?;
        fs::create_dir(&self.folder).map_err(|error| failed("make a mount point", error))?;
        let kind = [OsStr::new("-t"), OsStr::new("ext4")];
        tools::run("mount", &[&kind[..], &[device.as_os_str(), self.folder.as_os_str()]].concat())?;
        Ok(())
    }

    fn take_down(&self) -> Result<(), Problem> {
        let Some(physical) = self.physical_volume()? else { return Ok(()) };
        match physical.group {
            Some(group) if group == self.group => {
                self.unmount()?;
                // Volumes that are not active are removed without a word to the kernel, which takes long for many.
                let deactivate = Call::new("vgchange").option("--activate", "n").within(REMOVAL);
                self.run(&deactivate.operand(&group))?;
                let remove =
                    Call::new("vgremove").flag("--force").flag("--force").flag("--yes").within(REMOVAL);
                self.run(&remove.operand(&group))?;
            }
            Some(other) => {
                let what = format!("{} belongs to the volume group {other} now", self.disk.path.display());
                return Err(failed("empty a disk", what));
            }
            None => {}
        }
        self.run(&Call::new("pvremove").operand(self.disk.path.display()))
    }

    /// What LVM has made of the disk, if anything yet.
    fn physical_volume(&self) -> Result<Option<PhysicalVolume>, Problem> {
        let is_ours = |volume: &PhysicalVolume| {
            let device = fs::metadata(&volume.device).map(|metadata| metadata.rdev());
            device.is_ok_and(|n| (rustix::fs::major(n), rustix::fs::minor(n)) == self.disk.number)
        };
        Ok(self.lvm.physical_volumes()?.into_iter().find(is_ours))
    }

    /// Unmounts all that is mounted of the group, the newest first: a daemon that was killed leaves snapshots.
    fn unmount(&self) -> Result<(), Problem> {
        let devices: Vec<_> = self.volumes()?.iter().filter_map(|volume| volume.device).collect();
        let table = fs::read_to_string("/proc/self/mountinfo");
        let table = mounts::parse(&table.map_err(|error| failed("read the mount table", error))?);
        for mount in table.iter().rev().filter(|mount| devices.contains(&mount.device)) {
            tools::run("umount", &[OsStr::new("--"), mount.mount_point.as_os_str()])?;
        }
        Ok(())
    }
}

impl Drop for Ground<'_> {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        if let Err(Problem { detail, .. }) = self.take_down() {
            let (group, disk) = (&self.group, self.disk.path.display());
            (self.tell)(&format!(
                "{detail}; unmount what is left of it, then: vgremove {group}; pvremove {disk}"
            ));
        }
    }
}

/// Refuses where this process may not make volumes.
pub(super) fn check_root() -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = "this benchmark makes volumes and mounts them, which only root may";
    Err(Problem::new(Code::Configuration, what, "run it as root, or with the backend pages"))
}
