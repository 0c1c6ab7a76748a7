//! The configuration: what is wrong with it is told with the file, the key and what to write instead.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use asat::config::{AlarmConfig, Config, PeerRule, Role, Who};
use asat_core::guard::{Policy, Rung};
use common::{Running, World, as_ordinary_user};

/// What a configuration needs that is otherwise right.
const STATE: &str = "state = \"state\"\nlisten.unix = \"asat.sock\"\n";

/// The SHA-256 of a token.
const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap()
}

fn store(name: &str, more: &str) -> String {
    format!("\n[[store]]\nname = \"{name}\"\npath = \"stores/{name}.db\"\n{more}\n")
}

/// Runs the daemon with a file that it must refuse; answers what it says.
fn refused(file: &Path) -> String {
    let mut command = as_ordinary_user(env!("CARGO_BIN_EXE_asat"));
    command.arg("serve").arg("--config").arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    let mut running = Running::spawn(command);
    let log = running.wait_for("listen: ready").expect_err("the configuration was taken");
    assert_eq!(running.exit().code(), Some(78), "{log}");
    log
}

/// Refuses a configuration in `folder`, and checks that every one of `parts` is said and nothing was begun.
fn check_refused(folder: &Path, text: &str, parts: &[&str]) {
    let file = folder.join("asat.toml");
    // Where it is taken after all, it must not begin in the machine's own folders.
    let state = if text.contains("state") { "" } else { "state = \"state\"\n" };
    let listen = if text.contains("listen") { "" } else { "listen.unix = \"asat.sock\"\n" };
    fs::write(&file, format!("{listen}{state}{text}")).unwrap();
    let log = refused(&file);
    for part in parts.iter().chain(&["asat.toml"]) {
        assert!(log.contains(part), "{part:?} is not said of:\n{text}\n{log}");
    }
    assert!(!folder.join("state").exists() && !folder.join("asat.sock").exists(), "it began:\n{text}");
}

#[test]
fn keys_that_there_are_not_are_refused_at_every_level() {
    let folder = folder();
    let cases = [
        ("stat = \"state\"".to_owned(), "`stat`"),
        ("[listen]\nport = 7878".to_owned(), "port"),
        ("[copies]\nmax = \"1 GB\"".to_owned(), "max"),
        ("[stores]\nname = \"a\"".to_owned(), "stores"),
        (store("a", "wal = true"), "wal"),
        (store("a", "[store.retention]\nhourly = 3"), "hourly"),
        (store("a", "[[store.retention.label]]\nlabel = \"a\""), "label"),
        (store("a", "[[store.check]]\nname = \"c\"\nquery = \"select 1\"\nat_most = 3"), "at_most"),
        (format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"\nexpire = 3"), "expire"),
        ("[[peer]]\nuser = \"root\"\nrole = \"read\"\nuid = 3".to_owned(), "uid"),
        ("[guard]\nbreak = \"2s\"".to_owned(), "break"),
        ("[fuse]\nroot = \"t\"\numask = 7".to_owned(), "umask"),
    ];
    for (text, key) in cases {
        check_refused(folder.path(), &text, &["unknown field", key, "expected"]);
    }
}

#[test]
fn what_is_no_toml_or_of_another_type_is_refused_with_its_place() {
    let folder = folder();
    let cases = [
        ("state = ", "line 2"),
        ("state = \"state\"\nstate = \"other\"", "duplicate key"),
        ("state = 7", "state = 7"),
        ("state = [\"a\"]", "state"),
        ("[listen]\nunix_mode = 0o660", "unix_mode"),
        ("store = \"a\"", "store"),
        ("[[store]]\nname = \"a\"", "path"),
        ("[[store]]\npath = \"a.db\"", "name"),
        ("[[token]]\nname = \"a\"\nrole = \"root\"\nsha256 = \"x\"", "root"),
        ("[[token]]\nname = \"a\"\nrole = \"read\"", "sha256"),
        ("{\"state\": \"state\"}", "line 2"),
        ("\u{0}", "line 3"),
    ];
    for (text, said) in cases {
        check_refused(folder.path(), text, &[said]);
    }
    for negative in [
        "keep_snapshots = -1",
        "[store.retention]\nat_least = -3",
        "[store.retention]\nat_least = 4294967296",
        "[store.retention]\nat_most = 200",
    ] {
        check_refused(folder.path(), &store("a", negative), &[negative.rsplit('\n').next().unwrap()]);
    }
}

#[test]
fn values_out_of_their_range_are_refused_by_their_key() {
    let folder = folder();
    let token = |hash: &str| format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{hash}\"");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let long = "l".repeat(108);
    let cases = [
        ("stop_timeout = \"soon\"".to_owned(), "stop_timeout", "for example"),
        ("stop_timeout = \"20\"".to_owned(), "stop_timeout", "a unit"),
        ("stop_timeout = \"\"".to_owned(), "stop_timeout", "for example"),
        ("stop_timeout = \"-5s\"".to_owned(), "stop_timeout", "not longer than nothing"),
        ("stop_timeout = \"0s\"".to_owned(), "stop_timeout", "not longer than nothing"),
        ("stop_timeout = \"1 month\"".to_owned(), "stop_timeout", "no fixed length"),
        ("[copies]\nmax_size = \"big\"".to_owned(), "copies.max_size", "10 GiB"),
        ("[copies]\nmax_size = \"-1 GB\"".to_owned(), "copies.max_size", "10 GiB"),
        ("[copies]\nmax_size = \"0\"".to_owned(), "copies.max_size", "10 GiB"),
        ("[copies]\nmax_lease = \"900ms\"".to_owned(), "copies.max_lease", "one second"),
        ("[copies]\nmax_lease = \"200 years\"".to_owned(), "copies.max_lease", "no fixed length"),
        ("[copies]\nmax_lease = \"60000d\"".to_owned(), "copies.max_lease", "136 years"),
        ("[lvm]\ntimeout = \"0s\"".to_owned(), "lvm.timeout", "not longer than nothing"),
        ("[fuse]\nroot = \"\"".to_owned(), "fuse.root", "is empty"),
        ("[fuse]\nroot = \".\"".to_owned(), "fuse.root", "would hide"),
        ("state = \"all/state\"\n[fuse]\nroot = \"all\"".to_owned(), "fuse.root", "would hide"),
        ("mounts = \"all/mnt\"\n[fuse]\nroot = \"all\"".to_owned(), "fuse.root", "would hide"),
        (store("a", "") + "[fuse]\nroot = \"..\"", "fuse.root", "would hide"),
        ("[fuse]\nroot = \"t\"\nmode = \"0640\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"0550\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"0\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"+440\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"r--\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\ngroup = \"no such group\"".to_owned(), "fuse.group", "no group"),
        ("state = \"\"".to_owned(), "state", "is empty"),
        ("[listen]\nunix = \"\"".to_owned(), "listen.unix", "is empty"),
        ("[listen]\nunix_mode = \"rw-rw----\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nunix_mode = \"0888\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nmax_connections = 0".to_owned(), "listen.max_connections", "1000"),
        ("[listen]\nmax_connections = 100001".to_owned(), "listen.max_connections", "1000"),
        ("[listen]\nrequest_timeout = \"99ms\"".to_owned(), "listen.request_timeout", "30s"),
        ("[listen]\nrequest_timeout = \"2h\"".to_owned(), "listen.request_timeout", "30s"),
        ("[listen]\nrequest_timeout = \"soon\"".to_owned(), "listen.request_timeout", "s"),
        ("[listen]\nunix_mode = \"4777\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nunix_mode = \"+660\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nunix_mode = \"\"".to_owned(), "listen.unix_mode", "0660"),
        (format!("[listen]\nunix = \"/{long}\""), "listen.unix", "a shorter path"),
        ("[listen]\ntcp = \"localhost\"".to_owned(), "listen.tcp", "127.0.0.1:7878"),
        ("[listen]\ntcp = \"127.0.0.1:99999\"".to_owned(), "listen.tcp", "127.0.0.1:7878"),
        ("[listen]\ntcp = \"127.0.0.1:7878\"".to_owned(), "listen.tcp", "[[token]]"),
        (token("abc"), "token.sha256", "sha256sum"),
        (token(&HASH[1..]), "token.sha256", "sha256sum"),
        (token(&HASH.replace('b', "g")), "token.sha256", "sha256sum"),
        (token(&format!("+{}", &HASH[1..])), "token.sha256", "sha256sum"),
        (token(&"ü".repeat(32)), "token.sha256", "sha256sum"),
        (token(empty), "token.sha256", "empty text"),
        (store("a", "busy_timeout = \"fast\""), "store.busy_timeout", "90s"),
        (store("a", "max_hold = \"-1s\""), "store.max_hold", "90s"),
        (store("a", "backend = \"zfs\""), "store.backend", "\\\"pages\\\""),
        (
            store("a", "backend = \"reflink\"\nsnapshot_size = \"1 GiB\""),
            "store.snapshot_size",
            "leave it out",
        ),
        (store("a", "backend = \"zfs\""), "store.backend", "does not have"),
        (store("a", "clones = \"stores\""), "store.clones", "name a folder of its own"),
        (store("a", "backend = \"reflink\"\ntrim = true"), "store.trim", "leave it out"),
        (store("a", "backend = \"pages\"\nclones = \"elsewhere\""), "store.clones", "leave it out"),
        (store("a", "backend = \"lvm-thin\"\nclones = \"elsewhere\""), "store.clones", "leave it out"),
        (store("a", "backend = \"pages\"\nkeep_snapshots = 1"), "store.keep_snapshots", "leave it out"),
        (store("a", "backend = \"pages\"\nsnapshot_size = \"1 GiB\""), "store.snapshot_size", "leave it out"),
        (store("a", "backend = \"pages\"\ntrim = true"), "store.trim", "leave it out"),
        (store("a", "snapshot_size = \"all\""), "store.snapshot_size", "500 MB"),
        ("mounts = \"\"".to_owned(), "mounts", "is empty"),
        (store("a", "[store.retention]\nat_most = \"all\""), "store.retention.at_most", "10 GiB"),
        (store("a", "[store.retention]\nat_most = \"0 GB\""), "store.retention.at_most", "no room"),
        (store("a", "[store.retention]\nat_least = 0"), "store.retention.at_least", "newest version always"),
        (store("a", "[store.retention]\nat_least = 3"), "store.retention.at_least", "has no effect"),
        ("[[store]]\nname = \"a\"\npath = \"\"".to_owned(), "store.path", "is empty"),
    ];
    for (text, key, said) in cases {
        check_refused(folder.path(), &text, &[&format!("{key}: "), &said.replace("\\\"", "\"")]);
    }
}

#[test]
fn a_rule_of_retention_that_is_not_understood_is_refused_with_its_line_and_word() {
    let folder = folder();
    let keep = |words: &str| store("a", &format!("[store.retention]\nkeep = \"{words}\""));
    let label = |words: &str| {
        let rule = "[store.retention]\nkeep = \"the last 3\"\n[[store.retention.label]]";
        store("a", &format!("{rule}\npattern = \"x*\"\nkeep = \"{words}\""))
    };
    for (text, key, said) in [
        (keep(""), "keep: line 8", "it is empty"),
        (keep("ever"), "keep: line 8", "it begins with \"ever\""),
        (
            keep("all for 14 days, then daly forever"),
            "keep: line 8",
            "\"daly\" stands after \"all for 14 days, then\"",
        ),
        (keep("all for 30d"), "keep: line 8", "\"30d\" stands after \"all for\""),
        (label("daily"), "label.keep: line 11", "it ends after \"daily\""),
    ] {
        check_refused(folder.path(), &text, &[&format!("store.retention.{key}: "), said, "for example"]);
    }
    let nameless =
        "[store.retention]\nkeep = \"the last 3\"\nlabel = [{ pattern = \"\", keep = \"all forever\" }]";
    check_refused(folder.path(), &store("a", nameless), &["store.retention.label.pattern: ", "month-end *"]);
}

#[test]
fn rules_of_retention_that_contradict_each_other_are_refused_with_both_lines() {
    let folder = folder();
    let label = "[[store.retention.label]]\npattern = \"x*\"\nkeep = \"all forever\"";
    for (rules, lines) in [
        ("at_most = \"0 GB\"\nat_least = 10", &["line 8: at_most = \"0 GB\"", "line 9: at_least = 10"]),
        (
            "at_least = 10\n\nkeep = \"the last 5\"",
            &["line 8: at_least = 10", "line 10: keep = \"the last 5\""],
        ),
        (
            "keep = \"all forever\"\nat_least = 10",
            &["line 8: keep = \"all forever\"", "line 9: at_least = 10"],
        ),
        (
            &format!("keep = \"all forever\"\n{label}"),
            &["line 8: keep = \"all forever\"", "line 10: pattern = \"x*\""],
        ),
        (
            &format!("keep = \"the last 5\"\n{label}\n{label}"),
            &["line 10: pattern = \"x*\"", "line 13: pattern = \"x*\""],
        ),
        (
            "keep = \"\"\"all for 3 months,\nthen daily for 14 days\"\"\"",
            &["line 8: keep = \"\"\"all for 3 months,", "line 9: then daily for 14 days"],
        ),
        (
            "keep = \"monthly for 3 years, then daily for 9 years\"",
            &["\"daily for 9 years\" cannot follow \"monthly for 3 years\"", "line 8: keep"],
        ),
        (
            &format!("keep = \"the last 5\"\n{}", label.replace("forever", "forever, then yearly forever")),
            &["\"yearly forever\" cannot follow \"all forever\"", "line 11: keep"],
        ),
    ] {
        let text = store("a", &format!("[store.retention]\n{rules}"));
        let said = ["store.retention", "contradict each other", lines[0], lines[1]];
        check_refused(folder.path(), &text, &said);
    }
}

#[test]
fn retention_is_what_is_written() {
    let rules = |text: &str| {
        let config = Config::parse(&store("a", text), Path::new("/etc/asat")).unwrap();
        config.stores.into_values().next().unwrap().retention
    };
    assert!(rules("").keeps_everything());
    let written = rules(
        "[store.retention]\nkeep = \"all for 14 days, then month ends for 7 years\"\nat_most = \"200 GB\"\n\
         at_least = 10\n[[store.retention.label]]\npattern = \"month-end *\"\nkeep = \"all forever\"",
    );
    assert_eq!(written.keep.unwrap().text(), "all for 14 days, then month ends for 7 years");
    assert_eq!((written.at_most, written.at_least), (Some(200_000_000_000), 10));
    assert!(
        written.labels[0].pattern.matches("month-end 2026-10") && written.labels[0].keep.keeps_everything()
    );
}

#[test]
fn checks_that_contradict_themselves_or_cannot_be_asked_are_refused_by_their_name() {
    let folder = folder();
    let cases = [
        ("query = \"select 1\"\nbuiltin = \"quick_check\"", "both query and builtin"),
        ("equals = 0", "asks nothing"),
        ("query = \"select 1\"\nequals = 1\nat_least = 1", "both equals and at_least"),
        ("builtin = \"quick_check\"\nequals = \"ok\"", "knows itself"),
        ("builtin = \"foreign_key_check\"\nat_least = 0", "knows itself"),
        ("builtin = \"integrity_check\"", "which there is not"),
        ("query = \"select 1\"\nequals = true", "neither a number nor a text"),
        ("query = \"select 1\"\nequals = [1]", "neither a number nor a text"),
        ("query = \"select 1\"\nequals = nan", "neither a number nor a text"),
        ("query = \"select 1\"\nat_least = \"1\"", "is no number"),
        ("query = \"select 1\"\nat_least = inf", "is no number"),
        ("query = \"select 1\"\ndeadline = \"2h\"", "longer than an hour"),
        ("query = \"select 1\"\ndeadline = \"soon\"", "deadline"),
        ("query = \"\"", "should be a SELECT"),
        ("query = \"delete from booking\"", "begins with \\\"delete\\\""),
        ("query = \"attach 'other.db' as other\"", "begins with \\\"attach\\\""),
        ("query = \"pragma user_version\"", "begins with \\\"pragma\\\""),
        ("query = \"select 1; select 2\"", "more than one statement"),
        ("query = \"select 1 from\"", "incomplete input"),
        (
            "query = \"select 1\"\n[[store.check]]\nname = \"balance\"\nquery = \"select 2\"",
            "names two checks",
        ),
    ];
    for (lines, what) in cases {
        let text = store("a", &format!("[[store.check]]\nname = \"balance\"\n{lines}"));
        let said = Config::parse(&format!("{STATE}{text}"), folder.path()).expect_err(lines).to_string();
        let what = what.replace('\\', "");
        assert!(
            said.contains("store.check") && said.contains("balance") && said.contains(&what),
            "{lines}: {said}"
        );
    }
    for name in ["", " ", "a\u{7}", &"x".repeat(101)] {
        let text = store(
            "a",
            &format!("[[store.check]]\nname = {name:?}\nquery = \"select 1\"").replace("\\u{7}", "\\u0007"),
        );
        let said = Config::parse(&format!("{STATE}{text}"), folder.path()).expect_err(name).to_string();
        assert!(said.contains("store.check.name"), "{name:?}: {said}");
    }
    let many: String =
        (0..101).map(|n| format!("[[store.check]]\nname = \"c{n}\"\nquery = \"select {n}\"\n")).collect();
    let said = Config::parse(&format!("{STATE}{}", store("a", &many)), folder.path()).unwrap_err();
    assert!(said.to_string().contains("at most 100"), "{said}");
    // The daemon refuses it as any other wrong configuration, before it begins.
    let wrong = store("a", "[[store.check]]\nname = \"c\"\nquery = \"drop table t\"");
    check_refused(folder.path(), &wrong, &["store.check.query", "begins with"]);
}

#[test]
fn what_watch_mode_cannot_go_by_is_refused_by_its_key() {
    let folder = folder();
    let watch = |lines: &str| store("a", &format!("[store.watch]\n{lines}"));
    let marker = "marker = \"select 1\"";
    let endless =
        "marker = \"with recursive n(i) as (select 1 union all select i + 1 from n) select i from n\"";
    for lines in [
        marker,
        endless,
        "marker = \"values (1)\"\ndebounce = \"200ms\"",
        "marker = \"select max(id) from later\"",
    ] {
        let config = Config::parse(&format!("{STATE}{}", watch(lines)), folder.path()).unwrap();
        let watch = config.stores.values().next().unwrap().watch.as_ref().unwrap();
        assert!(watch.pace.debounce <= watch.pace.longest, "{lines}");
    }
    for (lines, parts) in [
        ("", ["marker", "missing"]),
        ("marker = 1", ["marker", "string"]),
        ("marker = \"\"", ["store.watch.marker", "should be a SELECT"]),
        ("marker = \"delete from t\"", ["store.watch.marker", "begins with"]),
        ("marker = \"select 1; select 2\"", ["store.watch.marker", "more than one statement"]),
        ("marker = \"select load_extension('x')\"", ["store.watch.marker", "cannot be asked"]),
        ("marker = \"select 1\"\nevery = \"1s\"", ["every", "unknown field"]),
        ("marker = \"select 1\"\ndeadline = \"1h\"", ["store.watch.deadline", "longer than a minute"]),
        ("marker = \"select 1\"\ndeadline = \"0s\"", ["store.watch.deadline", "not longer than nothing"]),
        (
            "marker = \"select 1\"\ndebounce = \"1s\"\nlongest = \"10ms\"",
            ["store.watch.longest", "shorter than debounce"],
        ),
        ("marker = \"select 1\"\npoll = \"often\"", ["store.watch.poll", "not a duration"]),
    ] {
        check_refused(folder.path(), &watch(lines), &parts);
    }
    check_refused(folder.path(), &store("a", "unique_labels = \"yes\""), &["unique_labels", "boolean"]);
}

#[test]
fn a_log_that_there_is_not_is_refused() {
    let folder = folder();
    for (line, parts) in [
        ("format = \"xml\"", ["log.format: \"xml\"", "\"json\""]),
        ("format = \"JSON\"", ["log.format: \"JSON\"", "\"json\""]),
        ("level = \"loud\"", ["log.level: \"loud\"", "\"debug\""]),
        ("level = \"\"", ["log.level: \"\"", "\"debug\""]),
        ("file = \"/var/log/asat\"", ["file", "unknown field"]),
    ] {
        check_refused(folder.path(), &format!("[log]\n{line}"), &parts);
    }
}

#[test]
fn the_sample_configuration_says_the_defaults_of_the_log() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/asat.toml");
    let text = fs::read_to_string(&sample).unwrap();
    let section = text.split("[log]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let keys =
        section.lines().filter_map(|line| line.strip_prefix("# ")).filter(|line| line.contains(" = \""));
    let keys: Vec<&str> = keys.collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    let parse = |text: &str| Config::parse(text, Path::new("/")).unwrap().log;
    assert_eq!(parse(&format!("[log]\n{}", keys.join("\n"))), parse(""));
}

/// What stands behind a # in the section of watch mode of the sample is the default of every key that there is.
#[test]
fn the_sample_configuration_says_the_defaults_of_watch_mode() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/asat.toml");
    let text = fs::read_to_string(&sample).unwrap();
    let section = text.split("# [store.watch]").nth(1).unwrap().split("# [store.retention]").next().unwrap();
    let keys: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.contains(" = \""))
        .collect();
    assert_eq!(keys.len(), 5, "{keys:?}");
    let parse = |lines: &str| {
        let text = format!("{STATE}{}", store("a", &format!("[store.watch]\n{lines}")));
        Config::parse(&text, Path::new("/")).unwrap().stores.values().next().unwrap().watch.clone().unwrap()
    };
    assert_eq!(parse(&keys.join("\n")), parse(keys[0]));
}

#[test]
fn what_the_guard_cannot_go_by_is_refused_by_its_key() {
    let folder = folder();
    for (line, key, said) in [
        ("ladder = [\"extend\", \"jump\"]", "ladder", "\"jump\" is no rung"),
        ("ladder = [\"Extend\"]", "ladder", "hurry, brake"),
        ("ladder = [\"alarm\", \"extend\", \"alarm\"]", "ladder", "named twice"),
        ("shortest_tick = \"fast\"", "shortest_tick", "for example"),
        ("shortest_tick = \"0s\"", "shortest_tick", "not longer than nothing"),
        ("shortest_tick = \"900us\"", "shortest_tick", "a millisecond"),
        ("shortest_tick = \"2s\"", "shortest_tick", "longer than the longest, 1000 ms"),
        ("shortest_tick = \"3s\"\nlongest_tick = \"2s\"", "shortest_tick", "the longest, 2000 ms"),
        ("longest_tick = \"10ms\"", "shortest_tick", "the longest, 10 ms"),
        ("longest_tick = \"-1s\"", "longest_tick", "not longer than nothing"),
        ("longest_tick = \"61s\"", "longest_tick", "longer than a minute"),
        ("least_rate = \"0\"", "least_rate", "10 GiB"),
        ("least_rate = \"50 %\"", "least_rate", "is not a size"),
        ("least_rate = \"4 MiB/min\"", "least_rate", "is not a size"),
        ("least_rate = \"3 GiB/s\"", "least_rate", "more than the full rate"),
        ("full_rate = \"0 MiB/s\"", "full_rate", "10 GiB"),
        ("full_rate = \"1 MiB\"", "least_rate", "more than the full rate"),
        ("half_life = \"1 month\"", "half_life", "no fixed length"),
        ("half_life = \"999ms\"", "half_life", "shorter than a second"),
        ("lasting = \"0s\"", "lasting", "not longer than nothing"),
        ("brake = \"10001ms\"", "brake", "longer than 10 s"),
        ("brake = \"0s\"", "brake", "not longer than nothing"),
        ("least_free = \"20%\"", "least_free", "is not a size"),
        ("pools = [\"pool\"]", "pools", "group/pool"),
        ("pools = [\"vg/pool/x\"]", "pools", "names no thin pool"),
        ("pools = [\"vg/-pool\"]", "pools", "names no thin pool"),
        ("pools = [\"/pool\"]", "pools", "names no thin pool"),
        ("pools = [\"vg/pool\", \"vg/pool\"]", "pools", "named twice"),
        ("pools = [\"vg/pool\"]\nladder = [\"alarm\"]", "pools", "no rung \"extend\""),
        (
            "space_before_retention = true\nladder = [\"extend\"]",
            "space_before_retention",
            "no rung \"retire\"",
        ),
        ("alarm_command = [\"page\"]", "alarm_command", "not an absolute path"),
        ("alarm_command = [\"./page\"]", "alarm_command", "not an absolute path"),
        ("alarm_command = [\"\"]", "alarm_command", "not an absolute path"),
        ("alarm_command = [\"/bin/page\", \"a\\u0000b\"]", "alarm_command", "no program can be given"),
        ("alarm_command = [\"/bin/page\"]\nladder = []", "alarm_command", "no rung \"alarm\""),
        ("alarm_repeat = \"10ms\"", "alarm_repeat", "shorter than a second"),
        ("alarm_repeat = \"hourly\"", "alarm_repeat", "for example"),
    ] {
        check_refused(folder.path(), &format!("[guard]\n{line}"), &[&format!("guard.{key}: "), said]);
    }
    for line in ["brake = true", "ladder = \"extend\"", "alarm_command = \"/bin/page\"", "pools = [1]"] {
        let key = line.split(' ').next().unwrap();
        check_refused(folder.path(), &format!("[guard]\n{line}"), &["invalid type", key]);
    }
}

#[test]
fn the_guard_goes_by_what_is_written_and_else_by_the_defaults() {
    let parse = |text: &str| Config::parse(text, Path::new("/etc/asat")).unwrap().guard;
    let guard = parse("");
    assert_eq!(guard.policy, Policy::default());
    assert_eq!((guard.pools.len(), guard.alarm.command.len()), (0, 0));
    assert_eq!(guard.alarm.repeat, Duration::from_secs(3600));

    let guard = parse(
        "[guard]\nladder = [\"retire\", \"alarm\", \"extend\"]\nspace_before_retention = true\n\
         shortest_tick = \"5ms\"\nlongest_tick = \"1 min\"\nleast_rate = \"64 MiB\"\nfull_rate = \"500 MB/s\"\n\
         half_life = \"1h 30m\"\nlasting = \"30s\"\nbrake = \"10s\"\nleast_free = \"1 GiB\"\n\
         pools = [\"vg/pool\", \"vg/other+1\"]\nalarm_command = [\"/bin/page\", \"\", \"a b\"]\nalarm_repeat = \"90s\"",
    );
    let expected = Policy {
        ladder: vec![Rung::Retire, Rung::Alarm, Rung::Extend],
        space_before_retention: true,
        shortest_tick_ms: 5,
        longest_tick_ms: 60_000,
        least_rate: 64 << 20,
        full_rate: 500_000_000,
        half_life_ms: 5_400_000,
        lasting_ms: 30_000,
        brake_ms: 10_000,
        least_folder_free: 1 << 30,
        ..Policy::default()
    };
    assert_eq!(guard.policy, expected);
    assert_eq!(guard.pools, ["vg/pool", "vg/other+1"]);
    let command = ["/bin/page", "", "a b"].map(str::to_owned).to_vec();
    assert_eq!(guard.alarm, AlarmConfig { command, repeat: Duration::from_secs(90) });
    assert_eq!(parse("[guard]\nladder = []").policy.ladder, []);
}

#[test]
fn a_stores_name_needs_quoting_nowhere() {
    let folder = folder();
    let long = "n".repeat(65);
    for name in [
        "", ".", "..", "../a", "a/b", "a b", "a@1", "-a", "_a", "größe", "a\\u0000", "a\\nb", "a:b", "a%",
        &long,
    ] {
        let text = format!("[[store]]\nname = \"{name}\"\npath = \"stores/a.db\"");
        check_refused(folder.path(), &text, &["store.name: "]);
    }
}

#[test]
fn no_two_stores_have_one_name_or_one_file() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("stores")).unwrap();
    symlink("stores", path("link")).unwrap();
    symlink("a.db", path("stores/alias.db")).unwrap();
    let same = |other: &str| format!("{}[[store]]\nname = \"b\"\npath = \"{other}\"", store("a", ""));
    check_refused(folder.path(), &(store("a", "") + &store("a", "")), &["store.name: ", "two stores"]);
    for there in [false, true] {
        if there {
            fs::write(path("stores/a.db"), "").unwrap();
        }
        for other in
            ["stores/a.db", "./stores/./a.db", "stores/../stores/a.db", "link/a.db", "stores/alias.db"]
        {
            check_refused(folder.path(), &same(other), &["store.path: ", "stores a and b"]);
        }
        check_refused(folder.path(), &same(path("stores/a.db").to_str().unwrap()), &["store.path: "]);
    }
    fs::hard_link(path("stores/a.db"), path("stores/hard.db")).unwrap();
    check_refused(folder.path(), &same("stores/hard.db"), &["store.path: "]);
}

#[test]
fn the_state_folder_and_a_stores_folder_are_two() {
    let folder = folder();
    fs::create_dir(folder.path().join("stores")).unwrap();
    symlink("stores", folder.path().join("link")).unwrap();
    for state in ["stores", "./stores", "link", "stores/../stores", "link/../stores"] {
        check_refused(folder.path(), &format!("state = \"{state}\"{}", store("a", "")), &["state: ", "a.db"]);
    }
    for path in ["stores/deep/a.db", "link/deep/a.db", "stores/archive/a/1.pack", "stores/catalogue.db"] {
        let text = format!("state = \"stores\"\n[[store]]\nname = \"a\"\npath = \"{path}\"");
        check_refused(folder.path(), &text, &["state: ", path.rsplit('/').next().unwrap()]);
    }
    assert_eq!(fs::read_dir(folder.path().join("stores")).unwrap().count(), 0);
}

#[test]
fn a_file_that_cannot_be_read_is_refused_by_its_name() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder.toml")).unwrap();
    symlink("nowhere", path("dangling.toml")).unwrap();
    fs::write(path("latin.toml"), b"state = \"\xe4\"").unwrap();
    for name in ["missing.toml", "folder.toml", "dangling.toml", "latin.toml", "no/such/folder.toml"] {
        let log = refused(&path(name));
        assert!(log.contains(name) && log.contains("--config FILE"), "{log}");
    }
    fs::write(path("secret.toml"), "").unwrap();
    fs::set_permissions(path("secret.toml"), fs::Permissions::from_mode(0o000)).unwrap();
    assert!(refused(&path("secret.toml")).contains("secret.toml"));
}

#[test]
fn a_place_that_cannot_be_listened_at_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("asat.sock"), "precious").unwrap();
    let file = folder.path().join("asat.toml");
    fs::write(&file, STATE).unwrap();
    assert!(refused(&file).contains("is no socket"));
    assert_eq!(fs::read_to_string(folder.path().join("asat.sock")).unwrap(), "precious");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let token = format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"");
    fs::write(&file, format!("state = \"state\"\nlisten.tcp = \"{address}\"\n{token}")).unwrap();
    assert!(refused(&file).contains(&address.to_string()));
}

#[test]
fn an_empty_file_means_the_defaults() {
    let config = Config::parse("", Path::new("/etc/asat")).unwrap();
    assert_eq!(config.state, PathBuf::from("/var/lib/asat"));
    assert_eq!(config.listen.unix, Some(PathBuf::from("/run/asat/asat.sock")));
    assert_eq!((config.listen.unix_mode, config.listen.tcp), (0o660, None));
    assert!(config.stores.is_empty() && config.tokens.is_empty());
    let tcp_only = format!(
        "listen.tcp = \"[::1]:7878\"\n[[token]]\nname = \"a\"\nrole = \"admin\"\nsha256 = \"{HASH}\""
    );
    let config = Config::parse(&tcp_only, Path::new("/etc/asat")).unwrap();
    assert_eq!(config.listen.unix, None);
}

#[test]
fn a_daemon_without_stores_starts_and_serves_what_was_kept() {
    let mut world = World::new();
    world.start_with(STATE);
    assert_eq!(world.get("/versions").json()["versions"], serde_json::json!([]));
    assert_eq!(world.get("/stores").json()["stores"], serde_json::json!([]));
    world.request("POST", "/snapshots", &[], b"").expect_problem(422, "invalid");
    assert!(world.stop().success());

    world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
    world.start();
    world.publish("kept");
    assert!(world.stop().success());
    world.start_with(STATE);
    assert_eq!(world.get("/versions/report@1/database").status, 200);
    assert!(world.open("report@1").exists());
    world.request("POST", "/snapshots", &[], b"").expect_problem(404, "unknown_store");
}

#[test]
fn relative_paths_start_from_the_files_folder() {
    let config = Config::parse(&(STATE.to_owned() + &store("a", "")), Path::new("/etc/asat")).unwrap();
    assert_eq!(config.state, PathBuf::from("/etc/asat/state"));
    assert_eq!(config.listen.unix, Some(PathBuf::from("/etc/asat/asat.sock")));
    assert_eq!(config.stores.values().next().unwrap().path, PathBuf::from("/etc/asat/stores/a.db"));

    // Wherever the daemon itself is started, and however the file is named there.
    let mut world = World::new();
    world.write_config();
    fs::create_dir(world.path("elsewhere")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command.args(["serve", "--config", "../asat.toml"]).current_dir(world.path("elsewhere"));
    let mut running = Running::spawn(command);
    running.wait_for("ready").unwrap();
    world.daemon = Some(running);
    assert_eq!(world.get("/healthz").status, 200);
    assert!(world.path("state").is_dir());
    assert_eq!(fs::read_dir(world.path("elsewhere")).unwrap().count(), 0);
    let path = world.get("/stores").json()["stores"][0]["path"].as_str().map(PathBuf::from);
    assert_eq!(path.unwrap().canonicalize().ok(), world.store().canonicalize().ok());
}

#[test]
fn the_sample_configuration_is_one() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/asat.toml");
    if let Ok(text) = fs::read_to_string(&sample) {
        Config::parse(&text, Path::new("/etc/asat")).unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// What stands behind a # in the guard's section of the sample is the default of every key that there is.
#[test]
fn the_sample_configuration_says_the_guards_defaults() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/asat.toml");
    let text = fs::read_to_string(&sample).unwrap();
    let section = text.split("[guard]").nth(1).unwrap().split("\n# [[").next().unwrap();
    let key = |line: &str| {
        let (key, _) = line.strip_prefix("# ")?.split_once(" = ")?;
        key.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()).then(|| key.to_owned())
    };
    let keys: Vec<String> = section.lines().filter_map(key).collect();
    assert_eq!(keys.len(), 13, "{keys:?}");
    let written: Vec<&str> =
        section.lines().filter(|line| key(line).is_some()).map(|line| &line[2..]).collect();
    let config = Config::parse(&format!("[guard]\n{}", written.join("\n")), Path::new("/")).unwrap();
    let usual = Config::parse("", Path::new("/")).unwrap();
    assert_eq!(config.guard.policy, usual.guard.policy);
    assert_eq!((config.guard.pools, config.guard.alarm), (usual.guard.pools, usual.guard.alarm));
}

fn with_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_of_tokens_is_read_only_where_nobody_else_can() {
    let folder = folder();
    let path = folder.path().join("tokens.toml");
    let token = format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"\n");
    let text = "listen.tcp = \"127.0.0.1:0\"\nlisten.tokens = \"tokens.toml\"";
    check_refused(folder.path(), text, &["listen.tokens", "tokens.toml", "cannot be read"]);
    fs::write(&path, &token).unwrap();
    for mode in [0o644, 0o660, 0o606, 0o777] {
        with_mode(&path, mode);
        let mends = format!("run: chmod g-w,o-rwx {}", path.display());
        check_refused(folder.path(), text, &["listen.tokens", &format!("{mode:04o}"), &mends]);
    }
    with_mode(&path, 0o640);
    let config = Config::parse(text, folder.path()).unwrap();
    assert_eq!((config.tokens.len(), config.tokens[0].name.as_str()), (1, "a"));
    let both = Config::parse(&format!("{text}\n{}", token.replace("\"a\"", "\"b\"")), folder.path()).unwrap();
    assert_eq!(both.tokens.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);

    for (wrong, part) in [
        ("state = \"x\"".to_owned(), "unknown field"),
        ("[[store]]\nname = \"x\"".to_owned(), "unknown field"),
        ("secret".to_owned(), "[[token]]"),
        (format!("{token}secret = \"s3cret-text\""), "unknown field"),
        (token.replace(HASH, "s3cret-text"), "token.sha256"),
        (token.replace("read", "rood"), "unknown variant"),
        ("x".repeat((1 << 20) + 1), "longer than"),
    ] {
        fs::write(&path, wrong).unwrap();
        let problem = Config::parse(text, folder.path()).unwrap_err();
        assert!(
            problem.detail.starts_with("listen.tokens: ") && problem.to_string().contains(part),
            "{problem}"
        );
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
    }
    fs::write(&path, "").unwrap();
    let problem = Config::parse(text, folder.path()).unwrap_err();
    assert!(problem.detail.starts_with("listen.tcp") && problem.hint.contains("listen.tokens"), "{problem}");
}

#[test]
fn a_configuration_that_says_who_may_do_what_is_written_by_its_owner_alone() {
    let folder = folder();
    let file = folder.path().join("asat.toml");
    let token = format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"");
    for text in [&token, "[[peer]]\nuser = \"root\"\nrole = \"read\""] {
        fs::write(&file, format!("{STATE}{text}")).unwrap();
        for mode in [0o664, 0o646, 0o622] {
            with_mode(&file, mode);
            let log = refused(&file);
            assert!(log.contains("run: chmod go-w") && log.contains("asat.toml"), "{log}");
        }
        for mode in [0o644, 0o600] {
            with_mode(&file, mode);
            assert!(Config::load(&file).is_ok(), "{mode:o}");
        }
    }
    fs::write(&file, STATE).unwrap();
    with_mode(&file, 0o666);
    assert!(Config::load(&file).is_ok(), "it says nothing of who may do what");
}

#[test]
fn until_when_a_token_counts_is_a_day_or_an_instant() {
    let parse = |expires: &str| {
        let token =
            format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"\nexpires = {expires}");
        Config::parse(&token, Path::new("/")).map(|config| config.tokens[0].expires_at.unwrap().to_string())
    };
    for (text, expected) in [
        ("\"2027-06-30\"", "2027-07-01T00:00:00Z"),
        ("2027-06-30", "2027-07-01T00:00:00Z"),
        ("\"2028-02-29\"", "2028-03-01T00:00:00Z"),
        ("\"2027-06-30T12:00:00+02:00\"", "2027-06-30T10:00:00Z"),
        ("2027-06-30T12:00:00Z", "2027-06-30T12:00:00Z"),
    ] {
        assert_eq!(parse(text).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "\"\"",
        "\"tomorrow\"",
        "\"2027-02-29\"",
        "\"20270630\"",
        "\"2027-06-30T12:00:00\"",
        "\"30d\"",
        "2027-06-30T12:00:00",
        "12:00:00",
        "3",
        "true",
        "[]",
        "\"9999-12-31\"",
        "\"99999-01-01\"",
    ] {
        let problem = parse(text).unwrap_err();
        assert!(problem.detail.starts_with("token.expires: of token \"a\""), "{text}: {problem}");
    }
}

#[test]
fn a_peer_is_one_user_or_one_group_of_the_machine() {
    let parse =
        |peer: &str| Config::parse(&format!("[[peer]]\n{peer}"), Path::new("/")).map(|config| config.peers);
    let role = "role = \"publish\"";
    let rule = |who| vec![PeerRule { who, role: Role::Publish }];
    assert_eq!(parse(&format!("user = \"root\"\n{role}")), Ok(rule(Who::User(0))));
    assert_eq!(parse(&format!("group = \"root\"\n{role}")), Ok(rule(Who::Group(0))));
    assert_eq!(parse(&format!("user = \"4711\"\n{role}")), Ok(rule(Who::User(4711))));
    for (peer, parts) in [
        (format!("user = \"no such user\"\n{role}"), ["peer.user", "no such user"]),
        (format!("user = \"\"\n{role}"), ["peer.user", "there is no user"]),
        (format!("user = \"-1\"\n{role}"), ["peer.user", "there is no user"]),
        (format!("user = \"4294967296\"\n{role}"), ["peer.user", "there is no user"]),
        (format!("group = \"no such group\"\n{role}"), ["peer.group", "no such group"]),
        (format!("user = \"root\"\ngroup = \"root\"\n{role}"), ["peer", "both"]),
        (role.to_owned(), ["peer", "nobody"]),
        ("user = \"root\"".to_owned(), ["missing field", "role"]),
        ("user = \"root\"\nrole = \"owner\"".to_owned(), ["unknown variant", "owner"]),
    ] {
        let problem = parse(&peer).unwrap_err();
        assert!(parts.iter().all(|part| problem.detail.contains(part)), "{peer}: {problem}");
    }
}

#[test]
fn a_set_has_a_name_of_its_own_and_two_stores_or_more_that_there_are() {
    let folder = folder();
    let set = |name: &str, stores: &str| format!("[[set]]\nname = \"{name}\"\nstores = {stores}\n");
    let both = r#"["a", "b"]"#;
    for (sets, parts) in [
        (set("all", r#"["a", "c"]"#), vec!["set.stores", "line 14", "\"all\"", "\"c\"", "a, b"]),
        (set("all", r#"["a", "../b"]"#), vec!["set.stores", "\"../b\"", "no store"]),
        (set("all", r#"["a"]"#), vec!["set.stores", "line 14", "fewer than two stores"]),
        (set("all", "[]"), vec!["set.stores", "fewer than two stores"]),
        (set("all", r#"["a", "b", "a"]"#), vec!["set.stores", "\"a\" twice"]),
        (set("a", both), vec!["set.name", "line 13", "names a store"]),
        (set("", both), vec!["set.name", "not the name of a set"]),
        (set("month end", both), vec!["set.name", "month end"]),
        (set("all", both) + &set("all", both), vec!["set.name", "line 16", "two sets"]),
        (set("all", "\"a\""), vec!["stores"]),
        ("[[set]]\nname = \"all\"\n".to_owned(), vec!["missing field", "stores"]),
        (set("all", both) + "label = \"x\"\n", vec!["unknown field", "label"]),
    ] {
        let text = format!("{STATE}{}{}{sets}", store("a", "").trim_start(), store("b", ""));
        let problem = Config::parse(&text, folder.path()).expect_err(&text);
        for part in parts {
            assert!(problem.detail.contains(part) || problem.hint.contains(part), "{part:?}: {problem}");
        }
    }
    let text =
        format!("{STATE}{}{}{}", store("a", ""), store("b", ""), set("all", both) + &set("other", both));
    let config = Config::parse(&text, folder.path()).unwrap();
    let stores =
        |name: &str| config.sets[&name.parse().unwrap()].iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (stores("all"), stores("other")),
        (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()])
    );
    check_refused(
        folder.path(),
        &format!("{}{}", store("a", ""), set("all", both)),
        &["set.stores", "\"b\""],
    );
}
