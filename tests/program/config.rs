//! The configuration: what is wrong with it is told with the file, the key and what to write instead.

mod access;
mod files;
mod retention;
mod sample;
mod service;
mod stores;
mod values;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::{Running, as_ordinary_user};

/// What a configuration needs that is otherwise right.
const STATE: &str = "state = \"state\"\nlisten.unix = \"asat.sock\"\n";

/// The SHA-256 of a token.
const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap()
}

fn store(name: &str, more: &str) -> String {
    format!("\n[[store]]\nname = \"{name}\"\npath = \"stores/{name}.db\"\n{more}\n")
}

/// Runs the daemon with a file that it must refuse for good; answers what it says.
fn refused(file: &Path) -> String {
    ended(file, 78)
}

/// Runs the daemon with a file with which it cannot start, and ends with this; answers what it says.
fn ended(file: &Path, with: i32) -> String {
    let mut command = as_ordinary_user(env!("CARGO_BIN_EXE_asat"));
    command.arg("serve").arg("--config").arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    let mut running = Running::spawn(command);
    let log = running.wait_for("listen: ready").expect_err("the configuration was taken");
    assert_eq!(running.exit().code(), Some(with), "{log}");
    log
}

/// Refuses a configuration in `folder`, and checks that every one of `parts` is said and nothing was begun.
fn check_refused(folder: &Path, text: &str, parts: &[&str]) {
    let file = folder.join("asat.toml");
    // Where it is taken after all, it must not begin in the machine's own folders.
    let state = if text.contains("state") { "" } else { "state = \"state\"\n" };
    let listen = if text.contains("listen") { "" } else { "listen.unix = \"asat.sock\"\n" };
    fs::write(&file, format!("{listen}{state}{text}")).unwrap();
    let log = refused(&file);
    for part in parts.iter().chain(&["asat.toml"]) {
        assert!(log.contains(part), "{part:?} is not said of:\n{text}\n{log}");
    }
    assert!(!folder.join("state").exists() && !folder.join("asat.sock").exists(), "it began:\n{text}");
}
