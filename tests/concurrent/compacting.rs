//! Compaction beside everybody else.

use std::time::{Duration, Instant};

use super::world;
use crate::common::PATIENCE;

/// What is left to do after versions were given up may take its time: nobody waits for it, and it takes no more of the disk than it is
/// given.
#[test]
fn compaction_keeps_to_its_rate_and_nobody_waits_for_it() {
    const RATE: u64 = 1 << 20;
    let mut world = world("[archive]\ncompaction_rate = \"1 MiB/s\"\n", "");
    let store = world.sqlite();
    store.execute_batch("create table t (half integer, bytes blob)").unwrap();
    let fill = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20)
                insert into t select ?1, randomblob(100000) from n";
    (1..=2).for_each(|half| _ = store.execute(fill, [half]).unwrap());
    world.start_under_contract();
    // The third version needs one half of what came with the second.
    for half in [0, 0, 2] {
        store.execute("update t set bytes = randomblob(100000) where ?1 in (0, half)", [half]).unwrap();
        world.publish("close");
    }
    let (given_up, folded) = (Instant::now(), world.path("state/archive/report/2-3.pack"));
    assert_eq!(world.request("DELETE", "/versions/report@2", &[], b"").status, 200);
    let mut answered = 0;
    while !folded.exists() {
        assert!(given_up.elapsed() < PATIENCE, "it is never done");
        // It would be done in an instant: that it is not means that it waits, and meanwhile everybody is answered.
        assert_eq!(world.publish(&format!("{answered}"))["version"]["id"], "report@3");
        assert_eq!(world.get("/versions/report@1/database").status, 200);
        answered += 1;
    }
    let (took, bytes) = (given_up.elapsed(), folded.metadata().unwrap().len());
    println!("{bytes} bytes in {took:?}, {answered} publications and downloads meanwhile");
    // What is waited for last are the bytes of a piece, and of the index, which come after the file is there.
    assert!(
        took >= Duration::from_secs_f64((bytes - (512 << 10)) as f64 / RATE as f64),
        "{bytes} bytes in {took:?}"
    );
    assert!(answered > 2);
    assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
}

/// Each version is another store wholly, but that the sixth has again what a part of it was in the second and another in the third. The
/// second is given up while compaction leads elsewhere what refers to the third.
#[test]
fn a_version_that_refers_to_two_others_is_kept_when_the_second_of_them_is_given_up_during_compaction() {
    let mut world = world("[archive]\ncompaction_rate = \"256 KiB/s\"\n", "");
    let store = world.sqlite();
    // One row a page, so that a page is again what it was.
    let make = "create table t (id integer primary key, part integer, bytes blob);
                with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
                insert into t select i, i % 2, zeroblob(3000) from n;
                create temp table was (version integer, id integer, bytes blob)";
    store.execute_batch(make).unwrap();
    world.start_under_contract();
    for version in 1..=7 {
        store.execute("update t set bytes = randomblob(3000)", []).unwrap();
        if version == 6 {
            let again =
                "update t set bytes = (select bytes from was where was.id = t.id and was.version = 2 + part)";
            store.execute(again, []).unwrap();
        }
        store.execute("insert into was select ?1, id, bytes from t", [version]).unwrap();
        assert_eq!(world.publish("close")["version"]["id"], format!("report@{version}"));
    }
    let sixth = || world.get("/versions/report@6/database").body;
    let (before, began) = (sixth(), Instant::now());
    let retire =
        |id: &str| assert_eq!(world.request("DELETE", &format!("/versions/{id}"), &[], b"").status, 200);
    let archive = world.path("state/archive/report");
    let wait_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "it is never so");
        }
    };
    retire("report@3");
    wait_until(&|| archive.join("6.tmp").exists());
    retire("report@2");
    assert!(
        archive.join("6.tmp").exists(),
        "the layer was written anew before the second version was given up"
    );
    wait_until(&|| archive.join("2-4.pack").exists() && !archive.join("2.layer").exists());
    assert_eq!(sixth(), before);
    assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
}
