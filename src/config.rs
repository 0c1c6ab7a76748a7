//! The configuration: raw TOML, in which unknown keys are refused, becomes a validated [`Config`].
//!
//! Whatever can be known to be wrong before the daemon does anything is refused here, with the file, the key
//! and what to write instead.

mod access;
mod check;
mod clock;
mod follow;
mod fuse;
mod guard;
mod log;
mod mistakes;
mod query;
mod raw;
pub mod reference;
mod reload;
mod remote;
mod retention;
mod set;
mod track;
mod validate;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use asat_core::check::Check;
use asat_core::clock::Bounds;
use asat_core::freshness::Expectation;
use asat_core::guard::Rung;
use asat_core::retention::Retention;
use asat_core::snapshot::BackendKind;
use asat_core::{Backing, Code, LeaseBounds, Policy, Problem, SetName, StoreName, StorePolicy};

use jiff::SignedDuration;

pub use access::{PeerRule, Role, Token, Who, check_tokens};
pub use follow::FollowConfig;
pub use fuse::FuseConfig;
pub use guard::{AlarmConfig, GuardConfig};
pub use log::{LogConfig, LogFormat, LogLevel};
pub use query::QueryConfig;
pub use reload::Later;
pub use remote::{RemoteConfig, RepositoryPlace, SCHEMES, recipients};
pub use track::TrackConfig;
pub use watch::WatchConfig;

use crate::secret::{self, Others};

/// A validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder of catalogue, archive and as-at copies.
    pub state: PathBuf,
    /// The folder below which snapshots are mounted.
    pub mounts: PathBuf,
    /// Where clients connect.
    pub listen: Listen,
    /// Who may connect over TCP.
    pub tokens: Vec<Token>,
    /// Who may do what over the Unix socket; where there is no rule, whoever may connect may do everything.
    pub peers: Vec<PeerRule>,
    /// The most bytes that as-at copies may take together.
    pub max_copy_bytes: u64,
    /// The longest time for which a lease is granted, in seconds.
    pub max_ttl_s: u32,
    /// How long the pages of a version are kept that was given up on request or for its age.
    pub grace: SignedDuration,
    /// How many leases may be open at a time.
    pub leases: LeaseBounds,
    /// How far the machine's clock is believed.
    pub clock: Bounds,
    /// How many bytes a second the compaction of an archive writes at most.
    pub compaction_rate: u64,
    /// Where versions can be read by their paths; nowhere where it is left out.
    pub fuse: Option<FuseConfig>,
    /// What the guard may do, what it assumes, and whom it tells.
    pub guard: GuardConfig,
    /// How much queries over versions may take.
    pub queries: QueryConfig,
    /// The command that is told what each version changed, with its arguments; nobody where it is empty.
    pub feed_command: Vec<String>,
    /// Where history is kept beside this machine; nowhere else if it is left out.
    pub remote: Option<RemoteConfig>,
    /// Which bucket this asat follows; then it has no stores of its own, and only reads.
    pub follow: Option<FollowConfig>,
    /// In which form the log is written, and how much of it.
    pub log: LogConfig,
    /// How long a command of LVM may take before it is taken to be stuck.
    pub lvm_timeout: Duration,
    /// How long a stop waits for what is under way.
    pub stop_timeout: Duration,
    /// The stores by name.
    pub stores: BTreeMap<StoreName, StoreConfig>,
    /// The stores of each set that is published as of one instant.
    pub sets: BTreeMap<SetName, BTreeSet<StoreName>>,
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The path of a Unix socket.
    pub unix: Option<PathBuf>,
    /// Its file mode.
    pub unix_mode: u32,
    /// A TCP address.
    pub tcp: Option<SocketAddr>,
    /// So many connections may be open at each of them.
    pub max_connections: usize,
    /// So many downloads may be under way, for all callers together.
    pub max_downloads: usize,
    /// So many of them may be one caller's.
    pub max_downloads_per_caller: usize,
    /// How long a client may take for the head of a request, for its body, and to take a piece of an answer.
    pub request_timeout: Duration,
}

/// One store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The path of its database file, as configured.
    pub path: PathBuf,
    /// How its versions are cut; `None` leaves that to what the machine offers.
    pub backend: Option<BackendKind>,
    /// Of how many versions, the newest, the snapshot is kept although they are archived.
    pub keep_snapshots: usize,
    /// How large a classic snapshot is made, in bytes; `None` leaves that to what is seen of the store.
    pub snapshot_size: Option<u64>,
    /// The folder that its clones are made in, on its own file system; below the state folder where it is left out.
    pub clones: Option<PathBuf>,
    /// How it is tracked where it is cut by pages; not at all where it is left out.
    pub track: Option<TrackConfig>,
    /// Whether the file system gives unused blocks back to its thin pool before each cut.
    pub trim: bool,
    /// How long a cut waits for a lock.
    pub busy_timeout: Duration,
    /// How long a cut may keep commits waiting, where the journal mode makes it.
    pub max_hold: Duration,
    /// Which versions may be given up.
    pub retention: Retention,
    /// What its content must meet to be published, in the order in which it is asked.
    pub checks: Vec<Check>,
    /// Whether a label is given to one version only.
    pub unique_labels: bool,
    /// By when it is expected to be published; nothing is expected where it is left out.
    pub expect: Option<Expectation>,
    /// By which query it is published by itself; not at all where it is left out.
    pub watch: Option<WatchConfig>,
}

impl Config {
    /// Reads and validates a configuration file. Relative paths in it start from its folder.
    ///
    /// # Errors
    /// [`Code::Configuration`], naming the file and the key.
    pub fn load(file: &Path) -> Result<Self, Problem> {
        let (opened, text) = read(file).map_err(|error| {
            let detail = format!("cannot read the configuration {}: {error}", file.display());
            let hint = match error.kind() {
                ErrorKind::NotFound => {
                    "make one with asat init --store PATH, or name another one with --config FILE"
                }
                ErrorKind::InvalidData => "it is no text: name the configuration with --config FILE",
                _ => "name a readable file with --config FILE",
            };
            Problem::new(Code::Configuration, detail, hint)
        })?;
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let folder = absolute.parent().unwrap_or(Path::new("/"));
        let config = Self::parse(&text, folder).map_err(|problem| Problem {
            detail: format!("{}: {}", file.display(), problem.detail),
            ..problem
        })?;
        // Whoever can write who may do what may do everything.
        if !config.tokens.is_empty() || !config.peers.is_empty() {
            secret::check("the configuration", file, &opened, Others::NoWriting)?;
        }
        Ok(config)
    }

    /// Validates the text of a configuration whose relative paths start from `folder`.
    ///
    /// # Errors
    /// [`Code::Configuration`], naming the key.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Problem> {
        let raw: raw::Config = toml::from_str(text).map_err(|error| {
            let detail = mistakes::in_one_line(text, &error);
            Problem::new(Code::Configuration, detail, "`asat configuration` prints every key with its form")
        })?;
        validate::validate(raw, text, folder)
    }

    /// What the engine needs to know of it. How each store is cut was found out on the machine; a store of which
    /// nothing was found out is cut by its pages.
    #[must_use]
    pub fn policy(&self, backings: &BTreeMap<StoreName, Backing>) -> Policy {
        let store = |(name, store): (&StoreName, &StoreConfig)| {
            let policy = StorePolicy {
                path: store.path.clone(),
                retention: store.retention.clone(),
                backing: backings.get(name).cloned().unwrap_or_default(),
                keep_snapshots: store.keep_snapshots,
                unique_labels: store.unique_labels,
                expect: store.expect,
            };
            (name.clone(), policy)
        };
        Policy {
            stores: self.stores.iter().map(store).collect(),
            sets: self.sets.clone(),
            max_copy_bytes: self.max_copy_bytes,
            max_ttl_s: self.max_ttl_s,
            grace: self.grace,
            leases: self.leases,
            clock: self.clock,
            may_demote: self.guard.policy.ladder.contains(&Rung::Demote),
        }
    }

    /// The catalogue's file.
    #[must_use]
    pub fn catalogue(&self) -> PathBuf {
        self.state.join("catalogue.db")
    }

    /// The file in which it is kept what differs between versions.
    #[must_use]
    pub fn summaries(&self) -> PathBuf {
        self.state.join("summaries.db")
    }

    /// The folder of a store's archive.
    #[must_use]
    pub fn archive(&self, store: &StoreName) -> PathBuf {
        self.archives().join(store.as_str())
    }

    /// The folder of all archives.
    #[must_use]
    pub fn archives(&self) -> PathBuf {
        self.state.join("archive")
    }

    /// The folder of what is kept here of the bucket that is followed.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.state.join("cache")
    }

    /// The folder in which it is noted how far each store is followed.
    #[must_use]
    pub fn follow_notes(&self) -> PathBuf {
        self.state.join("followed")
    }

    /// The folder for what is needed for a moment only.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.state.join("scratch")
    }

    /// Where it is recorded which pools keep a state of their metadata to be read.
    #[must_use]
    pub fn pools(&self) -> PathBuf {
        self.state.join("pools")
    }

    /// The folder of a store's clones; each installation has a folder of its own in it.
    #[must_use]
    pub fn clones(&self, store: &StoreConfig) -> PathBuf {
        store.clones.clone().unwrap_or_else(|| self.state.join("clones"))
    }

    /// The folder of as-at copies.
    #[must_use]
    pub fn copies(&self) -> PathBuf {
        self.state.join("copies")
    }
}

/// More than any configuration has, in bytes.
pub(crate) const MOST_TEXT: u64 = 4 << 20;

/// A file's text, with the file that it was read from.
fn read(file: &Path) -> std::io::Result<(File, String)> {
    let mut opened = File::open(file)?;
    let mut text = String::new();
    (&mut opened).take(MOST_TEXT + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MOST_TEXT {
        return Err(std::io::Error::other(format!("it is longer than {}", crate::text::size(MOST_TEXT))));
    }
    Ok((opened, text))
}
