//! Facts about this machine, for somebody who wants to know whether asat will do well on it.
//!
//! Nothing is changed here. A store's file is not opened, but for its header by [`sharing()`]: to close it again could drop
//! the locks of whoever has it open in this process, so its name alone is asked about. What could not be found
//! out is a fact too, so nothing here fails.

mod listening;
mod mapper;
mod place;
mod sharing;
pub(crate) mod tools;

use rustix::process::{Resource, getrlimit};

pub use listening::{Listening, socket, tcp};
pub use mapper::{Answer, Mapper, Module, mapper};
pub use place::{Footing, Kind, PathKind, Place, Pool, Volume, bytes_below, entry, footing, place};
pub use sharing::{Sharing, is_in_wal_mode, sharing};
pub use tools::{Settings, Tools, find_tools};

/// The user that this process acts as, by its number.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The most files that this process may allow itself to have open; `None` stands for no limit.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}
