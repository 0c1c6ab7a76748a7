//! A catalogue takes the place of another one that has a log: whenever that is cut short, whoever opens it next
//! finds the old one with its log, or the new one without.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;

use asat_catalogue::Catalogue;
use asat_core::boundary;
use asat_core::register::Register;
use common::Dice;
use rusqlite::Connection;
use tempfile::TempDir;

// Of this thread: other tests pass boundaries, too.
thread_local! {
    static WATCHED: RefCell<Option<TempDir>> = const { RefCell::new(None) };
    static IMAGES: RefCell<Vec<(&'static str, TempDir)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what a crash would leave at this boundary.
fn take_image(boundary: &'static str) {
    let image = WATCHED.with_borrow(|watched| watched.as_ref().map(|folder| copy_of(folder.path())));
    IMAGES.with_borrow_mut(|images| images.extend(image.map(|image| (boundary, image))));
}

fn copy_of(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    // What has two names has two in the copy.
    let copied = Command::new("cp").args(["-a", "-T"]).arg(folder).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    // The log's index does not survive a crash.
    let files = fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.to_str().unwrap().ends_with("-shm"))
        .for_each(|path| fs::remove_file(path).unwrap());
    copy
}

/// Records changes at random; answers what is known then.
fn fill(catalogue: &mut Catalogue, dice: &mut Dice) -> Register {
    let mut known = catalogue.load().unwrap();
    for _ in 0..40 {
        let change = common::change(dice, &known);
        catalogue.record(std::slice::from_ref(&change)).unwrap();
        known.evolve(&change);
    }
    known
}

fn known_at(path: &Path) -> Register {
    Catalogue::open_of(path, None).unwrap().load().unwrap()
}

#[test]
fn a_log_stays_with_its_catalogue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut dice = Dice(11);
    let mut catalogue = Catalogue::open(&path).unwrap();
    // Whoever reads what was there before keeps the log there.
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("begin; select * from sqlite_schema").unwrap();
    let old = fill(&mut catalogue, &mut dice);
    drop(catalogue);
    let mut anew = Catalogue::begin_anew(&path, None).unwrap();
    let new = fill(&mut anew, &mut dice);
    assert_ne!(old, new);

    let kept = folder.path().join("catalogue.db.replaced-1");
    WATCHED.set(Some(folder));
    boundary::listen(take_image);
    assert_eq!(anew.put_in_place(&path, "replaced-1").unwrap().as_ref(), Some(&kept));
    let folder = WATCHED.take().unwrap();

    let images = IMAGES.take();
    let boundaries: Vec<&str> = images.iter().map(|(boundary, _)| *boundary).collect();
    let expected =
        ["kept", "decided", "taken out", "put in place", "in place"].map(|step| format!("catalogue: {step}"));
    assert_eq!(boundaries, expected);
    for (boundary, image) in &images {
        let found = known_at(&image.path().join("catalogue.db"));
        let expected = if *boundary == "catalogue: kept" { &old } else { &new };
        assert!(found == *expected, "cut short at {boundary:?}");
    }
    // It would be of the same file for SQLite, within this process. What it leaves does nothing to the new one.
    drop(reader);
    // The file alone is one thing, and is whole with its log alone.
    assert!(fs::metadata(folder.path().join("catalogue.db.replaced-1-wal")).unwrap().len() > 0);
    assert!(known_at(&kept) == old);
    assert!(known_at(&path) == new);
}

#[test]
fn what_somebody_puts_in_place_by_hand_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut dice = Dice(13);
    let decided = fill(&mut Catalogue::open(&path).unwrap(), &mut dice);
    fs::rename(&path, folder.path().join("catalogue.db.next")).unwrap();
    let backup = fill(&mut Catalogue::open(&folder.path().join("backup.db")).unwrap(), &mut dice);
    fs::rename(folder.path().join("backup.db"), &path).unwrap();
    assert!(known_at(&path) == backup);
    assert!(known_at(&folder.path().join("catalogue.db.unused")) == decided);
}

#[test]
fn what_was_cut_short_is_no_obstacle_to_another_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut dice = Dice(12);
    let first = fill(&mut Catalogue::open(&path).unwrap(), &mut dice);
    // As it is left by who is cut short once it is decided: the old file is gone, and its log is not.
    fs::rename(&path, folder.path().join("catalogue.db.next")).unwrap();
    fs::write(folder.path().join("catalogue.db-wal"), "of the one before").unwrap();
    let mut anew = Catalogue::begin_anew(&path, None).unwrap();
    let second = fill(&mut anew, &mut dice);
    let kept = anew.put_in_place(&path, "replaced-2").unwrap().unwrap();
    assert!(known_at(&kept) == first && known_at(&path) == second);
}
