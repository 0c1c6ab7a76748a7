//! The driver: the one thread that turns events into committed changes and performed effects.
//!
//! It asks the engine what to do, commits that to the catalogue, lets the engine take it in, tells whoever
//! waits, and hands the intended effects to their lanes. Everything else only sends it events and reads the
//! engine's state.

mod group_commit;
mod periodic;
mod recording;
mod telling;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use asat_catalogue::{About, Catalogue};
use asat_core::audit::By;
use asat_core::event::{
    Answer, Change, Cut, CutFailure, Decision, Effect, EffectId, Event, Intent, Outcome, SetCut,
};
use asat_core::register::Register;
use asat_core::{Engine, Host, Policy, Problem, StoreName, VersionId};
use jiff::Timestamp;
use tracing::field::display;

use super::handle::{Handle, LastFound, Notice, Notices};
use super::lanes::Lanes;
use super::message::{Heard, Listener, Message};
use crate::log;
use crate::metrics::Metrics;
use group_commit::is_again;
use telling::tell;

/// Somebody who waits for an answer, and what he asked.
struct Waiting {
    by: By,
    event: Box<Event>,
    reply: Listener,
}

/// The driver's state. [`Driver::run`] is its thread.
pub(super) struct Driver<H: Host> {
    host: Arc<H>,
    engine: Arc<RwLock<Engine>>,
    /// How often the engine has taken something in.
    revision: Arc<AtomicU64>,
    catalogue: Catalogue,
    metrics: Arc<Metrics>,
    notices: Notices,
    lanes: Lanes<H>,
    messages: Receiver<Message>,
    waiting: HashMap<EffectId, Vec<Waiting>>,
    /// Who asks again once an effect has made room for what he wants.
    again: HashMap<EffectId, Vec<Waiting>>,
    /// Outcomes that the catalogue could not commit yet, and why not.
    unrecorded: Vec<(EffectId, Outcome, Problem)>,
    /// Whether anything can be recorded, for others to see.
    recording: LastFound,
    ticked_at: Timestamp,
    /// The archives that were weighed: how large they were, and when.
    weighed: BTreeMap<StoreName, (u64, Timestamp)>,
}

impl<H: Host> Driver<H> {
    /// A driver that has made catalogue and machine agree, and the way to it.
    ///
    /// # Errors
    /// Where the machine cannot be looked at or the catalogue cannot commit.
    pub(super) fn start(
        host: Arc<H>,
        mut engine: Engine,
        mut catalogue: Catalogue,
        metrics: Arc<Metrics>,
        notices: Notices,
    ) -> Result<(Self, Handle), Problem> {
        let (sender, messages) = channel();
        engine.register().clock().into_iter().for_each(|anchor| host.go_by(anchor));
        let survey = host.survey(engine.register())?;
        if let Some(anchor) = engine.witnessed(&survey, catalogue.written_at(), &host.clocks()) {
            host.go_by(&anchor);
            let first = Change::Clock(anchor);
            catalogue.record(std::slice::from_ref(&first))?;
            engine.evolve(&first);
        }
        let engine = Arc::new(RwLock::new(engine));
        let revision = Arc::default();
        let read = (Arc::clone(&engine), Arc::clone(&revision));
        let handle =
            Handle::new(sender.clone(), read, catalogue.path(), Arc::clone(&metrics), notices.clone());
        let recording = handle.recording().clone();
        let lanes = Lanes::new(Arc::clone(&host), sender);
        let ticked_at = host.now();
        let mut driver = Self {
            host,
            engine,
            revision,
            catalogue,
            metrics,
            notices,
            lanes,
            messages,
            waiting: HashMap::new(),
            again: HashMap::new(),
            unrecorded: Vec::new(),
            recording,
            ticked_at,
            weighed: BTreeMap::new(),
        };
        driver.commit(&By::asat(), &Event::Clock(driver.host.clocks()))?;
        driver.commit(&By::asat(), &Event::Started(survey))?;
        Ok((driver, handle))
    }

    /// Works until it is told to stop, then waits for the effects under way.
    pub(super) fn run(mut self) {
        let mut next = None;
        loop {
            let wait = self.until_next_tick();
            if wait.is_zero() {
                self.tick();
                continue;
            }
            match next.take().map_or_else(|| self.messages.recv_timeout(wait), Ok) {
                Ok(Message::Ask(by, event, reply)) => {
                    // Whoever asks may have made room: no need to wait for the next tick.
                    self.record_late();
                    let asked = Waiting { by, event, reply };
                    match is_again(&asked.event) {
                        true => next = self.asked_together(asked),
                        false => self.asked(asked),
                    }
                }
                Ok(Message::Finished(effect, outcome)) => self.finished(effect, outcome),
                Ok(Message::Log(entries)) => self.log(&entries),
                Ok(Message::ReadLog(version, limit, reply)) => {
                    let about = version.as_ref().map_or(About::Anything, About::Version);
                    drop(reply.send(self.catalogue.guard_log(about, limit).map_err(Problem::from)));
                }
                Ok(Message::Configure(policy, reply)) => drop(reply.send(self.configure(*policy))),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Effects under way end on their own or because the host was told to stop; what they did is recorded.
        self.lanes.close();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Finished(effect, outcome) => self.finished(effect, outcome),
                Message::Log(entries) => self.log(&entries),
                // Whoever asks now hears that the daemon stops, since nobody answers.
                Message::Ask(..) | Message::ReadLog(..) | Message::Configure(..) | Message::Stop => {}
            }
        }
    }

    fn asked(&mut self, asked: Waiting) {
        let _caused = log::caused_by(&asked.by).entered();
        match self.commit(&asked.by, &asked.event) {
            Ok(Answer::After(effect)) => match self.unrecorded.iter().find(|(late, ..)| *late == effect) {
                // It is over, and when that can be recorded is not known.
                Some((.., problem)) => {
                    let answer = self.promised(effect).ok_or_else(|| problem.clone());
                    _ = self.answer(asked, answer);
                }
                None => self.waiting.entry(effect).or_default().push(asked),
            },
            Ok(Answer::Again(effect)) => self.again.entry(effect).or_default().push(asked),
            Ok(Answer::Now(answer)) => _ = self.answer(asked, answer),
            Err(problem) => {
                let answer = self.promised_before(&asked.event).ok_or(problem);
                _ = self.answer(asked, answer);
            }
        }
    }

    fn finished(&mut self, effect: EffectId, outcome: Outcome) {
        let (cause, version) = self.cause(effect);
        let _caused = cause.entered();
        let promised = self.promised(effect);
        let event = Event::Finished { effect, outcome };
        let answer = match self.commit(&By::asat(), &event) {
            Ok(Answer::Now(answer)) => answer,
            // It goes on with another effect: whoever waited for this one waits for that one.
            Ok(Answer::After(next)) => {
                let waiting = self.waiting.remove(&effect).unwrap_or_default();
                return self.waiting.entry(next).or_default().extend(waiting);
            }
            Ok(Answer::Again(room)) => {
                let waiting = self.waiting.remove(&effect).unwrap_or_default();
                return self.again.entry(room).or_default().extend(waiting);
            }
            Err(problem) => {
                let Event::Finished { outcome, .. } = event else { return };
                self.take_back(effect, outcome, &problem);
                Err(problem)
            }
        };
        let mut heard = Heard::Nobody;
        for waiting in self.waiting.remove(&effect).unwrap_or_default() {
            match promised.clone().filter(|_| answer.is_err()) {
                Some(promised) => _ = self.answer(waiting, Ok(promised)),
                None => heard = heard.max(self.answer(waiting, answer.clone())),
            }
        }
        if let Err(problem) = &answer
            && (heard == Heard::Nobody || heard == Heard::Caller && !problem.code.is_trouble())
        {
            let (version, code) = (version.as_ref().map(display), problem.code.text().0);
            tracing::warn!(version, effect = effect.0, code, "{problem}");
        }
        for waiting in self.again.remove(&effect).unwrap_or_default() {
            match &answer {
                Err(problem) => _ = self.answer(waiting, Err(problem.clone())),
                // What would be begun now would not be performed.
                Ok(_) if self.lanes.are_closed() => {}
                Ok(_) => self.asked(waiting),
            }
        }
    }

    /// Undoes what was done and cannot be recorded, and remembers to record that it failed.
    fn take_back(&mut self, effect: EffectId, outcome: Outcome, problem: &Problem) {
        let outcome = match outcome {
            Outcome::Cut(Ok(_)) => {
                self.undo(effect);
                Outcome::Cut(Err(CutFailure {
                    problem: problem.clone(),
                    begun: true,
                    left: None,
                    lacks: None,
                }))
            }
            Outcome::CutSet(Ok(SetCut { cut_at, cuts })) => {
                self.undo(effect);
                let failed = |cut: Result<Cut, CutFailure>| {
                    let problem = problem.clone();
                    cut.and(Err(CutFailure { problem, begun: true, left: None, lacks: None }))
                };
                Outcome::CutSet(Ok(SetCut { cut_at, cuts: cuts.into_iter().map(failed).collect() }))
            }
            // A lease that nobody was told of would keep its version from being given up.
            Outcome::MakeCopy(Ok(_)) => {
                self.undo(effect);
                Outcome::MakeCopy(Err(problem.clone()))
            }
            other => other,
        };
        self.unrecorded.push((effect, outcome, problem.clone()));
    }

    fn undo(&self, effect: EffectId) {
        let undone = {
            let engine = self.read();
            let intent = engine.register().intent(effect);
            intent.filter(|intent| !is_shared(engine.register(), intent)).map(|intent| intent.effect.clone())
        };
        if let Some(Err(problem)) = undone.map(|undone| self.host.undo(&undone)) {
            let (_, version) = self.cause(effect);
            let version = version.as_ref().map(display);
            tracing::error!(version, effect = effect.0, "cannot undo what cannot be recorded: {problem}");
        }
    }

    /// Tries again to record what could not be recorded.
    fn record_late(&mut self) {
        for (effect, outcome, _) in std::mem::take(&mut self.unrecorded) {
            self.finished(effect, outcome);
        }
    }

    fn go_by(&self, policy: Policy) -> Policy {
        let mut engine = self.write();
        self.revision.fetch_add(1, Ordering::Release);
        engine.configure(policy)
    }

    /// Goes by another policy; by the one before where that cannot be recorded.
    fn configure(&mut self, policy: Policy) -> Result<(), Problem> {
        let before = self.go_by(policy);
        if let Err(problem) = self.commit(&By::asat(), &Event::Configured) {
            self.go_by(before);
            return Err(problem);
        }
        // Other rules may let versions go, and other budgets ask for it.
        self.weighed.clear();
        self.tick();
        Ok(())
    }

    /// Decides, commits, takes in, tells, and hands on. After an error nothing has changed.
    fn commit(&mut self, by: &By, event: &Event) -> Result<Answer, Problem> {
        let Decision { changes, answer, remarks } = self.decide(by, event);
        self.record(&changes)?;
        remarks.iter().for_each(tell);
        // What a start finds in the archives was published by another daemon, and is told of by remarks.
        if !matches!(event, Event::Started(_)) {
            self.tell_published(&changes, matches!(event, Event::Finished { .. }), &BTreeMap::new());
        }
        self.hand_on(changes);
        if matches!(event, Event::AcceptClock { .. }) {
            // What ends by the time that is believed now ends at once, and the caller who accepted it sees it.
            self.tick();
        }
        Ok(answer)
    }

    /// What is to be done. Nothing is given up that somebody holds without a lease: that is asked only where it matters, for
    /// from then on nobody can hold the others.
    fn decide(&self, by: &By, event: &Event) -> Decision {
        let decide = || self.read().decide_for(self.host.now(), by, event);
        let hold = |held| self.write().hold(held);
        let mut held = Vec::new();
        loop {
            let decision = decide();
            let unasked: Vec<VersionId> =
                decision.given_up().into_iter().filter(|version| !held.contains(version)).collect();
            let found = self.host.held(&unasked);
            if found.is_empty() {
                if !held.is_empty() {
                    hold(Vec::new());
                }
                return decision;
            }
            // Others may be given up in their place.
            held.extend(found);
            hold(held.clone());
        }
    }

    /// Commits changes and takes them in; nothing has changed after an error.
    fn record(&mut self, changes: &[Change]) -> Result<(), Problem> {
        if !changes.is_empty() {
            let recorded = self.catalogue.record(changes);
            if recorded.is_err() || self.recording.problem().is_some() {
                self.tell_whether_recorded();
            }
            recorded?;
            for change in changes {
                if let Change::Clock(anchor) = change {
                    self.host.go_by(anchor);
                }
            }
            let mut engine = self.write();
            changes.iter().for_each(|change| engine.evolve(change));
            self.revision.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Tells those who listen of what was committed, and has done what was intended.
    fn hand_on(&mut self, changes: Vec<Change>) {
        let is_new =
            |change: &Change| matches!(change, Change::Published(publication) if !publication.reused);
        let published = changes.iter().any(is_new);
        for change in &changes {
            if let Change::Intended(Intent { id, by, effect, .. }) = change {
                self.lanes.perform(*id, by, effect.clone());
            }
        }
        if !changes.is_empty() {
            // Nobody has to listen.
            let _ = self.notices.send(Notice::Changed(Arc::new(changes)));
        }
        if published {
            // A new version may be what lets an old one go.
            self.tick();
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Engine> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Engine> {
        self.engine.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an effect made a copy that was there before, or that another effect is about too.
fn is_shared(register: &Register, intent: &Intent) -> bool {
    let Effect::MakeCopy { version, .. } = &intent.effect else { return false };
    let copies = |effect: &Effect| matches!(effect, Effect::MakeCopy { .. } | Effect::DropCopy { .. });
    let others = |other: &Intent| {
        other.id != intent.id && copies(&other.effect) && other.effect.version() == Some(version)
    };
    register.entry(version).is_ok_and(|entry| entry.version.copy.is_some()) || register.intents().any(others)
}

#[cfg(test)]
mod tests;
