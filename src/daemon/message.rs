//! What reaches the driver: questions from outside, and what the lanes have done.

use asat_core::Problem;
use asat_core::event::{EffectId, Event, Outcome, Reply};
use tokio::sync::oneshot;

/// A message to the driver.
pub(super) enum Message {
    Ask(Box<Event>, oneshot::Sender<Result<Reply, Problem>>),
    Finished(EffectId, Outcome),
    Stop,
}
