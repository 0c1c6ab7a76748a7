//! A catalogue that goes while something is being recorded: nobody is told that it is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use asat_catalogue::{Catalogue, Error};
use asat_core::boundary;
use asat_core::event::Change;
use common::Dice;

/// The file that goes as soon as a commit is under way.
static GOING: Mutex<Option<PathBuf>> = Mutex::new(None);

fn go(boundary: &'static str) {
    if boundary == "catalogue: commit"
        && let Some(path) = GOING.lock().unwrap().take()
    {
        fs::rename(&path, path.with_extension("aside")).unwrap();
    }
}

#[test]
fn what_goes_during_a_commit_is_noticed_after_it_and_nothing_is_recorded_from_then_on() {
    boundary::listen(go);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut catalogue = Catalogue::open(&path).unwrap();
    let mut dice = Dice(3);
    let mut record = |catalogue: &mut Catalogue, name: &str| {
        catalogue.record(&[Change::Store(common::store(&mut dice, name.parse().unwrap()))])
    };
    record(&mut catalogue, "before").unwrap();
    *GOING.lock().unwrap() = Some(path.clone());
    let refused = record(&mut catalogue, "meanwhile").unwrap_err();
    assert!(matches!(refused, Error::Gone { .. }), "{refused}");
    // Whether that was recorded, nobody knows; also when the file is back, that stays so for this daemon.
    fs::rename(path.with_extension("aside"), &path).unwrap();
    let refused = record(&mut catalogue, "after").unwrap_err();
    assert!(matches!(refused, Error::Unsure { .. }), "{refused}");
    let hint = asat_core::Problem::from(refused).hint;
    assert!(hint.contains("put the same file back") && hint.contains("docs/recover.md"), "{hint}");
}
