//! Rules of retention, as they are understood and refused.

use std::path::Path;

use asat::config::Config;

use crate::config::{check_refused, folder, store};

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
