//! Every target is fed with all that its corpus has, as it is and with a few changes.
//!
//! Which changes is the same in every run. `PROPTEST_CASES=100000 cargo test -p asat-fuzz` tries more of them; a case that fails
//! is made smaller, and printed as its changes. `tools/fuzz TARGET` looks for what nobody has thought of.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "corpora/changes.rs"]
mod changes;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Once;

use asat_fuzz::{TARGETS, Target, bound_memory};
use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestRng, TestRunner};

use changes::{apply, changes};

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The files of a target, by name.
fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = corpora().join(target.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let read = |path: PathBuf| (path.display().to_string(), fs::read(&path).unwrap());
    let mut files: Vec<_> = entries.map(|entry| read(entry.unwrap().path())).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has nothing to begin with", target.name);
    files
}

fn bounded() {
    static BOUNDED: Once = Once::new();
    BOUNDED.call_once(bound_memory);
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let entries =
        fs::read_dir(corpora()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let targets = TARGETS.iter().map(|target| target.name.to_owned());
    assert_eq!(entries.collect::<BTreeSet<_>>(), targets.collect());
}

#[test]
fn every_target_takes_all_of_its_corpus() {
    bounded();
    for target in TARGETS {
        for (name, bytes) in corpus(target) {
            assert!(catch_unwind(|| (target.feed)(&bytes)).is_ok(), "{} does not take {name}", target.name);
        }
    }
}

#[test]
fn every_target_takes_what_is_nearly_its_corpus() {
    bounded();
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    for target in TARGETS {
        let files = corpus(target);
        let config = Config {
            cases: asked.unwrap_or(2000),
            failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
            ..Config::default()
        };
        let dice = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let outcome = TestRunner::new_with_rng(config, dice).run(&changes(files.len()), |(nth, changes)| {
            (target.feed)(&apply(&files[nth].1, &changes));
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{}: {error}", target.name);
        }
    }
}
