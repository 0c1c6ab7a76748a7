//! The rules of the house that no lint can keep: who may depend on whom, what a file looks like, what a
//! document cites. `tools/prose` has the rules of words.
//!
//! `docs/ARCHITECTURE.md` states the rules; where one changes, both change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and which others it may see.
const ARROWS: [(&str, &[&str]); 14] = [
    (
        "asat",
        &[
            "asat-archive",
            "asat-catalogue",
            "asat-client",
            "asat-core",
            "asat-host",
            "asat-remote",
            "asat-rows",
            "asat-shell",
            "asat-upgrade",
            "asat-wire",
        ],
    ),
    ("asat-archive", &["asat-core"]),
    // It starts the program, asks it as a client does, and takes some of its parts to measure them alone.
    ("asat-bench", &["asat", "asat-catalogue", "asat-client", "asat-core", "asat-host", "asat-wire"]),
    ("asat-catalogue", &["asat-core"]),
    // A program that talks to a daemon can use both without any crate of the daemon.
    ("asat-client", &["asat-core"]),
    ("asat-core", &[]),
    // It feeds what each of them reads of others.
    (
        "asat-fuzz",
        &[
            "asat",
            "asat-archive",
            "asat-catalogue",
            "asat-client",
            "asat-core",
            "asat-host",
            "asat-remote",
            "asat-rows",
            "asat-wire",
        ],
    ),
    ("asat-host", &["asat-core", "asat-rows"]),
    // It puts what an archive consists of into a bucket, and knows of no daemon.
    ("asat-remote", &["asat-archive", "asat-core"]),
    // It reads pages by a trait, and says what is wrong as the others do.
    ("asat-rows", &["asat-core"]),
    // It drives the engine for the daemon and for the simulator.
    ("asat-shell", &["asat-core"]),
    // It has the shell drive engine, guard and catalogue together, as the root does, on a machine that is a model.
    ("asat-sim", &["asat-catalogue", "asat-core", "asat-shell"]),
    // What it reads of the format before, it writes into an archive of today's.
    ("asat-upgrade", &["asat-archive", "asat-core"]),
    ("asat-wire", &["asat-core"]),
];

/// What the core may depend on: nothing that could touch a clock, a file, a process or a thread.
const PURE: [&str; 6] = ["blake3", "jiff", "serde", "serde_json", "thiserror", "unicode-normalization"];

/// Rooms of the root package, and what must not be named in them.
const WALLS: [(&str, &[&str]); 3] = [
    // The client knows the daemon by its answers alone.
    (
        "src/cli/",
        &["crate::daemon", "crate::http", "asat_archive::Archive", "asat_catalogue", "asat_host::store"],
    ),
    // Handlers translate; only the driver commits.
    ("src/http/", &["crate::cli", "asat_catalogue"]),
    ("src/daemon/", &["crate::cli"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of a kind below a folder, by its path from the root.
fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, read(&path)));
            }
        }
    }
    found.sort();
    found
}

/// The folders of all crates beside the root.
fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.join("Cargo.toml").exists()).collect()
}

/// What the program is built from, without tests and examples.
fn sources() -> Vec<(String, String)> {
    let mut found = files("src", "rs");
    for folder in crates() {
        found.extend(files(folder.join("src").strip_prefix(root()).unwrap().to_str().unwrap(), "rs"));
    }
    found
}

fn manifests() -> BTreeMap<String, toml::Table> {
    let mut folders = crates();
    folders.push(root().to_owned());
    let manifest = |folder: PathBuf| {
        let manifest: toml::Table = read(&folder.join("Cargo.toml")).parse().unwrap();
        (manifest["package"]["name"].as_str().unwrap().to_owned(), manifest)
    };
    folders.into_iter().map(manifest).collect()
}

fn dependencies(manifest: &toml::Table, sections: &[&str]) -> BTreeSet<String> {
    let tables = sections.iter().filter_map(|section| manifest.get(*section)?.as_table());
    tables.flat_map(|table| table.keys().cloned()).collect()
}

/// The complaints, one a line; none where the rule holds.
fn expect_none(rule: &str, complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{rule}:\n{}", complaints.join("\n"));
}

#[test]
fn the_core_depends_on_nothing_that_has_effects() {
    let manifests = manifests();
    let found = dependencies(&manifests["asat-core"], &["dependencies", "build-dependencies"]);
    expect_none(
        "crates/core may use only what is pure",
        found.into_iter().filter(|name| !PURE.contains(&name.as_str())),
    );
    let target = manifests["asat-core"].get("target");
    assert!(
        target.is_none() && !root().join("crates/core/build.rs").exists(),
        "crates/core is the same everywhere"
    );
}

#[test]
fn the_arrows_between_crates_are_those_that_are_documented() {
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let ours = |manifest: &toml::Table| -> Vec<String> {
        dependencies(manifest, &sections).into_iter().filter(|name| name.starts_with("asat")).collect()
    };
    let found: Vec<(String, Vec<String>)> =
        manifests().iter().map(|(name, m)| (name.clone(), ours(m))).collect();
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(found, ARROWS.map(|(name, sees)| (name.to_owned(), own(sees))));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let without = manifests().into_iter().filter(|(_, manifest)| {
        manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool)
            != Some(true)
    });
    expect_none("Cargo.toml needs [lints] workspace = true", without.map(|(name, _)| name));
}

#[test]
fn no_room_reaches_through_a_wall() {
    let reaches = files("src", "rs").into_iter().flat_map(|(name, text)| {
        let walls = WALLS.into_iter().filter(|(room, _)| name.starts_with(room)).flat_map(|(_, walls)| walls);
        let named = walls.filter(|wall| text.contains(**wall)).map(|wall| format!("{name} names {wall}"));
        named.collect::<Vec<_>>()
    });
    expect_none("a room that knows too much", reaches);
}

#[test]
fn every_file_begins_by_saying_what_it_is() {
    let mut all = sources();
    all.extend(files("tests", "rs"));
    let headless = all.into_iter().filter(|(_, text)| !text.starts_with("//! "));
    expect_none("a file begins with //! and what it is", headless.map(|(name, _)| name));
}

#[test]
fn nothing_is_left_unfinished_in_the_sources() {
    let unfinished = sources().into_iter().flat_map(|(name, text)| {
        let marks = ["todo!", "unimplemented!", "dbg!", "TODO", "FIXME", "XXX"];
        let found =
            marks.into_iter().filter(|mark| text.contains(mark)).map(|mark| format!("{name}: {mark}"));
        found.collect::<Vec<_>>()
    });
    expect_none("finish it, or leave it out", unfinished);
}

fn documents() -> Vec<(String, String)> {
    let mut found = files("docs", "md");
    for name in ["README.md", "CHANGELOG.md"] {
        if root().join(name).exists() {
            found.push((name.to_owned(), read(&root().join(name))));
        }
    }
    found
}

#[test]
fn documents_cite_names_and_files_that_exist() {
    let complaints = documents().into_iter().flat_map(|(name, text)| {
        let folder = root().join(&name).parent().unwrap().to_owned();
        // Code between backticks that looks like a path of this repository, and the targets of links.
        let quoted = text.split('`').skip(1).step_by(2).filter(|quote| {
            let ours = ["src/", "crates/", "tests/", "docs/"].iter().any(|start| quote.starts_with(start));
            ours && !quote.contains(|c: char| c.is_whitespace() || "*<{".contains(c))
        });
        let missing = quoted.filter(|path| !root().join(path).exists());
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let links = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
        let dead = links.filter(|link| !folder.join(link.split('#').next().unwrap()).exists());
        let numbered = text.split_whitespace().filter(|word| {
            word.split_once(".rs:").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let complaints = missing.chain(dead).chain(numbered);
        complaints.map(|what| format!("{name}: {what}")).collect::<Vec<_>>()
    });
    expect_none("what does not exist, or moves with the next line", complaints);
}

#[test]
fn the_architecture_names_every_room() {
    let text = read(&root().join("docs/ARCHITECTURE.md"));
    let crates =
        crates().into_iter().map(|path| format!("crates/{}", path.file_name().unwrap().to_str().unwrap()));
    let rooms =
        files("src", "rs").into_iter().map(|(name, _)| name).filter(|name| name.matches('/').count() == 1);
    let rooms = rooms.map(|name| name.trim_end_matches(".rs").to_owned()).filter(|name| name != "src/lib");
    expect_none(
        "docs/ARCHITECTURE.md leaves out",
        crates.chain(rooms).filter(|room| !text.contains(room.as_str())),
    );
}
