//! The processes in which the daemon works on stores.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{PATIENCE, World};
use crate::hostile_owner::{assert_others_are_served, publish, world};

/// The processes of the daemon that work on stores, or wait to.
pub(crate) fn workers(world: &World) -> Vec<u32> {
    let daemon = world.daemon.as_ref().unwrap().child.id();
    let threads = fs::read_dir(format!("/proc/{daemon}/task")).unwrap();
    let children = threads.flat_map(|thread| {
        let children = fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default();
        children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()).collect::<Vec<_>>()
    });
    children.filter(|pid| is_worker(*pid)).collect()
}

/// How many threads of the daemon have this name.
fn threads(world: &World, name: &str) -> usize {
    let daemon = world.daemon.as_ref().unwrap().child.id();
    let threads = fs::read_dir(format!("/proc/{daemon}/task")).unwrap();
    let names =
        threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|found| found.trim_end() == name).count()
}

fn is_worker(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| String::from_utf8_lossy(&line).split('\0').any(|word| word == "store-worker"))
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn wait_until_gone(pid: u32) {
    let deadline = Instant::now() + PATIENCE;
    while Path::new("/proc").join(pid.to_string()).exists() && is_worker(pid) {
        assert!(Instant::now() < deadline, "worker {pid} goes on");
        thread::yield_now();
    }
}

fn write(world: &World) {
    world.sqlite().execute_batch("insert into t values (1, 2)").unwrap();
}

#[test]
fn a_worker_serves_more_than_once_and_its_loss_is_no_loss() {
    let mut world = world();
    world.start();
    assert_eq!(publish(&world.socket()).status, 201);
    let [first] = workers(&world)[..] else { panic!("one store was read") };
    write(&world);
    assert_eq!(publish(&world.socket()).status, 201);
    assert_eq!(workers(&world), [first], "the same process reads it again");
    assert_eq!(threads(&world, "store-workers"), 1, "one thread ends those that wait for long");
    for harm in [Signal::KILL, Signal::STOP] {
        let [worker] = workers(&world)[..] else { panic!("one store was read") };
        signal(worker, harm);
        write(&world);
        let answer = publish(&world.socket());
        assert_eq!(answer.status, 201, "{answer}");
        wait_until_gone(worker);
    }
    assert_others_are_served(&world);
}

#[test]
fn workers_end_with_the_daemon_however_that_ends() {
    let mut world = world();
    world.start();
    for kill in [true, false] {
        write(&world);
        assert_eq!(publish(&world.socket()).status, 201);
        let [worker] = workers(&world)[..] else { panic!("one store was read") };
        match kill {
            true => world.kill(),
            false => assert!(world.stop().success()),
        }
        wait_until_gone(worker);
        if kill {
            world.start();
        }
    }
}

#[test]
fn a_worker_has_bounds_and_no_secrets_and_is_the_stores_owner() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else can act as another user.
        return;
    }
    let mut world = world();
    let nobody = 65534;
    fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = world.store().parent().unwrap().to_owned();
    for path in [&folder, &world.store()] {
        std::os::unix::fs::chown(path, Some(nobody), Some(nobody)).unwrap();
    }
    world.env.push(("ASAT_SECRET_OF_A_TEST".to_owned(), "x".to_owned()));
    world.start();
    assert_eq!(publish(&world.socket()).status, 201);
    let [worker] = workers(&world)[..] else { panic!("one store was read") };
    assert_eq!(fs::metadata(format!("/proc/{worker}/environ")).unwrap().uid(), 0, "nobody may trace it");
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    for line in ["Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let environment = fs::read_to_string(format!("/proc/{worker}/environ")).unwrap();
    assert!(!environment.contains("SECRET"), "{environment}");
    let limits = fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
    let limit = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(limit("Max core file size").contains(" 0 "), "{limits}");
    assert!(!limit("Max address space").contains("unlimited"), "{limits}");
    // The owner leads the name to what only root may read: nothing of it is published.
    let private = world.path("private.db");
    rusqlite::Connection::open(&private).unwrap().execute_batch("create table secret (a)").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(world.store()).unwrap();
    std::os::unix::fs::symlink(&private, world.store()).unwrap();
    let answer = publish(&world.socket());
    assert_eq!(answer.status, 422, "{answer}");
    assert_others_are_served(&world);
}
