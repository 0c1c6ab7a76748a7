//! A query as the daemon has it answered: the process is started, heard and ended.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::{Code, Problem};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{Asked, Said, Workspace};
use crate::program::input;

/// How often it is looked whether the answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How much longer than the query the process may take.
const GRACE: Duration = Duration::from_secs(5);
/// How much is read at a time.
const PIECE: usize = 64 << 10;

/// Has a query answered by a program of these arguments, which calls [`super::serve`]; writes the lines of the answer. Its temporary files
/// are in `workspace`. As soon as `given_up` is true, the process is ended.
///
/// # Errors
/// [`Code::Invalid`] if SQLite cannot answer the query within its bounds; if the process fails, or the answer is not taken.
pub fn run(
    program: &Path,
    arguments: &[&OsStr],
    asked: &Asked,
    workspace: &Workspace,
    given_up: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), Problem> {
    let text = serde_json::to_vec(asked).map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .current_dir(workspace.path())
        .env("SQLITE_TMPDIR", ".")
        .process_group(0);
    command.stdin(input(&text).map_err(|error| failed(&error))?);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| failed(&error))?;
    let mut process = Process { child, until: Instant::now() + asked.bounds.time + GRACE };
    process.hear(asked, given_up, out)
}

/// The process. It ends with the value.
struct Process {
    child: Child,
    until: Instant,
}

impl Process {
    /// Passes the answer on.
    fn hear(&mut self, asked: &Asked, given_up: &AtomicBool, out: &mut dyn Write) -> Result<(), Problem> {
        let (mut rest, mut piece) = (Vec::new(), vec![0; PIECE]);
        loop {
            let read = self.read(&mut piece, given_up)?;
            if read == 0 {
                return Err(self.ended(asked));
            }
            rest.extend_from_slice(piece.get(..read).unwrap_or_default());
            let Some(end) = rest.iter().rposition(|&byte| byte == b'\n') else { continue };
            let lines: Vec<u8> = rest.drain(..=end).collect();
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                // A row is an array; all else is told of the query.
                if line.first() == Some(&b'[') {
                    out.write_all(line).map_err(|error| failed(&error))?;
                } else if self.said(line, asked, out)? {
                    return Ok(());
                }
            }
        }
    }

    /// Takes in what is no row; answers whether it is the end.
    fn said(&self, line: &[u8], asked: &Asked, out: &mut dyn Write) -> Result<bool, Problem> {
        let mut pass = |value: serde_json::Value| writeln!(out, "{value}").map_err(|error| failed(&error));
        match serde_json::from_slice(line).map_err(|error| failed(&error))? {
            Said::Columns(columns) => pass(serde_json::json!({ "columns": columns })).map(|()| false),
            Said::End { rows, more } => {
                pass(serde_json::json!({ "op": "end", "rows": rows, "more": more })).map(|()| true)
            }
            Said::Refused(why) => Err(Problem::new(Code::Invalid, format!("the query: {why}"), hint(&why))),
            Said::Late => {
                let what = format!("the query had not ended after {} s", asked.bounds.time.as_secs_f32());
                let hint =
                    "ask for less, or for more time; [query] in the configuration says how much there may be";
                Err(Problem::new(Code::Invalid, what, hint))
            }
            Said::Full => Err(full()),
            Said::Failed(why) => {
                let hint = "verify the versions that it names with asat verify";
                Err(Problem::new(Code::Damaged, format!("the query cannot be answered: {why}"), hint))
            }
        }
    }

    /// Reads what comes next, as soon as something does.
    fn read(&mut self, piece: &mut [u8], given_up: &AtomicBool) -> Result<usize, Problem> {
        let Some(output) = &mut self.child.stdout else { return Ok(0) };
        loop {
            if given_up.load(Ordering::Relaxed) {
                let hint = "ask again";
                return Err(Problem::new(Code::Stopping, "nobody waits for the answer any more", hint));
            }
            if Instant::now() >= self.until {
                return Ok(0);
            }
            let look = Timespec::try_from(LOOK).ok();
            match poll(&mut [PollFd::new(output, PollFlags::IN)], look.as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return output.read(piece).map_err(|error| failed(&error)),
                Err(errno) => return Err(failed(&io::Error::from(errno))),
            }
        }
    }

    /// Why the process ended before the answer did.
    fn ended(&mut self, asked: &Asked) -> Problem {
        let is_late = Instant::now() >= self.until;
        let _ = self.child.kill();
        let ended = self.child.wait();
        // The kernel's answer to a file that becomes longer than the process may make one.
        if ended.as_ref().is_ok_and(|status| status.signal() == Some(Signal::XFSZ.as_raw())) {
            return full();
        }
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        let what = if is_late {
            format!("its process had not ended after {} s", (asked.bounds.time + GRACE).as_secs_f32())
        } else {
            format!("its process ended ({how})")
        };
        let hint = "it may have needed more memory than there is: ask for less";
        Problem::new(Code::Internal, format!("the query was broken off: {what}"), hint)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended by itself is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn full() -> Problem {
    let what = "the query sorts more than its temporary files may hold";
    let hint = "ask for less, free space on the disk of the state folder, or raise query.max_disk";
    Problem::new(Code::Invalid, what, hint)
}

/// What helps with some of SQLite's words.
fn hint(why: &str) -> &'static str {
    if why.starts_with("no such table") {
        "name a table with its store and version, as in report@latest.valuation; asat stores lists the stores"
    } else if why.starts_with("near \"@") {
        "name a table too, as in report@12.sale"
    } else if why.ends_with("(not authorized)") {
        "a query only reads: begin it with SELECT, WITH or VALUES"
    } else if why.contains("too many attached") {
        "name fewer versions: one query takes 120 at most"
    } else if why.contains("same text encoding") {
        "name versions of one encoding: SQLite reads no others together"
    } else {
        "correct the query"
    }
}

fn failed(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(
        Code::Internal,
        format!("the query cannot be asked: {error}"),
        "check the limits of the service",
    )
}
