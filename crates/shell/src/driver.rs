//! The driver: it turns events into committed changes and performed effects.
//!
//! It asks the engine what to do, commits that, lets the engine take it in, tells whoever waits, and has what is intended performed as
//! soon as its lanes are free. Everything else only tells it of events and reads the engine's state.

mod group_commit;
mod periodic;
mod promises;
mod telling;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use asat_core::event::{
    Answer, Change, Cut, CutFailure, Decision, Effect, EffectId, Event, Outcome, Reply, SetCut,
};
use asat_core::register::Register;
use asat_core::{By, Policy, Problem, StoreName, VersionId};
use jiff::Timestamp;
use tracing::field::display;

use crate::lanes::Lanes;
use crate::{Heard, Ports, SharedEngine, caused_by};
pub use group_commit::is_republication;

/// What somebody asks.
#[derive(Debug)]
pub struct Request<L> {
    /// Who asks.
    pub by: By,
    /// What he asks.
    pub event: Box<Event>,
    /// Who hears the answer. If the daemon stops before there is one, nobody does.
    pub listener: L,
}

/// The driver's state. `L` is what an answer is told to.
#[derive(Debug)]
pub struct Driver<L> {
    engine: Arc<SharedEngine>,
    lanes: Lanes,
    waiting: HashMap<EffectId, Vec<Request<L>>>,
    /// Who asks again once an effect has made room for what he wants.
    again: HashMap<EffectId, Vec<Request<L>>>,
    /// Outcomes that could not be committed yet, and why not.
    unrecorded: Vec<(EffectId, Outcome, Problem)>,
    /// Whether nothing more is begun than what is in a lane already.
    is_closed: bool,
    ticked_at: Timestamp,
    /// The stores whose archives the start has found not to be compact.
    uncompacted: Vec<StoreName>,
    /// The archives that were weighed: how large they were, and when.
    weighed: BTreeMap<StoreName, (u64, Timestamp)>,
}

impl<L> Driver<L> {
    /// A driver that has made records and machine agree.
    ///
    /// # Errors
    /// If the machine cannot be looked at, or nothing can be committed.
    pub fn start<P: Ports<Listener = L>>(ports: &mut P, engine: Arc<SharedEngine>) -> Result<Self, Problem> {
        let (survey, witnessed) = {
            let engine = engine.read();
            engine.register().clock().into_iter().for_each(|anchor| ports.go_by(anchor));
            let survey = ports.survey(engine.register())?;
            let witnessed = engine.witnessed(&survey, ports.written_at(), &ports.clocks());
            (survey, witnessed)
        };
        let mut driver = Self {
            engine,
            lanes: Lanes::default(),
            waiting: HashMap::new(),
            again: HashMap::new(),
            unrecorded: Vec::new(),
            is_closed: false,
            ticked_at: ports.now(),
            uncompacted: Vec::new(),
            weighed: BTreeMap::new(),
        };
        if let Some(anchor) = witnessed {
            driver.record(ports, &[Change::Clock(anchor)])?;
        }
        let clocks = Event::Clock(ports.clocks());
        driver.commit(ports, &By::asat(), &clocks)?;
        let uncompacted = survey.uncompacted.clone();
        driver.commit(ports, &By::asat(), &Event::Started(survey))?;
        driver.uncompacted = uncompacted;
        Ok(driver)
    }

    /// Does what a start has left to do, for which nobody who starts has to wait.
    pub fn tidy<P: Ports<Listener = L>>(&mut self, ports: &mut P) {
        let event = Event::Tidy(std::mem::take(&mut self.uncompacted));
        if let Err(problem) = self.commit(ports, &By::asat(), &event) {
            tracing::warn!("archives are compacted after the next start, or as they change: {problem}");
        }
        self.pack(ports);
    }

    /// Takes a request. It is answered at once, or when an effect is over.
    pub fn ask<P: Ports<Listener = L>>(&mut self, ports: &mut P, request: Request<L>) {
        // Whoever asks may have made room: no need to wait for the next tick.
        self.record_late(ports);
        self.asked(ports, request);
    }

    fn asked<P: Ports<Listener = L>>(&mut self, ports: &mut P, request: Request<L>) {
        let _caused = caused_by(&request.by).entered();
        match self.commit(ports, &request.by, &request.event) {
            Ok(Answer::After(effect)) => match self.unrecorded.iter().find(|(late, ..)| *late == effect) {
                // It is over, and when that can be recorded is not known.
                Some((.., problem)) => {
                    let answer = self.promised(effect).ok_or_else(|| problem.clone());
                    _ = self.answer(ports, request, answer);
                }
                None => self.waiting.entry(effect).or_default().push(request),
            },
            Ok(Answer::Again(effect)) => self.again.entry(effect).or_default().push(request),
            Ok(Answer::Now(answer)) => _ = self.answer(ports, request, answer),
            Err(problem) => {
                let answer = self.promised_before(&request.event).ok_or(problem);
                _ = self.answer(ports, request, answer);
            }
        }
    }

    /// An effect is over.
    pub fn finished<P: Ports<Listener = L>>(&mut self, ports: &mut P, effect: EffectId, outcome: Outcome) {
        let (cause, version) = self.cause(effect);
        let _caused = cause.entered();
        let promised = self.promised(effect);
        let event = Event::Finished { effect, outcome };
        let answer = self.commit(ports, &By::asat(), &event);
        if let (Err(problem), Event::Finished { outcome, .. }) = (&answer, event) {
            self.take_back(ports, effect, outcome, problem);
        }
        // What follows in a lane may depend on what is recorded of this one.
        self.go_on_after(ports, effect);
        let answer = match answer {
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
            Err(problem) => Err(problem),
        };
        let heard = self.answer_those_who_waited(ports, effect, promised.as_ref(), &answer);
        if let Err(problem) = &answer
            && (heard == Heard::Nobody || heard == Heard::Caller && !problem.code.is_trouble())
        {
            let (version, code) = (version.as_ref().map(display), problem.code.text().0);
            tracing::warn!(version, effect = effect.0, code, "{problem}");
        }
        for request in self.again.remove(&effect).unwrap_or_default() {
            match &answer {
                Err(problem) => _ = self.answer(ports, request, Err(problem.clone())),
                // What would be begun now would not be performed.
                Ok(_) if self.is_closed => {}
                Ok(_) => self.asked(ports, request),
            }
        }
        if self.unrecorded.is_empty() {
            self.pack(ports);
        }
    }

    /// Has what is at rest kept as bytes. Nobody waits for it, and what cannot be recorded now is packed later. Answers whether there is more.
    fn pack<P: Ports<Listener = L>>(&mut self, ports: &mut P) -> bool {
        match self.commit(ports, &By::asat(), &Event::Pack) {
            Ok(_) => self.engine.read().register().to_be_packed().next().is_some(),
            Err(problem) => {
                tracing::debug!("versions at rest are not packed yet: {problem}");
                false
            }
        }
    }

    /// Answers; says who has heard it, of all who waited.
    fn answer_those_who_waited<P: Ports<Listener = L>>(
        &mut self,
        ports: &mut P,
        effect: EffectId,
        promised: Option<&Reply>,
        answer: &Result<Reply, Problem>,
    ) -> Heard {
        let mut heard = Heard::Nobody;
        for request in self.waiting.remove(&effect).unwrap_or_default() {
            match promised.filter(|_| answer.is_err()) {
                Some(promised) => _ = self.answer(ports, request, Ok(promised.clone())),
                None => heard = heard.max(self.answer(ports, request, answer.clone())),
            }
        }
        heard
    }

    /// Nobody can say what became of an effect: what performed it has failed. The next start settles it.
    pub fn abandoned(&mut self, effect: EffectId) {
        let (_, version) = self.cause(effect);
        let version = version.as_ref().map(display);
        tracing::error!(
            version,
            effect = effect.0,
            "what became of an effect is not known, and nothing that follows it is performed: restart the daemon, which settles it"
        );
        self.lanes.abandon(effect);
    }

    /// Undoes what was done and cannot be recorded, and remembers to record that it failed.
    fn take_back<P: Ports>(&mut self, ports: &mut P, effect: EffectId, outcome: Outcome, problem: &Problem) {
        let failed = || CutFailure { problem: problem.clone(), begun: true, left: None, lacks: None };
        let outcome = match outcome {
            Outcome::Cut(Ok(_)) => {
                self.undo(ports, effect);
                Outcome::Cut(Err(failed()))
            }
            Outcome::CutSet(Ok(SetCut { cut_at, cuts })) => {
                self.undo(ports, effect);
                let failed = |cut: Result<Cut, CutFailure>| cut.and_then(|_| Err(failed()));
                Outcome::CutSet(Ok(SetCut { cut_at, cuts: cuts.into_iter().map(failed).collect() }))
            }
            // A lease that nobody was told of would keep its version from being given up.
            Outcome::MakeCopy(Ok(_)) => {
                self.undo(ports, effect);
                Outcome::MakeCopy(Err(problem.clone()))
            }
            other => other,
        };
        self.unrecorded.push((effect, outcome, problem.clone()));
    }

    fn undo<P: Ports>(&self, ports: &mut P, effect: EffectId) {
        let undone = {
            let engine = self.engine.read();
            let intent = engine.register().intent(effect).map(|intent| intent.effect.clone());
            intent.filter(|undone| !is_shared(engine.register(), effect, undone))
        };
        if let Some(Err(problem)) = undone.map(|undone| ports.undo(&undone)) {
            let (_, version) = self.cause(effect);
            let version = version.as_ref().map(display);
            tracing::error!(version, effect = effect.0, "cannot undo what cannot be recorded: {problem}");
        }
    }

    /// Tries again to record what could not be recorded.
    fn record_late<P: Ports<Listener = L>>(&mut self, ports: &mut P) {
        for (effect, outcome, _) in std::mem::take(&mut self.unrecorded) {
            self.finished(ports, effect, outcome);
        }
    }

    /// Goes by another policy.
    ///
    /// # Errors
    /// If what follows from it cannot be committed; the policy is the one before then.
    pub fn configure<P: Ports<Listener = L>>(
        &mut self,
        ports: &mut P,
        policy: Policy,
    ) -> Result<(), Problem> {
        let before = self.engine.configure(policy);
        if let Err(problem) = self.commit(ports, &By::asat(), &Event::Configured) {
            self.engine.configure(before);
            return Err(problem);
        }
        // Other rules may let versions go, and other budgets ask for it.
        self.weighed.clear();
        self.tick(ports);
        Ok(())
    }

    /// Begins nothing more than what is in a lane already.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// The effects that are performed at this moment, in the order of their numbers.
    #[must_use]
    pub fn under_way(&self) -> Vec<EffectId> {
        self.lanes.begun()
    }

    /// Decides, commits, takes in, tells, and hands on. After an error nothing has changed.
    fn commit<P: Ports<Listener = L>>(
        &mut self,
        ports: &mut P,
        by: &By,
        event: &Event,
    ) -> Result<Answer, Problem> {
        let Decision { changes, answer, remarks } = self.decide(ports, by, event);
        self.record(ports, &changes)?;
        remarks.iter().for_each(|remark| ports.remark(remark));
        // What a start finds in the archives, or a bucket has, was published before, and perhaps by another daemon.
        if !matches!(event, Event::Started(_) | Event::Followed(_) | Event::Recorded { .. }) {
            self.tell_published(ports, &changes, matches!(event, Event::Finished { .. }), &BTreeMap::new());
        }
        self.hand_on(ports, changes);
        if matches!(event, Event::Followed(_) | Event::Recorded { .. }) {
            // What has come at once is at rest at once.
            while self.pack(ports) {}
        }
        if matches!(event, Event::AcceptClock { .. }) {
            // What ends by the time that is believed now ends at once, and the caller who accepted it sees it.
            self.tick(ports);
        }
        Ok(answer)
    }

    /// What is to be done. Nothing is given up that somebody holds without a lease: that is asked only if it matters, for
    /// from then on nobody can hold the others.
    fn decide<P: Ports>(&self, ports: &P, by: &By, event: &Event) -> Decision {
        let mut held = BTreeSet::new();
        loop {
            let now = ports.now();
            let decision = self.engine.read().decide_for(now, by, event);
            let unasked: Vec<VersionId> =
                decision.given_up().into_iter().filter(|version| !held.contains(version)).collect();
            let found = ports.held(&unasked, matches!(event, Event::GiveUp { .. }));
            if found.is_empty() {
                if !held.is_empty() {
                    self.engine.hold(BTreeSet::new());
                }
                return decision;
            }
            // Others may be given up in their place.
            held.extend(found);
            self.engine.hold(held.clone());
        }
    }

    /// Commits changes and takes them in; nothing has changed after an error.
    fn record<P: Ports>(&self, ports: &mut P, changes: &[Change]) -> Result<(), Problem> {
        if changes.is_empty() {
            return Ok(());
        }
        ports.record(changes)?;
        for change in changes {
            if let Change::Clock(anchor) = change {
                ports.go_by(anchor);
            }
        }
        self.engine.evolve(changes, ports.commit());
        Ok(())
    }

    /// Has done what was intended, and tells those who listen of what was committed.
    fn hand_on<P: Ports<Listener = L>>(&mut self, ports: &mut P, changes: Vec<Change>) {
        let is_new =
            |change: &Change| matches!(change, Change::Published(publication) if !publication.reused);
        let published = changes.iter().any(is_new);
        for change in &changes {
            if let Change::Intended(intent) = change {
                self.put(ports, intent.id, &intent.effect);
            }
        }
        if !changes.is_empty() {
            ports.committed(changes);
        }
        if published {
            // A new version may be what lets an old one go.
            self.tick(ports);
        }
    }

    /// Puts an effect into its lanes, and begins it if they are free.
    fn put<P: Ports>(&mut self, ports: &mut P, id: EffectId, effect: &Effect) {
        // Nobody would wait for its end. The intent stays open, and the next start settles it.
        if self.is_closed {
            return;
        }
        if self.lanes.put(id, effect, ports.clocks().moment.uptime_ms) {
            self.begin(ports, id);
        } else if self.lanes.is_stuck(id) {
            tracing::error!(effect = id.0, "{} is not performed: restart the daemon", effect.text());
        }
    }

    /// Has an effect performed.
    fn begin<P: Ports>(&mut self, ports: &mut P, id: EffectId) {
        let Some(intent) = self.engine.read().register().intent(id).cloned() else { return };
        let (text, version) = (intent.effect.text(), intent.effect.version().cloned());
        if let Err(problem) = ports.begin(intent) {
            // The intent stays open: the next start settles it.
            let version = version.as_ref().map(display);
            tracing::error!(version, effect = id.0, "cannot begin the effect {text}: {problem}");
            self.go_on_after(ports, id);
        }
    }

    /// Begins what waited for an effect.
    fn go_on_after<P: Ports>(&mut self, ports: &mut P, effect: EffectId) {
        for next in self.lanes.over(effect, ports.clocks().moment.uptime_ms) {
            self.begin(ports, next);
        }
    }
}

/// Whether an effect made a copy that was there before, or that another effect is about too.
fn is_shared(register: &Register, id: EffectId, effect: &Effect) -> bool {
    let Effect::MakeCopy { version, .. } = effect else { return false };
    let copies = |effect: &Effect| matches!(effect, Effect::MakeCopy { .. } | Effect::DropCopy { .. });
    let mut others = register.intents().filter(|other| other.id != id);
    register.entry(version).is_ok_and(|entry| entry.version.copy.is_some())
        || others.any(|other| copies(&other.effect) && other.effect.version() == Some(version))
}
