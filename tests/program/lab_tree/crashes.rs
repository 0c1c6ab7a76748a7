//! The daemon ends while its tree is read and starts again, or the tree goes while the daemon runs.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::Signal;

use crate::lab::{Lab, in_lab};
use crate::lab_tree::without::examined;
use crate::lab_tree::{FUSE, at, connect, errno, rows, tree, world};

/// Reading a file whose tree is gone fails, with what the kernel says of the connection; a newer one says of the page that
/// it could not be read.
fn check_that_it_cannot_be_read(file: &mut fs::File) {
    let error = errno(&file.read(&mut [0; 1 << 20]).unwrap_err());
    assert!([Errno::NOTCONN, Errno::IO].contains(&error), "{error}");
}

/// What is mounted at a path, one line each.
fn mounted(path: &Path) -> Vec<String> {
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
            check_that_it_cannot_be_read(&mut open);
            world.start_under_contract();
            assert_eq!(mounted(&tree(&world)).len(), 1, "the old one is gone");
            assert_eq!(rows(&connect(&at(&world, "latest/report.db"))), 2);
        }
    });
}

#[test]
fn lab_a_tree_that_was_left_where_the_configuration_had_it_before_is_taken_away() {
    in_lab(Lab::new(), |_| {
        let mut world = world(1);
        let root = tree(&world);
        for config in ["[fuse]\nroot = \"elsewhere\"\n", ""] {
            FUSE.clone_into(&mut world.config);
            world.stop();
            world.start_under_contract();
            world.kill();
            assert_eq!(mounted(&root).len(), 1);
            config.clone_into(&mut world.config);
            let log = world.start_under_contract();
            assert!(log.contains("left there is taken away"), "{log}");
            assert_eq!(mounted(&root), [] as [String; 0]);
        }
    });
}

/// Ends the connection of what is mounted at a path, as an administrator does to a file system that has come to a halt.
fn abort(root: &Path) {
    let connection = fs::metadata(root).unwrap().dev() & 0xff;
    fs::write(format!("/sys/fs/fuse/connections/{connection}/abort"), "1").unwrap();
}

#[test]
fn lab_a_tree_that_goes_while_the_daemon_runs_is_mounted_again() {
    in_lab(Lab::new(), |machine| {
        let mut world = world(2);
        let root = tree(&world);
        let open = connect(&at(&world, "report@1/report.db"));
        machine.run("umount", &["--lazy", root.to_str().unwrap()]);
        let log = world.wait_for_log("versions are read below");
        assert!(log.contains("it was unmounted"), "{log}");
        assert_eq!(rows(&open), 1, "who has a file open can read on");
        assert_eq!(world.open("report@2"), at(&world, "report@2/report.db"));
        assert_eq!(rows(&connect(&at(&world, "report@1/report.db"))), 1);

        machine.run("mount", &["-t", "fusectl", "none", "/sys/fs/fuse/connections"]);
        let mut open = fs::File::open(at(&world, "report@2/report.db")).unwrap();
        abort(&root);
        let log = world.wait_for_log("versions are read below");
        assert!(log.contains("its connection to the kernel was ended"), "{log}");
        assert_eq!(mounted(&root).len(), 1);
        check_that_it_cannot_be_read(&mut open);
        assert_eq!(rows(&connect(&at(&world, "report@2/report.db"))), 2);
        assert_eq!(examined(&world).0, "ok");
    });
}

#[test]
fn lab_while_something_else_is_where_the_tree_was_versions_are_read_as_copies() {
    in_lab(Lab::new(), |machine| {
        let mut world = world(2);
        let root = tree(&world);
        machine.run("mount", &["-t", "tmpfs", "theirs", root.to_str().unwrap()]);
        let log = world.wait_for_log("versions are read as copies");
        assert!(log.contains("a file system tmpfs (theirs) is mounted there"), "{log}");
        let copy = world.open("report@1");
        assert!(copy.starts_with(world.path("state")), "{}", copy.display());
        assert_eq!(rows(&connect(&copy)), 1);
        machine.run("umount", &[root.to_str().unwrap()]);
        world.wait_for_log("versions are read below");
        assert_eq!(world.open("report@2"), at(&world, "report@2/report.db"));
        assert_eq!(rows(&connect(&at(&world, "latest/report.db"))), 2);
        // What others have mounted stays when the daemon stops.
        machine.run("mount", &["-t", "tmpfs", "theirs", root.to_str().unwrap()]);
        world.wait_for_log("versions are read as copies");
        assert!(world.stop().success());
        assert!(mounted(&root).iter().any(|line| line.starts_with("theirs ")), "{:?}", mounted(&root));
    });
}

#[test]
fn lab_the_doctor_sees_that_nobody_answers_in_the_tree() {
    in_lab(Lab::new(), |_| {
        let mut world = world(1);
        world.signal(Signal::STOP);
        let (level, what) = examined(&world);
        assert!(level == "warning" && what.contains("no answer within"), "{level}: {what}");
        world.signal(Signal::CONT);
        assert_eq!(examined(&world).0, "ok");
        world.kill();
        let (level, what) = examined(&world);
        assert!(level == "warning" && what.contains("its process is gone"), "{level}: {what}");
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
