//! What people and programs write in a line: names, instants, rules, labels, paths of the tree.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use asat_core::audit::{Link, Place};
use asat_core::event::Change;
use asat_core::guard::Target;
use asat_core::register::Register;
use asat_core::retention::{Pattern, Rule};
use asat_core::tree::{Kind, Node};
use asat_core::version::{Content, Holding, State, Store, Tag, Version};
use asat_core::{Fingerprint, PageSize, SetName, StoreName, TagName, VersionId, VersionRef, instant, labels};
use jiff::Timestamp;

use crate::text;

/// What is written again is the same text where a name has one spelling, and the same name in any case.
fn read<T: FromStr + Display + PartialEq + Debug>(line: &str) -> Option<T> {
    let name = line.parse::<T>().ok()?;
    assert_eq!(name.to_string(), line, "one name has one spelling");
    Some(name)
}

pub(crate) fn names(bytes: &[u8]) {
    let line = text(bytes);
    let store = read::<StoreName>(&line);
    assert_eq!(store.is_some(), read::<SetName>(&line).is_some());
    let tag = read::<TagName>(&line);
    assert!(tag.is_none() || store.is_some(), "a tag is spelled as a store is");
    let version = read::<VersionId>(&line);
    match line.parse() {
        Ok(VersionRef::Exact(id)) => assert_eq!(version, Some(id)),
        Ok(VersionRef::Tag(store, tag)) => assert_eq!(format!("{store}@{tag}"), line),
        Ok(VersionRef::Latest(store)) => assert_eq!(format!("{store}@latest"), line),
        Err(_) => assert_eq!(version, None),
    }
    read::<Target>(&line);
    read::<Link>(&line);
    read::<Place>(&line);
    if let Ok(fingerprint) = Fingerprint::try_from(line.clone()) {
        assert_eq!(fingerprint.to_string(), line);
    }
    // Names become those of folders, and parts of URLs.
    assert!(store.is_none_or(|store| !store.as_str().contains(['/', '\0', '@']) && store.as_str() != ".."));
    if let Some(name) = asat_archive::outside::file_name(&line) {
        assert_eq!(name, line);
    }
}

pub(crate) fn instants(bytes: &[u8]) {
    let line = text(bytes);
    let (begins, ends) = (instant::day_begins(&line), instant::day_ends(&line));
    // The first day of all begins before the first instant.
    assert!(begins.is_none() || begins <= ends);
    if let Ok(exact) = instant::exact(&line) {
        assert_eq!((begins, ends), (Some(exact), Some(exact)));
        assert_eq!(instant::exact(&exact.to_string()), Ok(exact));
    }
}

pub(crate) fn rules(bytes: &[u8]) {
    let line = text(bytes);
    match line.parse::<Rule>() {
        Ok(rule) => {
            let again: Rule = rule.text().parse().expect("a rule is written as it is read");
            assert_eq!(again.stages(), rule.stages());
            let now: Timestamp = "2026-11-19T17:00:00Z".parse().unwrap();
            for stage in rule.stages() {
                assert!(stage.extent.horizon(now) <= now);
            }
        }
        Err(error) => assert!(error.to_string().len() < 2000 + 2 * line.len()),
    }
}

pub(crate) fn labels(bytes: &[u8]) {
    let lines = text(bytes);
    let (pattern, label) = lines.split_once('\n').unwrap_or((&lines, ""));
    let matches = Pattern::new(pattern).matches(label);
    if !pattern.contains(['*', '?']) {
        assert_eq!(matches, pattern == label);
    }
    assert!(Pattern::new("*").matches(label));
    let folded = labels::folded(label);
    assert_eq!(labels::folded(&folded), folded, "what is folded stays as it is");
}

/// A store with a version that can be read and one that cannot, and a tag.
fn register() -> Register {
    let mut register = Register::default();
    let at: Timestamp = "2026-11-19T17:00:03.123456Z".parse().unwrap();
    let store: StoreName = "report".parse().unwrap();
    let name = store.clone();
    register.evolve(&Change::Store(Store {
        name,
        path: "/srv/report.db".into(),
        added_at: at,
        damage: None,
    }));
    for (number, state) in [(11, State::Lost), (12, State::Ready)] {
        let content = Content {
            cut_at: at,
            fingerprint: None,
            page_size: PageSize::new(4096).unwrap(),
            page_count: 3,
            wal: true,
        };
        let id = VersionId { store: store.clone(), number };
        register.evolve(&Change::Version(Box::new(Version {
            id: id.clone(),
            state,
            begun_at: at,
            content: Some(content),
            holdings: vec![Holding::Archive { bytes: 9 }],
            copy: None,
            pin: None,
            end: None,
        })));
        let name = format!("month-end-{number}").parse().unwrap();
        register.evolve(&Change::Tagged(Tag { name, version: id, set_at: at }));
    }
    register
}

pub(crate) fn tree(bytes: &[u8]) {
    let (register, path) = (register(), text(bytes));
    let mut node = Node::Root;
    let mut above = Vec::new();
    for name in path.split('/') {
        let Some(found) = node.find(&register, name) else { return };
        let kind = found.kind(&register).expect("what is found is there");
        above.push(name);
        if let Kind::Link(target) = kind {
            return check_link(&register, &above, &target);
        }
        node = found;
    }
    for (name, listed) in node.list(&register) {
        assert_eq!(
            node.find(&register, &name).as_ref(),
            Some(&listed),
            "what is listed is found by its name"
        );
    }
}

/// A link leads to a version that can be read: from its folder, through names that are there.
fn check_link(register: &Register, link: &[&str], target: &str) {
    let mut path: Vec<&str> = link[..link.len() - 1].to_vec();
    for part in target.split('/') {
        match part {
            ".." => assert!(path.pop().is_some(), "{target} leads out of the tree"),
            part => path.push(part),
        }
    }
    let end = path.iter().try_fold(Node::Root, |node, name| node.find(register, name));
    assert!(
        matches!(end, Some(Node::Version(_) | Node::Database(_))),
        "{target} from {link:?} leads to {end:?}"
    );
}
