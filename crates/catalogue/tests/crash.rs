//! Crash images: the files as they are at every boundary, opened elsewhere, hold the register of before or of
//! after, and never something between.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use asat_catalogue::Catalogue;
use asat_core::boundary;
use asat_core::event::Change;
use asat_core::register::Register;
use asat_core::version::State;
use common::Dice;

/// What the disk holds at a boundary: the catalogue and its log. The log's index does not survive a crash,
/// and the file that names the newest commit may be torn or older after a power cut.
struct Image {
    boundary: &'static str,
    catalogue: Option<Vec<u8>>,
    log: Vec<u8>,
    newest: Option<Vec<u8>>,
}

static WATCHED: Mutex<Option<PathBuf>> = Mutex::new(None);
static IMAGES: Mutex<Vec<Image>> = Mutex::new(Vec::new());

fn take_image(boundary: &'static str) {
    let Some(path) = WATCHED.lock().unwrap().clone() else { return };
    let log = fs::read(path.with_extension("db-wal")).unwrap_or_default();
    let newest = fs::read(path.with_extension("db-newest")).ok();
    IMAGES.lock().unwrap().push(Image { boundary, catalogue: fs::read(&path).ok(), log, newest });
}

fn images() -> Vec<Image> {
    std::mem::take(&mut IMAGES.lock().unwrap())
}

impl Image {
    /// What a daemon would read that finds this after a crash.
    fn read(&self, log_bytes: usize) -> Register {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.db");
        if let Some(catalogue) = &self.catalogue {
            fs::write(&path, catalogue).unwrap();
        }
        if let Some(newest) = &self.newest {
            fs::write(path.with_extension("db-newest"), newest).unwrap();
        }
        if log_bytes > 0 {
            fs::write(path.with_extension("db-wal"), &self.log[..log_bytes]).unwrap();
        }
        let register = Catalogue::open(&path).unwrap().load().unwrap();
        // Reading an image may pass boundaries of its own.
        images();
        register
    }
}

fn random_changes(dice: &mut Dice, lived: &Register) -> Vec<Change> {
    let mut draft = lived.clone();
    let next = |_| {
        let change = common::change(dice, &draft);
        draft.evolve(&change);
        change
    };
    (0..8).map(next).collect()
}

#[test]
fn a_crash_leaves_the_register_of_before_or_of_after() {
    boundary::listen(take_image);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    *WATCHED.lock().unwrap() = Some(path.clone());

    let mut catalogue = Catalogue::open(&path).unwrap();
    let created = images();
    let boundaries: Vec<_> = created.iter().map(|image| image.boundary).collect();
    let (migrations, put_in_place) = boundaries.split_at(boundaries.len() - 2);
    assert!(migrations.chunks(2).all(|both| both == ["catalogue: migrate", "catalogue: migrated"]));
    assert_eq!(put_in_place, ["catalogue: put in place", "catalogue: in place"]);
    assert!(created.iter().all(|image| image.read(0) == Register::default()));

    let mut dice = Dice(9);
    let mut lived = Register::default();
    for round in 0..60 {
        let before = lived.clone();
        let changes = random_changes(&mut dice, &lived);
        catalogue.record(&changes).unwrap();
        changes.iter().for_each(|change| lived.evolve(change));

        let images = images();
        let [commit, committed] = &images[..] else { panic!("{} boundaries", images.len()) };
        assert_eq!((commit.boundary, committed.boundary), ("catalogue: commit", "catalogue: committed"));
        assert_eq!(commit.read(commit.log.len()), before, "round {round}");
        assert_eq!(committed.read(committed.log.len()), lived, "round {round}");
        // The power fails while the log is being written: any part of what was added is there.
        for _ in 0..4 {
            let added = committed.log.len() - commit.log.len();
            let torn = committed.read(commit.log.len() + dice.below(added));
            assert!(torn == before || torn == lived, "round {round}");
        }
    }
    checkpoints(&path, catalogue, lived);
}

/// The log is carried over into the catalogue now and then; that changes nothing about what a crash leaves.
fn checkpoints(path: &Path, mut catalogue: Catalogue, mut lived: Register) {
    let mut dice = Dice(10);
    let mut carried_over = 0;
    let store = common::store(&mut dice, "large".parse().unwrap());
    for round in 0..8 {
        let before = lived.clone();
        let catalogue_bytes = fs::metadata(path).unwrap().len();
        let mut changes = vec![Change::Store(store.clone())];
        for number in 1..4000 {
            let id = asat_core::VersionId { store: store.name.clone(), number: round * 4000 + number };
            changes.push(Change::Version(Box::new(common::version(&mut dice, id, State::Ready))));
        }
        catalogue.record(&changes).unwrap();
        changes.iter().for_each(|change| lived.evolve(change));
        let images = images();
        assert_eq!(images[0].read(images[0].log.len()), before);
        assert_eq!(images[1].read(images[1].log.len()), lived);
        carried_over += u32::from(fs::metadata(path).unwrap().len() > catalogue_bytes);
    }
    assert!(carried_over > 0, "no checkpoint happened");
}
