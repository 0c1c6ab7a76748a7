//! A daemon that answers from a script and remembers what it was asked.
//!
//! It speaks only as much HTTP as is needed to answer wrongly in every way: an answer is a string of bytes, and
//! the connection ends after it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What one request was.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and target.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Asked {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// The daemon and its socket.
pub(crate) struct Fake {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// Gives these answers, one after the other, and hangs up on whoever comes later.
    pub(crate) fn new(answers: impl IntoIterator<Item = String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("asat.sock")).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, remembered) = (answers.into_iter().collect::<Vec<_>>(), Arc::clone(&asked));
        std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                remembered.lock().unwrap().push(read(&stream));
                // Whoever hung up early does so on purpose.
                let _ = stream.write_all(answers.next().unwrap_or_default().as_bytes());
            }
        });
        Self { folder, asked }
    }

    /// Where the test may write.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The value of `--server`.
    pub(crate) fn address(&self) -> String {
        format!("unix:{}", self.folder.path().join("asat.sock").display())
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The only thing that was asked.
    pub(crate) fn asked_once(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked[0].clone()
    }

    /// Runs `asat` with these arguments against this daemon.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::new(asat().env("ASAT_SERVER", self.address()).args(args).output().unwrap())
    }

    /// A file in the test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The real binary, in a known environment.
pub(crate) fn asat() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command.env_remove("ASAT_SERVER").env_remove("ASAT_TOKEN_FILE").env("USER", "anna");
    command
}

fn read(stream: &UnixStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let mut lines = lines.into_iter();
    let first = lines.next().unwrap_or_default();
    let header = |line: String| {
        let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
        (name.to_lowercase(), value.to_owned())
    };
    let headers: Vec<(String, String)> = lines.map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Asked { line: first.trim_end_matches(" HTTP/1.1").to_owned(), headers, body }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Ran {
    /// From what the process left.
    pub(crate) fn new(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Standard output as JSON, on one line.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }
}

/// An answer with this status and body.
pub(crate) fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// An answer with this JSON.
pub(crate) fn json(status: u16, body: &Value) -> String {
    answer(status, &body.to_string())
}

/// A problem of this kind.
pub(crate) fn problem(status: u16, code: &str) -> String {
    let body = serde_json::json!({
        "type": "about:blank", "title": "T", "status": status, "code": code,
        "detail": "what happened", "hint": "what to do",
    });
    json(status, &body)
}

/// A version.
pub(crate) fn version(number: u64) -> Value {
    serde_json::json!({
        "id": format!("report@{number}"), "store": "report", "number": number, "state": "ready",
        "cut_at": "2026-11-19T17:00:03.123456Z", "fingerprint": "00ff", "size_bytes": 5, "page_size": 4096,
        "holdings": [{ "kind": "archive", "bytes": 812_344 }],
        "publication_count": 1, "known_by": 0, "publications": [{
            "at": "2026-11-19T17:00:00.000000Z", "label": format!("close \u{1b}[2J{number}"), "certified_by": "ops",
            "business_date": null, "note": null, "attributes": {}, "checks": [],
        }],
        "pin": null, "tags": [], "leases": 0, "path": null, "ended_at": null, "end_reason": null,
    })
}
