//! What reaches the driver: questions from outside, and what became of effects.

use asat_core::event::{EffectId, Event, Outcome, Reply};
use asat_core::guard::GuardEntry;
use asat_core::{By, Policy, Problem, VersionId};
use asat_shell::{Heard, Request};
use tokio::sync::oneshot;

/// Takes the answer to an event, and says who heard it. It is not called where the daemon stops before there is one.
pub(super) type Listener = Box<dyn FnOnce(Result<Reply, Problem>) -> Heard + Send>;

/// A message to the driver.
pub(super) enum Message {
    /// What somebody wants, or what nobody asked for.
    Ask(Request<Listener>),
    /// An effect is over.
    Finished(EffectId, Outcome),
    /// What performed an effect has failed.
    Abandoned(EffectId),
    /// What the guard did.
    Log(Vec<GuardEntry>),
    /// A question to the guard's log: about which version, and how many rows.
    ReadLog(Option<VersionId>, u32, oneshot::Sender<Result<Vec<GuardEntry>, Problem>>),
    /// What the configuration says from now on; answered once what follows from it is committed.
    Configure(Box<Policy>, oneshot::Sender<Result<(), Problem>>),
    Stop,
}

impl Message {
    /// Asks something; the answer is told to a listener.
    pub(super) fn ask(
        by: By,
        event: Event,
        listener: impl FnOnce(Result<Reply, Problem>) -> Heard + Send + 'static,
    ) -> Self {
        Self::Ask(Request { by, event: Box::new(event), listener: Box::new(listener) })
    }
}
