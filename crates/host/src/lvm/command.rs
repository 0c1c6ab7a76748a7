//! The one place that runs LVM's commands.
//!
//! A command runs without a shell, from a fixed folder, in an environment of its own, and in a process
//! group of its own, so that an interrupt typed at the daemon's terminal does not end it half-way.
//!
//! Every command has a deadline. One that outlives it is neither waited for nor killed: it may be waiting
//! in the kernel, where nothing reaches it, or hold a volume suspended, and to kill it then would leave
//! every writer of that volume waiting for good. So the call returns [`Error::Wedged`], a thread stays
//! behind to take the command's output and its end, and until then every other call fails at once. Commands
//! wait for one another's locks anyway: to start more of them would only pile them up.
//!
//! No text from outside can become an option. Options are written in the source, their values are joined to
//! them with `=`, and volumes and groups stand behind `--`.

mod call;
mod child;
mod error;
mod lane;
mod refusal;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use call::Call;
pub use error::Error;
pub use lane::{Lane, Wedge};
pub use refusal::{Refusal, refusal};

/// Where the command may be. A search path could be set by somebody else.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];

/// The oldest version that a distribution still maintained carries (Debian 11). Older ones also have JSON
/// reports, and nobody has tried asat with them.
const OLDEST: Version = Version(2, 3, 11);

/// LVM on this machine.
#[derive(Clone, Debug)]
pub struct Lvm {
    binary: PathBuf,
    version: Version,
    lane: Lane,
    deadline: Duration,
    timing: Option<Arc<dyn Timing>>,
}

/// Hears how long commands take.
pub trait Timing: std::fmt::Debug + Send + Sync {
    /// A command such as `lvcreate` is over after so long, well or not, or is no longer waited for.
    fn ended(&self, command: &'static str, took: Duration);
}

/// A version of LVM, such as 2.03.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Lvm {
    /// Finds the command, and looks whether its version is one that asat knows.
    ///
    /// # Errors
    /// Where it is not installed, is too old, or does not run.
    pub fn find() -> Result<Self, Error> {
        Self::find_within(DEADLINE)
    }

    /// The same with another time than the usual one for every call that names none.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_within(deadline: Duration) -> Result<Self, Error> {
        Ok(Self { deadline, ..Self::find_in(&FOLDERS.map(Path::new))? })
    }

    fn find_in(folders: &[&Path]) -> Result<Self, Error> {
        let found = folders.iter().map(|folder| folder.join("lvm")).find(|path| path.is_file());
        let binary = found.ok_or(Error::NotInstalled)?;
        let (lane, timing) = (Lane::default(), None);
        let mut lvm = Self { binary, version: OLDEST, lane, deadline: DEADLINE, timing };
        let text = lvm.run(&Call::new("version"))?;
        lvm.version = parse_version(&text).ok_or_else(|| Error::Unreadable {
            command: "lvm version".to_owned(),
            what: "it names no version".to_owned(),
        })?;
        if lvm.version < OLDEST {
            return Err(Error::TooOld { binary: lvm.binary, found: lvm.version, oldest: OLDEST });
        }
        Ok(lvm)
    }

    /// The same, of which somebody hears how long its commands take.
    #[must_use]
    pub fn timed_by(self, timing: Arc<dyn Timing>) -> Self {
        Self { timing: Some(timing), ..self }
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The state that all calls share; clones of this value share it too.
    #[must_use]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Runs a command to its end, and returns what it wrote to its standard output.
    ///
    /// # Errors
    /// Where the command cannot be started, is still running at its deadline, or fails; and at once where an
    /// earlier one is still running after its own.
    pub fn run(&self, call: &Call) -> Result<String, Error> {
        let (began, deadline) = (Instant::now(), call.deadline().unwrap_or(self.deadline));
        let result = child::run(&self.binary, call, deadline, &self.lane);
        let took = began.elapsed();
        // One that was refused because another does not end was not run.
        let was_run = took >= deadline || !matches!(result, Err(Error::Wedged { .. }));
        if let Some(timing) = self.timing.as_ref().filter(|_| was_run) {
            timing.ended(call.name(), took);
        }
        result
    }
}

/// How long a command may take. Asat's own are over in a second, and in ten on a group with a thousand
/// volumes; beyond this somebody else holds LVM's locks, or a disk does not answer.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Finds `LVM version:     2.03.16(2) (2022-05-18)`.
pub(crate) fn parse_version(text: &str) -> Option<Version> {
    text.lines().find_map(|line| line.trim().strip_prefix("LVM version:"))?.trim().parse().ok()
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut parts = text.get(..end).unwrap_or_default().split('.').map(str::parse);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Ok(Self(major, minor, patch)),
            _ => Err(()),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}.{:02}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
pub(super) mod tests;
