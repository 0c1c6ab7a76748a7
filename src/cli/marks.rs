//! The marks in front of what changed, and their colours.

use std::io::{self, IsTerminal as _};

/// Whether to colour what is printed: on a terminal, unless `NO_COLOR` says otherwise (<https://no-color.org>).
pub(super) fn is_coloured() -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_unwanted
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Inserted,
    Deleted,
    Updated,
    Heading,
}

impl Mark {
    /// The mark of an operation's name.
    pub(super) fn of(op: &str) -> Self {
        match op {
            "insert" => Self::Inserted,
            "delete" => Self::Deleted,
            "update" => Self::Updated,
            _ => Self::Heading,
        }
    }

    fn sign(self) -> char {
        match self {
            Self::Inserted => '+',
            Self::Deleted => '-',
            Self::Updated => '~',
            Self::Heading => '@',
        }
    }

    /// The escape of its colour (ECMA-48, `SGR`).
    fn colour(self) -> &'static str {
        match self {
            Self::Inserted => "\x1b[32m",
            Self::Deleted => "\x1b[31m",
            Self::Updated => "\x1b[33m",
            Self::Heading => "\x1b[36m",
        }
    }

    /// A line that is marked so.
    pub(super) fn line(self, text: &str, coloured: bool) -> String {
        let (begin, end) = if coloured { (self.colour(), "\x1b[0m") } else { ("", "") };
        format!("{begin}{} {text}{end}", self.sign())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_marked_and_coloured() {
        assert_eq!(Mark::of("update").line("x", false), "~ x");
        assert_eq!(Mark::Deleted.line("x", true), "\x1b[31m- x\x1b[0m");
    }
}
