//! Outside: boots a guest, runs one command inside, and brings back how it ended and what it said.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::folders::Folders;
use super::guest::Guest;
use super::needs;
use super::processor::Processor;

/// How long before its deadline a guest tells what it is waiting for. It takes seconds to boot, too.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What a test needs: a guest that is not booted yet. All boots of one lab see the same disks.
pub struct Lab {
    /// The bytes of each disk.
    pub(super) disks: Vec<u64>,
    pub(super) systemd: bool,
    memory: String,
    deadline: Duration,
    env: Vec<(String, String)>,
    sees: Vec<String>,
    folders: OnceCell<Folders>,
}

/// How a command inside ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this exit status.
    Exit(i32),
    /// By a power cut that it asked for.
    Cut,
    /// By a power cut at the deadline.
    Deadline,
    /// With its guest, which died or did not start.
    Died,
}

/// What came out of a guest.
#[derive(Debug)]
pub struct Ran {
    pub status: Status,
    /// The command's standard output and error, byte for byte.
    pub output: Vec<u8>,
    /// What the guest's kernel and its first processes said.
    pub console: String,
    /// From the start of the boot to the command's end.
    pub elapsed: Duration,
}

impl Lab {
    /// One disk of 1 GiB, 768 MiB of memory, ten minutes (for what hangs on a busy machine, too), no systemd.
    pub fn new() -> Self {
        Self {
            disks: vec![1 << 30],
            systemd: false,
            memory: "768M".to_owned(),
            deadline: Duration::from_secs(600),
            env: Vec::new(),
            sees: seen_always(),
            folders: OnceCell::new(),
        }
    }

    /// How many disks, and how large each, as in `512M` or `2G`.
    pub fn disks(mut self, count: usize, size: &str) -> Self {
        self.disks = vec![bytes(size); count];
        self
    }

    /// Disks of these sizes.
    pub fn disk_sizes(mut self, sizes: &[&str]) -> Self {
        self.disks = sizes.iter().map(|size| bytes(size)).collect();
        self
    }

    pub fn memory(mut self, size: &str) -> Self {
        size.clone_into(&mut self.memory);
        self
    }

    /// When a guest that is not done is ended, counted from each boot.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Whether systemd, udev and dmeventd run inside. That boots more slowly.
    pub fn systemd(mut self, systemd: bool) -> Self {
        self.systemd = systemd;
        self
    }

    /// A variable in the command's environment. It has nothing of the outside's environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A folder that the guest sees, read-only, even below `/tmp`. It always sees the build and the sources.
    pub fn sees(mut self, folder: &Path) -> Self {
        self.sees.push(folder.to_str().unwrap().to_owned());
        self
    }

    /// Boots the guest and runs a command in it.
    pub fn run(&self, command: &[&str]) -> Ran {
        self.boot(command, &[])
    }

    /// The folders on this machine that hold the lab, with `:` between them.
    pub fn folder_names(&self) -> String {
        self.folders().both()
    }

    pub(super) fn folders(&self) -> &Folders {
        self.folders.get_or_init(|| Folders::new(&self.disks))
    }

    pub(super) fn boot(&self, command: &[&str], env: &[(&str, &str)]) -> Ran {
        needs::for_guest(self);
        let began = Instant::now();
        let mut script = "#!/bin/sh\n".to_owned();
        for (name, value) in self.env.iter().map(|(n, v)| (n.as_str(), v.as_str())).chain(env.iter().copied())
        {
            writeln!(script, "export {name}={}", quoted(value)).unwrap();
        }
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        writeln!(script, "exec {}", words.join(" ")).unwrap();
        self.folders().script("command", &script);
        let patience = self
            .deadline
            .checked_sub(LAST_WORDS)
            .map_or("infinity".to_owned(), |left| left.as_secs().to_string());
        self.folders().script("patience", &patience);
        let processor = Processor::least_used();
        let guest = Guest::start(self.kernel(&processor), processor);
        let status = guest.follow(began + self.deadline);
        let elapsed = began.elapsed();
        let (output, console) = guest.end();
        self.folders().wait_for_release();
        Ran { status, output, console, elapsed }
    }

    /// The guest's kernel, under its keeper. Its terminals are the output, and the socket to the runner.
    fn kernel(&self, processor: &Processor) -> Command {
        let folders = self.folders();
        let scripts = folders.scripts().display();
        let mut kernel = Command::new("sh");
        kernel.args(["-c", include_str!("guest-keeper"), "keeper", &folders.both()]);
        let registers = folders.scripts().join("registers.so");
        kernel.args(processor.command());
        let (program, modules) = needs::kernel();
        kernel.arg("env").arg(format!("LD_PRELOAD={}", registers.display())).arg(program);
        // What runs inside is trusted: it could reach its kernel's memory by this. One that is too old for it does without.
        kernel.args([&format!("mem={}", self.memory), "seccomp=auto"]);
        for (number, disk) in folders.disks().iter().enumerate() {
            kernel.arg(format!("ubd{number}={}", disk.display()));
        }
        kernel.args(["rootfstype=hostfs", "rootflags=/", "ro", "quiet", "umid=guest"]);
        kernel.arg(format!("init={scripts}/guest-init")).arg(format!("uml_dir={scripts}"));
        kernel.arg(format!("GUEST_FOLDER={scripts}")).arg(format!("GUEST_SEES={}", self.sees.join(":")));
        kernel.arg(format!("GUEST_MODULES={}", modules.display()));
        if self.systemd {
            kernel.arg("GUEST_SYSTEMD=1");
        }
        kernel.args(["con=null", "con0=null,fd:2", "con1=null,fd:1", "con2=null,fd:0"]);
        kernel.env("PATH", needs::PATH);
        kernel
    }
}

impl Ran {
    /// The output of a command that ended with status 0; anything else fails the test.
    pub fn expect_success(&self) -> String {
        assert_eq!(self.status, Status::Exit(0), "{self}");
        self.text()
    }

    /// The output, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "ended after {:?}: {:?}", self.elapsed, self.status)?;
        writeln!(f, "--- output\n{}\n--- console\n{}", self.text(), self.console)
    }
}

/// What was built, and from what.
fn seen_always() -> Vec<String> {
    let binary = std::env::current_exe().unwrap();
    // The test binary lies in `deps`; programs of the package lie one folder higher.
    let build = binary.ancestors().nth(2).unwrap();
    vec![build.to_str().unwrap().to_owned(), super::root().to_str().unwrap().to_owned()]
}

/// A size as in `512M`.
pub(super) fn bytes(size: &str) -> u64 {
    let (number, shift) = match size.split_at(size.len() - 1) {
        (number, "K") => (number, 10),
        (number, "M") => (number, 20),
        (number, "G") => (number, 30),
        _ => panic!("a size reads like 512M, not {size}"),
    };
    number.parse::<u64>().unwrap() << shift
}

/// A word as the shell reads it back unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
