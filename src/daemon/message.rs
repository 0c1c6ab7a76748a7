//! What reaches the driver: questions from outside, and what the lanes have done.

use asat_core::audit::By;
use asat_core::event::{EffectId, Event, Outcome, Reply};
use asat_core::guard::Entry;
use asat_core::{Policy, Problem, VersionId};
use tokio::sync::oneshot;

/// Takes the answer to an event. It is not called where the daemon stops before there is one.
pub(super) type Listener = Box<dyn FnOnce(Result<Reply, Problem>) + Send>;

/// A message to the driver.
pub(super) enum Message {
    /// What somebody wants, or what nobody asked for.
    Ask(By, Box<Event>, Listener),
    Finished(EffectId, Outcome),
    /// What the guard did.
    Log(Vec<Entry>),
    /// A question to the guard's log: about which version, and how many rows.
    ReadLog(Option<VersionId>, u32, oneshot::Sender<Result<Vec<Entry>, Problem>>),
    /// What the configuration says from now on; answered once what follows from it is committed.
    Configure(Box<Policy>, oneshot::Sender<Result<(), Problem>>),
    Stop,
}
