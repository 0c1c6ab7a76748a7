//! Printing: the one place that writes to standard output and standard error.
//!
//! A reader who has seen enough (`asat ls | head -1`) closes the pipe. That is no error: the command ends
//! quietly. Whatever the answer holds, no control character in it reaches a terminal.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal as _, Write};

use asat_core::{Code, Problem};
use serde::Serialize;

use super::signals::Waiting;
use crate::text;

/// Why a command did not come to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// Something went wrong.
    Problem(Problem),
    /// Nobody reads the output any more.
    OutputClosed,
    /// Two versions differ, and how was printed.
    Differ,
    /// Damage was found, and printed.
    DamageFound,
    /// Something was printed that somebody must look after.
    AlarmOn,
    /// A program that it ran ended with this code.
    Exit(u8),
    /// A signal of this number stopped it.
    Interrupted(u8),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// So much of a long answer is printed at once.
const PIECE: usize = 64 << 10;

/// Clears a terminal, and goes to its first line (ECMA-48, `ED` and `CUP`).
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

/// Prints text or JSON, as the caller wishes.
pub(super) struct Output {
    json: bool,
}

impl Output {
    /// Prints JSON where `json`, else text.
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether it prints JSON.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints what a command answers that has changed something, and says so if that cannot be printed.
    pub(super) fn done<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        self.answer(answer, text).map_err(|failure| match failure {
            Failure::Problem(problem) => {
                let hint = "only its answer is lost: what the command does was done all the same";
                Problem { hint: hint.to_owned(), ..problem }.into()
            }
            failure => failure,
        })
    }

    /// Prints all that a command answers: itself as JSON, or the text that `text` makes of it. If nobody reads it any more, the
    /// command ends as it would have.
    pub(super) fn answer<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.print(answer, text) {
            Err(Failure::OutputClosed) => Ok(()),
            printed => printed,
        }
    }

    /// Prints an answer of several, or one that must be read.
    pub(super) fn print<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        self.raw(self.text(answer, text)?.as_bytes())
    }

    /// An answer as it is printed.
    pub(super) fn text<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<String, Problem> {
        let mut text = if self.json { json_line(answer)? } else { text(answer) };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }

    /// Prints an answer in the place of the one before: over it on a terminal, below it elsewhere.
    pub(super) fn redraw<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        if !self.json && io::stdout().is_terminal() {
            self.raw(CLEAR)?;
        }
        self.print(answer, text)
    }

    /// Prints bytes as they are.
    pub(super) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let _waiting = Waiting::begin();
        write(bytes)
    }

    /// Prints text of others as it is, but on a terminal, which it must not steer.
    pub(super) fn foreign(&self, text: &[u8]) -> Result<(), Failure> {
        if !io::stdout().is_terminal() {
            return self.raw(text);
        }
        let lossy = String::from_utf8_lossy(text);
        let lines = lossy.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
            Some(line) => text::clean(line) + "\n",
            None => text::clean(line),
        });
        self.raw(lines.collect::<String>().as_bytes())
    }

    /// Says something beside the answer, to people only.
    pub(super) fn remark(&self, text: &str) {
        if !self.json {
            let _waiting = Waiting::begin();
            remark(text);
        }
    }

    /// The same, and does not wait until it is read: something goes on meanwhile that must not be left.
    pub(super) fn remark_apart(&self, text: String) {
        if !self.json {
            // Without memory for a thread there is no remark.
            let _ = std::thread::Builder::new().spawn(move || remark(&text));
        }
    }

    /// Says something beside the answer in lines that are copied as they stand, to people only.
    pub(super) fn beside(&self, text: &str) {
        if !self.json {
            let _waiting = Waiting::begin();
            // What cannot be shown is not worth failing for.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Says what went wrong and what to do.
    pub(super) fn problem(&self, problem: &Problem) {
        let text = match json_line(problem) {
            Ok(line) if self.json => line,
            _ => problem_text(problem),
        };
        let _waiting = Waiting::begin();
        // Nobody is left to be told where even this cannot be printed; the exit code still says it.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

fn remark(text: &str) {
    // A remark that cannot be shown is not worth failing for.
    let _ = writeln!(io::stderr().lock(), "asat: {}", text::clean(text));
}

/// Writes to standard output, for as long as its reader likes.
pub(super) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Problem::new(Code::Internal, format!("cannot write to standard output: {error}"), "").into(),
    })
}

fn problem_text(problem: &Problem) -> String {
    let mut text = format!("asat: {}", one_line(&problem.detail));
    if !problem.hint.is_empty() {
        let _ = write!(text, "\nhint: {}", one_line(&problem.hint));
    }
    text
}

/// What others have said in several lines, as a program's output, goes into one.
fn one_line(text: &str) -> String {
    text::clean(&text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "))
}

/// A value as JSON on one line. What could steer a terminal can stand only within its strings, where an escape
/// means the same.
fn json_line<T: Serialize>(value: &T) -> Result<String, Problem> {
    let json = serde_json::to_string(value).map_err(|error| {
        Problem::new(Code::Internal, format!("cannot write the answer as JSON: {error}"), "")
    })?;
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if text::steers(c) {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Ok(safe)
}

/// A long answer of others, which is printed in large pieces: a row each would take longer than the query.
pub(super) struct Pieces<'o> {
    output: &'o Output,
    waiting: Vec<u8>,
}

impl<'o> Pieces<'o> {
    pub(super) fn new(output: &'o Output) -> Self {
        Self { output, waiting: Vec::new() }
    }

    /// Prints this, or keeps it for the next piece.
    pub(super) fn add(&mut self, text: &str) -> Result<(), Failure> {
        self.waiting.extend_from_slice(text.as_bytes());
        if self.waiting.len() < PIECE { Ok(()) } else { self.flush() }
    }

    /// Prints what is kept.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let printed = self.output.foreign(&self.waiting);
        self.waiting.clear();
        printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_one_line_and_steers_no_terminal() {
        let value = serde_json::json!({ "label": "a\n\u{1b}[2J\u{9b}\u{7f}\u{202e}ü" });
        let line = json_line(&value).unwrap();
        assert!(!line.chars().any(text::steers), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }

    #[test]
    fn a_problem_for_people() {
        let problem = Problem::new(Code::StoreBusy, "store report is locked\u{1b}[2J", "try again");
        assert_eq!(problem_text(&problem), "asat: store report is locked\\u{1b}[2J\nhint: try again");
        assert_eq!(problem_text(&Problem::new(Code::Internal, "x", "")), "asat: x");
        let lines = Problem::new(Code::Internal, "lvcreate said:\n  no such group\n", "look\nagain");
        assert_eq!(problem_text(&lines), "asat: lvcreate said: no such group\nhint: look again");
    }
}
