//! The machine as the driver sees it: something that many threads ask to perform effects.

use asat_core::clock::{Anchor, Reading};
use asat_core::event::{Effect, Outcome, Survey};
use asat_core::register::Register;
use asat_core::{Problem, StoreName, VersionId};
use jiff::Timestamp;

/// Performs effects. Every method may block; effects are performed on threads of their own.
pub(crate) trait Host: Send + Sync + 'static {
    /// The time as it is believed, in whole microseconds.
    fn now(&self) -> Timestamp;

    /// What the machine's clocks say.
    fn clocks(&self) -> Reading;

    /// Goes by this from now on: it is what is believed of the clocks.
    fn go_by(&self, anchor: &Anchor);

    /// What the machine holds. Versions that the register does not list as archived are described.
    ///
    /// # Errors
    /// Where the machine cannot be looked at; the daemon does not start then.
    fn survey(&self, register: &Register) -> Result<Survey, Problem>;

    /// What a store's archive takes, in bytes; nothing where it has none.
    fn archive_bytes(&self, store: &StoreName) -> u64;

    /// Which of these versions somebody in this process holds at this moment, and, unless the guard needs their space, which are not in the
    /// bucket yet. Nobody holds the others from then on.
    fn held(&self, versions: &[VersionId], for_space: bool) -> Vec<VersionId>;

    /// Performs an effect. Doing one again that has happened already changes nothing more.
    fn perform(&self, effect: &Effect) -> Outcome;

    /// Undoes an effect whose outcome could not be committed, so that the machine is as the catalogue says.
    ///
    /// # Errors
    /// Where that fails too; starting again settles it.
    fn undo(&self, effect: &Effect) -> Result<(), Problem>;

    /// Asks long effects to end soon, with [`asat_core::Code::Stopping`].
    fn stop(&self);
}
