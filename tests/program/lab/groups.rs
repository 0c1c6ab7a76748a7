//! Inside: volume groups, and what a check makes in them by lvm2's own commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Machine;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fs {
    Ext4,
    Xfs,
}

/// A volume group that is unmounted and removed with its value.
pub struct VolumeGroup<'a> {
    machine: &'a Machine,
    pub name: String,
}

/// A logical volume.
#[derive(Debug, Clone)]
pub struct Volume {
    pub name: String,
    pub device: PathBuf,
    pub fs: Fs,
    /// Where it is mounted, if it is.
    pub folder: Option<PathBuf>,
}

impl Fs {
    /// How `mount` and `mkfs` call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// What a snapshot is mounted with: nothing may replay a journal on it, and XFS sees its twin beside it.
    pub fn snapshot_options(self) -> &'static str {
        match self {
            Self::Ext4 => "ro,noload",
            Self::Xfs => "ro,nouuid,norecovery",
        }
    }
}

impl Volume {
    /// A path below the folder where the volume is mounted.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().expect("the volume is mounted").join(name)
    }
}

impl Machine {
    /// A pool has the thin volumes that LVM knows, and no other: those would never be given back.
    pub fn check_pool(&self, group: &str, pool: &str) {
        let device = format!("{}-{}", group.replace('-', "--"), pool.replace('-', "--"));
        let tell = |what: &str| self.run("dmsetup", &["message", &format!("{device}-tpool"), "0", what]);
        let ids = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
        let select = format!("pool_lv={pool}");
        let known = self.run("lvs", &["--noheadings", "--options", "thin_id", "--select", &select, group]);
        tell("reserve_metadata_snap");
        let metadata = format!("/dev/mapper/{device}_tmeta");
        let found = self.run("thin_ls", &["--no-headers", "--metadata-snap", "--format", "DEV", &metadata]);
        tell("release_metadata_snap");
        assert_eq!(ids(&found), ids(&known), "the pool has other volumes than LVM knows");
    }
}

impl<'a> VolumeGroup<'a> {
    pub(super) fn create(machine: &'a Machine, name: &str, disks: &[usize]) -> Self {
        let group = Self { machine, name: machine.group_name(name) };
        let devices = disks.iter().map(|disk| machine.disks[*disk].to_str().unwrap());
        let arguments: Vec<&str> = ["-q", group.name.as_str()].into_iter().chain(devices).collect();
        machine.run("vgcreate", &arguments);
        group
    }

    pub(super) fn find(machine: &'a Machine, name: &str) -> Self {
        let group = Self { machine, name: machine.group_name(name) };
        machine.run("vgchange", &["-q", "--activate", "y", &group.name]);
        group
    }

    /// A plain volume with a file system, mounted.
    pub fn origin(&self, name: &str, size: &str, fs: Fs) -> Volume {
        self.lvcreate(&["-L", size, "-n", name, &self.name]);
        self.format(self.volume(name, fs))
    }

    /// A thin pool, with 64 KiB chunks and metadata of a size that never fills by chance: nor may a guard fear so that
    /// sees a writer at full speed and has not heard from LVM yet how much there is to be mapped.
    pub fn thin_pool(&self, name: &str, size: &str) {
        let metadata = ["--poolmetadatasize", "64M", "--poolmetadataspare", "n", "--chunksize", "64K"];
        self.lvcreate(
            &[&["--type", "thin-pool", "-L", size, "-n", name][..], &metadata, &[&self.name]].concat(),
        );
    }

    /// A thin volume with a file system, mounted.
    pub fn thin_origin(&self, pool: &str, name: &str, size: &str, fs: Fs) -> Volume {
        self.lvcreate(&["-V", size, "-n", name, "--thinpool", pool, &self.name]);
        self.format(self.volume(name, fs))
    }

    /// A classic snapshot, not mounted.
    pub fn classic_snapshot(&self, origin: &Volume, name: &str, size: &str) -> Volume {
        self.lvcreate(&["-s", "-L", size, "-n", name, &self.path_of(&origin.name)]);
        self.volume(name, origin.fs)
    }

    /// A thin snapshot, active but not mounted.
    pub fn thin_snapshot(&self, origin: &Volume, name: &str) -> Volume {
        self.lvcreate(&["-s", "--setactivationskip", "n", "-n", name, &self.path_of(&origin.name)]);
        self.volume(name, origin.fs)
    }

    /// A volume of this group that is there already.
    pub fn volume(&self, name: &str, fs: Fs) -> Volume {
        let device = Path::new("/dev").join(&self.name).join(name);
        Volume { name: name.to_owned(), device, fs, folder: None }
    }

    /// Mounts a volume for writing.
    pub fn mount(&self, volume: &mut Volume) {
        self.mount_with(volume, "rw");
    }

    /// Mounts a snapshot for reading, without touching it.
    pub fn mount_snapshot(&self, snapshot: &mut Volume) {
        self.mount_with(snapshot, snapshot.fs.snapshot_options());
    }

    fn mount_with(&self, volume: &mut Volume, options: &str) {
        let (folder, device) = (self.machine.mount_point(), volume.device.to_str().unwrap());
        self.machine.run("mount", &["-t", volume.fs.name(), "-o", options, device, folder.to_str().unwrap()]);
        volume.folder = Some(folder);
    }

    pub fn unmount(&self, volume: &mut Volume) {
        self.machine.run("umount", &[volume.folder.take().unwrap().to_str().unwrap()]);
    }

    /// What device-mapper says about a volume, as `0 524288 snapshot 16/131072 16`.
    pub fn status(&self, volume: &Volume) -> String {
        self.machine.run("dmsetup", &["status", volume.device.to_str().unwrap()]).trim().to_owned()
    }

    fn lvcreate(&self, arguments: &[&str]) {
        self.machine.run("lvcreate", &[&["-q", "--yes"][..], arguments].concat());
    }

    fn path_of(&self, volume: &str) -> String {
        format!("{}/{volume}", self.name)
    }

    fn format(&self, mut volume: Volume) -> Volume {
        let quiet_and_forced: &[&str] = match volume.fs {
            // Everything at once: what is put off is written later, beside whatever a test measures.
            Fs::Ext4 => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            Fs::Xfs => &["-q", "-f"],
        };
        let arguments = [quiet_and_forced, &[volume.device.to_str().unwrap()]].concat();
        self.machine.run(&format!("mkfs.{}", volume.fs.name()), &arguments);
        self.mount(&mut volume);
        volume
    }

    /// Unmounts what is mounted from this group, the newest first, and removes all of it.
    fn remove(&self) -> Result<(), String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        let (mapped, plain) = (format!("/dev/mapper/{}-", self.name), format!("/dev/{}/", self.name));
        let ours = mounts.lines().filter(|line| line.starts_with(&mapped) || line.starts_with(&plain));
        for folder in ours.filter_map(|line| line.split(' ').nth(1)).collect::<Vec<_>>().into_iter().rev() {
            self.machine.try_run("umount", &[folder])?;
        }
        self.machine.try_run("vgremove", &["-q", "--force", "--force", "--yes", &self.name]).map(|_| ())
    }
}

impl Drop for VolumeGroup<'_> {
    fn drop(&mut self) {
        let removed = self.remove();
        // A panic while another one unwinds would end the whole run.
        match removed {
            Err(why) if std::thread::panicking() => println!("{why}"),
            removed => removed.unwrap(),
        }
    }
}
