//! Bad disks: wherever a bit of the catalogue's files flips, and whatever of them is cut off, missing or older than it was, the daemon
//! goes by what was acknowledged or does not start. What a power cut leaves is never taken for damage.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{self, Dice};
use asat_catalogue::{About, Catalogue, Error, Trail};
use asat_core::event::Change;
use asat_core::guard::GuardEntry;
use asat_core::register::Register;
use asat_core::version::State;
use asat_core::{Code, Problem, VersionId};

const FILES: [&str; 3] = ["catalogue.db", "catalogue.db-wal", "catalogue.db-newest"];

/// After so many commits the log is carried over into the database.
const CARRIED_OVER: usize = 6;

/// The files as a kill leaves them.
#[derive(Clone)]
struct Image([Option<Vec<u8>>; 3]);

/// Everything that the catalogue tells.
type Told = (Register, Vec<GuardEntry>, u64);

impl Image {
    fn take(folder: &Path) -> Self {
        Self(FILES.map(|name| fs::read(folder.join(name)).ok()))
    }

    fn put(&self, folder: &Path) -> PathBuf {
        for (name, bytes) in FILES.iter().zip(&self.0) {
            let _ = fs::remove_file(folder.join(name));
            if let Some(bytes) = bytes {
                fs::write(folder.join(name), bytes).unwrap();
            }
        }
        let _ = fs::remove_file(folder.join("catalogue.db-shm"));
        folder.join(FILES[0])
    }

    /// What a start finds.
    fn read(&self, folder: &Path) -> Result<Told, Error> {
        let path = self.put(folder);
        let catalogue = Catalogue::open(&path)?;
        let told = (catalogue.load()?, catalogue.guard_log(About::Anything, 1000)?);
        // What is looked at beside a daemon that runs is judged in the same way.
        Catalogue::verify(&path)?;
        let verdict = Trail::open(&path)?.verify(None)?;
        match verdict.broken {
            Some((_, what)) => Err(Error::Damaged { path, what }),
            None => Ok((told.0, told.1, verdict.sound)),
        }
    }

    fn flipped(&self, file: usize, bit: usize) -> Self {
        let mut image = self.clone();
        image.0[file].as_mut().unwrap()[bit / 8] ^= 1 << (bit % 8);
        image
    }

    /// The bits of a file. Where a byte is zero, there is nothing in most places, and those are left out of the database.
    fn bits(&self, file: usize) -> impl Iterator<Item = usize> {
        let bytes = self.0[file].as_ref().unwrap().iter().enumerate();
        let told = bytes.filter(move |(_, byte)| file != 0 || **byte != 0);
        told.flat_map(|(at, _)| 8 * at..8 * at + 8)
    }
}

/// A catalogue that is open, with a bit of everything in its database, and some commits in its log; after each commit, its files and
/// what was acknowledged until then.
fn lived(folder: &Path) -> (Catalogue, Vec<(Image, Register)>) {
    let path = folder.join(FILES[0]);
    let mut dice = Dice(11);
    let mut register = Register::default();
    let mut catalogue = Catalogue::open(&path).unwrap();
    let mut images = Vec::new();
    let store = common::store(&mut dice, "report".parse().unwrap());
    for number in 1..=12 {
        let id = VersionId { store: store.name.clone(), number };
        let mut changes = vec![Change::Store(store.clone())];
        changes.push(Change::Version(Box::new(common::version(&mut dice, id.clone(), State::Ready))));
        changes.push(Change::Published(common::publication(&mut dice, number, id.clone())));
        changes.push(Change::Noted(Box::new(common::deed(&mut dice, id))));
        catalogue.record(&changes).unwrap();
        changes.iter().for_each(|change| register.evolve(change));
        if number == CARRIED_OVER as u64 {
            // All so far is carried over into the database.
            drop(catalogue);
            catalogue = Catalogue::open(&path).unwrap();
        }
        images.push((Image::take(folder), register.clone()));
    }
    (catalogue, images)
}

/// Looks at some of the flips of a file's bits after so many commits, spread over all of it; answers how many were found, and of how
/// many.
fn flip(commits: usize, file: usize, every: usize) -> (usize, usize) {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_open, images) = lived(folder.path());
    let (whole, acknowledged) = &images[commits - 1];
    let truth = whole.read(copy.path()).unwrap();
    assert_eq!(truth.0, *acknowledged);
    let (mut found, mut all) = (0, 0);
    for bit in whole.bits(file).step_by(every) {
        all += 1;
        match whole.flipped(file, bit).read(copy.path()) {
            Ok(told) => assert!(told == truth, "bit {bit} of {}: other records", FILES[file]),
            Err(error) => {
                found += 1;
                let problem = Problem::from(error);
                assert!(!problem.hint.is_empty(), "{problem}");
            }
        }
    }
    (found, all)
}

#[test]
fn a_bit_that_flips_in_the_database_changes_no_record_unnoticed() {
    // All that was committed is in the database, and after the last commits much of it stands in the log.
    for (commits, least) in [(CARRIED_OVER, 3), (12, 20)] {
        let (found, all) = flip(commits, 0, 997);
        assert!(found > all / least, "{found} of {all}");
    }
}

#[test]
fn a_bit_that_flips_in_the_log_takes_nothing_back_unnoticed() {
    let (found, all) = flip(12, 1, 4001);
    assert!(found > all * 9 / 10, "{found} of {all}");
}

#[test]
fn a_bit_that_flips_in_the_name_of_the_newest_commit_is_no_harm() {
    assert_eq!(flip(12, 2, 31).0, 0);
}

#[test]
fn a_log_that_ends_too_early_is_refused_and_kept() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_open, images) = lived(folder.path());
    let (whole, truth) = images.last().unwrap();
    let length = whole.0[1].as_ref().unwrap().len();
    let cuts = (0..length).step_by(4001).chain([length - 1]).map(Some).chain([None]);
    for cut in cuts {
        let mut image = whole.clone();
        image.0[1] = cut.map(|cut| whole.0[1].as_ref().unwrap()[..cut].to_vec());
        let problem = Problem::from(image.read(copy.path()).unwrap_err());
        assert_eq!(problem.code, Code::Damaged, "{cut:?}: {problem}");
        assert!(problem.detail.contains("commit 12 was acknowledged"), "{cut:?}: {problem}");
        assert!(
            problem.hint.contains("asat backup") && problem.hint.contains("rebuild-catalogue"),
            "{problem}"
        );
        // Nothing of it is changed, so that a person who looks into it finds it as it was.
        if let Some(log) = &image.0[1] {
            assert!(fs::read(copy.path().join(FILES[1])).unwrap() == *log, "{cut:?}");
        }
        assert!(fs::read(copy.path().join(FILES[2])).ok() == image.0[2], "{cut:?}");
    }
    assert_eq!(whole.read(copy.path()).unwrap().0, *truth);
}

#[test]
fn an_older_catalogue_is_refused_unless_it_is_a_backup() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (open, images) = lived(folder.path());
    let (whole, truth) = images.last().unwrap();
    for (older, _) in &images[..images.len() - 1] {
        let image = Image([older.0[0].clone(), older.0[1].clone(), whole.0[2].clone()]);
        let problem = Problem::from(image.read(copy.path()).unwrap_err());
        assert!(problem.detail.contains("commit 12 was acknowledged"), "{problem}");
    }
    let backup = folder.path().join("backup.db");
    Catalogue::back_up(open.path(), &backup).unwrap();
    let newer = Image([Some(fs::read(&backup).unwrap()), None, whole.0[2].clone()]);
    let later = common::store(&mut Dice(3), "later".parse().unwrap());
    let path = newer.put(copy.path());
    let mut restored = Catalogue::open(&path).unwrap();
    assert_eq!(restored.load().unwrap(), *truth);
    restored.record(&[Change::Store(later)]).unwrap();
    assert!(Image::take(copy.path()).read(copy.path()).is_ok());
}

#[test]
fn a_copy_of_damaged_records_is_refused_and_leaves_no_file() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_open, images) = lived(folder.path());
    let backup = copy.path().join("backup.db");
    for (commits, file, every) in [(CARRIED_OVER, 0, 4999), (12, 0, 4999), (12, 1, 40_009)] {
        let (whole, truth) = &images[commits - 1];
        let (mut refused, mut all) = (0, 0);
        for bit in whole.bits(file).step_by(every) {
            all += 1;
            let path = whole.flipped(file, bit).put(copy.path());
            match Catalogue::back_up(&path, &backup) {
                Err(_) => refused += 1,
                Ok(()) => {
                    let told = Catalogue::open(&backup).unwrap().load().unwrap();
                    assert!(told == *truth, "bit {bit} of {}: other records", FILES[file]);
                    fs::remove_file(&backup).unwrap();
                }
            }
            let left = fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> = left.filter(|name| name.to_str().unwrap().contains("draft")).collect();
            assert!(!backup.exists() && left.is_empty(), "bit {bit} of {}: {left:?}", FILES[file]);
            let _ = fs::remove_file(copy.path().join("backup.db-newest"));
        }
        assert!(refused > 0, "none of {all} bits of {}", FILES[file]);
    }
}

#[test]
fn what_a_power_cut_leaves_is_no_damage() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_open, images) = lived(folder.path());
    for nth in 6..images.len() {
        let ((before, old), (after, new)) = (&images[nth - 1], &images[nth]);
        let (from, to) = (before.0[1].as_ref().map_or(0, Vec::len), after.0[1].as_ref().unwrap().len());
        // The log was written in part, and the newest commit's name is as it was then, older, torn, or not there.
        let mut torn = before.0[2].clone();
        torn.as_mut().unwrap()[..512].fill(0);
        let names =
            [before.0[2].clone(), images[nth - 2].0.0[2].clone(), images[0].0.0[2].clone(), torn, None];
        for (cut, name) in (from..to).step_by(2039).chain([to]).zip(names.into_iter().cycle()) {
            let log = after.0[1].as_ref().unwrap()[..cut].to_vec();
            let found = Image([after.0[0].clone(), Some(log), name]).read(copy.path()).unwrap().0;
            assert!(found == *old || found == *new, "commit {nth}, {cut} of {to}");
        }
    }
}
