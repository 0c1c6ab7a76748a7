//! The daemon ends while its tree is read, and starts again.

use std::fs;
use std::io::Read as _;

use rustix::io::Errno;

use crate::lab::{Lab, in_lab};
use crate::without::examined;
use crate::{at, connect, errno, rows, tree, world};

/// What is mounted at a path, one line each.
fn mounted(path: &std::path::Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let here = |line: &&str| line.split(' ').nth(1) == path.to_str();
    table.lines().filter(here).map(str::to_owned).collect()
}

#[test]
fn lab_the_tree_that_a_killed_daemon_has_left_is_taken_away() {
    in_lab(Lab::new(), |_| {
        let mut world = world(2);
        for _ in 0..3 {
            let mut open = fs::File::open(at(&world, "report@1/report.db")).unwrap();
            world.kill();
            // The kernel keeps what the root looks like, but not what is in it.
            assert_eq!(errno(&fs::read_dir(tree(&world)).unwrap_err()), Errno::NOTCONN);
            assert_eq!(errno(&open.read(&mut [0; 1 << 20]).unwrap_err()), Errno::NOTCONN);
            world.start_under_contract();
            assert_eq!(mounted(&tree(&world)).len(), 1, "the old one is gone");
            assert_eq!(rows(&connect(&at(&world, "latest/report.db"))), 2);
        }
    });
}

#[test]
fn lab_a_stop_takes_the_tree_away_although_it_is_read() {
    in_lab(Lab::new(), |_| {
        let mut world = world(1);
        let open = fs::File::open(at(&world, "report@1/report.db")).unwrap();
        assert!(world.stop().success());
        assert_eq!(mounted(&tree(&world)), [] as [String; 0]);
        drop(open);
        // What was leased while it was read is not leased any more.
        world.config.clear();
        world.start_under_contract();
        assert_eq!(world.get("/versions/report@1").json()["leases"], 0);
    });
}

#[test]
fn lab_what_others_have_mounted_or_put_there_is_left_alone() {
    in_lab(Lab::new(), |machine| {
        let mut world = world(1);
        world.stop();
        let root = tree(&world);
        machine.run("mount", &["-t", "tmpfs", "theirs", root.to_str().unwrap()]);
        let log = world.start_under_contract();
        assert!(log.contains("a file system tmpfs (theirs) is mounted there"), "{log}");
        let (level, what) = examined(&world);
        assert!(
            level == "warning" && log.contains(what.trim_end_matches("; versions are read as copies")),
            "{what}"
        );
        assert!(mounted(&root)[0].starts_with("theirs "), "{:?}", mounted(&root));
        assert!(world.open("report@1").starts_with(world.path("state")));
        world.stop();
        machine.run("umount", &[root.to_str().unwrap()]);
        fs::write(root.join("theirs"), "").unwrap();
        let log = world.start_under_contract();
        assert!(log.contains("there are files in it"), "{log}");
        let (level, what) = examined(&world);
        assert!(
            level == "warning" && log.contains(what.trim_end_matches("; versions are read as copies")),
            "{what}"
        );
        assert!(root.join("theirs").exists());
    });
}
