//! The sample configuration: it is one, and says the defaults.

use std::fs;
use std::path::Path;

use asat::config::Config;

use crate::config::{STATE, store};

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
fn the_sample_configuration_says_the_defaults_of_the_clock() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/asat.toml");
    let text = fs::read_to_string(&sample).unwrap();
    let section = text.split("[clock]\n").nth(1).unwrap().split("\n[").next().unwrap();
    // The last one is an example: where it is left out, a clock is accepted by a person only.
    let keys: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("# max_")).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    let parse = |text: &str| Config::parse(text, Path::new("/")).unwrap().clock;
    assert_eq!(parse(&format!("[clock]\nmax_{}\nmax_{}", keys[0], keys[1])), parse(""));
    assert_eq!(parse("").accept_after, None);
    assert!(parse("[clock]\naccept_after = \"3d\"").accept_after.is_some());
}

#[test]
fn the_sample_configuration_is_one() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/asat.toml");
    let text = fs::read_to_string(&sample).unwrap();
    Config::parse(&text, Path::new("/etc/asat")).unwrap_or_else(|problem| panic!("{problem}"));
}

/// What stands behind a # in the guard's section of the sample is the default of every key that there is.
#[test]
fn the_sample_configuration_says_the_guards_defaults() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/asat.toml");
    let text = fs::read_to_string(&sample).unwrap();
    let section = text.split("[guard]").nth(1).unwrap().split("\n[").next().unwrap();
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
