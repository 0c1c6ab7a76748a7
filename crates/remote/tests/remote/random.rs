//! Machines that publish to one bucket, take over from one another, are copied, restored and killed, while the bucket fails in
//! all ways: no version that was said to be stored is lost, and no two histories mix. Whoever follows has what was published, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asat_archive::{Archive, Error as ArchiveError};
use asat_remote::{Cache, Error, Follower, Keep, NoteFile, Repository, prune, restore};
use tempfile::TempDir;

use crate::encrypted;
use crate::following::Reading;
use crate::machine::{Accident, Machine, archive_at, contents, store};
use crate::model::{Dice, Model};

/// Everything that goes on around one bucket.
struct World {
    bucket: Arc<Model>,
    repository: Repository,
    dice: Arc<Dice>,
    machines: Vec<Mutex<Machine>>,
    followers: Vec<Mutex<Follower>>,
    /// Where the followers have their caches and their notes.
    folder: TempDir,
    /// What each manifest has, as far as somebody has said so: what was stored, and what was lost on the machine that said it.
    manifests: Mutex<BTreeMap<u64, [BTreeMap<u64, u64>; 2]>>,
    /// What was said to be stored, with what it has, and the manifest with which it was: this must be in the bucket from then on.
    stored: Mutex<(u64, BTreeMap<u64, u64>)>,
    /// What was given up anywhere.
    retired: Mutex<BTreeSet<(u64, u64)>>,
    /// What was done, for people.
    told: Arc<Mutex<Vec<String>>>,
}

/// A manifest that was superseded is kept for so many seconds of the bucket.
const KEEP: Keep = Keep { grace: Duration::from_secs(60), manifests: 2 };

impl World {
    fn new(seed: u64, told: &Arc<Mutex<Vec<String>>>) -> Self {
        let dice = Arc::new(Dice::new(seed));
        let bucket = Arc::new(Model::new(Arc::clone(&dice)));
        let (recipients, identities) = if seed % 4 == 3 { encrypted::keys() } else { (None, None) };
        let (repository, _) = Repository::init(bucket.clone(), recipients.as_ref()).unwrap();
        let repository = repository.read_with(identities);
        *bucket.faults.lock().unwrap() = dice.below(4) * 15;
        let mut first = Machine::new("m0", Machine::folder(), &dice);
        first.publish(dice.below(u64::MAX));
        let (machines, followers, folder) = (vec![Mutex::new(first)], Vec::new(), Machine::folder());
        let (manifests, stored, retired) = (Mutex::default(), Mutex::default(), Mutex::default());
        let told = Arc::clone(told);
        let mut world =
            Self { bucket, repository, dice, machines, followers, folder, manifests, stored, retired, told };
        // It is followed in some of the scenarios only, as that takes its time.
        for nth in 0..[2, 0, 0, 1, 0, 0][usize::try_from(seed % 6).unwrap()] {
            world.followers.push(Mutex::new(world.follower(nth)));
        }
        world
    }

    /// A follower that has just started.
    fn follower(&self, nth: usize) -> Follower {
        // No two stores are the same one, so nobody shares what is fetched of one with another follower of it.
        let bucket = Arc::new(Reading(self.bucket.clone()));
        let cache = Cache::new(bucket.clone(), self.folder.path(), 0).unwrap();
        let repository = Repository { bucket, ..self.repository.clone() };
        let note = NoteFile(self.folder.path().join(format!("note-{nth}")));
        Follower::new(&repository, &store(), &cache).noted_in(Box::new(note))
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }

    /// Something happens on a machine, unless it is in the middle of something.
    fn act(&self) {
        if !self.followers.is_empty() && self.dice.per_mille(200) {
            return self.poll();
        }
        let nth = self.dice.below(u64::try_from(self.machines.len()).unwrap());
        let Ok(mut machine) = self.machines[usize::try_from(nth).unwrap()].try_lock() else { return };
        match self.dice.below(24) {
            0..5 => machine.publish(self.dice.below(u64::MAX)),
            5..7 => {
                if let Some((number, content)) =
                    machine.versions.first_key_value().map(|(number, content)| (*number, *content))
                {
                    machine.retire(number);
                    self.retired.lock().unwrap().insert((number, content));
                }
            }
            7 => _ = machine.archive.compact(&mut |_| std::ops::ControlFlow::Continue(())).unwrap(),
            8 => machine.kill(),
            9 => self.bucket.pass(i64::try_from(self.dice.below(100)).unwrap()),
            10 => {
                let pruned = prune(&self.repository.history(&store()), &KEEP, false);
                self.tell(format!("prune: {pruned:?}"));
            }
            11 => {
                let taken = machine.take_over(&self.repository);
                self.tell(format!("{} takes over: {taken:?}", machine.name));
            }
            12 => machine.back_up(),
            13 if self.dice.per_mille(400) => {
                let accidents = [
                    Accident::Gone,
                    Accident::Damaged,
                    Accident::PutBack,
                    Accident::PutBackBeside,
                    Accident::Anew,
                ];
                let accident = accidents[usize::try_from(self.dice.below(5)).unwrap()];
                machine.suffer(accident);
                self.tell(format!(
                    "{} suffers {accident:?}, and has {:?}",
                    machine.name,
                    machine.versions.keys()
                ));
                // It is started again, and looks at its archive before it publishes anything.
                while let Err(Error::Stopped) = machine.push(&self.repository) {}
            }
            _ => self.push(&mut machine),
        }
    }

    fn push(&self, machine: &mut Machine) {
        // What was stored before, or while this is under way, is what the machine had or somebody else's.
        match machine.push(&self.repository) {
            Ok(versions) => {
                self.tell(format!("{} stored {:?}", machine.name, versions.keys()));
                let said = [versions.clone(), machine.lost.clone()];
                self.manifests.lock().unwrap().entry(machine.head()).or_insert(said);
                let mut stored = self.stored.lock().unwrap();
                let at = machine.head();
                if at >= stored.0 {
                    for (number, content) in &stored.1 {
                        let is_there = versions.get(number) == Some(content);
                        let is_retired = machine.retired.get(number) == Some(content)
                            || machine.lost.get(number) == Some(content);
                        assert!(
                            is_there || is_retired,
                            "{}: version {number} was stored, and is lost",
                            machine.name
                        );
                    }
                    // What is lost here is in the bucket as ever.
                    let kept =
                        stored.1.iter().filter(|(number, content)| machine.lost.get(number) == Some(content));
                    let kept: Vec<(u64, u64)> = kept.map(|(number, content)| (*number, *content)).collect();
                    *stored = (at, versions.into_iter().chain(kept).collect());
                } else {
                    // Somebody has taken over between the manifest and this.
                    let retired = self.retired.lock().unwrap();
                    for (number, content) in &versions {
                        let is_there =
                            stored.1.get(number) == Some(content) || retired.contains(&(*number, *content));
                        assert!(is_there, "{}: version {number} was taken over, and is lost", machine.name);
                    }
                }
            }
            Err(error) => self.tell(format!("{}: {error}", machine.name)),
        }
    }

    /// A follower looks whether there is something new, unless it is in the middle of that.
    fn poll(&self) {
        let nth = usize::try_from(self.dice.below(u64::try_from(self.followers.len()).unwrap())).unwrap();
        let Ok(mut follower) = self.followers[nth].try_lock() else { return };
        if self.dice.per_mille(100) {
            self.tell(format!("follower {nth} starts again"));
            *follower = self.follower(nth);
        }
        let before = (number_of(&follower), follower.archive().newest_file());
        match follower.follow(&BTreeSet::new()) {
            Ok(is_new) => assert_eq!(is_new, number_of(&follower) > before.0),
            Err(error) => {
                // Half of a body is no content, and what was pruned meanwhile is not there.
                let is_archive = |error: &ArchiveError| {
                    error.is_loss() || matches!(error, ArchiveError::Away { .. } | ArchiveError::Stopped)
                };
                let is_expected = match &error {
                    Error::Service { .. } => true,
                    Error::Archive(error) => is_archive(error),
                    _ => false,
                };
                assert!(is_expected, "follower {nth}: {error}");
                assert_eq!((number_of(&follower), follower.archive().newest_file()), before);
            }
        }
        self.tell(format!("follower {nth} is at {}: {:?}", number_of(&follower), follower.archive().live()));
        self.look(&follower, false);
        // Nothing fails and nobody else does anything, while it is seen what it has.
        let between = self.bucket.between.lock().unwrap().take();
        let faults = std::mem::take(&mut *self.bucket.faults.lock().unwrap());
        self.look(&follower, true);
        *self.bucket.faults.lock().unwrap() = faults;
        *self.bucket.between.lock().unwrap() = between;
        if self.dice.per_mille(500) {
            follower.note().unwrap();
        }
    }

    /// Compares what a follower has with what was published. What was pruned since it has heard of it last may be lost, and nothing else once
    /// the bucket is `calm`.
    fn look(&self, follower: &Follower, is_calm: bool) {
        let Some(manifest) = follower.manifest() else {
            assert!(follower.archive().live().is_empty());
            return;
        };
        let may_be_lost = !is_calm || self.may_be_superseded(manifest.number);
        let said = self.manifests.lock().unwrap().get(&manifest.number).cloned();
        let (archive, mut found) = (follower.archive(), BTreeMap::new());
        for number in archive.live() {
            match content(archive, number) {
                Ok(content) => _ = found.insert(number, content),
                Err(error) => {
                    let is_away = !is_calm && matches!(error, ArchiveError::Away { .. });
                    assert!(is_away || may_be_lost && error.is_loss(), "version {number}: {error}");
                }
            }
        }
        let Some([stored, lost_there]) = said else { return };
        let at = manifest.number;
        for (number, content) in &found {
            let is_right = stored.get(number).or(lost_there.get(number)) == Some(content);
            assert!(is_right, "version {number} has another content than in manifest {at}");
        }
        let numbers: Vec<u64> = stored.keys().copied().collect();
        assert_eq!(archive.given_up(&numbers), [0; 0], "nothing of manifest {at} was given up");
        for (number, content) in &stored {
            assert!(
                may_be_lost || found.get(number) == Some(content),
                "version {number} of manifest {at} is lost"
            );
        }
    }

    /// Whether there may be a newer manifest than the one of this number.
    fn may_be_superseded(&self, number: u64) -> bool {
        let newest = self.repository.history(&store()).newest();
        // If that cannot be read at the moment, there may be.
        newest.map_or(true, |newest| newest.is_some_and(|newest| newest.number > number))
    }

    /// A machine comes: a copy of another one, or one on which the bucket's history was restored.
    fn come(&mut self) {
        let name = format!("m{}", self.machines.len());
        let machine = if self.dice.per_mille(500) {
            let nth = usize::try_from(self.dice.below(u64::try_from(self.machines.len()).unwrap())).unwrap();
            self.machines[nth].lock().unwrap().copy(&name)
        } else {
            let folder = Machine::folder();
            let to = Machine::archive_folder(&folder);
            if restore(&self.repository.history(&store()), None, &to, &mut |_, _| {}).is_err() {
                return;
            }
            let mut machine = Machine::new(&name, folder, &self.dice);
            machine.versions = contents(&machine.archive);
            let retired = self.retired.lock().unwrap();
            let is_gone = |(number, content): &(u64, u64)| machine.versions.get(number) != Some(content);
            machine.retired = retired.iter().copied().filter(is_gone).collect();
            drop(retired);
            machine
        };
        self.tell(format!("{name} comes with {:?}", machine.versions.keys()));
        self.machines.push(Mutex::new(machine));
    }

    /// In the end the bucket has all versions that a machine said were stored.
    fn check(&self) {
        *self.bucket.between.lock().unwrap() = None;
        *self.bucket.faults.lock().unwrap() = 0;
        // It would arrive between two of the looks that follow.
        self.bucket.arrive();
        let stored = self.stored.lock().unwrap().1.clone();
        let history = self.repository.history(&store());
        let Some(newest) = history.newest().unwrap() else {
            assert!(stored.is_empty());
            return;
        };
        // The row of manifests has no gap and no fork.
        let mut next = newest.clone();
        while let Some(number) = next.number.checked_sub(1).filter(|number| *number > 0) {
            let Ok(before) = history.manifest(number) else { break };
            assert!(next.epoch == before.epoch || next.epoch == before.epoch + 1);
            assert!(next.epoch > before.epoch || next.holder.host == before.holder.host);
            next = before;
        }
        let folder = tempfile::tempdir().unwrap();
        restore(&history, None, &folder.path().join("archive"), &mut |_, _| {}).unwrap();
        let restored = contents(&archive_at(&folder.path().join("archive")).unwrap());
        for follower in &self.followers {
            let mut follower = follower.lock().unwrap();
            while follower.follow(&BTreeSet::new()).unwrap() {}
            assert_eq!(follower.manifest(), Some(&newest));
            self.look(&follower, true);
            let followed = contents(follower.archive());
            for (number, content) in &restored {
                // A publisher that cannot read what it has written last says nothing of it before it is put right.
                let is_unread = || follower.archive().given_up(&[*number]).is_empty();
                assert!(
                    followed.get(number).map_or_else(is_unread, |found| found == content),
                    "version {number}"
                );
            }
            assert!(followed.keys().all(|number| restored.contains_key(number)));
        }
        let retired = self.retired.lock().unwrap();
        for (number, content) in stored {
            let is_there = restored.get(&number) == Some(&content);
            // A manifest whose answer was lost may be newer than what was said.
            assert!(
                is_there || retired.contains(&(number, content)),
                "version {number} was stored, and is lost"
            );
        }
    }
}

/// The manifest that a follower has come to; 0 if it has come to none.
fn number_of(follower: &Follower) -> u64 {
    follower.manifest().map_or(0, |manifest| manifest.number)
}

/// What content a version has, all of which is read.
fn content(archive: &Archive, number: u64) -> Result<u64, ArchiveError> {
    let reader = archive.read(number)?;
    let mut bytes = [0; 8];
    reader.read_at(512, &mut bytes)?;
    assert_eq!(reader.fingerprint()?, reader.meta().fingerprint);
    Ok(u64::from_le_bytes(bytes))
}

fn scenario(seed: u64, told: &Arc<Mutex<Vec<String>>>) {
    let mut world = World::new(seed, told);
    for _ in 0..2 + world.dice.below(4) {
        let shared = Arc::new(world);
        let weak = Arc::downgrade(&shared);
        // Others go on between two operations of one.
        let between = move || {
            let world = weak.upgrade().unwrap();
            if world.dice.per_mille(120) {
                world.act();
            }
        };
        *shared.bucket.between.lock().unwrap() = Some(Arc::new(between));
        (0..12).for_each(|_| shared.act());
        *shared.bucket.between.lock().unwrap() = None;
        world = Arc::into_inner(shared).unwrap();
        world.come();
    }
    world.check();
}

/// How many scenarios are tried, and from which seed on.
fn asked(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|asked| asked.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_fails_nothing_that_was_stored_is_lost_and_no_two_publishers_mix() {
    let from = asked("SCENARIOS_FROM", 0);
    for seed in from..from + asked("SCENARIOS", 300) {
        let told = Arc::default();
        let outcome = std::panic::catch_unwind(|| scenario(seed, &told));
        if outcome.is_err() {
            let told = told.lock().unwrap().join("\n");
            panic!("{told}\nSCENARIOS=1 SCENARIOS_FROM={seed} cargo test -p asat-remote random");
        }
    }
}
