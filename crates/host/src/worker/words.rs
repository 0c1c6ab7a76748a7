//! What the daemon and a worker say to each other.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use asat_core::check::{Check, CheckResult, Rows};
use asat_core::{PageSize, Problem};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::{CutError, Error, Followed, Following, Frozen, Limits, Read, StillState, Target};

/// A path, whatever bytes it has.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RawPath(Vec<u8>);

impl From<&Path> for RawPath {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }
}

impl From<RawPath> for PathBuf {
    fn from(RawPath(bytes): RawPath) -> Self {
        Self::from(OsString::from_vec(bytes))
    }
}

/// A store, and whose it has to be.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    path: RawPath,
    owner: Option<u32>,
}

impl From<&Target> for Place {
    fn from(Target { path, owner }: &Target) -> Self {
        Self { path: path.as_path().into(), owner: *owner }
    }
}

impl From<Place> for Target {
    fn from(Place { path, owner }: Place) -> Self {
        Self { path: path.into(), owner }
    }
}

/// What the daemon wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Say [`Said::Ready`].
    Ping,
    /// Read all pages, once the checks are met.
    Read { store: Place, limits: Limits, checks: Vec<Check> },
    /// Read what changed of a store, and track it from then on: no order follows but this one.
    Follow { store: Place, following: Following, limits: Limits, checks: Vec<Check> },
    /// Read all pages of a file in a snapshot.
    ReadFrozen { path: RawPath, with_wal: bool },
    /// Make checks on a file in a snapshot.
    CheckFrozen { path: RawPath, with_wal: bool, checks: Vec<Check> },
    /// Ask one query.
    Ask { store: Place, sql: String, deadline: Duration, most_hold: Duration },
    /// Hold the store still until [`Order::Release`].
    Still { store: Place, limits: Limits, must_hold: bool },
    /// Release what is held still.
    Release,
    /// Begin to hold the store together with others.
    Join { store: Place, limits: Limits, by_snapshot: bool },
    /// Hold its writers; others are held for so long already.
    Hold { others_held: Option<Duration> },
    /// Let its writers go.
    Free,
    /// Fix its content.
    Fix,
    /// Let writers go who need not be held any longer.
    LetGo { cut_at: Timestamp },
    /// Read all pages of what was fixed, once the checks are met.
    ReadFixed { checks: Vec<Check> },
    /// Write this database over the store, as this user.
    Restore { store: Place, source: RawPath, limits: Limits, user: Option<String> },
    /// The answer to [`Said::IsUnchanged`].
    Unchanged(Result<bool, Problem>),
    /// End what is under way.
    Cancel,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It takes requests.
    Ready,
    /// So many pages of this size follow.
    Begin(PageSize, u32),
    /// Commits wait until these are taken.
    Hurry,
    /// So many pages are as they were.
    Same(u32),
    /// So many of the pages that follow should be as they were.
    Claim(u32),
    /// So many pages are written, and of how many.
    Progress(u32, u32),
    /// It asks whether the store is as it was kept.
    IsUnchanged,
    /// It is done.
    Done(Reply),
    /// It came to nothing.
    Failed {
        /// Why.
        problem: Problem,
        /// Whether a lock was not to be had in time.
        is_busy: bool,
    },
}

/// What came of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Nothing,
    Read(Read, Vec<CheckResult>),
    Followed(Read, Vec<CheckResult>, Followed),
    Frozen(Frozen),
    Checked(Vec<CheckResult>),
    Rows(Rows),
    Still(Box<StillState>),
    Fixed,
    Took(Duration),
}

impl Said {
    pub(super) fn of(result: Result<Reply, Error>) -> Self {
        match result {
            Ok(reply) => Self::Done(reply),
            Err(error) => Self::Failed { is_busy: error.is_busy(), problem: error.into() },
        }
    }
}

impl From<Result<Reply, CutError>> for Said {
    fn from(result: Result<Reply, CutError>) -> Self {
        Self::of(result.map_err(|failed| failed.error))
    }
}
