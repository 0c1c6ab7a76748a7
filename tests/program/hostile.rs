//! No client can harm the service: slow ones, endless ones, and more of them than anybody needs.

mod downloads;
mod places;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::common::{PATIENCE, World, exchange};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A daemon with one version, whose listener is configured so.
fn started(listen: &str) -> World {
    let mut world = World::new();
    world
        .sqlite()
        .execute_batch("create table ledger (entry text); insert into ledger values ('x')")
        .unwrap();
    listen.clone_into(&mut world.config);
    world.start_under_contract();
    world.publish("kept");
    world
}

fn connect(world: &World) -> UnixStream {
    let stream = UnixStream::connect(world.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What comes until the daemon hangs up.
fn rest(mut stream: UnixStream) -> String {
    let mut reply = Vec::new();
    // To be cut off is an end, too.
    let ended = stream.read_to_end(&mut reply);
    assert!(
        ended.as_ref().map_or_else(|error| error.kind(), |_| std::io::ErrorKind::UnexpectedEof)
            != std::io::ErrorKind::WouldBlock
    );
    String::from_utf8_lossy(&reply).into_owned()
}

/// How many connections found no place, and ended so.
fn turned_away(world: &World, outcome: &str) -> usize {
    let series = format!("asat_connections_turned_away_total{{outcome=\"{outcome}\"}} ");
    let text = String::from_utf8(world.get("/metrics").body).unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix(&series));
    count.unwrap_or_else(|| panic!("no {series:?} in {text}")).parse().unwrap()
}

fn is_well(world: &World) {
    assert_eq!(world.get("/healthz").json()["status"], "ok");
    assert_eq!(world.get("/versions/report@1").json()["state"], "ready");
}

/// Sends a byte now and then for as long as the daemon listens; answers what it said in the end.
fn trickle(mut stream: UnixStream, begin: &str, byte: &'static [u8]) -> String {
    stream.write_all(begin.as_bytes()).unwrap();
    let mut other = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        // The pace of a client that wants to stay.
        while other.write_all(byte).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let reply = rest(stream.try_clone().unwrap());
    let _ = stream.shutdown(std::net::Shutdown::Both);
    writer.join().unwrap();
    reply
}

#[test]
fn a_head_that_trickles_in_is_not_waited_for() {
    let world = started("request_timeout = \"300ms\"");
    let reply = trickle(connect(&world), "GET /versions HTTP/1.1\r\nHost: asat\r\nX-Slow: ", b"x");
    assert!(!reply.contains("200 OK"), "{reply}");
    is_well(&world);
}

#[test]
fn a_connection_that_asks_nothing_more_is_closed() {
    let world = started("request_timeout = \"300ms\"");
    let mut stream = connect(&world);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: asat\r\n\r\n").unwrap();
    assert!(rest(stream).starts_with("HTTP/1.1 200 OK"));
    assert_eq!(rest(connect(&world)), "", "nor one that never asked");
}

#[test]
fn a_body_without_end_is_refused_by_its_time_or_by_its_length() {
    let world = started("request_timeout = \"300ms\"");
    let head = "POST /snapshots HTTP/1.1\r\nHost: asat\r\nContent-Type: application/json\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let reply = trickle(connect(&world), &chunked, b"1\r\n \r\n");
    assert!(reply.starts_with("HTTP/1.1 400") && reply.contains("listen.request_timeout"), "{reply}");
    let promised = format!("{head}Content-Length: 60000\r\n\r\n");
    let reply = trickle(connect(&world), &promised, b" ");
    assert!(reply.starts_with("HTTP/1.1 400") && reply.contains("malformed"), "{reply}");
    let mut stream = connect(&world);
    let _ = stream.write_all(chunked.as_bytes());
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    while stream.write_all(chunk.as_bytes()).is_ok() {}
    assert!(rest(stream).starts_with("HTTP/1.1 413"));
    is_well(&world);
}

#[test]
fn a_body_that_is_promised_to_be_too_long_is_not_waited_for() {
    let world = started("request_timeout = \"1h\"");
    let head = "POST /snapshots HTTP/1.1\r\nHost: asat\r\nContent-Type: application/json\r\n";
    let mut stream = connect(&world);
    stream
        .write_all(format!("{head}Content-Length: 5000000000\r\n\r\n{{\"label\": \"x\"}}").as_bytes())
        .unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    is_well(&world);
}

#[test]
fn a_head_of_any_size_takes_no_more_than_its_bound() {
    let world = started("");
    let bombs = [
        ("one long header", format!("GET /versions HTTP/1.1\r\nHost: asat\r\nX: {}", "x".repeat(1 << 20))),
        (
            "many headers",
            format!("GET /versions HTTP/1.1\r\nHost: asat\r\n{}\r\n", "X: y\r\n".repeat(100_000)),
        ),
        ("a long path", format!("GET /{} HTTP/1.1\r\n", "x".repeat(1 << 20))),
    ];
    for (bomb, bytes) in bombs {
        let mut stream = connect(&world);
        // It is refused before it is whole.
        let _ = stream.write_all(bytes.as_bytes());
        let reply = rest(stream);
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4"), "{bomb}: {reply}");
        is_well(&world);
    }
}

#[test]
fn who_takes_nothing_of_an_answer_is_let_go() {
    let mut world = World::new();
    let rows = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 200)";
    let fill =
        format!("create table ledger (entry); insert into ledger {rows} select randomblob(16384) from n");
    world.sqlite().execute_batch(&fill).unwrap();
    "request_timeout = \"300ms\"\nmax_connections = 1".clone_into(&mut world.config);
    world.start();
    world.publish("large");
    let mut stream = connect(&world);
    stream.write_all(b"GET /versions/report@1/database HTTP/1.1\r\nHost: asat\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 9]).unwrap();
    // The only place is free again once the daemon has given up; until then everybody else is refused.
    let deadline = std::time::Instant::now() + PATIENCE;
    while world.get("/versions").status == 503 {
        assert!(std::time::Instant::now() < deadline, "the place is never free again");
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 200 * 16384, "the download is cut off");
}

#[test]
fn where_all_connections_are_answered_the_next_is_refused_and_health_is_told() {
    let world = started("max_connections = 3");
    let listeners: Vec<UnixStream> = (0..3)
        .map(|_| {
            let mut stream = connect(&world);
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: asat\r\n\r\n").unwrap();
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        })
        .collect();
    let refused = world.get("/versions");
    refused.expect_problem(503, "overloaded");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(world.get("/healthz").json()["status"], "ok");
    assert_eq!(world.get("/readyz").status, 200);
    drop(listeners);
    let deadline = std::time::Instant::now() + PATIENCE;
    while world.get("/versions").status == 503 {
        assert!(std::time::Instant::now() < deadline, "no place is ever free again");
    }
    is_well(&world);
    // Health was told, and is not counted.
    assert!(turned_away(&world, "refused") >= 1);
    assert_eq!(turned_away(&world, "dropped"), 0);
}

#[test]
fn a_connection_that_is_closed_without_a_word_is_told_of_in_the_log() {
    let mut world = started("max_connections = 1");
    let mut listener = connect(&world);
    listener.write_all(b"GET /events HTTP/1.1\r\nHost: asat\r\n\r\n").unwrap();
    listener.read_exact(&mut [0; 12]).unwrap();
    // Those beyond the most ask for nothing, so none of them is told that there are too many.
    let mut silent: Vec<UnixStream> = (0..40).map(|_| connect(&world)).collect();
    let daemon = world.daemon.as_mut().unwrap();
    let line = format!("a connection from user {} beyond 1 was refused", rustix::process::geteuid().as_raw());
    daemon.wait_for(&line).unwrap_or_else(|log| panic!("{log}"));
    // They are closed in their order, so when the last one is, others were refused after the first.
    assert_eq!(silent.last_mut().unwrap().read(&mut [0]).unwrap(), 0);
    daemon.terminate();
    assert!(daemon.child.wait().unwrap().success());
    let log = daemon.rest_of_log();
    assert!(log.contains("more connections from user "), "{log}");
}

#[test]
fn who_keeps_a_body_back_makes_room_for_others() {
    let world = started("max_connections = 3");
    let held: Vec<UnixStream> = ["/snapshots", "/sign-in", "/retention/plan"]
        .into_iter()
        .map(|path| {
            let mut stream = connect(&world);
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: asat\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: 60000\r\nExpect: 100-continue\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // The daemon says so once somebody waits for the body, or refuses it at once.
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        })
        .collect();
    assert_eq!(world.get("/versions").status, 200);
    assert_eq!(turned_away(&world, "refused"), 0);
    drop(held);
    is_well(&world);
}

#[test]
fn an_answer_that_is_taken_slowly_is_not_cut_off_for_others() {
    let mut world = World::new();
    // More than fits into the socket, and no more than that and one piece of the download.
    let fill = "create table ledger (entry); insert into ledger values (randomblob(400000))";
    world.sqlite().execute_batch(fill).unwrap();
    "max_connections = 1".clone_into(&mut world.config);
    world.start();
    world.publish("large");
    let mut stream = connect(&world);
    stream
        .write_all(b"GET /versions/report@1/database HTTP/1.1\r\nHost: asat\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream.read_exact(&mut [0; 9]).unwrap();
    let began = std::time::Instant::now();
    for _ in 0..20 {
        let refused = world.request("GET", "/versions", &[("X-Request-Id", "crowd-1")], b"");
        assert_eq!(refused.expect_problem(503, "overloaded")["request"], "crowd-1");
        assert_eq!(refused.header("x-request-id"), Some("crowd-1"));
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 400_000, "{} bytes came", rest.len());
    is_well(&world);
    // It is told of, and not of each.
    let mut daemon = world.daemon.take().unwrap();
    daemon.terminate();
    assert!(daemon.child.wait().unwrap().success());
    let log = daemon.rest_of_log();
    let lines = log.matches("listen.max_connections may be raised").count();
    assert!((1..=1 + usize::try_from(began.elapsed().as_secs()).unwrap()).contains(&lines), "{log}");
    assert!(!log.contains("answered 503"), "{log}");
}

/// Lets this process and the daemons that it starts have as many open files as they may; answers how many connections that is.
fn raise_open_files(needed: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let open = limit.maximum.map_or(usize::MAX, |most| usize::try_from(most).unwrap().saturating_sub(200));
    assert!(open > needed, "this test needs more open files: ulimit -Hn says {open}");
    open
}

/// How much memory a process has, in KiB.
fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn ten_thousand_connections_keep_nobody_out_and_take_little() {
    const MANY: usize = 10_000;
    let open = raise_open_files(2000).min(MANY);
    let world = started("");
    let pid = world.daemon.as_ref().unwrap().child.id();
    let before = memory_kib(pid);
    let mut held = Vec::new();
    for nth in 0..open {
        let mut stream = connect(&world);
        // Every other one has begun to ask.
        if nth % 2 == 0 {
            let _ = stream.write_all(b"GET /versions HTTP/1.1\r\nHost: asat\r\nX: ");
        }
        held.push(stream);
        if nth % 1000 == 0 {
            is_well(&world);
        }
    }
    is_well(&world);
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(files < 1000 + 200, "{files} files are open");
    let grown = memory_kib(pid).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB more are taken");
    // All but those that may be open, and those that are on their way out.
    let made_room = turned_away(&world, "made_room");
    assert!(made_room >= open - 1000 - 100, "{made_room} of {open} made room");
    drop(held);
    // Whoever asks over and over on one connection is answered to the end.
    let mut stream = connect(&world);
    for _ in 0..100 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: asat\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 15]).unwrap();
    }
    drop(stream);
    let again = exchange(connect(&world), "GET", "/healthz", &[], b"").unwrap();
    assert_eq!(again.status, 200);
}
