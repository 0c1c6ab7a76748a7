//! Beside udev, which looks at every device that changes: it neither waits for what is held, nor forgets it.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use asat_host::lvm::units::Bytes;

use crate::lab::{Lab, Machine, in_lab};
use crate::lab_brake::ground::{Ground, MIB, brake};

/// Longer than any command of LVM should take, on a busy machine too.
const HOLD: Duration = Duration::from_secs(9);

/// What a file system's mount and LVM's tools go by: what udev says is on a device, and the names that lead to it.
fn known(machine: &Machine, device: &str) -> BTreeSet<String> {
    machine.run("udevadm", &["settle"]);
    let name = format!("--name=/dev/mapper/{device}");
    let (links, properties) = (
        machine.run("udevadm", &["info", "--query=symlink", &name]),
        machine.run("udevadm", &["info", "--query=property", &name]),
    );
    let of_it =
        properties.lines().filter(|line| ["ID_FS_", "SYSTEMD_READY="].iter().any(|p| line.starts_with(p)));
    links.split_whitespace().chain(of_it).map(str::to_owned).collect()
}

/// An extension and a removal end while the origin's writers are held, however long that still is; and udev knows
/// afterwards what it knew before.
#[test]
fn lab_a_command_under_a_hold_does_not_wait_for_udev() {
    in_lab(Lab::new().disks(1, "1G").systemd(true), |machine| {
        let ground = Ground::make(machine, "64m", 16);
        machine.run("mkfs.ext4", &["-q", "-L", "held", ground.device().to_str().unwrap()]);
        machine.run("udevadm", &["trigger", "--settle", "--subsystem-match=block"]);
        let (site, mut brake) = (&ground.site, brake());
        let device = site.device("data");
        let before = known(machine, &device);
        assert!(before.contains("disk/by-label/held"), "{before:#?}");
        for what in ["extend", "remove"] {
            let held = brake.hold(&ground.origin, HOLD).unwrap();
            let began = Instant::now();
            let (done, over) = mpsc::channel();
            std::thread::scope(|scope| {
                let (lvm, control, snapshot) = (&site.lvm, &site.control, &ground.snapshot);
                scope.spawn(move || {
                    match what {
                        "extend" => drop(lvm.extend(control, snapshot, Bytes(24 * MIB)).unwrap()),
                        _ => lvm.remove(control, snapshot).unwrap(),
                    }
                    done.send(began.elapsed()).unwrap();
                });
                let took = over.recv_timeout(HOLD.saturating_sub(began.elapsed()));
                if took.is_ok() {
                    // LVM has resumed it, so that takes a moment.
                    site.wait_until("it is held still", || ground.is_suspended());
                }
                let released = held.release().unwrap();
                println!("to {what} took {took:?}; {released:?}");
                assert!(took.is_ok(), "to {what} waited for the hold");
            });
            assert_eq!(known(machine, &device), before, "after: {what}");
        }
    });
}
