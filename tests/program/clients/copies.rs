//! As-at copies: read-only for everybody, and pristine at every opening whatever was done to them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use crate::clients::bytes::{beside, expect_image, image, names};
use crate::clients::client::{Python, integrity, sqlite3, try_sqlite3};
use crate::clients::{Opened, close, open, publish_new};
use crate::common::World;

/// A world with one version of a small store, and that version's bytes.
fn published(python: &mut Python) -> (World, Vec<u8>) {
    let mut world = World::new();
    let store = world.store();
    fs::create_dir(world.path("store")).unwrap();
    python.run(
        &store,
        &["PRAGMA journal_mode = wal", "CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2), (3)"],
    );
    let image = image(&store, &world.path("image.db"), python);
    world.start();
    assert_eq!(publish_new(&world, "report"), "report@1");
    (world, image)
}

#[test]
fn the_daemons_group_may_read_a_copy_and_nobody_may_write_it() {
    let mut python = Python::start();
    let (world, image) = published(&mut python);
    let opened = open(&world, "report@1");
    assert_eq!(mode(&opened.path), 0o440);
    assert_eq!(mode(opened.path.parent().unwrap()), 0o750);
    assert_eq!(mode(opened.path.parent().unwrap().parent().unwrap()), 0o750);

    // The state folder as the service manager makes it: the group passes through to the copies.
    fs::set_permissions(world.folder.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(world.path("state"), Permissions::from_mode(0o710)).unwrap();
    let group = opened.path.metadata().unwrap().gid();
    let path = opened.path.to_str().unwrap();
    for database in [path, &opened.uri] {
        let rows = as_user(group, database, "PRAGMA integrity_check; SELECT sum(x) FROM t");
        assert_eq!(String::from_utf8_lossy(&rows.stdout), "ok\n6\n", "{rows:?}");
    }
    for sql in ["INSERT INTO t VALUES (4)", "PRAGMA journal_mode = wal; INSERT INTO t VALUES (4)", "VACUUM"] {
        let refused = as_user(group, path, sql);
        assert!(!refused.status.success(), "{sql}: {refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("readonly"), "{sql}: {refused:?}");
    }
    if rustix::process::geteuid().is_root() {
        let outsider = as_user(STRANGER, path, "SELECT sum(x) FROM t");
        assert!(!outsider.status.success() && outsider.stdout.is_empty(), "{outsider:?}");
    }
    expect_image(&opened.path, &image, "report@1");
    assert_eq!(names(opened.path.parent().unwrap()), ["report.db"]);
}

/// A user and a group that own nothing.
const STRANGER: u32 = 65534;

/// Runs the `sqlite3` program as an ordinary user of a group.
fn as_user(group: u32, database: &str, sql: &str) -> Output {
    if !rustix::process::geteuid().is_root() {
        return try_sqlite3(Command::new("sqlite3").args([database, sql]));
    }
    let (user, group) = (format!("--reuid={STRANGER}"), format!("--regid={group}"));
    try_sqlite3(Command::new("setpriv").args([&user, &group, "--clear-groups", "sqlite3", database, sql]))
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[test]
fn a_copy_that_was_changed_is_pristine_at_the_next_opening() {
    let mut python = Python::start();
    let (world, image) = published(&mut python);
    let tamper: [fn(&Path); 6] = [
        |copy| drop(sqlite3(&[copy.to_str().unwrap(), "INSERT INTO t VALUES (666)"])),
        |copy| drop(sqlite3(&[copy.to_str().unwrap(), "PRAGMA journal_mode = wal; DROP TABLE t"])),
        |copy| fs::write(copy, "no database").unwrap(),
        |copy| fs::remove_file(copy).unwrap(),
        |copy| fs::write(beside(copy, "-wal"), "left behind").unwrap(),
        |copy| fs::set_permissions(copy, Permissions::from_mode(0o666)).unwrap(),
    ];
    for (number, tamper) in tamper.into_iter().enumerate() {
        let opened = open(&world, "report@1");
        make_writable(&opened.path);
        tamper(&opened.path);
        // The next reader need not wait for the first one to go.
        let again = open(&world, "report@1");
        assert_eq!(again.path, opened.path);
        expect_image(&again.path, &image, &format!("after tampering {number}"));
        assert_eq!(mode(&again.path), 0o440);
        assert_eq!(names(again.path.parent().unwrap()), ["report.db"]);
        assert_eq!(integrity(&again.uri), "ok");
        close(&world, "report@1", &opened);
        close(&world, "report@1", &again);
    }
}

/// What root need not do: it writes into read-only files anyway.
fn make_writable(copy: &Path) {
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(copy, Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn a_reader_of_the_old_file_goes_on_undisturbed() {
    let mut python = Python::start();
    let (world, _) = published(&mut python);
    let opened = open(&world, "report@1");
    let mut reader = Python::start();
    let sum = |reader: &mut Python| reader.number(&opened.path, "SELECT sum(x) FROM t");
    assert_eq!(sum(&mut reader), 6);
    let file = inode(&opened);

    // The copy is made anew, since somebody touched it.
    fs::set_permissions(&opened.path, Permissions::from_mode(0o400)).unwrap();
    let again = open(&world, "report@1");
    assert_ne!(inode(&again), file, "it is the same file still");
    assert_eq!(sum(&mut reader), 6);

    // The version is given up, copy and all.
    python.run(&world.store(), &["INSERT INTO t VALUES (4)"]);
    publish_new(&world, "report");
    close(&world, "report@1", &opened);
    close(&world, "report@1", &again);
    let retired = world.request("DELETE", "/versions/report@1", &[], b"");
    assert_eq!((retired.status, retired.json()["state"].as_str()), (200, Some("retired")));
    assert_eq!(sum(&mut reader), 6);
    assert_eq!(reader.run(&opened.path, &["PRAGMA integrity_check"])[0][0], "ok");
}

fn inode(opened: &Opened) -> u64 {
    opened.path.metadata().unwrap().ino()
}
