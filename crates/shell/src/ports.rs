//! What the shell needs of the place in which it runs.

use std::time::Duration;

use asat_core::clock::{Anchor, Reading};
use asat_core::event::{Change, Effect, Event, Intent, Remark, Reply, Survey};
use asat_core::guard::{Advice, GuardEntry, Room, Step};
use asat_core::recorder::Commit;
use asat_core::register::Register;
use asat_core::snapshot::Snapshot;
use asat_core::version::Publication;
use asat_core::{Problem, StoreName, VersionId};
use jiff::Timestamp;

use crate::{Look, Recorded, SharedEngine};

/// Where changes are committed.
pub trait Records {
    /// Commits changes durably, all or nothing.
    ///
    /// # Errors
    /// Why nothing was committed.
    fn record(&mut self, changes: &[Change]) -> Result<(), Problem>;

    /// The newest commit.
    fn commit(&self) -> Commit;

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

    /// Which of these versions somebody in this process holds at this moment; `for_space` says that the guard wants to give them up, as a
    /// volume fills else. Nobody can hold the others from then on.
    fn held(&self, versions: &[VersionId], for_space: bool) -> Vec<VersionId>;

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

/// All that the driver needs.
pub trait Ports: Records + Executor + Audience {}

impl<P: Records + Executor + Audience> Ports for P {}

/// What the guard sees with. LVM is slow, so it is asked beside the guard, and its answers are told to [`crate::Guard::hear`].
pub trait Sensors {
    /// The guard's own clock, which only goes forward, in milliseconds from any beginning.
    fn uptime_ms(&self) -> u64;

    /// The time as it is believed, in whole microseconds.
    fn now(&self) -> Timestamp;

    /// Looks at everything that can run out of space.
    ///
    /// # Errors
    /// If it cannot be looked at.
    fn observe(&mut self, at_ms: u64, recorded: &Recorded, room: &Room) -> Result<Look, Problem>;

    /// Has LVM asked how much room there is.
    fn ask_room(&mut self);

    /// Has LVM asked whether a snapshot that the kernel has no device of is gone for good; only then it answers.
    fn ask_whether_removed(&mut self, id: &VersionId, snapshot: &Snapshot);
}

/// What the guard acts with. Nothing waits here for an action's end: that is told to [`crate::Guard::hear`].
pub trait Actuators {
    /// Begins an extension. One is begun at a time; `false` if another one is under way.
    fn extend(&mut self, step: &Step) -> bool;

    /// Keeps LVM's turn for the guard from one extension to the next.
    fn keep_turn(&mut self);

    /// Lets others change volumes.
    fn give_turn(&mut self);

    /// Has an origin's writers held for at most so long; `false` if nobody can do it.
    fn hold_writers(&mut self, origin: &str, step: &Step, most_ms: u64) -> bool;

    /// Lets an origin's writers go, if they are held.
    fn release_writers(&mut self, origin: &str);

    /// Lets all writers go that are held.
    fn release_all(&mut self);

    /// Asks the engine for what a step wants. That has ended once what it gave back is known.
    fn ask_engine(&mut self, step: &Step, event: Event);

    /// Tells the engine of something.
    fn tell_engine(&mut self, event: Event);

    /// Says what publications must know from now on.
    fn advise(&mut self, advice: Advice);
}

/// Those who hear what the guard does.
pub trait Spectators {
    /// An action has begun.
    fn began(&mut self, step: &Step);

    /// An action has ended; `added` is what the guard itself added to the time that LVM's command took.
    fn ended(&mut self, entry: GuardEntry, added: Option<Duration>);
}

/// All that the guard needs.
pub trait GuardPorts: Sensors + Actuators + Spectators {}

impl<P: Sensors + Actuators + Spectators> GuardPorts for P {}

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
