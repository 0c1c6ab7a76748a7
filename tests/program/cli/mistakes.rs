//! Usual mistakes on the command line: each gets an answer that names the mistake and says what to type.

use std::fs;

use serde_json::Value;

use super::{done, terminal, text, world_with_history};
use crate::common::World;

/// A mistake: what is typed, the exit code, and what the answer says of the mistake and of what to type.
type Mistake = (&'static str, i32, &'static str, &'static str);

const MISTAKES: [Mistake; 48] = [
    // Names that are nearly right.
    ("publis", 2, "'publis'", "'publish'"),
    ("publish --lable close", 2, "'--lable'", "'--label'"),
    ("publish reprot", 4, "no store reprot", "did you mean report?"),
    ("publish report.db", 4, "no store report.db", "did you mean report?"),
    ("publish /srv/report.db", 2, "not a store name", "write the store's name, and not its file"),
    ("show report@mont-end", 4, "no tag mont-end", "did you mean month-end?"),
    ("show report@9", 4, "no version report@9", "the newest is report@2"),
    ("open report --label clos", 4, "no version of report has the label \"clos\"", "asat ls report"),
    ("diff report@1 report@2 --format htm", 2, "'htm'", "'html'"),
    // Words that other programs have.
    ("list", 2, "'list'", "asat ls lists versions"),
    ("mount report@1", 2, "'mount'", "asat open opens a version"),
    ("delete report@1", 2, "'delete'", "asat retire gives a version up"),
    ("", 2, "Usage: asat", "Show how everything stands"),
    ("as-of --buisness-date 2026-11-19", 3, "no option --buisness-date", "asat as-of --help"),
    ("as-of report", 3, "\"report\" is no time", "yesterday"),
    ("exec report@1 -- sqlite4 {}", 127, "cannot run sqlite4", "name a program in PATH"),
    // Something is left out, or is too much.
    ("open report", 3, "no version of report is named", "report@latest is the newest"),
    ("show report", 2, "not a version", "report@latest is the newest version"),
    ("show 1", 2, "not a version", "STORE@1"),
    ("diff report", 3, "no versions of report are named", "report with --as-of TIME twice"),
    ("open report@1 --as-of yesterday", 3, "one version already", "write report@1 alone"),
    ("open report@1 report@2", 2, "'report@2'", "one version is opened at a time"),
    ("exec report@1 sqlite3 {}", 2, "'sqlite3'", "put -- before the command"),
    ("export report@1", 2, "not provided", "--to <PATH>"),
    ("token new", 2, "not provided", "--role <ROLE>"),
    ("ls report@1", 2, "not a store name", "write the store alone: report"),
    ("tag report@1 month-end", 2, "not a store name", "write the store alone: report"),
    ("leases --store report", 2, "'--store'", "write the store without --store"),
    ("open @1", 2, "not a store name", "write the store before the @: STORE@1"),
    ("open -1", 2, "'-1'", "write a version as STORE@NUMBER"),
    ("ls --limit x", 2, "'x'", "write a whole number"),
    ("backup --to there.db", 2, "'--to'", "write the file without --to"),
    ("pin report@1 --reason  ", 2, "value is required", "--reason <REASON>"),
    // Times and durations.
    ("ls --from today --to yesterday", 3, "from is later than to", "exchange from and to"),
    ("open report@1 --ttl 99d", 3, "from 1 to 2678400 seconds", "renew the lease"),
    ("token new --role read --expires 2020-01-31", 3, "which is past", "--expires"),
    ("open report --as-of 19.11.2026", 2, "'19.11.2026'", "write it as 2026-11-19T17:00:00Z"),
    ("ls --from 7d", 2, "'7d'", "write -7d"),
    ("publish -b 2026-02-30", 2, "'2026-02-30'", "is no day of the calendar"),
    ("open report@1 --ttl 1x", 2, "'1x'", "write it as 90s, 15m"),
    // What changes much is not done unasked.
    ("retire report@2", 3, "no terminal to ask on", "add --yes"),
    ("retire report@1 --yes", 5, "has the tag month-end", "asat tag --delete report month-end deletes it"),
    ("restore report@1", 3, "changes the store", "add --yes"),
    ("export report@1..9 --to range", 4, "report@9 is beyond the newest version", "write report@1.."),
    ("open report@1 --ttl -5m", 2, "'-5m'", "write it as 90s"),
    // The daemon is somewhere else, or not there.
    ("stores --server /run/asat/asat.sock", 2, "'/run/asat/asat.sock'", "write unix:/run/asat/asat.sock"),
    ("stores --server unix:/nothing", 10, "cannot reach the daemon at unix:/nothing", "start it with"),
    ("serve -c /nothing.toml", 78, "/nothing.toml", "asat init --store PATH"),
];

#[test]
fn an_answer_names_the_mistake_and_what_to_type() {
    let world = world_with_history();
    done(&world, &["tag", "report", "month-end", "report@1"]);
    let before = stands(&world);
    for (typed, exit_code, mistake, advice) in MISTAKES {
        let output = world.asat(&typed.split_whitespace().collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit_code), "{typed}: {said}");
        assert!(said.contains(mistake) && said.contains(advice), "asat {typed}:\n{said}");
        assert!(output.stdout.is_empty(), "{typed}: {output:?}");
    }
    assert_eq!(stands(&world), before, "a mistake has changed something");
}

/// Everything that a mistake could have changed.
fn stands(world: &World) -> [Value; 4] {
    ["/versions?state=any", "/audit", "/leases", "/stores/report/tags"].map(|path| world.get(path).json())
}

#[test]
fn colours_are_left_out_if_they_are_not_wanted() {
    let world = world_with_history();
    for (wish, is_coloured) in [("", true), ("1", false)] {
        for arguments in [&["publis"][..], &["diff", "report@1", "report@2", "--rows"]] {
            let output = terminal(&world, "", arguments)
                .envs([("TERM", "xterm"), ("PAGER", "cat"), ("NO_COLOR", wish)])
                .output()
                .unwrap();
            let said = text(&output.stdout);
            assert_eq!(said.contains('\u{1b}'), is_coloured, "{arguments:?}: {said:?}");
        }
    }
}

#[test]
fn a_file_in_the_way_is_named_with_what_to_do() {
    let world = world_with_history();
    let (there, token) = (world.path("there.db"), world.path("token"));
    fs::write(&there, "somebody's").unwrap();
    fs::write(&token, "for everybody to read\n").unwrap();
    let (of_another, was) = (world.path("of-another.db"), fs::read(world.store()).unwrap());
    fs::write(&of_another, b"SQLite format 3\0").unwrap();
    let [there_path, token_path, config, store, other] =
        [&there, &token, &world.path("asat.toml"), &world.store(), &of_another]
            .map(|path| path.to_str().unwrap().to_owned());
    for (arguments, exit_code, mistake, advice) in [
        (&["export", "report@1", "--to", &there_path][..], 3, "there.db exists", "--force"),
        (&["stores", "--token-file", &token_path], 78, "can be read by everybody", "run: chmod g-w,o-rwx"),
        (&["init", "--store", &store, "-c", &config], 3, "nothing was changed", "--force"),
        (
            &["init", "--store", &there_path, "-c", &token_path],
            7,
            "no SQLite database",
            "name the file of the database",
        ),
        (&["init", "--store", "/nothing.db"], 7, "cannot read /nothing.db", "--store"),
        (&["init", "--store", &store, "-c", &store, "--force"], 3, "is the store itself", "--config FILE"),
        (&["init", "--store", &store, "-c", &other, "--force"], 3, "is no text", "--config FILE"),
        (
            &["init", "--store", &store, "-c", &format!("{store}-wal")],
            3,
            "belongs to the database",
            "--config FILE",
        ),
        (
            &["init", "--store", &store, "-c", &format!("{other}-journal")],
            3,
            "belongs to the database",
            "--config FILE",
        ),
        (
            &["export", "report@1", "--to", &format!("{store}-wal"), "--force"],
            3,
            "belongs to the database",
            "another file",
        ),
        (
            &["init", "--store", &store, "-c", "/nothing/of/this/name"],
            78,
            "cannot write",
            "make its folder first",
        ),
        (
            &["export", "report@1", "--to", &store, "--force"],
            3,
            "is the path of the store report",
            "asat restore",
        ),
        (
            &["token", "new", "--role", "read", "--to", &there_path],
            3,
            "cannot write the token",
            "name a new file",
        ),
    ] {
        let output = world.asat(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit_code), "{arguments:?}: {said}");
        assert!(said.contains(mistake) && said.contains(advice), "{arguments:?}:\n{said}");
    }
    assert_eq!(fs::read_to_string(there).unwrap(), "somebody's");
    // What a link leads to gets its first store, and the link stays.
    let (linked, link) = (world.path("linked.toml"), world.path("link.toml"));
    fs::write(&linked, "state = \"other\"\n").unwrap();
    std::os::unix::fs::symlink(&linked, &link).unwrap();
    let output = world.asat(&["init", "--store", &store, "-c", link.to_str().unwrap()]);
    assert!(fs::read_to_string(&linked).unwrap().contains("[[store]]"), "{output:?}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(of_another).unwrap(), b"SQLite format 3\0");
    assert_eq!(fs::read(world.store()).unwrap(), was);
}
