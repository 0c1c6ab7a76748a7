//! What was recorded is what is read back: each kind of change, every value, long random histories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::common::{self, Dice};
use asat_catalogue::{Catalogue, Error, Trail};
use asat_core::event::{Change, Effect, EffectId, Intent};
use asat_core::register::{Chunk, Register};
use asat_core::version::{Attributes, End, Holding, LeaseId, State, Store, Version};
use asat_core::{StoreName, VersionId};

/// A catalogue together with the register as it was lived.
struct Twin {
    folder: tempfile::TempDir,
    catalogue: Catalogue,
    lived: Register,
    seed: u64,
}

impl Twin {
    fn new() -> Self {
        Self::seeded(0)
    }

    /// The seed is told where something is wrong.
    fn seeded(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
        Self { folder, catalogue, lived: Register::default(), seed }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("catalogue.db")
    }

    fn record(&mut self, changes: &[Change]) {
        self.catalogue.record(changes).unwrap();
        changes.iter().for_each(|change| self.lived.evolve(change));
        assert_eq!(self.catalogue.load().unwrap(), self.lived, "seed {}: {changes:#?}", self.seed);
    }

    fn reopen(&mut self) {
        self.catalogue = Catalogue::open(&self.path()).unwrap();
        assert_eq!(self.catalogue.load().unwrap(), self.lived);
    }
}

fn report() -> StoreName {
    "report".parse().unwrap()
}

fn id(number: u64) -> VersionId {
    VersionId { store: report(), number }
}

fn begun(dice: &mut Dice, number: u64, state: State) -> Change {
    Change::Version(Box::new(common::version(dice, id(number), state)))
}

#[test]
fn every_kind_of_change_with_every_value() {
    let mut dice = Dice(1);
    let mut twin = Twin::new();
    twin.record(&[Change::Store(common::store(&mut dice, report()))]);
    let moved = PathBuf::from(OsStr::from_bytes(b"/srv/not \xff utf-8.db"));
    twin.record(&[Change::Store(Store { path: moved, ..common::store(&mut dice, report()) })]);
    for round in 0..20 {
        for (number, state) in (1..).zip(State::ALL) {
            let change = begun(&mut dice, number, state);
            twin.record(&[change]);
        }
        for effect in common::effects(&mut dice, &id(1)) {
            let next = twin.lived.next_effect();
            twin.record(&[Change::Intended(Intent { id: next, at: dice.instant(), by: dice.by(), effect })]);
        }
        let number = twin.lived.next_publication();
        twin.record(&[Change::Published(common::publication(&mut dice, number, id(2)))]);
        for name in ["a", "b"] {
            let lease = common::lease(&mut dice, LeaseId(name.into()), id(1 + round % 3));
            twin.record(&[Change::Lease(lease)]);
        }
        twin.record(&[Change::LeaseEnded(LeaseId("a".into()))]);
    }
    twin.record(&[begun(&mut dice, 7, State::Cutting)]);
    twin.record(&[Change::Discarded(id(7))]);
    twin.reopen();
}

#[test]
fn an_effect_number_is_never_given_twice() {
    let mut dice = Dice(2);
    let mut twin = Twin::new();
    for _ in 0..3 {
        let intend = |id: EffectId, dice: &mut Dice| {
            let effect = common::effects(dice, &"report@1".parse().unwrap())[3].clone();
            Change::Intended(Intent { id, at: dice.instant(), by: dice.by(), effect })
        };
        let first = twin.lived.next_effect();
        let second = EffectId(first.0 + 1);
        twin.record(&[intend(first, &mut dice), intend(second, &mut dice)]);
        twin.record(&[Change::Concluded(second)]);
        twin.record(&[Change::Concluded(first)]);
        twin.reopen();
        assert_eq!(twin.lived.next_effect(), EffectId(second.0 + 1));
    }
}

#[test]
fn random_histories() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut twin = Twin::seeded(seed);
        for _ in 0..40 {
            let mut draft = twin.lived.clone();
            let mut changes = Vec::new();
            for _ in 0..=dice.below(6) {
                let change = common::change(&mut dice, &draft);
                draft.evolve(&change);
                changes.push(change);
            }
            twin.record(&changes);
        }
        twin.reopen();
    }
}

/// The change that packs a store's versions, if they are at rest.
fn packed(register: &Register, store: &StoreName) -> Option<Change> {
    let packed = register.packed(store, 0)?;
    Some(Change::Packed(Chunk { store: store.clone(), number: 0, packed }))
}

/// The versions of a store that are not at rest, as if they were.
fn at_rest(dice: &mut Dice, register: &Register) -> Vec<Change> {
    let versions = register.stores().flat_map(|history| history.versions.values());
    let rest = |version: &Version| {
        let state = [State::Ready, State::Retired, State::Failed][dice.below(3)];
        let version = common::version(dice, version.id.clone(), state);
        let holdings = vec![Holding::Archive { bytes: 7 }; usize::from(state == State::Ready)];
        let end = version.end.map(|end| Box::new(End { purge_after: None, ..*end }));
        Change::Version(Box::new(Version { holdings, copy: None, pin: None, end, ..version }))
    };
    versions.map(|entry| &entry.version).map(rest).collect()
}

#[test]
fn what_is_packed_comes_back_and_changes_as_what_is_not() {
    let mut packed_at_all = 0;
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut twin = Twin::seeded(seed);
        for _ in 0..4 {
            for _ in 0..30 {
                let change = common::change(&mut dice, &twin.lived);
                twin.catalogue.record(std::slice::from_ref(&change)).unwrap();
                twin.lived.evolve(&change);
            }
            let rest = at_rest(&mut dice, &twin.lived);
            twin.record(&rest);
            let loose = twin.lived.clone();
            let stores: Vec<StoreName> = loose.stores().map(|history| history.store.name.clone()).collect();
            let chunks: Vec<Change> = stores.iter().filter_map(|store| packed(&loose, store)).collect();
            packed_at_all += chunks.len();
            twin.record(&chunks);
            assert_eq!(twin.lived, loose, "seed {seed}");
            twin.reopen();
            // Each change unpacks what it is about.
            for _ in 0..6 {
                let change = common::change(&mut dice, &twin.lived);
                twin.record(&[change]);
            }
            twin.reopen();
        }
    }
    assert!(packed_at_all > 50, "{packed_at_all}");
}

#[test]
fn a_chunk_that_says_something_else_than_the_rows_is_damage() {
    let mut dice = Dice(5);
    let mut twin = Twin::new();
    let ready = |dice: &mut Dice, number| {
        let version = common::version(dice, id(number), State::Ready);
        let holdings = vec![Holding::Archive { bytes: 7 }];
        Change::Version(Box::new(Version { holdings, copy: None, pin: None, ..version }))
    };
    twin.record(&[
        Change::Store(common::store(&mut dice, report())),
        ready(&mut dice, 1),
        ready(&mut dice, 2),
    ]);
    let chunk = packed(&twin.lived, &report()).unwrap();
    let mut other = twin.lived.clone();
    other.evolve(&ready(&mut dice, 2));
    twin.record(&[chunk]);
    twin.catalogue.record(&[packed(&other, &report()).unwrap()]).unwrap();
    let (read, check) = twin.catalogue.read().unwrap();
    assert_eq!(read, other, "it is believed until it is checked");
    let problem = check.run().unwrap_err().to_string();
    assert!(problem.contains("table chunk, row report@0: it does not say what"), "{problem}");
    assert_eq!(twin.catalogue.load().unwrap_err().to_string(), problem);
    let refused = twin.catalogue.record(&[Change::Discarded(id(2))]).unwrap_err().to_string();
    assert_eq!(refused, problem);
}

#[test]
fn nothing_is_recorded_before_what_was_read_is_checked() {
    let mut dice = Dice(6);
    let mut twin = Twin::new();
    twin.record(&[Change::Store(common::store(&mut dice, report())), begun(&mut dice, 1, State::Ready)]);
    for checked_before in [true, false] {
        let (read, check) = twin.catalogue.read().unwrap();
        assert_eq!(read, twin.lived);
        if checked_before {
            check.run().unwrap();
        }
        twin.record(&[begun(&mut dice, 2, State::Cutting)]);
    }
    let (_, check) = twin.catalogue.read().unwrap();
    let other = rusqlite::Connection::open(twin.path()).unwrap();
    other.execute_batch("update store set path = '/elsewhere'").unwrap();
    twin.catalogue.end_check().expect("nobody has asked for the check");
    let refused = twin.catalogue.record(&[Change::Discarded(id(2))]).unwrap_err().to_string();
    assert!(refused.contains("not what was committed"), "{refused}");
    assert_eq!(check.run().unwrap_err().to_string(), refused, "it is run once");
    assert_eq!(twin.catalogue.check().unwrap_err().to_string(), refused);
    assert_eq!(twin.catalogue.end_check().unwrap_err().to_string(), refused);
}

#[test]
fn a_refused_change_takes_its_whole_commit_with_it() {
    let mut dice = Dice(3);
    let mut twin = Twin::new();
    let published = common::publication(&mut dice, 1, id(1));
    let keyed = asat_core::version::Publication { key: Some("key".into()), ..published };
    twin.record(&[
        Change::Store(common::store(&mut dice, report())),
        begun(&mut dice, 1, State::Ready),
        Change::Published(keyed.clone()),
    ]);
    let same_key = asat_core::version::Publication { number: 2, ..keyed.clone() };
    let unreadable = Version { content: None, ..common::version(&mut dice, id(3), State::Ready) };
    let endless = Version { end: None, ..common::version(&mut dice, id(3), State::Lost) };
    let other_store = VersionId { store: "other".parse().unwrap(), number: 1 };
    let refused = [
        Change::Published(same_key),
        Change::Published(keyed),
        Change::Published(common::publication(&mut dice, 3, id(99))),
        Change::Discarded(id(1)),
        Change::Version(Box::new(unreadable)),
        Change::Version(Box::new(endless)),
        Change::Version(Box::new(common::version(&mut dice, other_store, State::Ready))),
        Change::Version(Box::new(common::version(&mut dice, id(u64::MAX), State::Ready))),
        Change::Lease(common::lease(&mut dice, LeaseId("l".into()), id(99))),
    ];
    for change in refused {
        let error = twin.catalogue.record(&[begun(&mut dice, 2, State::Cutting), change.clone()]);
        assert!(matches!(error, Err(Error::Sqlite { .. })), "{change:?}: {error:?}");
        assert_eq!(twin.catalogue.load().unwrap(), twin.lived);
    }
    twin.record(&[begun(&mut dice, 2, State::Cutting)]);
    twin.record(&[]);
}

#[test]
fn a_catalogue_may_be_created_of_an_installation_that_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let name = "0193aa55c3d47e019f3b2c77d0e1f2a3";
    let other = "1193aa55c3d47e019f3b2c77d0e1f2a3";
    assert_eq!(Catalogue::open_of(&path, Some(name)).unwrap().installation(), name);
    // One that is there is what it is.
    assert_eq!(Catalogue::open_of(&path, Some(other)).unwrap().installation(), name);
    assert_eq!(Catalogue::begin_anew(&path, Some(other)).unwrap().installation(), other);
    // Its trail begins with that name.
    let head = Trail::open(&path).unwrap().head().unwrap();
    assert_eq!((head.number, head.chain.to_string()), (0, name.repeat(2)));
}

#[test]
fn the_installation_keeps_its_name_and_the_file_is_private() {
    let mut twin = Twin::new();
    let name = twin.catalogue.installation().to_owned();
    assert!(name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
    let mut dice = Dice(4);
    twin.record(&[Change::Store(common::store(&mut dice, report()))]);
    for file in ["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"] {
        let mode = std::fs::metadata(twin.folder.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    twin.reopen();
    assert_eq!(twin.catalogue.installation(), name);
    assert_ne!(Twin::new().catalogue.installation(), name);
}

#[test]
fn a_copy_is_a_catalogue() {
    let mut dice = Dice(5);
    let mut twin = Twin::new();
    twin.record(&[Change::Store(common::store(&mut dice, report())), begun(&mut dice, 1, State::Ready)]);
    let copy = twin.folder.path().join("backup of 'today'.db");
    // It may be somebody's.
    let beside = twin.folder.path().join("backup of 'today'.db.new");
    std::fs::write(&beside, "theirs").unwrap();
    Catalogue::back_up(twin.catalogue.path(), &copy).unwrap();
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), "theirs");
    assert_eq!(std::fs::metadata(&copy).unwrap().nlink(), 1, "no draft is left");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let restored = Catalogue::open(&copy).unwrap();
    assert_eq!(restored.load().unwrap(), twin.lived);
    assert_eq!(restored.installation(), twin.catalogue.installation());
    let again = Catalogue::back_up(twin.catalogue.path(), &copy);
    assert!(again.is_err_and(|error| error.to_string().contains("backup of 'today'.db")));
    let nowhere = Catalogue::back_up(twin.catalogue.path(), Path::new("/nonexistent/folder/copy.db"));
    assert!(nowhere.is_err_and(|error| error.to_string().contains("/nonexistent/folder/copy.db")));
}

/// Put back, it must not have a daemon undo what was acknowledged after the copy was taken.
#[test]
fn a_copy_has_nothing_in_it_that_is_being_cut() {
    let mut dice = Dice(8);
    let mut twin = Twin::new();
    let [.., archive, _, _, _, _, _, _, _] = common::effects(&mut dice, &id(1));
    let [_, set, ..] = common::effects(&mut dice, &id(2));
    let [cut, ..] = common::effects(&mut dice, &id(3));
    let intended = |dice: &mut Dice, number, effect: &Effect| {
        let effect = effect.clone();
        Change::Intended(Intent { id: EffectId(number), at: dice.instant(), by: dice.by(), effect })
    };
    let store = Change::Store(common::store(&mut dice, report()));
    let kept = [store, begun(&mut dice, 1, State::Ready), intended(&mut dice, 1, &archive)];
    twin.record(&kept);
    let before = twin.lived.clone();
    let cuts = [
        begun(&mut dice, 2, State::Cutting),
        intended(&mut dice, 2, &set),
        begun(&mut dice, 3, State::Cutting),
        intended(&mut dice, 3, &cut),
    ];
    twin.record(&cuts);
    let copy = twin.folder.path().join("copy.db");
    Catalogue::back_up(twin.catalogue.path(), &copy).unwrap();
    let restored = Catalogue::open(&copy).unwrap().load().unwrap();
    let intents = |register: &Register| register.intents().cloned().collect::<Vec<_>>();
    let stores = |register: &Register| register.stores().cloned().collect::<Vec<_>>();
    assert_eq!((intents(&restored), stores(&restored)), (intents(&before), stores(&before)));
    assert_eq!(restored.next_effect(), twin.lived.next_effect(), "no number is given twice");
    assert_eq!(twin.catalogue.load().unwrap(), twin.lived, "what was copied is as it was");
}

#[test]
fn ten_thousand_versions_are_read_in_a_moment() {
    let mut dice = Dice(6);
    let mut twin = Twin::new();
    let mut changes = vec![Change::Store(common::store(&mut dice, report()))];
    for number in 1..=10_000 {
        let publication = common::publication(&mut dice, number, id(number));
        let attributes =
            Attributes { label: Some(format!("close of day {number}")), ..publication.attributes };
        changes.push(begun(&mut dice, number, State::Ready));
        changes.push(Change::Published(asat_core::version::Publication { attributes, ..publication }));
    }
    twin.record(&changes);
    let begun = Instant::now();
    let loaded = twin.catalogue.load().unwrap();
    let elapsed = begun.elapsed();
    assert_eq!(loaded, twin.lived);
    assert!(elapsed.as_secs() < 5, "{elapsed:?}");
}

#[test]
fn a_catalogue_that_is_begun_anew_takes_the_place_of_another_which_is_kept_with_all_that_it_had() {
    let mut dice = Dice(7);
    let mut twin = Twin::new();
    twin.record(&[Change::Store(common::store(&mut dice, report())), begun(&mut dice, 1, State::Ready)]);
    let (path, lived) = (twin.catalogue.path().to_owned(), twin.lived.clone());
    // What a killed daemon leaves: a log that nobody has carried over.
    let left = tempfile::tempdir().unwrap();
    let orphan = left.path().join("catalogue.db");
    for suffix in ["", "-wal"] {
        let with = |path: &Path| std::path::PathBuf::from(format!("{}{suffix}", path.display()));
        std::fs::copy(with(&path), with(&orphan)).unwrap();
    }
    let anew = Catalogue::begin_anew(&orphan, None).unwrap();
    assert_eq!(anew.load().unwrap().stores().count(), 0);
    let kept = anew.put_in_place(&orphan, "before").unwrap().unwrap();
    assert_eq!(Catalogue::open(&kept).unwrap().load().unwrap(), lived);
    assert_ne!(Catalogue::open(&orphan).unwrap().load().unwrap(), lived);
    // Neither where there is none, nor where there is one that cannot be read, is anything in its way.
    let none = left.path().join("none.db");
    assert_eq!(Catalogue::begin_anew(&none, None).unwrap().put_in_place(&none, "before").unwrap(), None);
    std::fs::write(&orphan, "rubbish").unwrap();
    let kept =
        Catalogue::begin_anew(&orphan, None).unwrap().put_in_place(&orphan, "damaged").unwrap().unwrap();
    assert_eq!(std::fs::read(kept).unwrap(), b"rubbish");
    Catalogue::open(&orphan).unwrap();
}

#[test]
fn a_catalogue_says_when_it_was_written_before_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    drop(Catalogue::open(&path).unwrap());
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(480_000);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
    let opened = Catalogue::open(&path).unwrap();
    assert_eq!(opened.written_at(), Some(then.try_into().unwrap()));
}
