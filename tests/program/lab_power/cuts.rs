//! The power goes at a random moment, six times in a row, on the same disks.
//!
//! The store's volume, the volume group and the state are on disks of the guest, and lose what a power cut takes: all
//! that was not yet written to them. What was acknowledged stands in [`Records`].

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::lab::{Fs, Lab, Machine, in_lab};
use crate::lab_power::records::Records;
use crate::lab_power::work::{Dice, Work};
use crate::lab_store::ground::{self, Ground, Kind};
use crate::lab_store::ledger;

/// How often the power is cut.
const CUTS: u32 = 6;
/// The longest that the work goes on before.
const WORK_MS: u64 = 5000;
/// The longest that a daemon is left to recover, where that is what is interrupted.
const RECOVERY_MS: u64 = 1800;

/// The seed of this run: that of the variable `SEED`, or a new one. It is printed, so that a failure can be replayed.
fn seed() -> u64 {
    let new = || UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = std::env::var("SEED").ok().map_or_else(new, |seed| seed.parse().unwrap());
    println!("replay with SEED={seed}");
    seed
}

fn lab() -> Lab {
    ground::lab().env("SEED", &seed().to_string())
}

fn cut_and_recover(machine: &Machine, kind: Kind, fs: Fs) {
    let mut dice = Dice(ledger::mix(seed()) ^ u64::from(machine.boot));
    let records = Records::open(&machine.disks[2]);
    let mut ground = if machine.boot == 1 {
        Ground::make(machine, kind, fs)
    } else {
        Ground::of_before(machine, kind, fs)
    };
    if machine.boot == 1 {
        drop(ledger::create(&ground.world.store(), "wal"));
    }
    assert_eq!(records.texts("trouble"), Vec::<String>::new());
    // Each journal mode, and a daemon that keeps a snapshot and one that keeps none, have their turn.
    let (keep, journal) = (machine.boot as usize % 2, ["wal", "delete"][machine.boot as usize / 2 % 2]);
    ground.configure(&format!("keep_snapshots = {keep}"));
    if machine.boot > 1 && machine.boot <= CUTS && dice.below(4) == 0 {
        let after = dice.below(RECOVERY_MS);
        records.note(&format!("cut {}: {after} ms after the daemon was started", machine.boot));
        let _running = ground.world.spawn();
        // Not a wait for anything: a moment that nobody has chosen.
        std::thread::sleep(Duration::from_millis(after));
        machine.cut_power();
    }
    let log = ground.world.start();
    println!("{log}");
    let remarks = log.lines().filter(|line| line.contains("half-made")).count();
    if remarks > 0 {
        records
            .note(&format!("boot {}: {remarks} half-made or left-over snapshots were removed", machine.boot));
    }
    check(machine, &ground, &records, keep);
    if machine.boot > CUTS {
        println!("{}", records.texts("note").join("\n"));
        println!("{} versions were acknowledged", records.promised().versions.len());
        assert!(ground.world.stop().success());
        return;
    }
    let store = ledger::connect(&ground.world.store());
    ledger::set_journal(&store, journal);
    drop(store);
    let after = dice.below(WORK_MS);
    records.note(&format!(
        "cut {}: after {after} ms of work, journal {journal}, {keep} snapshots kept",
        machine.boot
    ));
    let work = Work::new(ground.world.store(), ground.world.socket(), &records);
    std::thread::scope(|scope| {
        scope.spawn(|| work.write());
        scope.spawn(|| work.publish(Dice(dice.0)));
        std::thread::sleep(Duration::from_millis(after));
        machine.cut_power()
    })
}

/// Everything that was acknowledged is there, whole, and nothing else is.
fn check(machine: &Machine, ground: &Ground<'_>, records: &Records, keep: usize) {
    let promised = records.promised();
    let world = &ground.world;
    // What is in a snapshot still can be opened at once.
    let live = promised.versions.keys().filter(|version| !promised.retiring.contains(*version));
    if let Some(newest) = live.max_by_key(|version| crate::lab_power::work::number(version)) {
        let mounts = format!("/versions/{newest}/mounts");
        let lease = world.send("POST", &mounts, &json!({ "holder": "check" }));
        assert_eq!(lease.status, 201, "{newest}: {lease}");
        let lease = lease.json();
        let seq = ledger::audit(lease["path"].as_str().unwrap().as_ref());
        assert!(promised.versions[newest].contains(&seq), "{newest} has transaction {seq}");
        let closed = format!("{mounts}/{}", lease["lease"].as_str().unwrap());
        assert_eq!(world.request("DELETE", &closed, &[], b"").status, 204);
    }
    let versions = ground.at_rest(keep);
    let state_of = |id: &str| {
        let found = versions.iter().find(|version| version["id"] == id);
        found.map_or("unknown", |version| version["state"].as_str().unwrap()).to_owned()
    };
    for version in promised.versions.keys() {
        let (state, retiring) = (state_of(version), promised.retiring.contains(version));
        assert!(state == "ready" || retiring && state == "retired", "{version} is {state}\n{versions:#?}");
        assert!(state == "retired" || !promised.retired.contains(version), "{version} is {state} again");
    }
    let states: BTreeSet<&str> = versions.iter().map(|version| version["state"].as_str().unwrap()).collect();
    assert!(states.is_subset(&["ready", "retired", "failed"].into()), "{versions:#?}");
    check_contents(machine, ground, records, &versions);
    let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(verified["ok"], true, "{verified}");
    ground.check_pool();
    // The application has lost nothing either: it waits for the disk at each commit.
    let committed = promised.versions.values().map(|range| *range.start()).max().unwrap_or(0);
    let found = ledger::audit_open(&ledger::connect(&world.store()));
    assert!(found >= committed, "transaction {committed} is lost; the last one is {found}");
}

/// Every version that is ready has what it had, and so has one of which nobody was told. What was looked at once is
/// looked at again at the end only.
fn check_contents(machine: &Machine, ground: &Ground<'_>, records: &Records, versions: &[Value]) {
    let (promised, audited) = (records.promised().versions, records.texts("audited"));
    let copy = ground.world.path("audited.db");
    for version in versions.iter().filter(|version| version["state"] == "ready") {
        let id = version["id"].as_str().unwrap();
        if machine.boot <= CUTS && audited.iter().any(|seen| seen == id) {
            continue;
        }
        let found = ground.world.get(&format!("/versions/{id}/database"));
        assert_eq!(found.status, 200, "{id}: {found}");
        std::fs::write(&copy, &found.body).unwrap();
        let seq = ledger::audit(&copy);
        assert!(promised.get(id).is_none_or(|range| range.contains(&seq)), "{id} has transaction {seq}");
        records.audited(id);
    }
}

#[test]
fn lab_after_power_cuts_all_that_was_acknowledged_is_there_on_a_plain_volume() {
    in_lab(lab(), |machine| cut_and_recover(machine, Kind::Classic, Fs::Ext4));
}

#[test]
fn lab_after_power_cuts_all_that_was_acknowledged_is_there_on_a_thin_volume() {
    // While one snapshot is kept they are thin, and while none is they are classic.
    in_lab(lab(), |machine| cut_and_recover(machine, Kind::ThinAuto, Fs::Xfs));
}

#[test]
fn lab_after_power_cuts_all_that_was_acknowledged_is_there_where_the_store_is_cloned() {
    in_lab(lab(), |machine| cut_and_recover(machine, Kind::Reflink, Fs::Xfs));
}
