//! From what is written to what is meant, with every value checked.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use asat_core::freshness::{Expectation, ExpectationError};
use asat_core::snapshot::BackendKind;
use asat_core::{Code, LeaseBounds, Problem, StoreName};
use bytesize::ByteSize;
use jiff::{SignedDuration, Span, SpanRelativeTo, Unit};

use super::{
    Config, Listen, StoreConfig, access, check, clock, follow, fuse, guard, log, query, raw, remote,
    retention, set, track, watch,
};

/// How many bytes a second compaction writes at most, where nothing is configured: what any disk takes beside its work.
const COMPACTION_RATE: u64 = 50 << 20;

/// `text` is what `raw` was read from, to name lines of it.
pub(super) fn validate(raw: raw::Config, text: &str, folder: &Path) -> Result<Config, Problem> {
    let state = at("state", folder, &raw.state)?;
    let repeated = raw::repeated(&raw.store);
    if let Some(name) = repeated.first() {
        return Err(wrong(
            "store.name",
            format!("{name:?} names two stores"),
            "give each store its own name",
        ));
    }
    let mut config = Config {
        mounts: at("mounts", folder, &raw.mounts)?,
        listen: listen(&raw.listen, folder)?,
        tokens: access::tokens(&raw, folder)?,
        peers: access::peers(&raw.peer)?,
        max_copy_bytes: size("copies.max_size", &raw.copies.max_size)?,
        max_ttl_s: max_lease(&raw.copies.max_lease)?,
        grace: grace(raw.retention.grace.as_deref())?,
        leases: leases(&raw.copies)?,
        clock: clock::validate(&raw.clock)?,
        compaction_rate: guard::rate(
            "archive.compaction_rate",
            &raw.archive.compaction_rate,
            COMPACTION_RATE,
        )?,
        fuse: raw.fuse.as_ref().map(|raw| fuse::validate(raw, folder)).transpose()?,
        queries: query::validate(&raw.query)?,
        feed_command: guard::command("feed.command", &raw.feed.command)?,
        remote: raw.remote.as_ref().map(remote::validate).transpose()?,
        follow: raw.follow.as_ref().map(follow::validate).transpose()?,
        guard: guard::validate(&raw.guard)?,
        log: log::validate(&raw.log)?,
        lvm_timeout: duration("lvm.timeout", &raw.lvm.timeout)?,
        stop_timeout: duration("stop_timeout", &raw.stop_timeout)?,
        stores: std::collections::BTreeMap::new(),
        sets: std::collections::BTreeMap::new(),
        state,
    };
    track::check(&raw.track)?;
    for store in &raw.store {
        let (name, store) = self::store(store, &raw.track, text, folder)?;
        config.stores.insert(name, store);
    }
    check_together(&config)?;
    config.sets = set::validate(&raw.set, text, &config.stores)?;
    Ok(config)
}

/// Refuses values that do not go together, each of which is sound by itself.
pub(super) fn check_together(config: &Config) -> Result<(), Problem> {
    if config.listen.tcp.is_some() && config.tokens.is_empty() {
        let is_local = config.listen.tcp.is_some_and(|address| address.ip().to_canonical().is_loopback());
        let whom =
            if is_local { "every program of this machine" } else { "every machine that reaches this one" };
        return Err(wrong(
            "listen.tcp",
            format!("opens the daemon to {whom}, and there is no token"),
            "add a [[token]] with name, role and sha256, or name a file of them as listen.tokens, or use listen.unix",
        ));
    }
    follow::check(config)?;
    for (name, store) in &config.stores {
        check_apart(&config.state, name, &store.path)?;
        if store
            .clones
            .as_deref()
            .is_some_and(|clones| real(store.path.parent().unwrap_or(clones)) == real(clones))
        {
            let what = format!("is the folder of store {name}, and nothing is left beside a store");
            return Err(wrong("store.clones", what, "name a folder of its own on the same file system"));
        }
        let before = config.stores.range(..name);
        if let Some((other, _)) = before.into_iter().find(|(_, other)| same_file(&other.path, &store.path)) {
            let what = format!("stores {other} and {name} have the same file {}", store.path.display());
            return Err(wrong("store.path", what, "watch each file once"));
        }
    }
    config.fuse.as_ref().map_or(Ok(()), |fuse| check_clear(config, &fuse.root))
}

fn listen(raw: &raw::Listen, folder: &Path) -> Result<Listen, Problem> {
    let tcp = raw.tcp.as_deref().map(|text| {
        text.parse::<SocketAddr>().map_err(|error| {
            wrong(
                "listen.tcp",
                format!("{text:?} is not an address: {error}"),
                "write for example \"127.0.0.1:7878\"",
            )
        })
    });
    let tcp = tcp.transpose()?;
    let mode = raw.unix_mode.as_deref().unwrap_or("0660");
    let unix_mode = u32::from_str_radix(mode, 8)
        .ok()
        .filter(|bits| *bits <= 0o777 && !mode.starts_with('+'))
        .ok_or_else(|| {
            wrong("listen.unix_mode", format!("{mode:?} is not a file mode"), "write for example \"0660\"")
        })?;
    let unix = match (&raw.unix, tcp) {
        (Some(path), _) => Some(at("listen.unix", folder, path)?),
        (None, Some(_)) => None,
        (None, None) => Some(PathBuf::from(raw::DEFAULT_SOCKET)),
    };
    if let Some(path) = unix.as_deref().filter(|path| path.as_os_str().len() > 107) {
        let what = format!("{} has more than the 107 bytes that a socket's path may have", path.display());
        return Err(wrong("listen.unix", what, "choose a shorter path"));
    }
    let count = |key, wanted: Option<usize>, default: usize| {
        let count = wanted.unwrap_or(default);
        if (1..=100_000).contains(&count) {
            return Ok(count);
        }
        Err(wrong(key, format!("{count} is not from 1 to 100000"), &format!("write for example {default}")))
    };
    let max_connections = count("listen.max_connections", raw.max_connections, 1000)?;
    let max_downloads = count("listen.max_downloads", raw.max_downloads, 64)?;
    let max_downloads_per_caller =
        count("listen.max_downloads_per_caller", raw.max_downloads_per_caller, 32)?;
    let timeout = raw.request_timeout.as_deref().unwrap_or("30s");
    let request_timeout = duration("listen.request_timeout", timeout)?;
    if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&request_timeout) {
        let what = format!("{timeout:?} is not from 100 milliseconds to one hour");
        return Err(wrong("listen.request_timeout", what, "write for example \"30s\""));
    }
    Ok(Listen {
        unix,
        unix_mode,
        tcp,
        max_connections,
        max_downloads,
        max_downloads_per_caller,
        request_timeout,
    })
}

fn store(
    raw: &raw::Store,
    track: &raw::Track,
    text: &str,
    folder: &Path,
) -> Result<(StoreName, StoreConfig), Problem> {
    let name: StoreName = raw.name.parse().map_err(|error: asat_core::NameError| {
        wrong("store.name", error.to_string(), "choose a name that needs quoting nowhere")
    })?;
    let backend = backend(&name, &raw.backend)?;
    check_fitting(&name, raw, backend)?;
    let snapshot_size = raw.snapshot_size.as_deref().map(|text| size("store.snapshot_size", text));
    let store = StoreConfig {
        path: at("store.path", folder, &raw.path)?,
        backend,
        keep_snapshots: usize::try_from(raw.keep_snapshots).unwrap_or(usize::MAX),
        snapshot_size: snapshot_size.transpose()?,
        clones: raw.clones.as_deref().map(|path| at("store.clones", folder, path)).transpose()?,
        track: track::validate(track, raw, backend)?,
        trim: raw.trim,
        busy_timeout: duration("store.busy_timeout", &raw.busy_timeout)?,
        max_hold: duration("store.max_hold", &raw.max_hold)?,
        retention: retention::validate(&raw.retention, text)?,
        checks: check::validate(&raw.check)?,
        unique_labels: raw.unique_labels,
        expect: raw.expect.as_deref().map(|text| expect(&name, text)).transpose()?,
        watch: raw.watch.as_ref().map(watch::validate).transpose()?,
    };
    Ok((name, store))
}

/// Refuses what says nothing to the backend that is wanted.
fn check_fitting(name: &StoreName, raw: &raw::Store, backend: Option<BackendKind>) -> Result<(), Problem> {
    let Some(wanted) = backend else { return Ok(()) };
    let fitting = [
        ("store.keep_snapshots", raw.keep_snapshots > 0, wanted != BackendKind::Pages),
        ("store.snapshot_size", raw.snapshot_size.is_some(), wanted.is_of_volumes()),
        ("store.trim", raw.trim, wanted.is_of_volumes()),
        ("store.clones", raw.clones.is_some(), wanted == BackendKind::Reflink),
    ];
    match fitting.iter().find(|(_, set, fits)| *set && !fits) {
        Some((key, ..)) => {
            let kind = if *key == "store.clones" { "clones" } else { "snapshots" };
            let what = match wanted {
                BackendKind::Reflink => {
                    format!("is set for {name}, but backend reflink takes no snapshots of volumes")
                }
                wanted => format!("is set for {name}, but backend {} has no {kind}", wanted.text()),
            };
            Err(wrong(key, what, "leave it out"))
        }
        None => Ok(()),
    }
}

fn expect(name: &StoreName, text: &str) -> Result<Expectation, Problem> {
    text.parse().map_err(|error: ExpectationError| {
        let hint = "write for example \"every business day by 18:00\", \"every day by 06:30\", \"every hour\" or \
                    \"every week by Friday 18:00\"";
        wrong("store.expect", format!("of {name}: {error}"), hint)
    })
}

/// `None` stands for `auto`.
fn backend(name: &StoreName, text: &str) -> Result<Option<BackendKind>, Problem> {
    if text == "auto" {
        return Ok(None);
    }
    let known = BackendKind::ALL.into_iter().find(|backend| backend.text() == text);
    known.map(Some).ok_or_else(|| {
        let names: Vec<String> =
            BackendKind::ALL.iter().map(|backend| format!("{:?}", backend.text())).collect();
        let what = format!("of {name} is {text:?}, which this version does not have");
        wrong("store.backend", what, &format!("write \"auto\", {}", names.join(", ")))
    })
}

/// The catalogue and the archive must survive whatever happens to the store's folder, and nothing may be left
/// beside the store.
fn check_apart(state: &Path, name: &StoreName, store: &Path) -> Result<(), Problem> {
    let (state, store) = (real(state), real(store));
    let beside = store.parent() == Some(state.as_path());
    if state.parent().is_none() {
        return Err(wrong(
            "state",
            "is the root of all files".to_owned(),
            "choose a folder of its own, best on another volume",
        ));
    }
    if beside || store.starts_with(&state) {
        let what = format!("{} is the folder of store {name} ({})", state.display(), store.display());
        return Err(wrong("state", what, "choose a folder of its own, best on another volume"));
    }
    Ok(())
}

/// What lies below the root of the tree could not be seen any more.
fn check_clear(config: &Config, root: &Path) -> Result<(), Problem> {
    let root = real(root);
    let stores = config.stores.values().map(|store| &store.path);
    for other in [&config.state, &config.mounts].into_iter().chain(stores) {
        if real(other).starts_with(&root) {
            let what = format!("{} would hide {}", root.display(), other.display());
            return Err(wrong("fuse.root", what, "name a folder in which there is nothing else"));
        }
    }
    Ok(())
}

fn span(key: &str, text: &str) -> Result<Span, Problem> {
    let hint = "write a number and a unit, for example \"90s\", \"12h\", \"30d\" or \"1 year\"";
    let is_bare = text.parse::<f64>().is_ok();
    let no_span = || {
        let what = if is_bare { "has no unit" } else { "is not a duration" };
        wrong(key, format!("{text:?} {what}"), hint)
    };
    let span: Span = text.parse().map_err(|_| no_span())?;
    if span.is_negative() || span.is_zero() {
        return Err(wrong(key, format!("{text:?} must be longer than 0s"), hint));
    }
    Ok(span)
}

pub(super) fn duration(key: &str, text: &str) -> Result<Duration, Problem> {
    let days = SpanRelativeTo::days_are_24_hours();
    let total = span(key, text)?.total((Unit::Nanosecond, days));
    let length = total.ok().map(|nanos| Duration::try_from_secs_f64(nanos / 1e9));
    length.and_then(Result::ok).filter(|length| !length.is_zero()).ok_or_else(|| {
        wrong(key, format!("{text:?} has no fixed length"), "use weeks, days, hours, minutes or seconds")
    })
}

fn max_lease(text: &str) -> Result<u32, Problem> {
    let key = "copies.max_lease";
    let seconds = u32::try_from(duration(key, text)?.as_secs());
    seconds.ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
        let what = format!("{text:?} is not between one second and 136 years");
        wrong(key, what, "write for example \"31d\"")
    })
}

/// What was given up can be brought back for a week, so that somebody notices.
const GRACE: &str = "7d";

fn grace(text: Option<&str>) -> Result<SignedDuration, Problem> {
    let (key, text) = ("retention.grace", text.unwrap_or(GRACE));
    if text.trim_start_matches('0').chars().all(char::is_alphabetic) && text.starts_with('0') {
        return Ok(SignedDuration::ZERO);
    }
    let grace = SignedDuration::try_from(duration(key, text)?);
    grace.map_err(|_| {
        wrong(key, format!("{text:?} is too long"), "write for example \"7d\", or \"0s\" for none")
    })
}

fn leases(raw: &raw::Copies) -> Result<LeaseBounds, Problem> {
    let bound = |key, written: Option<u32>, default| match written {
        Some(0) => Err(wrong(key, "is 0, so that nobody could open a version".to_owned(), "write 1 or more")),
        Some(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        None => Ok(default),
    };
    let LeaseBounds { in_all, per_caller } = LeaseBounds::default();
    let in_all = bound("copies.max_leases", raw.max_leases, in_all)?;
    let per_caller =
        bound("copies.max_leases_per_caller", raw.max_leases_per_caller, per_caller.min(in_all))?;
    if per_caller > in_all {
        let what = format!("is {per_caller}, which is more than copies.max_leases ({in_all})");
        return Err(wrong("copies.max_leases_per_caller", what, "lower it, or raise copies.max_leases"));
    }
    Ok(LeaseBounds { in_all, per_caller })
}

pub(super) fn size(key: &str, text: &str) -> Result<u64, Problem> {
    let hint = "write for example \"10 GiB\" or \"500 MB\"";
    if text.parse::<f64>().is_ok() {
        return Err(wrong(key, format!("{text:?} has no unit"), hint));
    }
    let size: ByteSize = text.parse().map_err(|_| wrong(key, format!("{text:?} is not a size"), hint))?;
    if size.as_u64() == 0 {
        return Err(wrong(key, format!("{text:?} leaves no room for anything"), hint));
    }
    Ok(size.as_u64())
}

/// A path as written in a configuration in `folder`, made absolute without asking the file system.
pub(super) fn at(key: &str, folder: &Path, path: &Path) -> Result<PathBuf, Problem> {
    if path.as_os_str().is_empty() {
        return Err(wrong(key, "is empty".to_owned(), "write a path, or leave the key out"));
    }
    if path.starts_with("~") {
        let what = format!("{} begins with ~, which only a shell replaces", path.display());
        return Err(wrong(key, what, "write the whole path"));
    }
    let mut plain = PathBuf::new();
    for component in folder.join(path).components() {
        match component {
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Whether two paths lead to one file, by symbolic or by hard links.
fn same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    real(a) == real(b) || identity(a).is_some_and(|a| identity(b) == Some(a))
}

/// The path with every link in it followed, also those that lead to what is not there yet.
fn real(path: &Path) -> PathBuf {
    follow(path, MAX_LINKS)
}

/// As many links as the kernel follows in one path.
const MAX_LINKS: u32 = 40;

fn follow(path: &Path, links: u32) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    match path.read_link() {
        Ok(target) if links > 0 => follow(&parent.join(target), links - 1),
        _ => follow(parent, links).join(name),
    }
}

pub(super) fn wrong(key: &str, what: String, hint: &str) -> Problem {
    Problem::new(Code::Configuration, format!("{key}: {what}"), hint)
}
