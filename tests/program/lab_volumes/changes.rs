//! A version that is cut by a thin snapshot is read by what has changed since the one before, and is the store all the same.

use std::fs;

use crate::lab::{Fs, Machine, in_lab};
use crate::lab_store::ground::{self, Ground, Kind};

/// What a daemon says of each version that it has not read whole.
const SAID: &str = "what its snapshot shares with that one's is not read";

const SCHEMA: &str = "pragma journal_mode = delete; create table t (n integer primary key, v blob);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
    insert into t select i, randomblob(600) from n";

/// Changes of all kinds, and whether nearly all of the store is what it was.
const CHANGES: [(&str, bool); 9] = [
    ("update t set v = randomblob(600) where n = 777", true),
    ("insert into t(v) select randomblob(600) from t limit 2000", false),
    ("delete from t where n % 1000 = 7", false),
    ("vacuum", false),
    ("update t set v = zeroblob(600) where n = 17", true),
    ("delete from t where n > 9000; vacuum", false),
    ("insert into t(v) values (zeroblob(3000000))", false),
    ("update t set v = randomblob(600) where n % 2000 = 3", false),
    ("delete from t where n > 9000", false),
];

/// Publishes what the store is now, and finds exactly that in the archive. Answers how large it is.
fn publish(ground: &Ground<'_>) -> u64 {
    let world = &ground.world;
    let id = world.publish("now")["version"]["id"].as_str().unwrap().to_owned();
    world.archived(&id);
    ground.at_rest(0);
    let (store, found) = (fs::read(world.store()).unwrap(), world.get(&format!("/versions/{id}/database")));
    assert_eq!(found.status, 200, "{found}");
    assert!(found.body == store, "{id} is not what the store was");
    store.len() as u64
}

/// Ends the daemon; answers of how many bytes it said, for one version after another, that it did not read them.
fn unread(ground: &mut Ground<'_>) -> (Vec<u64>, String) {
    let mut running = ground.world.daemon.take().unwrap();
    running.terminate();
    let log = running.rest_of_log();
    assert!(running.exit().success());
    let number = |line: &str| {
        let (_, rest) = line.split_once("unchanged=").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    (log.lines().filter(|line| line.contains(SAID)).map(number).collect(), log)
}

fn pool(machine: &Machine, message: &str) {
    machine.run("dmsetup", &["message", "vg-pool-tpool", "0", message]);
}

/// Whether somebody has the pool keep a state of its metadata.
fn is_reserved(machine: &Machine) -> bool {
    machine.run("dmsetup", &["status", "vg-pool-tpool"]).split(' ').nth(6) != Some("-")
}

fn check(machine: &Machine, fs: Fs) {
    let mut ground = Ground::make(machine, Kind::Thin, fs);
    ground.world.env.push(("ASAT_LOG".to_owned(), "asat=debug".to_owned()));
    let store = ground.world.sqlite();
    store.execute_batch(SCHEMA).unwrap();
    ground.world.start();
    publish(&ground);
    let mut sizes = Vec::new();
    for (change, _) in CHANGES {
        store.execute_batch(change).unwrap();
        sizes.push(publish(&ground));
    }
    let (bytes, _) = unread(&mut ground);
    println!("of {sizes:?} bytes these were not read: {bytes:?}");
    assert_eq!(bytes.len(), CHANGES.len(), "each but the first is compared with the one before");
    for (((change, is_small), size), unread) in CHANGES.iter().zip(&sizes).zip(&bytes) {
        assert!(!is_small || unread * 10 >= size * 9, "{change}: {unread} of {size}");
    }
    assert!(!is_reserved(machine));

    // What was mounted before a daemon started tells as much.
    ground.world.start();
    store.execute_batch("update t set v = randomblob(600) where n = 99").unwrap();
    publish(&ground);
    // Somebody else reads the pool: that is left to him, and all is read.
    pool(machine, "reserve_metadata_snap");
    store.execute_batch("update t set v = randomblob(600) where n = 88").unwrap();
    publish(&ground);
    assert!(is_reserved(machine));
    pool(machine, "release_metadata_snap");
    store.execute_batch("update t set v = randomblob(600) where n = 77").unwrap();
    publish(&ground);
    let verified = ground.world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(verified["ok"], true, "{verified}");
    let (bytes, log) = unread(&mut ground);
    assert_eq!(bytes.len(), 2, "{log}");
    let told = "all of it is read: the pool vg-pool-tpool keeps a state of its metadata for somebody else";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(!is_reserved(machine));
}

#[test]
fn lab_what_changed_since_the_thin_snapshot_before_is_read_on_ext4() {
    in_lab(ground::lab(), |machine| check(machine, Fs::Ext4));
}

#[test]
fn lab_what_changed_since_the_thin_snapshot_before_is_read_on_xfs() {
    in_lab(ground::lab(), |machine| check(machine, Fs::Xfs));
}
