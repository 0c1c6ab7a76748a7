//! What reaches the driver: questions from outside, and what the lanes have done.

use asat_core::audit::By;
use asat_core::event::{EffectId, Event, Outcome, Reply};
use asat_core::guard::GuardEntry;
use asat_core::{Policy, Problem, VersionId};
use tokio::sync::oneshot;

/// Takes the answer to an event, and says who heard it. It is not called where the daemon stops before there is one.
pub(super) type Listener = Box<dyn FnOnce(Result<Reply, Problem>) -> Heard + Send>;

/// Who heard an answer, and so who logs a failure: each is logged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Heard {
    /// Nobody: whoever asked has gone away.
    Nobody,
    /// A caller. Trouble of the daemon's own is logged as he is answered; that he was refused is not.
    Caller,
    /// A part of the daemon, which logs what it hears.
    Daemon,
}

/// A message to the driver.
pub(super) enum Message {
    /// What somebody wants, or what nobody asked for.
    Ask(By, Box<Event>, Listener),
    Finished(EffectId, Outcome),
    /// What the guard did.
    Log(Vec<GuardEntry>),
    /// A question to the guard's log: about which version, and how many rows.
    ReadLog(Option<VersionId>, u32, oneshot::Sender<Result<Vec<GuardEntry>, Problem>>),
    /// What the configuration says from now on; answered once what follows from it is committed.
    Configure(Box<Policy>, oneshot::Sender<Result<(), Problem>>),
    Stop,
}
