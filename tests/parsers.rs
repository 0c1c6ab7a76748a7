//! Every parser of bytes from outside, fed with what is nearly right: it answers or refuses, and neither panics nor takes memory by
//! a number that it was given.
//!
//! Each case takes something that is well-formed and changes it in a few places. `PROPTEST_CASES=100000 cargo test --test parsers` tries
//! more of them; a case that fails is made smaller and printed as its changes. What a parser has to do with well-formed input is the
//! matter of its own tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "parsers/changes.rs"]
mod changes;
#[path = "parsers/files.rs"]
mod files;
#[path = "parsers/texts.rs"]
mod texts;

use std::sync::Once;

use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use rustix::process::{Resource, Rlimit, setrlimit};

use changes::{apply, changes};

/// How much memory a parser may have mapped, together with this test: one that reserves what a forged number says has more.
const MOST_MEMORY: u64 = 4 << 30;

/// Hands variants of each seed to a parser, so many unless the environment says how many.
fn feed(cases: u32, seeds: &[Vec<u8>], parse: impl Fn(&[u8])) {
    static BOUNDED: Once = Once::new();
    BOUNDED.call_once(|| {
        let limit = Rlimit { current: Some(MOST_MEMORY), maximum: Some(MOST_MEMORY) };
        setrlimit(Resource::As, limit).unwrap();
    });
    assert!(!seeds.is_empty(), "there is nothing to begin with");
    seeds.iter().for_each(|seed| parse(seed));
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let config = Config {
        cases: asked.unwrap_or(cases),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&changes(seeds.len()), |(seed, changes)| {
        parse(&apply(&seeds[seed], &changes));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
