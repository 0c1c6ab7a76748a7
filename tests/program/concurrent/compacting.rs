//! Compaction beside everybody else.

use std::time::{Duration, Instant};

use super::world;
use crate::common::{PATIENCE, manifests, segments};

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
    // Another file has what is still needed of the second, when it is done.
    let merged = || {
        let segments = segments(&manifests(&world.path("state/archive/report"))[0].1);
        segments.into_iter().find(|file| *file > 3)
    };
    let given_up = Instant::now();
    assert_eq!(world.request("DELETE", "/versions/report@2", &[], b"").status, 200);
    let mut answered = 0;
    while merged().is_none() {
        assert!(given_up.elapsed() < PATIENCE, "it is never done");
        // It would be done in an instant: that it is not means that it waits, and meanwhile everybody is answered.
        assert_eq!(world.publish(&format!("{answered}"))["version"]["id"], "report@3");
        assert_eq!(world.get("/versions/report@1/database").status, 200);
        answered += 1;
    }
    let (took, bytes) = (given_up.elapsed(), world.segment(merged().unwrap()).metadata().unwrap().len());
    println!("{bytes} bytes in {took:?}, {answered} publications and downloads meanwhile");
    // What is waited for last are the bytes of a piece, and of the index, which come after the file is there.
    assert!(
        took >= Duration::from_secs_f64((bytes - (512 << 10)) as f64 / RATE as f64),
        "{bytes} bytes in {took:?}"
    );
    assert!(answered > 2);
    assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
}

/// Each version is in a part of each page another than the one before, so that it is stored as differences from that one. The second is
/// given up while what lay upon the third is stored anew, as differences from the second.
#[test]
fn a_version_upon_which_another_is_being_laid_anew_is_given_up_and_the_other_stays_what_it_was() {
    let mut world = world("[archive]\ncompaction_rate = \"256 KiB/s\"\n", "");
    let store = world.sqlite();
    // One row a page.
    let make = "create table t (id integer primary key, bytes blob);
                with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
                insert into t select i, randomblob(3000) from n";
    store.execute_batch(make).unwrap();
    world.start_under_contract();
    for version in 1..=5 {
        assert_eq!(world.publish("close")["version"]["id"], format!("report@{version}"));
        store.execute("update t set bytes = randomblob(1200) || substr(bytes, 1201)", []).unwrap();
    }
    let contents = || [1, 4, 5].map(|number| world.get(&format!("/versions/report@{number}/database")).body);
    let (before, began) = (contents(), Instant::now());
    let retire =
        |id: &str| assert_eq!(world.request("DELETE", &format!("/versions/{id}"), &[], b"").status, 200);
    let archive = world.path("state/archive/report");
    let written = || {
        let mut names = std::fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path());
        names.any(|path| path.extension().is_some_and(|extension| extension == "tmp"))
    };
    let wait_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "it is never so");
        }
    };
    retire("report@3");
    wait_until(&written);
    retire("report@2");
    let files = || segments(&manifests(&archive)[0].1);
    assert_eq!(files(), [1, 2, 3, 4, 5], "it was merged before the second was given up");
    wait_until(&|| !files().iter().any(|file| [2, 3, 4].contains(file)));
    assert!(contents() == before);
    assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
}
