//! Usual mistakes on the command line, and what to type instead.
//!
//! The parser of the arguments says what it does not take. This says what was probably meant.

use std::ffi::{OsStr, OsString};

use asat_core::{Code, Problem};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::when::seconds;

/// Words that other programs have for what a command does.
const OTHER_WORDS: [(&[&str], &str); 9] = [
    (&["list", "log", "snapshots", "find", "search"], "asat ls lists versions"),
    (&["snapshot", "commit", "save", "certify", "create"], "asat publish makes a version"),
    (&["mount", "checkout", "get", "cat"], "asat open opens a version"),
    (&["umount", "unmount", "release"], "asat close gives a lease back"),
    (&["rm", "delete", "remove", "drop"], "asat retire gives a version up"),
    (&["run", "start", "daemon"], "asat serve runs the daemon"),
    (&["setup", "config", "configure"], "asat init writes a first configuration"),
    (&["health", "info", "top"], "asat status shows how everything stands"),
    (&["version"], "asat --version shows the version of asat"),
];

/// Whether a mistake is told as JSON, as far as arguments that are not understood say.
pub(super) fn wants_json(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.by_ref().take_while(|argument| argument != "--").any(|argument| is_json(&argument))
}

/// Whether this is the option, alone or among others of a letter each.
fn is_json(argument: &OsStr) -> bool {
    let argument = argument.to_string_lossy();
    match argument.strip_prefix('-') {
        Some(long) if long.starts_with('-') => long == "-json",
        Some(letters) => letters.contains('j') && letters.bytes().all(|letter| letter.is_ascii_alphabetic()),
        None => false,
    }
}

/// A mistake as other problems are told.
pub(super) fn problem(error: &clap::Error, hint: Option<String>) -> Problem {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Problem::new(
            Code::Invalid,
            "something is left out",
            "asat --help lists the commands, and asat COMMAND --help what a command takes",
        );
    }
    let said = error.to_string();
    let mut paragraphs =
        said.split("\n\n").map(|text| text.lines().map(str::trim).collect::<Vec<_>>().join(" "));
    let detail = paragraphs.next().unwrap_or_default();
    let detail = detail.strip_prefix("error: ").unwrap_or(&detail).to_owned();
    let tip = paragraphs.find_map(|text| text.strip_prefix("tip: ").map(str::to_owned));
    Problem::new(
        Code::Invalid,
        detail,
        hint.or(tip).unwrap_or_else(|| "asat --help lists what there is".to_owned()),
    )
}

/// What to type instead, if that can be told.
pub(super) fn hint(error: &clap::Error) -> Option<String> {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => other_word(text(error, ContextKind::InvalidSubcommand)?),
        ErrorKind::UnknownArgument => unknown(argument, &error.to_string()),
        ErrorKind::ValueValidation if error.to_string().contains("digit found in string") => {
            Some("write a whole number, for example 100".to_owned())
        }
        ErrorKind::ValueValidation if argument.contains("STORE]") || argument.contains("STORE>") => {
            no_store(argument, value)
        }
        ErrorKind::ValueValidation if argument.contains("VERSION") => Some(no_version(value)),
        ErrorKind::ValueValidation if argument.contains("ADDRESS") && value.starts_with('/') => {
            Some(format!("write unix:{value}"))
        }
        ErrorKind::ValueValidation if argument.contains("TIME>") || argument.contains("DAY>") => {
            seconds(value).is_ok().then(|| format!("write -{value} for so long ago"))
        }
        _ => None,
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

fn other_word(typed: &str) -> Option<String> {
    let typed = typed.to_lowercase();
    let (_, meant) = OTHER_WORDS.into_iter().find(|(words, _)| words.contains(&typed.as_str()))?;
    Some(meant.to_owned())
}

fn unknown(argument: &str, said: &str) -> Option<String> {
    if said.contains("asat exec") && !argument.starts_with('-') {
        return Some(format!("put -- before the command: -- {argument}"));
    }
    match argument {
        "--to" if said.contains("asat backup") => Some("write the file without --to".to_owned()),
        _ if argument
            .strip_prefix('-')
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())) =>
        {
            Some("write a version as STORE@NUMBER; asat ls lists them".to_owned())
        }
        "--store" => Some("write the store without --store".to_owned()),
        _ if said.contains("asat open") && argument.contains('@') => {
            Some("one version is opened at a time".to_owned())
        }
        _ => None,
    }
}

fn no_store(argument: &str, value: &str) -> Option<String> {
    match value.split_once('@') {
        _ if argument.contains("STORE")
            && value.split(':').all(|part| part.len() == 2 && part.parse::<u8>().is_ok()) =>
        {
            Some("write a time that has a space in it between quotes: '2026-11-19 17:00'".to_owned())
        }
        _ if value.contains('/') => {
            Some("write the store's name, and not its file; asat stores lists the names".to_owned())
        }
        Some(_) if argument.contains("VERSION") => Some(no_version(value)),
        Some((store, _)) => Some(format!("write the store alone: {store}")),
        None => None,
    }
}

fn no_version(value: &str) -> String {
    match value.split_once('@') {
        None if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("write the store before the number: STORE@{value}")
        }
        None => {
            format!("{value}@latest is the newest version of the store {value}; write a tag as STORE@{value}")
        }
        Some(("", rest)) => format!("write the store before the @: STORE@{rest}"),
        Some((store, _)) => {
            format!("asat ls {store} lists the versions, and asat tag --list {store} the tags")
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn a_mistake_is_told_as_json_if_that_is_wanted_before_the_command_that_exec_runs() {
        for (line, expected) in [
            ("asat publis --json", true),
            ("asat -j publis", true),
            ("asat publis", false),
            ("asat ls -aj --foo", true),
            ("asat publish --label -x", false),
            ("asat exec report@1 --x -- jq --json", false),
        ] {
            assert_eq!(wants_json(line.split(' ').map(OsString::from)), expected, "{line}");
        }
        for (line, detail, hint) in [
            ("asat publis", "unrecognized subcommand 'publis'", "a similar subcommand exists: 'publish'"),
            ("asat list", "unrecognized subcommand 'list'", "asat ls lists versions"),
        ] {
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            let problem = problem(&error, super::hint(&error));
            assert_eq!((problem.detail.as_str(), problem.hint.as_str()), (detail, hint));
        }
    }

    #[test]
    fn a_mistake_is_told_with_what_to_type() {
        for (line, expected) in [
            ("list", Some("asat ls lists versions")),
            ("Delete report@1", Some("asat retire gives a version up")),
            (
                "show report",
                Some("report@latest is the newest version of the store report; write a tag as STORE@report"),
            ),
            ("show 12", Some("write the store before the number: STORE@12")),
            ("show report@0", Some("asat ls report lists the versions, and asat tag --list report the tags")),
            ("open report@0", Some("asat ls report lists the versions, and asat tag --list report the tags")),
            ("ls report@1", Some("write the store alone: report")),
            ("tag report@1 month-end", Some("write the store alone: report")),
            (
                "publish /srv/report.db",
                Some("write the store's name, and not its file; asat stores lists the names"),
            ),
            ("exec report@1 sqlite3 {}", Some("put -- before the command: -- sqlite3")),
            ("open report@1 report@2", Some("one version is opened at a time")),
            ("leases --store report", Some("write the store without --store")),
            ("stores --server /run/asat/asat.sock", Some("write unix:/run/asat/asat.sock")),
            ("ls --from 7d", Some("write -7d for so long ago")),
            ("ls -b 1w", Some("write -1w for so long ago")),
            ("ls --from 7", None),
            (
                "as-of 2026-11-30 17:00",
                Some("write a time that has a space in it between quotes: '2026-11-19 17:00'"),
            ),
            ("ls --limit x", Some("write a whole number, for example 100")),
            ("open @1", Some("write the store before the @: STORE@1")),
            ("open -1", Some("write a version as STORE@NUMBER; asat ls lists them")),
            ("backup --to x.db", Some("write the file without --to")),
            ("find", Some("asat ls lists versions")),
            ("publish --lable x", None),
            ("export report@1", None),
        ] {
            let error = Cli::try_parse_from(format!("asat {line}").split(' ')).unwrap_err();
            assert_eq!(hint(&error).as_deref(), expected, "{line}");
        }
    }
}
