//! The stock clients: the `sqlite3` program, and Python's `sqlite3` in a process of its own.
//!
//! Neither is the SQLite that asat is built with, and both take locks as any other process does.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A Python process that keeps stores open and reads copies.
pub struct Python {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Python {
    /// Starts the client.
    pub fn start() -> Self {
        let mut child = python(include_str!("client.py"), &[]);
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, requests, answers }
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{request}: no answer"));
        assert!(answer["error"].is_null(), "{request}: {answer}");
        answer["ok"].clone()
    }

    /// Runs statements in a store that stays open; answers the rows of the last one.
    pub fn run(&mut self, store: &Path, sql: &[&str]) -> Value {
        self.ask(&json!({ "do": "run", "path": store, "sql": sql }))
    }

    /// The first number that a statement gives in a store that stays open.
    pub fn number(&mut self, store: &Path, sql: &str) -> i64 {
        self.run(store, &[sql])[0][0].as_i64().unwrap()
    }

    /// Closes a store.
    pub fn close(&mut self, store: &Path) {
        self.ask(&json!({ "do": "close", "path": store }));
    }

    /// Everything that SQLite shows of an open store, as a digest.
    pub fn inside(&mut self, store: &Path) -> String {
        self.ask(&json!({ "do": "inside", "path": store })).as_str().unwrap().to_owned()
    }

    /// Opens a copy by its URI, checks its integrity, and answers its content as [`Python::inside`] does.
    pub fn read_uri(&mut self, uri: &str) -> String {
        self.read(&json!({ "do": "read", "path": uri, "uri": true }))
    }

    /// The same by its plain path.
    pub fn read_path(&mut self, path: &Path) -> String {
        self.read(&json!({ "do": "read", "path": path, "uri": false }))
    }

    fn read(&mut self, request: &Value) -> String {
        let found = self.ask(request);
        assert_eq!(found["integrity"], json!(["ok"]), "{request}");
        found["content"].as_str().unwrap().to_owned()
    }

    /// Opens a copy by its URI and answers the rows of one statement.
    pub fn query(&mut self, uri: &str, sql: &str) -> Value {
        self.ask(&json!({ "do": "query", "uri": uri, "sql": sql }))
    }

    /// Ends the client as a crash would, whatever it has open.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // Without requests it ends by itself, and closes what it has open.
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// Starts a Python program that is talked to over pipes.
pub fn python(program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new("python3");
    command.arg("-c").arg(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("python3: {error}; install the package python3"))
}

/// Runs the `sqlite3` program and answers what it prints.
pub fn sqlite3(arguments: &[&str]) -> String {
    let output = try_sqlite3(Command::new("sqlite3").args(arguments));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "sqlite3 {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the `sqlite3` program, which may fail.
pub fn try_sqlite3(command: &mut Command) -> std::process::Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}; install the package sqlite3"))
}

/// A database as SQL text, by the `sqlite3` program.
pub fn dump(database: &str) -> String {
    sqlite3(&["-readonly", database, ".dump"])
}

/// What the `sqlite3` program says of the integrity of a database.
pub fn integrity(database: &str) -> String {
    sqlite3(&["-readonly", database, "PRAGMA integrity_check"]).trim().to_owned()
}
