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
        Self::on(machine, machine.volume_group("asat-lab", &positions))
    }

    /// The group that an earlier boot set up.
    pub fn of_before(machine: &'a Machine) -> Self {
        Self::on(machine, machine.volume_group_of_before("asat-lab"))
    }

    fn on(machine: &'a Machine, made: VolumeGroup<'a>) -> Self {
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

    /// Changes what LVM has recorded of the group, to bring about what only a crash would.
    pub fn rewrite_records(&self, change: impl FnOnce(&str) -> String) {
        let file = self.machine.folder("records").join("group");
        let (name, group) = (file.to_str().unwrap(), self.group.as_str());
        self.machine.run("vgcfgbackup", &["--file", name, group]);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, change(&text)).unwrap();
        self.machine.run("vgcfgrestore", &["--yes", "--force", "--file", name, group]);
    }

    /// Sends messages to a pool.
    pub fn message(&self, pool: &str, messages: &[String]) {
        let device = self.device(&format!("{pool}-tpool"));
        let sent: String = messages
            .iter()
            .map(|message| format!("dmsetup message {device} 0 \"{message}\" || exit\n"))
            .collect();
        self.machine.run("sh", &["-c", &sent]);
    }

    pub fn status(&self, volume: &str) -> dm::DeviceState {
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
        self.machine.run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device]);
        self.mount(&["-t", "ext4", &device], &self.machine.mount_point().join(format!("a {volume}")))
    }

    /// Mounts what has a file system already.
    pub fn mounted(&self, node: &Path) -> Mounted<'a> {
        self.mount(&["-t", "ext4", node.to_str().unwrap()], &self.machine.mount_point())
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
        wait(Duration::from_millis(10), what, is_so);
    }

    /// Waits for what does not last.
    pub fn wait_closely(&self, what: &str, is_so: impl Fn() -> bool) {
        wait(Duration::from_micros(200), what, is_so);
    }
}

fn wait(pause: Duration, what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < patience, "it never came to this: {what}");
        std::thread::sleep(pause);
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
