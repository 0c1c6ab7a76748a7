//! The command line against the real daemon: what a person types, what is printed, and how it ends.
//!
//! Every command is run as a program. What it prints with `--json` is what the API answers to the same question.

mod access;
mod changes;
mod mistakes;
mod opening;
mod setup;
mod stopping;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::World;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A daemon whose store has one table with one row, which nobody has published yet.
fn world() -> World {
    configured("", "")
}

fn configured(config: &str, store_config: &str) -> World {
    let mut world = World::new();
    config.clone_into(&mut world.config);
    store_config.clone_into(&mut world.store_config);
    world.sqlite().execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    world.start();
    world
}

/// The same with two versions: one row in the first, two in the second.
fn world_with_history() -> World {
    let world = world();
    done(&world, &["publish", "--label", "first"]);
    world.sqlite().execute_batch("INSERT INTO t VALUES (2)").unwrap();
    done(&world, &["publish", "--label", "second"]);
    world
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command that succeeds; answers what it prints.
fn done(world: &World, arguments: &[&str]) -> String {
    let output = world.asat(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    text(&output.stdout)
}

/// The same with `--json`: one line.
fn answered(world: &World, arguments: &[&str]) -> Value {
    let output = world.asat(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    serde_json::from_str(&printed).unwrap()
}

/// Runs a command that fails; answers the problem that it tells, after checking that it tells people the same.
fn refused(world: &World, arguments: &[&str], exit_code: i32, code: &str) -> Value {
    let for_people = world.asat(arguments);
    assert_eq!(for_people.status.code(), Some(exit_code), "{arguments:?}: {for_people:?}");
    let for_programs = world.asat(&[arguments, &["--json"]].concat());
    assert_eq!(for_programs.status.code(), Some(exit_code), "{arguments:?}: {for_programs:?}");
    assert!(for_people.stdout.is_empty() && for_programs.stdout.is_empty(), "{arguments:?}");
    let problem: Value = serde_json::from_slice(&for_programs.stderr).unwrap();
    assert_eq!(problem["code"], code, "{arguments:?}: {problem}");
    let said = text(&for_people.stderr);
    assert!(said.starts_with("asat: ") && said.contains("\nhint: "), "{arguments:?}: {said}");
    problem
}

#[test]
fn a_version_is_published_found_and_shown() {
    let world = world();
    let published = done(&world, &["publish", "report", "--label", "2026-11-19 close"]);
    assert!(published.starts_with("report@1 published, cut "), "{published}");
    let again = done(
        &world,
        &["publish", "--certified-by", "ops", "--business-date", "2026-11-19", "--note", "no change"],
    );
    assert!(again.starts_with("report@1 published again"), "{again}");

    world.sqlite().execute_batch("INSERT INTO t VALUES (2)").unwrap();
    let second = answered(&world, &["publish", "--label", "second"]);
    assert_eq!((&second["reused"], &second["publication"]["label"]), (&json!(false), &json!("second")));
    assert_eq!(second["version"], world.get("/versions/report@2").json());

    for version in ["report@1", "report@2", "report@latest"] {
        assert_eq!(answered(&world, &["show", version]), world.get(&format!("/versions/{version}")).json());
    }
    let shown = done(&world, &["show", "report@1"]);
    for said in [
        "report@1\n",
        "2 publications",
        "2026-11-19 close",
        "certified by ops",
        "for 2026-11-19",
        "no change",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

#[test]
fn versions_are_listed_as_the_api_lists_them() {
    let world = world_with_history();
    assert_eq!(answered(&world, &["ls"]), world.get("/versions").json());
    assert_eq!(answered(&world, &["ls", "--all"]), world.get("/versions").json());
    let ids = |arguments: &[&str]| {
        let list = answered(&world, arguments);
        list["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&["ls", "report"]), ["report@2", "report@1"]);
    assert_eq!(ids(&["ls", "--label", "first"]), ["report@1"]);
    assert_eq!(ids(&["ls", "--limit", "1"]), ["report@2"]);
    assert_eq!(ids(&["ls", "--to", "2020-01-01"]), [""; 0]);
    assert_eq!(ids(&["ls", "--state", "retired"]), [""; 0]);
    let cut_at = world.get("/versions/report@2").json()["cut_at"].as_str().unwrap().to_owned();
    assert_eq!(ids(&["ls", "--from", &cut_at]), ["report@2"]);

    let table = done(&world, &["ls"]);
    assert!(table.find("report@2").unwrap() < table.find("report@1").unwrap(), "{table}");
    let cut_short = world.asat(&["ls", "--limit", "1"]);
    assert!(text(&cut_short.stderr).contains("--all"), "{cut_short:?}");
}

#[test]
fn an_instant_leads_to_the_version_of_that_moment() {
    let world = world_with_history();
    let cut_at = |version: &str| {
        world.get(&format!("/versions/{version}")).json()["cut_at"].as_str().unwrap().to_owned()
    };
    for version in ["report@1", "report@2"] {
        let at = cut_at(version);
        let found = answered(&world, &["as-of", &at]);
        assert_eq!(found, world.get(&format!("/as-of/{at}")).json());
        assert_eq!(found["id"], version);
        assert!(done(&world, &["as-of", &at, "report"]).contains(version));
    }
    assert_eq!(answered(&world, &["as-of", "2999-01-01"])["id"], "report@2");
    refused(&world, &["as-of", "2020-01-01"], 4, "before_first");
}

#[test]
fn a_version_is_opened_read_renewed_and_closed() {
    let world = world_with_history();
    // Somebody at a terminal sees the path, and at last the command that closes the lease.
    let printed = at_a_terminal(&world, "", &["open", "report@1", "--holder", "month end"]);
    let printed = text(&printed.stdout).replace('\r', "");
    let (path, rest) = printed.split_once('\n').unwrap();
    assert_eq!(sum(path), "1");
    assert!(rest.contains("month end"), "{rest}");
    let (_, close) = rest.lines().last().unwrap().split_once("asat ").unwrap();
    let close: Vec<&str> = close.split(' ').collect();
    let [_, version, lease] = close[..] else { panic!("{close:?}") };
    let shown = world.get("/versions/report@1").json();
    assert_eq!((&shown["leases"], &shown["path"]), (&json!(1), &json!(path)));
    refused(&world, &["retire", "report@1", "--yes"], 5, "leased");

    let renewed = answered(&world, &["renew", version, lease, "--ttl", "2h"]);
    assert_eq!((&renewed["lease"], &renewed["path"]), (&json!(lease), &json!(path)));
    let opened = answered(&world, &["open", "report@latest", "--ttl", "90m"]);
    assert_eq!(opened["version"], "report@2");
    let expires = |mount: &Value| mount["expires_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(expires(&renewed) > expires(&opened), "two hours end after ninety minutes");
    assert_eq!(sum(opened["path"].as_str().unwrap()), "3");

    done(&world, &close);
    refused(&world, &close, 4, "unknown_lease");
    refused(&world, &["renew", version, lease], 4, "unknown_lease");
    let closed = answered(&world, &["close", "report@2", opened["lease"].as_str().unwrap()]);
    assert_eq!(closed, json!({ "version": "report@2", "lease": opened["lease"] }));
    for version in ["report@1", "report@2"] {
        assert_eq!(world.get(&format!("/versions/{version}")).json()["leases"], 0);
    }
}

/// What the stock client reads from a copy.
fn sum(path: &str) -> String {
    let output = Command::new("sqlite3").args(["-readonly", path, "SELECT sum(x) FROM t"]).output();
    let output = output.unwrap_or_else(|error| panic!("sqlite3: {error}; install the package sqlite3"));
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).trim().to_owned()
}

#[test]
fn a_pinned_version_stays_and_an_unpinned_one_can_be_given_up() {
    let world = world_with_history();
    let pinned = answered(
        &world,
        &["pin", "report@1", "--reason", "audit", "--owner", "anna", "--until", "2999-12-31"],
    );
    assert_eq!(pinned, world.get("/versions/report@1").json());
    assert_eq!(pinned["pin"]["reason"], "audit");
    assert!(done(&world, &["show", "report@1"]).contains("audit, by anna"));
    let problem = refused(&world, &["retire", "report@1", "--yes"], 5, "pinned");
    assert!(problem["detail"].as_str().unwrap().contains("audit"), "{problem}");

    assert_eq!(answered(&world, &["unpin", "report@1"])["pin"], Value::Null);
    let asked = refused(&world, &["retire", "report@1"], 3, "invalid");
    assert!(asked["detail"].as_str().unwrap().contains("no terminal to ask on"), "{asked}");
    let dry = answered(&world, &["retire", "report@1", "--dry-run", "--reason", "mistake"]);
    assert_eq!(dry["end_reason"], "retired on request: mistake");
    let retired = answered(&world, &["retire", "report@1", "--yes"]);
    assert_eq!(retired, world.get("/versions/report@1").json());
    assert_eq!(retired["state"], "retired");
    // Giving it up again changes nothing; reading it is no longer possible, and says so.
    assert_eq!(answered(&world, &["retire", "report@1", "--yes"]), retired);
    refused(&world, &["open", "report@1"], 12, "retired");
    refused(&world, &["pin", "report@1", "--reason", "too late"], 12, "retired");
    refused(&world, &["as-of", pinned["cut_at"].as_str().unwrap()], 12, "retired");
    assert_eq!(sum(answered(&world, &["open", "report@2"])["path"].as_str().unwrap()), "3");
}

/// Types an answer at a terminal when the program asks for one; ends as the program does.
const AT_A_TERMINAL: &str = "
import os, pty, sys
answer, command = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(command[0], command)
said = b''
try:
    while piece := os.read(terminal, 4096):
        said += piece
        if answer and said.endswith(b'[y/N] '):
            os.write(terminal, (answer + '\\n').encode())
            answer = ''
except OSError:
    pass
sys.stdout.buffer.write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

/// A command as somebody types it at a terminal, who answers what it asks.
fn terminal(world: &World, answer: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.env("ASAT_SERVER", format!("unix:{}", world.socket().display()));
    command.args(["-c", AT_A_TERMINAL, answer, env!("CARGO_BIN_EXE_asat")]).args(arguments);
    command
}

/// Runs it.
fn at_a_terminal(world: &World, answer: &str, arguments: &[&str]) -> Output {
    terminal(world, answer, arguments).output().unwrap()
}

#[test]
fn at_a_terminal_somebody_is_asked_before_a_version_is_given_up() {
    let world = world_with_history();
    let state = || world.get("/versions/report@1").json()["state"].clone();
    for (answer, code, expected) in [("n", 3, "ready"), (" ", 3, "ready"), ("yes", 0, "retired")] {
        let asked = at_a_terminal(&world, answer, &["retire", "report@1"]);
        let said = text(&asked.stdout);
        assert!(said.contains("report@1") && said.contains("[y/N]"), "{asked:?}");
        assert_eq!((asked.status.code(), state()), (Some(code), expected.into()), "{said}");
    }
}

#[test]
fn a_tag_is_set_listed_used_and_deleted() {
    let world = world_with_history();
    let set = done(&world, &["tag", "report", "month-end", "report@1"]);
    assert_eq!(set, "report@month-end leads to report@1\n");
    let tags = world.get("/stores/report/tags").json();
    assert_eq!(answered(&world, &["tag", "--list", "report"]), tags);
    let list = done(&world, &["tag", "--list"]);
    assert!(list.contains("report@month-end  report@1"), "{list}");
    let shown = done(&world, &["show", "report@month-end"]);
    assert!(shown.starts_with("report@1\n") && shown.contains("tags         month-end"), "{shown}");
    assert!(done(&world, &["ls"]).contains("tagged month-end"));
    refused(&world, &["retire", "report@month-end", "--yes"], 5, "tagged");
    let copy = world.path("copy.db");
    done(&world, &["export", "report@month-end", "--to", copy.to_str().unwrap()]);
    assert_eq!(
        rusqlite::Connection::open(&copy).unwrap().query_row("select count(*) from t", [], |row| row.get(0)),
        Ok(1)
    );
    done(&world, &["tag", "report", "month-end", "report@latest"]);
    let gone = done(&world, &["tag", "--delete", "report", "month-end"]);
    assert_eq!(gone, "report@month-end is deleted; it led to report@2\n");
    refused(&world, &["tag", "--delete", "report", "month-end"], 4, "unknown_tag");
    refused(&world, &["show", "report@month-end"], 4, "unknown_tag");
    refused(&world, &["tag", "report", "month-end", "report@9"], 4, "unknown_version");
}

#[test]
fn attributes_of_ones_own_are_published_shown_and_found() {
    let world =
        configured("", "unique_labels = true\n[store.watch]\nmarker = \"select x from t where x > 99\"\n");
    let attributes = ["--attribute", "batch=41", "--attribute", "run=a=b"];
    let published = answered(&world, &[&["publish", "--label", "close"], &attributes[..]].concat());
    assert_eq!(published["publication"]["attributes"], json!({ "batch": "41", "run": "a=b" }));
    let shown = done(&world, &["show", "report@1"]);
    assert!(shown.contains("    batch: 41\n") && shown.contains("    run: a=b\n"), "{shown}");
    let found = answered(&world, &["ls", "--attribute", "run=a=b"]);
    assert_eq!(found["versions"][0]["id"], "report@1");
    assert_eq!(answered(&world, &["ls", "--note", "none"])["versions"], json!([]));
    refused(&world, &["publish", "--attribute", "a=1", "--attribute", "a=2"], 3, "invalid");
    refused(&world, &["publish", "--attribute", "asat.a=1"], 3, "invalid");
    refused(&world, &["publish", "--label", "CLOSE"], 5, "label_taken");
    let stores = done(&world, &["stores"]);
    assert!(stores.contains("report: watch mode, "), "{stores}");
}

#[test]
fn stores_are_listed_and_verified() {
    let world = world_with_history();
    assert_eq!(answered(&world, &["stores"]), world.get("/stores").json());
    let table = done(&world, &["stores"]);
    assert!(table.contains("report@2") && table.contains(world.store().to_str().unwrap()), "{table}");

    for arguments in [&["verify"][..], &["verify", "report"], &["verify", "--version", "report@1"]] {
        let found = answered(&world, arguments);
        assert_eq!(
            (&found["ok"], &found["store"], &found["findings"]),
            (&json!(true), &json!("report"), &json!([]))
        );
    }
    let mut whole = world.request("POST", "/stores/report/verify", &[], b"").json();
    whole["store"] = json!("report");
    assert_eq!(answered(&world, &["verify", "report"]), whole);
    assert!(done(&world, &["verify"]).contains("everything as it was written"));

    let stats = world.get("/stores/report/archive").json();
    assert_eq!(answered(&world, &["archive", "stats"]), stats);
    assert_eq!(answered(&world, &["archive", "stats", "report"]), stats);
    let text = done(&world, &["archive", "stats"]);
    assert!(
        text.starts_with("report: ") && text.contains("ONLY FOR IT") && text.contains("report@2"),
        "{text}"
    );
    refused(&world, &["archive", "stats", "none"], 4, "unknown_store");
}

#[test]
fn what_retention_lets_go_is_shown_before_it_does() {
    let world = world_with_history();
    let plan = world.get("/stores/report/retention").json();
    assert_eq!(answered(&world, &["retention", "plan"]), plan);
    assert_eq!(answered(&world, &["retention", "plan", "report"]), plan);
    let text = done(&world, &["retention", "plan"]);
    assert!(text.starts_with("report: all forever\n0 of 2 versions would be retired"), "{text}");
    assert!(!text.contains("VERDICT"), "{text}");

    let other = world.path("other.toml");
    let store = "[[store]]\nname = \"report\"\npath = \"report.db\"\nretention.keep = \"the last 1\"";
    fs::write(&other, format!("state = \"elsewhere\"\n{store}")).unwrap();
    let other = other.to_str().unwrap();
    let plan = answered(&world, &["retention", "plan", "--config", other]);
    assert_eq!((&plan["rules"]["keep"], &plan["versions"][0]["keep"]), (&json!("the last 1"), &json!(false)));
    let text = done(&world, &["retention", "plan", "report", "--config", other, "--all"]);
    assert!(text.starts_with("report: the last 1\n1 of 2 versions would be retired"), "{text}");
    assert!(text.contains("retired  ") && text.contains("it is the newest version"), "{text}");
    assert_eq!(world.get("/versions").json()["versions"].as_array().unwrap().len(), 2, "nothing went");

    refused(&world, &["retention", "plan", "none"], 4, "unknown_store");
    refused(&world, &["retention", "plan", "none", "--config", other], 4, "unknown_store");
    fs::write(other, "state = 7").unwrap();
    refused(&world, &["retention", "plan", "--config", other], 78, "configuration");
}

#[test]
fn damage_is_found_named_and_never_exported() {
    let world = world_with_history();
    let segment = world.segment(1);
    let mut bytes = fs::read(&segment).unwrap();
    bytes[20] ^= 1;
    fs::write(&segment, bytes).unwrap();

    let output = world.asat(&["verify", "--json"]);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["ok"], false);
    assert!(found["findings"][0]["file"].as_str().unwrap().ends_with("000000000001.segment"), "{found}");
    let for_people = world.asat(&["verify"]);
    assert!(text(&for_people.stdout).contains("DAMAGED"), "{for_people:?}");

    refused(&world, &["open", "report@1"], 9, "damaged");
    let target = world.path("export.db");
    let export = world.asat(&["export", "report@1", "--to", target.to_str().unwrap()]);
    assert_ne!(export.status.code(), Some(0), "{export:?}");
    assert!(!target.exists(), "half a database was left behind");
}

#[test]
fn an_export_is_the_download_and_replaces_nothing_unasked() {
    let world = world_with_history();
    let target = world.path("exports/copy of report.db");
    fs::create_dir(target.parent().unwrap()).unwrap();
    let to = target.to_str().unwrap();
    let exported = answered(&world, &["export", "report@1", "--to", to]);
    let download = world.get("/versions/report@1/database").body;
    assert!(fs::read(&target).unwrap() == download);
    let version = world.get("/versions/report@1").json();
    let expected = json!({
        "version": "report@1", "path": to, "bytes": download.len(), "fingerprint": version["fingerprint"],
    });
    assert_eq!(exported, expected);
    assert_eq!(sum(to), "1");

    refused(&world, &["export", "report@2", "--to", to], 3, "invalid");
    assert!(fs::read(&target).unwrap() == download);
    done(&world, &["export", "report@2", "--to", to, "--force"]);
    assert_eq!(sum(to), "3");
    assert!(fs::read(&target).unwrap() == world.get("/versions/report@2/database").body);
    let left: Vec<_> =
        fs::read_dir(target.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [target]);
}

#[test]
fn events_are_printed_as_they_happen() {
    let mut world = world();
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command.args(["events", "--json"]).env("ASAT_SERVER", format!("unix:{}", world.socket().display()));
    let mut follower = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let (sender, printed) = channel();
    std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));

    // Nobody says when the follower has begun to listen; so something is published until it has heard of that. What follows a
    // publication may be the first that it hears.
    let heard = (0..1000).find_map(|nth| {
        world.publish(&format!("close {nth}"));
        let lines = std::iter::from_fn(|| printed.recv_timeout(Duration::from_millis(50)).ok());
        let mut events = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        events.find(|event| event["event"] == "publication")
    });
    let event = heard.expect("no publication was printed");
    assert_eq!(event["data"]["version"], "report@1");
    assert!(event["data"]["publication"]["label"].as_str().unwrap().starts_with("close "), "{event}");

    // It ends with the daemon, and says that it did not end on its own.
    world.stop();
    assert_eq!(follower.wait().unwrap().code(), Some(10));
}

#[test]
fn capacity_is_shown_until_somebody_stops_it() {
    let world = world_with_history();
    assert_eq!(answered(&world, &["why", "report@1"]), world.get("/versions/report@1/why").json());
    refused(&world, &["why", "report@9"], 4, "unknown_version");
    refused(&world, &["acknowledge", "group vg: short"], 4, "not_found");

    // Tests may be run by something that ignores a signal, as a shell does in the background, and that is inherited.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_asat"), "capacity", "--watch", "--json"]);
    command.env("ASAT_SERVER", format!("unix:{}", world.socket().display()));
    let mut follower = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        // With nothing to wait for it is shown again all the same.
        let shown: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(shown["alarms"], json!([]));
    }
    let id = rustix::process::Pid::from_child(&follower);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(follower.wait().unwrap().code(), Some(130));
}

#[test]
fn a_key_publishes_once() {
    let world = world();
    let first = answered(&world, &["publish", "--label", "close", "--key", "2026-11-19"]);
    world.sqlite().execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(answered(&world, &["publish", "--label", "close", "--key", "2026-11-19"]), first);
    refused(&world, &["publish", "--label", "another", "--key", "2026-11-19"], 5, "key_reused");
    // Without a key, each run is a publication of its own.
    assert_eq!(answered(&world, &["publish", "--label", "close"])["version"]["id"], "report@2");
}

#[test]
fn what_is_wrong_with_a_request_is_told_by_the_exit_code() {
    let world = world_with_history();
    refused(&world, &["show", "report@9"], 4, "unknown_version");
    refused(&world, &["publish", "nothing"], 4, "unknown_store");
    refused(&world, &["ls", "nothing"], 4, "unknown_store");
    refused(&world, &["publish", "--label", " "], 3, "invalid");
    refused(&world, &["open", "report@1", "--ttl", "400d"], 3, "invalid");
    refused(&world, &["pin", "report@1", "--reason", "late", "--until", "2020-01-01"], 3, "invalid");
    for arguments in
        [&["show", "report"][..], &["show"], &["retire", "report@0"], &["publish", "--nonsense"], &[]]
    {
        let output = world.asat(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(text(&output.stderr).contains("--help"), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_busy_a_missing_and_a_broken_store_are_told_apart() {
    let world = configured("", "busy_timeout = \"50ms\"");
    let writer = world.sqlite();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    refused(&world, &["publish"], 6, "store_busy");
    drop(writer);
    done(&world, &["publish"]);
    fs::write(world.store(), "no database at all, and long enough to be looked at as if it were one")
        .unwrap();
    refused(&world, &["publish"], 7, "store_unreadable");
    fs::remove_file(world.store()).unwrap();
    refused(&world, &["publish"], 7, "store_missing");
}

#[test]
fn a_copy_for_which_there_is_no_room_is_refused() {
    let world = configured("[copies]\nmax_size = \"4 KB\"", "");
    done(&world, &["publish"]);
    refused(&world, &["open", "report@1"], 8, "storage_full");
}

#[test]
fn without_a_daemon_the_client_says_so_and_what_to_do() {
    let mut world = world();
    world.stop();
    refused(&world, &["stores"], 10, "unreachable");
    refused(&world, &["publish"], 10, "unreachable");
}

#[test]
fn a_token_lets_its_holder_do_what_its_role_allows() {
    let token =
        |role: &str| format!("[[token]]\nname = {role:?}\nrole = {role:?}\nsha256 = \"{}\"\n", digest(role));
    let mut world = World::new();
    world.config = format!("tcp = \"127.0.0.1:0\"\n{}{}", token("read"), token("publish"));
    world.sqlite().execute_batch("CREATE TABLE t (x)").unwrap();
    let log = world.start();
    let address = log.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let file = |role: &str| -> PathBuf {
        let path = world.path(role);
        fs::write(&path, format!("{role}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    };
    let with = |role: &str, arguments: &[&str]| {
        let file = file(role);
        let common = ["--server", address, "--token-file", file.to_str().unwrap()];
        world.asat(&[arguments, &common].concat()).status.code()
    };
    assert_eq!(with("publish", &["publish"]), Some(0));
    assert_eq!(with("read", &["ls"]), Some(0));
    assert_eq!(with("read", &["publish"]), Some(11));
    assert_eq!(with("publish", &["retire", "report@1", "--yes"]), Some(11));
    assert_eq!(with("unknown", &["ls"]), Some(11));
    assert_eq!(world.asat(&["ls", "--server", address]).status.code(), Some(11));
}

fn digest(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_daemon_with_a_wrong_configuration_does_not_start() {
    let world = World::new();
    let config = world.path("asat.toml");
    for (written, named) in [("", None), ("nonsense = 1\n", Some("nonsense")), ("state = \n", Some("state"))]
    {
        fs::write(&config, written).unwrap();
        let file = if named.is_some() { config.clone() } else { world.path("missing.toml") };
        let output = bare(&["serve", "--config", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        let said = text(&output.stderr);
        let named = named.unwrap_or("missing.toml");
        assert!(said.contains(named), "{named}: {said}");
    }
}

/// The program as it is, without a daemon to talk to.
fn bare(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command.args(arguments).env_remove("ASAT_SERVER").stdin(Stdio::null()).output().unwrap()
}

/// Every command that the help lists.
fn commands() -> Vec<String> {
    let help = text(&bare(&["--help"]).stdout);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    // Further lines of a long description are indented deeper than the names.
    let names = list.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.map(|line| line.split(' ').next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

#[test]
fn every_command_explains_itself() {
    let commands = commands();
    assert!(commands.len() >= 16, "{commands:?}");
    for command in &commands {
        let help = bare(&[command, "--help"]);
        let said = text(&help.stdout);
        assert!(help.status.success(), "{help:?}");
        assert!(said.lines().next().is_some_and(|line| line.len() > 10), "{command}: {said}");
        for part in [&format!("Usage: asat {command}"), "--json", "--server"] {
            assert!(said.contains(part), "{command}: {part}: {said}");
        }
    }
    let help = text(&bare(&["--help"]).stdout);
    assert!(help.contains("Exit codes:") && help.contains("78"), "{help}");
    assert!(text(&bare(&["--version"]).stdout).starts_with("asat "));
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::new();
    let folder = world.path("man");
    assert!(bare(&["man", "--dir", folder.to_str().unwrap()]).status.success());
    let pages = std::iter::once("asat.1".to_owned())
        .chain(commands().into_iter().map(|name| format!("asat-{name}.1")));
    for page in pages {
        let written =
            fs::read_to_string(folder.join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        for part in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", "\\-\\-json", ".SH \"EXIT STATUS\""] {
            assert!(written.contains(part), "{page}: {part}");
        }
    }
    // What a page refers to is there: commands that have commands of their own, too.
    let mut referred = 0;
    for page in fs::read_dir(&folder).unwrap() {
        let written = fs::read_to_string(page.unwrap().path()).unwrap().replace('\\', "");
        for name in written.split_whitespace().filter_map(|word| word.strip_suffix("(1)")) {
            assert!(folder.join(format!("{name}.1")).exists(), "{name}(1)");
            referred += 1;
        }
    }
    assert!(referred > commands().len(), "{referred}");
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&bare(&["completions", shell]).stdout);
        assert!(script.contains("asat") && script.contains("ASAT_COMPLETE"), "{shell}: {script}");
    }
}

/// Bash itself asks, with what was typed up to the place of the cursor.
#[test]
fn tab_offers_commands_options_stores_versions_and_tags() {
    let world = world_with_history();
    done(&world, &["publish", "report", "--label", "second"]);
    done(&world, &["tag", "report", "month-end", "report@1"]);
    let offered = |server: &str, typed: &str| -> Vec<String> {
        let script = format!(
            "source <(asat completions bash)
            COMP_WORDS=({typed}) COMP_TYPE=9
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _clap_complete_asat asat \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"
            printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let program = Path::new(env!("CARGO_BIN_EXE_asat")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).env("PATH", path).env("ASAT_SERVER", server);
        let ran = bash.output().unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
        text(&ran.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let server = format!("unix:{}", world.socket().display());
    let at = |typed: &str| offered(&server, typed);
    assert_eq!(at("asat publ"), ["publish"]);
    assert_eq!(at("asat brak"), [""; 0], "nobody types what the daemon starts for itself");
    assert_eq!(at("asat open --busin"), ["--business-date"]);
    assert_eq!(at("asat publish rep"), ["report"]);
    assert_eq!(at("asat open rep"), ["report@latest", "report@month-end", "report@2", "report@1"]);
    assert_eq!(at("asat diff report@1 report@m"), ["report@month-end"]);
    assert_eq!(at("asat tag report mon"), ["month-end"]);
    assert_eq!(at("asat show other@"), [""; 0]);
    assert_eq!(offered("unix:/nowhere", "asat show rep"), [""; 0], "nothing is said in between");
    let mut left = Command::new(env!("CARGO_BIN_EXE_asat"));
    left.env("ASAT_COMPLETE", "bash").args(["stores", "--server", &server]);
    let left = left.output().unwrap();
    assert!(
        text(&left.stdout).contains("report"),
        "a variable that is left over changes no command: {left:?}"
    );
}

#[test]
fn a_store_is_brought_back_once_that_is_said_twice() {
    let world = world_with_history();
    let rows =
        || -> i64 { world.sqlite().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap() };
    let problem = refused(&world, &["restore", "report@1"], 3, "invalid");
    assert!(problem["hint"].as_str().unwrap().contains("--yes"), "{problem}");
    assert_eq!(rows(), 2);
    let said = done(&world, &["restore", "report@1", "--yes", "--certified-by", "ops"]);
    assert!(said.starts_with("report is as it was at report@1, writers held "), "{said}");
    assert!(said.trim_end().ends_with("kept as report@2"), "{said}");
    assert_eq!(rows(), 1);
    let again = answered(&world, &["restore", "report@2", "--yes", "--note", "back"]);
    assert_eq!(again["restored"], world.get("/versions/report@2").json());
    assert_eq!(again["before"]["publication"]["label"], "before restore to report@2");
    assert_eq!(rows(), 2);
    refused(&world, &["restore", "report@9", "--yes"], 4, "unknown_version");
}
