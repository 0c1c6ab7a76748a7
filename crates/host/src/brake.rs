//! The brake: a volume's writers are stopped for a bounded time, while a snapshot of it gets more space.
//!
//! A classic snapshot that is full is lost, and a writer at full speed fills one faster than LVM extends it. So its
//! origin's device is suspended meanwhile: a write that has not begun waits, and nothing is copied into any snapshot.
//! The danger lies in whoever suspends: if that process ends, or waits for the very device that it has suspended,
//! writers wait until somebody resumes it, and nothing but a restart of the machine ends them.
//!
//! So the daemon holds nothing itself. It asks a small process of its own program ([`serve`]), which keeps to this:
//!
//! - it lets go at a deadline, when its standard input ends (with the daemon, however that ends), and when it is told to
//!   stop by a signal; it tries until it works;
//! - no hold is longer than [`MOST_HOLD`], whatever is asked, and there is never more than one;
//! - while it holds, it opens no file, asks for no memory, and writes only lines that do not make it wait. Its memory is
//!   locked, where the system lets it, so that none has to come from a disk first.
//!
//! The daemon in turn never waits for that process without a deadline ([`Brake`]): where it has ended, is stopped, or
//! says something else than it should, the daemon kills it, resumes the device by itself, and starts another one for the
//! next hold. Where both fail at once, what is left suspended is resumed by [`let_go`], when the service has stopped and
//! when the daemon starts.
//!
//! LVM extends a snapshot of a device that is suspended, and resumes the device when it is done, although other snapshots
//! of it may still be too small. The kernel knows of no suspension but one. So the process looks every millisecond whether
//! the device is still suspended, and suspends it again where it is not, until it is told to let go or its time is over.

mod child;
mod error;
mod left;
mod lines;
mod parent;
mod process;
mod records;
pub(crate) mod words;

use std::time::Duration;

pub use error::{Error, Trouble};
pub use left::let_go;
pub use parent::{Brake, Released, Suspension};
pub use process::serve;
pub use records::{RECORDS, write_down};

/// The longest that a device is ever held.
pub const MOST_HOLD: Duration = Duration::from_secs(10);
