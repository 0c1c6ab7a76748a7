//! The daemon may end at every step. What is there then is right or cannot be opened, and all can be done again.

use std::fs::{self, File};
use std::panic::{UnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use asat_core::boundary;
use asat_host::mounts::{Log, Mounts, in_use, into_rollback_mode};

use crate::lab::{Fs, Lab, in_lab};
use crate::lab_mounts::site::{INSIDE, Kind, Site, id, names, numbers, read};

/// How many steps are left until the crash; none is to come where it is the largest number.
static STEPS_LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

fn crash(_: &'static str) {
    match STEPS_LEFT.load(Ordering::Relaxed) {
        usize::MAX => {}
        0 => {
            STEPS_LEFT.store(usize::MAX, Ordering::Relaxed);
            std::panic::panic_any("crash");
        }
        left => STEPS_LEFT.store(left - 1, Ordering::Relaxed),
    }
}

/// Runs something that crashes after so many steps; whether it did.
fn crashes_after(steps: usize, run: impl FnOnce() + UnwindSafe) -> bool {
    boundary::listen(crash);
    STEPS_LEFT.store(steps, Ordering::Relaxed);
    let ended = catch_unwind(run);
    STEPS_LEFT.store(usize::MAX, Ordering::Relaxed);
    match ended {
        Ok(()) => false,
        Err(why) if why.downcast_ref() == Some(&"crash") => true,
        Err(why) => std::panic::resume_unwind(why),
    }
}

#[test]
fn lab_after_a_crash_at_any_step_a_version_is_whole_or_not_there() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Thin, Fs::Ext4);
        site.sql("CREATE TABLE t (x); INSERT INTO t VALUES (1)");
        let snapshot = site.cut("v1");
        let (node, device) = (&snapshot.device, numbers(&snapshot));
        let serve = |mounts: &Mounts| {
            mounts.mount(&id(1), node, device, "ext4", Log::Empty).unwrap();
            mounts.show(&id(1), Path::new(INSIDE)).unwrap();
        };
        let crashed = (0..).take_while(|steps| {
            let root = site.root.join(steps.to_string());
            let mounts = Mounts::new(root.clone());
            let crashed = crashes_after(*steps, || {
                serve(&mounts);
                mounts.unmount(&id(1)).unwrap();
            });
            let mounts = Mounts::new(root.clone());
            let is_read = File::open(mounts.path(&id(1))).is_ok();
            if is_read {
                assert_eq!(read(machine, &mounts.path(&id(1)), "SELECT x FROM t"), "1", "step {steps}");
            }
            let found = mounts.survey().unwrap();
            assert!(found.iter().all(|found| (&found.id, found.device) == (&id(1), device)), "{found:?}");
            assert_eq!(found.iter().any(|found| found.shown), is_read, "step {steps}");
            assert_eq!(!found.is_empty(), in_use(node).unwrap(), "step {steps}");
            if found.is_empty() && root.exists() {
                assert!(names(&root).iter().all(|name| name == ".snapshots"), "step {steps}");
            }
            serve(&mounts);
            assert_eq!(read(machine, &mounts.path(&id(1)), "SELECT x FROM t"), "1", "step {steps}");
            mounts.unmount(&id(1)).unwrap();
            assert_eq!((names(&root), names(&root.join(".snapshots"))), (vec![".snapshots".into()], vec![]));
            assert!(!in_use(node).unwrap(), "step {steps}");
            crashed
        });
        let crashed = crashed.count();
        assert!(crashed >= 20, "only {crashed} steps");
    });
}

#[test]
fn lab_after_a_crash_a_database_is_in_one_mode_or_the_other() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Classic, Fs::Ext4);
        site.sql("PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1)");
        let modes: Vec<[u8; 2]> = (0..3)
            .map(|steps| {
                let snapshot = site.cut(&format!("v{steps}"));
                let version = id(steps + 1);
                site.mount(&version, &snapshot).unwrap();
                let file = site.mounts.file(&version, Path::new(INSIDE));
                let set = || assert!(into_rollback_mode(&file, &snapshot.device).unwrap());
                assert_eq!(crashes_after(usize::try_from(steps).unwrap(), set), steps < 2);
                // What a daemon finds that comes after a reboot.
                site.mounts.unmount(&version).unwrap();
                site.mount(&version, &snapshot).unwrap();
                let mode = fs::read(&file).unwrap()[18..20].try_into().unwrap();
                set();
                assert_eq!(
                    read(machine, &site.show(&version).unwrap(), "SELECT x FROM t"),
                    "1",
                    "step {steps}"
                );
                site.mounts.unmount(&version).unwrap();
                mode
            })
            .collect();
        assert_eq!(modes, [[2, 2], [1, 1], [1, 1]]);
    });
}
