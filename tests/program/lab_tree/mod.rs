//! The tree of versions, mounted by FUSE: read by stock clients, held while it is read, found again after a crash, and
//! done without where it cannot be had.
//!
//! It is in the lab, whose kernel has FUSE wherever these tests run.

mod crashes;
mod holding;
mod paths;
mod reading;
mod service;
mod without;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::{Connection, OpenFlags};

use crate::common::World;

/// The section that asks for a tree.
const FUSE: &str = "[fuse]\nroot = \"tree\"\n";

/// A daemon with a tree, whose store has a table, and `versions` versions with one row more each.
fn world(versions: u32) -> World {
    configured(FUSE, versions)
}

fn configured(config: &str, versions: u32) -> World {
    let mut world = World::new();
    config.clone_into(&mut world.config);
    world.sqlite().execute_batch("pragma journal_mode = wal; create table ledger (entry text)").unwrap();
    world.start_under_contract();
    (1..=versions).for_each(|version| publish(&world, version));
    world
}

/// Adds a row of several pages, and publishes: a new version.
fn publish(world: &World, version: u32) {
    let entry = format!("{version}").repeat(20_000);
    world.sqlite().execute("insert into ledger values (?1)", [entry]).unwrap();
    assert_eq!(world.publish("close")["version"]["id"], format!("report@{version}"));
}

fn tree(world: &World) -> PathBuf {
    world.path("tree")
}

/// A path in the tree.
fn at(world: &World, path: &str) -> PathBuf {
    tree(world).join(path)
}

fn connect(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// How many rows a sound database has.
fn rows(connection: &Connection) -> u32 {
    let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    connection.query_row("select count(*) from ledger", [], |row| row.get(0)).unwrap()
}

/// The same with the stock program, as a user by number.
fn stock(user: u32, path: &Path) -> Output {
    let user = user.to_string();
    let arguments = ["--reuid", &user, "--regid", &user, "--clear-groups", "sqlite3"];
    let question = "pragma integrity_check; select count(*) from ledger";
    Command::new("setpriv").args(arguments).arg(path).arg(question).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).trim().replace('\n', " ")
}

/// The error of a system call.
fn errno(error: &io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap()
}
