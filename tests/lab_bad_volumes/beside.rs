//! Somebody else has a snapshot of the store's volume, which is mounted and unmounted all the time, as for a backup.
//!
//! LVM suspends an origin with all its classic snapshots to change one of them, and newer kernels do not suspend a device
//! whose file system is just coming or going.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::lab::in_lab;
use crate::site::{Site, lab};

/// Ends what goes on until it is set, however it is left.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn lab_versions_are_cut_and_removed_while_another_snapshot_is_mounted_and_unmounted() {
    in_lab(lab(1, "512M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        site.restart();
        site.run("lvcreate", &["-q", "-s", "-L", "64M", "-n", "theirs", "vg/data"]);
        let (node, at) = (Path::new("/dev/vg/theirs"), machine.folder("theirs"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mounting = scope.spawn(|| {
                let mut times = 0;
                while !over.load(Ordering::Relaxed) {
                    match mount(node, &at, "ext4", MountFlags::RDONLY, Some(c"noload")) {
                        Ok(()) => unmount(&at, UnmountFlags::empty()).unwrap(),
                        // Nor do they mount what is just suspended.
                        Err(error) => assert_eq!(error, Errno::BUSY),
                    }
                    times += 1;
                }
                times
            });
            let until = Until(&over);
            for _ in 0..8 {
                site.publish();
            }
            site.settle();
            drop(until);
            println!("theirs was mounted and unmounted {} times", mounting.join().unwrap());
        });
        site.check_that_all_is_well();
    });
}
