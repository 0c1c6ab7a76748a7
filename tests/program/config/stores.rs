//! Stores, their checks and watch mode, and sets of them.

use std::fs;
use std::os::unix::fs::symlink;

use asat::config::Config;

use crate::config::{STATE, check_refused, folder, store};

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
        ("marker = 1", ["marker", "a text"]),
        ("marker = \"\"", ["store.watch.marker", "should be a SELECT"]),
        ("marker = \"delete from t\"", ["store.watch.marker", "begins with"]),
        ("marker = \"select 1; select 2\"", ["store.watch.marker", "more than one statement"]),
        ("marker = \"select load_extension('x')\"", ["store.watch.marker", "cannot be asked"]),
        ("marker = \"select 1\"\nevery = \"1s\"", ["every", "there is no"]),
        ("marker = \"select 1\"\ndeadline = \"1h\"", ["store.watch.deadline", "longer than a minute"]),
        ("marker = \"select 1\"\ndeadline = \"0s\"", ["store.watch.deadline", "must be longer than 0s"]),
        (
            "marker = \"select 1\"\ndebounce = \"1s\"\nlongest = \"10ms\"",
            ["store.watch.longest", "shorter than debounce"],
        ),
        ("marker = \"select 1\"\npoll = \"often\"", ["store.watch.poll", "not a duration"]),
    ] {
        check_refused(folder.path(), &watch(lines), &parts);
    }
    check_refused(folder.path(), &store("a", "unique_labels = \"yes\""), &["unique_labels", "true or false"]);
}

#[test]
fn what_cannot_be_expected_of_a_store_is_refused_with_what_can() {
    let folder = folder();
    for (expect, wrong) in [
        ("daily", "is no time by which"),
        ("every day by 24:00", "is no time of the day"),
        ("every week by Fri 18:00", "is no day of the week"),
    ] {
        let written = store("a", &format!("expect = \"{expect}\""));
        let parts = ["store.expect", "of a: ", wrong, "every business day by 18:00"];
        check_refused(folder.path(), &written, &parts);
    }
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
    for path in
        ["stores/deep/a.db", "link/deep/a.db", "stores/archive/a/000000000001.segment", "stores/catalogue.db"]
    {
        let text = format!("state = \"stores\"\n[[store]]\nname = \"a\"\npath = \"{path}\"");
        check_refused(folder.path(), &text, &["state: ", path.rsplit('/').next().unwrap()]);
    }
    assert_eq!(fs::read_dir(folder.path().join("stores")).unwrap().count(), 0);
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
        ("[[set]]\nname = \"all\"\n".to_owned(), vec!["is missing", "stores"]),
        (set("all", both) + "label = \"x\"\n", vec!["there is no", "label"]),
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
