//! Long answers, screen by screen: through the pager that the user wants, or else `less`.

use std::io::{self, IsTerminal as _, Write};
use std::process::{Child, Command, Stdio};

use super::output::{Failure, Output};
use super::signals::{Paging, Waiting};

/// Where a long answer is printed.
pub(super) enum Pager<'o> {
    /// As it comes.
    None(&'o Output),
    /// Into another program.
    Program(Child, Paging),
}

impl<'o> Pager<'o> {
    /// A pager if people read the answer on a terminal and there is one. `PAGER` names it, with its arguments; if that is empty
    /// or `cat`, there is none.
    pub(super) fn open(output: &'o Output) -> Self {
        if !io::stdout().is_terminal() {
            return Self::None(output);
        }
        let wanted = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
        let mut words = wanted.split_whitespace();
        let Some(program) = words.next().filter(|program| *program != "cat") else {
            return Self::None(output);
        };
        let mut command = Command::new(program);
        // It shows colours, and what fits on a screen ends it.
        command.args(words).stdin(Stdio::piped()).env("LESS", "FRX");
        let Ok(child) = command.spawn() else { return Self::None(output) };
        let paging = Paging::begin(&child);
        Self::Program(child, paging)
    }

    /// Prints a line.
    pub(super) fn line(&mut self, line: &str) -> Result<(), Failure> {
        match self {
            Self::None(output) => output.raw(format!("{line}\n").as_bytes()),
            Self::Program(child, _) => {
                let _waiting = Waiting::begin();
                let written = child.stdin.as_mut().map(|pipe| writeln!(pipe, "{line}"));
                // Somebody who has seen enough ends the pager.
                written.transpose().map(drop).map_err(|_| Failure::OutputClosed)
            }
        }
    }
}

impl Drop for Pager<'_> {
    fn drop(&mut self) {
        if let Self::Program(child, _) = self {
            let _waiting = Waiting::begin();
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
