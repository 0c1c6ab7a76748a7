//! A writer in a process of its own, that can be halted after each single step of a commit: after every write, sync,
//! truncation and removal of one of the store's files.
//!
//! It is a stock SQLite (Python's) with a small library before the system's, which is compiled here. Where the
//! writer is halted, the test decides what happens next: it goes on, or is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The writer. Dropping it kills it.
pub struct Writer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts a writer on a store. The library is put into the folder.
    pub fn start(store: &Path, folder: &Path) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/common/halting");
        let library = folder.join("halt.so");
        if !library.exists() {
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(here.join("halt.c"));
            let output = compiler.arg("-ldl").output().expect("this test needs a C compiler as `cc`");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let mut command = Command::new("python3");
        command.arg(here.join("writer.py")).arg(store).env("LD_PRELOAD", &library);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this test needs the program python3");
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    /// Executes a statement.
    pub fn execute(&mut self, sql: &str) {
        assert_eq!(self.until(0, sql), None, "{sql}");
    }

    /// Executes a statement until after its `step`-th step, counted from 1; answers which step that was, as in `sync .db-wal`.
    /// Nothing if the statement has no such step, and is over.
    pub fn until(&mut self, step: u32, sql: &str) -> Option<String> {
        writeln!(self.input, "{step} {sql}").unwrap();
        let said = self.line();
        let halted = said.strip_prefix("halted ").map(str::to_owned);
        assert!(halted.is_some() || said == "done", "{said:?}");
        halted
    }

    /// Lets the halted writer go on, and waits until its statement has returned.
    pub fn finish(&mut self) {
        self.input.write_all(b".").unwrap();
        assert_eq!(self.line(), "done");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
