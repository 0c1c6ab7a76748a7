//! What asat is built from: whose it is, where it comes from, and that the list of it which goes with the package is whole.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

/// What cargo-deny is told of licences and crates that are refused.
fn rules() -> toml::Table {
    include_str!("../../deny.toml").parse().unwrap()
}

fn names(list: &toml::Value, name: fn(&toml::Value) -> &toml::Value) -> BTreeSet<&str> {
    list.as_array().unwrap().iter().map(|entry| name(entry).as_str().unwrap()).collect()
}

fn output(program: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every package that the lock file names, what only tests and other platforms use among them.
fn packages() -> Vec<Value> {
    let metadata = output(env!("CARGO"), &["metadata", "--locked", "--format-version=1"]);
    metadata["packages"].as_array().unwrap().clone()
}

/// Whether a licence, as a package states it, leaves a choice that is allowed.
fn is_allowed(stated: &str) -> bool {
    let expression = Expression::parse_mode(stated, ParseMode::LAX);
    let rules = rules();
    let licences = names(&rules["licenses"]["allow"], |licence| licence);
    let allowed = |licence: &spdx::LicenseReq| {
        licence.license.id().is_some_and(|id| licences.contains(id.name))
            // An exception only permits more.
            && licence.addition.as_ref().is_none_or(|addition| addition.id().is_some())
    };
    expression.is_ok_and(|expression| expression.evaluate(allowed))
}

#[test]
fn every_dependency_may_be_passed_on() {
    let refused: Vec<String> = packages()
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default()))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "licences that are not on the list:\n{}", refused.join("\n"));
}

#[test]
fn what_may_not_be_passed_on_is_recognised() {
    let refused =
        ["", "GPL-3.0-only", "MIT AND AGPL-3.0-only", "MPL-2.0", "no licence at all", "LicenseRef-own"];
    refused.iter().for_each(|stated| assert!(!is_allowed(stated), "{stated}"));
    let taken = ["MIT", "MIT/Apache-2.0", "GPL-2.0-only OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"];
    taken.iter().for_each(|stated| assert!(is_allowed(stated), "{stated}"));
}

#[test]
fn no_dependency_is_one_that_is_refused() {
    let rules = rules();
    let refused = names(&rules["bans"]["deny"], |ban| &ban["crate"]);
    let packages = packages();
    let found: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .filter(|name| refused.contains(name))
        .collect();
    assert!(!refused.is_empty() && found.is_empty(), "{found:?}");
}

#[test]
fn every_dependency_comes_from_the_one_registry() {
    let sources: BTreeSet<String> =
        packages().iter().filter_map(|package| Some(package["source"].as_str()?.to_owned())).collect();
    assert_eq!(sources.len(), 1, "{sources:?}");
    assert!(sources.iter().all(|source| source.starts_with("registry+")), "{sources:?}");
}

#[test]
fn whoever_asks_a_daemon_takes_nothing_of_it_along() {
    for package in ["asat-client", "asat-wire"] {
        let tree = ["tree", "--locked", "--edges=normal", "--prefix=none", "--package", package];
        let mut command = Command::new(env!("CARGO"));
        let output = command.args(tree).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(output.status.success() && names.contains("asat-core"), "{text}");
        let daemon =
            ["asat", "asat-archive", "asat-catalogue", "asat-host", "axum", "clap", "fuser", "rusqlite"];
        assert!(!daemon.iter().any(|name| names.contains(name)), "{package}: {text}");
    }
}

#[test]
fn the_list_of_dependencies_names_each_of_them_with_its_licence() {
    let list = output("tools/sbom", &[]);
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = list["components"].as_array().unwrap();
    for component in components {
        let stated = component["licenses"][0]["expression"].as_str().unwrap();
        assert!(Expression::parse(stated).is_ok() && is_allowed(stated), "{component:#}");
    }
    let named = |name: &str| components.iter().any(|component| component["name"] == name);
    // What is used at each depth, and nothing that only tests or other platforms use.
    for used in ["axum", "rusqlite", "libsqlite3-sys", "zstd-sys", "asat-core"] {
        assert!(named(used), "{used} is missing");
    }
    for unused in ["proptest", "spdx", "asat-bench", "asat-sim", "asat-fuzz", "libfuzzer-sys", "windows-sys"]
    {
        assert!(!named(unused), "{unused} is no part of the program");
    }
    // Whatever depends on something depends on what is listed.
    let reference = |value: &Value| value.as_str().unwrap().to_owned();
    let all: BTreeSet<String> = components.iter().map(|component| reference(&component["bom-ref"])).collect();
    let leads = list["dependencies"].as_array().unwrap().iter();
    let needed: BTreeSet<String> =
        leads.flat_map(|lead| lead["dependsOn"].as_array().unwrap()).map(reference).collect();
    assert_eq!(needed, all);
}
