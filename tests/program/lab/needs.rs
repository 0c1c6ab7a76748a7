//! What the lab needs of the machine, and how to install what is missing.

use std::path::{Path, PathBuf};

use super::Lab;

/// A program, and the Debian package that has it.
type Need = (&'static str, &'static str);

/// What the tests use, in a guest or with loop devices.
const ANYWHERE: [Need; 5] = [
    ("lvcreate", "lvm2"),
    ("dmsetup", "dmsetup"),
    ("thin_check", "thin-provisioning-tools"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// What boots a guest.
pub const GUEST: [Need; 4] =
    [("linux.uml", "user-mode-linux"), ("taskset", "util-linux"), ("insmod", "kmod"), ("ip", "iproute2")];

/// What a guest under systemd has besides.
const SYSTEMD: [Need; 3] = [("systemctl", "systemd"), ("udevadm", "udev"), ("dmeventd", "dmeventd")];

/// Where programs are, for root as for everybody.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The kernel of guests, and the folder of its modules by release: the newer one that `tools/lab-kernel` has fetched, else
/// this machine's own.
pub fn kernel() -> (PathBuf, PathBuf) {
    let newer = super::root().join("target/lab-kernel");
    if newer.join("linux.uml").exists() {
        (newer.join("linux.uml"), newer.join("modules"))
    } else {
        ("linux.uml".into(), "/usr/lib/uml/modules".into())
    }
}

/// Fails with what is missing for a guest, and the command that installs it.
pub fn for_guest(lab: &Lab) {
    let systemd: &[Need] = if lab.systemd { &SYSTEMD } else { &[] };
    demand(&[&GUEST[..], &ANYWHERE, systemd].concat());
}

/// Fails with what is missing for loop devices under the machine's own device-mapper.
pub fn for_loops() {
    demand(&ANYWHERE);
    assert!(rustix::process::geteuid().is_root(), "the lab with loop devices needs root: run it with sudo");
    offered("/dev/loop-control", "loop");
}

/// Fails where the machine's own kernel has no device-mapper.
pub fn for_volumes() {
    offered("/dev/mapper/control", "dm-mod");
}

fn offered(node: &str, module: &str) {
    assert!(
        Path::new(node).exists(),
        "this kernel offers no {node}. Load it with:\n    sudo modprobe {module}"
    );
}

fn demand(needs: &[Need]) {
    if let Some(why) = complaint(needs, PATH) {
        panic!("{why}");
    }
}

/// What is missing among these folders, and the command that installs it; nothing where all is there.
pub fn complaint(needs: &[Need], folders: &str) -> Option<String> {
    let found = |program: &str| folders.split(':').any(|folder| PathBuf::from(folder).join(program).exists());
    let missing: Vec<&Need> = needs.iter().filter(|(program, _)| !found(program)).collect();
    let list = |what: fn(&Need) -> &str, with: &str| -> String {
        missing.iter().map(|need| what(need)).collect::<Vec<_>>().join(with)
    };
    (!missing.is_empty()).then(|| {
        format!(
            "the lab cannot boot: {} missing. Install with:\n    sudo apt-get install --no-install-recommends {}",
            list(|need| need.0, ", "),
            list(|need| need.1, " "),
        )
    })
}
