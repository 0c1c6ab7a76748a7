//! The configuration as it is written. Every key is here, with its default.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::Role;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default = "default_state")]
    pub(super) state: PathBuf,
    #[serde(default = "default_mounts")]
    pub(super) mounts: PathBuf,
    #[serde(default = "default_stop_timeout")]
    pub(super) stop_timeout: String,
    #[serde(default)]
    pub(super) listen: Listen,
    #[serde(default)]
    pub(super) copies: Copies,
    pub(super) fuse: Option<Fuse>,
    #[serde(default)]
    pub(super) archive: Archive,
    #[serde(default)]
    pub(super) retention: Grace,
    #[serde(default)]
    pub(super) clock: Clock,
    #[serde(default)]
    pub(super) log: Log,
    #[serde(default)]
    pub(super) lvm: Lvm,
    #[serde(default)]
    pub(super) guard: Guard,
    #[serde(default)]
    pub(super) track: Track,
    #[serde(default)]
    pub(super) query: Query,
    #[serde(default)]
    pub(super) feed: Feed,
    pub(super) remote: Option<Remote>,
    pub(super) follow: Option<Follow>,
    #[serde(default)]
    pub(super) token: Vec<Token>,
    #[serde(default)]
    pub(super) peer: Vec<Peer>,
    #[serde(default)]
    pub(super) store: Vec<Store>,
    #[serde(default)]
    pub(super) set: Vec<Set>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listen {
    pub(super) max_connections: Option<usize>,
    pub(super) max_downloads: Option<usize>,
    pub(super) max_downloads_per_caller: Option<usize>,
    pub(super) request_timeout: Option<String>,
    pub(super) unix: Option<PathBuf>,
    pub(super) unix_mode: Option<String>,
    pub(super) tcp: Option<String>,
    pub(super) tokens: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Copies {
    pub(super) max_size: String,
    pub(super) max_lease: String,
    pub(super) max_leases: Option<u32>,
    pub(super) max_leases_per_caller: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Archive {
    pub(super) compaction_rate: Option<String>,
}

/// How stores are tracked of which nothing else is said.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Track {
    pub(super) mode: Option<String>,
    pub(super) max_wal: Option<String>,
    pub(super) check: Option<String>,
}

/// How much queries over versions may take.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Query {
    pub(super) max_rows: Option<u64>,
    pub(super) max_time: Option<String>,
    pub(super) max_memory: Option<String>,
    pub(super) max_disk: Option<String>,
    pub(super) at_once: Option<usize>,
}

/// Who is told what each version changed.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Feed {
    pub(super) command: Vec<String>,
}

/// Where history is kept beside this machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Remote {
    pub(super) url: String,
    #[serde(default)]
    pub(super) options: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) recipients: Vec<String>,
    pub(super) identity: Option<PathBuf>,
    pub(super) required: Option<bool>,
    pub(super) late_after: Option<String>,
}

/// Which bucket is followed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Follow {
    pub(super) url: String,
    #[serde(default)]
    pub(super) options: BTreeMap<String, String>,
    pub(super) identity: Option<PathBuf>,
    #[serde(default)]
    pub(super) stores: Vec<String>,
    pub(super) poll: Option<String>,
    pub(super) cache: Option<String>,
    pub(super) late_after: Option<String>,
}

/// What is true of the retention of every store.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Grace {
    pub(super) grace: Option<String>,
}

/// What is left out here is as [`asat_core::clock::Bounds`] has it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Clock {
    pub(super) max_jump: Option<String>,
    pub(super) max_off: Option<String>,
    pub(super) accept_after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fuse {
    pub(super) root: PathBuf,
    #[serde(default = "default_allow_other")]
    pub(super) allow_other: bool,
    #[serde(default = "default_fuse_mode")]
    pub(super) mode: String,
    pub(super) group: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Log {
    pub(super) format: String,
    pub(super) level: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Lvm {
    pub(super) timeout: String,
}

/// What is left out here is as [`asat_core::guard::Policy`] has it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Guard {
    pub(super) ladder: Option<Vec<String>>,
    pub(super) space_before_retention: bool,
    pub(super) pools: Vec<String>,
    pub(super) shortest_tick: Option<String>,
    pub(super) longest_tick: Option<String>,
    pub(super) least_rate: Option<String>,
    pub(super) full_rate: Option<String>,
    pub(super) half_life: Option<String>,
    pub(super) lasting: Option<String>,
    pub(super) brake: Option<String>,
    pub(super) least_free: Option<String>,
    pub(super) alarm_command: Vec<String>,
    pub(super) alarm_repeat: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) sha256: String,
    pub(super) expires: Option<toml::Value>,
}

/// A file of tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tokens {
    #[serde(default)]
    pub(super) token: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    pub(super) role: Role,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    pub(super) name: String,
    pub(super) path: PathBuf,
    #[serde(default = "default_backend")]
    pub(super) backend: String,
    #[serde(default)]
    pub(super) keep_snapshots: u32,
    pub(super) snapshot_size: Option<String>,
    pub(super) clones: Option<PathBuf>,
    pub(super) track: Option<String>,
    #[serde(default)]
    pub(super) trim: bool,
    #[serde(default = "default_busy_timeout")]
    pub(super) busy_timeout: String,
    #[serde(default = "default_max_hold")]
    pub(super) max_hold: String,
    #[serde(default)]
    pub(super) retention: Retention,
    #[serde(default)]
    pub(super) check: Vec<Check>,
    #[serde(default)]
    pub(super) unique_labels: bool,
    pub(super) expect: Option<String>,
    pub(super) watch: Option<Watch>,
}

/// What is wrong with a set is told with its line: several may name the same stores.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    pub(super) name: Spanned<String>,
    pub(super) stores: Spanned<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watch {
    pub(super) marker: String,
    pub(super) deadline: Option<String>,
    pub(super) debounce: Option<String>,
    pub(super) longest: Option<String>,
    pub(super) poll: Option<String>,
}

/// What is expected of a query may be a number or a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) query: Option<String>,
    pub(super) builtin: Option<String>,
    pub(super) equals: Option<toml::Value>,
    pub(super) at_least: Option<toml::Value>,
    pub(super) deadline: Option<String>,
}

/// What stands here may contradict other lines, which are named then: so it is known where it stands.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retention {
    pub(super) keep: Option<Spanned<String>>,
    pub(super) at_most: Option<Spanned<String>>,
    pub(super) at_least: Option<Spanned<u32>>,
    pub(super) label: Vec<LabelRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelRule {
    pub(super) pattern: Spanned<String>,
    pub(super) keep: Spanned<String>,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            max_size: "10 GiB".to_owned(),
            max_lease: "31d".to_owned(),
            max_leases: None,
            max_leases_per_caller: None,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: "auto".to_owned(), level: "info".to_owned() }
    }
}

impl Default for Lvm {
    fn default() -> Self {
        Self { timeout: "30s".to_owned() }
    }
}

fn default_state() -> PathBuf {
    PathBuf::from("/var/lib/asat")
}

fn default_mounts() -> PathBuf {
    PathBuf::from("/run/asat/mnt")
}

fn default_allow_other() -> bool {
    true
}

fn default_fuse_mode() -> String {
    "0440".to_owned()
}

fn default_stop_timeout() -> String {
    "20s".to_owned()
}

fn default_backend() -> String {
    "auto".to_owned()
}

fn default_busy_timeout() -> String {
    "5s".to_owned()
}

fn default_max_hold() -> String {
    "10s".to_owned()
}

/// The Unix socket where nothing else is configured.
pub(super) const DEFAULT_SOCKET: &str = "/run/asat/asat.sock";

/// The names of stores that occur more than once.
pub(super) fn repeated(stores: &[Store]) -> Vec<&str> {
    let mut count: BTreeMap<&str, u32> = BTreeMap::new();
    for store in stores {
        *count.entry(&store.name).or_default() += 1;
    }
    count.into_iter().filter(|(_, n)| *n > 1).map(|(name, _)| name).collect()
}
