//! What two clones share is told exactly, no lock is lost by cloning, and reading what changed gives the whole version.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use asat_core::{PageSize, Problem, VersionId};
use asat_host::clones::{Folder, Stamp, Which};
use asat_host::store::{PageSink, parse_locks, read_changed, read_frozen};
use rusqlite::Connection;

use crate::lab::in_lab;
use crate::lab_reflink::site;

const BLOCK: usize = 4096;
const BLOCKS: usize = 512;

/// Clones a file to last.
fn clone(folder: &Folder, id: &VersionId, file: &Path) -> Stamp {
    folder.take(id, file, false).unwrap();
    folder.sync(id, false, &[]).unwrap()
}

/// Whatever clone it is.
fn anything() -> Which<'static> {
    Which::MadeSince("2026-01-01T00:00:00Z".parse().unwrap())
}

fn id(number: usize) -> VersionId {
    format!("report@{number}").parse().unwrap()
}

/// Numbers that follow from a seed: xorshift64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn lab_exactly_the_blocks_that_were_not_written_are_shared() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let (file, folder) = (ground.join("any file"), Folder::new(&ground.join("clones")));
        fs::write(&file, vec![7; BLOCK * BLOCKS]).unwrap();
        let mut before = clone(&folder, &id(1), &file);
        let (mut dice, mut shared) = (Dice(20_261_121), 0);
        for round in 1..=30 {
            let open = File::options().write(true).open(&file).unwrap();
            let mut written = [false; BLOCKS];
            for _ in 0..dice.below(40) {
                let (at, length) = (dice.below(BLOCKS), 1 + dice.below(4));
                for (block, written) in written.iter_mut().enumerate().skip(at).take(length) {
                    open.write_all_at(&[round as u8], (block * BLOCK + dice.below(BLOCK)) as u64).unwrap();
                    *written = true;
                }
            }
            let stamp = clone(&folder, &id(round + 1), &file);
            let unchanged = folder.unchanged(&id(round + 1), (&id(round), before)).unwrap().unwrap();
            before = stamp;
            for (block, written) in written.iter().enumerate() {
                let bytes = (block * BLOCK) as u64..((block + 1) * BLOCK) as u64;
                assert_eq!(unchanged.contains(&bytes), !written, "round {round}, block {block}");
            }
            shared += unchanged.bytes();
            assert_eq!(folder.remove(&id(round), anything()).unwrap(), None);
        }
        println!("{shared} bytes were shared in all rounds");
        assert!(shared > 0);
    });
}

/// The pages of a version; those that are told to be the same are those of the version before.
#[derive(Default)]
struct Pages {
    before: Option<BTreeMap<u32, Vec<u8>>>,
    pages: BTreeMap<u32, Vec<u8>>,
    same: u32,
}

impl PageSink for Pages {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        Ok(())
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        self.pages.insert(number, page.to_vec());
        Ok(())
    }

    fn same(&mut self, number: u32) -> Result<bool, Problem> {
        let Some(page) = self.before.as_ref().and_then(|before| before.get(&number)) else {
            return Ok(false);
        };
        self.same += 1;
        self.pages.insert(number, page.clone());
        Ok(true)
    }
}

#[test]
fn lab_a_version_that_is_read_by_its_changes_is_the_same_as_one_that_is_read_whole() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let never = AtomicBool::new(false);
        for page_size in [512, 4096, 65536] {
            let file = ground.join(format!("store of {page_size}.db"));
            let folder = Folder::new(&ground.join(format!("clones of {page_size}")));
            let store = Connection::open(&file).unwrap();
            let schema = "create table t(n integer primary key, v blob);
                with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
                insert into t select i, randomblob(300) from n";
            store.execute_batch(&format!("pragma page_size = {page_size}; {schema}")).unwrap();
            let (mut before, mut last, mut skipped) = (None, None, 0);
            for round in 1..=12 {
                let change = match round % 4 {
                    0 => "delete from t where n > 2900; vacuum",
                    1 => "update t set v = randomblob(300) where n % 1000 = 7",
                    2 => "insert into t(v) select randomblob(300) from t limit 500",
                    _ => "update t set v = zeroblob(300) where n = 17",
                };
                store.execute_batch(change).unwrap();
                let stamp = clone(&folder, &id(round), &file);
                let clone = folder.file(&id(round));
                let mut whole = Pages::default();
                let frozen = read_frozen(&clone, false, &never, &mut whole).unwrap();
                let mut changed = Pages { before: before.take(), ..Pages::default() };
                if let Some(last) = last.replace(stamp) {
                    let unchanged = folder.unchanged(&id(round), (&id(round - 1), last)).unwrap().unwrap();
                    let content = (frozen.page_size, frozen.page_count);
                    read_changed(&clone, content, &unchanged, &never, &mut changed).unwrap();
                    assert!(changed.pages == whole.pages, "pages of {page_size}, round {round}");
                    folder.remove(&id(round - 1), anything()).unwrap();
                }
                skipped += changed.same;
                before = Some(whole.pages);
            }
            println!("pages of {page_size}: {skipped} were not read");
            assert!(skipped > 0, "pages of {page_size}");
        }
    });
}

#[test]
fn lab_a_clone_that_somebody_has_changed_or_replaced_tells_nothing() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let (file, folder) = (ground.join("any file"), Folder::new(&ground.join("clones")));
        fs::write(&file, vec![7; BLOCK * BLOCKS]).unwrap();
        let first = clone(&folder, &id(1), &file);
        File::options().write(true).open(&file).unwrap().write_all_at(&[8; BLOCK], 0).unwrap();
        clone(&folder, &id(2), &file);
        let told = || folder.unchanged(&id(2), (&id(1), first)).unwrap().map(|unchanged| unchanged.bytes());
        assert_eq!(told(), Some((BLOCK * (BLOCKS - 1)) as u64));
        // The newer state in place of the older one: as far as their blocks say, nothing has changed between the two.
        let older = folder.file(&id(1));
        let aside = ground.join("aside");
        fs::rename(&older, &aside).unwrap();
        let [from, to] = [folder.file(&id(2)), older.clone()].map(|path| path.to_str().unwrap().to_owned());
        machine.run("cp", &["--reflink=always", "-p", &from, &to]);
        assert_eq!(told(), None);
        fs::remove_file(&older).unwrap();
        fs::rename(&aside, &older).unwrap();
        assert_eq!(told(), None, "it was touched");
    });
}

/// How many locks anybody has on a file.
fn locks_on(path: &Path) -> usize {
    let inode = fs::metadata(path).unwrap().ino();
    parse_locks(&fs::read_to_string("/proc/locks").unwrap()).iter().filter(|lock| lock.inode == inode).count()
}

#[test]
fn lab_cloning_a_store_loses_none_of_its_locks() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let (file, folder) = (ground.join("report.db"), Folder::new(&ground.join("clones")));
        let store = Connection::open(&file).unwrap();
        store.execute_batch("create table t(x); begin immediate; insert into t values (1)").unwrap();
        let held = locks_on(&file);
        assert!(held > 0);
        folder.take(&id(1), &file, false).unwrap();
        assert_eq!(locks_on(&file), held);
        let other = Connection::open(&file).unwrap();
        other.busy_timeout(std::time::Duration::ZERO).unwrap();
        assert!(other.execute_batch("begin immediate").is_err(), "the store is locked no more");
    });
}
