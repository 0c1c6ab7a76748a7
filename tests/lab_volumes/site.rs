//! A volume group of the lab, worked on by the rooms under test and not by the lab's own commands.

#![allow(unreachable_pub)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use asat_host::dm::{self, Control, Selector};
use asat_host::lvm::report::Name;
use asat_host::lvm::{Call, LogicalVolume, Lvm};

use crate::lab::{Machine, VolumeGroup};

pub struct Site<'a> {
    pub machine: &'a Machine,
    pub lvm: Lvm,
    pub control: Control,
    pub group: Name,
    _made: VolumeGroup<'a>,
}

/// Something mounted, until the value goes. It must go before its group does.
pub struct Mounted<'a> {
    machine: &'a Machine,
    pub at: PathBuf,
}

impl<'a> Site<'a> {
    /// A group on all disks. In a guest its name has a hyphen, which names of devices double.
    pub fn set_up(machine: &'a Machine) -> Self {
        let positions: Vec<usize> = (0..machine.disks.len()).collect();
        let made = machine.volume_group("asat-lab", &positions);
        let (lvm, control) = (Lvm::find().unwrap(), Control::open().unwrap());
        Self { machine, lvm, control, group: made.name.parse().unwrap(), _made: made }
    }

    /// A volume as LVM's commands take it.
    pub fn of(&self, volume: &str) -> String {
        format!("{}/{volume}", self.group)
    }

    /// The name of a volume's device in the device-mapper.
    pub fn device(&self, volume: &str) -> String {
        let hidden = volume.strip_suffix("-tpool");
        let name = hidden.unwrap_or(volume).replace('-', "--");
        let suffix = if hidden.is_some() { "-tpool" } else { "" };
        format!("{}-{name}{suffix}", self.group.as_str().replace('-', "--"))
    }

    pub fn classic(&self, name: &str, size: &str) {
        let call = Call::new("lvcreate").flag("--yes").option("--size", size).option("--name", name);
        self.lvm.run(&call.operand(&self.group)).unwrap();
    }

    pub fn thin(&self, pool: &str, size: &str, name: &str, virtual_size: &str) {
        let call = Call::new("lvcreate").flag("--yes").option("--type", "thin-pool").option("--size", size);
        self.lvm.run(&call.option("--name", pool).operand(&self.group)).unwrap();
        let call = Call::new("lvcreate").flag("--yes").option("--virtualsize", virtual_size);
        let call = call.option("--thinpool", pool).option("--name", name).operand(&self.group);
        self.lvm.run(&call).unwrap();
    }

    pub fn volume(&self, name: &str) -> LogicalVolume {
        let volumes = self.lvm.volumes(&self.group).unwrap();
        volumes.into_iter().find(|volume| volume.name.as_str() == name).unwrap_or_else(|| panic!("no {name}"))
    }

    pub fn status(&self, volume: &str) -> dm::State {
        self.control.status(Selector::Name(&self.device(volume))).unwrap()
    }

    /// Writes so many MiB to a volume, past every cache.
    pub fn write(&self, volume: &str, mib: u32) -> Result<String, String> {
        let target = format!("of=/dev/{}", self.of(volume));
        let count = format!("count={mib}");
        self.machine.try_run("dd", &["if=/dev/zero", &target, "bs=1M", &count, "oflag=direct"])
    }

    /// Makes a file system on a volume, and mounts it.
    pub fn formatted(&self, volume: &str) -> Mounted<'a> {
        let device = format!("/dev/{}", self.of(volume));
        self.machine.run("mkfs.ext4", &["-q", "-F", &device]);
        self.mount(&["-t", "ext4", &device], &self.machine.mount_point().join(format!("a {volume}")))
    }

    pub fn bind(&self, what: &Path, at: &Path) -> Mounted<'a> {
        self.mount(&["--bind", what.to_str().unwrap()], at)
    }

    fn mount(&self, arguments: &[&str], at: &Path) -> Mounted<'a> {
        if !at.exists() {
            std::fs::create_dir_all(at).unwrap();
        }
        self.machine.run("mount", &[arguments, &[at.to_str().unwrap()]].concat());
        Mounted { machine: self.machine, at: at.to_owned() }
    }

    pub fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let patience = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < patience, "it never came to this: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = self.machine.try_run("umount", &[self.at.to_str().unwrap()]);
        // A panic while another one unwinds would end the whole run.
        if !std::thread::panicking() {
            unmounted.unwrap();
        }
    }
}
