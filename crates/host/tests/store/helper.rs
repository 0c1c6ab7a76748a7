//! Another process: this test binary again, told by its environment what to do.
//!
//! Locks between two connections of one process never meet the kernel, and this process's own locks are never
//! reported, so what is said of "somebody else" needs somebody else.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;

use asat_host::store::{Restoring, read_frozen, read_pages, restore, still};
use rusqlite::Connection;

use crate::common::{Collector, PATIENT, ask, assert_free, collect, into_problem, make_store};

const JOB: &str = "ASAT_HOST_TEST_JOB";
const STORE: &str = "ASAT_HOST_TEST_STORE";
const USER: &str = "ASAT_HOST_TEST_USER";
const NOBODY: Somebody = (65534, 65534, 65534);

/// A helper that has done its job, and stays until it is dropped.
pub(crate) struct Helper {
    child: Child,
    _output: Lines<BufReader<ChildStdout>>,
    /// What it reported.
    pub(crate) report: String,
}

/// Who a helper is: the numbers of a user, of its group, and of another group.
pub(crate) type Somebody = (u32, u32, u32);

impl Helper {
    /// Starts a process of somebody else, which ends by itself or stays until it is dropped.
    pub(crate) fn of(who: Somebody, store: &Path, job: &str) -> Self {
        Self::start(store, job, Some(who))
    }

    /// Starts a process that executes `sql` on the store and keeps the connection open.
    pub(crate) fn execute(store: &Path, sql: &str) -> Self {
        Self::start(store, &format!("sql:{sql}"), None)
    }

    /// Starts a process that reads the store as the user and group `nobody`.
    pub(crate) fn read_as_nobody(store: &Path) -> String {
        Self::start(store, "read", Some(NOBODY)).report.clone()
    }

    /// Starts a process that commits transfers between two tables until it is dropped.
    pub(crate) fn transfer(store: &Path) -> Self {
        Self::repeat(store, "PRAGMA synchronous = off", TRANSFER)
    }

    /// Starts a process that executes `first` on the store and then `again` until it is dropped.
    pub(crate) fn repeat(store: &Path, first: &str, again: &str) -> Self {
        Self::start(store, &format!("repeat:{first}|{again}"), None)
    }

    /// Starts a process that holds the store still, and says what a commit waits for, or why it cannot.
    pub(crate) fn still(store: &Path, must_hold: bool, user: Option<u32>) -> Self {
        Self::start(store, &format!("still:{must_hold}"), user.map(|user| (user, user, user)))
    }

    /// Reads a file as from a mounted snapshot, in a folder where nothing can be made, and lays the copy down
    /// elsewhere; answers what came of it.
    pub(crate) fn read_frozen(file: &Path, with_wal: bool, copy: &Path) -> String {
        let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && \
                      exec \"$2\" helper::another_process --exact --nocapture";
        Self::apart(script, file, file.parent().unwrap(), &format!("frozen:{with_wal}:{}", copy.display()))
    }

    /// Ends the process at once, with whatever it has.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
    }

    /// Starts a process that restores the store, and kills itself when told of progress for the `nth` time.
    pub(crate) fn restore_and_die(store: &Path, source: &Path, nth: u32) {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["helper::another_process", "--exact"]).env(STORE, store).stdout(Stdio::null());
        let status = command.env(JOB, format!("restore:{nth}:{}", source.display())).status().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    }

    /// Restores a small store on a disk of 2 MiB, mounted in a namespace of its own; answers what came of it.
    pub(crate) fn restore_on_a_small_disk(disk: &Path, journal: &str, source: &Path) -> String {
        let script = "mount -t tmpfs -o size=2m none \"$1\" && exec \"$2\" helper::another_process --exact --nocapture";
        Self::apart(script, &disk.join("store.db"), disk, &format!("full:{journal}:{}", source.display()))
    }

    /// Runs a job in a mount namespace of its own, after what the script does with the folder.
    fn apart(script: &str, store: &Path, folder: &Path, job: &str) -> String {
        let mut command = Command::new("unshare");
        command.arg(if rustix::process::geteuid().is_root() { "-m" } else { "-rm" });
        command.args(["sh", "-c", script, "sh"]).arg(folder).arg(env::current_exe().unwrap());
        command.env(STORE, store).env(JOB, job);
        let output = command.output().expect("this test needs the program unshare (package util-linux)");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let report = printed.lines().find_map(|line| Some(line.split_once("report: ")?.1.to_owned()));
        report.unwrap_or_else(|| panic!("{output:?}"))
    }

    fn start(store: &Path, job: &str, user: Option<Somebody>) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["helper::another_process", "--exact", "--nocapture"]).env(JOB, job).env(STORE, store);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some((user, group, other)) = user {
            command.env(USER, format!("{user} {group} {other}"));
        }
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let report = output.find_map(|line| Some(line.unwrap().split_once("report: ")?.1.to_owned()));
        Self { child, _output: output, report: report.unwrap() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What the other process does. In the ordinary run there is no job, and nothing is tested here.
#[test]
fn another_process() {
    let Ok(job) = env::var(JOB) else { return };
    let store = env::var_os(STORE).unwrap();
    let store = Path::new(&store);
    if let Ok(user) = env::var(USER) {
        become_user(&user);
    }
    if job == "read" {
        let mut sink = Collector::default();
        let result = read_pages(store, &PATIENT, &AtomicBool::new(false), &mut sink);
        return report(&match result {
            Ok(read) => format!("read {} pages", read.page_count),
            Err(failed) => format!("{:?}", into_problem(failed).0),
        });
    }
    if let Some((nth, source)) = job.strip_prefix("restore:").and_then(|rest| rest.split_once(':')) {
        let mut left: u32 = nth.parse().unwrap();
        let mut tell = |_, _| {
            left -= 1;
            if left == 0 {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        };
        let cancel = AtomicBool::new(false);
        let restoring = Restoring { source: Path::new(source), limits: &PATIENT, cancel: &cancel };
        restore(store, &restoring, || Ok(true), &mut tell).unwrap();
        return;
    }
    if let Some((journal, source)) = job.strip_prefix("full:").and_then(|rest| rest.split_once(':')) {
        drop(make_store(store, journal, 10));
        let (before, cancel) = (collect(store).1, AtomicBool::new(false));
        let restoring = Restoring { source: Path::new(source), limits: &PATIENT, cancel: &cancel };
        let failed = restore(store, &restoring, || Ok(true), &mut |_, _| {}).unwrap_err();
        assert_free(store);
        let same = ask(&collect(store).1, "SELECT group_concat(text) FROM t")
            == ask(&before, "SELECT group_concat(text) FROM t");
        return report(&format!("{:?} {same}", asat_core::Problem::from(failed).code));
    }
    if let Some(source) = job.strip_prefix("give:") {
        let cancel = AtomicBool::new(false);
        let restoring = Restoring { source: Path::new(source), limits: &PATIENT, cancel: &cancel };
        return report(&match restore(store, &restoring, || Ok(true), &mut |_, _| {}) {
            Ok(_) => "restored".to_owned(),
            Err(error) => format!("{:?}", asat_core::Problem::from(error)),
        });
    }
    if let Some(must_hold) = job.strip_prefix("still:") {
        let held = still(store, &PATIENT, &AtomicBool::new(false), must_hold == "true");
        report(&match &held {
            Ok(still) => format!("{:?}", still.state().hold),
            Err(error) => error.to_string(),
        });
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    if let Some((with_wal, copy)) = job.strip_prefix("frozen:").and_then(|rest| rest.split_once(':')) {
        let mut sink = Collector::default();
        let read = read_frozen(store, with_wal == "true", &AtomicBool::new(false), &mut sink);
        std::fs::write(copy, &sink.bytes).unwrap();
        return report(&match read {
            Ok(read) => format!("read {} pages", read.page_count),
            Err(failed) => format!("{:?}", into_problem(failed).0),
        });
    }
    let connection = Connection::open(store).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    if let Some(sql) = job.strip_prefix("sql:") {
        connection.execute_batch(sql).unwrap();
        report("done");
        let _ = std::io::stdin().read(&mut [0]);
    } else {
        let (first, again) = job.strip_prefix("repeat:").unwrap().split_once('|').unwrap();
        connection.execute_batch(first).unwrap();
        report("started");
        let stop = std::thread::spawn(|| std::io::stdin().read(&mut [0]).unwrap());
        while !stop.is_finished() {
            connection.execute_batch(again).unwrap();
        }
    }
}

/// Goes on as another user. This binary may lie in a folder that only root looks into, so it is started by root.
fn become_user(who: &str) {
    let numbers: Vec<u32> = who.split(' ').map(|number| number.parse().unwrap()).collect();
    nix::unistd::setgroups(&[numbers[2].into()]).unwrap();
    nix::unistd::setgid(numbers[1].into()).unwrap();
    nix::unistd::setuid(numbers[0].into()).unwrap();
}

/// One transaction after which everything is as it was, except for the generation and the distribution; the
/// number of pages goes up and down.
pub(crate) const TRANSFER: &str = "
    BEGIN IMMEDIATE;
    UPDATE a SET v = v - 3 WHERE id % 7 = (SELECT g FROM generation) % 7;
    UPDATE b SET v = v + 3 WHERE id % 7 = (SELECT g FROM generation) % 7;
    UPDATE generation SET g = g + 1;
    INSERT INTO filling SELECT zeroblob(50000) FROM generation WHERE g % 50 < 25;
    DELETE FROM filling WHERE (SELECT g FROM generation) % 50 = 25;
    UPDATE echo SET g = g + 1;
    COMMIT;
    PRAGMA incremental_vacuum(5);";

fn report(text: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "report: {text}").unwrap();
    output.flush().unwrap();
}
