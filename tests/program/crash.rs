//! Whenever the daemon dies, nothing that it acknowledged is lost, and nothing half-made is left.
//!
//! Builds for tests obey `ASAT_CRASH_AT=n`: they end themselves with SIGKILL at the n-th effect boundary, which
//! is a step of the archive, the catalogue or the copies. A script of operations is killed at every boundary in
//! turn. The power of the store's own disk is not the matter here; that of the state folder is that of the
//! crates' own crash tests.

pub mod bank;
mod records;
mod repairs;
mod script;
mod sets;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Answer, World, try_request};
use bank::{Dice, Writer, audit_bytes};
use rustix::process::{Pid, Signal, kill_process};
use script::{Died, Run};

/// The store's journal mode in the n-th run: both kinds take their turn.
fn journal_mode(nth: u32) -> &'static str {
    if nth.is_multiple_of(2) { "wal" } else { "delete" }
}

/// Runs `case` for 1, 2, 3 and so on in two threads, until it answers that there is no more to do.
fn until_done(case: impl Fn(u32) -> bool + Sync) -> u32 {
    let (next, end) = (AtomicU32::new(1), AtomicU32::new(u32::MAX));
    let work = || {
        while let nth = next.fetch_add(1, Ordering::SeqCst)
            && nth < end.load(Ordering::SeqCst)
        {
            if !case(nth) {
                end.fetch_min(nth, Ordering::SeqCst);
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in [scope.spawn(work), scope.spawn(work)] {
            if let Err(panic) = worker.join() {
                // The other one need not go on.
                end.store(0, Ordering::SeqCst);
                std::panic::resume_unwind(panic);
            }
        }
    });
    end.load(Ordering::SeqCst)
}

#[test]
fn killed_at_any_boundary_the_daemon_keeps_what_it_promised() {
    let boundaries = until_done(|nth| {
        let mut run = Run::new(journal_mode(nth));
        let whole = run.start(Some(nth)).and_then(|()| run.play()).is_ok();
        if whole {
            run.world.kill();
        }
        run.start(None).unwrap();
        run.check_promises();
        if whole {
            run.check_retention();
        }
        run.retry();
        run.check_archive();
        run.stop_and_check_for_litter();
        !whole
    });
    println!("the script has {boundaries} boundaries");
    // It is worth its name only while it meets every kind of effect.
    assert!(boundaries > 150, "the script has {boundaries} boundaries");
}

/// How many boundaries of the script lie between two at which the start after the crash is interrupted too.
const NESTED_EVERY: u32 = 6;

#[test]
fn killed_again_while_it_recovers_the_daemon_keeps_what_it_promised() {
    let twice = AtomicU32::new(0);
    until_done(|nth| {
        let first = nth * NESTED_EVERY;
        // How many boundaries a start has depends on what there is to settle: every one has its turn.
        let again = nth % 9 + 1;
        let mut run = Run::new(journal_mode(nth / 9));
        if run.start(Some(first)).and_then(|()| run.play()).is_ok() {
            return false;
        }
        match run.start(Some(again)) {
            // It recovered with fewer boundaries than that. It dies while it does what recovery had it do.
            Ok(()) => run.world.kill(),
            Err(Died) => _ = twice.fetch_add(1, Ordering::SeqCst),
        }
        run.start(None).unwrap();
        run.check_promises();
        run.retry();
        run.check_archive();
        run.stop_and_check_for_litter();
        true
    });
    let twice = twice.into_inner();
    println!("killed {twice} times before it was ready again");
    assert!(twice > 10, "the start was interrupted {twice} times only");
}

#[test]
fn killed_at_any_moment_beside_a_busy_writer_the_daemon_keeps_what_it_promised() {
    let mut dice = Dice::of_the_day();
    let mut world = World::new();
    "busy_timeout = \"50s\"".clone_into(&mut world.store_config);
    let writer = Writer::start(bank::open(&world, "wal", 0), Dice(dice.0));
    let mut acknowledged = BTreeMap::new();
    for round in 0..15 {
        world.start();
        let after = Duration::from_micros(dice.below(120_000) as u64);
        let lost = std::thread::scope(|scope| {
            let publisher = scope.spawn(|| publish_until_it_dies(&world, &writer, round));
            // Not a wait for anything: a moment of death that nobody has chosen.
            std::thread::sleep(after);
            let pid = Pid::from_child(&world.daemon.as_ref().unwrap().child);
            kill_process(pid, Signal::KILL).unwrap();
            publisher.join().unwrap()
        });
        world.kill();
        world.start();
        acknowledged.extend(lost.acknowledged);
        acknowledged.extend(publish_again(&world, &writer, &lost.key, lost.since));
        check(&world, &acknowledged);
        world.kill();
    }
    writer.stop();
    println!("{} publications", acknowledged.len());
    assert!(acknowledged.len() >= 15);
}

/// What a client has that published until the daemon died.
struct Lost {
    acknowledged: BTreeMap<String, RangeInclusive<i64>>,
    /// The key of the request that got no answer, and the generation before it.
    key: String,
    since: i64,
}

fn publish_until_it_dies(world: &World, writer: &Writer, round: u32) -> Lost {
    let mut acknowledged = BTreeMap::new();
    for nth in 0.. {
        let (since, key) = (writer.committed(), format!("{round}-{nth}"));
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", &key)];
        let Ok(answer) = try_request(&world.socket(), "POST", "/snapshots", &headers, b"{}") else {
            return Lost { acknowledged, key, since };
        };
        acknowledged.extend(published(&answer, since, writer));
    }
    unreachable!("the daemon was killed")
}

fn publish_again(
    world: &World,
    writer: &Writer,
    key: &str,
    since: i64,
) -> Option<(String, RangeInclusive<i64>)> {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    published(&world.request("POST", "/snapshots", &headers, b"{}"), since, writer)
}

/// The version, and the generations between which its content lies; nothing where it was published before.
fn published(answer: &Answer, since: i64, writer: &Writer) -> Option<(String, RangeInclusive<i64>)> {
    assert!([200, 201].contains(&answer.status), "{answer}");
    let version = answer.json()["version"]["id"].as_str().unwrap().to_owned();
    // The writer tells of a commit after it has made it, so one more may be in.
    (answer.status == 201).then(|| (version, since..=writer.committed() + 1))
}

/// Every acknowledged version is a committed state of its time, and the archive is whole.
fn check(world: &World, acknowledged: &BTreeMap<String, RangeInclusive<i64>>) {
    for (version, expected) in acknowledged {
        let found = world.get(&format!("/versions/{version}/database"));
        assert_eq!(found.status, 200, "{version}: {found}");
        let generation = audit_bytes(world, version, &found.body);
        assert!(expected.contains(&generation), "{version} has generation {generation}, not of {expected:?}");
    }
    let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(verified["ok"], true, "{verified}");
    let unsettled = world.get("/versions?state=cutting,lost").json();
    assert_eq!(unsettled["versions"], serde_json::json!([]));
}
