//! What can become of a worker, as an error of the store that it worked on.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use asat_core::{Code, Problem};

use crate::store::Error;

/// What is wrong with a worker.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It could not be started.
    Start(io::Error),
    /// It ended before it answered.
    Ended(Option<ExitStatus>),
    /// It did not answer for so long.
    Silent(Duration),
    /// It said what nobody says here.
    Nonsense(String),
    /// The socket failed.
    Io(io::Error),
}

/// The signals that end a process, by what they mean for whoever reads a store.
const SIGBUS: i32 = 7;
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

impl Trouble {
    /// The error of the store.
    pub(super) fn of(self, path: &Path) -> Error {
        let path = path.display();
        let (code, what, hint) = match self {
            Self::Start(error) => (
                Code::Internal,
                format!("cannot start a process to read the store {path}: {error}"),
                "look at the limits of the service (TasksMax, memory), and that a daemon which is root has CAP_SETUID and CAP_SETGID",
            ),
            Self::Ended(status) => ended(&path.to_string(), status),
            Self::Silent(time) => (
                Code::StoreBusy,
                format!(
                    "the process that worked on the store {path} was ended: it had not answered for {} ms",
                    time.as_millis()
                ),
                "look whether the disk of the store answers, and who changes its files, and try again",
            ),
            Self::Nonsense(what) => (
                Code::Internal,
                format!("the process that worked on the store {path} said {what}"),
                "report this as a defect",
            ),
            Self::Io(error) => (
                Code::Internal,
                format!("cannot speak with the process that works on the store {path}: {error}"),
                "look at the kernel's log, and try again",
            ),
        };
        Error::Worker { problem: Problem::new(code, what, hint), is_busy: false }
    }
}

fn ended(path: &str, status: Option<ExitStatus>) -> (Code, String, &'static str) {
    let process = format!("the process that worked on the store {path}");
    match status.and_then(|status| status.signal()) {
        Some(SIGBUS) => (
            Code::StoreUnreadable,
            format!(
                "{process} was ended by SIGBUS: a file of the store was cut short while SQLite had it in memory"
            ),
            "find out who truncates the store's `-shm` file or makes its disk fail, and publish again",
        ),
        Some(SIGABRT) => (
            Code::StoreUnreadable,
            format!("{process} ran out of memory"),
            "look at the store's schema and at the queries of its checks and marker",
        ),
        Some(SIGKILL) => (
            Code::StoreUnreadable,
            format!("{process} was killed"),
            "look into the kernel's log whether memory was short, and try again",
        ),
        Some(signal) => (
            Code::StoreUnreadable,
            format!("{process} was ended by signal {signal}"),
            "run `PRAGMA integrity_check` on the store, and report this as a defect",
        ),
        None => {
            let status = status.and_then(|status| status.code());
            let status = status.map_or(String::new(), |code| format!(" with status {code}"));
            (Code::Internal, format!("{process} ended{status}"), "look into the log, and try again")
        }
    }
}
