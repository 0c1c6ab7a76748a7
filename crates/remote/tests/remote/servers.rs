//! Servers that speak S3, for the tests of what is kept in object storage.
//!
//! moto keeps its objects in memory and takes any credentials. versitygw checks them, and its objects are plain files that a
//! test can look at and damage. The first test that needs one installs it below `target`, and later runs find it again:
//! moto comes from PyPI, and versitygw is built from its Go module, by a Go that comes from PyPI too and goes away after the
//! build. What PyPI gives must have the hashes in `moto/requirements.txt` and `versitygw/requirements.txt`, and the Go checksum
//! database vouches for the rest.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What every server is asked with. The region is `us-east-1`.
pub(crate) const ACCESS_KEY: &str = "test";
/// What goes with [`ACCESS_KEY`].
pub(crate) const SECRET_KEY: &str = "testtest1";

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(20);

/// On how many ports a server is tried.
const PORTS: usize = 5;

/// Runs a server until this shell's standard input ends, as it does if the test lets go of it, and also if the test is killed.
/// All that the server has started ends with it.
const SUPERVISOR: &str = r#"
    exec 3<&0
    "$@" </dev/null 3<&- & server=$!
    { read -r _ <&3; kill -KILL "$server"; } &
    wait "$server"
    echo "The server ended with status $?." >&2
    kill -KILL 0
"#;

/// A server that listens on 127.0.0.1 until it is dropped, or until this process ends.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    /// `http://127.0.0.1:PORT`. It has its buckets in paths, not in names of hosts.
    pub(crate) endpoint: String,
    address: SocketAddr,
    command: fn(&Server) -> Command,
    /// Has its log in it, and its objects if they are files.
    own: PathBuf,
    /// The supervisor, whose standard input is kept open here.
    child: Option<Child>,
}

/// A server in memory: it has forgotten all once it is started again.
pub(crate) fn moto() -> Server {
    Server::new("moto", |server| {
        let mut command = Command::new(installed_moto());
        command.args(["-H", &server.address.ip().to_string(), "-p", &server.address.port().to_string()]);
        command
    })
}

/// A server over files. Their file system must take extended attributes of users.
pub(crate) fn versitygw() -> Server {
    Server::new("versitygw", |server| {
        // Objects that are no longer the newest are kept out of the way, if a test has versions kept at all.
        let [data, versions, users] = ["data", "versions", "users"].map(|part| server.own.join(part));
        for folder in [&data, &versions, &users] {
            fs::create_dir_all(folder).unwrap();
        }
        let mut command = Command::new(installed_versitygw());
        command.args(["--port", &server.address.to_string(), "--access", ACCESS_KEY, "--secret", SECRET_KEY]);
        command.arg("--iam-dir").arg(users);
        command.args(["posix", "--versioning-dir"]).args([versions, data]);
        command
    })
}

impl Server {
    fn new(name: &'static str, command: fn(&Server) -> Command) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let own = below_target(&format!("{name}-{}-{count}", process::id()));
        // A killed process of the same number may have left its own.
        let _ = fs::remove_dir_all(&own);
        fs::create_dir(&own).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut server = Self { name, endpoint: String::new(), address, command, own, child: None };
        let started = (0..PORTS).any(|_| {
            server.address = free_address();
            server.endpoint = format!("http://{}", server.address);
            server.start()
        });
        assert!(started, "{name} does not start:\n{}", server.log());
        server
    }

    /// Makes a bucket. versitygw takes a folder for one.
    pub(crate) fn bucket(&self, name: &str) {
        if let Some(data) = self.folder() {
            return fs::create_dir(data.join(name)).unwrap();
        }
        let answer = self.ask(&format!("PUT /{name}")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// Asks as the tools of AWS do: runs Python with boto3, with this server's `endpoint`, `access` and `secret` in its arguments, and more.
    pub(crate) fn boto(&self, script: &str, more: &[&str]) {
        let mut python = Command::new(moto_folder().join("bin/python"));
        python.args(["-c", script, &self.endpoint, ACCESS_KEY, SECRET_KEY]).args(more);
        run(&mut python);
    }

    /// Makes a user of versitygw, who may do what the policies of buckets say.
    pub(crate) fn user(&self, access: &str, secret: &str) {
        let mut admin = Command::new(installed_versitygw());
        admin.args(["admin", "--access", ACCESS_KEY, "--secret", SECRET_KEY]);
        admin.args(["--endpoint-url", &self.endpoint, "create-user", "--role", "user"]);
        run(admin.args(["--access", access, "--secret", secret]));
    }

    /// The folder in which buckets are folders and objects are plain files, if this server has one.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        Some(self.own.join("data")).filter(|data| data.is_dir())
    }

    /// All that the server has said. versitygw and moto say a line about every request.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.own.join("log")).unwrap()).into_owned()
    }

    /// Kills the server. Connections to it are refused from now on.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It closes the supervisor's standard input first.
            let _ = child.wait();
        }
    }

    /// Starts the server on the same port, with what it has kept.
    pub(crate) fn start_again(&mut self) {
        self.stop();
        assert!(self.start(), "{} does not start again:\n{}", self.name, self.log());
    }

    /// Starts the server and says whether it answers. If not, it is stopped.
    fn start(&mut self) -> bool {
        let command = (self.command)(self);
        let log = File::options().create(true).append(true).open(self.own.join("log")).unwrap();
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR, self.name]).arg(command.get_program()).args(command.get_args());
        supervisor.process_group(0).stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(supervisor.spawn().unwrap());
        let deadline = Instant::now() + START;
        while self.runs() && Instant::now() < deadline {
            // If another program has taken the port, that one answers, and the server ends.
            if self.ask("GET /").is_ok_and(|answer| answer.starts_with("HTTP/1.1 ")) && self.runs() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.stop();
        false
    }

    fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// The answer to a request that nobody has signed.
    fn ask(&self, request: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let head = format!("Host: {}\r\nContent-Length: 0\r\nConnection: close", self.address);
        stream.write_all(format!("{request} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes())?;
        io::read_to_string(stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.own);
    }
}

/// An address on which nothing listens, at least until somebody else takes it.
fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// The Python environment that moto is installed in.
pub(crate) fn moto_folder() -> PathBuf {
    const REQUIREMENTS: &str = include_str!("moto/requirements.txt");
    installed("moto-5.2.5", REQUIREMENTS, |folder| install_python(folder, REQUIREMENTS))
}

/// The program of moto.
fn installed_moto() -> PathBuf {
    moto_folder().join("bin/moto_server")
}

/// The program of versitygw. Only that stays of more than a gigabyte that its build needs.
fn installed_versitygw() -> PathBuf {
    const REQUIREMENTS: &str = include_str!("versitygw/requirements.txt");
    let installed = installed("versitygw-1.8.0", REQUIREMENTS, |folder| {
        let build = folder.join("build");
        install_python(&build, REQUIREMENTS);
        let mut go = Command::new(build.join("bin/go"));
        // Go writes files that it may not remove, unless it is told otherwise.
        go.args(["install", "-modcacherw", "-trimpath", "-ldflags=-s -w"]);
        go.arg("github.com/versity/versitygw/cmd/versitygw@v1.8.0");
        go.env("GOBIN", folder.join("bin"));
        go.envs([("GOFLAGS", ""), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")]);
        for place in ["GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "XDG_CONFIG_HOME"] {
            fs::create_dir(build.join(place)).unwrap();
            go.env(place, build.join(place));
        }
        run(&mut go);
        fs::remove_dir_all(build).unwrap();
    });
    installed.join("bin/versitygw")
}

/// The folder of this name below `target`, as `install` makes it for what is required. Who comes second waits for the first.
fn installed(name: &str, requirements: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let folder = below_target(name);
    let lock = File::create(below_target(&format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let whole = folder.join("whole");
    if fs::read_to_string(&whole).is_ok_and(|installed| installed == requirements) {
        return folder;
    }
    let _ = fs::remove_dir_all(&folder);
    install(&folder);
    fs::write(whole, requirements).unwrap();
    folder
}

/// Makes a virtual environment with what a `requirements.txt` names.
fn install_python(folder: &Path, requirements: &str) {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder));
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]);
    let file = folder.join("requirements.txt");
    fs::write(&file, requirements).unwrap();
    run(pip.args(["--require-hashes", "--requirement"]).arg(file));
}

fn run(command: &mut Command) {
    let output = command.output().expect("this test needs python3 (package python3-venv)");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

fn below_target(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
