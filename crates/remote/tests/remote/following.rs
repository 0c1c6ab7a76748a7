//! What a follower has of a store that another machine publishes, what that costs, and what comes of each thing that goes wrong: one
//! test a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use asat_archive::{Archive, Contents, Cut, Error as ArchiveError, Meta};
use asat_core::{Code, PageSize, Problem};
use asat_remote::{
    Bucket, Cache, Entry, Error, Follower, History, Keep, LEAST_CACHE_BYTES, Manifest, NoteFile, Part, Parts,
    Repository, Service, Stop, prune, restore,
};
use serde_json::json;
use tempfile::TempDir;

use crate::contract;
use crate::machine::{Accident, Machine, contents, store};
use crate::model::{Dice, Fault, Model};
use crate::servers;

/// A file is fetched in parts of this many bytes.
const PART: usize = 128 << 10;
/// So many parts that are expected are fetched together at most.
const MOST_EXPECTED: usize = 128;

/// What a follower sees of a bucket: whoever follows and tries to change something there ends the test.
#[derive(Debug)]
pub(crate) struct Reading(pub(crate) Arc<Model>);

impl Bucket for Reading {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn create(&self, key: &str, _: &[u8]) -> Result<bool, Error> {
        panic!("a follower creates {key}");
    }

    fn store(&self, key: &str, _: u64, _: &mut Parts<'_>) -> Result<(), Error> {
        panic!("a follower stores {key}");
    }

    fn read(&self, key: &str, take: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<bool, Error> {
        self.0.read(key, take)
    }

    fn read_parts(&self, parts: &[Part]) -> Vec<Result<Option<Vec<u8>>, Error>> {
        self.0.read_parts(parts)
    }

    fn look(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.0.look(key)
    }

    fn list(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<Entry>, Error> {
        self.0.list(prefix, after, most)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, Error> {
        self.0.folders(prefix)
    }

    fn delete(&self, key: &str) -> Result<(), Error> {
        panic!("a follower deletes {key}");
    }
}

/// A repository in a bucket that does nothing by chance.
struct World {
    bucket: Arc<Model>,
    repository: Repository,
    /// Where caches lie.
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let bucket = Arc::new(Model::new(Arc::new(Dice::new(0))));
        let (repository, _) = Repository::init(bucket.clone(), None).unwrap();
        bucket.asked();
        Self { bucket, repository, folder: tempfile::tempdir().unwrap() }
    }

    /// A machine that has pushed so many versions, each by itself.
    fn with(versions: u64) -> (Self, Machine) {
        let (world, mut machine) = (Self::new(), machine("first"));
        (0..versions).for_each(|_| world.publish(&mut machine));
        (world, machine)
    }

    /// A machine whose versions have these pages, as [`write`] has them.
    fn with_pages(versions: &[(usize, &[u64])]) -> (Self, Machine) {
        let (world, mut machine) = (Self::new(), machine("first"));
        for (page_size, pages) in versions {
            write(&mut machine, *page_size, pages);
            world.push(&mut machine);
        }
        (world, machine)
    }

    /// Publishes a version, and pushes it.
    fn publish(&self, machine: &mut Machine) {
        machine.publish(100 + u64::try_from(self.bucket.keys().len()).unwrap());
        self.push(machine);
    }

    /// Pushes what a machine has. What was asked for is forgotten.
    fn push(&self, machine: &mut Machine) {
        assert_eq!(machine.push(&self.repository).unwrap(), machine.versions);
        self.forget();
    }

    /// Forgets what was asked for.
    fn forget(&self) {
        self.bucket.asked();
        self.bucket.parts();
    }

    /// An empty cache.
    fn cache(&self) -> Arc<Cache> {
        Cache::new(Arc::new(Reading(self.bucket.clone())), self.folder.path(), 0).unwrap()
    }

    /// A follower that has nothing yet, with a cache of its own.
    fn follower(&self) -> Follower {
        self.follower_with(&self.cache())
    }

    fn follower_with(&self, cache: &Arc<Cache>) -> Follower {
        let bucket = Arc::new(Reading(self.bucket.clone()));
        Follower::new(&Repository { bucket, ..self.repository.clone() }, &store(), cache)
    }

    /// A follower that has come to the newest manifest.
    fn following(&self) -> Follower {
        let mut follower = self.follower();
        assert!(follower.follow(&BTreeSet::new()).unwrap());
        self.forget();
        follower
    }

    fn history(&self) -> History {
        self.repository.history(&store())
    }

    fn newest(&self) -> Manifest {
        self.history().newest().unwrap().unwrap()
    }

    /// The keys of the files that the newest manifest names, oldest first.
    fn files(&self) -> Vec<String> {
        self.newest().files.iter().map(|file| file.key(&store())).collect()
    }

    /// Everything in the bucket.
    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let keys = self.bucket.keys().into_keys();
        keys.map(|key| (key.clone(), self.bucket.bytes(&key).unwrap())).collect()
    }

    /// Puts an object where it was, or where it was not.
    fn put(&self, key: &str, bytes: Vec<u8>) {
        let length = u64::try_from(bytes.len()).unwrap();
        self.bucket.store(key, length, &mut [Ok(bytes)].into_iter()).unwrap();
    }

    /// Puts the bucket back to what it was.
    fn put_back(&self, objects: &BTreeMap<String, Vec<u8>>) {
        self.bucket.keys().keys().for_each(|key| self.bucket.damage(key, |_| None));
        objects.iter().for_each(|(key, bytes)| self.put(key, bytes.clone()));
    }

    /// Deletes whatever nothing but the newest manifest needs.
    fn prune(&self) {
        self.bucket.pass(5000);
        prune(&self.history(), &Keep { grace: Duration::from_secs(1000), manifests: 1 }, false).unwrap();
        self.forget();
    }

    /// Puts a manifest under a number that is free, whatever it says.
    fn create(&self, manifest: &Manifest) {
        let json = serde_json::to_string(manifest).unwrap();
        self.put(&manifest.key(), format!("{json}\n{}\n", blake3::hash(json.as_bytes())).into_bytes());
    }
}

fn machine(name: &str) -> Machine {
    Machine::steady(name, Machine::folder())
}

/// A page that no compression makes shorter. Two of one number are the same.
fn page(size: usize, number: u64) -> Vec<u8> {
    let dice = Dice::new(number << 32);
    (0..size / 8).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect()
}

/// Writes a version of these pages, each of which is known by a number. Those that are others than in the version before are stored.
fn write(machine: &mut Machine, page_size: usize, pages: &[u64]) {
    let number = (1..).find(|number| machine.archive.ends_below(*number)).unwrap();
    let note = json!({ "written": number });
    write_noted(machine, page_size, pages, note);
}

fn write_noted(machine: &mut Machine, page_size: usize, pages: &[u64], note: serde_json::Value) {
    let number = (1..).find(|number| machine.archive.ends_below(*number)).unwrap();
    let size = PageSize::new(u32::try_from(page_size).unwrap()).unwrap();
    let mut writer = machine.archive.begin(number, size, u32::try_from(pages.len()).unwrap()).unwrap();
    for (nth, known_by) in (1..).zip(pages) {
        writer.page(nth, &page(page_size, *known_by)).unwrap();
    }
    let cut_at = "2026-11-19T17:00:00Z".parse().unwrap();
    writer.finish(Cut { store: store(), cut_at, wal: true, note, even_if_unchanged: true }).unwrap();
    machine.versions.insert(number, 0);
}

fn compact(machine: &Machine) {
    machine.archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
}

/// All that a version has: what is said of it, and every byte, read in two ways.
fn whole(archive: &Archive, number: u64) -> Result<(Meta, Vec<u8>), ArchiveError> {
    let reader = archive.read(number)?;
    let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
    assert_eq!(reader.read_at(0, &mut bytes)?, bytes.len());
    assert_eq!(reader.fingerprint()?, reader.meta().fingerprint, "version {number}");
    assert_eq!(&archive.describe(number)?, reader.meta());
    Ok((reader.meta().clone(), bytes))
}

/// Fails unless a follower has exactly what a machine has, and says so.
fn has_all_of(follower: &Follower, machine: &Machine) {
    let (here, there) = (follower.archive(), &machine.archive);
    assert_eq!(here.live(), machine.versions.keys().copied().collect::<Vec<_>>());
    assert_eq!((here.newest(), here.bytes()), (there.newest(), follower.manifest().unwrap().bytes()));
    for number in here.live() {
        assert!(here.contains(number) && may_have(here, number));
        assert_eq!(here.stored_bytes(number), there.stored_bytes(number));
        assert!(whole(here, number).unwrap() == whole(there, number).unwrap(), "version {number}");
    }
    for number in machine.retired.keys() {
        assert!(!here.contains(*number) && !may_have(here, *number));
        assert_is!(here.read(*number).map(drop), Err(ArchiveError::NoSuchVersion { .. }));
    }
    assert!(here.lost().is_empty() && here.unread().is_empty());
}

/// Reads all that a machine has from a follower: each version is right or lost, be it listed or not. Answers which are lost.
fn lost_of(follower: &Follower, machine: &Machine) -> BTreeSet<u64> {
    let archive = follower.archive();
    let lost = machine.versions.keys().copied().filter(|number| {
        assert!(may_have(archive, *number), "version {number} was not given up");
        match whole(archive, *number) {
            Ok(found) => assert!(found == whole(&machine.archive, *number).unwrap(), "version {number}"),
            Err(error) => {
                assert!(error.is_loss(), "version {number}: {error}");
                assert_eq!(Problem::from(error).code, Code::Damaged);
                return true;
            }
        }
        false
    });
    lost.collect()
}

/// Goes on to the newest manifest; nothing that is given up is kept.
fn follow(follower: &mut Follower) -> Result<bool, Error> {
    follower.follow(&BTreeSet::new())
}

/// Whether a version was not given up.
fn may_have(archive: &Archive, number: u64) -> bool {
    archive.given_up(&[number]).is_empty()
}

/// Whether it says that the bucket does not answer, and not that something is wrong with what is in it.
fn is_away(error: Error) -> bool {
    let is_loss = matches!(&error, Error::Archive(error) if error.is_loss());
    !is_loss && Problem::from(error).code == Code::RemoteUnavailable
}

/// What becomes of an object.
type Harm = fn(Vec<u8>) -> Option<Vec<u8>>;

/// A harm that no reader notices, as it does not read that.
const HEADER: &str = "its header is changed";

/// Whether a file that is harmed so cannot be opened.
fn is_needed_to_open(harm: &str) -> bool {
    !["a frame is changed", HEADER].contains(&harm)
}

/// The ways in which one comes to harm that is noticed when it is read, each with its name. Of a file of several versions, not each of them
/// concerns all.
fn harms() -> [(&'static str, Harm); 10] {
    fn flip(mut bytes: Vec<u8>, at: impl Fn(usize) -> usize) -> Option<Vec<u8>> {
        let at = at(bytes.len());
        bytes[at] ^= 4;
        Some(bytes)
    }
    [
        (HEADER, |bytes| flip(bytes, |_| 3)),
        ("a frame is changed", |bytes| flip(bytes, |_| 12)),
        ("its directory is changed", |bytes| {
            // Its place is the second number in the footer.
            let at = bytes.len() - 172 + 8;
            let directory = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            flip(bytes, |_| usize::try_from(directory).unwrap())
        }),
        ("its footer is changed", |bytes| flip(bytes, |len| len - 100)),
        ("its last byte is changed", |bytes| flip(bytes, |len| len - 1)),
        ("all of it is changed", |bytes| Some(bytes.iter().map(|byte| !byte).collect())),
        ("its end is missing", |bytes| Some(bytes[..bytes.len() / 2].to_vec())),
        ("it is empty", |_| Some(Vec::new())),
        ("it is gone", |_| None),
        ("its end says another format", |bytes| flip(bytes, |len| len - 12)),
    ]
}

// What it has.

#[test]
fn a_follower_has_what_is_published_after_each_publication_giving_up_and_merge() {
    let (world, mut machine) = (World::new(), machine("first"));
    let (mut each, mut seldom) = (world.follower(), world.follower());
    assert!(!each.follow(&BTreeSet::new()).unwrap());
    assert!(each.manifest().is_none() && each.archive().live().is_empty());
    for version in 1..=30 {
        machine.publish(100 + version);
        if version % 3 == 0 && machine.versions.contains_key(&(version - 1)) {
            machine.retire(version - 1);
        }
        if version % 7 == 0 {
            // What comes next lies upon the version before it.
            machine.retire(version);
        }
        if version % 5 == 0 {
            compact(&machine);
        }
        world.push(&mut machine);
        assert!(each.follow(&BTreeSet::new()).unwrap());
        assert_eq!(each.manifest(), Some(&world.newest()));
        has_all_of(&each, &machine);
        assert!(!each.follow(&BTreeSet::new()).unwrap());
        if version % 4 == 0 {
            assert!(seldom.follow(&BTreeSet::new()).unwrap());
            has_all_of(&seldom, &machine);
            let mut new = world.follower();
            assert!(new.follow(&BTreeSet::new()).unwrap());
            has_all_of(&new, &machine);
        }
    }
}

#[test]
fn pages_of_any_size_and_files_of_any_length_are_read_as_they_are() {
    let (world, mut machine) = (World::new(), machine("first"));
    let mut follower = world.follower();
    let lengths = [
        (512, 1),
        (512, 300),
        // A file of a part or two, and of what is fetched whole and not.
        (4096, 30),
        (4096, 40),
        (65536, 15),
        (65536, 17),
        (65536, 70),
    ];
    for (page_size, count) in lengths {
        let pages: Vec<u64> = (0..count).collect();
        write(&mut machine, page_size, &pages);
        // One page is another one in the next version.
        write(&mut machine, page_size, &[&pages[1..], &[1 << 20]].concat());
        world.push(&mut machine);
        follower.follow(&BTreeSet::new()).unwrap();
        has_all_of(&follower, &machine);
    }
    compact(&machine);
    world.push(&mut machine);
    follower.follow(&BTreeSet::new()).unwrap();
    has_all_of(&follower, &machine);
    has_all_of(&world.following(), &machine);
}

#[test]
fn what_is_open_is_read_on_as_it_was_whatever_is_published() {
    let (world, mut machine) = World::with(9);
    let mut follower = world.following();
    let archive = follower.archive().clone();
    let readers: Vec<_> = archive.live().into_iter().map(|number| archive.read(number).unwrap()).collect();
    machine.retire(2);
    machine.retire(9);
    compact(&machine);
    world.push(&mut machine);
    follower.follow(&BTreeSet::new()).unwrap();
    for reader in readers {
        assert_eq!(reader.fingerprint().unwrap(), reader.meta().fingerprint);
    }
    assert_eq!(archive.live(), follower.archive().live(), "a handle is as good as another one");
}

/// Gives up versions one after another, merges what is left if that is asked for, and says in one manifest or in several that it did; fails
/// unless a follower reads those on that are kept, as long as they are.
fn are_kept(given_up: &[u64], is_merged: bool, at_once: bool) {
    let (world, mut machine) = World::with(12);
    let mut follower = world.following();
    let kept: BTreeSet<u64> = given_up.iter().copied().collect();
    let before: Vec<_> = given_up.iter().map(|number| whole(follower.archive(), *number).unwrap()).collect();
    let mut say = |machine: &mut Machine, is_last: bool| {
        if is_last || !at_once {
            world.push(machine);
            assert!(follower.follow(&kept).unwrap());
        }
    };
    for (nth, number) in (1..).zip(given_up) {
        machine.retire(*number);
        say(&mut machine, nth == given_up.len() && !is_merged);
    }
    if is_merged {
        compact(&machine);
        say(&mut machine, true);
    }
    let archive = follower.archive().clone();
    assert_eq!(archive.live(), machine.versions.keys().copied().collect::<Vec<_>>());
    assert_eq!(archive.given_up(&[2, 8, 13]), [13]);
    assert_eq!(archive.given_up(given_up), given_up);
    let is_kept = |number: &u64| match whole(&archive, *number) {
        Ok(found) => given_up.iter().zip(&before).any(|kept| kept == (number, &found)),
        Err(ArchiveError::NoSuchVersion { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    for number in given_up {
        assert!(is_kept(number), "version {number} of {given_up:?}, {is_merged}, {at_once}");
    }
    let fewer = given_up.iter().copied().skip(1).collect();
    for keep in [kept.clone(), fewer, BTreeSet::new()] {
        // If there is nothing new, nothing changes.
        assert!(!follower.follow(&keep).unwrap());
        world.publish(&mut machine);
        assert!(follower.follow(&keep).unwrap());
        assert_eq!(kept.iter().copied().filter(is_kept).collect::<BTreeSet<_>>(), keep);
    }
    has_all_of(&follower, &machine);
    // What is given up already when it is first heard of is not there.
    let mut new = world.follower();
    new.follow(&kept).unwrap();
    has_all_of(&new, &machine);
}

#[test]
fn what_is_given_up_and_kept_is_read_on_for_as_long_as_it_is_kept() {
    for at_once in [false, true] {
        are_kept(&[5], false, at_once);
        are_kept(&[1, 3, 5], false, at_once);
    }
}

#[test]
fn what_is_given_up_and_kept_is_read_on_though_no_segment_has_it_any_more() {
    for (is_merged, at_once) in [(false, false), (false, true), (true, false), (true, true)] {
        are_kept(&[12], is_merged, at_once);
        are_kept(&[1, 5, 12], is_merged, at_once);
    }
}

#[test]
fn after_a_start_it_goes_on_from_what_is_noted() {
    let (world, mut machine) = World::with(3);
    let note = world.folder.path().join("note");
    let start = || world.follower().noted_in(Box::new(NoteFile(note.clone())));
    // Nothing is noted before somebody says so.
    let mut follower = start();
    assert!(follow(&mut follower).unwrap());
    assert!(!note.exists());
    for (behind, reads) in [(0, 2), (1, 2), (4, 5)] {
        follower.note().unwrap();
        (0..behind).for_each(|_| world.publish(&mut machine));
        world.forget();
        follower = start();
        assert!(follow(&mut follower).unwrap(), "{behind}");
        let asked = world.bucket.asked();
        assert_eq!(asked.iter().filter(|asked| **asked == "read").count(), reads, "{behind}: {asked:?}");
        assert!(!asked.contains(&"list"));
        has_all_of(&follower, &machine);
        assert!(!follow(&mut follower).unwrap());
    }
    // What is noted was pruned meanwhile.
    follower.note().unwrap();
    (0..12).for_each(|_| world.publish(&mut machine));
    world.prune();
    let mut follower = start();
    assert!(follow(&mut follower).unwrap());
    has_all_of(&follower, &machine);
    follower.note().unwrap();
    // A bucket that does not answer at the start.
    for _ in 0..3 {
        let mut follower = start();
        world.bucket.next("read", &[Fault::Refused]);
        assert!(is_away(follow(&mut follower).unwrap_err()));
        assert!(follower.archive().live().is_empty() && follower.manifest().is_none());
        assert!(follow(&mut follower).unwrap());
        has_all_of(&follower, &machine);
    }
    // A note that nobody can read is no reason to begin anew.
    fs::write(&note, "{").unwrap();
    assert_is!(follow(&mut start()), Err(Error::Local { path, .. }) if *path == note);
}

#[test]
fn after_a_start_another_history_than_the_noted_one_is_not_followed() {
    type Change = fn(&World, &BTreeMap<String, Vec<u8>>);
    let changes: [(&str, Change); 3] = [
        ("it was emptied", |world, _| world.put_back(&BTreeMap::new())),
        ("it was put back from a backup", |world, backup| world.put_back(backup)),
        ("it was put back from a backup, and another machine went on", |world, backup| {
            world.put_back(backup);
            let mut other = restored(world, "other");
            other.take_over(&world.repository).unwrap();
            (0..5).for_each(|_| world.publish(&mut other));
        }),
    ];
    for (what, change) in changes {
        let (world, mut machine) = World::with(3);
        let backup = world.objects();
        (0..2).for_each(|_| world.publish(&mut machine));
        let note = world.folder.path().join("note");
        let start = || world.follower().noted_in(Box::new(NoteFile(note.clone())));
        let mut follower = start();
        follow(&mut follower).unwrap();
        follower.note().unwrap();
        change(&world, &backup);
        let mut follower = start();
        for _ in 0..2 {
            assert_is!(follow(&mut follower), Err(Error::Missing { key, .. }) if key.ends_with("-5.json"));
            assert!(follower.manifest().is_none() && follower.archive().live().is_empty(), "{what}");
        }
    }
    // Another repository in its place.
    let (world, _) = World::with(3);
    let note = world.folder.path().join("note");
    let follower = || world.follower().noted_in(Box::new(NoteFile(note.clone())));
    let mut first = follower();
    follow(&mut first).unwrap();
    first.note().unwrap();
    let bucket = Arc::new(Reading(world.bucket.clone()));
    let other = Repository { bucket, id: "other".to_owned(), keys: Arc::default() };
    let mut follower =
        Follower::new(&other, &store(), &world.cache()).noted_in(Box::new(NoteFile(note.clone())));
    assert_is!(follow(&mut follower), Err(Error::Replaced { found, .. }) if found == "other");
    assert!(follower.manifest().is_none());
}

/// A machine that has nothing but what was restored.
fn restored(world: &World, name: &str) -> Machine {
    let folder = Machine::folder();
    restore(&world.history(), None, &Machine::archive_folder(&folder), &mut |_, _| {}).unwrap();
    Machine::steady(name, folder)
}

#[test]
fn whoever_reads_while_it_goes_on_reads_what_is_right() {
    let (world, mut machine) = World::with(8);
    let mut follower = world.following();
    let archive = follower.archive().clone();
    let (published, is_over) = (Mutex::new(machine.versions.clone()), AtomicBool::new(false));
    let read = |seed: u64| {
        let (dice, mut count) = (Dice::new(seed), 0);
        while !is_over.load(Ordering::Relaxed) {
            let live = archive.live();
            let number = live[usize::try_from(dice.below(u64::try_from(live.len()).unwrap())).unwrap()];
            match whole(&archive, number) {
                Ok((_, bytes)) => {
                    let content = u64::from_le_bytes(bytes[512..520].try_into().unwrap());
                    assert_eq!(published.lock().unwrap().get(&number), Some(&content));
                    count += 1;
                }
                // It was given up since.
                Err(ArchiveError::NoSuchVersion { .. }) => {}
                Err(error) => panic!("version {number}: {error}"),
            }
        }
        count
    };
    let counts: Vec<usize> = thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|seed| scope.spawn(move || read(seed))).collect();
        for round in 0..60 {
            machine.publish(1000 + round);
            published.lock().unwrap().extend(machine.versions.clone());
            if round % 2 == 0 {
                let oldest = *machine.versions.keys().next().unwrap();
                machine.retire(oldest);
            }
            if round % 5 == 0 {
                compact(&machine);
            }
            world.push(&mut machine);
            follow(&mut follower).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    has_all_of(&follower, &machine);
}

// Requests.

#[test]
fn nothing_new_takes_one_read_a_publication_two_and_a_part_for_each_file_and_reading_nothing() {
    type Step = (&'static str, fn(&mut Machine), &'static [&'static str]);
    let steps: [Step; 9] = [
        ("nothing was ever published", |_| {}, &["list", "read"]),
        ("the first version", |machine| machine.publish(1), &["list", "read", "read", "read part"]),
        ("nothing new", |_| {}, &["read"]),
        ("a version", |machine| machine.publish(2), &["read", "read", "read part"]),
        ("a version is given up", |machine| machine.retire(1), &["read", "read", "read part"]),
        (
            "two versions",
            |machine| (3..5).for_each(|n| machine.publish(n)),
            &["read", "read", "read part", "read part"],
        ),
        (
            "eight versions",
            |machine| (5..13).for_each(|n| machine.publish(n)),
            &[
                "read",
                "read",
                "read part",
                "read part",
                "read part",
                "read part",
                "read part",
                "read part",
                "read part",
                "read part",
            ],
        ),
        ("segments are merged", |machine| compact(machine), &["read", "read", "read part"]),
        ("nothing new again", |_| {}, &["read"]),
    ];
    let (world, mut machine) = (World::new(), machine("first"));
    let mut follower = world.follower();
    for (what, act, asked) in steps {
        act(&mut machine);
        world.push(&mut machine);
        let is_new = follower.follow(&BTreeSet::new()).unwrap();
        assert_eq!(is_new, asked.contains(&"read part"), "{what}");
        assert_eq!(world.bucket.asked(), asked, "{what}");
        assert_eq!(
            world.bucket.parts().len(),
            usize::from(is_new),
            "{what}: all parts are asked for together"
        );
        if follower.manifest().is_some() {
            has_all_of(&follower, &machine);
        }
        assert_eq!(world.bucket.asked(), [""; 0], "{what}");
    }
}

#[test]
fn several_publications_take_one_read_more_each_and_many_a_listing() {
    for (behind, asked) in [
        (1, vec!["read"; 2]),
        (3, vec!["read"; 4]),
        (7, vec!["read"; 8]),
        // Eight are looked at, and whether the last one known is there; then a listing is shorter.
        (8, [vec!["read"; 9], vec!["list"], vec!["read"; 2]].concat()),
        (40, [vec!["read"; 9], vec!["list"], vec!["read"; 2]].concat()),
    ] {
        let (world, mut machine) = World::with(2);
        let mut follower = world.following();
        (0..behind).for_each(|_| world.publish(&mut machine));
        assert!(follower.follow(&BTreeSet::new()).unwrap());
        let parts = vec!["read part"; behind];
        assert_eq!(world.bucket.asked(), [asked, parts].concat(), "{behind} behind");
        assert_eq!(world.bucket.parts().len(), 1, "{behind} behind");
        has_all_of(&follower, &machine);
        assert_eq!(world.bucket.asked(), [""; 0]);
    }
}

#[test]
fn from_nothing_it_takes_a_listing_two_reads_and_each_small_file_once_all_together() {
    for count in [1, 2, 9, 60, 100] {
        let (world, mut machine) = (World::new(), machine("first"));
        (0..count).for_each(|content| machine.publish(content));
        world.push(&mut machine);
        let mut follower = world.follower();
        assert!(follower.follow(&BTreeSet::new()).unwrap());
        let parts = vec!["read part"; usize::try_from(count).unwrap()];
        assert_eq!(world.bucket.asked(), [vec!["list", "read", "read"], parts].concat());
        assert_eq!(world.bucket.parts().len(), 1, "{count} files");
        has_all_of(&follower, &machine);
        assert_eq!(world.bucket.asked(), [""; 0], "{count} files");
    }
}

#[test]
fn of_large_files_the_ends_are_fetched_together_and_nothing_before_them() {
    let pages: Vec<u64> = (0..40).collect();
    let others: Vec<u64> = (100..140).collect();
    let (world, machine) = World::with_pages(&[(65536, &pages), (65536, &others), (65536, &pages)]);
    let mut follower = world.follower();
    follower.follow(&BTreeSet::new()).unwrap();
    assert_eq!(world.bucket.asked(), [vec!["list", "read", "read"], vec!["read part"; 3]].concat());
    let parts = world.bucket.parts();
    assert_eq!(parts.len(), 1);
    assert!(parts[0].iter().all(|part| part.range.end - part.range.start <= 512 << 10));
    assert_eq!(follower.archive().live(), [1, 2, 3]);
    for number in 1..4 {
        assert_eq!(follower.archive().describe(number).unwrap(), machine.archive.describe(number).unwrap());
    }
    assert_eq!(world.bucket.asked(), [""; 0]);
    has_all_of(&follower, &machine);
}

#[test]
fn a_large_version_that_is_read_in_order_is_fetched_in_few_calls_each_part_once() {
    let pages: Vec<u64> = (0..320).collect();
    let (world, machine) = World::with_pages(&[(65536, &pages)]);
    let follower = world.following();
    let reader = follower.archive().read(1).unwrap();
    let (mut buffer, mut read) = (vec![0; 256 << 10], Vec::new());
    while read.len() < 20 << 20 {
        let offset = u64::try_from(read.len()).unwrap();
        let count = reader.read_at(offset, &mut buffer).unwrap();
        read.extend_from_slice(&buffer[..count]);
        reader.look_ahead();
    }
    assert!(read == whole(&machine.archive, 1).unwrap().1);
    let calls = world.bucket.parts();
    let bytes: u64 = calls.iter().flatten().map(|part| part.range.end - part.range.start).sum();
    assert!(bytes <= follower.manifest().unwrap().bytes(), "{bytes} bytes: something was fetched twice");
    assert!(calls.len() <= 22, "{} calls for 20 MiB", calls.len());
}

#[test]
fn descriptions_that_are_expected_are_fetched_in_one_call() {
    let (world, mut machine) = (World::new(), machine("first"));
    for number in 1..=160 {
        // Notes that no compression makes shorter than a third.
        let note: String = page(24 << 10, 1000 + number).iter().map(|byte| format!("{byte:02x}")).collect();
        write_noted(&mut machine, 512, &[number], json!({ "note": note }));
    }
    compact(&machine);
    world.push(&mut machine);
    let described = |follower: &Follower| {
        for number in follower.archive().live() {
            let there = machine.archive.describe(number).unwrap();
            assert!(follower.archive().describe(number).unwrap() == there, "version {number}");
        }
        world.bucket.parts().len()
    };
    let calls = described(&world.following());
    assert!(calls > 1, "they take {calls} calls");
    let follower = world.following();
    follower.archive().expect_descriptions(1);
    assert_eq!(world.bucket.parts().len(), 0, "nobody has asked for one yet");
    assert_eq!(described(&follower), 1);
}

#[test]
fn what_is_here_already_does_not_keep_what_is_expected_from_being_fetched_in_the_same_call() {
    let pages: Vec<u64> = (0..64).collect();
    let (world, mut machine) = World::with_pages(&[(65536, &pages)]);
    let mut follower = world.following();
    has_all_of(&follower, &machine);
    // Everything is here, and is read again and again.
    (0..3).for_each(|_| has_all_of(&follower, &machine));
    let reader = follower.archive().read(1).unwrap();
    for _ in 0..40 {
        reader.read_at(0, &mut vec![0; 1 << 20]).unwrap();
        reader.look_ahead();
    }
    world.forget();
    (0..20).for_each(|content| machine.publish(content));
    world.push(&mut machine);
    follower.follow(&BTreeSet::new()).unwrap();
    assert_eq!(world.bucket.parts().len(), 1);
    has_all_of(&follower, &machine);
}

#[test]
fn two_who_need_the_same_part_fetch_it_once() {
    let pages: Vec<u64> = (0..40).collect();
    let (world, machine) = World::with_pages(&[(65536, &pages)]);
    let follower = world.following();
    let expected = whole(&machine.archive, 1).unwrap().1;
    let reader = follower.archive().read(1).unwrap();
    // The block of the index is here; the first part of the pages is on its way until somebody says so.
    let (begun, begins) = mpsc::channel();
    let (arrive, arrives) = mpsc::channel::<()>();
    let arrives = Mutex::new(arrives);
    *world.bucket.between.lock().unwrap() = Some(Arc::new(move || {
        let _ = begun.send(());
        let _ = arrives.lock().unwrap().recv();
    }));
    let read = || {
        let mut bytes = vec![0; 65536];
        reader.read_at(5 * 65536, &mut bytes).unwrap();
        bytes
    };
    let found: Vec<Vec<u8>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        begins.recv().unwrap();
        // The others come to wait for it, or find it here.
        thread::sleep(Duration::from_millis(100));
        drop(arrive);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    *world.bucket.between.lock().unwrap() = None;
    assert!(found.iter().all(|bytes| *bytes == expected[5 * 65536..6 * 65536]));
    let mut parts: Vec<Range<u64>> =
        world.bucket.parts().into_iter().flatten().map(|part| part.range).collect();
    let count = parts.len();
    parts.sort_by_key(|range| range.start);
    parts.dedup();
    assert_eq!(parts.len(), count, "{parts:?}");
    assert!(parts.windows(2).all(|two| two[0].end <= two[1].start), "{parts:?}");
}

// The cache.

#[test]
fn a_cache_that_is_smaller_than_what_is_read_keeps_its_bound_and_everything_reads_right() {
    let page_numbers = |version: u64| (version * 1000..version * 1000 + 320).collect::<Vec<u64>>();
    let versions: Vec<Vec<u64>> = (1..=5).map(page_numbers).collect();
    let (world, mut machine) = (World::new(), machine("first"));
    versions.iter().for_each(|pages| write(&mut machine, 65536, pages));
    world.push(&mut machine);
    let expected: Vec<Vec<u8>> = (1..=5).map(|number| whole(&machine.archive, number).unwrap().1).collect();
    let cache = world.cache();
    let mut follower = world.follower_with(&cache);
    follower.follow(&BTreeSet::new()).unwrap();
    assert!(follower.manifest().unwrap().bytes() > LEAST_CACHE_BYTES + (32 << 20));
    let archive = follower.archive().clone();
    let one_fetch = u64::try_from((MOST_EXPECTED + 8) * PART).unwrap();
    // Each of them may have fetched something for which there is no room yet.
    let most = LEAST_CACHE_BYTES + 4 * one_fetch;
    let read = |seed: u64| {
        let (dice, mut buffer) = (Dice::new(seed), vec![0; 300_000]);
        for round in 0..6 {
            let number = if round < 3 { (seed + round) % 5 + 1 } else { dice.below(5) + 1 };
            let expected = &expected[usize::try_from(number - 1).unwrap()];
            let reader = archive.read(number).unwrap();
            let mut offset = 0;
            while offset < expected.len() {
                let count = reader.read_at(u64::try_from(offset).unwrap(), &mut buffer).unwrap();
                assert!(buffer[..count] == expected[offset..offset + count], "version {number} at {offset}");
                assert!(cache.bytes() <= most, "the cache has {} bytes", cache.bytes());
                if seed.is_multiple_of(2) {
                    reader.look_ahead();
                }
                // Some read here and there.
                offset += if round % 3 == 2 {
                    count + usize::try_from(dice.below(2 << 20)).unwrap()
                } else {
                    count
                };
            }
        }
    };
    thread::scope(|scope| {
        (0..4).for_each(|seed| _ = scope.spawn(move || read(seed)));
    });
    assert!(cache.bytes() > LEAST_CACHE_BYTES / 2 && cache.bytes() <= LEAST_CACHE_BYTES + one_fetch);
    // Alone, nobody sees more than the bound.
    for (number, expected) in (1..).zip(&expected) {
        assert!(whole(follower.archive(), number).unwrap().1 == *expected);
        assert!(cache.bytes() <= LEAST_CACHE_BYTES, "the cache has {} bytes", cache.bytes());
    }
    assert_eq!(fs::read_dir(world.folder.path()).unwrap().count(), 0, "what lies there has no name");
    drop((archive, follower));
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn what_nothing_needs_any_more_is_not_kept() {
    let (world, mut machine) = (World::new(), machine("first"));
    (0..12).for_each(|content| machine.publish(content));
    world.push(&mut machine);
    let cache = world.cache();
    let mut follower = world.follower_with(&cache);
    follower.follow(&BTreeSet::new()).unwrap();
    has_all_of(&follower, &machine);
    assert_eq!(cache.bytes(), follower.manifest().unwrap().bytes());
    let reader = follower.archive().read(12).unwrap();
    let before = cache.bytes();
    machine.retire(12);
    compact(&machine);
    world.push(&mut machine);
    follower.follow(&BTreeSet::new()).unwrap();
    has_all_of(&follower, &machine);
    assert!(cache.bytes() > before, "somebody reads them still");
    assert_eq!(reader.fingerprint().unwrap(), reader.meta().fingerprint);
    drop(reader);
    assert_eq!(cache.bytes(), follower.manifest().unwrap().bytes());
}

#[test]
fn without_a_cache_everything_is_read_from_the_bucket_each_time() {
    let (world, machine) = World::with(3);
    let folder = world.folder.path().join("cache");
    let cache = Cache::new(Arc::new(Reading(world.bucket.clone())), &folder, 0).unwrap();
    let mut follower = world.follower_with(&cache);
    fs::remove_dir(&folder).unwrap();
    assert!(follow(&mut follower).unwrap());
    for _ in 0..2 {
        world.forget();
        has_all_of(&follower, &machine);
        assert!(!world.bucket.asked().is_empty());
        assert_eq!(cache.bytes(), 0);
    }
    world.bucket.next("read part", &[Fault::Refused]);
    let error = whole(follower.archive(), 3).unwrap_err();
    assert_eq!(Problem::from(error).code, Code::RemoteUnavailable);
    fs::create_dir(&folder).unwrap();
    has_all_of(&follower, &machine);
    world.forget();
    has_all_of(&follower, &machine);
    assert_eq!(world.bucket.asked(), [""; 0]);
}

// What fails for a moment.

/// A follower, and what it does not have yet.
type Behind = fn() -> (World, Machine, Follower);

fn behinds() -> [(&'static str, Behind); 3] {
    [
        ("from nothing", || {
            let (world, machine) = World::with(4);
            let follower = world.follower();
            (world, machine, follower)
        }),
        ("a publication", || {
            let (world, mut machine) = World::with(3);
            let follower = world.following();
            world.publish(&mut machine);
            (world, machine, follower)
        }),
        ("versions, one that was given up, and a merge", || {
            let (world, mut machine) = World::with(6);
            let follower = world.following();
            (0..3).for_each(|content| machine.publish(content));
            machine.retire(2);
            world.push(&mut machine);
            compact(&machine);
            world.push(&mut machine);
            (world, machine, follower)
        }),
    ]
}

/// Each request that is made, by its kind, with each fault that it may meet.
fn faults(asked: &[&'static str]) -> Vec<(&'static str, Vec<Fault>)> {
    let mut all = Vec::new();
    for (place, doing) in asked.iter().enumerate() {
        let nth = asked[..place].iter().filter(|before| *before == doing).count();
        let faults = [Fault::Refused, Fault::Lost, Fault::Half];
        let meets = |fault| (*doing, [vec![Fault::Fine; nth], vec![fault]].concat());
        all.extend(
            faults.into_iter().filter(|fault| *doing == "read part" || *fault != Fault::Half).map(meets),
        );
    }
    all
}

#[test]
fn whatever_following_asks_for_may_fail_and_nothing_changes_and_the_next_try_does_it() {
    for (what, behind) in behinds() {
        let (world, _, mut follower) = behind();
        follower.follow(&BTreeSet::new()).unwrap();
        for (doing, faults) in faults(&world.bucket.asked()) {
            let what = format!("{what}: {doing}, {faults:?}");
            let (world, machine, mut follower) = behind();
            let before = (contents(follower.archive()), follower.manifest().cloned());
            world.bucket.next(doing, &faults);
            match follower.follow(&BTreeSet::new()) {
                // What was expected only is asked for again.
                Ok(is_new) => assert!(is_new, "{what}"),
                Err(error) => {
                    let is_half = faults.last() == Some(&Fault::Half);
                    assert!(is_half || is_away(error), "{what}");
                    assert_eq!(
                        (contents(follower.archive()), follower.manifest().cloned()),
                        before,
                        "{what}"
                    );
                    assert!(before.0.keys().all(|number| may_have(follower.archive(), *number)), "{what}");
                    assert!(follower.follow(&BTreeSet::new()).unwrap(), "{what}");
                }
            }
            has_all_of(&follower, &machine);
            assert!(!follower.follow(&BTreeSet::new()).unwrap(), "{what}");
        }
    }
}

#[test]
fn as_long_as_an_older_file_is_away_it_stays_where_it_is() {
    let (world, mut machine) = World::with(2);
    let mut follower = world.following();
    let before = machine.versions.clone();
    (0..3).for_each(|content| machine.publish(content));
    world.push(&mut machine);
    // The newest one comes, the others do not with it, and one of them neither when it is asked for by itself.
    world.bucket.next("read part", &[Fault::Fine, Fault::Refused, Fault::Lost, Fault::Refused]);
    assert!(is_away(follow(&mut follower).unwrap_err()));
    assert_eq!((follower.manifest().unwrap().number, contents(follower.archive())), (2, before));
    assert!(follow(&mut follower).unwrap());
    has_all_of(&follower, &machine);
}

#[test]
fn what_was_fetched_when_something_failed_is_not_fetched_again() {
    let (world, machine) = World::with(6);
    let mut follower = world.follower();
    // What is waited for is asked for first.
    world.bucket.next("read part", &[Fault::Refused]);
    assert!(is_away(follower.follow(&BTreeSet::new()).unwrap_err()));
    world.forget();
    assert!(follower.follow(&BTreeSet::new()).unwrap());
    assert_eq!(world.bucket.asked(), ["list", "read", "read", "read part"]);
    has_all_of(&follower, &machine);
}

#[test]
fn as_long_as_the_bucket_is_away_what_was_there_stays_listed() {
    let (world, mut machine) = World::with(3);
    let mut follower = world.following();
    has_all_of(&follower, &machine);
    let before = machine.versions.clone();
    world.publish(&mut machine);
    world.bucket.next("read", &[Fault::Refused; 5]);
    for _ in 0..5 {
        assert!(is_away(follower.follow(&BTreeSet::new()).unwrap_err()));
        assert_eq!(contents(follower.archive()), before);
    }
    assert!(follower.follow(&BTreeSet::new()).unwrap());
    has_all_of(&follower, &machine);
}

#[test]
fn whatever_reading_asks_for_may_fail_and_the_next_try_does_it() {
    let pages: Vec<u64> = (0..60).collect();
    let next = [&pages[..30], &[900], &pages[31..]].concat();
    let versions = [(65536, &pages[..]), (65536, &next[..])];
    // Page by page, so that each part that is not here is waited for by itself.
    let read = |follower: &Follower| {
        let reader = follower.archive().read(2)?;
        let mut pages = vec![vec![0; 65536]; 60];
        for (page, number) in pages.iter_mut().zip(1..) {
            reader.read_page(number, page)?;
        }
        Ok::<_, ArchiveError>((reader.meta().clone(), pages.concat()))
    };
    let count = {
        let (world, _) = World::with_pages(&versions);
        read(&world.following()).unwrap();
        world.bucket.asked()
    };
    assert!(count.len() > 20 && count.iter().all(|asked| *asked == "read part"), "{count:?}");
    let (world, machine) = World::with_pages(&versions);
    let expected = whole(&machine.archive, 2).unwrap();
    for (doing, faults) in faults(&count) {
        let follower = world.following();
        world.bucket.next(doing, &faults);
        if let Err(error) = read(&follower) {
            let is_half = faults.last() == Some(&Fault::Half);
            assert_eq!(error.is_loss(), is_half, "{faults:?}: {error}");
            assert!(is_half || Problem::from(error).code == Code::RemoteUnavailable, "{faults:?}");
        }
        assert_eq!(follower.archive().live(), [1, 2]);
        assert!(read(&follower).unwrap() == expected, "{faults:?}");
        world.bucket.calm();
    }
}

#[test]
fn half_of_what_was_asked_for_never_becomes_content() {
    let pages: Vec<u64> = (0..40).collect();
    let (world, mut machine) = World::with_pages(&[(65536, &pages)]);
    (0..6).for_each(|content| machine.publish(content));
    world.push(&mut machine);
    for halves in [1, 2, 3, 5, 9, 30] {
        let mut follower = world.follower();
        world.bucket.next("read part", &vec![Fault::Half; halves]);
        let mut tries = 0;
        while follower.follow(&BTreeSet::new()).is_err() {
            assert!(follower.archive().live().is_empty());
            tries += 1;
            assert!(tries <= halves, "{halves}");
        }
        // What is not there yet is lost at most; what is read is right.
        while !lost_of(&follower, &machine).is_empty() {
            tries += 1;
            assert!(tries <= halves, "{halves}");
        }
        has_all_of(&follower, &machine);
    }
}

// What is missing or damaged in the bucket.

/// Four versions: the second one stands alone and the third lies upon it, and the fourth stands alone.
fn four() -> (World, Machine) {
    World::with_pages(&[(4096, &[1, 2]), (4096, &[3, 4]), (4096, &[3, 5]), (4096, &[6, 7])])
}

/// What is lost of the four without each of their files.
const NEEDED_BY: [&[u64]; 4] = [&[1], &[2, 3], &[3], &[4]];

#[test]
fn without_an_object_the_versions_are_read_that_do_not_need_it_and_the_others_when_it_is_back() {
    let (world, machine) = four();
    for (nth, key) in world.files().into_iter().enumerate().take(3) {
        let object = world.bucket.bytes(&key).unwrap();
        world.bucket.damage(&key, |_| None);
        let mut follower = world.following();
        let number = u64::try_from(nth + 1).unwrap();
        assert_eq!(
            lost_of(&follower, &machine),
            NEEDED_BY[nth].iter().copied().collect(),
            "without {number}"
        );
        let listed: Vec<u64> = (1..5).filter(|other| *other != number).collect();
        assert_eq!(follower.archive().live(), listed);
        assert_eq!(follower.archive().lost().into_keys().collect::<Vec<_>>(), [number]);
        assert!(!follower.archive().contains(number) && may_have(follower.archive(), number));
        // It is not given up, however often it is looked for.
        assert!(!follower.follow(&BTreeSet::new()).unwrap());
        assert_eq!(follower.archive().live(), listed);
        world.put(&key, object);
        assert!(!follower.follow(&BTreeSet::new()).unwrap());
        has_all_of(&follower, &machine);
    }
}

#[test]
fn without_the_newest_object_it_stays_where_it_is_until_that_is_there() {
    for (what, how) in harms().into_iter().filter(|(what, _)| is_needed_to_open(what)) {
        let (world, mut machine) = World::with(3);
        let (mut follower, mut new) = (world.following(), world.follower());
        let before = machine.versions.clone();
        world.publish(&mut machine);
        let key = world.files().pop().unwrap();
        let object = world.bucket.bytes(&key).unwrap();
        world.bucket.damage(&key, how);
        for _ in 0..2 {
            // The directory is looked at when the segment is opened, of which the versions are not known then.
            if what == "its directory is changed" {
                let _ = (follower.follow(&BTreeSet::new()).unwrap(), new.follow(&BTreeSet::new()).unwrap());
                assert!(!follower.archive().contains(4) && may_have(follower.archive(), 4));
            } else {
                for failed in [
                    follower.follow(&BTreeSet::new()).unwrap_err(),
                    new.follow(&BTreeSet::new()).unwrap_err(),
                ] {
                    assert_is!(&failed, Error::Archive(error) if error.is_loss());
                    assert_eq!(Problem::from(failed).code, Code::Damaged, "{what}");
                }
                assert_eq!(follower.manifest().unwrap().number, 3);
                assert!(new.manifest().is_none() && new.archive().live().is_empty());
            }
            assert_eq!(contents(follower.archive()), before, "{what}");
        }
        world.bucket.damage(&key, |_| None);
        world.put(&key, object);
        let _ = (follower.follow(&BTreeSet::new()).unwrap(), new.follow(&BTreeSet::new()).unwrap());
        has_all_of(&follower, &machine);
        has_all_of(&new, &machine);
    }
}

#[test]
fn what_is_damaged_in_the_bucket_is_never_read_and_read_by_the_same_follower_once_it_was_put_right() {
    let (world, machine) = four();
    for (nth, key) in world.files().into_iter().enumerate() {
        for (what, how) in harms() {
            let what = format!("file {}: {what}", nth + 1);
            let object = world.bucket.bytes(&key).unwrap();
            world.bucket.damage(&key, how);
            let mut follower = world.follower();
            let followed = follower.follow(&BTreeSet::new());
            // The end of a file repeats what its header says.
            if what.ends_with(HEADER) {
                assert_eq!(lost_of(&follower, &machine), BTreeSet::new(), "{what}");
            } else if let Err(error) = &followed {
                assert!(nth == 3, "{what}");
                assert_is!(error, Error::Archive(error) if error.is_loss());
                assert!(follower.archive().live().is_empty());
            } else {
                for _ in 0..2 {
                    assert_eq!(
                        lost_of(&follower, &machine),
                        NEEDED_BY[nth].iter().copied().collect(),
                        "{what}"
                    );
                }
            }
            world.bucket.damage(&key, |_| None);
            world.put(&key, object);
            assert_eq!(follower.follow(&BTreeSet::new()).unwrap(), followed.is_err(), "{what}");
            has_all_of(&follower, &machine);
        }
    }
}

#[test]
fn another_file_in_the_place_of_one_is_damage_and_the_right_one_is_read_once_it_is_back() {
    let (world, machine) = four();
    for (nth, key) in world.files().into_iter().enumerate() {
        let object = world.bucket.bytes(&key).unwrap();
        // A file of this number and this length of another archive, whole in itself.
        let other = (10..).find_map(|seed: u64| {
            let seed = 10 * seed;
            let pages: [&[u64]; 4] = [&[1, seed], &[3, seed + 1], &[3, seed + 2], &[6, seed + 3]];
            let (other, _) = World::with_pages(&pages.map(|pages| (4096, pages)));
            other.bucket.bytes(&other.files()[nth]).filter(|bytes| bytes.len() == object.len())
        });
        world.bucket.damage(&key, |_| other);
        let mut follower = world.follower();
        match follower.follow(&BTreeSet::new()) {
            Ok(_) => assert_eq!(lost_of(&follower, &machine), NEEDED_BY[nth].iter().copied().collect()),
            Err(error) => assert_is!(error, Error::Archive(error) if nth == 3 && error.is_loss()),
        }
        world.bucket.damage(&key, |_| Some(object));
        follower.follow(&BTreeSet::new()).unwrap();
        has_all_of(&follower, &machine);
    }
}

#[test]
fn what_is_damaged_after_it_was_followed_and_is_not_here_is_lost_until_it_was_put_right() {
    let pages: Vec<u64> = (0..60).collect();
    let (world, machine) = World::with_pages(&[(65536, &pages)]);
    let key = world.files().remove(0);
    let object = world.bucket.bytes(&key).unwrap();
    let middle = object.len() / 2;
    let harms: [(&str, Harm); 3] = [
        ("a frame is changed", |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            Some(bytes)
        }),
        ("its end is missing", |bytes| Some(bytes[..bytes.len() / 3].to_vec())),
        ("it is gone", |_| None),
    ];
    for (what, how) in harms {
        let follower = world.following();
        let reader = follower.archive().read(1).unwrap();
        world.bucket.damage(&key, how);
        for _ in 0..2 {
            assert_eq!(lost_of(&follower, &machine), [1].into(), "{what}");
            assert!(reader.fingerprint().unwrap_err().is_loss(), "{what}");
            assert_eq!(follower.archive().live(), [1], "{what}");
        }
        world.bucket.damage(&key, |_| None);
        world.put(&key, object.clone());
        assert_eq!(reader.fingerprint().unwrap(), reader.meta().fingerprint, "{what}");
        has_all_of(&follower, &machine);
    }
    // What is here is as good as ever.
    let follower = world.following();
    has_all_of(&follower, &machine);
    world.bucket.damage(&key, |mut bytes| {
        bytes[middle] ^= 1;
        Some(bytes)
    });
    has_all_of(&follower, &machine);
}

#[test]
fn what_lies_below_is_asked_for_anew_too_when_a_page_does_not_come_out() {
    let (world, mut machine) = World::with(3);
    let key = world.files().remove(0);
    // Nobody reads the version any more that is wholly in the damaged file.
    machine.retire(1);
    world.push(&mut machine);
    let object = world.bucket.bytes(&key).unwrap();
    world.bucket.damage(&key, |mut bytes| {
        // The first number of the footer says where the frames end: that of the second page does.
        let footer = bytes.len() - 172;
        let end = u64::from_le_bytes(bytes[footer..footer + 8].try_into().unwrap());
        bytes[usize::try_from(end).unwrap() - 1] ^= 4;
        Some(bytes)
    });
    let follower = world.following();
    assert_eq!(lost_of(&follower, &machine), [2, 3].into());
    world.bucket.damage(&key, |_| Some(object));
    has_all_of(&follower, &machine);
}

#[test]
fn an_object_that_is_longer_than_it_was_stored_is_read_as_it_was() {
    let (world, machine) = four();
    for key in world.files() {
        world.bucket.damage(&key, |bytes| Some([&bytes[..], b"more"].concat()));
    }
    has_all_of(&world.following(), &machine);
}

// Others.

#[test]
fn a_take_over_changes_nothing_of_what_is_there_and_what_the_new_one_publishes_is_followed() {
    let (world, mut old) = World::with(4);
    let mut follower = world.following();
    let mut new = restored(&world, "new");
    new.take_over(&world.repository).unwrap();
    world.forget();
    assert!(follower.follow(&BTreeSet::new()).unwrap());
    assert_eq!(world.bucket.asked(), ["read", "read"], "all files are known");
    assert_eq!((follower.manifest().unwrap().epoch, follower.manifest().unwrap().number), (2, 5));
    has_all_of(&follower, &old);
    world.publish(&mut new);
    new.retire(3);
    compact(&new);
    world.push(&mut new);
    assert!(follower.follow(&BTreeSet::new()).unwrap());
    assert_eq!(follower.manifest().unwrap().holder.host, "new");
    has_all_of(&follower, &new);
    // The one that is fenced changes nothing.
    old.publish(7);
    assert_is!(old.push(&world.repository), Err(Error::Fenced { .. }));
    assert!(!follower.follow(&BTreeSet::new()).unwrap());
    has_all_of(&follower, &new);
}

#[test]
fn who_is_far_behind_goes_on_over_what_was_pruned() {
    for behind in [2, 8, 9, 30] {
        let (world, mut machine) = World::with(3);
        let mut follower = world.following();
        for round in 0..behind {
            world.publish(&mut machine);
            if round % 2 == 0 {
                let oldest = *machine.versions.keys().next().unwrap();
                machine.retire(oldest);
                world.push(&mut machine);
            }
        }
        compact(&machine);
        world.push(&mut machine);
        world.prune();
        assert_eq!(
            world.bucket.keys().keys().filter(|key| key.starts_with("s/report/f/")).count(),
            world.files().len()
        );
        follower.look_back().unwrap();
        assert!(follower.follow(&BTreeSet::new()).unwrap(), "{behind}");
        assert_eq!(follower.manifest(), Some(&world.newest()));
        has_all_of(&follower, &machine);
        follower.look_back().unwrap();
        assert!(!follower.follow(&BTreeSet::new()).unwrap());
        let mut new = world.follower();
        new.follow(&BTreeSet::new()).unwrap();
        has_all_of(&new, &machine);
    }
}

#[test]
fn what_was_pruned_while_it_is_read_is_an_error_and_no_other_content() {
    let pages: Vec<u64> = (0..80).collect();
    let (world, mut machine) = World::with_pages(&[(65536, &pages), (65536, &pages[1..])]);
    let expected = whole(&machine.archive, 1).unwrap().1;
    let mut follower = world.following();
    let reader = follower.archive().read(1).unwrap();
    let mut half = vec![0; 40 * 65536];
    reader.read_at(0, &mut half).unwrap();
    machine.retire(1);
    machine.retire(2);
    write(&mut machine, 65536, &[500, 501]);
    world.push(&mut machine);
    compact(&machine);
    world.push(&mut machine);
    world.prune();
    let (mut right, mut lost) = (0, 0);
    for nth in 0..80 {
        let mut page = vec![0; 65536];
        match reader.read_page(nth + 1, &mut page) {
            Ok(()) => {
                let at = usize::try_from(nth).unwrap() * 65536;
                assert!(page == expected[at..at + 65536], "page {nth}");
                right += 1;
            }
            Err(error) => {
                assert!(error.is_loss(), "{error}");
                lost += 1;
            }
        }
    }
    assert!(right >= 40 && lost > 0, "{right} were read before, {lost} are lost");
    // Who has not heard of it yet is refused what is not there any more, and goes on.
    assert!(whole(follower.archive(), 2).unwrap_err().is_loss());
    follower.follow(&BTreeSet::new()).unwrap();
    has_all_of(&follower, &machine);
}

#[test]
fn a_file_that_comes_again_under_another_key_is_read_from_there() {
    let pages: Vec<u64> = (0..40).collect();
    let (world, machine) = World::with_pages(&[(65536, &pages), (65536, &pages[1..])]);
    let mut follower = world.following();
    let first = world.newest();
    // It is named no more, is stored again in the next epoch and named again, and what was stored first is deleted.
    let mut without = Manifest { number: 3, previous: Some(hash_of(&world)), ..first.clone() };
    without.files.remove(0);
    world.create(&without);
    let mut again = Manifest { number: 4, previous: Some(hash_of(&world)), epoch: 2, ..first.clone() };
    again.files[0].epoch = 2;
    let object = world.bucket.bytes(&first.files[0].key(&store())).unwrap();
    world.put(&again.files[0].key(&store()), object);
    world.bucket.damage(&first.files[0].key(&store()), |_| None);
    world.create(&again);
    assert!(follow(&mut follower).unwrap());
    assert_eq!(follower.manifest().unwrap().number, 4);
    has_all_of(&follower, &machine);
}

/// The hash of the newest manifest, as the next one has it.
fn hash_of(world: &World) -> String {
    let manifest = world.bucket.bytes(&world.newest().key()).unwrap();
    String::from_utf8(manifest).unwrap().lines().last().unwrap().to_owned()
}

#[test]
fn what_the_publisher_cannot_read_for_now_is_read_from_the_bucket() {
    let unread = || {
        let (world, mut machine) = World::with(3);
        let (follower, before, key) = (world.following(), machine.versions.clone(), world.files().remove(2));
        machine.suffer(Accident::Damaged);
        assert!(!machine.versions.contains_key(&3));
        world.publish(&mut machine);
        let all: BTreeMap<u64, u64> = before.into_iter().chain(machine.versions.clone()).collect();
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        (world, machine, follower, all, key)
    };
    let (world, mut machine, mut follower, mut all, _) = unread();
    assert!(follow(&mut follower).unwrap());
    assert_eq!(contents(follower.archive()), all);
    assert_eq!(contents(world.following().archive()), all);
    world.publish(&mut machine);
    all.extend(machine.versions);
    assert!(follow(&mut follower).unwrap());
    assert_eq!(contents(follower.archive()), all);
    // What is away at that moment is not passed over.
    for fault in [Fault::Refused, Fault::Lost] {
        let (world, _, _, all, _) = unread();
        let mut follower = world.follower();
        // The newest one comes, the other three do not with it, and the third neither when it is asked for by itself.
        world.bucket.next("read part", &[vec![Fault::Fine], vec![fault; 4]].concat());
        assert!(is_away(follow(&mut follower).unwrap_err()));
        assert!(follower.manifest().is_none());
        assert!(follow(&mut follower).unwrap());
        assert_eq!(contents(follower.archive()), all);
    }
    // If the bucket has lost it too, it is lost, and not given up.
    for (what, how) in harms().into_iter().filter(|(what, _)| is_needed_to_open(what)) {
        let (world, _, mut follower, all, key) = unread();
        world.bucket.damage(&key, how);
        let mut new = world.follower();
        for follower in [&mut follower, &mut new] {
            assert!(follow(follower).unwrap(), "{what}");
            let archive = follower.archive();
            assert_eq!(archive.given_up(&[1, 2, 3, 4, 5]), [5], "{what}");
            let found = contents(archive);
            assert!(found.iter().all(|(number, content)| all.get(number) == Some(content)), "{what}");
            assert!([1, 2, 4].iter().all(|number| found.contains_key(number)), "{what}");
        }
        assert!(!new.archive().contains(3), "{what}");
    }
}

// Manifests.

#[test]
fn a_manifest_that_cannot_be_read_is_an_error_and_it_stays_where_it_is() {
    let newer = |number: u64| {
        let json = format!("{{\"format\":2,\"number\":{number},\"what\":\"is new\"}}");
        format!("{json}\n{}\n", blake3::hash(json.as_bytes())).into_bytes()
    };
    let whole_of = |world: &World| world.bucket.bytes(&world.newest().key()).unwrap();
    for (what, is_format) in [("a newer format", true), ("a byte is changed", false), ("it is empty", false)]
    {
        for ahead in 0..2 {
            let (world, mut machine) = World::with(3);
            let mut follower = world.following();
            (0..ahead).for_each(|_| world.publish(&mut machine));
            let readable = machine.versions.clone();
            world.publish(&mut machine);
            let (key, right) = (world.newest().key(), whole_of(&world));
            world.bucket.damage(&key, |mut bytes| {
                bytes[7] ^= 2;
                Some(if is_format {
                    newer(4 + ahead)
                } else if what == "it is empty" {
                    Vec::new()
                } else {
                    bytes
                })
            });
            // What comes before it is gone on to.
            for _ in 0..ahead {
                assert!(follower.follow(&BTreeSet::new()).unwrap(), "{what}");
            }
            for _ in 0..2 {
                let failed = follower.follow(&BTreeSet::new()).unwrap_err();
                match is_format {
                    true => assert_is!(&failed, Error::Format { key: at, found: 2, .. } if *at == key),
                    false => assert_is!(&failed, Error::Damaged { key: at, .. } if *at == key),
                }
                let code = if is_format { Code::NotReadable } else { Code::Damaged };
                assert_eq!(Problem::from(failed).code, code, "{what}");
                assert_eq!(follower.manifest().unwrap().number, 3 + ahead, "{what}");
                assert_eq!(contents(follower.archive()), readable, "{what}");
                follower.look_back().unwrap();
            }
            assert!(world.follower().follow(&BTreeSet::new()).is_err());
            world.bucket.damage(&key, |_| Some(right));
            assert!(follower.follow(&BTreeSet::new()).unwrap());
            has_all_of(&follower, &machine);
        }
    }
}

#[test]
fn a_damaged_manifest_that_was_superseded_is_passed_over() {
    for later in 1..12 {
        let (world, mut machine) = World::with(3);
        let mut follower = world.following();
        world.publish(&mut machine);
        world.bucket.damage(&world.newest().key(), |bytes| Some(bytes[1..].to_vec()));
        machine.kill();
        for _ in 0..later {
            machine.publish(500);
            world.push(&mut machine);
        }
        while follower.manifest() != Some(&world.newest()) {
            assert!(follower.follow(&BTreeSet::new()).unwrap(), "{later}");
        }
        has_all_of(&follower, &machine);
        assert!(!follower.follow(&BTreeSet::new()).unwrap(), "{later}");
    }
}

#[test]
fn a_file_of_a_newer_format_is_said_to_be_and_it_stays_where_it_is() {
    let (world, mut machine) = World::with(2);
    let mut follower = world.following();
    let before = machine.versions.clone();
    world.publish(&mut machine);
    let key = world.files().pop().unwrap();
    let object = world.bucket.bytes(&key).unwrap();
    world.bucket.damage(&key, |mut bytes| {
        let end = bytes.len() - 12;
        (bytes[8], bytes[end]) = (7, 7);
        Some(bytes)
    });
    for _ in 0..2 {
        let failed = follower.follow(&BTreeSet::new()).unwrap_err();
        assert_is!(&failed, Error::Archive(ArchiveError::Format { found: 7, .. }));
        assert_eq!(Problem::from(failed).code, Code::NotReadable);
        assert_eq!((follower.manifest().unwrap().number, contents(follower.archive())), (2, before.clone()));
        assert!(world.follower().follow(&BTreeSet::new()).is_err());
    }
    world.bucket.damage(&key, |_| Some(object));
}

#[test]
fn whatever_lengths_a_manifest_says_nobodys_memory_is_filled_and_it_stays_where_it_is() {
    for bytes in [0, 1, 183, 184, 1 << 40, (1 << 56) - 1] {
        for nth in 0..3 {
            let (world, machine) = World::with(3);
            let mut follower = world.following();
            let mut forged = Manifest { number: 4, previous: Some(hash_of(&world)), ..world.newest() };
            forged.files[nth].bytes = bytes;
            world.create(&forged);
            // Of what is known already nothing is asked.
            if let Err(error) = follower.follow(&BTreeSet::new()) {
                assert_is!(error, Error::Archive(error) if error.is_loss());
                has_all_of(&follower, &machine);
            }
            let mut new = world.follower();
            match new.follow(&BTreeSet::new()) {
                Ok(_) => assert!(nth < 2 && !lost_of(&new, &machine).is_empty(), "{bytes}"),
                Err(error) => assert_is!(error, Error::Archive(error) if nth == 2 && error.is_loss()),
            }
        }
    }
}

#[test]
fn a_bucket_that_is_another_one_than_before_is_noticed_by_looking_back_and_not_gone_on_from() {
    type Change = fn(&World, &BTreeMap<String, Vec<u8>>);
    let changes: [(&str, Change, u64); 5] = [
        ("nothing has changed", |_, _| {}, 0),
        ("it was emptied", |world, _| world.put_back(&BTreeMap::new()), 5),
        ("it was put back from a backup", |world, backup| world.put_back(backup), 5),
        (
            "it was put back from a backup, and another machine went on",
            |world, backup| {
                world.put_back(backup);
                let mut other = restored(world, "other");
                other.take_over(&world.repository).unwrap();
                (0..5).for_each(|_| world.publish(&mut other));
            },
            5,
        ),
        (
            "it was made anew",
            |world, _| {
                world.put_back(&BTreeMap::new());
                let (repository, _) = Repository::init(world.bucket.clone(), None).unwrap();
                let mut other = machine("other");
                for content in 0..9 {
                    other.publish(900 + content);
                    other.push(&repository).unwrap();
                }
            },
            5,
        ),
    ];
    for (what, change, missing) in changes {
        let (world, mut machine) = World::with(3);
        let backup = world.objects();
        (0..2).for_each(|_| world.publish(&mut machine));
        let mut follower = world.following();
        follower.look_back().unwrap();
        change(&world, &backup);
        world.forget();
        for _ in 0..2 {
            match follower.look_back() {
                Ok(()) => assert_eq!(missing, 0, "{what}"),
                Err(Error::Missing { key, .. }) => {
                    assert!(key.ends_with(&format!("-{missing}.json")), "{what}: {key}")
                }
                Err(error) => panic!("{what}: {error}"),
            }
            // It goes on to nothing that is of another history.
            match follower.follow(&BTreeSet::new()) {
                Ok(is_new) => assert!(!is_new, "{what}"),
                Err(error) => assert_is!(error, Error::Missing { .. }),
            }
            assert_eq!(follower.manifest().unwrap().number, 5);
            assert_eq!(contents(follower.archive()), machine.versions, "{what}");
        }
    }
}

#[test]
fn who_is_behind_a_bucket_that_was_put_back_and_published_to_again_learns_of_the_gap() {
    for known in 1..6 {
        let (world, mut machine) = (World::new(), machine("first"));
        let (mut follower, mut backup) = (world.follower(), BTreeMap::new());
        for number in 1..6 {
            world.publish(&mut machine);
            if number == known {
                follow(&mut follower).unwrap();
            }
            if number == 2 {
                backup = world.objects();
            }
        }
        world.put_back(&backup);
        // It creates its newest manifest again, the fifth, and the next; the two before are nowhere.
        machine.kill();
        machine.publish(7);
        machine.push(&world.repository).unwrap();
        let misses = |follower: &Follower, missing: u64| {
            let is_it = |key: &str| key.ends_with(&format!("-{missing}.json"));
            assert_is!(follower.look_back(), Err(Error::Missing { key, .. }) if is_it(key));
        };
        match known {
            1 | 2 => {
                assert_eq!(follow(&mut follower).unwrap(), known == 1);
                assert_eq!(follower.manifest().unwrap().number, 2);
                assert!(!follow(&mut follower).unwrap());
                misses(&follower, 3);
            }
            3 => {
                assert!(!follow(&mut follower).unwrap());
                misses(&follower, 3);
            }
            // What comes next follows upon these.
            _ => {
                if known == 4 {
                    misses(&follower, 4);
                }
                assert!(follow(&mut follower).unwrap());
                assert_eq!(follower.manifest().unwrap().number, 6);
                has_all_of(&follower, &machine);
                follower.look_back().unwrap();
            }
        }
        let mut new = world.follower();
        follow(&mut new).unwrap();
        has_all_of(&new, &machine);
    }
}

#[test]
fn looking_back_fails_if_the_bucket_does_not_answer() {
    let (world, _) = World::with(2);
    let follower = world.following();
    for fault in [Fault::Refused, Fault::Lost] {
        world.bucket.next("read", &[fault]);
        assert!(is_away(follower.look_back().unwrap_err()));
        follower.look_back().unwrap();
    }
    world.follower().look_back().unwrap();
}

// Nothing is written.

#[test]
fn a_followed_archive_cannot_be_written_and_nothing_in_the_bucket_changes() {
    let (world, mut machine) = World::with(12);
    // The twelfth is nowhere any more, and what follows is worth merging.
    machine.suffer(Accident::Damaged);
    (0..9).for_each(|_| world.publish(&mut machine));
    world.bucket.damage(&world.files()[11], |_| None);
    let follower = world.following();
    let archive = follower.archive();
    let before = (world.objects(), archive.live());
    let begun = || {
        let mut writer = archive.begin(100, PageSize::new(512).unwrap(), 1)?;
        writer.page(1, &[9; 512])?;
        let (cut_at, note) = ("2026-11-19T17:00:00Z".parse().unwrap(), serde_json::Value::Null);
        writer.finish(Cut { store: store(), cut_at, wal: true, note, even_if_unchanged: true })
    };
    is_refused("a version", begun());
    is_refused("giving up", archive.retire(5));
    is_refused("giving up the newest", archive.retire(archive.newest().unwrap()));
    assert!(archive.is_worth_compacting());
    is_refused("merging", archive.compact(&mut |_| ControlFlow::Continue(())));
    is_refused("putting back", archive.put_back(archive.describe(5).unwrap(), true, |_| Ok(())));
    is_refused("forgetting", archive.forget_unread());
    // What is damaged in the bucket is not put right from here either.
    let key = world.files().remove(0);
    world.bucket.damage(&key, harms()[1].1);
    let follower = world.following();
    let report = follower.archive().verify(None, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let wanted: Vec<_> = report.damage.wanted().collect();
    assert_eq!(wanted, [asat_archive::check(&[7; 512])]);
    let contents: Contents = wanted.into_iter().map(|check| (check, vec![7; 512])).collect();
    let repaired = follower.archive().repair(&report.damage, &contents, &mut |_| ControlFlow::Continue(()));
    is_refused("repairing", repaired);
    assert!(world.bucket.asked().iter().all(|asked| ["list", "read", "read part"].contains(asked)));
    world.bucket.damage(&key, |_| before.0.get(&key).cloned());
    assert_eq!((world.objects(), archive.live()), before);
}

/// Fails unless something was refused because this asat only reads the archive.
fn is_refused<T: Debug>(what: &str, result: Result<T, impl Into<Problem>>) {
    let problem: Problem = match result {
        Ok(done) => panic!("{what} was done: {done:?}"),
        Err(error) => error.into(),
    };
    assert_eq!(problem.code, Code::ReadOnly, "{what}: {problem}");
    assert!(problem.detail.contains("model://bucket/s/report/f"), "{problem}");
}

#[test]
fn a_follower_asks_for_nothing_but_to_list_and_to_read() {
    let (world, mut machine) = World::with(5);
    let mut follower = world.follower();
    let mut asked = BTreeSet::new();
    for round in 0..12 {
        follower.follow(&BTreeSet::new()).unwrap();
        follower.look_back().unwrap();
        has_all_of(&follower, &machine);
        follower.archive().expect_descriptions(1);
        follower.archive().verify(None, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(follower.archive().files().unwrap().lost, [0; 0]);
        follower.archive().weigh().unwrap();
        asked.extend(world.bucket.asked());
        world.publish(&mut machine);
        if round % 3 == 0 {
            let oldest = *machine.versions.keys().next().unwrap();
            machine.retire(oldest);
            compact(&machine);
            world.push(&mut machine);
        }
        if round % 5 == 0 {
            world.prune();
        }
    }
    assert_eq!(asked, ["list", "read", "read part"].into());
}

// Services.

/// What is published to a service is followed with it.
fn is_followed(publishing: Service, following: Service) {
    let (repository, _) = Repository::init(Arc::new(publishing), None).unwrap();
    let mut machine = machine("first");
    let folder = tempfile::tempdir().unwrap();
    let following = Arc::new(following);
    let cache = Cache::new(following.clone(), folder.path(), 0).unwrap();
    let repository_there = Repository::open(following.clone()).unwrap();
    let mut follower = Follower::new(&repository_there, &store(), &cache);
    assert!(!follower.follow(&BTreeSet::new()).unwrap());
    for round in 0..12 {
        if round == 7 {
            let pages: Vec<u64> = (0..40).collect();
            write(&mut machine, 65536, &pages);
        } else {
            machine.publish(round);
        }
        if round % 4 == 3 {
            machine.retire(u64::try_from(machine.versions.len()).unwrap() / 2 + 1);
            compact(&machine);
        }
        machine.push(&repository).unwrap();
        assert!(follower.follow(&BTreeSet::new()).unwrap());
        has_all_of(&follower, &machine);
        let before = following.requests().reads.load(Ordering::Relaxed);
        assert!(!follower.follow(&BTreeSet::new()).unwrap());
        assert_eq!(following.requests().reads.load(Ordering::Relaxed), before + 1);
        follower.look_back().unwrap();
    }
    let mut new = Follower::new(&repository_there, &store(), &cache);
    new.follow(&BTreeSet::new()).unwrap();
    has_all_of(&new, &machine);
}

#[test]
fn a_folder_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Service::open(&format!("file://{}", folder.path().display()), Stop::new()).unwrap();
    is_followed(open(), open());
}

#[test]
fn a_server_over_files_is_followed() {
    let server = servers::versitygw();
    server.bucket("history");
    let open = || contract::service(&server, "a/prefix");
    is_followed(open(), open());
}

#[test]
fn a_server_in_memory_is_followed() {
    let server = servers::moto();
    server.bucket("history");
    let open = || contract::service(&server, "");
    is_followed(open(), open());
}

#[test]
fn while_a_folder_is_away_nothing_of_it_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let open = || Arc::new(Service::open(&format!("file://{}", at.display()), Stop::new()).unwrap());
    let (repository, _) = Repository::init(open(), None).unwrap();
    let mut machine = machine("first");
    let pages: Vec<u64> = (0..40).collect();
    write(&mut machine, 65536, &pages);
    machine.push(&repository).unwrap();
    let cache = Cache::new(open(), &folder.path().join("cache"), 0).unwrap();
    let mut follower = Follower::new(&repository, &store(), &cache);
    follower.follow(&BTreeSet::new()).unwrap();
    let away = folder.path().join("away");
    fs::rename(&at, &away).unwrap();
    for _ in 0..2 {
        let error = whole(follower.archive(), 1).unwrap_err();
        assert!(!error.is_loss(), "{error}");
        assert_eq!(Problem::from(error).code, Code::RemoteUnavailable);
    }
    fs::rename(&away, &at).unwrap();
    has_all_of(&follower, &machine);
}

#[test]
fn a_server_that_is_stopped_is_away_and_what_is_here_is_read_on() {
    let mut server = servers::versitygw();
    server.bucket("history");
    let open = || Arc::new(contract::service(&server, "prefix"));
    let (repository, _) = Repository::init(open(), None).unwrap();
    let mut machine = machine("first");
    let pages: Vec<u64> = (0..40).collect();
    write(&mut machine, 65536, &pages);
    machine.publish(7);
    machine.push(&repository).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(open(), folder.path(), 0).unwrap();
    let mut follower = Follower::new(&repository, &store(), &cache);
    follower.follow(&BTreeSet::new()).unwrap();
    server.stop();
    assert!(is_away(follower.follow(&BTreeSet::new()).unwrap_err()));
    assert!(is_away(follower.look_back().unwrap_err()));
    assert_eq!(follower.archive().live(), [1, 2]);
    whole(follower.archive(), 2).unwrap();
    let error = whole(follower.archive(), 1).unwrap_err();
    assert!(!error.is_loss(), "{error}");
    assert_eq!(Problem::from(error).code, Code::RemoteUnavailable);
    server.start_again();
    assert!(!follower.follow(&BTreeSet::new()).unwrap());
    has_all_of(&follower, &machine);
}

/// What a server that answers this says of the first 100 bytes of an object.
fn part_from(answer: &'static str) -> Result<Option<Vec<u8>>, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    // It ends with the test.
    thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let (mut reader, mut head) = (BufReader::new(&stream), String::new());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
            // Who hangs up early is no concern of this.
            let _ = (&stream).write_all(answer.replace('|', "\r\n").as_bytes());
        }
    });
    let options = [
        ("endpoint", endpoint.as_str()),
        ("access_key_id", "x"),
        ("secret_access_key", "x"),
        ("region", "us-east-1"),
        ("allow_http", "true"),
    ];
    let service = Service::open_with("s3://history", Stop::new(), &options).unwrap();
    service.read_parts(&[Part { key: "report/f/1".to_owned(), range: 0..100 }]).remove(0)
}

#[test]
fn a_server_that_answers_nonsense_to_who_asks_for_a_part_is_not_believed() {
    // The lines of a head are apart by bars; each connection ends after its answer.
    let nonsense = [
        ("all of it", "HTTP/1.1 200 OK|connection: close|content-length: 4|||page"),
        ("a page", "HTTP/1.1 200 OK|connection: close|content-type: text/html|content-length: 4||page"),
        (
            "another part",
            "HTTP/1.1 206 Partial Content|connection: close|content-range: bytes 5-9/200|content-length: 4||page",
        ),
        ("no place", "HTTP/1.1 206 Partial Content|connection: close|content-length: 4||page"),
        (
            "half a body",
            "HTTP/1.1 206 Partial Content|connection: close|content-range: bytes 0-99/200|content-length: 100||page",
        ),
        ("no answer", ""),
        ("half a head", "HTTP/1.1 206 Partial Con"),
        ("500", "HTTP/1.1 500 Internal Server Error|connection: close|content-length: 0||"),
        ("416", "HTTP/1.1 416 Range Not Satisfiable|connection: close|content-length: 0||"),
    ];
    thread::scope(|scope| {
        for (what, answer) in nonsense {
            scope.spawn(move || assert_is!((what, part_from(answer)), (_, Err(Error::Service { .. }))));
        }
    });
    let forbidden = "HTTP/1.1 403 Forbidden|connection: close|content-length: 0||";
    assert_is!(part_from(forbidden), Err(Error::Forbidden { .. }));
    let gone = "HTTP/1.1 404 Not Found|connection: close|content-length: 0||";
    assert_is!(part_from(gone), Ok(None));
    // What is said to be all of the part, and is not, is shorter than that.
    let short = "HTTP/1.1 206 Partial Content|connection: close|content-range: bytes 0-99/200|content-length: 4|etag: x|last-modified: Thu, 19 Nov 2026 17:00:00 GMT||page";
    assert_is!(part_from(short), Ok(Some(bytes)) if bytes == b"page");
}

#[test]
fn who_is_stopped_while_it_waits_is_told_so_and_nothing_is_lost() {
    let server = servers::versitygw();
    server.bucket("history");
    let (repository, _) = Repository::init(Arc::new(contract::service(&server, "prefix")), None).unwrap();
    let mut machine = machine("first");
    machine.publish(7);
    machine.push(&repository).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("x");
    fs::create_dir(&at).unwrap();
    let stop = Stop::new();
    let service = Service::open(&format!("file://{}", at.display()), stop.clone()).unwrap();
    let cache = Cache::new(Arc::new(service), folder.path(), 0).unwrap();
    stop.stop();
    let mut follower = Follower::new(&repository, &store(), &cache);
    assert_is!(follower.follow(&BTreeSet::new()), Err(Error::Archive(ArchiveError::Stopped)));
    assert!(follower.manifest().is_none());
}
