//! Somebody else has a snapshot of the store's volume, which is mounted and unmounted all the time, as for a backup.
//!
//! LVM suspends an origin with all its classic snapshots to change one of them, and newer kernels do not suspend a device
//! whose file system is just coming or going.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::lab::{Machine, in_lab};
use crate::lab_bad_volumes::site::{Site, lab};

/// Ends what goes on until it is set, however it is left.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has a snapshot of somebody else's mounted and unmounted without a pause while something happens.
fn beside_mounts<T>(machine: &Machine, happens: impl FnOnce() -> T) -> T {
    // The device itself: the link by which LVM calls it is made anew at each change.
    let node = std::fs::canonicalize("/dev/vg/theirs").unwrap();
    let at = machine.folder("theirs");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _until = Until(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                match mount(&node, &at, "ext4", MountFlags::RDONLY, Some(c"noload")) {
                    Ok(()) => unmount(&at, UnmountFlags::empty()).unwrap(),
                    // Nor do they mount what is just suspended.
                    Err(error) => assert_eq!(error, Errno::BUSY),
                }
            }
        });
        happens()
    })
}

#[test]
fn lab_versions_are_cut_and_removed_while_another_snapshot_is_mounted_and_unmounted() {
    in_lab(lab(1, "512M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        site.restart();
        machine.run("lvcreate", &["-q", "-s", "-L", "64M", "-n", "theirs", "vg/data"]);
        beside_mounts(machine, || {
            for _ in 0..8 {
                site.publish();
            }
            site.settle();
        });
        site.check_that_all_is_well();
    });
}

/// What `docs/recover.md` has an administrator type whose own `lvremove` ended like that.
#[test]
fn lab_what_lvm_leaves_suspended_goes_on_when_it_is_refreshed() {
    in_lab(lab(1, "512M"), |machine| {
        let site = Site::classic(machine, "64M");
        machine.run("lvcreate", &["-q", "-s", "-L", "64M", "-n", "theirs", "vg/data"]);
        let suspended = || {
            let report = machine.run("dmsetup", &["info", "-c", "--noheadings", "-o", "name,suspended"]);
            report.lines().filter(|line| line.ends_with(":Suspended")).map(str::to_owned).collect::<Vec<_>>()
        };
        let left = beside_mounts(machine, || {
            (0..30).find_map(|_| {
                // What this leaves where it fails is removed, too.
                let _ = machine.try_run("lvcreate", &["-q", "-s", "-L", "64M", "-n", "another", "vg/data"]);
                machine.try_run("lvremove", &["-q", "--yes", "vg/another"]).err()
            })
        });
        // Older kernels let LVM suspend what is just mounted.
        let Some(left) = left else { return println!("all went well beside the mounts") };
        println!("{left}");
        assert!(suspended().contains(&"vg-data:Suspended".to_owned()), "{:?}", suspended());
        machine.run("lvchange", &["--refresh", "vg/data"]);
        assert_eq!(suspended(), [""; 0]);
        site.write(64);
        machine.run("lvremove", &["-q", "--yes", "vg/another"]);
        site.write(64);
    });
}
