//! What the end-to-end tests share: a real daemon in a folder of its own, and a plain HTTP client.
//!
//! The daemon is the binary that was just built, started as a person would start it. Nothing here sleeps to
//! synchronise: a test waits for the line that the daemon prints, or asks the API.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub mod before;
pub mod contract;
pub mod events;
pub mod ground;
pub mod halting;
pub mod setting;
pub mod venv;

use contract::Contract;
use ground::Ground;

/// How long anything may take before a test gives up. Machines under load are slow, and a hang is still found.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Says to those who go on until then that it is over, however that came.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// How every configuration begins: with folders in the world's own.
pub const HEAD: &str = "state = \"state\"\nmounts = \"mnt\"\n";

/// A folder with a store `report`, a configuration, and the daemon that runs on it.
pub struct World {
    pub folder: TempDir,
    /// Where its stores lie.
    pub ground: Ground,
    pub daemon: Option<Running>,
    /// More lines for the configuration, appended to the store's section.
    pub store_config: String,
    /// More lines for the configuration's top level.
    pub top_config: String,
    /// More lines for the configuration, before the store's section.
    pub config: String,
    /// The environment of the next daemon.
    pub env: Vec<(String, String)>,
    /// Whether the next daemon is bound by file modes even where the tests are the superuser's.
    pub ordinary: bool,
    /// What every answer is held against, once there is one.
    pub contract: Option<Contract>,
}

/// A daemon process.
pub struct Running {
    pub child: Child,
    log: Mutex<Receiver<String>>,
}

/// What the daemon answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Where in a file of the archive its frames end, its directory begins, and its manifest.
pub fn parts(segment: &[u8]) -> [usize; 3] {
    let footer = segment.len() - 172;
    [0, 8, 16].map(|at| {
        let place = segment[footer + at..][..8].try_into().unwrap();
        usize::try_from(u64::from_le_bytes(place)).unwrap()
    })
}

/// What the files of an archive say that it is, the newest first, each with its path: their manifests.
pub fn manifests(archive: &Path) -> Vec<(PathBuf, Value)> {
    loop {
        let names = std::fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            names.filter(|path| path.extension().is_some_and(|ext| ext == "segment")).collect();
        files.sort();
        let manifest = |path: PathBuf| {
            let bytes = std::fs::read(&path).ok()?;
            let manifest = serde_json::from_slice(&bytes[parts(&bytes)[2]..bytes.len() - 172]).unwrap();
            Some((path, manifest))
        };
        // One that is gone meanwhile is not needed by a newer one.
        if let Some(manifests) = files.into_iter().rev().map(manifest).collect() {
            return manifests;
        }
    }
}

/// The numbers of the files that are the segments, as a manifest says.
pub fn segments(manifest: &Value) -> Vec<u64> {
    let segments = manifest["segments"].as_array().unwrap().iter();
    segments.map(|segment| segment["file"].as_u64().unwrap()).collect()
}

/// The numbers of the files with records, as a manifest says.
pub fn records(manifest: &Value) -> Vec<u64> {
    let records = manifest["records"].as_array().into_iter().flatten();
    records.map(|records| records["file"].as_u64().unwrap()).collect()
}

/// The versions that an archive has whose daemon does not run. There must be no file that neither its newest manifest nor the one
/// before needs.
pub fn kept_in(archive: &Path) -> Vec<u64> {
    let manifests = manifests(archive);
    let mut needed: Vec<PathBuf> = manifests.iter().take(2).map(|(path, _)| path.clone()).collect();
    for (_, manifest) in manifests.iter().take(2) {
        let named = segments(manifest).into_iter().chain(records(manifest));
        needed.extend(named.map(|file| archive.join(format!("{file:012}.segment"))));
    }
    for (path, _) in tree(archive) {
        assert!(needed.contains(&path), "nothing needs {}: {manifests:#?}", path.display());
    }
    let (archive, opened) = asat_archive::Archive::open(archive).unwrap();
    assert_eq!(opened, asat_archive::Opened::default());
    assert_eq!(archive.unread().len(), 0);
    archive.live()
}

impl World {
    /// A new folder. The store's file is not there yet.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
        Self {
            ground: Ground::of(folder.path()),
            folder,
            daemon: None,
            store_config: String::new(),
            top_config: String::new(),
            config: String::new(),
            env: Vec::new(),
            ordinary: false,
            contract: None,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of the archive that was written as the `number`th: as long as nothing is given up or merged, that of this version.
    pub fn segment(&self, number: u64) -> PathBuf {
        self.path(&format!("state/archive/report/{number:012}.segment"))
    }

    /// The file of the archive that was written last.
    pub fn newest_segment(&self) -> PathBuf {
        let names = std::fs::read_dir(self.path("state/archive/report")).unwrap();
        names.map(|entry| entry.unwrap().path()).max().unwrap()
    }

    pub fn store(&self) -> PathBuf {
        self.store_at("report.db")
    }

    pub fn socket(&self) -> PathBuf {
        self.path("asat.sock")
    }

    /// A connection to the store, made where it is missing.
    pub fn sqlite(&self) -> rusqlite::Connection {
        std::fs::create_dir_all(&self.ground.folder).unwrap();
        let connection = rusqlite::Connection::open(self.store()).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }

    /// Writes the configuration as this world has it; answers its path.
    pub fn write_config(&self) -> PathBuf {
        // Tests' disks are small. Whoever has more to say about the guard says this too.
        // Most tests want to see pages go, and not wait for it.
        let grace = if self.config.contains("[retention]") { "" } else { "[retention]\ngrace = \"0s\"\n" };
        let guard = if self.config.contains("[guard]") { "" } else { "[guard]\nleast_free = \"1 KiB\"" };
        // A guest shares its processors with others: what takes seconds elsewhere may take a minute.
        let is_left_out = self.config.contains("[lvm]") || !self.ground.is_volume();
        let lvm = if is_left_out { "" } else { "\n[lvm]\ntimeout = \"3m\"" };
        let text = format!(
            "{HEAD}{}\n{grace}{guard}{lvm}\n[listen]\nunix = \"asat.sock\"\n{}\n[[store]]\nname = \"report\"\npath = \"{}\"\n{}\n{}\n",
            self.top_config,
            self.config,
            self.written(&self.store()),
            self.ground.asked(),
            self.store_config
        );
        let path = self.path("asat.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts the daemon and waits until it is ready; answers its log until then.
    pub fn start(&mut self) -> String {
        let mut running = self.spawn();
        let log =
            running.wait_for("ready").unwrap_or_else(|log| panic!("the daemon did not become ready:\n{log}"));
        self.daemon = Some(running);
        log
    }

    /// Starts the daemon with another configuration than this world's, and waits until it is ready.
    pub fn start_with(&mut self, config: &str) {
        let path = self.path("other.toml");
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
        command.arg("serve").arg("--config").arg(path).envs(self.env.iter().cloned());
        let mut running = Running::spawn(command);
        running.wait_for("ready").unwrap_or_else(|log| panic!("the daemon did not become ready:\n{log}"));
        self.daemon = Some(running);
    }

    /// Starts the daemon; from then on every answer is held against its OpenAPI document.
    pub fn start_under_contract(&mut self) -> String {
        let log = self.start();
        self.contract = Some(Contract::new(self.get("/openapi.json").json()));
        log
    }

    /// Starts the daemon and waits for nothing.
    pub fn spawn(&self) -> Running {
        let config = self.write_config();
        let daemon = env!("CARGO_BIN_EXE_asat");
        let mut command = if self.ordinary { as_ordinary_user(daemon) } else { Command::new(daemon) };
        command.arg("serve").arg("--config").arg(config).envs(self.env.iter().cloned());
        Running::spawn(command)
    }

    /// Has the daemon read this world's configuration again, and waits for what it says of it.
    pub fn reload(&mut self, verdict: &str) -> String {
        self.write_config();
        self.signal(rustix::process::Signal::HUP);
        self.wait_for_log(verdict)
    }

    /// The number of the daemon's process.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.daemon.as_ref().unwrap().child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Has the daemon stand still, until what is answered is dropped.
    pub fn stand_still(&self) -> impl Drop + use<'_> {
        struct Still<'a>(&'a World);
        impl Drop for Still<'_> {
            fn drop(&mut self) {
                self.0.signal(rustix::process::Signal::CONT);
            }
        }
        self.signal(rustix::process::Signal::STOP);
        let pid = rustix::process::Pid::from_child(&self.daemon.as_ref().unwrap().child);
        let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{stopped:?}");
        Still(self)
    }

    /// Waits until the daemon has said something since the last time; answers what it has said until then.
    pub fn wait_for_log(&mut self, text: &str) -> String {
        let daemon = self.daemon.as_mut().unwrap();
        daemon.wait_for(text).unwrap_or_else(|log| panic!("the daemon ended:\n{log}"))
    }

    /// Ends the daemon as the machine's power would.
    pub fn kill(&mut self) {
        let mut running = self.daemon.take().unwrap();
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }

    /// Ends the daemon as a service manager would.
    pub fn stop(&mut self) -> ExitStatus {
        let mut running = self.daemon.take().unwrap();
        running.terminate();
        running.exit()
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let answer = try_request(&self.socket(), method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        if let Some(contract) = &self.contract {
            contract
                .check(method, path, &answer)
                .unwrap_or_else(|why| panic!("{method} {path}: {why}\n{answer}"));
        }
        answer
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.request(method, path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    /// Publishes, and answers the publication; any refusal is a failure of the test.
    pub fn publish(&self, label: &str) -> Value {
        let answer = self.send("POST", "/snapshots", &serde_json::json!({ "label": label }));
        assert!(answer.status == 200 || answer.status == 201, "{answer}");
        answer.json()
    }

    /// Opens a version; answers the path of its as-at copy.
    pub fn open(&self, version: &str) -> PathBuf {
        let answer = self.send(
            "POST",
            &format!("/versions/{version}/mounts"),
            &serde_json::json!({ "holder": "test" }),
        );
        assert_eq!(answer.status, 201, "{answer}");
        PathBuf::from(answer.json()["path"].as_str().unwrap())
    }

    /// The command-line client of the same build, pointed at this daemon.
    pub fn asat(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
        command.env("ASAT_SERVER", format!("unix:{}", self.socket().display()));
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind either.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that file modes bind, as they do not bind the superuser.
pub fn as_ordinary_user(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-dac_override,-dac_read_search", program]);
    command
}

impl Running {
    /// Starts a command whose standard error is the daemon's log.
    pub fn spawn(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, log) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Self { child, log: Mutex::new(log) }
    }

    /// Waits for a line with this text; the log so far where the daemon ends without it.
    pub fn wait_for(&mut self, text: &str) -> Result<String, String> {
        let (mut seen, deadline) = (String::new(), Instant::now() + PATIENCE);
        while let Ok(line) =
            self.log.get_mut().unwrap().recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            writeln!(seen, "{line}").unwrap();
            if line.contains(text) {
                return Ok(seen);
            }
        }
        Err(seen)
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for the end of the process.
    pub fn exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        // The log ends with the process, so this waits without polling.
        while self
            .log
            .get_mut()
            .unwrap()
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .is_ok()
        {}
        self.child.wait().unwrap()
    }

    /// Everything that is still in the log, once the process has ended.
    pub fn rest_of_log(&mut self) -> String {
        self.log.get_mut().unwrap().iter().collect::<Vec<_>>().join("\n")
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Checks that this is a problem of the given status and code, with something to read and to do.
    pub fn expect_problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{self}");
        assert_eq!(problem["status"], status, "{self}");
        for field in ["type", "title", "detail", "hint"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {self}");
        }
        problem
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}\n{}", self.status, self.headers, String::from_utf8_lossy(&self.body))
    }
}

/// One request on a connection of its own. A body that is shorter than was promised is an error.
pub fn try_request(
    socket: &Path,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    exchange(stream, method, path, headers, body)
}

/// One request, and its answer, on a connection that is used for nothing else.
pub fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += "Host: asat\r\n";
    }
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    write!(head, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
    stream.write_all(head.as_bytes())?;
    // A server that refuses early may not read the body to its end.
    let _ = stream.write_all(body);
    let mut reply = Vec::new();
    let read = stream.read_to_end(&mut reply);
    let broken = || std::io::Error::other("the connection ended amid an answer");
    let answer = match (parse(&reply), read) {
        (Some(answer), _) => answer,
        (None, Ok(_)) => return Err(broken()),
        (None, Err(error)) => return Err(error),
    };
    let promised = answer.header("content-length").and_then(|length| length.parse::<usize>().ok());
    let bodiless = method == "HEAD" || answer.status == 304;
    if !bodiless && promised.is_some_and(|length| length != answer.body.len()) {
        return Err(broken());
    }
    Ok(answer)
}

fn parse(mut reply: &[u8]) -> Option<Answer> {
    // An interim answer is none yet.
    while let Some(rest) = reply.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n") {
        reply = rest;
    }
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&reply[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let header = |line: &str| line.split_once(':').map(|(k, v)| (k.to_owned(), v.trim().to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let mut answer = Answer { status, headers, body: reply[end + 4..].to_vec() };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunk(&answer.body)?;
    }
    Some(answer)
}

fn unchunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).ok()?, 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(body.get(end + 2..end + 2 + length)?);
        body = body.get(end + 2 + length + 2..)?;
    }
}

/// Every file below a folder, with its size.
pub fn tree(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                found.push((entry.path(), metadata.len()));
            }
        }
    }
    found.sort();
    found
}
