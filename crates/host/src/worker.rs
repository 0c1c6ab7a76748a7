//! Working on stores in processes apart from the daemon.
//!
//! Whoever owns a store can change its files at any moment. SQLite maps the wal-index (`-shm`) into memory, and a process that
//! touches a mapped page of a file that was cut short meanwhile is ended by the kernel (SIGBUS). A schema or a query may ask for
//! more memory than there is. The daemon also guards snapshots and must outlive that, so it opens no store's files through SQLite.
//! It asks a worker process to do so: its own program, started again, that calls [`serve`].
//!
//! - A worker serves one request at a time, for one store. [`Workers`] keeps some of them between requests, each for the store that
//!   it was started for, so that a publication need not wait for a process to start.
//! - The two speak over one socket: requests and answers as JSON, pages as they are, in batches ([`frames`]). What a worker says is
//!   checked as anything from outside: sizes, order and number of pages.
//! - A worker whose daemon has gone ends, and so lets go of every lock. The daemon ends a worker that does not answer in time. What became of the
//!   worker is an ordinary error of the request.
//! - A worker has bounds of its own: memory, core dumps, no environment. Where the daemon is root, it acts as the user
//!   who owned the store when the daemon first saw it. The one for a restore becomes that user when it has opened the version, which is the daemon's.

pub(crate) mod bounds;
mod call;
mod error;
mod follower;
pub(crate) mod frames;
mod held;
mod identity;
mod pool;
mod process;
mod restoring;
mod serve;
mod sets;
pub(crate) mod words;

pub use follower::Follower;
pub use held::Still;
pub use identity::Identity;
pub use pool::Workers;
pub use serve::serve;
pub use sets::{Fixed, Moment};
