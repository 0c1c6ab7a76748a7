//! The first hour: a configuration is written, a token made, and everything is seen on one screen.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::{at_a_terminal, configured, digest, done, text, world, world_with_history};
use crate::common::Running;

fn asat(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("ASAT_SERVER")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap()
}

fn database(path: &Path, mode: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE t (x)")).unwrap();
}

#[test]
fn a_first_configuration_leads_to_an_opened_version_by_the_commands_that_it_names() {
    let folder = folder();
    database(&folder.path().join("daily report.db"), "wal");
    let init = ["init", "--store", "daily report.db", "--config", "asat.toml"];
    let output = asat(folder.path(), &init);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for line in [
        "with the store daily-report\n",
        "in WAL mode: nobody who writes waits",
        "cut by ",
        "\nNext\n  asat serve",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let config = folder.path().join("asat.toml");
    let written = fs::read_to_string(&config).unwrap();

    // What is there is not replaced unasked, and asked for it is.
    let again = asat(folder.path(), &init);
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
    fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).unwrap();
    let replaced = asat(folder.path(), &[&init[..], &["--force", "--name", "report", "--json"]].concat());
    let begun: Value = serde_json::from_slice(&replaced.stdout).unwrap();
    assert_eq!(
        (&begun["store"], &begun["journal"], &begun["ok"]),
        (&json!("report"), &json!("wal"), &json!(true))
    );
    assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o640);

    // The commands are typed as they stand.
    let mut next: Vec<&str> =
        begun["next"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let serve = next.remove(0);
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_asat"));
    daemon.args(serve.split(' ').skip(1)).stdin(Stdio::null()).stdout(Stdio::null());
    let mut daemon = Running::spawn(daemon);
    daemon.wait_for("listen: ready").unwrap();
    let path = Path::new(env!("CARGO_BIN_EXE_asat")).parent().unwrap();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    let typed = Command::new("bash").args(["-ec", &next.join("\n")]).env("PATH", path).output().unwrap();
    assert!(typed.status.success(), "{typed:?}");
    let said = text(&typed.stdout);
    assert!(
        said.contains("report@1 published") && said.contains("all is well") && said.ends_with("/report.db\n"),
        "{said}"
    );
    daemon.terminate();
    assert!(daemon.exit().success());
}

#[test]
fn a_configuration_without_a_store_gets_its_first_one() {
    let folder = folder();
    database(&folder.path().join("report.db"), "wal");
    let config = folder.path().join("asat.toml");
    let packaged = "# By a package.\nstate = \"s\"\n\n[listen]\nunix = \"other.sock\"\n";
    fs::write(&config, packaged).unwrap();
    let init = ["init", "--store", "report.db", "-c", "asat.toml", "--json"];
    let output = asat(folder.path(), &[&init[..], &["--state", "elsewhere"]].concat());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(fs::read_to_string(&config).unwrap(), packaged);

    let output = asat(folder.path(), &init);
    let begun: Value = serde_json::from_slice(&output.stdout).unwrap();
    let socket = folder.path().join("other.sock");
    assert_eq!(
        (&begun["added"], &begun["next"][1]),
        (&json!(true), &json!(format!("export ASAT_SERVER=unix:{}", socket.display())))
    );
    let written = fs::read_to_string(&config).unwrap();
    assert!(
        written.starts_with(packaged) && written.contains("\n[[store]]\nname = \"report\"\n"),
        "{written}"
    );
    assert_eq!(asat(folder.path(), &init).status.code(), Some(3));
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
}

#[test]
fn what_is_found_in_a_rollback_mode_and_in_an_empty_file() {
    let folder = folder();
    database(&folder.path().join("a.db"), "delete");
    fs::write(folder.path().join("b.db"), "").unwrap();
    for (store, journal) in [("a", json!("rollback")), ("b", Value::Null)] {
        let (file, config) = (format!("{store}.db"), format!("{store}.toml"));
        let output = asat(folder.path(), &["init", "--store", &file, "-c", &config, "--json"]);
        let begun: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&begun["store"], &begun["journal"]), (&json!(store), &journal), "{begun}");
    }
}

#[test]
fn everything_is_on_one_screen() {
    let world = world();
    let output = world.asat(&["status"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(13), "{said}");
    assert!(said.contains(": 1 thing needs attention\n"), "{said}");
    assert!(
        said.contains("! report has no version that can be read\n    asat publish report --label LABEL\n"),
        "{said}"
    );
    done(&world, &["publish"]);
    done(&world, &["open", "report@1"]);
    let said = done(&world, &["status"]);
    for line in
        ["leases  1 lease open: asat leases\n", "report@1  just now", "Next\n  nothing: all is well\n"]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
    let status = super::answered(&world, &["status"]);
    assert_eq!(status["stores"], world.get("/stores").json()["stores"]);
    assert_eq!((&status["daemon"]["status"], &status["leases"]), (&json!("ok"), &json!(1)));
    assert_eq!(status["next"], json!([]));
}

#[test]
fn what_is_wrong_is_on_the_screen_and_in_the_exit_code() {
    let world = configured("", "[store.watch]\nmarker = \"select x from missing\"\n");
    let shown = || world.asat(&["status", "--json"]);
    let begin = std::time::Instant::now();
    while shown().status.code() != Some(13) {
        assert!(begin.elapsed() < crate::common::PATIENCE, "{:?}", shown());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let status: Value = serde_json::from_slice(&shown().stdout).unwrap();
    let steps = status["next"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["urgent"] == true), "{status}");
    assert!(text(&world.asat(&["status"]).stdout).contains("\n  ! report: "));
}

#[test]
fn a_token_is_shown_once_and_lets_its_bearer_in() {
    let mut world = world();
    world.stop();
    let (tokens, file) = (world.path("tokens.toml"), world.path("token"));
    let [tokens_path, file_path] = [&tokens, &file].map(|path| path.to_str().unwrap().to_owned());
    // A file of tokens that is not there is not made: nobody knows whose it must be.
    let new = ["token", "new", "--role", "read", "--name", "report server", "--expires", "2999-12-31"];
    let output = world.asat(&[&new[..], &["--to", &file_path, "--add", &tokens_path]].concat());
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(text(&output.stderr).contains("install -m 640") && !file.exists(), "{output:?}");

    fs::write(&tokens, "").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let said = done(&world, &[&new[..], &["--to", &file_path, "--add", &tokens_path]].concat());
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    let section = fs::read_to_string(&tokens).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(
        section.contains(&digest(&token)) && !section.contains(&token) && !said.contains(&token),
        "{said}"
    );
    let again = world.asat(&[&new[..], &["--add", &tokens_path]].concat());
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    assert_eq!(fs::read_to_string(&tokens).unwrap(), section);

    world.config = "tcp = \"127.0.0.1:0\"\ntokens = \"tokens.toml\"".to_owned();
    let log = world.start();
    let address = log.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let with_token = ["--server", address, "--token-file", &file_path];
    let code = |command: &[&str]| world.asat(&[command, &with_token].concat()).status.code();
    assert_eq!((code(&["ls"]), code(&["stores"]), code(&["publish"])), (Some(0), Some(0), Some(11)));
}

#[test]
fn a_token_in_a_pipe_stands_alone() {
    let world = world();
    let output = world.asat(&["token", "new", "--role", "admin", "--name", "ann"]);
    let (token, beside) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((token.trim().len(), token.lines().count()), (64, 1), "{output:?}");
    assert!(
        beside.contains("[[token]]\nname = \"ann\"\nrole = \"admin\"\n")
            && beside.contains(&digest(token.trim())),
        "{beside}"
    );
    let made = super::answered(&world, &["token", "new", "--role", "read"]);
    assert_eq!(made["sha256"], digest(made["token"].as_str().unwrap()));
}

#[test]
fn what_a_retired_version_gives_back_is_said_before() {
    let world = world_with_history();
    let dry = super::answered(&world, &["retire", "report@1", "--dry-run"]);
    let stats = world.get("/stores/report/archive").json();
    assert_eq!(dry["gives_back_bytes"], stats["versions"][0]["only_bytes"], "{stats}");
    let said = done(&world, &["retire", "report@1", "--dry-run"]);
    assert!(
        said.contains("nothing was done; report@1 would be") && said.contains("give back at least"),
        "{said}"
    );
    let asked = at_a_terminal(&world, "n", &["retire", "report@1"]);
    assert!(text(&asked.stdout).contains("give back at least"), "{asked:?}");
}
