//! What somebody is told whose wish is recorded already, though what follows from it cannot be.

use asat_core::event::{Effect, EffectId, Event, Reply};
use asat_core::version::State;

use super::Driver;

impl<L> Driver<L> {
    /// What is true whatever becomes of an effect: what is to let a version's pages go was intended as that was given up, and is tried
    /// again until it is done.
    pub(super) fn promised(&self, effect: EffectId) -> Option<Reply> {
        let engine = self.engine.read();
        match &engine.register().intent(effect)?.effect {
            Effect::Retire { version } => Some(Reply::Version(version.clone())),
            _ => None,
        }
    }

    /// The same of what somebody wants again.
    pub(super) fn promised_before(&self, event: &Event) -> Option<Reply> {
        let Event::Retire { version, .. } = event else { return None };
        let engine = self.engine.read();
        let version = &engine.register().resolve(version).ok()?.version;
        (version.state == State::Retiring).then(|| Reply::Version(version.id.clone()))
    }
}
