//! Usual mistakes on the command line, and what to type instead.
//!
//! The parser of the arguments says what it does not take. This says what was probably meant.

use std::ffi::{OsStr, OsString};

use asat_core::{Code, Problem};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use jiff::Timestamp;

use crate::when::{day_ends, seconds};

/// Words that other programs have for what a command does.
const OTHER_WORDS: [(&[&str], &str); 12] = [
    (&["list", "snapshots", "find", "search"], "asat ls lists versions"),
    (&["log", "logs"], "asat ls lists versions; journalctl -u asat shows the daemon's log"),
    (&["stop", "restart", "reload"], "systemctl stop, restart or reload does that: systemctl restart asat"),
    (&["untag"], "asat tag --delete STORE TAG removes a tag"),
    (&["snapshot", "commit", "save", "certify", "create"], "asat publish makes a version"),
    (&["mount", "checkout", "get", "cat"], "asat open opens a version"),
    (&["umount", "unmount", "release"], "asat close gives a lease back"),
    (&["rm", "delete", "remove", "drop"], "asat retire gives a version up"),
    (&["run", "start", "daemon"], "asat serve runs the daemon"),
    (
        &["setup", "config", "configure"],
        "asat init writes a first configuration; asat configuration prints every key",
    ),
    (&["health", "info", "top"], "asat status shows how everything stands"),
    (&["version"], "asat --version shows the version of asat"),
];

/// What options of other programs are called here, and of which commands; of all if none is named.
const OTHER_OPTIONS: [(&[&str], &[&str], &str); 10] = [
    (&["--since", "--after"], &["ls", "audit"], "write --from TIME"),
    (&["--until", "--before"], &["ls", "audit"], "write --to TIME"),
    (&["--date", "--day"], &["open", "exec"], "write --business-date DAY; for a time, --as-of TIME"),
    (&["--date", "--day"], &["ls", "publish"], "write --business-date DAY"),
    (&["--format"], &["ls", "show", "status", "stores", "audit", "leases"], "write --json"),
    (&["--output", "-o"], &["export", "diff"], "write --to FILE"),
    (&["--message", "-m"], &["publish"], "write --label LABEL, or --note TEXT"),
    (&["--message", "-m"], &["pin", "retire"], "write --reason WHY"),
    (&["--version"], &[], "write a version as STORE@NUMBER"),
    (
        &["--config", "-c"],
        &[],
        "this command asks the daemon, which has the configuration: say where it listens by --server or ASAT_SERVER",
    ),
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

/// A mistake as the parser of the arguments tells it, without tips that nobody can use: those that lead elsewhere than a hint does, and
/// that an option is taken as a value.
pub(super) fn without_tips(rendered: &str, has_hint: bool) -> String {
    let is_kept = |paragraph: &&str| {
        let is_tip = paragraph.contains("tip:");
        !is_tip || !(has_hint || paragraph.contains(" as a value, use"))
    };
    // The first paragraph is the mistake, and may quote anything.
    let mut paragraphs = rendered.split("\n\n");
    let first = paragraphs.next();
    first.into_iter().chain(paragraphs.filter(is_kept)).collect::<Vec<_>>().join("\n\n")
}

/// What to type instead, if that can be told.
pub(super) fn hint(error: &clap::Error) -> Option<String> {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    let said = error.to_string();
    let command = command(&said);
    match error.kind() {
        ErrorKind::InvalidSubcommand => other_word(text(error, ContextKind::InvalidSubcommand)?, command),
        ErrorKind::UnknownArgument => unknown(argument, &said).or_else(|| other_option(argument, command)),
        ErrorKind::TooManyValues if command == "diff" => one_too_many(value, command),
        ErrorKind::MissingRequiredArgument if said.contains("<LEASE>") => {
            Some("asat leases lists the open leases, with their names".to_owned())
        }
        ErrorKind::MissingRequiredArgument if command == "tag" => {
            Some("asat tag --list STORE lists the tags of a store".to_owned())
        }
        ErrorKind::ValueValidation if argument.contains("--until") || argument.contains("--expires") => {
            seconds(value).is_ok().then(|| format!("write +{value} for in so long"))
        }
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

/// The command that the parser shows the usage of.
fn command(said: &str) -> &str {
    let usage = said.split_once("Usage: asat ").map_or("", |(_, usage)| usage);
    usage.split([' ', '\n']).next().unwrap_or_default()
}

fn other_word(typed: &str, command: &str) -> Option<String> {
    match command {
        "token" => return Some("tokens stand in the configuration; asat token new makes one".to_owned()),
        "retention" => {
            return Some(
                "asat retention plan shows what the rules retire, and the daemon does it by itself"
                    .to_owned(),
            );
        }
        _ => {}
    }
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
        _ if !argument.starts_with('-') => one_too_many(argument, command(said)),
        _ => None,
    }
}

/// What was probably meant by a word that a command takes no more of.
fn one_too_many(word: &str, command: &str) -> Option<String> {
    let day = || Some(format!("write --as-of {word}, or --business-date {word}"));
    let word = if word.contains(' ') { &format!("'{word}'") } else { word };
    let now = Timestamp::now();
    match command {
        "open" if word.contains('@') => Some("one version is opened at a time".to_owned()),
        "open" | "show" if day_ends(word, now).is_ok() => day(),
        "show" | "retire" | "pin" | "unpin" if word.contains('@') => Some("one version at a time".to_owned()),
        "pin" => Some("write --reason WHY; words with blanks stand between quotes".to_owned()),
        "publish" => Some(format!("write --label {word}; to publish several stores together, --set NAME")),
        "init" => Some(format!("write --store {word}")),
        "export" => Some(format!("write --to {word}")),
        "diff" => Some("write both versions whole, as in asat diff STORE@1 STORE@2".to_owned()),
        "sql" => Some(
            "the stores stand in the query: report.TABLE is what is newest, and report@12.TABLE a version"
                .to_owned(),
        ),
        "stores" | "status" | "events" => Some(format!("asat ls {word} lists the versions of a store")),
        _ => None,
    }
}

/// What an option of another program is called here.
fn other_option(argument: &str, command: &str) -> Option<String> {
    let fits = |(names, commands, _): &(&[&str], &[&str], &str)| {
        names.contains(&argument) && (commands.is_empty() || commands.contains(&command))
    };
    OTHER_OPTIONS.into_iter().find(fits).map(|(_, _, meant)| meant.to_owned())
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
    fn a_tip_that_leads_elsewhere_is_left_out() {
        for (line, tips) in
            [("ls --since x", 0), ("open report --foo", 0), ("publis", 1), ("ls --lable x", 1)]
        {
            let error = Cli::try_parse_from(format!("asat {line}").split(' ')).unwrap_err();
            let told = without_tips(&error.to_string(), hint(&error).is_some());
            assert_eq!(told.matches("tip:").count(), tips, "{told}");
            assert!(told.starts_with("error: ") && told.contains("For more information"), "{told}");
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
            ("stop", Some("systemctl stop, restart or reload does that: systemctl restart asat")),
            ("untag report audit", Some("asat tag --delete STORE TAG removes a tag")),
            ("token list", Some("tokens stand in the configuration; asat token new makes one")),
            (
                "retention run",
                Some("asat retention plan shows what the rules retire, and the daemon does it by itself"),
            ),
            ("open report yesterday", Some("write --as-of yesterday, or --business-date yesterday")),
            ("retire report@1 report@2", Some("one version at a time")),
            ("pin report@1 why", Some("write --reason WHY; words with blanks stand between quotes")),
            (
                "publish report close",
                Some("write --label close; to publish several stores together, --set NAME"),
            ),
            ("init x.db", Some("write --store x.db")),
            ("export report@1 x.db", Some("write --to x.db")),
            ("export report@1 -o x.db", Some("write --to FILE")),
            ("diff report 1 2", Some("write both versions whole, as in asat diff STORE@1 STORE@2")),
            (
                "sql report select",
                Some(
                    "the stores stand in the query: report.TABLE is what is newest, and report@12.TABLE a version",
                ),
            ),
            ("stores report", Some("asat ls report lists the versions of a store")),
            ("close report@1", Some("asat leases lists the open leases, with their names")),
            ("tag report", Some("asat tag --list STORE lists the tags of a store")),
            ("pin report@1 --reason x --until 30d", Some("write +30d for in so long")),
            ("ls --since yesterday", Some("write --from TIME")),
            ("events --since yesterday", None),
            ("publish report --date 2026-11-30", Some("write --business-date DAY")),
            ("ls --format json", Some("write --json")),
            ("open report --date 2026-11-30", Some("write --business-date DAY; for a time, --as-of TIME")),
            ("open report --version 1", Some("write a version as STORE@NUMBER")),
            (
                "ls --config x",
                Some(
                    "this command asks the daemon, which has the configuration: say where it listens by --server or ASAT_SERVER",
                ),
            ),
            ("publish --lable x", None),
            ("export report@1", None),
        ] {
            let error = Cli::try_parse_from(format!("asat {line}").split(' ')).unwrap_err();
            assert_eq!(hint(&error).as_deref(), expected, "{line}");
        }
    }
}
