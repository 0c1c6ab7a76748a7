//! A repository whose files are encrypted: who stores them has recipients, and who reads them an identity.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use asat_archive::Cut;
use asat_core::PageSize;
use asat_remote::{
    Cache, Depth, Error, Follower, Identities, Keep, NoteFile, Notes, Recipients, Repository, prune,
    put_back, restore, verify,
};
use tempfile::TempDir;

use crate::following::Reading;
use crate::machine::{Machine, archive_at, contents, store};
use crate::model::{Dice, Fault, Model};

/// A bucket, its repository, and an identity that reads it.
struct World {
    bucket: Arc<Model>,
    repository: Repository,
    folder: TempDir,
}

fn identity(path: &Path) -> String {
    let identity = age::x25519::Identity::generate();
    fs::write(
        path,
        format!("# a comment\n{}\n", age::secrecy::ExposeSecret::expose_secret(&identity.to_string())),
    )
    .unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    identity.to_public().to_string()
}

/// A recipient, and the identity that reads what is encrypted to it.
pub(crate) fn keys() -> (Option<Recipients>, Option<Identities>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.txt");
    let recipients = Recipients::parse(&[identity(&path)]).unwrap();
    (Some(recipients), Some(Identities::read(&path).unwrap()))
}

impl World {
    fn new() -> (Self, Machine) {
        let (dice, folder) = (Arc::new(Dice::new(1)), tempfile::tempdir().unwrap());
        let bucket = Arc::new(Model::new(Arc::clone(&dice)));
        let texts = ["mine.txt", "yours.txt"].map(|name| identity(&folder.path().join(name)));
        let recipients = Recipients::parse(&texts).unwrap();
        let (repository, is_made) = Repository::init(bucket.clone(), Some(&recipients)).unwrap();
        assert!(is_made);
        let machine = Machine::steady("m0", Machine::folder());
        (Self { bucket, repository, folder }, machine)
    }

    fn read_with(&self, name: &str) -> Repository {
        let identities = Identities::read(&self.folder.path().join(name)).unwrap();
        self.repository.clone().read_with(Some(identities))
    }

    fn files(&self) -> Vec<String> {
        self.bucket.keys().into_keys().filter(|key| key.contains("/f/")).collect()
    }
}

#[test]
fn what_is_stored_is_read_by_each_recipient_and_by_nobody_else() {
    let (world, mut machine) = World::new();
    for seed in 1..4 {
        machine.publish(seed);
    }
    machine.push(&world.repository).unwrap();
    for key in world.files() {
        assert!(key.ends_with(".segment.age"), "{key}");
        assert!(world.bucket.bytes(&key).unwrap().starts_with(b"age-encryption.org/v1\n"), "{key}");
    }
    for name in ["mine.txt", "yours.txt"] {
        let history = world.read_with(name).history(&store());
        let to = world.folder.path().join(format!("restored with {name}"));
        assert_eq!(restore(&history, None, &to, &mut |_, _| {}).unwrap().versions.len(), 3);
        assert_eq!(contents(&archive_at(&to).unwrap()), machine.versions);
        let report = verify(&history, Depth::Read).unwrap();
        assert!(report.read > 0 && report.findings.is_empty(), "{report:?}");
    }
    let to = world.folder.path().join("restored by nobody");
    let history = world.repository.history(&store());
    let refused = restore(&history, None, &to, &mut |_, _| {}).unwrap_err();
    assert!(matches!(refused, Error::Encrypted { .. }), "{refused}");
    // Whether everything is there can be seen without an identity.
    assert!(verify(&history, Depth::Listed).unwrap().findings.is_empty());
    identity(&world.folder.path().join("other.txt"));
    let other = world.read_with("other.txt").history(&store());
    let refused = restore(&other, None, &to, &mut |_, _| {}).unwrap_err();
    assert!(matches!(refused, Error::Encrypted { .. }), "{refused}");
    assert!(!to.exists());
}

#[test]
fn what_a_follower_reads_is_decrypted_part_by_part() {
    let (world, mut machine) = World::new();
    machine.publish(1);
    machine.push(&world.repository).unwrap();
    let bucket = Arc::new(Reading(world.bucket.clone()));
    let cache = Cache::new(bucket.clone(), &world.folder.path().join("cache"), 0).unwrap();
    let repository = Repository { bucket, ..world.read_with("mine.txt") };
    let mut follower = Follower::new(&repository, &store(), &cache);
    for seed in 2..30 {
        follower.follow(&[].into()).unwrap();
        assert_eq!(contents(follower.archive()), machine.versions);
        machine.publish(seed);
        if seed % 8 == 0 {
            machine.archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        }
        machine.push(&world.repository).unwrap();
    }
    let blind = Repository { bucket: Arc::new(Reading(world.bucket.clone())), ..world.repository.clone() };
    let refused = Follower::new(&blind, &store(), &cache).follow(&[].into()).unwrap_err();
    assert!(refused.to_string().contains("no identity"), "{refused}");
}

#[test]
fn no_byte_that_was_changed_is_taken_for_what_was_stored() {
    let (world, mut machine) = World::new();
    machine.publish(1);
    machine.push(&world.repository).unwrap();
    let history = world.read_with("mine.txt").history(&store());
    let key = world.files().remove(0);
    let whole = world.bucket.bytes(&key).unwrap();
    let wrong = (0..whole.len()).step_by(7).map(|at| {
        let mut wrong = whole.clone();
        wrong[at] ^= 1;
        wrong
    });
    let cut = (0..whole.len()).step_by(501).map(|at| whole[..at].to_vec());
    for wrong in wrong.chain(cut).chain([[&*whole, b"x"].concat()]) {
        let length = wrong.len();
        world.bucket.damage(&key, |_| Some(wrong));
        let report = verify(&history, Depth::Read).unwrap();
        assert_eq!(report.findings.len(), 1, "{length} bytes");
    }
    world.bucket.damage(&key, |_| Some(whole));
    assert!(verify(&history, Depth::Read).unwrap().findings.is_empty());
}

#[test]
fn a_file_that_the_bucket_has_lost_is_stored_again_under_another_key() {
    let (world, mut machine) = World::new();
    machine.publish(1);
    machine.publish(2);
    machine.push(&world.repository).unwrap();
    let lost = world.files().remove(0);
    world.bucket.damage(&lost, |_| None);
    machine.kill();
    machine.push(&world.repository).unwrap();
    assert!(!world.files().contains(&lost));
    let history = world.read_with("mine.txt").history(&store());
    assert!(verify(&history, Depth::Read).unwrap().findings.is_empty());
    // And nothing of what is needed is pruned.
    world.bucket.pass(1000);
    let keep = Keep { grace: Duration::from_secs(10), manifests: 1 };
    prune(&world.repository.history(&store()), &keep, false).unwrap();
    assert!(verify(&history, Depth::Read).unwrap().findings.is_empty());
}

#[test]
fn what_the_archive_has_lost_is_put_back_if_there_is_an_identity() {
    let (world, mut machine) = World::new();
    machine.publish(1);
    machine.publish(2);
    machine.push(&world.repository).unwrap();
    let history = world.read_with("yours.txt").history(&store());
    let manifest = history.newest().unwrap().unwrap();
    let file = &manifest.files[0];
    let path = machine.archive.folder().join(file.id().name());
    let before = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let blind = world.repository.history(&store());
    let refused = put_back(&blind, &manifest, file.file, machine.archive.folder()).unwrap_err();
    assert!(matches!(refused, Error::Encrypted { .. }), "{refused}");
    assert!(put_back(&history, &manifest, file.file, machine.archive.folder()).unwrap());
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_repository_keeps_its_recipients() {
    let (world, _) = World::new();
    let other = Recipients::parse(&[identity(&world.folder.path().join("other.txt"))]).unwrap();
    for recipients in [None, Some(&other)] {
        let refused = Repository::init(world.bucket.clone(), recipients).unwrap_err();
        assert!(matches!(refused, Error::OtherRecipients { .. }), "{refused}");
        let opened = Repository::open(world.bucket.clone()).unwrap();
        assert!(opened.encrypted_to(recipients).is_err());
    }
    // Their order means nothing.
    let mut texts = world.repository.recipients().unwrap().texts();
    texts.reverse();
    let same = Recipients::parse(&texts).unwrap();
    assert!(!Repository::init(world.bucket.clone(), Some(&same)).unwrap().1);
}

#[test]
fn what_is_no_recipient_or_no_identity_is_refused_and_no_secret_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.txt");
    let recipient = identity(&path);
    let secret = fs::read_to_string(&path).unwrap().lines().nth(1).unwrap().to_owned();
    for wrong in [
        vec![],
        vec![String::new()],
        vec!["age1".to_owned()],
        vec![recipient.replace("age1", "age2")],
        vec![secret.clone()],
        vec![secret.to_lowercase()],
        vec![format!(" {secret}")],
        vec!["ssh-ed25519 AAAA".to_owned()],
        vec![recipient.clone(); 21],
    ] {
        let what = Recipients::parse(&wrong).unwrap_err();
        assert!(!what.to_lowercase().contains(&secret.to_lowercase()[16..]), "{what}");
    }
    let read = |text: &[u8], mode| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Identities::read(&path)
    };
    assert!(read(secret.as_bytes(), 0o640).is_ok());
    let broken = format!("{}x", secret);
    for (text, mode) in [
        (secret.as_bytes(), 0o644),
        (b"", 0o600),
        (b"# nothing", 0o600),
        (broken.as_bytes(), 0o600),
        (recipient.as_bytes(), 0o600),
        (&[0xff; 99], 0o600),
    ] {
        let what = read(text, mode).unwrap_err();
        assert!(what.contains("identity.txt") && !what.contains(&secret[16..]), "{what}");
    }
    assert!(Identities::read(&folder.path().join("missing")).is_err());
}

#[test]
fn long_files_that_were_stored_are_not_stored_again_after_a_kill() {
    let (world, mut machine) = World::new();
    let (page_size, count) = (PageSize::new(65536).unwrap(), 40);
    let mut writer = machine.archive.begin(1, page_size, count).unwrap();
    let mut dice = blake3::Hasher::new().finalize_xof();
    let mut page = vec![0; page_size.as_usize()];
    for number in 1..=count {
        dice.fill(&mut page);
        writer.page(number, &page).unwrap();
    }
    let cut_at = "2026-11-29T17:00:00Z".parse().unwrap();
    let note = serde_json::Value::Null;
    writer.finish(Cut { store: store(), cut_at, wal: true, note, even_if_unchanged: true }).unwrap();
    machine.versions.insert(1, 0);
    // The manifest does not come through.
    world.bucket.next("create", &[Fault::Refused; 3]);
    assert!(machine.push(&world.repository).is_err());
    let stored = world.files();
    assert_eq!(stored.len(), 1);
    machine.kill();
    machine.push(&world.repository).unwrap();
    assert_eq!(world.files(), stored);
    let note = NoteFile(machine.note());
    assert!(note.load().unwrap().unwrap().stored.is_empty());
}

/// A follower with another identity is told so: nothing is taken to be damaged.
#[test]
fn who_has_another_identity_is_told_so() {
    let (world, mut machine) = World::new();
    machine.publish(1);
    machine.push(&world.repository).unwrap();
    identity(&world.folder.path().join("other.txt"));
    let bucket = Arc::new(Reading(world.bucket.clone()));
    let cache = Cache::new(bucket.clone(), &world.folder.path().join("cache"), 0).unwrap();
    let repository = Repository { bucket, ..world.read_with("other.txt") };
    let refused = Follower::new(&repository, &store(), &cache).follow(&[].into()).unwrap_err();
    assert!(refused.to_string().contains("none of the identities"), "{refused}");
    assert!(refused.is_passing());
}

/// The manifest that repairs a loss is overtaken by one that was sent before, and names what is lost.
#[test]
fn a_loss_is_put_right_though_an_older_manifest_arrives_late() {
    let (world, mut machine) = World::new();
    machine.publish(1);
    machine.push(&world.repository).unwrap();
    machine.publish(2);
    world.bucket.next("create", &[Fault::Late, Fault::Refused, Fault::Refused]);
    assert!(machine.push(&world.repository).is_err());
    world.bucket.calm();
    machine.kill();
    let lost = world.files().remove(0);
    world.bucket.damage(&lost, |_| None);
    world.bucket.next("create", &[Fault::Overtaken]);
    machine.push(&world.repository).unwrap();
    let history = world.read_with("mine.txt").history(&store());
    assert_eq!(verify(&history, Depth::Read).unwrap().findings, []);
}

/// What was stored before the bucket was put back from a backup is not there after that.
#[test]
fn what_was_stored_and_not_named_is_looked_for_when_the_bucket_was_put_back() {
    for encrypted in [false, true] {
        let (mut world, mut machine) = World::new();
        if !encrypted {
            world.bucket = Arc::new(Model::new(Arc::new(Dice::new(1))));
            world.repository = Repository::init(world.bucket.clone(), None).unwrap().0;
        }
        machine.publish(1);
        machine.push(&world.repository).unwrap();
        let backup = world.bucket.keys();
        machine.publish(2);
        machine.push(&world.repository).unwrap();
        machine.publish(3);
        world.bucket.next("create", &[Fault::Refused; 3]);
        assert!(machine.push(&world.repository).is_err());
        for key in world.bucket.keys().into_keys().filter(|key| !backup.contains_key(key)) {
            world.bucket.damage(&key, |_| None);
        }
        machine.push(&world.repository).unwrap();
        let repository = if encrypted { world.read_with("mine.txt") } else { world.repository.clone() };
        assert_eq!(verify(&repository.history(&store()), Depth::Read).unwrap().findings, []);
    }
}

/// A machine that takes over what the bucket was put back to, while the publisher goes on.
#[test]
fn who_has_taken_over_from_a_bucket_that_was_put_back_is_noticed() {
    let (world, mut machine) = World::new();
    for version in 1..4 {
        machine.publish(version);
        machine.push(&world.repository).unwrap();
    }
    let mut other = machine.copy("m1");
    let newest = world.bucket.keys().into_keys().find(|key| key.contains("/m/")).unwrap();
    machine.publish(4);
    machine.push(&world.repository).unwrap();
    let after = world.bucket.keys().into_keys().find(|key| key.contains("/m/")).unwrap();
    assert_ne!(newest, after);
    world.bucket.damage(&after, |_| None);
    other.take_over(&world.repository).unwrap();
    let fenced = (5..20).find_map(|version| {
        machine.publish(version);
        machine.push(&world.repository).err()
    });
    assert!(matches!(fenced, Some(Error::Fenced { .. } | Error::Behind { .. })), "{fenced:?}");
}

#[test]
fn a_forged_envelope_is_damage_at_once() {
    let (world, mut machine) = World::new();
    machine.publish(1);
    machine.push(&world.repository).unwrap();
    let key = world.bucket.keys().into_keys().find(|key| key.contains("/m/")).unwrap();
    let text = String::from_utf8(world.bucket.bytes(&key).unwrap()).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let header = manifest["files"][0]["age"]["header"].as_str().unwrap().to_owned();
    let long = format!("age-encryption.org/v1\n-> X {}", "a".repeat(9000));
    let forged = [
        String::new(),
        long.clone(),
        format!("{long}\n"),
        header.trim_end().to_owned(),
        header.replace("\n--- ", "\n--- x\n--- "),
        format!("{header}x\n"),
        format!("\u{e9}{header}"),
        format!("{}{header}", "a".repeat(20_000)),
    ];
    for header in forged {
        let mut wrong = manifest.clone();
        wrong["files"][0]["age"]["header"] = header.clone().into();
        let line = wrong.to_string();
        let forged = format!("{line}\n{}\n", blake3::hash(line.as_bytes()).to_hex());
        world.bucket.damage(&key, |_| Some(forged.into_bytes()));
        let read = world.read_with("mine.txt").history(&store()).newest();
        assert!(matches!(read, Err(Error::Damaged { .. })), "{header:?}");
    }
}
