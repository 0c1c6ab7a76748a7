//! Many clients, a busy application and a stop at any moment: whoever gets an answer gets a true one.

mod compacting;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Answer, World, tree};
use crate::crash::bank::{self, Dice, Writer, audit, audit_bytes};
use rusqlite::Connection;
use serde_json::{Value, json};

/// An acknowledged publication, and the generations between which its content must lie.
#[derive(Clone, Debug)]
struct Acknowledged {
    version: String,
    generations: std::ops::RangeInclusive<i64>,
}

fn world(config: &str, store: &str) -> World {
    let mut world = World::new();
    config.clone_into(&mut world.top_config);
    store.clone_into(&mut world.store_config);
    world
}

fn publish_with(world: &World, headers: &[(&str, &str)], label: &str) -> Answer {
    let mut headers = headers.to_vec();
    headers.push(("Content-Type", "application/json"));
    world.request("POST", "/snapshots", &headers, json!({ "label": label }).to_string().as_bytes())
}

/// Publishes while the writer works. What is published was committed after the request and before the answer.
fn publish(world: &World, writer: &Writer, label: &str) -> Acknowledged {
    let before = writer.committed();
    let published = world.publish(label);
    let version = published["version"]["id"].as_str().unwrap().to_owned();
    // The writer tells of a commit after it has made it, so one more may be in.
    Acknowledged { version, generations: before..=writer.committed() + 1 }
}

/// Checks that each acknowledged version is a committed state of its time, and that no two are the same one.
fn check(world: &World, acknowledged: &[Acknowledged], retired: &BTreeSet<String>) {
    let mut generations: BTreeMap<u64, i64> = BTreeMap::new();
    for Acknowledged { version, generations: expected } in acknowledged {
        let found = world.get(&format!("/versions/{version}/database"));
        if retired.contains(version) {
            found.expect_problem(410, "retired");
            continue;
        }
        assert_eq!(found.status, 200, "{version}: {found}");
        let generation = audit_bytes(world, version, &found.body);
        assert!(expected.contains(&generation), "{version} has generation {generation}, not of {expected:?}");
        let number = version.split_once('@').unwrap().1.parse().unwrap();
        let earlier = generations.insert(number, generation);
        assert!(earlier.is_none_or(|earlier| earlier == generation), "{version} has changed");
    }
    let in_order: Vec<i64> = generations.into_values().collect();
    assert!(
        in_order.is_sorted_by(|older, newer| older < newer),
        "not in the order of their cuts: {in_order:?}"
    );
}

fn versions(world: &World, query: &str) -> Vec<Value> {
    world.get(&format!("/versions?{query}")).json()["versions"].as_array().unwrap().clone()
}

/// The store as the application sees it must be sound, whatever asat did beside it.
fn check_store(world: &World) {
    let plain = world.path("application-view.db");
    world.sqlite().execute("vacuum into ?1", [plain.to_str().unwrap()]).unwrap();
    audit(&plain);
}

#[test]
fn two_publications_at_once_are_both_answered_with_a_committed_state() {
    for journal_mode in ["wal", "delete"] {
        let mut world = world("", "busy_timeout = \"50s\"");
        let writer = Writer::start(bank::open(&world, journal_mode, 0), Dice(1));
        world.start();
        let mut acknowledged = Vec::new();
        for _ in 0..10 {
            let both = std::thread::scope(|scope| {
                let (one, other) = (
                    scope.spawn(|| publish(&world, &writer, "one")),
                    scope.spawn(|| publish(&world, &writer, "other")),
                );
                [one.join().unwrap(), other.join().unwrap()]
            });
            acknowledged.extend(both);
        }
        writer.stop();
        check(&world, &acknowledged, &BTreeSet::new());
        check_store(&world);
    }
}

/// What sixteen clients have seen and done together.
#[derive(Default)]
struct Seen {
    acknowledged: Mutex<Vec<Acknowledged>>,
    retired: Mutex<BTreeSet<String>>,
}

impl Seen {
    /// Some version that was acknowledged, retired or not.
    fn any(&self, dice: &mut Dice) -> Option<String> {
        let acknowledged = self.acknowledged.lock().unwrap();
        let nth = dice.below(acknowledged.len().max(1) as i64) as usize;
        acknowledged.get(nth).map(|acknowledged| acknowledged.version.clone())
    }
}

/// One client that does this and that until the time is over.
fn visit(world: &World, writer: &Writer, seen: &Seen, mut dice: Dice, until: Instant) {
    while Instant::now() < until {
        let action = dice.below(12);
        if action < 3 {
            let acknowledged = publish(world, writer, "sixteen");
            seen.acknowledged.lock().unwrap().push(acknowledged);
            continue;
        }
        let Some(version) = seen.any(&mut dice) else { continue };
        match action {
            3 => {
                let found = world.get(&format!("/versions/{version}"));
                let state = found.json()["state"].as_str().unwrap().to_owned();
                assert!(["ready", "retiring", "retired"].contains(&state.as_str()), "{found}");
            }
            4 | 5 => assert!(!versions(world, "limit=20").is_empty()),
            6 | 7 => {
                let found = world.get(&format!("/versions/{version}/database"));
                assert!([200, 410].contains(&found.status), "{found}");
            }
            8..11 => open_and_close(world, &version),
            _ => {
                let answer = world.request("DELETE", &format!("/versions/{version}"), &[], b"");
                match answer.status {
                    200 => drop(seen.retired.lock().unwrap().insert(version)),
                    // Somebody has it open, or a publication may be about to name it again.
                    409 => {}
                    _ => panic!("{version}: {answer}"),
                }
            }
        }
    }
}

fn open_and_close(world: &World, version: &str) {
    let answer = world.send("POST", &format!("/versions/{version}/mounts"), &json!({ "holder": "client" }));
    if answer.status == 410 {
        return;
    }
    assert_eq!(answer.status, 201, "{version}: {answer}");
    let lease = answer.json();
    audit(&PathBuf::from(lease["path"].as_str().unwrap()));
    let name = lease["lease"].as_str().unwrap();
    let closed = world.request("DELETE", &format!("/versions/{version}/mounts/{name}"), &[], b"");
    assert_eq!(closed.status, 204, "{closed}");
}

#[test]
fn sixteen_clients_and_a_busy_writer_are_all_told_the_truth() {
    let mut dice = Dice::of_the_day();
    // The cache holds a few copies only, so that they are evicted and made again all the time.
    let mut world = world("copies.max_size = \"4 MB\"", "busy_timeout = \"50s\"");
    let writer = Writer::start(bank::open(&world, "wal", 0), Dice(dice.0));
    world.start();
    let seen = Seen::default();
    let until = Instant::now() + Duration::from_secs(8);
    std::thread::scope(|scope| {
        for client in 0..16 {
            let own = Dice(dice.below(i64::MAX) as u64 + client);
            scope.spawn(|| visit(&world, &writer, &seen, own, until));
        }
    });
    let generations = writer.stop();
    let (acknowledged, retired) =
        (seen.acknowledged.into_inner().unwrap(), seen.retired.into_inner().unwrap());
    println!("{} publications, {} retired, {generations} commits", acknowledged.len(), retired.len());
    assert!(acknowledged.len() > 16 && !retired.is_empty());
    check(&world, &acknowledged, &retired);
    assert_eq!(versions(&world, "state=cutting,retiring,failed,lost"), [] as [Value; 0]);
    let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(verified["ok"], true, "{verified}");
    check_store(&world);
    // The same after a restart: what was said is what is recorded.
    assert!(world.stop().success());
    world.start();
    check(&world, &acknowledged, &retired);
}

#[test]
fn eight_requests_with_one_key_make_one_publication() {
    let mut world = world("", "");
    let mut bank = bank::open(&world, "wal", 0);
    let mut dice = Dice(8);
    world.start();
    for round in 0..10 {
        bank::commit(&mut bank, &mut dice);
        let (label, key) = (format!("round-{round}"), format!("key-{round}"));
        let together = Barrier::new(8);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let ask = || {
                together.wait();
                publish_with(&world, &[("Idempotency-Key", &key)], &label)
            };
            let clients: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        for answer in &answers {
            assert_eq!(answer.status, 201, "{answer}");
            assert_eq!(answer.json()["version"]["id"], answers[0].json()["version"]["id"]);
        }
        let found = versions(&world, &format!("state=any&label={label}"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["publications"].as_array().unwrap().len(), 1, "{found:?}");
    }
    assert_eq!(versions(&world, "state=any").len(), 10);
}

/// Starts a publication, sends SIGTERM while it is under way, and answers what the client got.
fn stop_amid_a_publication(world: &mut World, allowed: Duration) -> Answer {
    let mut running = world.daemon.take().unwrap();
    let (answer, stopped_at) = std::thread::scope(|scope| {
        let client = scope.spawn(|| publish_with(world, &[], "interrupted"));
        // Listing is never held up by a publication, so this sees it while it is under way.
        while versions(world, "state=cutting").is_empty() && !client.is_finished() {}
        running.terminate();
        let stopped_at = Instant::now();
        (client.join().unwrap(), stopped_at)
    });
    let status = running.exit();
    assert!(status.success(), "{status}");
    assert!(stopped_at.elapsed() < allowed, "the stop took {:?}", stopped_at.elapsed());
    answer
}

/// After a stop, the version is wholly there where it was acknowledged, and not at all where it was not.
fn check_after_stop(world: &mut World, answer: &Answer) {
    world.start();
    let found = versions(world, "state=any&label=interrupted");
    if answer.status == 201 {
        let version = answer.json()["version"]["id"].as_str().unwrap().to_owned();
        assert_eq!(found.len(), 1, "{found:?}");
        let content = world.get(&format!("/versions/{version}/database"));
        assert_eq!(content.status, 200, "{content}");
        audit_bytes(world, &version, &content.body);
    } else {
        answer.expect_problem(503, "stopping");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(found, [] as [Value; 0]);
        assert_eq!(versions(world, "state=cutting,ready"), [] as [Value; 0]);
    }
    assert!(world.stop().success());
    let files = tree(&world.path("state/archive"));
    assert_eq!(files.len(), usize::from(answer.status == 201), "{files:?}");
}

/// Beyond `stop_timeout`, what a loaded machine may take to write the last answers and to end a process.
const SLACK: Duration = Duration::from_secs(15);

#[test]
fn a_stop_waits_for_a_publication_that_is_done_in_time() {
    let mut world = world("stop_timeout = \"50s\"", "");
    bank::open(&world, "wal", 48 * 1024).close().unwrap();
    world.start();
    let answer = stop_amid_a_publication(&mut world, Duration::from_secs(50) + SLACK);
    assert_eq!(answer.status, 201, "{answer}");
    check_after_stop(&mut world, &answer);
}

#[test]
fn a_stop_breaks_a_publication_off_that_takes_too_long_and_says_so() {
    let mut world = world("stop_timeout = \"1ms\"", "");
    bank::open(&world, "wal", 48 * 1024).close().unwrap();
    world.start();
    let answer = stop_amid_a_publication(&mut world, SLACK);
    check_after_stop(&mut world, &answer);
}

#[test]
fn a_stop_does_not_wait_for_a_lock_longer_than_it_may() {
    let mut world = world("stop_timeout = \"200ms\"", "busy_timeout = \"10m\"");
    let bank: Connection = bank::open(&world, "delete", 0);
    world.start();
    bank.execute_batch("begin exclusive").unwrap();
    let answer = stop_amid_a_publication(&mut world, SLACK);
    answer.expect_problem(503, "stopping");
    bank.execute_batch("commit").unwrap();
    check_after_stop(&mut world, &answer);
}

#[test]
fn a_second_daemon_on_the_same_state_is_refused_and_harms_nothing() {
    let mut world = world("", "");
    let mut bank = bank::open(&world, "wal", 0);
    world.start();
    let before = world.publish("before");
    let pid = world.daemon.as_ref().unwrap().child.id();
    let mut second = world.spawn();
    let log = second.wait_for("ready").expect_err("a second daemon has started");
    assert!(!second.exit().success());
    assert!(log.contains(&format!("process {pid}")), "{log}");
    bank::commit(&mut bank, &mut Dice(2));
    let after = world.publish("after");
    assert_eq!(after["reused"], false);
    for published in [before, after] {
        let version = published["version"]["id"].as_str().unwrap();
        let found = world.get(&format!("/versions/{version}/database"));
        audit_bytes(&world, version, &found.body);
    }
    assert!(world.stop().success());
}

#[test]
fn a_socket_that_a_killed_daemon_left_is_no_obstacle() {
    let mut world = world("", "");
    drop(bank::open(&world, "wal", 0));
    world.start();
    world.kill();
    assert!(world.socket().exists(), "SIGKILL leaves the socket's file");
    world.start();
    world.publish("after the kill");
    assert!(world.stop().success());
    assert!(!world.socket().exists(), "a stop in good order removes it");
}

#[test]
fn what_is_not_asats_own_at_the_sockets_path_is_left_alone() {
    let world = world("", "");
    drop(bank::open(&world, "wal", 0));
    std::fs::write(world.socket(), "somebody's file").unwrap();
    let log = world.spawn().wait_for("ready").expect_err("the daemon has started over a file");
    assert!(log.contains("asat.sock is there and is no socket"), "{log}");
    assert_eq!(std::fs::read_to_string(world.socket()).unwrap(), "somebody's file");
    std::fs::remove_file(world.socket()).unwrap();
    let other = UnixListener::bind(world.socket()).unwrap();
    let log = world.spawn().wait_for("ready").expect_err("the daemon has taken somebody's socket");
    assert!(log.contains("another program listens on"), "{log}");
    drop(other);
    assert!(world.socket().exists());
}
