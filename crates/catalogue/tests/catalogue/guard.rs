//! The guard's log: what was written is read, newest first, by what it is about, and it does not grow for ever.

use crate::common::Dice;
use asat_catalogue::{About, Catalogue, Error};
use asat_core::VersionId;
use asat_core::guard::{GuardEntry, Outcome, Rung, Target};

struct Log {
    folder: tempfile::TempDir,
    catalogue: Catalogue,
}

impl Log {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
        Self { folder, catalogue }
    }

    fn all(&self) -> Vec<GuardEntry> {
        self.catalogue.guard_log(About::Anything, u32::MAX).unwrap()
    }

    /// Changes the file as a bad disk or a careless hand would.
    fn spoil(&self, sql: &str) {
        let path = self.folder.path().join("catalogue.db");
        let other = rusqlite::Connection::open(path).unwrap();
        other.execute_batch(&format!("pragma ignore_check_constraints = on; {sql}")).unwrap();
    }
}

fn target(dice: &mut Dice) -> Target {
    let version: VersionId = format!("store-{}@{}", dice.below(2), 1 + dice.below(3)).parse().unwrap();
    let all = [
        Target::Snapshot(version),
        Target::PoolData("pool".to_owned()),
        Target::PoolMetadata("pool".to_owned()),
        Target::Group(dice.text()),
        Target::Folder(format!("/srv/{}", dice.text())),
    ];
    all[dice.below(all.len())].clone()
}

fn entry(dice: &mut Dice) -> GuardEntry {
    let target = target(dice);
    let outcomes = [Outcome::Done, Outcome::Failed(dice.text()), Outcome::Stalled];
    GuardEntry {
        at: dice.instant(),
        version: target.version().cloned(),
        target,
        rung: Rung::ALL[dice.below(Rung::ALL.len())],
        reason: dice.text(),
        outcome: outcomes[dice.below(3)].clone(),
        took_ms: dice.bytes(),
    }
}

#[test]
fn what_is_written_is_read_newest_first() {
    for seed in 0..5 {
        let (mut dice, mut log, mut lived) = (Dice(seed), Log::new(), Vec::new());
        for _ in 0..20 {
            let entries: Vec<GuardEntry> = (0..dice.below(6)).map(|_| entry(&mut dice)).collect();
            log.catalogue.log_guard(&entries).unwrap();
            lived.extend(entries);
        }
        lived.reverse();
        assert_eq!(log.all(), lived, "seed {seed}");
        assert_eq!(log.catalogue.guard_log(About::Anything, 3).unwrap(), lived[..3]);
        let only = |keep: &dyn Fn(&GuardEntry) -> bool| -> Vec<GuardEntry> {
            lived.iter().filter(|entry| keep(entry)).cloned().collect()
        };
        for version in ["store-0@1", "store-1@3", "other@1"].map(|text| text.parse::<VersionId>().unwrap()) {
            let found = log.catalogue.guard_log(About::Version(&version), 1000).unwrap();
            assert_eq!(found, only(&|entry| entry.version.as_ref() == Some(&version)), "{version}");
        }
        for target in ["pool-data pool", "snapshot store-0@1", "group x"].map(|text| text.parse().unwrap()) {
            let found = log.catalogue.guard_log(About::Target(&target), 1000).unwrap();
            assert_eq!(found, only(&|entry| entry.target == target), "{target}");
        }
    }
}

#[test]
fn a_brake_is_found_by_the_version_that_it_was_for() {
    let (mut dice, mut log) = (Dice(1), Log::new());
    let version: VersionId = "report@12".parse().unwrap();
    let brake = GuardEntry {
        target: Target::Group("vg".to_owned()),
        version: Some(version.clone()),
        rung: Rung::Brake,
        ..entry(&mut dice)
    };
    log.catalogue.log_guard(std::slice::from_ref(&brake)).unwrap();
    assert_eq!(log.catalogue.guard_log(About::Version(&version), 1).unwrap(), [brake]);
}

#[test]
fn only_the_newest_rows_are_kept() {
    let (mut dice, mut log) = (Dice(2), Log::new());
    let one = entry(&mut dice);
    let most = usize::try_from(Catalogue::MOST_LOGGED).unwrap();
    let numbered = |n: usize| GuardEntry { reason: n.to_string(), ..one.clone() };
    let entries: Vec<GuardEntry> = (0..most).map(numbered).collect();
    log.catalogue.log_guard(&entries).unwrap();
    assert_eq!(log.all().len(), most);
    log.catalogue.log_guard(&[numbered(most), numbered(most + 1)]).unwrap();
    let kept = log.all();
    assert_eq!((kept.len(), kept[0].reason.as_str()), (most, (most + 1).to_string().as_str()));
    assert_eq!(kept[most - 1].reason, "2");
}

#[test]
fn an_entry_that_would_not_come_back_is_refused_with_all_the_others() {
    let (mut dice, mut log) = (Dice(3), Log::new());
    let good = entry(&mut dice);
    let bad = GuardEntry { took_ms: u64::MAX, ..good.clone() };
    assert!(matches!(log.catalogue.log_guard(&[good.clone(), bad]), Err(Error::Sqlite { .. })));
    assert_eq!(log.all(), []);
    log.catalogue.log_guard(std::slice::from_ref(&good)).unwrap();
    log.catalogue.log_guard(&[]).unwrap();
    assert_eq!(log.all(), [good]);
}

#[test]
fn a_row_that_cannot_be_read_is_named() {
    let cases = [
        ("update guard_log set target = 'volume x'", "column target"),
        ("update guard_log set rung = 'leap'", "column rung"),
        ("update guard_log set outcome = 'fine'", "\"fine\" is no outcome"),
        ("update guard_log set at = 'yesterday'", "column at"),
        ("update guard_log set took_ms = -1", "column took_ms"),
        ("update guard_log set store = '../x', version = 1", "column store"),
    ];
    for (sql, complaint) in cases {
        let (mut dice, mut log) = (Dice(4), Log::new());
        log.catalogue.log_guard(&[entry(&mut dice)]).unwrap();
        log.spoil(sql);
        let error = log.catalogue.guard_log(About::Anything, 9).unwrap_err().to_string();
        assert!(error.contains("table guard_log, row 1") && error.contains(complaint), "{sql}: {error}");
    }
}
