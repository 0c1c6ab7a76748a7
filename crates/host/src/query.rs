//! One query over several versions, in a process of its own.
//!
//! A query comes from anybody who may read, and may be wrong: it may loop for ever, ask for more memory than there is, or for a billion
//! rows. So it is asked in a process apart from the daemon, which also guards snapshots: [`run`] starts the daemon's own program again,
//! and [`serve`] is what that does. It has bounds of memory and time, opens the files of the versions read-only, and lets SQLite do
//! nothing but read. Its answer is JSON, a line each: the columns, the rows, and the end.
//!
//! What SQLite sorts beyond its memory is in temporary files, in a [`Workspace`] with a bound: as records in memory, each in an allocation of its own,
//! large sorts take nearly twice as long.
//!
//! [`MadeUp`] makes the tables of what changed, which no version has, in a file of their own.

mod limits;
mod made_up;
mod run;
mod serve;
mod workspace;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use made_up::{CutVersion, MadeUp};
pub use run::run;
pub use serve::serve;
pub use workspace::Workspace;

/// A query, and over what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The query.
    pub sql: String,
    /// The databases that it may name.
    pub attached: Vec<Attached>,
    /// How much it may take.
    pub bounds: Bounds,
}

/// A database by its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attached {
    /// The name in the query.
    pub name: String,
    /// Its file, which does not change.
    pub path: PathBuf,
}

/// How much a query may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// So many rows are answered at most.
    pub rows: u64,
    /// It is ended after this time.
    pub time: Duration,
    /// SQLite may take so many bytes.
    pub memory_bytes: u64,
    /// So many bytes on the disk may its temporary files have together.
    pub disk_bytes: u64,
}

/// What the process says besides rows, each a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// The names of the columns: the query is one that can be answered.
    Columns(Vec<String>),
    /// All rows were said.
    End { rows: u64, more: bool },
    /// SQLite does not answer the query, for this reason.
    Refused(String),
    /// The time was over.
    Late,
    /// Its temporary files became too large.
    Full,
    /// The process has failed.
    Failed(String),
}
