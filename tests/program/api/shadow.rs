//! Several processes write, publish and read at random, and a log of what was written tells what each version must have.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::common::{Over, World};

const WRITERS: usize = 3;
/// How many versions there are to compare: plain files are read in no time, and each cut of a volume takes a command of LVM or a few.
const VERSIONS: [usize; 2] = [60, 5];
/// How many entries of a writer stay: each of its transactions adds one and removes the one so long before.
const STAY: u64 = 5;

/// What one writer has done. Its transactions are numbered, so the number of the last one says all that it left.
#[derive(Default)]
struct Log {
    begun: AtomicU64,
    committed: AtomicU64,
}

/// A version, and for each writer between which of its transactions the version was cut.
struct Published {
    id: String,
    bounds: Vec<(u64, u64)>,
}

/// What the store has after so many transactions of each writer.
fn content(transactions: &[u64]) -> String {
    let mut text = String::new();
    for (writer, &last) in transactions.iter().enumerate() {
        for n in last.saturating_sub(STAY - 1).max(1)..=last {
            text += &format!("{writer}|{n}|{}\n", entry(writer, n));
        }
    }
    for (writer, last) in transactions.iter().enumerate() {
        text += &format!("{writer}|{last}\n");
    }
    text
}

/// What a transaction says: long enough that some fill a page.
fn entry(writer: usize, n: u64) -> String {
    format!("{writer}.{n} ").repeat(usize::try_from(n * 37 % 600).unwrap() + 1)
}

/// Runs the `sqlite3` program on a database; answers what it says, or that it could not.
fn sqlite3(arguments: &[&str], database: &Path, sql: &str) -> Result<String, String> {
    let output = Command::new("sqlite3").args(arguments).arg(database).arg(sql).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The database's content in the words of [`content`], with the number of the last transaction of each writer.
fn read(database: &Path) -> (Vec<u64>, String) {
    let sql = "select * from entry order by writer, n; select * from last order by writer";
    let text = sqlite3(&["-readonly"], database, sql).unwrap();
    let last = text.lines().rev().take(WRITERS).map(|line| line.split_once('|').unwrap().1.parse().unwrap());
    let mut last: Vec<u64> = last.collect();
    last.reverse();
    (last, text)
}

fn write(store: &Path, writer: usize, log: &Log, over: &AtomicBool) {
    for n in 1.. {
        if over.load(Ordering::SeqCst) {
            break;
        }
        log.begun.store(n, Ordering::SeqCst);
        let (text, gone) = (entry(writer, n), n.saturating_sub(STAY));
        let sql = format!(
            "begin immediate; insert into entry values ({writer}, {n}, '{text}'); \
             delete from entry where writer = {writer} and n <= {gone}; \
             update last set n = {n} where writer = {writer}; commit"
        );
        sqlite3(&["-cmd", ".timeout 60000"], store, &sql).unwrap();
        log.committed.store(n, Ordering::SeqCst);
    }
}

fn publish(world: &World, logs: &[Log], published: &Mutex<Vec<Published>>, versions: usize) {
    while published.lock().unwrap().len() < versions {
        let before: Vec<u64> = logs.iter().map(|log| log.committed.load(Ordering::SeqCst)).collect();
        let answer = world.asat(&["publish", "--json"]);
        let after = logs.iter().map(|log| log.begun.load(Ordering::SeqCst));
        let said = String::from_utf8_lossy(&answer.stdout);
        if answer.status.success() {
            let said: Value = serde_json::from_str(&said).unwrap();
            let id = said["version"]["id"].as_str().unwrap().to_owned();
            let bounds = before.into_iter().zip(after).collect();
            published.lock().unwrap().push(Published { id, bounds });
        } else {
            // Three writers may keep a store busy for longer than a publication waits.
            let error = String::from_utf8_lossy(&answer.stderr);
            assert!(error.contains("busy") || error.contains("held"), "{said}{error}");
        }
    }
}

/// Opens a version, and compares it with the log.
fn check(world: &World, published: &Published) -> Result<(), String> {
    let Published { id, bounds } = published;
    let lease = world.send("POST", &format!("/versions/{id}/mounts"), &json!({ "holder": "shadow" })).json();
    let path = lease["path"].as_str().ok_or_else(|| format!("{id} was not opened: {lease}"))?;
    let (last, text) = read(Path::new(path));
    let closed = format!("/versions/{id}/mounts/{}", lease["lease"].as_str().unwrap());
    assert_eq!(world.request("DELETE", &closed, &[], b"").status, 204);
    if text != content(&last) {
        return Err(format!("{id} has what was never there: {text}"));
    }
    let is_of_its_time =
        bounds.iter().zip(&last).all(|((before, after), last)| (before..=after).contains(&last));
    if is_of_its_time {
        Ok(())
    } else {
        Err(format!("{id} has {last:?}, and was published between {bounds:?}"))
    }
}

#[test]
fn while_processes_write_publish_and_read_every_version_is_what_the_store_was() {
    let world = crate::api::world();
    let is_volume = world.ground.is_volume();
    let (publishers, versions) = (if is_volume { 1 } else { 2 }, VERSIONS[usize::from(is_volume)]);
    let tables = "create table entry (writer, n, text, primary key (writer, n)); \
                  create table last (writer primary key, n); insert into last values (0, 0), (1, 0), (2, 0)";
    world.sqlite().execute_batch(tables).unwrap();
    let (logs, published): (Vec<Log>, _) = ((0..WRITERS).map(|_| Log::default()).collect(), Mutex::default());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (world, logs, published, over) = (&world, logs.as_slice(), &published, &over);
        for (writer, log) in logs.iter().enumerate() {
            scope.spawn(move || write(&world.store(), writer, log, over));
        }
        for _ in 0..publishers {
            scope.spawn(move || {
                let _over = Over(over);
                publish(world, logs, published, versions);
            });
        }
        scope.spawn(move || {
            let mut chosen = 0_usize;
            while !over.load(Ordering::SeqCst) {
                let versions = published.lock().unwrap();
                // Now an old one, now a new one, in no order.
                chosen = (chosen + 7919) % versions.len().max(1);
                let one = versions
                    .get(chosen)
                    .map(|one| Published { id: one.id.clone(), bounds: one.bounds.clone() });
                drop(versions);
                match one {
                    Some(one) => check(world, &one).unwrap(),
                    None => thread::yield_now(),
                }
            }
        });
    });
    let published = published.into_inner().unwrap();
    let written: u64 = logs.iter().map(|log| log.committed.load(Ordering::SeqCst)).sum();
    println!("{written} transactions, {} publications", published.len());
    assert!(published.len() > 1 && written > 10, "{written} transactions, {} publications", published.len());
    let step = published.len().div_ceil(100);
    published.iter().step_by(step).for_each(|one| check(&world, one).unwrap());
}
