//! The Python client: it is installed as people install it, and programs use it on a real daemon.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::World;
use crate::common::venv::venv;

/// A file or a folder of this repository.
fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The interpreter of a virtual environment that has the client.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let package = ours("clients/python");
        let sources = fs::read_dir(package.join("src/asat")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = sources.filter(|path| path.is_file()).collect();
        files.push(package.join("pyproject.toml"));
        files.sort();
        let texts: Vec<String> = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        venv("python-client", &texts.concat(), &[package.to_str().unwrap()]).join("bin/python")
    })
}

/// Runs a program of this test's with the client; answers what it printed.
fn run(world: &World, program: &str, env: &[(&str, &str)]) -> Value {
    let mut command = Command::new(python());
    command
        .arg(ours("tests/program/python").join(program))
        .arg(world.store())
        .current_dir(world.folder.path());
    command.env_remove("ASAT_TOKEN").env_remove("ASAT_TOKEN_FILE").envs(env.iter().copied());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A daemon that listens on TCP for one token of this role; answers its address, too.
fn over_tcp(role: &str) -> (World, String) {
    let mut world = World::new();
    let digest: String = Sha256::digest("a token").iter().map(|byte| format!("{byte:02x}")).collect();
    world.config = format!(
        "tcp = \"127.0.0.1:0\"\n[[token]]\nname = \"report server\"\nrole = \"{role}\"\nsha256 = \"{digest}\""
    );
    world.sqlite().execute_batch("create table sale (id integer primary key, amount)").unwrap();
    let log = world.start();
    let address = log.lines().find_map(|line| line.split_once("listening on http://")).unwrap().1.trim();
    let address = format!("http://{address}");
    (world, address)
}

/// What the session should have seen.
fn expect_session(saw: &Value) {
    assert_eq!(saw["classes"], json!(["Published", "Version", "Publication", "datetime"]));
    assert_eq!((&saw["again"], &saw["business_date"]), (&json!(true), &json!("2026-10-31")));
    assert_eq!(saw["attributes"], json!({ "batch": 41 }));
    assert_eq!(saw["listed"], json!(["report@2", "report@1"]));
    assert_eq!(
        (&saw["found"], &saw["of_day"], &saw["shown"]),
        (&json!("report@1"), &json!("report@1"), &json!("report@2"))
    );
    assert_eq!(saw["changed"], json!([["sale", 1]]));
    assert_eq!(saw["query"], json!([["amount"], [[200]], false]));
    assert_eq!((&saw["as_of"], &saw["leases_within"]), (&json!([100]), &json!(["report@1"])));
    assert_eq!(saw["written"], "attempt to write a readonly database");
    assert_eq!((&saw["labelled"], &saw["named"]), (&json!([100, 200]), &json!([100])));
    assert_eq!((&saw["raised"], &saw["leases_after"]), (&json!("the program's own mistake"), &json!(0)));
    assert_eq!(saw["retired"], "retired on request: a test");
}

#[test]
fn a_program_publishes_and_reads_what_was_over_the_unix_socket() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table sale (id integer primary key, amount)").unwrap();
    world.start();
    let server = format!("unix:{}", world.socket().display());
    expect_session(&run(&world, "session.py", &[("ASAT_SERVER", &server)]));
    assert!(world.stop().success());
}

#[test]
fn a_program_publishes_and_reads_what_was_over_tcp_with_the_token_of_a_file() {
    let (mut world, server) = over_tcp("admin");
    let token = world.path("token");
    fs::write(&token, "a token\n").unwrap();
    let env = [("ASAT_SERVER", server.as_str()), ("ASAT_TOKEN_FILE", token.to_str().unwrap())];
    expect_session(&run(&world, "session.py", &env));
    assert!(world.stop().success());
}

#[test]
fn what_goes_wrong_is_an_exception_that_says_what_and_what_to_do() {
    let (mut world, server) = over_tcp("read");
    world.publish("first");
    let saw = run(&world, "mistakes.py", &[("ASAT_SERVER", &server), ("ASAT_TOKEN", "a token")]);
    for (mistake, code, status, said) in [
        ("wrong token", "unauthenticated", json!(401), "token"),
        ("forbidden", "forbidden", json!(403), "the role admin"),
        ("unknown store", "unknown_store", json!(404), "nothing"),
        ("no moment", "invalid", json!(422), "no version is named"),
        ("a version and a moment", "malformed", json!(400), "report@1"),
        ("bad time", "invalid", json!(422), "last week"),
        ("no time zone", "ValueError", Value::Null, "no time zone"),
        ("bad query", "invalid", json!(422), "nothing"),
        ("nobody there", "unreachable", Value::Null, "/nothing/asat.sock"),
        ("no address", "invalid", Value::Null, "/run/asat/asat.sock"),
    ] {
        let problem = &saw[mistake];
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &status), "{mistake}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{mistake}: {problem}");
        assert!(code == "ValueError" || !problem["hint"].as_str().unwrap().is_empty(), "{problem}");
    }
    assert_eq!(world.get("/leases").json()["leases"], json!([]));
    assert!(world.stop().success());
}

#[test]
fn what_is_made_of_the_document_is_what_the_document_gives() {
    let mut world = World::new();
    world.start();
    let document = world.get("/openapi.json").body;
    let mut generate = Command::new("python3");
    generate.arg(ours("clients/python/generate.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut generate = generate.spawn().unwrap();
    generate.stdin.take().unwrap().write_all(&document).unwrap();
    let output = generate.wait_with_output().unwrap();
    assert!(output.status.success());
    let committed = fs::read_to_string(ours("clients/python/src/asat/api.py")).unwrap();
    assert!(
        String::from_utf8(output.stdout).unwrap() == committed,
        "clients/python/README.md says how api.py is made anew"
    );
    assert!(world.stop().success());
}
