//! Tracking a store: whatever happens to it, a page that a publication does not read is what it was.

mod histories;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use asat_core::{PageSize, Problem};
use asat_host::store::{Checks, Followed, Following, PageSink, Read, Tracker};
use rusqlite::Connection;

use crate::common::{PATIENT, collect};
use crate::helper::Helper;

/// A bound that no test reaches.
const AMPLE: u64 = 1 << 30;

/// The content of versions, each made of what was read and of an earlier one.
#[derive(Default)]
struct Mirror {
    versions: BTreeMap<u64, Vec<Vec<u8>>>,
    base: Option<Vec<Vec<u8>>>,
    pages: Vec<Vec<u8>>,
    /// The pages up to this one should be as they were.
    claimed: u32,
    audited: u32,
}

impl Mirror {
    /// Reads a version, which may be compared with an earlier one.
    fn read(
        &mut self,
        tracker: &mut Tracker,
        bound: u64,
        since: Option<u64>,
        audit: bool,
    ) -> (Read, Followed) {
        self.base = since.map(|token| self.versions[&token].clone());
        (self.claimed, self.audited) = (0, 0);
        let cancel = Arc::new(AtomicBool::new(false));
        let checks = Checks { checks: &[], cancel: &cancel };
        let following = Following { bound, since, audit };
        let (read, _, followed) = tracker.read(following, &PATIENT, &checks, self).unwrap();
        assert_eq!(self.pages.len(), read.page_count as usize);
        if let Some(token) = followed.token {
            self.versions.insert(token, self.pages.clone());
        }
        (read, followed)
    }
}

impl PageSink for Mirror {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        self.pages.clear();
        Ok(())
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        assert_eq!(number as usize, self.pages.len() + 1);
        if number <= self.claimed {
            let before = self.base.as_ref().and_then(|base| base.get(number as usize - 1));
            assert_eq!(before.map(Vec::as_slice), Some(page), "page {number} was missed");
            self.audited += 1;
        }
        self.pages.push(page.to_vec());
        Ok(())
    }

    fn same_run(&mut self, first: u32, last: u32) -> Result<bool, Problem> {
        assert_eq!(first as usize, self.pages.len() + 1);
        let base = self.base.as_ref().unwrap();
        self.pages.extend_from_slice(&base[first as usize - 1..last as usize]);
        Ok(true)
    }

    fn claim(&mut self, count: u32) -> Result<(), Problem> {
        self.claimed = u32::try_from(self.pages.len()).unwrap() + count;
        Ok(())
    }
}

/// Does what is due.
fn tick(tracker: &mut Tracker) {
    tracker.tick(&AtomicBool::new(false));
}

/// A store, and a connection that waits for nobody: a checkpoint that a mark keeps from ending says so at once.
fn store(path: &Path) -> Connection {
    let writer = Connection::open(path).unwrap();
    writer.busy_timeout(std::time::Duration::ZERO).unwrap();
    writer
        .execute_batch(
            "pragma journal_mode = wal; pragma synchronous = off; create table t (id integer primary key, v);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
             insert into t select i, randomblob(900) from n",
        )
        .unwrap();
    writer
}

/// A store whose writer moves its WAL into the file all the time, and who tracks it. The writer is set up by this SQL besides.
fn moving_its_wal(path: &Path, sql: &str) -> (Connection, Mirror, Tracker) {
    let writer = store(path);
    writer.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    writer.execute_batch(&format!("pragma wal_autocheckpoint = 20; {sql}")).unwrap();
    (writer, Mirror::default(), Tracker::new(path).stay_open())
}

/// A folder in memory, if there is one.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Reads a version, and holds it against the whole store.
fn publish(mirror: &mut Mirror, tracker: &mut Tracker, since: Option<u64>, path: &Path) -> Followed {
    let (_, followed) = mirror.read(tracker, AMPLE, since, false);
    assert!(collect(path).1 == mirror.pages.concat(), "{followed:?}");
    followed
}

#[test]
fn only_what_changed_is_read_and_the_rest_is_as_it_was() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let writer = store(&path);
    let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path).stay_open());
    let first = publish(&mut mirror, &mut tracker, None, &path);
    assert_eq!(first.whole.as_deref(), Some("nothing was read before"));
    assert!(first.pages > 400);
    let mut since = first.token;
    for round in 0..20 {
        writer.execute("update t set v = randomblob(900) where id = ?1", [round * 90 + 1]).unwrap();
        if round % 3 == 0 {
            writer.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
        }
        if round % 2 == 0 {
            tick(&mut tracker);
        }
        let followed = publish(&mut mirror, &mut tracker, since, &path);
        assert_eq!(followed.whole, None);
        assert!(followed.pages < 5, "{followed:?}");
        since = followed.token;
    }
    // What was not kept of the versions in between is told again.
    let followed = publish(&mut mirror, &mut tracker, first.token, &path);
    assert_eq!(followed.whole.as_deref(), Some("nothing was read before"), "older reads are forgotten");
}

#[test]
fn a_mark_keeps_nobody_from_beginning_the_wal_anew() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let writer = store(&path);
    let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path).stay_open());
    let mut since = publish(&mut mirror, &mut tracker, None, &path).token;
    for mode in ["passive", "full", "restart", "truncate"] {
        for _ in 0..3 {
            writer.execute("update t set v = randomblob(900) where id % 100 = 5", []).unwrap();
            // It moves the mark on, and once all is in the file, out of the WAL.
            tick(&mut tracker);
            writer.query_row(&format!("pragma wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
            tick(&mut tracker);
            let busy: i32 =
                writer.query_row(&format!("pragma wal_checkpoint({mode})"), [], |row| row.get(0)).unwrap();
            assert_eq!(busy, 0, "{mode}");
            writer.execute("update t set v = randomblob(900) where id % 100 = 7", []).unwrap();
            let followed = publish(&mut mirror, &mut tracker, since, &path);
            assert_eq!(followed.whole, None, "{mode}");
            since = followed.token;
        }
    }
    let wal = std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len();
    assert!(wal < 600_000, "{wal}");
}

#[test]
fn a_wal_that_reaches_half_its_bound_is_let_go_and_nothing_is_missed() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let (writer, mut mirror, mut tracker) = moving_its_wal(&path, "");
    let bound = 1 << 20;
    let (_, followed) = mirror.read(&mut tracker, bound, None, false);
    let (mut since, mut longest, mut whole) = (followed.token, 0, 0);
    for round in 0..400 {
        // Nobody ever pauses long enough for all of the WAL to be in the file while the mark is held.
        writer.execute("update t set v = randomblob(900) where id % 400 = ?1", [round % 400]).unwrap();
        tick(&mut tracker);
        writer.execute("update t set v = randomblob(900) where id % 300 = ?1", [round % 300]).unwrap();
        longest = longest.max(std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len());
        if round % 10 == 0 {
            let (_, followed) = mirror.read(&mut tracker, bound, since, false);
            whole += u32::from(followed.whole.is_some());
            assert!(collect(&path).1 == mirror.pages.concat());
            since = followed.token;
        }
    }
    assert!(longest < bound, "{longest}");
    // As long as its file was never as long before, it could have been cut.
    assert!(whole <= 2, "{whole}");
}

/// `journal_size_limit` has the first commit after the WAL was begun anew cut it, between two looks at it.
#[test]
fn what_was_cut_off_a_wal_is_missed_by_nobody() {
    let (page, mut cut) = (4096 + 24, 0);
    for (limit, per_commit) in [(600_000, 10), (32 + 140 * page, 10), (32 + 140 * page, 1)] {
        let folder = folder();
        let path = folder.path().join("store.db");
        let limit_wal = format!("pragma journal_size_limit = {limit}");
        let (writer, mut mirror, mut tracker) = moving_its_wal(&path, &limit_wal);
        let bound = 1 << 20;
        let mut since = mirror.read(&mut tracker, bound, None, false).1.token;
        for round in 0..200 {
            let sql = "update t set v = randomblob(900) where id between ?1 and ?1 + 4 * ?2";
            for nth in 0..30 / per_commit {
                writer.execute(sql, [(round * 37 + nth * 11 * per_commit) % 1900, per_commit]).unwrap();
            }
            // The mark is let go in the one, and the WAL is begun anew and cut before the other.
            if round % 2 == 0 {
                tick(&mut tracker);
            }
            if round % 4 == 3 {
                let (_, followed) = mirror.read(&mut tracker, bound, since, false);
                cut += u32::from(followed.whole.is_some_and(|why| why.contains("journal_size_limit")));
                assert!(collect(&path).1 == mirror.pages.concat(), "{limit} {round}");
                since = followed.token;
            }
        }
    }
    assert!(cut > 0, "it was never cut");
}

#[test]
fn a_wal_stays_below_its_bound_though_each_commit_is_published() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let (writer, mut mirror, mut tracker) = moving_its_wal(&path, "");
    let bound = 1 << 20;
    let (mut since, mut longest) = (mirror.read(&mut tracker, bound, None, false).1.token, 0);
    for round in 0..60 {
        writer.execute("update t set v = randomblob(900) where id % 60 = ?1", [round]).unwrap();
        (0..round % 3).for_each(|_| tick(&mut tracker));
        let (_, followed) = mirror.read(&mut tracker, bound, since, false);
        assert_eq!(followed.whole, None, "{round}");
        assert!(collect(&path).1 == mirror.pages.concat());
        since = followed.token;
        longest = longest.max(std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len());
    }
    assert!(longest < bound, "{longest}");
}

/// A mark that was released, and is taken for a publication before the next commit, is released again.
#[test]
fn a_wal_stays_below_its_bound_though_a_publication_follows_each_look() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let (writer, mut mirror, mut tracker) = moving_its_wal(&path, "");
    let bound = 1 << 20;
    let (mut since, mut longest, mut whole) = (mirror.read(&mut tracker, bound, None, false).1.token, 0, 0);
    for round in 0..120 {
        writer.execute("update t set v = randomblob(900) where id / 150 = ?1", [round % 13]).unwrap();
        (0..3).for_each(|_| tick(&mut tracker));
        let (_, followed) = mirror.read(&mut tracker, bound, since, false);
        whole += u32::from(followed.whole.is_some());
        assert!(collect(&path).1 == mirror.pages.concat());
        since = followed.token;
        longest = longest.max(std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len());
    }
    assert!(longest < bound && whole <= 3, "{longest} {whole}");
}

/// What can keep a tracker from knowing what changed.
#[test]
fn where_something_may_be_missed_all_is_read() {
    type Harm = fn(&Path, Connection, &mut Tracker) -> Option<Connection>;
    let harms: [(&str, Harm); 5] = [
        ("its file was replaced, or written by other means than its WAL", |path, writer, _| {
            drop(writer);
            let copy = path.with_extension("copy");
            Connection::open(path).unwrap().execute("vacuum into ?1", [copy.to_str()]).unwrap();
            std::fs::rename(copy, path).unwrap();
            None
        }),
        ("its file was replaced, or written by other means than its WAL", |path, writer, tracker| {
            writer.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
            drop(writer);
            // It sees the checkpoint.
            tick(tracker);
            let copy = path.with_extension("copy");
            store(&copy);
            std::fs::copy(copy, path).unwrap();
            None
        }),
        ("its WAL or wal-index is another file than before", |path, writer, _| {
            drop(writer);
            for suffix in ["-wal", "-shm"] {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                std::fs::remove_file(name).unwrap();
            }
            None
        }),
        ("nothing was read before", |_, writer, _| Some(writer)),
        ("the store is not in WAL mode", |_, writer, _| Some(writer)),
    ];
    for (nth, (why, harm)) in harms.into_iter().enumerate() {
        let folder = folder();
        let path = folder.path().join("store.db");
        let writer = store(&path);
        let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path).stay_open());
        let mut since = publish(&mut mirror, &mut tracker, None, &path).token;
        let left = harm(&path, writer, &mut tracker);
        if let Some(writer) = left {
            if why.contains("WAL mode") {
                tracker = Tracker::new(&path).stay_open();
                writer.execute_batch("pragma journal_mode = delete; delete from t where id < 100").unwrap();
            }
            since = None;
        }
        let followed = publish(&mut mirror, &mut tracker, since, &path);
        assert_eq!(followed.whole.as_deref(), Some(why), "{nth}");
    }
}

/// A file that takes the store's place while nobody has the store open, and the WAL is removed: nothing of the old WAL is written into it.
#[test]
fn nothing_is_written_into_a_file_whose_wal_was_removed() {
    let folder = folder();
    let (path, backup) = (folder.path().join("store.db"), folder.path().join("backup.db"));
    drop(store(&path));
    std::fs::copy(&path, &backup).unwrap();
    let writer = Helper::execute(
        &path,
        "pragma wal_autocheckpoint = 0; update t set v = randomblob(900) where id % 5 = 1",
    );
    let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path));
    publish(&mut mirror, &mut tracker, None, &path);
    drop(writer);
    std::fs::copy(&backup, &path).unwrap();
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(folder.path().join(format!("store.db{suffix}"))).unwrap();
    }
    (0..20).for_each(|_| tick(&mut tracker));
    drop(tracker);
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&backup).unwrap());
}

/// Frames wait in the WAL, somebody copies another file over the store's, and only much later the WAL is moved into that.
#[test]
fn a_file_that_was_copied_over_the_store_is_noticed_before_its_wal_is_moved() {
    let folder = folder();
    let (path, other) = (folder.path().join("store.db"), folder.path().join("other.db"));
    store(&other);
    let writer = store(&path);
    let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path).stay_open());
    let since = publish(&mut mirror, &mut tracker, None, &path).token;
    let sql = "pragma wal_autocheckpoint = 0; update t set v = randomblob(900) where id % 50 = 1";
    writer.execute_batch(sql).unwrap();
    (0..5).for_each(|_| tick(&mut tracker));
    std::fs::copy(&other, &path).unwrap();
    tick(&mut tracker);
    writer.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
    tick(&mut tracker);
    let followed = publish(&mut mirror, &mut tracker, since, &path);
    assert_eq!(
        followed.whole.as_deref(),
        Some("its file was replaced, or written by other means than its WAL")
    );
}

/// Once nobody else has the store open, its WAL is moved into the file and removed, and what changes later is known all the same.
#[test]
fn a_store_that_nobody_has_open_is_closed_and_opened_again() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let wal = folder.path().join("store.db-wal");
    drop(store(&path));
    let writer = Helper::execute(&path, "pragma wal_autocheckpoint = 0; update t set v = 1 where id = 1");
    let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path));
    let mut since = publish(&mut mirror, &mut tracker, None, &path).token;
    for _ in 0..10 {
        tick(&mut tracker);
    }
    assert!(wal.exists(), "somebody has it open");
    drop(writer);
    while wal.exists() {
        tick(&mut tracker);
    }
    assert!(tracker.is_tracking());
    // It is killed, and what it wrote stays in the WAL.
    Helper::execute(&path, "pragma wal_autocheckpoint = 0; update t set v = randomblob(900) where id = 700")
        .kill();
    let followed = publish(&mut mirror, &mut tracker, since, &path);
    assert_eq!((followed.whole.as_deref(), followed.pages < 5), (None, true), "{followed:?}");
    since = followed.token;
    while wal.exists() {
        tick(&mut tracker);
    }
    // This one closes it, and so writes to the file.
    drop(Helper::execute(&path, "update t set v = randomblob(900) where id = 900"));
    tick(&mut tracker);
    assert!(!tracker.is_tracking());
    let followed = publish(&mut mirror, &mut tracker, since, &path);
    assert!(followed.whole.is_some());
}

/// The last commit may come just when the mark is moved: the mark is moved once more then, and keeps nothing in the WAL.
#[test]
fn a_store_is_closed_though_its_last_commit_came_while_it_was_looked_at() {
    let folder = folder();
    let (path, wal) = (folder.path().join("store.db"), folder.path().join("store.db-wal"));
    drop(store(&path));
    let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path));
    let burst = "update t set v = randomblob(900) where id = 7;".repeat(100);
    for _ in 0..20 {
        publish(&mut mirror, &mut tracker, None, &path);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| drop(Helper::execute(&path, &burst)));
            while !writer.is_finished() {
                tick(&mut tracker);
            }
        });
        let mut ticks = 0;
        while wal.exists() {
            tick(&mut tracker);
            ticks += 1;
            assert!(ticks < 20_000, "the WAL stays");
        }
    }
}

/// Several processes write at once. What a publication would not have read is read, and held against what it was.
#[test]
fn no_page_is_missed_while_others_write() {
    let folder = folder();
    let path = folder.path().join("store.db");
    drop(store(&path));
    let first = "pragma synchronous = off; pragma busy_timeout = 20000; pragma wal_autocheckpoint = 30";
    let again = "update t set v = randomblob(900) where id = abs(random()) % 2000;
        insert into t (v) values (randomblob(5000)); delete from t where id > 2000 and random() % 2";
    let _writers = [
        Helper::repeat(&path, first, again),
        Helper::repeat(&path, first, again),
        Helper::repeat(&path, "pragma busy_timeout = 20", "pragma wal_checkpoint(truncate)"),
    ];
    let (mut mirror, mut tracker) = (Mirror::default(), Tracker::new(&path));
    let (mut since, mut known, mut audited) = (None, 0, 0);
    for round in 0..150 {
        (0..round % 5).for_each(|_| tick(&mut tracker));
        let (_, followed) = mirror.read(&mut tracker, 400_000, since, true);
        since = followed.token;
        known += u32::from(followed.whole.is_none());
        audited += mirror.audited;
    }
    assert!(known > 0 && audited > 0, "{known} of 150 reads were known");
}
