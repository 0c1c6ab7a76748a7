//! How long it takes until a version is in the archive, where only what changed is read of it, and where all is.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::common::World;
use crate::lab::in_lab;
use crate::lab_reflink::site::{self, clone_of};

/// How many rows the store has: about 256 MB.
const ROWS: u32 = 2_000_000;
/// How many of them are changed each time, in thousandths of a per cent: 0.15 %.
const CHANGED: u32 = ROWS / 100_000 * 150;
const PAIRS: usize = 5;

/// Changes some rows, publishes, and answers how long it took from the answer until the version was archived.
fn archive(world: &World, seed: u32) -> Duration {
    let store = world.sqlite();
    let sql = "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1)
        update rows set v = v + 1 where id in (select 1 + (i * 7919 + ?2 * 104729) * 613 % ?3 from n)";
    store.execute(sql, [CHANGED, seed, ROWS]).unwrap();
    drop(store);
    let id = world.publish("measured")["version"]["id"].as_str().unwrap().to_owned();
    let answered = Instant::now();
    world.archived(&id);
    answered.elapsed()
}

#[test]
#[ignore = "it measures: cargo test --release --test lab measuring -- --ignored --nocapture"]
fn lab_measures_how_long_archiving_takes_by_changes_and_whole() {
    in_lab(site::lab().memory("1G").deadline(Duration::from_secs(900)), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        let sql = format!(
            "pragma synchronous = off; pragma journal_mode = wal;
             create table rows(id integer primary key, v integer, text text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
             insert into rows select i, random(), hex(randomblob(40)) from n;
             create index rows_v on rows(v)"
        );
        world.sqlite().execute_batch(&sql).unwrap();
        println!("the store has {} bytes", std::fs::metadata(world.store()).unwrap().len());
        world.start();
        archive(&world, 0);
        for pair in 1..=PAIRS as u32 {
            // A clone that was touched is not believed, and the next one is read whole.
            let clone = clone_of(&world.get(&format!("/versions/report@{}", 2 * pair - 1)).json());
            std::fs::set_permissions(clone.join("report.db"), Permissions::from_mode(0o600)).unwrap();
            let (whole, changes) = (archive(&world, 2 * pair), archive(&world, 2 * pair + 1));
            println!("pair {pair}: whole {} ms, by changes {} ms", whole.as_millis(), changes.as_millis());
        }
        let versions = world.get("/versions").json();
        for version in versions["versions"].as_array().unwrap() {
            let archived = &version["holdings"].as_array().unwrap().iter().find(|h| h["kind"] == "archive");
            println!("{}: {} bytes in the archive", version["id"], archived.unwrap()["bytes"]);
        }
    });
}
