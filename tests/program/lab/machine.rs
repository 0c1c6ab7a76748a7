//! Inside: the machine that a check runs on, in a guest or with loop devices.

use std::cell::RefCell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::folders::Folders;
use super::runner::Lab;
use super::{BOOT, groups::VolumeGroup, needs};

/// Disks that a check may do anything with.
pub struct Machine {
    pub disks: Vec<PathBuf>,
    /// Which boot this is, from 1; a higher one where the check cut its power before.
    pub boot: u32,
    folder: TempDir,
    loops: Option<Loops>,
    mounted: RefCell<u32>,
}

/// The files behind loop devices, and the settings that keep lvm2 to these devices.
struct Loops {
    devices: Vec<PathBuf>,
    settings: TempDir,
    files: Folders,
}

impl Machine {
    pub(super) fn guest() -> Self {
        let all = ('a'..='p').map(|letter| PathBuf::from(format!("/dev/ubd{letter}")));
        let boot = std::env::var(BOOT).unwrap().parse().unwrap();
        Self::new(all.filter(|disk| disk.exists()).collect(), boot, None)
    }

    pub(super) fn with_loops(lab: &Lab) -> Self {
        needs::for_loops();
        let loops = Loops::attach(Folders::new(&lab.disks));
        Self::new(loops.devices.clone(), 1, Some(loops))
    }

    fn new(disks: Vec<PathBuf>, boot: u32, loops: Option<Loops>) -> Self {
        let folder = tempfile::Builder::new().prefix("asat-lab.").tempdir().unwrap();
        Self { disks, boot, folder, loops, mounted: RefCell::new(0) }
    }

    /// A command that sees the lab's disks and settings. Whatever uses lvm2 must be started with this environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", needs::PATH).env("LC_ALL", "C").envs(self.env()).stdin(Stdio::null());
        command
    }

    /// The environment that keeps lvm2 to the lab's disks.
    pub fn env(&self) -> Vec<(String, String)> {
        let settings = self.loops.as_ref().map(|loops| loops.settings.path());
        let settings = settings.map(|path| ("LVM_SYSTEM_DIR".to_owned(), path.to_str().unwrap().to_owned()));
        settings.into_iter().chain([("LVM_SUPPRESS_FD_WARNINGS".to_owned(), "1".to_owned())]).collect()
    }

    /// Runs a command; answers its standard output, or fails with what it said.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        self.try_run(program, arguments).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Runs a command; answers its standard output, or what it said as it failed.
    pub fn try_run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(program).args(arguments).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {}: {}\n{said}{errors}", arguments.join(" "), output.status))
    }

    /// A volume group on some of the disks, by their positions. It goes with the value.
    pub fn volume_group(&self, name: &str, disks: &[usize]) -> VolumeGroup<'_> {
        needs::for_volumes();
        VolumeGroup::create(self, name, disks)
    }

    /// A group that an earlier boot made.
    pub fn volume_group_of_before(&self, name: &str) -> VolumeGroup<'_> {
        VolumeGroup::find(self, name)
    }

    /// A guest's names are its own; on a machine that others use, a name says whose it is, and no two checks share it.
    /// It has no hyphen, because names of devices would double that.
    pub(super) fn group_name(&self, name: &str) -> String {
        let folder = self.folder.path().extension().unwrap().to_str().unwrap();
        if self.loops.is_some() { format!("asat_lab_{folder}_{name}") } else { name.to_owned() }
    }

    /// A new folder of the check's own.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A folder that nothing is mounted on yet.
    pub fn mount_point(&self) -> PathBuf {
        *self.mounted.borrow_mut() += 1;
        self.folder(&format!("mount{}", self.mounted.borrow()))
    }

    /// Ends the guest as a power cut would: at once, with nothing synced. The check runs again at the next boot.
    pub fn cut_power(&self) -> ! {
        assert!(self.loops.is_none(), "a power cut needs a guest: leave this test out with loop devices");
        std::fs::OpenOptions::new().write(true).open("/dev/tty2").unwrap().write_all(b"cut\n").unwrap();
        loop {
            std::thread::park();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A guest goes with all that it has mounted.
        for nth in (1..=*self.mounted.borrow()).filter(|_| self.loops.is_some()) {
            // Nothing may have been mounted there, or no longer.
            drop(self.try_run("umount", &[self.folder(&format!("mount{nth}")).to_str().unwrap()]));
        }
    }
}

impl Loops {
    fn attach(files: Folders) -> Self {
        let settings = tempfile::Builder::new().prefix("asat-lvm.").tempdir().unwrap();
        let mut loops = Self { devices: Vec::new(), settings, files };
        for file in loops.files.disks() {
            let output = losetup(&[Path::new("--find"), Path::new("--show"), &file]);
            loops.devices.push(PathBuf::from(output.trim()));
        }
        std::fs::write(loops.settings.path().join("lvm.conf"), loops.lvm_settings()).unwrap();
        loops
    }

    /// No other disk of the machine is seen, and nothing is recorded in the machine's own folders.
    fn lvm_settings(&self) -> String {
        let accept = self.devices.iter().map(|device| format!("\"a|^{}$|\", ", device.display()));
        let filter = accept.collect::<String>() + "\"r|.*|\"";
        let udev = u8::from(Path::new("/run/udev/control").exists());
        format!(
            "devices {{ global_filter=[{filter}] use_devicesfile=0 obtain_device_list_from_udev=0 }}\n\
             activation {{ udev_sync={udev} udev_rules={udev} monitoring=0 }}\n\
             backup {{ backup=0 archive=0 }}\n"
        )
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.devices {
            losetup(&[Path::new("--detach"), device]);
        }
    }
}

fn losetup(arguments: &[&Path]) -> String {
    let output = Command::new("losetup").env("PATH", needs::PATH).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A panic while another one unwinds would end the whole run.
    assert!(output.status.success() || std::thread::panicking(), "losetup: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
