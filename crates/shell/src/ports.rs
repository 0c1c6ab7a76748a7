//! What the shell needs of the place in which it runs.

use asat_core::clock::{Anchor, Reading};
use asat_core::event::{Change, Effect, Event, Intent, Remark, Reply, Survey};
use asat_core::register::Register;
use asat_core::version::Publication;
use asat_core::{Problem, StoreName, VersionId};
use jiff::Timestamp;

use crate::SharedEngine;

/// Where changes are committed.
pub trait Records {
    /// Commits changes durably, all or nothing.
    ///
    /// # Errors
    /// Why nothing was committed.
    fn record(&mut self, changes: &[Change]) -> Result<(), Problem>;

    /// Finds out whether anything can be committed, and lets those know who depend on it.
    fn check(&mut self);

    /// When the records were written last before they were opened, by what the wall clock said then; nothing if that is not known.
    fn written_at(&self) -> Option<Timestamp>;
}

/// The machine on which effects are performed.
pub trait Executor {
    /// The time as it is believed, in whole microseconds.
    fn now(&self) -> Timestamp;

    /// What the machine's clocks say.
    fn clocks(&self) -> Reading;

    /// Believes this of the clocks from now on.
    fn go_by(&mut self, anchor: &Anchor);

    /// What the machine holds of versions.
    ///
    /// # Errors
    /// If the machine cannot be looked at; the daemon does not start then.
    fn survey(&self, register: &Register) -> Result<Survey, Problem>;

    /// What a store's archive takes, in bytes; nothing if it has none.
    fn archive_bytes(&self, store: &StoreName) -> u64;

    /// Which of these versions somebody in this process holds at this moment. Nobody can hold the others from then on.
    fn held(&self, versions: &[VersionId]) -> Vec<VersionId>;

    /// Begins to perform what is intended, and does not wait for its end: that is told to [`crate::Driver::finished`].
    ///
    /// # Errors
    /// If it cannot be begun.
    fn begin(&mut self, intent: Intent) -> Result<(), Problem>;

    /// Undoes an effect whose outcome could not be committed, so that the machine is as the records say.
    ///
    /// # Errors
    /// If that fails too; the next start settles it.
    fn undo(&mut self, effect: &Effect) -> Result<(), Problem>;
}

/// Those who ask, and those who listen.
pub trait Audience {
    /// Somebody who waits for an answer.
    type Listener;

    /// Answers somebody what he asked; says who heard it.
    fn answer(
        &mut self,
        engine: &SharedEngine,
        event: &Event,
        listener: Self::Listener,
        answer: Result<Reply, Problem>,
    ) -> Heard;

    /// Hears what an administrator should know.
    fn remark(&mut self, remark: &Remark);

    /// A publication is recorded; `looked` if its store was looked into for it.
    fn published(&mut self, publication: &Publication, looked: bool);

    /// These changes are committed, and the engine has taken them in.
    fn committed(&mut self, changes: Vec<Change>);
}

/// All that the shell needs.
pub trait Ports: Records + Executor + Audience {}

impl<P: Records + Executor + Audience> Ports for P {}

/// Who heard an answer, and so who logs a failure: each is logged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heard {
    /// Nobody: whoever asked has gone away.
    Nobody,
    /// A caller. Trouble of the daemon's own is logged as he is answered; that he was refused is not.
    Caller,
    /// A part of the daemon, which logs what it hears.
    Daemon,
}
