//! Downloads and verifications: what is long is bounded, and what a client does not take holds nobody else up.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, World};
use crate::hostile::{connect, is_well, memory_kib, raise_open_files};

/// What an answer begins with, up to its status.
const STATUS: usize = "HTTP/1.1 200".len();

/// A daemon with one version of so many bytes that no compression makes less of.
fn with_large_version(bytes: u64) -> World {
    with_large_version_and(bytes, "")
}

/// The same, whose listener is configured so.
fn with_large_version_and(bytes: u64, listen: &str) -> World {
    let mut world = World::new();
    listen.clone_into(&mut world.config);
    let fill = format!("create table ledger (entry); insert into ledger values (randomblob({bytes}))");
    world.sqlite().execute_batch(&fill).unwrap();
    world.start();
    world.publish("large");
    world
}

fn asked(world: &World, request: &str) -> UnixStream {
    let mut stream = connect(world);
    write!(stream, "{request} HTTP/1.1\r\nHost: asat\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The status of an answer of which nothing more is taken.
fn status(mut stream: &UnixStream) -> String {
    let mut head = [0; STATUS];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[STATUS - 3..]).into_owned()
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// Waits until a process has fewer threads than this. What an answer needs one for at its beginning ends by itself.
fn has_fewer_threads(pid: u32, most: usize) {
    let deadline = Instant::now() + PATIENCE;
    while threads(pid) >= most {
        assert!(Instant::now() < deadline, "{} threads", threads(pid));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn downloads_that_nobody_takes_hold_nobody_up() {
    const MANY: usize = 560;
    raise_open_files(2000);
    let world = with_large_version(4_000_000);
    let pid = world.daemon.as_ref().unwrap().child.id();
    let memory_before = memory_kib(pid);
    let streams: Vec<UnixStream> =
        (0..MANY).map(|_| asked(&world, "GET /versions/report@1/database")).collect();
    let statuses: Vec<String> = streams.iter().map(status).collect();
    let of = |wanted: &str| statuses.iter().filter(|status| *status == wanted).count();
    assert_eq!((of("200"), of("503")), (32, MANY - 32), "one caller has so many, and no more");

    is_well(&world);
    assert_eq!(world.publish("again")["reused"], true);
    has_fewer_threads(pid, 64);
    let taken = memory_kib(pid).saturating_sub(memory_before) / 1024;
    assert!(taken < 200, "{taken} MiB");

    // As soon as one of them has gone, there is room for another one.
    drop(streams);
    while status(&asked(&world, "GET /versions/report@1/database")) != "200" {}
}

#[test]
fn no_download_holds_a_thread_while_its_client_takes_nothing() {
    const MANY: usize = 200;
    let listen = "max_downloads = 300\nmax_downloads_per_caller = 300\nrequest_timeout = \"1h\"";
    let world = with_large_version_and(4_000_000, listen);
    let pid = world.daemon.as_ref().unwrap().child.id();
    let streams: Vec<UnixStream> =
        (0..MANY).map(|_| asked(&world, "GET /versions/report@1/database")).collect();
    assert!(streams.iter().all(|stream| status(stream) == "200"));
    is_well(&world);
    has_fewer_threads(pid, MANY / 2);
    // What needs a thread for a moment has its turn.
    assert_eq!(world.get("/audit").status, 200);
    assert_eq!(status(&asked(&world, "GET /versions/report@1/database")), "200");
    drop(streams);
}

#[test]
fn verifications_are_bounded_for_each_caller() {
    const MANY: usize = 40;
    let world = with_large_version(64_000_000);
    let streams: Vec<UnixStream> = (0..MANY).map(|_| asked(&world, "POST /stores/report/verify")).collect();
    let statuses: Vec<String> = streams.iter().map(status).collect();
    let of = |wanted: &str| statuses.iter().filter(|status| *status == wanted).count();
    // Some may have ended before the last ones began.
    assert!(of("200") > 0 && of("503") > 0 && of("200") + of("503") == MANY, "{statuses:?}");
    is_well(&world);
}

#[test]
fn a_verification_ends_when_its_caller_has_gone() {
    let mut world = with_large_version(64_000_000);
    let mut daemon = world.daemon.take().unwrap();
    // The caller goes as soon as it has asked. It may have been answered by then, if this machine is slow to say that it went.
    for _ in 0..20 {
        drop(asked(&world, "POST /stores/report/verify"));
    }
    daemon.wait_for("the verification of report is stopped: its caller has gone").unwrap();
    while world.send("POST", "/stores/report/verify", &serde_json::json!({})).status != 200 {}
}
