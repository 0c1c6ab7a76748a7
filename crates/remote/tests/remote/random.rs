//! Machines that publish to one bucket, take over from one another, are copied, restored and killed, while the bucket fails in
//! all ways: no version that was said to be stored is lost, and no two histories mix.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asat_archive::Archive;
use asat_remote::{Error, Keep, Repository, prune, restore};

use crate::machine::{Accident, Machine, contents, store};
use crate::model::{Dice, Model};

/// Everything that goes on around one bucket.
struct World {
    bucket: Arc<Model>,
    repository: Repository,
    dice: Arc<Dice>,
    machines: Vec<Mutex<Machine>>,
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
        let (repository, _) = Repository::init(bucket.clone()).unwrap();
        *bucket.faults.lock().unwrap() = dice.below(4) * 15;
        let mut first = Machine::new("m0", Machine::folder(), &dice);
        first.publish(dice.below(u64::MAX));
        let machines = vec![Mutex::new(first)];
        let (stored, retired) = (Mutex::default(), Mutex::default());
        Self { bucket, repository, dice, machines, stored, retired, told: Arc::clone(told) }
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }

    /// Something happens on a machine, unless it is in the middle of something.
    fn act(&self) {
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
        let restored = contents(&Archive::open(&folder.path().join("archive")).unwrap().0);
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
