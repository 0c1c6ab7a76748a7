//! What several threads do with one archive at the same time, and what must be so whatever they do first.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use asat_archive::{Archive, Contents, Error, Retired, check};
use asat_core::{Code, Problem};

use crate::base::{Known, begin, next_content};
use crate::choices::{Choices, Dice};
use crate::common::{self, cut, files};
use crate::crash::Crash;
use crate::scheduler::{self, Work, step};

/// What a thread does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Publishes the next version; the number says what it is made of.
    Publish(u64),
    Retire(u64),
    Compact,
    Read(u64),
    Verify,
    Weigh,
    /// Writes a version anew from its content.
    Rebuild(u64),
    /// Finds damage and repairs it, with all contents at hand.
    Repair,
    /// Gives the version back whose file is missing, as an import does.
    PutBack,
    /// Records a value; the number is its key.
    Record(u64),
}

/// What is wrong with the archive at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    None,
    /// The file of this version is missing.
    Missing(u64),
    /// One bit of the frames in this version's file is flipped.
    Flipped(u64),
}

/// A history, and what threads do with it.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// What the versions at the beginning are made of.
    pub(crate) base: u64,
    /// The versions that were given up before.
    pub(crate) retired: Vec<u64>,
    pub(crate) harm: Harm,
    pub(crate) threads: Vec<Vec<Op>>,
    /// After how many steps the machine stops, if it does, and what becomes of what was not synced.
    pub(crate) crash: Option<(usize, u64)>,
}

/// What is known of the archive by those who work with it.
pub(crate) struct World {
    pub(crate) archive: Archive,
    pub(crate) harm: Harm,
    pub(crate) known: Mutex<Known>,
}

impl World {
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a scenario with these choices; answers them and what went wrong.
/// Says each step if it is `told`.
pub(crate) fn run(scenario: &Scenario, choices: Choices, told: bool) -> (Choices, Result<(), String>) {
    let folder = common::folder();
    let world = Arc::new(begin(scenario, folder.path()));
    let crash = scenario.crash.map(|(after, dice)| Crash::new(folder.path(), after, dice));
    let crash = Arc::new(Mutex::new(crash));
    let observer = {
        let (world, crash) = (Arc::clone(&world), Arc::clone(&crash));
        Box::new(move |thread, step| {
            if told {
                println!("thread {thread}: {step}");
            }
            let mut crash = crash.lock().unwrap();
            crash.iter_mut().for_each(|crash| crash.see(step, || world.known().clone()));
        })
    };
    let work = |(nth, ops): (usize, &Vec<Op>)| -> Work {
        let (world, ops) = (Arc::clone(&world), ops.clone());
        Box::new(move || {
            ops.iter()
                .try_for_each(|op| world.perform(op).map_err(|what| format!("thread {nth}, {op:?}: {what}")))
        })
    };
    let works = scenario.threads.iter().enumerate().map(work).collect();
    let (choices, ran) = scheduler::run(works, choices, observer);
    let crashed = crash.lock().unwrap().take();
    let checked = ran
        .and_then(|()| world.settle())
        .and_then(|()| crashed.map_or(Ok(()), |crash| crash.check(world.harm)));
    (choices, checked)
}

/// What a thread found wrong.
pub(crate) type Found = Result<(), String>;

fn wrong(what: impl std::fmt::Display) -> String {
    what.to_string()
}

impl World {
    fn is_whole(&self) -> bool {
        self.harm == Harm::None
    }

    /// Whether an error is one that what is wrong with the archive accounts for.
    fn accounts_for(&self, error: &Error) -> bool {
        !self.is_whole() && error.is_loss()
    }

    fn perform(&self, op: &Op) -> Found {
        step("test: begins");
        match op {
            Op::Publish(seed) => self.publish(*seed),
            Op::Retire(number) => self.retire(*number),
            Op::Compact => self.compact(),
            Op::Read(number) => self.read(*number),
            Op::Verify => self.verify(),
            Op::Weigh => match self.archive.weigh() {
                Err(error) if !self.accounts_for(&error) => Err(wrong(error)),
                _ => Ok(()),
            },
            Op::Rebuild(number) => self.rebuild(*number),
            Op::Repair => self.repair().map(drop),
            Op::PutBack => self.put_back(),
            Op::Record(key) => self.record(*key),
        }
    }

    fn publish(&self, seed: u64) -> Found {
        let (number, content) = {
            let known = self.known();
            let number = known.contents.keys().next_back().map_or(1, |newest| newest + 1);
            let before: Vec<_> = known.contents.values().cloned().collect();
            (number, Arc::new(next_content(&mut Dice::new(seed), &before)))
        };
        let mut writer = match self.archive.begin(number, content.page_size(), content.count()) {
            // A version is being put back.
            Err(Error::Busy { .. }) => return Ok(()),
            writer => writer.map_err(wrong)?,
        };
        {
            let mut known = self.known();
            known.contents.insert(number, Arc::clone(&content));
            known.unsure.insert(number);
        }
        for (number, page) in (1..).zip(&content.pages) {
            writer.page(number, page).map_err(wrong)?;
        }
        step("test: pages taken");
        let mut cut = cut();
        cut.even_if_unchanged = true;
        let kept = writer.finish(cut);
        let mut known = self.known();
        match kept {
            Ok(_) => _ = known.live.insert(number),
            Err(error) if self.accounts_for(&error) => {}
            Err(error) => return Err(wrong(error)),
        }
        known.unsure.remove(&number);
        Ok(())
    }

    fn retire(&self, number: u64) -> Found {
        if !self.known().live.contains(&number) || self.harm == Harm::Missing(number) {
            return Ok(());
        }
        {
            let mut known = self.known();
            known.unsure.insert(number);
            known.retiring.push(number);
        }
        let retired = self.archive.retire(number);
        let mut known = self.known();
        let mine = known.retiring.iter().position(|other| *other == number).unwrap();
        known.retiring.swap_remove(mine);
        let is_alone = !known.retiring.contains(&number);
        if is_alone {
            known.unsure.remove(&number);
        }
        match retired {
            Ok(Retired::Retired { .. }) => _ = known.live.remove(&number),
            // Another thread was first, or is about to say so.
            Ok(Retired::AlreadyGone) if !is_alone || !known.live.contains(&number) => {}
            Ok(Retired::AlreadyGone) => return Err(format!("version {number} was gone")),
            Err(Error::Busy { .. }) => {}
            Err(error) => return Err(wrong(error)),
        }
        Ok(())
    }

    fn compact(&self) -> Found {
        for _ in 0..3 {
            match self.archive.compact(&mut |_| ControlFlow::Continue(())) {
                Ok(compacted) if !compacted.more => break,
                Err(error) if !self.accounts_for(&error) => return Err(wrong(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether it is not known at this moment that a version can be read.
    fn may_be_gone(&self, number: u64) -> bool {
        let known = self.known();
        !known.live.contains(&number) || known.unsure.contains(&number) || self.harm == Harm::Missing(number)
    }

    fn read(&self, number: u64) -> Found {
        let reader = match self.archive.read(number) {
            Ok(reader) => reader,
            Err(Error::NoSuchVersion { .. }) if self.may_be_gone(number) => return Ok(()),
            Err(error) if self.accounts_for(&error) => return Ok(()),
            Err(error) => return Err(wrong(error)),
        };
        let content = Arc::clone(&self.known().contents[&number]);
        let mut found = vec![0; 512];
        for (nth, page) in (1..).zip(&content.pages) {
            step("test: reads a page");
            match reader.read_page(nth, &mut found) {
                Ok(()) if found == *page => {}
                Ok(()) => return Err(format!("page {nth} is another")),
                Err(error) if self.accounts_for(&error) => {}
                Err(error) => return Err(wrong(error)),
            }
        }
        Ok(())
    }

    fn verify(&self) -> Found {
        match self.archive.verify(None, &mut |_, _| ControlFlow::Continue(())) {
            Ok(report) if self.is_whole() && !report.findings.is_empty() => {
                Err(format!("{:?}", report.findings))
            }
            Err(error) if !self.accounts_for(&error) => Err(wrong(error)),
            _ => Ok(()),
        }
    }

    /// Repairs what can be; answers whether there was anything.
    fn repair(&self) -> Result<bool, String> {
        let report = self.archive.verify(None, &mut |_, _| ControlFlow::Continue(())).map_err(wrong)?;
        if self.is_whole() && !report.findings.is_empty() {
            return Err(format!("{:?}", report.findings));
        }
        let known = self.known().clone();
        let pages = known.contents.values().flat_map(|content| content.pages.clone());
        let contents: Contents = pages.map(|page| (check(&page), page)).collect();
        self.archive.repair(&report.damage, &contents, &mut |_| ControlFlow::Continue(())).map_err(wrong)?;
        Ok(!report.findings.is_empty())
    }

    fn rebuild(&self, number: u64) -> Found {
        let Some(content) = self.known().contents.get(&number).cloned() else { return Ok(()) };
        let read = |rebuild: &mut asat_archive::Rebuild| {
            content.pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
        };
        match common::rebuild(&self.archive, number, read) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("it is not the content of the version".to_owned()),
            Err(Problem { code: Code::NotReadable, .. }) if self.may_be_gone(number) => Ok(()),
            // Another version is being written.
            Err(Problem { code: Code::InUse, .. }) => Ok(()),
            Err(problem) if !self.is_whole() && problem.code == Code::Damaged => Ok(()),
            Err(problem) => Err(wrong(problem)),
        }
    }

    fn put_back(&self) -> Found {
        let known = self.known().clone();
        let Some(meta) = known.meta else { return Ok(()) };
        let content = Arc::clone(&known.contents[&meta.number]);
        let read = |rebuild: &mut asat_archive::Rebuild| {
            content.pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
        };
        match self.archive.put_back(meta, false, read) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("it was not put back".to_owned()),
            // Another version is being written.
            Err(Problem { code: Code::InUse, .. }) => Ok(()),
            Err(problem) => Err(wrong(problem)),
        }
    }

    fn record(&self, key: u64) -> Found {
        let key = key.to_string();
        self.known().unsure_records.insert(key.clone());
        let changes = [(key.clone(), Some("recorded".to_owned()))].into();
        self.archive.record(changes).map_err(wrong)?;
        let mut known = self.known();
        known.unsure_records.remove(&key);
        known.records.insert(key);
        Ok(())
    }

    /// When nobody is at work any more, everything is put right that was harmed, and all must be as it was told.
    fn settle(&self) -> Found {
        if let Harm::Missing(number) = self.harm
            && !self.archive.contains(number)
        {
            self.put_back()?;
        }
        for _ in 0..3 {
            if self.is_whole() || !self.repair()? {
                break;
            }
        }
        let known = self.known().clone();
        assert_holds(&self.archive, &known)?;
        for _ in 0..5 {
            if !self.archive.compact(&mut |_| ControlFlow::Continue(())).map_err(wrong)?.more {
                break;
            }
        }
        assert_holds(&self.archive, &known)
    }
}

/// The archive holds just what is known.
pub(crate) fn assert_holds(archive: &Archive, known: &Known) -> Found {
    let live: BTreeSet<u64> = archive.live().into_iter().collect();
    let both: BTreeSet<u64> = live.symmetric_difference(&known.live).copied().collect();
    if !both.is_subset(&known.unsure) {
        return Err(format!("versions {live:?} are there instead of {:?}", known.live));
    }
    for number in live {
        let found = common::read(archive, number).map_err(|error| format!("version {number}: {error}"))?;
        if found != known.contents[&number].bytes() {
            return Err(format!("version {number} is another"));
        }
    }
    let records: BTreeSet<String> = archive.records().map_err(wrong)?.into_keys().collect();
    let both: BTreeSet<String> = records.symmetric_difference(&known.records).cloned().collect();
    if !both.is_subset(&known.unsure_records) {
        return Err(format!("{records:?} are recorded instead of {:?}", known.records));
    }
    let report = archive.verify(None, &mut |_, _| ControlFlow::Continue(())).map_err(wrong)?;
    if !report.findings.is_empty() {
        return Err(format!("{:?}", report.findings));
    }
    let names: Vec<_> = files(archive.folder()).into_iter().map(|(name, _)| name).collect();
    match names.iter().find(|name| !name.ends_with(".segment")) {
        Some(_) => Err(format!("{names:?} are left")),
        None => Ok(()),
    }
}
