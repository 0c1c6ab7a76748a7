//! Whether anything can be recorded, and what somebody is told whose wish is recorded already.

use asat_core::event::{Effect, EffectId, Event, Reply};
use asat_core::version::State;
use asat_core::{Host, Problem};

use super::Driver;

impl<H: Host> Driver<H> {
    /// Lets everybody know whether the catalogue is still there to be written.
    pub(super) fn tell_whether_recorded(&mut self) {
        let problem = self.catalogue.check().err().map(Problem::from);
        if self.recording.set(problem.clone()) {
            match problem {
                Some(problem) => tracing::error!(code = problem.code.text().0, "{problem}"),
                None => tracing::info!("the catalogue is where it was, and is written again"),
            }
        }
        if let Some(error) = self.catalogue.take_unnamed() {
            let problem = Problem::from(error);
            tracing::error!("the newest commit is durable, and damage to it would not be noticed: {problem}");
        }
    }

    /// What is true whatever becomes of an effect: what is to let a version's pages go was intended as that was given up, and is tried
    /// again until it is done.
    pub(super) fn promised(&self, effect: EffectId) -> Option<Reply> {
        let engine = self.read();
        match &engine.register().intent(effect)?.effect {
            Effect::Retire { version } => Some(Reply::Version(version.clone())),
            _ => None,
        }
    }

    /// The same of what somebody wants again.
    pub(super) fn promised_before(&self, event: &Event) -> Option<Reply> {
        let Event::Retire { version, .. } = event else { return None };
        let engine = self.read();
        let version = &engine.register().resolve(version).ok()?.version;
        (version.state == State::Retiring).then(|| Reply::Version(version.id.clone()))
    }
}
