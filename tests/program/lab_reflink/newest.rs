//! Every publication is of the newest state, however fast one follows another, and only what changed is read of it.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_host::store::{Limits, Still, still};
use rusqlite::Connection;

use crate::common::World;
use crate::lab::in_lab;
use crate::lab_reflink::site::{self, entries, publish};

/// Ends the daemon; answers of how many versions it has read only what changed.
fn read_by_changes(world: &mut World) -> usize {
    let mut running = world.daemon.take().unwrap();
    running.terminate();
    let log = running.rest_of_log();
    assert!(running.exit().success());
    log.lines().filter(|line| line.contains("what its snapshot shares with that one's is not read")).count()
}

#[test]
fn lab_what_changed_since_the_clone_before_is_read_and_all_of_it_after_a_start() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        world.env.push(("ASAT_LOG".to_owned(), "asat=debug".to_owned()));
        let mut said = "a".to_owned();
        // What lies there when the daemon starts is not known to be as it was.
        for (journal, versions) in [("delete", 4), ("wal", 3), ("wal", 1)] {
            world.sqlite().pragma_update(None, "journal_mode", journal).unwrap();
            world.start();
            for number in 0..versions {
                said += &format!(",{journal}{number}");
                let id = publish(&world, &format!("{journal}{number}"));
                assert_eq!(entries(&world, &id), said);
            }
            assert_eq!(read_by_changes(&mut world), versions - 1, "{journal}");
        }
        world.start();
        let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], true, "{verified}");
    });
}

/// In how many rounds a store looks as in the one before, although somebody has committed in between.
fn mistaken(store: &Connection, settle: impl Fn(&Still) -> bool) -> usize {
    let limits = Limits { busy: Duration::from_secs(20), hold: Duration::from_secs(20) };
    let (path, mut before, mut mistaken) = (store.path().unwrap(), None, 0);
    for round in 0..200 {
        store.execute("update ledger set entry = ?1", [round + 1000]).unwrap();
        let held = still(path, &limits, &AtomicBool::new(false), true).unwrap();
        let witness = held.state().witness.clone();
        assert!(settle(&held));
        held.release().unwrap();
        mistaken += usize::from(before.as_ref() == Some(&witness));
        before = Some(witness);
    }
    mistaken
}

#[test]
fn lab_no_commit_is_missed_that_comes_within_the_same_tick_as_a_cut() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let world = site::world(machine, &ground);
        for journal in ["wal", "delete"] {
            let store = world.sqlite();
            store
                .execute_batch(&format!("pragma synchronous = off; pragma journal_mode = {journal}"))
                .unwrap();
            println!("{journal}: {} of 200 commits would be missed without", mistaken(&store, |_| true));
            assert_eq!(mistaken(&store, Still::settle), 0, "{journal}");
        }
    });
}

#[test]
fn lab_a_commit_right_after_a_publication_is_in_the_next_one() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        world.start();
        let store = world.sqlite();
        store.execute_batch("pragma synchronous = off; pragma journal_mode = wal").unwrap();
        let mut said = "a".to_owned();
        for round in 1..=30 {
            store.execute("insert into ledger values (?1)", [round.to_string()]).unwrap();
            said += &format!(",{round}");
            let id = world.publish("again")["version"]["id"].as_str().unwrap().to_owned();
            assert_eq!(
                (id.as_str(), entries(&world, &id)),
                (format!("report@{round}").as_str(), said.clone())
            );
        }
    });
}

#[test]
fn lab_a_store_whose_file_is_longer_than_its_pages_is_archived_by_its_changes() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        world.env.push(("ASAT_LOG".to_owned(), "asat=debug".to_owned()));
        world.start();
        publish(&world, "b");
        // As `SQLITE_FCNTL_CHUNK_SIZE` has files grow.
        let file = File::options().write(true).open(world.store()).unwrap();
        file.set_len(file.metadata().unwrap().len() + (1 << 20)).unwrap();
        let id = publish(&world, "c");
        assert_eq!(entries(&world, &id), "a,b,c");
        assert_eq!(read_by_changes(&mut world), 1);
    });
}
