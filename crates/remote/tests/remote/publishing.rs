//! What publishing, restoring, pruning and verifying do, and what comes of each thing that goes wrong: one test a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use asat_remote::{
    Bucket, Depth, Error, History, Keep, Manifest, Pruned, Repository, Restored, Service, Stop, prune,
    restore, verify,
};
use tempfile::TempDir;

use crate::machine::{Accident, Machine, archive_at, contents, store};
use crate::model::{Dice, Fault, Model};
use crate::servers::{self, Server};

/// Says what came instead, if it is not what was expected.
macro_rules! assert_is {
    ($found:expr, $expected:pat $(if $guard:expr)?) => {{
        let found = $found;
        assert!(matches!(&found, $expected $(if $guard)?), "{found:?}");
    }};
}

/// A repository in a bucket that does nothing by chance.
struct World {
    bucket: Arc<Model>,
    repository: Repository,
}

impl World {
    fn new() -> Self {
        let bucket = Arc::new(Model::new(Arc::new(Dice::new(0))));
        let (repository, _) = Repository::init(bucket.clone(), None).unwrap();
        bucket.asked();
        Self { bucket, repository }
    }

    /// A machine that has pushed so many versions, each by itself.
    fn with(versions: u64) -> (Self, Machine) {
        let (world, mut machine) = (Self::new(), machine("first"));
        for version in 1..=versions {
            machine.publish(100 + version);
            machine.push(&world.repository).unwrap();
        }
        world.bucket.asked();
        (world, machine)
    }

    fn history(&self) -> History {
        self.repository.history(&store())
    }

    fn newest(&self) -> Manifest {
        self.history().newest().unwrap().unwrap()
    }

    /// Everything in the bucket.
    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let keys = self.bucket.keys().into_keys();
        keys.map(|key| (key.clone(), self.bucket.bytes(&key).unwrap())).collect()
    }

    /// Restores into a folder of its own, which is the archive's.
    fn restore(&self, number: Option<u64>) -> Result<(TempDir, Restored), Error> {
        let folder = Machine::folder();
        let restored = restore(&self.history(), number, &Machine::archive_folder(&folder), &mut |_, _| {})?;
        Ok((folder, restored))
    }

    /// What is restored of a manifest.
    fn contents(&self, number: Option<u64>) -> BTreeMap<u64, u64> {
        let (folder, restored) = self.restore(number).unwrap();
        let contents = contents_of(&Machine::archive_folder(&folder));
        assert_eq!(restored.versions, contents.keys().copied().collect::<Vec<_>>());
        contents
    }

    /// A machine that has nothing but what was restored.
    fn restored(&self, name: &str) -> Machine {
        Machine::steady(name, self.restore(None).unwrap().0)
    }

    /// The key of the newest manifest, whatever it has.
    fn newest_key(&self) -> String {
        self.bucket.keys().into_keys().find(|key| key.starts_with("s/report/m/")).unwrap()
    }

    /// The keys of all files in the bucket.
    fn stored(&self) -> BTreeSet<String> {
        self.bucket.keys().into_keys().filter(|key| key.starts_with("s/report/f/")).collect()
    }

    /// The keys of the files that the newest manifest names, oldest first.
    fn files(&self) -> Vec<String> {
        self.newest().files.iter().map(|file| file.key(&store())).collect()
    }
}

fn machine(name: &str) -> Machine {
    Machine::steady(name, Machine::folder())
}

fn contents_of(archive: &Path) -> BTreeMap<u64, u64> {
    contents(&archive_at(archive).unwrap())
}

fn compact(machine: &Machine) {
    machine.archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
}

/// What becomes of a file or an object. Nothing may stay of it.
type Harm = fn(Vec<u8>) -> Option<Vec<u8>>;

/// The ways in which one comes to harm, each with its name.
fn harms() -> [(&'static str, Harm); 9] {
    fn flip(mut bytes: Vec<u8>, at: impl Fn(usize) -> usize) -> Option<Vec<u8>> {
        let at = at(bytes.len());
        bytes[at] ^= 4;
        Some(bytes)
    }
    [
        ("its header is changed", |bytes| flip(bytes, |_| 3)),
        ("a frame is changed", |bytes| flip(bytes, |_| 12)),
        ("its manifest is changed", |bytes| flip(bytes, |len| len - 180)),
        ("its footer is changed", |bytes| flip(bytes, |len| len - 100)),
        ("its last byte is changed", |bytes| flip(bytes, |len| len - 1)),
        ("something follows", |bytes| Some([&bytes[..], b"x"].concat())),
        ("its end is missing", |bytes| Some(bytes[..bytes.len() / 2].to_vec())),
        ("it is empty", |_| Some(Vec::new())),
        ("it is gone", |_| None),
    ]
}

/// Harms a file in its folder.
fn harm(path: &Path, how: Harm) {
    match how(fs::read(path).unwrap()) {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::remove_file(path).unwrap(),
    }
}

// Requests.

#[test]
fn a_publication_takes_a_look_a_storing_and_a_creation_and_nothing_new_takes_nothing() {
    type Step = (&'static str, fn(&mut Machine), &'static [&'static str]);
    let steps: [Step; 11] = [
        ("nothing was ever published", |_| {}, &[]),
        // A publisher without a note looks for others first.
        ("the first version", |machine| machine.publish(1), &["list", "read", "store", "create"]),
        ("nothing new", |_| {}, &[]),
        ("a version", |machine| machine.publish(2), &["read", "store", "create"]),
        ("a version is given up", |machine| machine.retire(1), &["read", "store", "create"]),
        (
            "two versions",
            |machine| (3..5).for_each(|n| machine.publish(n)),
            &["read", "store", "store", "create"],
        ),
        (
            "eight versions",
            |machine| (5..13).for_each(|n| machine.publish(n)),
            &["read", "store", "store", "store", "store", "store", "store", "store", "store", "create"],
        ),
        ("segments are merged", |machine| compact(machine), &["read", "store", "create"]),
        ("nothing new after a restart", Machine::kill, &["read", "read", "look at"]),
        ("nothing new again", |_| {}, &[]),
        (
            "a version after a restart",
            |machine| {
                machine.kill();
                machine.publish(13);
            },
            &["read", "read", "look at", "store", "create"],
        ),
    ];
    let (world, mut machine) = (World::new(), machine("first"));
    for (what, act, asked) in steps {
        act(&mut machine);
        assert_eq!(machine.push(&world.repository).unwrap(), machine.versions, "{what}");
        assert_eq!(world.bucket.asked(), asked, "{what}");
    }
}

/// A copy of a machine has its note, with the manifest that was sent and had not arrived.
#[test]
fn a_copy_does_not_go_on_from_what_the_machine_has_sent() {
    let (world, mut machine) = (World::new(), machine("first"));
    machine.publish(1);
    world.bucket.next("create", &[Fault::Late, Fault::Refused, Fault::Refused]);
    assert!(machine.push(&world.repository).is_err());
    world.bucket.calm();
    let mut copy = machine.copy("copy");
    copy.publish(2);
    // It arrives between two looks.
    world.bucket.next("list", &[Fault::Overtaken]);
    let pushed = copy.push(&world.repository);
    assert_is!(pushed, Err(Error::Fenced { by, .. }) if by.host == "first");
    assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
}

#[test]
fn after_a_restart_the_newest_manifest_its_successor_and_its_files_are_looked_for() {
    for versions in 1..5 {
        let (world, mut machine) = World::with(versions);
        let looks = vec!["look at"; usize::try_from(versions).unwrap()];
        machine.kill();
        machine.push(&world.repository).unwrap();
        assert_eq!(world.bucket.asked(), [vec!["read"; 2], looks].concat());
    }
}

// Restoring.

/// A history with versions that were given up, and segments that were merged; and what each of its manifests has.
fn history_with_merges() -> (World, Machine, BTreeMap<u64, BTreeMap<u64, u64>>) {
    let (world, mut machine) = (World::new(), machine("first"));
    let mut manifests = BTreeMap::new();
    for version in 1..=10 {
        machine.publish(100 + version);
        if version % 3 == 0 {
            machine.retire(version - 1);
        }
        if version % 5 == 0 {
            compact(&machine);
        }
        let stored = machine.push(&world.repository).unwrap();
        manifests.insert(machine.head(), stored);
    }
    (world, machine, manifests)
}

#[test]
fn what_was_pushed_is_restored_as_of_every_manifest() {
    let (world, machine, manifests) = history_with_merges();
    assert_eq!(world.contents(None), machine.versions);
    assert_eq!(manifests.keys().copied().collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    for (number, versions) in manifests {
        let (manifest, contents) = (world.history().manifest(number).unwrap(), world.contents(Some(number)));
        assert_eq!(contents, versions, "manifest {number}");
        assert_eq!(manifest.versions, u64::try_from(versions.len()).unwrap());
        assert_eq!(manifest.newest, versions.into_keys().last());
    }
    let key = "s/report/m/999999999988-11.json";
    assert_is!(world.restore(Some(11)), Err(Error::Missing { key: missing, .. }) if missing == key);
}

#[test]
fn a_restored_archive_has_the_same_files_byte_for_byte_and_says_how_far_it_is() {
    let (world, machine, _) = history_with_merges();
    let (folder, mut told) = (Machine::folder(), Vec::new());
    let archive = Machine::archive_folder(&folder);
    let restored =
        restore(&world.history(), None, &archive, &mut |done, all| told.push((done, all))).unwrap();
    let mut names: BTreeSet<PathBuf> =
        fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(names.remove(&archive.join(asat_archive::REMOTE_NOTE)), "it is noted which manifest it is");
    assert_eq!(names.len(), restored.manifest.files.len());
    for (name, file) in names.iter().zip(&restored.manifest.files) {
        assert_eq!(fs::read(name).unwrap(), fs::read(machine.file(file.file)).unwrap());
    }
    let all = restored.manifest.bytes();
    assert!(told.is_sorted() && told.iter().all(|(_, of)| *of == all), "{told:?}");
    assert_eq!((told.last(), restored.found), (Some(&(all, all)), 0));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_restore_that_was_interrupted_goes_on_with_what_it_has() {
    let (world, machine) = World::with(5);
    for fault in [Fault::Refused, Fault::Lost] {
        for fetched in 0..5 {
            let folder = Machine::folder();
            let archive = Machine::archive_folder(&folder);
            let attempt = || restore(&world.history(), Some(5), &archive, &mut |_, _| {});
            // The manifest is read first.
            world.bucket.next("read", &[vec![Fault::Fine; 1 + fetched], vec![fault]].concat());
            assert_is!(attempt(), Err(Error::Service { .. }));
            assert!(!archive.exists());
            assert_eq!(attempt().unwrap().found, fetched, "{fault:?}");
            assert_eq!(contents_of(&archive), machine.versions);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        }
    }
}

#[test]
fn what_an_interrupted_restore_has_is_looked_at_before_it_is_used() {
    let (world, machine) = World::with(3);
    for (what, how) in harms() {
        let folder = Machine::folder();
        let archive = Machine::archive_folder(&folder);
        let attempt = || restore(&world.history(), Some(3), &archive, &mut |_, _| {});
        world.bucket.next("read", &[Fault::Fine, Fault::Fine, Fault::Fine, Fault::Refused]);
        assert_is!(attempt(), Err(Error::Service { .. }));
        harm(&folder.path().join("archive.unfinished/000000000001.segment"), how);
        assert_eq!(attempt().unwrap().found, 1, "{what}");
        assert_eq!(contents_of(&archive), machine.versions, "{what}");
    }
}

#[test]
fn an_older_manifest_is_restored_as_of_then_though_a_restore_of_a_newer_one_was_interrupted() {
    let (world, mut machine) = World::with(2);
    let versions = machine.versions.clone();
    (3..6).for_each(|content| machine.publish(content));
    machine.push(&world.repository).unwrap();
    let folder = Machine::folder();
    let archive = Machine::archive_folder(&folder);
    let attempt = |number| restore(&world.history(), Some(number), &archive, &mut |_, _| {});
    // The last file of five does not come.
    world.bucket.next("read", &[vec![Fault::Fine; 5], vec![Fault::Refused]].concat());
    assert_is!(attempt(3), Err(Error::Service { .. }));
    let restored = attempt(2).unwrap();
    assert_eq!(restored.versions, versions.keys().copied().collect::<Vec<_>>());
    assert_eq!(contents_of(&archive), versions);
}

#[test]
fn what_is_in_the_place_of_the_target_is_not_touched() {
    let (world, _) = World::with(2);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir(at("full")).unwrap();
    fs::write(at("full/file"), "mine").unwrap();
    fs::write(at("file"), "mine").unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    for name in ["empty", "full", "file", "link"] {
        let refused = restore(&world.history(), None, &at(name), &mut |_, _| {});
        assert_is!(refused, Err(Error::Local { path, .. }) if *path == at(name));
    }
    let names: BTreeSet<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["empty", "file", "full", "link"].map(Into::into).into());
    assert_eq!(fs::read_dir(at("empty")).unwrap().count(), 0);
    assert_eq!([fs::read(at("full/file")).unwrap(), fs::read(at("file")).unwrap()], [b"mine", b"mine"]);
}

#[test]
fn a_target_may_be_spelled_with_a_slash_at_its_end() {
    let (world, machine) = World::with(2);
    let folder = Machine::folder();
    let archive = Machine::archive_folder(&folder);
    restore(&world.history(), None, &archive.join(""), &mut |_, _| {}).unwrap();
    assert_eq!(contents_of(&archive), machine.versions);
}

#[test]
fn a_target_may_be_a_name_in_the_current_folder() {
    let (world, machine) = World::with(2);
    // It is removed in the end, whatever comes of this.
    let folder = tempfile::tempdir_in(".").unwrap();
    fs::remove_dir(folder.path()).unwrap();
    let archive = Path::new(folder.path().file_name().unwrap());
    restore(&world.history(), None, archive, &mut |_, _| {}).unwrap();
    assert_eq!(contents_of(archive), machine.versions);
}

#[test]
fn a_file_that_the_bucket_lacks_or_has_damaged_is_named_and_nothing_is_restored() {
    let (world, machine) = World::with(3);
    let folder = Machine::folder();
    let archive = Machine::archive_folder(&folder);
    let attempt = || restore(&world.history(), None, &archive, &mut |_, _| {});
    for key in world.files() {
        for (what, how) in harms() {
            let whole = world.bucket.bytes(&key).unwrap();
            world.bucket.damage(&key, how);
            let found = attempt().unwrap_err();
            assert_is!(&found, Error::Damaged { key: named, .. } | Error::Missing { key: named, .. } if *named == key);
            assert_eq!(matches!(found, Error::Missing { .. }), what == "it is gone", "{found}");
            assert!(!archive.exists(), "{what}");
            world
                .bucket
                .store(&key, u64::try_from(whole.len()).unwrap(), &mut [Ok(whole)].into_iter())
                .unwrap();
        }
    }
    // It goes on once what was damaged was put right.
    attempt().unwrap();
    assert_eq!(contents_of(&archive), machine.versions);
}

#[test]
fn another_file_of_the_archive_in_the_place_of_one_is_damage() {
    let (world, _) = World::with(3);
    let files = world.files();
    let other = world.bucket.bytes(&files[1]);
    world.bucket.damage(&files[0], |_| other);
    assert_is!(world.restore(None), Err(Error::Damaged { key, .. }) if *key == files[0]);
}

// What is damaged here.

#[test]
fn a_version_whose_file_is_damaged_here_is_neither_stored_nor_said_to_be() {
    for (what, how) in harms() {
        let (world, mut machine) = World::with(1);
        machine.publish(2);
        let (path, before) = (machine.file(2), world.objects());
        let whole = fs::read(&path).unwrap();
        harm(&path, how);
        for _ in 0..2 {
            let pushed = machine.push(&world.repository);
            let pushed = pushed.expect_err(what);
            assert_is!(&pushed, Error::Unreadable { file: 2, .. } | Error::Archive(_));
            let named = pushed.to_string();
            assert!(named.contains("file 2 ") || named.contains(path.to_str().unwrap()), "{what}: {named}");
            assert_eq!(world.objects(), before, "{what}");
        }
        // Once the file was put right, it is stored.
        fs::write(&path, whole).unwrap();
        assert_eq!(machine.push(&world.repository).unwrap(), machine.versions, "{what}");
        assert_eq!(world.contents(None), machine.versions, "{what}");
    }
}

#[test]
fn a_first_version_whose_file_is_damaged_here_is_neither_stored_nor_said_to_be() {
    for (what, how) in harms() {
        let (world, mut machine) = (World::new(), machine("first"));
        machine.publish(1);
        let before = world.objects();
        harm(&machine.file(1), how);
        let pushed = machine.push(&world.repository).expect_err(what);
        assert_is!(pushed, Error::Unreadable { file: 1, .. } | Error::Archive(_));
        assert_eq!(world.objects(), before, "{what}");
    }
}

#[test]
fn of_several_new_versions_none_is_said_to_be_stored_if_the_file_of_one_is_damaged_here() {
    for (what, how) in harms() {
        for harmed in 2..5 {
            let (world, mut machine) = World::with(1);
            (2..5).for_each(|content| machine.publish(content));
            harm(&machine.file(harmed), how);
            let pushed = machine.push(&world.repository).expect_err(what);
            let is_named = matches!(&pushed, Error::Unreadable { file, .. } if *file == harmed);
            assert!(is_named || matches!(pushed, Error::Archive(_)), "{what}: {pushed}");
            assert_eq!(world.newest().number, 1, "{what}");
            let report = verify(&world.history(), Depth::Read).unwrap();
            assert_eq!(report.findings, [], "{what}");
        }
    }
}

#[test]
fn what_was_stored_before_something_failed_is_not_stored_again() {
    for (fault, versions) in [(Fault::Refused, 0), (Fault::Refused, 1)] {
        let (world, mut machine) = World::with(versions);
        (0..4).for_each(|content| machine.publish(content));
        world.bucket.next("store", &[Fault::Fine, Fault::Fine, fault]);
        assert_is!(machine.push(&world.repository), Err(Error::Service { .. }));
        world.bucket.asked();
        assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
        let stored = world.bucket.asked().iter().filter(|asked| **asked == "store").count();
        assert_eq!(stored, 2, "of four, two were there");
    }
}

#[test]
fn what_is_lost_here_and_in_the_bucket_is_not_said_to_be_stored() {
    let (world, mut machine) = World::with(2);
    world.bucket.damage(&world.files()[0], |_| None);
    fs::remove_file(machine.file(1)).unwrap();
    machine.kill();
    for _ in 0..2 {
        assert_is!(machine.push(&world.repository), pushed if !pushed.as_ref().is_ok_and(|stored| stored.contains_key(&1)));
        machine.publish(3);
    }
}

#[test]
fn a_file_that_is_in_the_bucket_may_come_to_harm_here_and_what_follows_is_stored_all_the_same() {
    for (what, how) in harms() {
        for is_killed in [false, true] {
            let (world, mut machine) = World::with(2);
            harm(&machine.file(1), how);
            if is_killed {
                machine.kill();
            }
            machine.publish(3);
            assert_eq!(machine.push(&world.repository).unwrap(), machine.versions, "{what}");
            assert_eq!(world.contents(None), machine.versions, "{what}");
        }
    }
}

#[test]
fn an_archive_that_was_put_back_from_an_older_copy_does_not_replace_what_is_stored() {
    for (what, later) in [("nothing", 0), ("as much", 2), ("more", 4)] {
        let (world, mut machine) = World::with(2);
        let mut older = machine.copy("first");
        (0..2).for_each(|content| machine.publish(content));
        machine.push(&world.repository).unwrap();
        // The note was somewhere else, and is as new as ever.
        fs::copy(machine.note(), older.note()).unwrap();
        (0..later).for_each(|content| older.publish(900 + content));
        if let Ok(stored) = older.push(&world.repository) {
            let restored = world.contents(None);
            for version in &stored {
                assert_eq!(
                    restored.get(version.0),
                    Some(version.1),
                    "{what}: {stored:?} is said to be stored"
                );
            }
        }
        assert_eq!(world.contents(None), machine.versions, "{what} was published upon the older copy");
    }
}

#[test]
fn whatever_happens_to_an_archive_what_a_push_says_is_stored_is_what_a_restore_gives() {
    let accidents =
        [Accident::Gone, Accident::Damaged, Accident::PutBack, Accident::PutBackBeside, Accident::Anew];
    for (accident, later) in
        accidents.into_iter().flat_map(|accident| [(accident, 0), (accident, 1), (accident, 5)])
    {
        for is_given_up in [false, true] {
            let what = format!("{accident:?}, then {later} versions, {is_given_up}");
            let (world, mut machine) = World::with(2);
            machine.back_up();
            machine.publish(3);
            machine.push(&world.repository).unwrap();
            if is_given_up {
                machine.retire(2);
                machine.push(&world.repository).unwrap();
            }
            let stored = machine.versions.clone();
            machine.suffer(accident);
            (0..later).for_each(|content| machine.publish(900 + content));
            let pushed = machine.push(&world.repository);
            let restored = world.contents(None);
            let is_back = |(version, _): &(&u64, &u64)| is_given_up && **version == 2;
            for (version, content) in pushed.iter().flatten().filter(|version| !is_back(version)) {
                assert_eq!(restored.get(version), Some(content), "{what}: {pushed:?}");
            }
            for (version, content) in &stored {
                assert_eq!(restored.get(version), Some(content), "{what}: {pushed:?}");
            }
        }
    }
}

#[test]
fn a_version_that_is_back_as_its_giving_up_was_lost_here_is_not_said_to_be_stored() {
    let (world, mut machine) = World::with(3);
    machine.retire(2);
    machine.push(&world.repository).unwrap();
    machine.suffer(Accident::Damaged);
    assert!(machine.versions.contains_key(&2));
    let pushed = machine.push(&world.repository);
    let restored = world.contents(None);
    let is_said = |version| pushed.as_ref().is_ok_and(|stored| stored.contains_key(version));
    assert!(
        machine.versions.keys().all(|version| restored.contains_key(version) || !is_said(version)),
        "{pushed:?}"
    );
}

#[test]
fn a_store_is_taken_over_with_what_was_restored_whatever_is_written_before_the_bucket_is_asked() {
    for name in ["first", "second"] {
        let (world, _) = World::with(12);
        let mut second = world.restored(name);
        second.retire(3);
        compact(&second);
        second.publish(99);
        assert!(matches!(second.push(&world.repository), Err(Error::Fenced { .. })), "{name}");
        second.kill();
        second.take_over(&world.repository).unwrap();
        assert_eq!(second.push(&world.repository).unwrap(), second.versions, "{name}");
        assert_eq!(world.contents(None), second.versions, "{name}");
    }
}

#[test]
fn what_was_restored_takes_nothing_over_if_more_was_stored_since() {
    let (world, mut first) = World::with(3);
    let mut second = world.restored("second");
    first.publish(4);
    first.push(&world.repository).unwrap();
    second.publish(99);
    assert!(matches!(second.take_over(&world.repository), Err(Error::Behind { .. })));
    assert_eq!(world.contents(None), first.versions);
}

/// The newest file of an archive may only repeat that a merge is done. The bucket does not have it, and does not need it.
#[test]
fn what_only_repeats_that_a_merge_is_done_may_be_lost() {
    let (world, mut machine) = World::with(12);
    compact(&machine);
    machine.push(&world.repository).unwrap();
    let newest = machine.archive.newest_file();
    assert!(world.newest().files.iter().all(|named| named.file != newest));
    fs::remove_file(machine.file(newest)).unwrap();
    machine.kill();
    assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
    assert_eq!(world.contents(None), machine.versions);
    machine.publish(9);
    assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
    assert_eq!(world.contents(None), machine.versions);
}

// What the bucket loses.

#[test]
fn a_bucket_that_was_put_back_from_a_backup_gets_what_it_lacks() {
    for is_killed in [false, true] {
        let (world, mut machine) = World::with(2);
        let backup = world.objects();
        for version in 3..6 {
            machine.publish(version);
            machine.push(&world.repository).unwrap();
        }
        for key in world.objects().keys().filter(|key| !backup.contains_key(*key)) {
            world.bucket.damage(key, |_| None);
        }
        if is_killed {
            machine.kill();
            assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
            assert_eq!(world.contents(None), machine.versions);
        }
        // Who goes on notices, as it reads its newest manifest before it publishes the next.
        machine.publish(6);
        assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
        assert_eq!(verify(&world.history(), Depth::Read).unwrap().findings, [], "{is_killed}");
        assert_eq!(world.contents(None), machine.versions);
    }
}

#[test]
fn after_a_restart_what_the_bucket_has_lost_is_put_back() {
    for (what, how) in harms() {
        let (world, mut machine, _) = history_with_merges();
        let before = world.objects();
        world.files().iter().for_each(|key| world.bucket.damage(key, how));
        let has_another_length = world.objects().values().map(Vec::len).ne(before.values().map(Vec::len));
        machine.kill();
        assert_eq!(machine.push(&world.repository).unwrap(), machine.versions, "{what}");
        // A listing says lengths alone. That a byte is another one finds who reads it.
        assert_eq!(world.objects() == before, has_another_length, "{what}");
    }
}

#[test]
fn after_a_restart_the_newest_manifest_is_put_back_if_the_bucket_has_lost_it() {
    let mut wrong = Vec::new();
    for fault in [Fault::Fine, Fault::Refused, Fault::Lost, Fault::Conflict] {
        for versions in [1, 3] {
            let (world, mut machine) = World::with(versions);
            world.bucket.damage(&world.newest().key(), |_| None);
            machine.kill();
            world.bucket.next("create", &[fault]);
            match machine.push(&world.repository) {
                Ok(stored) => assert_eq!(stored, machine.versions),
                // What only failed for once is tried again.
                Err(error) if !error.is_passing() => wrong.push(format!("{versions}, {fault:?}: {error}")),
                Err(_) => assert_eq!(machine.push(&world.repository).unwrap(), machine.versions),
            }
            if wrong.is_empty() {
                assert_eq!(world.contents(None), machine.versions);
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_manifest_that_was_damaged_is_superseded_by_the_next() {
    let (world, mut machine) = World::with(3);
    world.bucket.damage(&world.newest().key(), |bytes| Some(bytes[1..].to_vec()));
    assert_is!(world.history().newest(), Err(Error::Damaged { .. }));
    machine.kill();
    machine.publish(4);
    machine.push(&world.repository).unwrap();
    assert_eq!(world.contents(None), machine.versions);
}

#[test]
fn a_verification_finds_each_file_that_is_missing_short_or_changed() {
    let depths = [
        (Depth::Listed, false, 0),
        (Depth::Sample(0), false, 0),
        (Depth::Sample(100), true, 4),
        (Depth::Read, true, 4),
    ];
    for (depth, reads, read) in depths {
        let (world, _) = World::with(4);
        let report = verify(&world.history(), depth).unwrap();
        let bytes = if reads { world.newest().bytes() } else { 0 };
        assert_eq!(
            (report.manifest, report.files, report.read, report.bytes),
            (4, 4, read, bytes),
            "{depth:?}"
        );
        assert_eq!(report.findings, []);
        for (place, key) in world.files().into_iter().enumerate() {
            for (what, how) in harms() {
                let whole = world.bucket.bytes(&key).unwrap();
                world.bucket.damage(&key, how);
                let harmed = world.bucket.bytes(&key);
                let report = verify(&world.history(), depth).unwrap();
                let found: Vec<(&str, &str)> =
                    report.findings.iter().map(|found| (found.key.as_str(), found.what.as_str())).collect();
                let expected = match &harmed {
                    None => Some("it is missing".to_owned()),
                    Some(harmed) if harmed.len() != whole.len() => {
                        Some(format!("it has {} bytes, and {} were stored", harmed.len(), whole.len()))
                    }
                    Some(_) => None,
                };
                match (expected, &found[..]) {
                    (Some(expected), [(found, said)]) => assert_eq!((*found, *said), (&*key, &*expected)),
                    (None, [(found, _)]) if reads => assert_eq!(*found, key, "{what}"),
                    (None, []) if !reads => {}
                    (_, found) => panic!("{depth:?}, file {place}, {what}: {found:?}"),
                }
                let mut whole = [Ok(whole)].into_iter();
                world.bucket.damage(&key, |_| None);
                world.bucket.store(&key, report_bytes(&world, place), &mut whole).unwrap();
            }
        }
    }
}

/// How long a file is by the newest manifest.
fn report_bytes(world: &World, place: usize) -> u64 {
    world.newest().files[place].bytes
}

#[test]
fn verifications_that_read_a_part_read_everything_after_a_while() {
    let (world, _) = World::with(3);
    let keys = world.files();
    keys.iter().for_each(|key| world.bucket.damage(key, harms()[1].1));
    let mut found = BTreeSet::new();
    // That one is never read of so many times happens once in 10^18.
    for _ in 0..60 {
        let report = verify(&world.history(), Depth::Sample(50)).unwrap();
        assert_eq!(report.read, report.findings.len());
        found.extend(report.findings.into_iter().map(|finding| finding.key));
    }
    assert_eq!(found, keys.into_iter().collect());
}

#[test]
fn without_a_history_there_is_nothing_to_verify_or_to_restore() {
    let world = World::new();
    let key = "s/report/m/999999999998-1.json";
    assert_is!(verify(&world.history(), Depth::Read), Err(Error::Missing { key: missing, .. }) if missing == key);
    assert_is!(world.restore(None), Err(Error::Missing { key: missing, .. }) if missing == key);
    assert_eq!(prune(&world.history(), &Keep::default(), false).unwrap(), Pruned::default());
    assert_is!(machine("first").take_over(&world.repository), Err(Error::Missing { .. }));
}

// Who publishes.

/// Fails unless a machine is fenced by this host since this number, and changes nothing in the bucket however often it tries, also after a
/// start.
fn is_fenced(world: &World, machine: &mut Machine, by: &str, number: u64) {
    let before = world.objects();
    for is_killed in [false, true, false] {
        if is_killed {
            machine.kill();
        }
        machine.publish(7);
        let pushed = machine.push(&world.repository).unwrap_err();
        match &pushed {
            Error::Fenced { by: found, number: at, .. } => assert!(found.host == by && *at >= number),
            // A machine of the same name has gone on from an archive like this.
            Error::Behind { by: found, .. } => assert!(found.host == by && machine.name == by),
            _ => panic!("{pushed:?}"),
        }
        assert!(pushed.to_string().contains(by) && !pushed.is_passing(), "{pushed}");
    }
    assert_eq!(world.objects(), before);
}

#[test]
fn of_two_machines_of_one_name_the_one_that_pushes_first_goes_on_and_the_other_is_fenced() {
    let (world, mut first) = World::with(2);
    let mut copy = first.copy("first");
    copy.publish(3);
    copy.push(&world.repository).unwrap();
    first.publish(4);
    assert_is!(first.push(&world.repository), Err(Error::Fenced { by, number: 3, .. }) if by.host == "first");
    is_fenced(&world, &mut first, "first", 3);
    assert_eq!(world.contents(None), copy.versions);
    copy.publish(5);
    copy.push(&world.repository).unwrap();
    assert_eq!(world.contents(None), copy.versions);
}

#[test]
fn a_copy_of_another_name_publishes_nothing_before_it_takes_over_and_the_original_nothing_after_that() {
    let (world, mut first) = World::with(2);
    let mut copy = first.copy("copy");
    copy.publish(3);
    is_fenced(&world, &mut copy, "first", 2);
    first.publish(3);
    first.push(&world.repository).unwrap();
    assert_eq!(world.contents(None), first.versions);
    let mut copy = first.copy("copy");
    copy.take_over(&world.repository).unwrap();
    copy.publish(4);
    copy.push(&world.repository).unwrap();
    first.publish(5);
    assert_is!(first.push(&world.repository), Err(Error::Fenced { by, number: 4, .. }) if by.host == "copy");
    is_fenced(&world, &mut first, "copy", 4);
    assert_eq!(world.contents(None), copy.versions);
}

#[test]
fn a_machine_that_is_fenced_and_has_nothing_new_learns_of_it_when_it_is_started() {
    let (world, mut first) = World::with(2);
    let mut copy = first.copy("copy");
    copy.take_over(&world.repository).unwrap();
    assert_eq!(first.push(&world.repository).unwrap(), first.versions);
    first.kill();
    assert_is!(first.push(&world.repository), Err(Error::Fenced { by, number: 3, .. }) if by.host == "copy");
}

#[test]
fn who_was_restored_takes_over_and_the_old_one_is_fenced_for_good() {
    let (world, mut old) = World::with(3);
    let mut new = world.restored("new");
    is_fenced(&world, &mut new.copy("stranger"), "first", 3);
    assert_is!(new.push(&world.repository), Err(Error::Fenced { by, number: 3, .. }) if by.host == "first");
    new.take_over(&world.repository).unwrap();
    let taken = world.newest();
    assert_eq!((taken.number, taken.epoch, taken.holder.host.as_str()), (4, 2, "new"));
    assert_eq!(world.contents(None), new.versions);
    is_fenced(&world, &mut old.copy("old"), "new", 4);
    new.publish(4);
    new.push(&world.repository).unwrap();
    // It has stored what it was about to name before it saw that.
    old.publish(5);
    assert_is!(old.push(&world.repository), Err(Error::Fenced { by, number: 4, .. }) if by.host == "new");
    is_fenced(&world, &mut old, "new", 4);
    new.kill();
    new.publish(6);
    new.push(&world.repository).unwrap();
    assert_eq!(world.contents(None), new.versions);
}

#[test]
fn who_lacks_something_does_not_take_over() {
    let (world, mut first) = World::with(3);
    let mut behind = first.copy("behind");
    first.publish(4);
    first.push(&world.repository).unwrap();
    let mut empty = machine("empty");
    let mut stranger = machine("stranger");
    (1..6).for_each(|content| stranger.publish(content));
    let before = world.objects();
    for (machine, lacks) in [(&mut behind, 4), (&mut empty, 1), (&mut stranger, 1)] {
        for is_killed in [false, true] {
            if is_killed {
                machine.kill();
            }
            let refused = machine.take_over(&world.repository);
            assert_is!(refused, Err(Error::Behind { by, file, .. }) if by.host == "first" && *file == lacks);
        }
        machine.publish(7);
        assert_is!(machine.push(&world.repository), Err(Error::Fenced { by, .. }) if by.host == "first");
    }
    assert_eq!(world.objects(), before);
    first.publish(5);
    first.push(&world.repository).unwrap();
    assert_eq!(world.contents(None), first.versions);
}

#[test]
fn who_was_taken_over_from_takes_over_again_if_it_has_everything() {
    let (world, mut first) = World::with(2);
    let mut second = world.restored("second");
    for epoch in [2, 4, 6] {
        second.take_over(&world.repository).unwrap();
        assert_eq!(second.push(&world.repository).unwrap(), second.versions);
        first.take_over(&world.repository).unwrap();
        assert_eq!(world.newest().epoch, epoch + 1);
        assert_eq!(first.push(&world.repository).unwrap(), first.versions);
    }
    second.take_over(&world.repository).unwrap();
    second.publish(3);
    second.push(&world.repository).unwrap();
    assert_is!(first.take_over(&world.repository), Err(Error::Behind { by, .. }) if by.host == "second");
    assert_eq!(world.contents(None), second.versions);
}

#[test]
fn who_publishes_already_may_take_over_from_itself_and_goes_on_if_that_fails() {
    let mut wrong = Vec::new();
    for faults in [vec![Fault::Fine], vec![Fault::Refused; 3], vec![Fault::Conflict; 3], vec![Fault::Late; 3]]
    {
        let (world, mut machine) = World::with(2);
        world.bucket.next("create", &faults);
        let taken = machine.take_over(&world.repository);
        assert_eq!(taken.is_ok(), faults == [Fault::Fine], "{faults:?}: {taken:?}");
        machine.publish(3);
        match machine.push(&world.repository) {
            Ok(stored) => {
                assert_eq!((&stored, &world.contents(None)), (&machine.versions, &machine.versions))
            }
            Err(error) => wrong.push(format!("{faults:?}: {error}")),
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn who_has_lost_its_note_is_fenced_by_itself_until_it_takes_over() {
    let (world, mut machine) = World::with(2);
    fs::remove_file(machine.note()).unwrap();
    is_fenced(&world, &mut machine.copy("first"), "first", 2);
    machine.kill();
    machine.publish(3);
    assert_is!(machine.push(&world.repository), Err(Error::Fenced { by, number: 2, .. }) if by.host == "first");
    machine.take_over(&world.repository).unwrap();
    assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
    assert_eq!((world.newest().epoch, world.contents(None)), (2, machine.versions));
}

#[test]
fn a_name_that_somebody_has_written_does_nothing_to_a_terminal() {
    let (world, mut evil) = (World::new(), machine("\u{1b}]0;evil\u{7}\n"));
    evil.publish(1);
    evil.push(&world.repository).unwrap();
    let mut first = machine("first");
    first.publish(1);
    let fenced = first.push(&world.repository).unwrap_err().to_string();
    assert!(fenced.contains("by ]0;evil (manifest 1)") && !fenced.contains(char::is_control), "{fenced:?}");
}

#[test]
fn a_take_over_whose_answer_was_lost_is_recognised() {
    for is_killed in [false, true] {
        let (world, mut old) = World::with(2);
        let mut new = world.restored("new");
        world.bucket.next("create", &[Fault::Lost]);
        if is_killed {
            // The list is followed by the manifest and its successor; what was created is not found either.
            world.bucket.next("read", &[Fault::Fine, Fault::Fine, Fault::Refused]);
            assert_is!(new.take_over(&world.repository), Err(Error::Service { .. }));
            new.kill();
        } else {
            new.take_over(&world.repository).unwrap();
        }
        new.publish(3);
        assert_eq!(new.push(&world.repository).unwrap(), new.versions);
        assert_eq!((world.newest().number, world.newest().epoch), (4, 2));
        old.kill();
        old.publish(3);
        assert_is!(old.push(&world.repository), Err(Error::Fenced { by, .. }) if by.host == "new");
        is_fenced(&world, &mut old, "new", 3);
    }
}

// Answers that are lost.

#[test]
fn a_manifest_whose_answer_was_lost_is_recognised() {
    for versions in [0, 2] {
        for is_killed in [false, true] {
            let (world, mut machine) = World::with(versions);
            machine.publish(7);
            world.bucket.next("create", &[Fault::Lost]);
            if is_killed {
                // Whether it is there cannot be seen either.
                let looks =
                    if versions == 0 { &[Fault::Fine, Fault::Refused][..] } else { &[Fault::Refused] };
                world.bucket.next("read", looks);
                assert_is!(machine.push(&world.repository), Err(error @ Error::Service { .. }) if error.is_passing());
                machine.kill();
            }
            let (stored, number) = (machine.push(&world.repository).unwrap(), versions + 1);
            assert_eq!((stored, machine.head()), (machine.versions.clone(), number), "{is_killed}");
            assert_eq!(world.newest().number, number, "nothing is stored twice");
            machine.publish(8);
            machine.push(&world.repository).unwrap();
            assert_eq!(world.contents(None), machine.versions);
        }
    }
}

#[test]
fn a_manifest_that_arrives_late_is_recognised_though_another_one_was_sent_since() {
    for versions in [0, 2] {
        for is_killed in [false, true] {
            let (world, mut machine) = World::with(versions);
            machine.publish(7);
            world.bucket.next("create", &[Fault::Late; 3]);
            assert_is!(machine.push(&world.repository), Err(Error::Service { .. }));
            if is_killed {
                machine.kill();
            }
            machine.publish(8);
            // What was sent first is there when the next one comes.
            world.bucket.next("create", &[Fault::Overtaken]);
            assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
            assert_eq!((machine.head(), world.newest().number), (versions + 2, versions + 2));
            assert_eq!(world.contents(None), machine.versions);
            let late = world.contents(Some(versions + 1));
            assert_eq!(late.get(&(versions + 1)), Some(&7));
            assert_eq!(late.len(), usize::try_from(versions + 1).unwrap());
        }
    }
}

#[test]
fn a_manifest_that_arrives_whenever_it_is_looked_for_is_recognised() {
    let mut wrong = Vec::new();
    let requests = [("read", 0), ("read", 1), ("read", 2), ("list", 0), ("store", 0), ("create", 0)];
    for (versions, (doing, nth)) in [0, 2].into_iter().flat_map(|n| requests.map(|request| (n, request))) {
        let (world, mut machine) = World::with(versions);
        machine.publish(7);
        world.bucket.next("create", &[Fault::Late; 3]);
        assert_is!(machine.push(&world.repository), Err(Error::Service { .. }));
        machine.kill();
        world.bucket.next(doing, &[vec![Fault::Fine; nth], vec![Fault::Overtaken]].concat());
        match machine.push(&world.repository) {
            Ok(stored) => {
                assert_eq!((&stored, &world.contents(None)), (&machine.versions, &machine.versions));
            }
            Err(error) => wrong.push(format!("{versions} before, at {doing} {nth}: {error}")),
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_late_manifest_of_somebody_who_was_taken_over_from_changes_nothing() {
    let (world, mut old) = World::with(2);
    let mut new = world.restored("new");
    old.publish(3);
    world.bucket.next("create", &[Fault::Late; 3]);
    assert_is!(old.push(&world.repository), Err(Error::Service { .. }));
    new.take_over(&world.repository).unwrap();
    world.bucket.next("read", &[Fault::Overtaken]);
    is_fenced(&world, &mut old, "new", 3);
    assert_eq!(world.contents(None), new.versions);
}

#[test]
fn a_late_manifest_wins_over_a_take_over_that_comes_after_it() {
    let (world, mut old) = World::with(2);
    let mut new = world.restored("new");
    old.publish(3);
    world.bucket.next("create", &[Fault::Late; 3]);
    assert_is!(old.push(&world.repository), Err(Error::Service { .. }));
    world.bucket.next("create", &[Fault::Overtaken]);
    assert_is!(new.take_over(&world.repository), Err(Error::Fenced { by, number: 3, .. }) if by.host == "first");
    assert_is!(new.take_over(&world.repository), Err(Error::Behind { file: 3, .. }));
    assert_eq!(old.push(&world.repository).unwrap(), old.versions);
    assert_eq!(world.contents(None), old.versions);
}

#[test]
fn a_creation_that_is_refused_though_nothing_is_there_is_tried_again() {
    for (conflicts, asked) in [(1, 2), (2, 3)] {
        let (world, mut machine) = World::with(2);
        machine.publish(7);
        world.bucket.next("create", &vec![Fault::Conflict; conflicts]);
        assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
        assert_eq!(world.bucket.asked().iter().filter(|asked| **asked == "create").count(), asked);
        assert_eq!(world.contents(None), machine.versions);
    }
    let (world, mut machine) = World::with(2);
    machine.publish(7);
    world.bucket.next("create", &[Fault::Conflict; 3]);
    assert_is!(machine.push(&world.repository), Err(error @ Error::Service { .. }) if error.is_passing());
    assert_eq!(world.newest().number, 2);
    assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
}

#[test]
fn whatever_a_push_asks_for_may_fail_and_the_next_one_does_it() {
    let kinds = [("store", 3), ("create", 1), ("read", 1), ("look at", 2)];
    for (doing, times) in kinds {
        for (nth, fault) in (0..times).flat_map(|nth| [(nth, Fault::Refused), (nth, Fault::Lost)]) {
            let (world, mut machine) = World::with(2);
            machine.kill();
            (3..6).for_each(|content| machine.publish(content));
            world.bucket.next(doing, &[vec![Fault::Fine; nth], vec![fault]].concat());
            let first = machine.push(&world.repository);
            assert_is!(&first, Ok(_) | Err(Error::Service { .. }));
            assert_eq!(machine.push(&world.repository).unwrap(), machine.versions, "{doing} {nth} {fault:?}");
            assert_eq!(world.contents(None), machine.versions, "{doing} {nth} {fault:?}");
            assert_eq!(world.newest().number, 3, "{doing} {nth} {fault:?}");
        }
    }
}

// The repository.

#[test]
fn a_repository_is_made_once_and_keeps_its_identity() {
    let bucket = Arc::new(Model::new(Arc::new(Dice::new(0))));
    assert_is!(Repository::open(bucket.clone()), Err(Error::NoRepository { url }) if url == "model://bucket");
    assert_eq!(bucket.keys(), BTreeMap::new());
    let (made, is_made) = Repository::init(bucket.clone(), None).unwrap();
    assert!(is_made);
    let objects = bucket.keys();
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["asat.json"], "what the service was tried with is gone");
    let (found, is_made) = Repository::init(bucket.clone(), None).unwrap();
    assert!(!is_made);
    assert_eq!((&found.id, &Repository::open(bucket.clone()).unwrap().id), (&made.id, &made.id));
    assert_eq!(bucket.keys(), objects);
    found.probe().unwrap();
    assert_eq!(bucket.keys(), objects);
}

#[test]
fn what_fails_when_a_repository_is_made_is_said_and_made_the_next_time() {
    let mut wrong = Vec::new();
    for (doing, fault) in [
        ("read", Fault::Refused),
        ("create", Fault::Refused),
        ("create", Fault::Lost),
        ("create", Fault::Late),
        ("create", Fault::Conflict),
        ("delete", Fault::Refused),
        ("delete", Fault::Lost),
    ] {
        for nth in 0..3 {
            let bucket = Arc::new(Model::new(Arc::new(Dice::new(0))));
            bucket.next(doing, &[vec![Fault::Fine; nth], vec![fault]].concat());
            match Repository::init(bucket.clone(), None) {
                Err(error) if !error.is_passing() => wrong.push(format!("{doing} {nth} {fault:?}: {error}")),
                _ => {}
            }
            let (repository, _) = Repository::init(bucket.clone(), None).unwrap();
            assert_eq!(Repository::open(bucket).unwrap().id, repository.id);
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_service_that_replaces_what_it_should_create_has_no_repository() {
    let bucket = Arc::new(Model::new(Arc::new(Dice::new(0))));
    bucket.replaces.store(true, Ordering::Relaxed);
    assert_is!(Repository::init(bucket.clone(), None), Err(error @ Error::Unconditional { .. }) if !error.is_passing());
    assert_eq!(bucket.keys(), BTreeMap::new());
    let world = World::new();
    world.bucket.replaces.store(true, Ordering::Relaxed);
    assert_is!(world.repository.probe(), Err(Error::Unconditional { .. }));
}

#[test]
fn a_publisher_does_not_go_on_in_another_repository() {
    let (world, mut machine) = World::with(2);
    world.bucket.damage("asat.json", |_| None);
    let (other, is_made) = Repository::init(world.bucket.clone(), None).unwrap();
    assert!(is_made && other.id != world.repository.id);
    machine.kill();
    machine.publish(3);
    let before = world.objects();
    for _ in 0..2 {
        let pushed = machine.push(&other).unwrap_err();
        assert_is!(&pushed, Error::Replaced { expected, found, .. } if (expected, found) == (&world.repository.id, &other.id));
        assert!(!pushed.is_passing());
        assert_is!(machine.take_over(&other), Err(Error::Replaced { .. }));
    }
    assert_eq!(world.objects(), before);
}

#[test]
fn a_marker_that_is_none_is_damaged_and_one_of_a_newer_format_is_said_to_be() {
    let markers: [(&[u8], Option<u64>); 9] = [
        (b"", None),
        (b"\xff\xfe", None),
        (b"{", None),
        (b"[]", None),
        (b"{\"format\":1}", None),
        (b"{\"id\":\"x\"}", None),
        (&[b' '; 5000], None),
        (b"{\"format\":2,\"id\":\"x\"}", Some(2)),
        (b"{\"format\":2,\"identity\":[7]}", Some(2)),
    ];
    for (marker, format) in markers {
        let world = World::new();
        world.bucket.damage("asat.json", |_| Some(marker.to_vec()));
        let before = world.objects();
        for found in [
            Repository::open(world.bucket.clone()),
            Repository::init(world.bucket.clone(), None).map(|made| made.0),
        ] {
            match format {
                None => assert_is!(found, Err(Error::Damaged { key, .. }) if key == "asat.json"),
                Some(format) => {
                    assert_is!(found, Err(Error::Format { key, found, .. }) if key == "asat.json" && *found == format);
                }
            }
        }
        assert_eq!(world.objects(), before);
    }
}

#[test]
fn a_manifest_of_a_newer_format_is_said_to_be_and_nobody_publishes_upon_it() {
    let (world, mut machine) = World::with(2);
    let key = "s/report/m/999999999996-3.json";
    let json = "{\"format\":2,\"number\":\"three\"}";
    let newer = format!("{json}\n{}\n", blake3::hash(json.as_bytes()).to_hex());
    world.bucket.create(key, newer.as_bytes()).unwrap();
    let before = world.objects();
    let is_newer = |error: &Error| matches!(error, Error::Format { key: at, found: 2, .. } if at == key);
    assert_is!(world.history().newest(), Err(error) if is_newer(error));
    assert_is!(world.restore(None), Err(error) if is_newer(error));
    assert_is!(prune(&world.history(), &Keep::default(), false), Err(error) if is_newer(error));
    assert_eq!(world.objects(), before);
    machine.publish(3);
    assert_is!(machine.push(&world.repository), Err(error) if is_newer(error));
    machine.kill();
    assert_is!(machine.push(&world.repository), Err(error) if is_newer(error));
    assert_is!(machine.take_over(&world.repository), Err(error) if is_newer(error));
    assert_eq!(world.newest_key(), key);
}

#[test]
fn a_manifest_with_any_byte_changed_is_damaged() {
    let (world, _) = World::with(2);
    let key = world.newest().key();
    let whole = world.bucket.bytes(&key).unwrap();
    for (at, bit) in (0..whole.len()).flat_map(|at| [(at, 1), (at, 0x20)]) {
        world.bucket.damage(&key, |mut bytes| {
            bytes[at] ^= bit;
            Some(bytes)
        });
        assert_is!(world.history().newest(), Err(Error::Damaged { key: named, .. }) if *named == key);
        world.bucket.damage(&key, |_| Some(whole.clone()));
    }
    world.bucket.damage(&key, |_| Some(vec![b'x'; 5 << 20]));
    assert_is!(world.history().newest(), Err(Error::Damaged { key: named, .. }) if *named == key);
    world.bucket.damage(&key, |_| Some(whole.clone()));
    assert_eq!(world.newest().number, 2);
}

#[test]
fn every_store_with_a_history_is_listed_once() {
    let world = World::new();
    let names = ["a", "a-b", "a.b", "a0", "a_b", "aa", "probe", "probes", "report"];
    for name in names {
        for (folder, numbers) in [("m", 1..4), ("f", 1..3)] {
            for number in numbers {
                world.bucket.create(&format!("s/{name}/{folder}/{number}"), b"x").unwrap();
            }
        }
    }
    // What is not asat's, and what was left by somebody who may not delete.
    for foreign in
        ["README", "a/m/1", "probe/0193", "s", "s/README", "s/_a/m/1", "s/a!", "s0/b/m/1", "zz.txt"]
    {
        world.bucket.create(foreign, b"x").unwrap();
    }
    let mut found: Vec<String> =
        world.repository.stores().unwrap().iter().map(|store| store.to_string()).collect();
    found.sort();
    assert_eq!(found, names);
}

// Pruning.

fn keep(grace: u64, manifests: usize) -> Keep {
    Keep { grace: Duration::from_secs(grace), manifests }
}

#[test]
fn within_the_grace_nothing_is_deleted() {
    let (world, _, manifests) = history_with_merges();
    let before = world.objects();
    for (keep, is_rehearsal) in [(keep(1000, 1), false), (keep(1000, 1), true), (Keep::default(), false)] {
        assert_eq!(prune(&world.history(), &keep, is_rehearsal).unwrap(), Pruned::default());
        assert_eq!(world.objects(), before);
    }
    for (number, versions) in manifests {
        assert_eq!(world.contents(Some(number)), versions);
    }
}

#[test]
fn after_the_grace_what_no_kept_manifest_names_is_deleted() {
    for kept in [0, 1, 2, 4, 9, 10, 100] {
        let (world, mut machine, manifests) = history_with_merges();
        world.bucket.pass(2000);
        let before = world.objects();
        let oldest = 11 - kept.clamp(1, 10);
        let needed: BTreeSet<String> = (oldest..=10)
            .flat_map(|number| world.history().manifest(u64::try_from(number).unwrap()).unwrap().files)
            .map(|file| file.key(&store()))
            .collect();
        let is_spare = |key: &&String| key.starts_with("s/report/f/") && !needed.contains(*key);
        let spare: Vec<usize> =
            before.iter().filter(|(key, _)| is_spare(key)).map(|(_, bytes)| bytes.len()).collect();
        let expected = Pruned {
            files: spare.len(),
            bytes: u64::try_from(spare.iter().sum::<usize>()).unwrap(),
            manifests: oldest - 1,
        };
        assert_eq!(prune(&world.history(), &keep(1000, kept), true).unwrap(), expected, "{kept} are kept");
        assert_eq!(world.objects(), before, "a rehearsal changes nothing");
        assert_eq!(prune(&world.history(), &keep(1000, kept), false).unwrap(), expected, "{kept} are kept");
        assert_eq!(world.stored(), needed);
        assert_eq!(prune(&world.history(), &keep(1000, kept), false).unwrap(), Pruned::default());
        for (number, versions) in manifests {
            if number >= u64::try_from(oldest).unwrap() {
                assert_eq!(world.contents(Some(number)), versions);
            } else {
                assert_is!(world.restore(Some(number)), Err(Error::Missing { .. }));
            }
        }
        // Who publishes goes on, be it with a start.
        for version in 11..13 {
            machine.publish(version);
            assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
            machine.kill();
        }
        assert_eq!(world.contents(None), machine.versions);
    }
}

#[test]
fn a_manifest_is_kept_with_all_that_it_names_for_as_long_as_the_grace_since_it_was_superseded() {
    let (world, mut machine) = World::with(3);
    let versions = machine.versions.clone();
    world.bucket.pass(5000);
    // Manifest 3 is old, but was the newest one until now.
    machine.retire(1);
    machine.retire(2);
    compact(&machine);
    machine.push(&world.repository).unwrap();
    assert_eq!(prune(&world.history(), &keep(1000, 1), false).unwrap().manifests, 2);
    assert_eq!(world.contents(Some(3)), versions, "who reads it goes on");
    world.bucket.pass(2000);
    assert_eq!(prune(&world.history(), &keep(1000, 1), false).unwrap().manifests, 1);
    assert_is!(world.restore(Some(3)), Err(Error::Missing { .. }));
    assert_eq!(world.contents(None), machine.versions);
}

#[test]
fn the_number_of_a_manifest_that_was_pruned_is_never_free_again() {
    for is_killed in [false, true] {
        let (world, mut paused) = World::with(2);
        let mut late = paused.copy("first");
        late.publish(3);
        world.bucket.next("create", &[Fault::Late; 3]);
        assert_is!(late.push(&world.repository), Err(Error::Service { .. }));
        let mut new = world.restored("new");
        new.take_over(&world.repository).unwrap();
        for content in 3..9 {
            new.publish(content);
            new.push(&world.repository).unwrap();
        }
        world.bucket.pass(5000);
        assert_eq!(prune(&world.history(), &keep(1000, 1), false).unwrap().manifests, 8);
        // A creation that was under way for all that time comes to nothing.
        let before = world.objects();
        world.bucket.next("list", &[Fault::Overtaken]);
        assert_eq!(world.newest().number, 9);
        assert_eq!(world.objects(), before);
        if is_killed {
            paused.kill();
        }
        paused.publish(7);
        assert_is!(paused.push(&world.repository), Err(Error::Fenced { by, number: 9, .. }) if by.host == "new");
        is_fenced(&world, &mut paused, "new", 9);
        is_fenced(&world, &mut late, "new", 9);
        assert_eq!(world.contents(None), new.versions);
        // What the paused one may have stored before it saw that is deleted when it is old.
        world.bucket.pass(5000);
        assert_eq!(prune(&world.history(), &keep(1000, 1), false).unwrap().manifests, 0);
        assert_eq!(world.stored(), world.files().into_iter().collect());
        assert_eq!(world.contents(None), new.versions);
    }
}

#[test]
fn what_was_stored_and_is_not_named_yet_is_kept_however_old_it_is() {
    let (world, mut machine) = World::with(2);
    (3..6).for_each(|content| machine.publish(content));
    // The files come into the bucket, and the manifest only after a long time.
    world.bucket.next("create", &[Fault::Late; 3]);
    assert_is!(machine.push(&world.repository), Err(Error::Service { .. }));
    world.bucket.pass(5000);
    let before = world.objects();
    assert_eq!(prune(&world.history(), &keep(1000, 2), false).unwrap(), Pruned::default());
    assert_eq!(world.objects(), before);
    world.bucket.next("create", &[Fault::Overtaken]);
    assert_eq!(machine.push(&world.repository).unwrap(), machine.versions);
    assert_eq!(world.contents(None), machine.versions);
}

#[test]
fn pruning_that_was_interrupted_anywhere_loses_nothing_and_is_ended_the_next_time() {
    for doing in ["list", "read", "look at", "create", "store", "delete"] {
        for (nth, fault) in (0..20).flat_map(|nth| [(nth, Fault::Refused), (nth, Fault::Lost)]) {
            let (world, machine, _) = history_with_merges();
            world.bucket.pass(5000);
            world.bucket.next(doing, &[vec![Fault::Fine; nth], vec![fault]].concat());
            let first = prune(&world.history(), &keep(1000, 2), false);
            if first.is_ok() {
                continue;
            }
            assert_is!(first, Err(Error::Service { .. }));
            prune(&world.history(), &keep(1000, 2), false).unwrap();
            assert_eq!(world.contents(None), machine.versions, "{doing} {nth} {fault:?}");
            let named: BTreeSet<String> = [9, 10]
                .into_iter()
                .flat_map(|number| world.history().manifest(number).unwrap().files)
                .map(|file| file.key(&store()))
                .collect();
            assert_eq!(world.stored(), named, "{doing} {nth} {fault:?}");
        }
    }
}

#[test]
fn a_clock_that_the_service_refuses_to_tell_is_asked_again() {
    let (world, _, _) = history_with_merges();
    world.bucket.next("create", &[Fault::Conflict]);
    if let Err(error) = prune(&world.history(), &keep(1000, 1), false) {
        assert!(error.is_passing(), "{error}");
    }
}

#[test]
fn what_is_not_asats_is_not_pruned() {
    let (world, _, _) = history_with_merges();
    world.bucket.pass(5000);
    let foreign = [
        "s/report/f/000001-000000000001-x.segment",
        "s/report/f/README",
        "s/report/m/README",
        "s/report/x",
        "s/reports/f/000001-000000000001-00000000000000000000000000000000.segment",
    ];
    foreign.iter().for_each(|key| assert!(world.bucket.create(key, b"mine").unwrap()));
    world.bucket.pass(5000);
    assert_eq!(prune(&world.history(), &keep(1000, 1), false).unwrap().manifests, 9);
    assert!(foreign.iter().all(|key| world.bucket.bytes(key).unwrap() == b"mine"));
    world.contents(None);
}

// Services.

fn open(url: &str) -> Result<Service, Error> {
    Service::open(url, Stop::new())
}

#[test]
fn a_url_that_names_no_bucket_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let urls = [
        ("/srv/history", "it has no scheme"),
        ("", "it has no scheme"),
        ("s3:bucket", "it has no scheme"),
        ("ftp://bucket/prefix", "ftp:// is none of s3://, gs://, az://, file://"),
        ("https://bucket.s3.amazonaws.com/prefix", "https:// is none of"),
        ("S3://bucket", "S3:// is none of"),
        ("s3://", "it names no bucket"),
        ("s3:///prefix", "it names no bucket"),
        ("s3://bucket/a//b", ""),
        ("s3://bucket/a/../b", ""),
        ("file://", ""),
        ("file:///nowhere/at/all", "/nowhere/at/all"),
    ];
    for (url, why) in urls {
        let refused = open(url).expect_err(url);
        assert_is!(&refused, Error::Url { url: named, what } if named == url && what.contains(why));
        assert!(refused.to_string().contains(url) && !refused.is_passing(), "{refused}");
    }
    let url = format!("file://{}", file.path().display());
    let made = open(&url).and_then(|service| Repository::init(Arc::new(service), None));
    assert!(made.is_err(), "{made:?}");
    let odd = Service::open_with("s3://bucket", Stop::new(), &[("colour", "red")]);
    assert_is!(odd, Err(Error::Url { what, .. }) if what.contains("colour"));
}

#[test]
fn a_folder_is_named_from_the_root_on() {
    // It would be another one for each folder that a program is started in.
    assert!(Path::new("src").is_dir());
    assert_is!(open("file://src"), Err(Error::Url { .. }));
}

#[test]
fn credentials_in_a_url_are_refused_and_not_repeated() {
    for url in [
        "s3://user:hunter2@bucket/prefix",
        "s3://bucket/prefix?secret=hunter2",
        "s3://bucket/prefix#hunter2",
        "https://user:hunter2@service/bucket",
        "file://user:hunter2@/srv",
        "user:hunter2@bucket/prefix",
    ] {
        let refused = open(url).expect_err(url);
        assert_is!(&refused, Error::Url { .. });
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
}

#[test]
fn a_folder_keeps_a_history() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/", folder.path().display());
    let service = Arc::new(open(&url).unwrap());
    assert_eq!(service.url(), url.trim_end_matches('/'));
    let (repository, _) = Repository::init(service.clone(), None).unwrap();
    let mut machine = machine("first");
    for version in 1..4 {
        machine.publish(version);
        assert_eq!(machine.push(&repository).unwrap(), machine.versions);
    }
    let before = service.requests().writes.load(Ordering::Relaxed);
    machine.publish(4);
    machine.push(&repository).unwrap();
    assert_eq!(service.requests().writes.load(Ordering::Relaxed), before + 2);
    let history = repository.history(&store());
    let to = Machine::folder();
    let archive = Machine::archive_folder(&to);
    restore(&history, None, &archive, &mut |_, _| {}).unwrap();
    assert_eq!(contents_of(&archive), machine.versions);
    assert_eq!(verify(&history, Depth::Read).unwrap().findings, []);
    assert_eq!(repository.stores().unwrap(), [store()]);
    assert_eq!(prune(&history, &keep(0, 100), false).unwrap().manifests, 0);
}

#[test]
fn an_object_that_is_longer_than_what_was_stored_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let service = Arc::new(open(&format!("file://{}", folder.path().display())).unwrap());
    let (repository, _) = Repository::init(service.clone(), None).unwrap();
    let (mut machine, history) = (machine("first"), repository.history(&store()));
    machine.publish(1);
    machine.push(&repository).unwrap();
    let key = history.newest().unwrap().unwrap().files[0].key(&store());
    fs::File::options().write(true).open(folder.path().join(&key)).unwrap().set_len(64 << 20).unwrap();
    let to = Machine::folder();
    let restored = restore(&history, None, &Machine::archive_folder(&to), &mut |_, _| {});
    assert_is!(restored, Err(Error::Damaged { key: named, .. }) if *named == key);
    let received = service.requests().received_bytes.load(Ordering::Relaxed);
    assert!(received < 8 << 20, "{received} bytes were read");
}

#[test]
fn a_folder_that_has_gone_away_is_not_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let service = open(&format!("file://{}", at.display())).unwrap();
    let (repository, _) = Repository::init(Arc::new(service), None).unwrap();
    let mut machine = machine("first");
    machine.publish(1);
    machine.push(&repository).unwrap();
    let away = folder.path().join("away");
    fs::rename(&at, &away).unwrap();
    machine.publish(2);
    assert_is!(machine.push(&repository), Err(error) if error.is_passing());
    assert!(!at.exists());
    fs::rename(&away, &at).unwrap();
    assert_eq!(machine.push(&repository).unwrap(), machine.versions);
}

/// A service of a server, which is asked with this secret.
fn service_of(server: &Server, bucket: &str, secret: &str) -> Service {
    opened(&server.endpoint, &format!("s3://{bucket}/prefix"), &Stop::new(), &[("secret_access_key", secret)])
}

fn opened(endpoint: &str, url: &str, stop: &Stop, more: &[(&str, &str)]) -> Service {
    let options = [
        ("endpoint", endpoint),
        ("access_key_id", servers::ACCESS_KEY),
        ("secret_access_key", servers::SECRET_KEY),
        ("region", "us-east-1"),
        ("allow_http", "true"),
    ];
    Service::open_with(url, stop.clone(), &[&options, more].concat()).unwrap()
}

#[test]
fn who_has_a_wrong_secret_is_told_so() {
    let server = servers::versitygw();
    server.bucket("history");
    let service = Arc::new(service_of(&server, "history", "wrong-secret"));
    let opened = Repository::open(service.clone()).map(drop).map_err(|error| ("open", error));
    let made = Repository::init(service.clone(), None).map(drop).map_err(|error| ("init", error));
    let all = all_of(&service).map(|(doing, found)| found.map(drop).map_err(|error| (doing, error)));
    let mut wrong = Vec::new();
    for found in [opened, made].into_iter().chain(all) {
        let (doing, error) = found.unwrap_err();
        assert!(error.is_passing() && !error.to_string().contains("wrong-secret"), "{error}");
        match error {
            Error::Forbidden { url, .. } if url == "s3://history/prefix" => {}
            error => wrong.push(format!("{doing}: {error}")),
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn who_names_a_bucket_that_is_not_there_is_told_which() {
    let server = servers::versitygw();
    let nowhere = Arc::new(service_of(&server, "nowhere", servers::SECRET_KEY));
    let mut machine = machine("first");
    machine.publish(1);
    assert_is!(Repository::open(nowhere.clone()), Err(Error::NoRepository { url }) if url == "s3://nowhere/prefix");
    let repository = Repository { bucket: nowhere.clone(), id: "x".to_owned(), keys: Arc::default() };
    let missing = [
        Repository::init(nowhere.clone(), None).map(drop),
        repository.history(&store()).newest().map(drop),
        machine.push(&repository).map(drop),
        repository.stores().map(drop),
        prune(&repository.history(&store()), &Keep::default(), false).map(drop),
    ];
    for (nth, found) in missing.into_iter().enumerate() {
        let error = found.expect_err(&nth.to_string());
        assert!(error.to_string().contains("s3://nowhere/prefix"), "{error}");
    }
}

#[test]
fn a_server_that_was_stopped_has_the_versions_after_it_was_started_again() {
    let mut server = servers::versitygw();
    server.bucket("history");
    let service = Arc::new(service_of(&server, "history", servers::SECRET_KEY));
    let (repository, _) = Repository::init(service, None).unwrap();
    let mut machine = machine("first");
    for round in 0..2 {
        machine.publish(round);
        machine.push(&repository).unwrap();
        server.stop();
        machine.publish(10 + round);
        for is_killed in [false, true] {
            if is_killed {
                machine.kill();
            }
            assert_is!(machine.push(&repository), Err(error @ Error::Service { .. }) if error.is_passing());
        }
        server.start_again();
        assert_eq!(machine.push(&repository).unwrap(), machine.versions);
    }
    let to = Machine::folder();
    let archive = Machine::archive_folder(&to);
    restore(&repository.history(&store()), None, &archive, &mut |_, _| {}).unwrap();
    assert_eq!(contents_of(&archive), machine.versions);
}

#[test]
fn what_a_server_over_files_has_lost_or_damaged_is_found_and_put_back() {
    let server = servers::versitygw();
    server.bucket("history");
    let service = Arc::new(service_of(&server, "history", servers::SECRET_KEY));
    let (repository, _) = Repository::init(service, None).unwrap();
    let (mut machine, history) = (machine("first"), repository.history(&store()));
    (0..4).for_each(|content| machine.publish(content));
    machine.push(&repository).unwrap();
    let keys: Vec<String> =
        history.newest().unwrap().unwrap().files.iter().map(|file| file.key(&store())).collect();
    let path = |key: &String| server.folder().unwrap().join("history/prefix").join(key);
    harm(&path(&keys[0]), harms()[6].1);
    harm(&path(&keys[1]), harms()[8].1);
    harm(&path(&keys[2]), harms()[1].1);
    let found = |depth| -> Vec<String> {
        verify(&history, depth).unwrap().findings.into_iter().map(|found| found.key).collect()
    };
    assert_eq!(found(Depth::Listed), keys[..2]);
    assert_eq!(found(Depth::Read), keys[..3]);
    machine.kill();
    machine.push(&repository).unwrap();
    assert_eq!(found(Depth::Listed), [""; 0]);
    assert_eq!(found(Depth::Read), keys[2..3], "a listing does not say that a byte is another one");
}

// Hostile servers.

/// A server that answers what a test says, to each connection one request; or closes the connection.
struct Hostile {
    endpoint: String,
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    /// How many requests came.
    asked: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// The head of a request, and what is answered to it.
type Answer = dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync;
/// One that remembers nothing.
type Respond = fn(&str) -> Option<Vec<u8>>;

impl Hostile {
    fn new(answer: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (is_over, asked): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let thread = thread::spawn({
            let (is_over, asked) = (Arc::clone(&is_over), Arc::clone(&asked));
            let answer: Arc<Answer> = Arc::new(answer);
            move || {
                let is_on = || !is_over.load(Ordering::SeqCst);
                for stream in listener.incoming().map(Result::unwrap).take_while(|_| is_on()) {
                    let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
                    // Who hangs up early is no concern of this.
                    thread::spawn(move || talk(&stream, &asked, &*answer).ok());
                }
            }
        });
        Self { endpoint: format!("http://{address}"), address, is_over, asked, thread: Some(thread) }
    }

    fn service(&self) -> Service {
        opened(&self.endpoint, "s3://history", &Stop::new(), &[])
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Reads a request, and answers it.
fn talk(stream: &TcpStream, asked: &AtomicUsize, answer: &Answer) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.split_once("\r\ncontent-length: ").map_or("0", |(_, rest)| rest);
    let length = length.lines().next().unwrap().parse().unwrap();
    io::copy(&mut reader.take(length), &mut io::sink())?;
    asked.fetch_add(1, Ordering::SeqCst);
    let mut stream = stream;
    stream.write_all(&answer(&head).unwrap_or_default())
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

/// An answer after which the connection is closed.
fn answer(status: &str, head: &str, body: &[u8]) -> Option<Vec<u8>> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{head}\r\n");
    Some([head.as_bytes(), body].concat())
}

/// What S3 says of each object.
const OBJECT: &str = "etag: \"x\"\r\nlast-modified: Thu, 19 Nov 2026 17:00:00 GMT\r\n";

/// Half of an answer that is said to be twice as long.
fn half(body: &[u8], head: &str) -> Option<Vec<u8>> {
    let length = 2 * body.len();
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n{head}\r\n");
    Some([head.as_bytes(), body].concat())
}

/// Does everything with a service, at the same time; answers what came of it.
fn all_of(service: &Service) -> [(&'static str, Result<String, Error>); 6] {
    thread::scope(|scope| {
        let create = scope.spawn(|| service.create("report/m/1", b"x").map(|done| format!("{done}")));
        let store = scope.spawn(|| {
            let stored = service.store("report/f/1", 1, &mut [Ok(vec![1])].into_iter());
            stored.map(|()| String::new())
        });
        let read = scope.spawn(|| {
            let mut bytes = Vec::new();
            let found = service.read("report/m/1", &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            });
            found.map(|found| format!("{found}: {}", String::from_utf8_lossy(&bytes)))
        });
        let look = scope.spawn(|| {
            let found = service.look("report/m/1");
            found.map(|found| found.map_or_else(String::new, |entry| entry.bytes.to_string()))
        });
        let list = scope.spawn(|| service.list("report/m/", None, 10).map(|found| format!("{found:?}")));
        let delete = scope.spawn(|| service.delete("report/m/1").map(|()| String::new()));
        let all = [
            ("create", create),
            ("store", store),
            ("read", read),
            ("look", look),
            ("list", list),
            ("delete", delete),
        ];
        all.map(|(doing, thread)| (doing, thread.join().unwrap()))
    })
}

/// Servers that answer nonsense, each with its name; and what is no error all the same.
type Nonsense = (&'static str, Respond, &'static [(&'static str, &'static str)]);

fn nonsense() -> [Nonsense; 14] {
    const PAGE: &[u8] = b"<html><body>Log in</body></html>";
    [
        ("500", |_| answer("500 Internal Server Error", "", b"<Error/>"), &[]),
        ("503", |_| answer("503 Slow Down", "", b""), &[]),
        ("429", |_| answer("429 Too Many Requests", "", b""), &[]),
        ("400", |_| answer("400 Bad Request", "", b""), &[]),
        // Of two creations at the same moment neither may have been done: who creates looks then.
        ("409", |_| answer("409 Conflict", "", b""), &[("create", "false")]),
        ("412", |_| answer("412 Precondition Failed", "", b""), &[("create", "false")]),
        ("redirection", |_| answer("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", b""), &[]),
        ("no answer", |_| None, &[]),
        ("no HTTP", |_| Some(b"220 mail.example ready\r\n".to_vec()), &[]),
        ("half a head", |_| Some(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()), &[]),
        // What an object has is not this layer's concern.
        ("nothing", |_| answer("200 OK", "", b""), &[("read", "true: "), ("look", "0")]),
        (
            "a page",
            |_| answer("200 OK", "content-type: text/html\r\n", PAGE),
            // To the library, any XML is a listing. It comes out when something is asked for by its number.
            &[("read", "true: <html><body>Log in</body></html>"), ("look", "32"), ("list", "[]")],
        ),
        ("half a body", |_| half(b"<ListBucketResult>", ""), &[("look", "36")]),
        (
            "half a listing",
            |head| {
                let close = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<ListBucketResult><Contents><Key>a";
                head.starts_with("get /history?").then(|| close.as_bytes().to_vec())
            },
            &[],
        ),
    ]
}

#[test]
fn a_server_that_answers_nonsense_is_not_believed_and_not_waited_for() {
    let begun = Instant::now();
    let wrong: Vec<String> = thread::scope(|scope| {
        let servers = nonsense().map(|(what, respond, fine)| {
            scope.spawn(move || {
                let server = Hostile::new(respond);
                let wrong = all_of(&server.service()).into_iter().filter_map(|(doing, found)| {
                    let expected = fine.iter().find(|(name, _)| *name == doing);
                    let is_right = match (&found, expected) {
                        (Ok(found), Some((_, expected))) => found == expected,
                        (Err(error @ Error::Service { .. }), None) => error.is_passing(),
                        _ => false,
                    };
                    (!is_right).then(|| format!("{what}: {doing}: {found:?}"))
                });
                wrong.collect::<Vec<_>>()
            })
        });
        servers.into_iter().flat_map(|server| server.join().unwrap()).collect()
    });
    assert_eq!(wrong, [""; 0]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_page_in_the_place_of_a_service_is_no_empty_history() {
    let (what, respond, _) = nonsense()[11];
    let server = Hostile::new(respond);
    let bucket = Arc::new(server.service());
    assert_is!(Repository::open(bucket.clone()), Err(Error::Damaged { key, .. }) if key == "asat.json");
    let repository = Repository { bucket, id: String::new(), keys: Arc::default() };
    let (history, mut machine) = (repository.history(&store()), machine("first"));
    machine.publish(1);
    assert!(history.newest().is_err(), "{what}");
    assert!(machine.push(&repository).is_err(), "{what}");
    assert!(verify(&history, Depth::Listed).is_err(), "{what}");
    assert!(prune(&history, &keep(0, 1), false).is_err(), "{what}");
}

#[test]
fn what_a_server_says_does_not_reach_a_terminal_as_it_is_and_is_cut_short() {
    let server = Hostile::new(|_| answer("400 Bad Request", "", "\x1b[31m\r\nno ".repeat(9000).as_bytes()));
    for (doing, found) in all_of(&server.service()) {
        let text = found.expect_err(doing).to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(text.chars().count() < 600, "{doing}: {} characters", text.chars().count());
    }
}

#[test]
fn who_may_not_is_told_so_and_not_asked_again() {
    let mut wrong = Vec::new();
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let server = Hostile::new(move |_| answer(status, "", b"<Error><Code>AccessDenied</Code></Error>"));
        for (doing, found) in all_of(&server.service()) {
            match found.expect_err(doing) {
                Error::Forbidden { url, .. } if url == "s3://history" => {}
                error => wrong.push(format!("{status}: {doing}: {error}")),
            }
        }
        assert_eq!(server.asked(), 6);
    }
    assert_eq!(wrong, [""; 0]);
}

/// The first byte of what is asked for, if a part is.
fn from(head: &str) -> Option<usize> {
    let range = head.split_once("\r\nrange: bytes=")?.1;
    range.split_once('-')?.0.parse().ok()
}

#[test]
fn a_reading_that_breaks_off_goes_on_where_it_was() {
    let body: Vec<u8> = (0..100_u8).collect();
    for etag in [OBJECT, OBJECT.split_once("\r\n").unwrap().1] {
        let (whole, etag) = (body.clone(), etag.to_owned());
        // Each connection ends after eleven bytes.
        let server = Hostile::new(move |head| {
            let (begin, all) = (from(head).unwrap_or(0), whole.len());
            let (status, left) = (if begin > 0 { "206 Partial Content" } else { "200 OK" }, all - begin);
            let range = format!("content-range: bytes {begin}-{}/{all}\r\n", all - 1);
            let head = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {left}\r\n{range}{etag}\r\n"
            );
            Some([head.as_bytes(), &whole[begin..(begin + 11).min(all)]].concat())
        });
        let mut read = Vec::new();
        let found = server.service().read("report/f/1", &mut |piece| {
            read.extend_from_slice(piece);
            Ok(())
        });
        assert!(found.unwrap());
        assert_eq!(read, body);
    }
}

#[test]
fn a_reading_that_does_not_get_on_is_an_error_in_the_end() {
    let body = b"the first half of it";
    let servers: [Respond; 4] = [
        // It does not know of parts.
        |_| half(b"the first half of it", OBJECT),
        // It has nothing more.
        |head| if from(head).is_some() { None } else { half(b"the first half of it", OBJECT) },
        |head| {
            let gone = || answer("404 Not Found", "", b"");
            if from(head).is_some() { gone() } else { half(b"the first half of it", OBJECT) }
        },
        // It has another part than the one that was asked for.
        |head| {
            let part = "content-range: bytes 0-19/40\r\n";
            let other = || answer("206 Partial Content", &format!("{part}{OBJECT}"), b"the first half of it");
            if from(head).is_some() { other() } else { half(b"the first half of it", OBJECT) }
        },
    ];
    for (nth, respond) in servers.into_iter().enumerate() {
        let (server, mut read) = (Hostile::new(respond), Vec::new());
        let found = server.service().read("report/f/1", &mut |piece| {
            read.extend_from_slice(piece);
            Ok(())
        });
        assert!(!matches!(found, Ok(true)), "server {nth}: {found:?}");
        assert!(body.starts_with(&read), "server {nth}: {}", String::from_utf8_lossy(&read));
        assert!(server.asked() < 30, "server {nth}: {} requests", server.asked());
    }
}

#[test]
fn a_creation_that_was_done_before_a_server_failed_is_looked_for() {
    // The first answer is lost, and the library asks again: it is there then.
    let is_there = AtomicBool::new(false);
    let server = Hostile::new(move |_| {
        if is_there.swap(true, Ordering::SeqCst) {
            answer("412 Precondition Failed", "", b"")
        } else {
            answer("500 Internal Server Error", "", b"")
        }
    });
    assert!(!server.service().create("report/m/1", b"x").unwrap());
    assert_eq!(server.asked(), 2);
}

/// The stores in a bucket that has these keys; fails if there is no end to looking for them.
fn stores_among(keys: &'static [&'static str], url: &str) -> Result<Vec<String>, Error> {
    let server = Hostile::new(move |head| {
        let query = head.split_once('?')?.1.split_once(' ')?.0;
        let value = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)).unwrap_or_default();
            value.replace("%2f", "/")
        };
        let (prefix, delimiter) = (value("prefix="), value("delimiter="));
        let said = "<Size>0</Size><LastModified>2026-11-19T17:00:00.000Z</LastModified><ETag>x</ETag>";
        let entry = |key: &&str| match key.strip_prefix(&prefix)?.split_once(&delimiter) {
            Some((name, _)) => {
                Some(format!("<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>"))
            }
            None => Some(format!("<Contents><Key>{key}</Key>{said}</Contents>")),
        };
        let found: BTreeSet<String> = keys.iter().filter_map(entry).collect();
        let found = Vec::from_iter(found).concat();
        answer("200 OK", "", format!("<ListBucketResult>{found}</ListBucketResult>").as_bytes())
    });
    let stop = Stop::new();
    let bucket = Arc::new(opened(&server.endpoint, url, &stop, &[]));
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        sender.send(Repository { bucket, id: String::new(), keys: Arc::default() }.stores())
    });
    let found = receiver.recv_timeout(Duration::from_secs(3));
    stop.stop();
    let _ = thread.join().unwrap();
    let found = found.unwrap_or_else(|_| panic!("there is no end to it after {} requests", server.asked()));
    found.map(|stores| stores.iter().map(ToString::to_string).collect())
}

#[test]
fn the_objects_that_a_console_makes_for_folders_do_no_harm() {
    type Case = (&'static str, &'static [&'static str], &'static [&'static str]);
    let buckets: [Case; 4] = [
        ("s3://history", &["asat.json", "s/report/m/999999999998-1.json"], &["report"]),
        (
            "s3://history",
            &["asat.json", "s/", "s/report/", "s/report/f/", "s/report/m/", "s/report/m/999999999998-1.json"],
            &["report"],
        ),
        // It has the name of a store that nothing was published of.
        ("s3://history", &["asat.json", "s/report/m/999999999998-1.json", "s/zz/"], &["report", "zz"]),
        (
            "s3://history/of",
            &["of/", "of/asat.json", "of/s/", "of/s/report/m/999999999998-1.json"],
            &["report"],
        ),
    ];
    for (url, keys, stores) in buckets {
        assert_eq!(stores_among(keys, url).unwrap(), stores, "{keys:?}");
    }
}

#[test]
fn what_others_have_in_the_same_bucket_does_no_harm() {
    for keys in [
        &["app/a", "asat.json", "s/report/m/999999999998-1.json", "zz"][..],
        &["app//a", "asat.json", "s/report/m/999999999998-1.json"],
        &["asat.json", "r", "s", "s0/a", "s/report/m/999999999998-1.json"],
    ] {
        let found = stores_among(keys, "s3://history").unwrap();
        assert!(found.contains(&"report".to_owned()), "{keys:?}: {found:?}");
    }
}

#[test]
fn what_does_not_get_through_with_one_request_is_stored_in_parts() {
    for refused in [Some("413 Content Too Large"), None] {
        let server = Hostile::new(move |head| {
            let line = head.lines().next().unwrap();
            let begun =
                "<InitiateMultipartUploadResult><UploadId>x</UploadId></InitiateMultipartUploadResult>";
            let ended = "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>";
            match line.split(' ').next().unwrap() {
                "post" if line.contains("uploads") => answer("200 OK", "", begun.as_bytes()),
                "post" => answer("200 OK", "", ended.as_bytes()),
                _ if line.contains("partnumber=") => answer("200 OK", "ETag: \"x\"\r\n", b""),
                _ => refused.and_then(|status| answer(status, "", b"")),
            }
        });
        let service = server.service();
        let mut parts = [8 << 20, 8 << 20, 1].into_iter().map(|bytes| Ok(vec![7; bytes]));
        service.store("s/report/f/1", (16 << 20) + 1, &mut parts).unwrap();
        // What is short has no parts.
        assert_is!(
            service.store("s/report/f/1", 1, &mut [Ok(vec![7])].into_iter()),
            Err(Error::Service { .. })
        );
    }
}

#[test]
fn a_server_that_hangs_is_given_up_after_the_timeout() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let service = opened(&endpoint, "s3://history", &Stop::new(), &[("timeout", "200ms")]);
    for (doing, found) in all_of(&service) {
        assert_is!(found.expect_err(doing), Error::Service { .. });
    }
}

#[test]
fn a_request_that_hangs_ends_at_once_when_it_is_stopped() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let stop = Stop::new();
    let service = opened(&endpoint, "s3://history", &stop, &[]);
    let stopped = thread::scope(|scope| {
        let all = scope.spawn(|| all_of(&service));
        // They have been sent when they are stopped.
        let _open: Vec<TcpStream> = (0..6)
            .map(|_| {
                let mut stream = listener.accept().unwrap().0;
                stream.read_exact(&mut [0; 16]).unwrap();
                stream
            })
            .collect();
        let at = Instant::now();
        stop.stop();
        let stopped = all.join().unwrap();
        assert!(at.elapsed() < Duration::from_secs(2), "{:?}", at.elapsed());
        stopped
    });
    // What is begun later is not begun.
    for (doing, found) in stopped.into_iter().chain(all_of(&service)) {
        assert_is!(found.expect_err(doing), Error::Stopped);
    }
    let large = vec![7; 9 << 20];
    let mut parts = [Ok(large[..8 << 20].to_vec()), Ok(large[8 << 20..].to_vec())].into_iter();
    assert_is!(service.store("report/f/1", 9 << 20, &mut parts), Err(Error::Stopped));
}
