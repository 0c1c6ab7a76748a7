//! What keeps moments of a store: asat, and what people take instead.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use asat_core::Problem;
use asat_wire::Mount;
use jiff::Timestamp;
use serde::Serialize;

use super::blocks::kept_bytes;
use super::commands::{Program, Took, used_by};
use super::sharing::Kind;
use crate::args::{CompareArgs, JournalMode};
use crate::process::Daemon;
use crate::site::Site;
use crate::workload::{Book, Run, Totals};
use crate::{api, failed, tools};

pub(super) const ASAT: &str = "asat";
/// The name of SQLite's own backup.
pub(super) const BACKUP: &str = "sqlite3 .backup";
/// How long a process of a peer may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// A peer that cannot be measured here.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Missing {
    pub(super) name: &'static str,
    pub(super) why: String,
}

/// A peer, its store, and what was measured of it so far.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) version: String,
    /// What is run to keep a moment.
    pub(super) command: String,
    pub(super) wrote_ms: Vec<f64>,
    pub(super) kept_ms: Vec<f64>,
    book: Book,
    /// Before the folder: it may have something mounted in it.
    keeper: Keeper,
    site: Site,
    /// The folder of what it keeps.
    kept: PathBuf,
    /// What its commands took.
    took: Took,
}

/// An old moment that is open.
pub(super) struct Opened {
    pub(super) uri: String,
    /// When it was asked for.
    pub(super) since: Instant,
    mount: Option<Mount>,
    /// What was made for it.
    folder: Option<PathBuf>,
}

/// What a peer took in the end.
pub(super) struct Ended {
    pub(super) kept_bytes: u64,
    pub(super) processor_ms: f64,
    pub(super) peak_bytes: u64,
}

/// How a peer keeps moments.
enum Keeper {
    /// Nothing is kept.
    Nobody,
    Asat {
        daemon: Daemon,
        versions: BTreeMap<u32, String>,
    },
    /// A command for each moment.
    Command(Tool),
    /// A process that stays, and keeps what there is when a command says so.
    Litestream {
        program: Program,
        process: Running,
        moments: BTreeMap<u32, Timestamp>,
    },
}

/// A process that is ended if this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs no killing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that keeps a moment, and how such a moment becomes a file again.
struct Tool {
    program: Program,
    keep: fn(&Places, u32) -> Vec<OsString>,
    give_back: GiveBack,
    /// What it leaves outside of its folders otherwise is taken away with this.
    _end: Option<AtEnd>,
}

/// A command that is run when this is dropped.
struct AtEnd(Program, Vec<OsString>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        // The file system that it is about is removed anyway.
        let _ = self.0.run(&self.1);
    }
}

/// How a moment becomes a file again.
enum GiveBack {
    /// It is one.
    IsFile(fn(&Places, u32) -> PathBuf),
    /// A command makes it, in a folder for it.
    Command(fn(&Places, u32, &Path) -> Vec<OsString>, fn(&Places, &Path) -> PathBuf),
}

/// Where a peer's files are.
struct Places {
    store: PathBuf,
    kept: PathBuf,
}

/// All peers that are here: the one that keeps nothing, asat, and the others; and those that are not.
pub(super) fn all(args: &CompareArgs, dir: Option<&Path>) -> Result<(Vec<Peer>, Vec<Missing>), Problem> {
    let ours = vec![nobody(dir)?, asat(dir)?];
    let litestream = match &args.litestream {
        Some(program) => litestream(dir, program)?,
        None => Err(Missing { name: "Litestream", why: "name it with --litestream".to_owned() }),
    };
    let others = vec![
        command(dir, "cp", "cp", "--version", &[], copied())?,
        command(dir, BACKUP, "sqlite3", "--version", &[], backed_up())?,
        command(dir, "VACUUM INTO", "sqlite3", "--version", &[], vacuumed())?,
        command(dir, "restic", "restic", "version", &["init"], by_restic())?,
        command(dir, "borg", "borg", "--version", &["init", "-e", "none"], by_borg())?,
        litestream,
    ];
    Ok(with_those_here(ours, others))
}

/// Those that share blocks with the store, and those to hold them against.
pub(super) fn sharing(kind: Kind, folder: &Path) -> Result<(Vec<Peer>, Vec<Missing>), Problem> {
    let dir = Some(folder);
    let ours = vec![nobody(dir)?, asat(dir)?];
    let mut others = vec![command(dir, "cp --reflink", "cp", "--version", &[], cloned())?];
    if kind == Kind::Btrfs {
        others.push(snapper(folder)?);
    }
    Ok(with_those_here(ours, others))
}

/// Tells those that are here from those that are not.
fn with_those_here(mut peers: Vec<Peer>, others: Vec<Result<Peer, Missing>>) -> (Vec<Peer>, Vec<Missing>) {
    let mut missing = Vec::new();
    for other in others {
        match other {
            Ok(peer) => peers.push(peer),
            Err(other) => missing.push(other),
        }
    }
    (peers, missing)
}

type Found = Result<Result<Peer, Missing>, Problem>;
type Ways = (&'static str, fn(&Places, u32) -> Vec<OsString>, GiveBack);

fn peer(site: Site, book: Book, name: &'static str, keeper: Keeper) -> Peer {
    let (version, command) = (String::new(), String::new());
    let (wrote_ms, kept_ms, took, kept) = (Vec::new(), Vec::new(), Took::default(), site.path("kept"));
    Peer { name, version, command, wrote_ms, kept_ms, site, kept, book, keeper, took }
}

fn book(site: &Site) -> Result<Book, Problem> {
    Book::create(&site.store, JournalMode::Wal)
}

fn nobody(dir: Option<&Path>) -> Result<Peer, Problem> {
    let site = Site::make(dir)?;
    let book = book(&site)?;
    Ok(peer(site, book, "nobody", Keeper::Nobody))
}

/// It chooses for itself how it keeps a moment, and shows old ones in a tree if there is FUSE.
fn asat(dir: Option<&Path>) -> Result<Peer, Problem> {
    let site = Site::make(dir)?;
    site.configure("[fuse]\nroot = \"tree\"\n")?;
    let (book, daemon) = (book(&site)?, site.start()?);
    let mut peer = peer(site, book, ASAT, Keeper::Asat { daemon, versions: BTreeMap::new() });
    env!("CARGO_PKG_VERSION").clone_into(&mut peer.version);
    "asat publish, with [fuse]".clone_into(&mut peer.command);
    Ok(peer)
}

/// A peer that is a command, if it is here and can begin.
fn command(
    dir: Option<&Path>,
    name: &'static str,
    program: &'static str,
    version: &str,
    begin: &[&str],
    (shown, keep, give_back): Ways,
) -> Found {
    let site = Site::make(dir)?;
    let Some(mut program) = Program::find(program, site.folder()) else {
        return Ok(Err(Missing { name, why: not_installed(program) }));
    };
    let places = Places::of(&site)?;
    program.environment = environment(&site, &places);
    let version = program.version(version);
    if !begin.is_empty() {
        let begin: Vec<OsString> = begin.iter().map(Into::into).collect();
        if let Err(problem) = program.run(&begin) {
            return Ok(Err(Missing { name, why: problem.detail }));
        }
    }
    let book = book(&site)?;
    let peer = peer(site, book, name, Keeper::Command(Tool { program, keep, give_back, _end: None }));
    Ok(Ok(Peer { version, command: shown.to_owned(), ..peer }))
}

fn not_installed(program: &str) -> String {
    format!("{program} is not installed")
}

/// Where restic and borg have their repository and whatever else they keep.
fn environment(site: &Site, places: &Places) -> Vec<(&'static str, OsString)> {
    let kept = |name: &str| places.kept.join(name).into_os_string();
    let beside = |name: &str| site.path(name).into_os_string();
    vec![
        ("RESTIC_REPOSITORY", kept("restic")),
        ("RESTIC_PASSWORD", "measured".into()),
        ("RESTIC_CACHE_DIR", beside("restic-cache")),
        ("BORG_REPO", kept("borg")),
        ("BORG_BASE_DIR", beside("borg-base")),
        ("HOME", beside("home")),
    ]
}

impl Places {
    fn of(site: &Site) -> Result<Self, Problem> {
        let kept = site.path("kept");
        fs::create_dir(&kept).map_err(|error| failed("make a folder", error))?;
        Ok(Self { store: site.store.clone(), kept })
    }

    /// The folder of the store: the WAL is beside its file.
    fn folder(&self) -> &Path {
        self.store.parent().unwrap_or(&self.store)
    }

    /// The file that is a moment.
    fn file(&self, nth: u32) -> PathBuf {
        self.kept.join(format!("{nth}.db"))
    }
}

fn words(words: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

/// The file and its WAL, as nobody writes meanwhile.
fn copied() -> Ways {
    let keep = |places: &Places, nth| words(&[&"-R", &places.folder(), &places.kept.join(nth_name(nth))]);
    let file = |places: &Places, nth| places.kept.join(nth_name(nth)).join("report.db");
    ("cp -R STORE-FOLDER N", keep, GiveBack::IsFile(file))
}

/// The same, sharing all blocks with the store.
fn cloned() -> Ways {
    let keep = |places: &Places, nth| {
        words(&[&"-R", &"--reflink=always", &places.folder(), &places.kept.join(nth_name(nth))])
    };
    let file = |places: &Places, nth| places.kept.join(nth_name(nth)).join("report.db");
    ("cp -R --reflink=always STORE-FOLDER N", keep, GiveBack::IsFile(file))
}

fn backed_up() -> Ways {
    let keep =
        |places: &Places, nth| words(&[&places.store, &format!(".backup '{}'", places.file(nth).display())]);
    ("sqlite3 STORE \".backup 'N.db'\"", keep, GiveBack::IsFile(Places::file))
}

fn vacuumed() -> Ways {
    let keep = |places: &Places, nth| {
        words(&[&places.store, &format!("vacuum into '{}'", places.file(nth).display())])
    };
    ("sqlite3 STORE \"vacuum into 'N.db'\"", keep, GiveBack::IsFile(Places::file))
}

fn by_restic() -> Ways {
    let keep =
        |places: &Places, nth| words(&[&"backup", &"--quiet", &"--tag", &nth_name(nth), &places.folder()]);
    let restore = |_: &Places, nth, to: &Path| {
        words(&[&"restore", &"latest", &"--quiet", &"--tag", &nth_name(nth), &"--target", &to])
    };
    let made = |places: &Places, to: &Path| to.join(places.store.strip_prefix("/").unwrap_or(&places.store));
    ("restic backup STORE-FOLDER", keep, GiveBack::Command(restore, made))
}

fn by_borg() -> Ways {
    let keep = |places: &Places, nth| words(&[&"create", &format!("::{}", nth_name(nth)), &places.folder()]);
    // It extracts into the folder in which it runs.
    let extract = |_: &Places, nth, _: &Path| words(&[&"extract", &format!("::{}", nth_name(nth))]);
    let made = |places: &Places, to: &Path| to.join(places.store.strip_prefix("/").unwrap_or(&places.store));
    ("borg create ::N STORE-FOLDER", keep, GiveBack::Command(extract, made))
}

fn nth_name(nth: u32) -> String {
    format!("moment-{nth}")
}

/// Snapshots of a subvolume with the store.
fn snapper(dir: &Path) -> Found {
    let name = "snapper";
    let site = Site::make(Some(dir))?;
    let Some(program) = Program::find(name, site.folder()) else {
        return Ok(Err(Missing { name, why: not_installed(name) }));
    };
    let places = Places { kept: site.path("store/.snapshots"), store: site.store.clone() };
    let made = fs::remove_dir(places.folder()).map_err(|error| failed("remove an empty folder", error));
    made.and_then(|()| {
        tools::run("btrfs", &[OsStr::new("subvolume"), OsStr::new("create"), places.folder().as_os_str()])
    })?;
    let begin = with_config(&places, &[&"create-config", &"--fstype", &"btrfs", &places.folder()]);
    if let Err(problem) = program.run(&begin) {
        return Ok(Err(Missing { name, why: problem.detail }));
    }
    let end = Some(AtEnd(program.clone(), with_config(&places, &[&"delete-config"])));
    let version = program.version("--version");
    let keep = |places: &Places, _| with_config(places, &[&"create"]);
    let file = |places: &Places, nth: u32| places.kept.join(nth.to_string()).join("snapshot/report.db");
    let (book, kept) = (book(&site)?, places.kept);
    let tool = Tool { program, keep, give_back: GiveBack::IsFile(file), _end: end };
    let peer = peer(site, book, name, Keeper::Command(tool));
    Ok(Ok(Peer { version, command: "snapper create".to_owned(), kept, ..peer }))
}

/// What snapper is told, with a configuration that has the name of the folder with everything.
fn with_config(places: &Places, order: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    let name = places.folder().parent().and_then(Path::file_name).unwrap_or_default();
    let name = name.to_string_lossy().replace('.', "_");
    [words(&[&"--no-dbus", &"-c", &name]), words(order)].concat()
}

/// It would forget single transactions after five minutes, and give back other moments than those that were kept.
fn litestream(dir: Option<&Path>, program: &Path) -> Found {
    let name = "Litestream";
    let site = Site::make(dir)?;
    let places = Places::of(&site)?;
    let (config, socket) = (site.path("litestream.yml"), site.path("litestream.sock"));
    let text = format!(
        "l0-retention: 24h\nsocket:\n  enabled: true\n  path: {}\ndbs:\n  - path: {}\n    replica:\n      type: file\n      path: {}\n",
        socket.display(),
        places.store.display(),
        places.kept.display()
    );
    fs::write(&config, text).map_err(|error| failed("write a configuration", error))?;
    let environment = vec![("HOME", site.path("home").into_os_string())];
    let program = Program { path: program.to_owned(), folder: site.folder().to_owned(), environment };
    let version = program.version("version");
    let book = book(&site)?;
    let mut started = program.command(&words(&[&"replicate", &"-config", &config]));
    let process = match started.stderr(Stdio::null()).spawn() {
        Ok(process) => Running(process),
        Err(error) => return Ok(Err(Missing { name, why: error.to_string() })),
    };
    let since = Instant::now();
    while !socket.exists() {
        if since.elapsed() > PATIENCE {
            return Ok(Err(Missing { name, why: "it does not open its socket".to_owned() }));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let peer = peer(site, book, name, Keeper::Litestream { program, process, moments: BTreeMap::new() });
    Ok(Ok(Peer {
        version,
        command: "litestream sync -wait STORE, with l0-retention: 24h".to_owned(),
        ..peer
    }))
}

impl Peer {
    /// Commits a transaction.
    pub(super) fn write(&mut self, run: &Run) -> Result<(), Problem> {
        self.wrote_ms.push(self.book.value_anew(run)?);
        Ok(())
    }

    /// What a report would say of the store now.
    pub(super) fn totals(&self) -> Result<Totals, Problem> {
        self.book.totals()
    }

    /// How long its store is, with what is in the WAL.
    pub(super) fn store_bytes(&self) -> Result<u64, Problem> {
        self.book.bytes()
    }

    fn places(&self) -> Places {
        Places { store: self.site.store.clone(), kept: self.kept.clone() }
    }

    /// Keeps the moment.
    pub(super) async fn keep(&mut self, nth: u32) -> Result<(), Problem> {
        let places = self.places();
        let took = match &mut self.keeper {
            Keeper::Nobody => return Ok(()),
            Keeper::Asat { versions, .. } => {
                let (published, ms) = api::publish(&self.site, &nth_name(nth)).await?;
                versions.insert(nth, published.version.id);
                Took { ms, ..Took::default() }
            }
            Keeper::Command(tool) => tool.program.run(&(tool.keep)(&places, nth))?,
            Keeper::Litestream { program, moments, .. } => {
                let socket = self.site.path("litestream.sock");
                let took = program.run(&words(&[&"sync", &"-wait", &"-socket", &socket, &places.store]))?;
                moments.insert(nth, Timestamp::now());
                took
            }
        };
        self.kept_ms.push(took.ms);
        self.add(took);
        Ok(())
    }

    fn add(&mut self, took: Took) {
        self.took.processor_ms += took.processor_ms;
        self.took.peak_bytes = self.took.peak_bytes.max(took.peak_bytes);
    }

    /// Has a moment as a file that any client of SQLite opens.
    pub(super) async fn open(&mut self, nth: u32) -> Result<Opened, Problem> {
        let (places, since) = (self.places(), Instant::now());
        let folder = self.site.path(&format!("opened-{nth}"));
        let (path, mount, folder) = match &self.keeper {
            Keeper::Nobody => return Err(failed("open a moment", "nobody has kept it")),
            Keeper::Asat { versions, .. } => {
                let version = versions.get(&nth).ok_or_else(|| failed("open", "it was not published"))?;
                let mount = api::open(&self.site, version).await?;
                (PathBuf::from(&mount.path), Some(mount), None)
            }
            Keeper::Command(Tool { give_back: GiveBack::IsFile(file), .. }) => {
                (file(&places, nth), None, None)
            }
            Keeper::Command(Tool { program, give_back: GiveBack::Command(give_back, made), .. }) => {
                fs::create_dir(&folder).map_err(|error| failed("make a folder", error))?;
                let program = Program { folder: folder.clone(), ..program.clone() };
                program.run(&give_back(&places, nth, &folder))?;
                (made(&places, &folder), None, Some(folder))
            }
            Keeper::Litestream { program, moments, .. } => {
                let at = moments.get(&nth).ok_or_else(|| failed("restore", "there was no moment"))?;
                fs::create_dir(&folder).map_err(|error| failed("make a folder", error))?;
                let (file, config) = (folder.join("report.db"), self.site.path("litestream.yml"));
                let at = at.to_string();
                program.run(&words(&[
                    &"restore",
                    &"-config",
                    &config,
                    &"-timestamp",
                    &at,
                    &"-o",
                    &file,
                    &places.store,
                ]))?;
                (file, None, Some(folder))
            }
        };
        Ok(Opened { uri: format!("file:{}?mode=ro", path.display()), since, mount, folder })
    }

    /// Gives an open moment back.
    pub(super) async fn close(&self, opened: Opened) -> Result<(), Problem> {
        if let Some(mount) = &opened.mount {
            api::close(&self.site, mount).await?;
        }
        let removed = opened.folder.map_or(Ok(()), fs::remove_dir_all);
        removed.map_err(|error| failed("remove what was restored", error))
    }

    /// Ends it, and says what it took.
    pub(super) async fn end(self) -> Result<Ended, Problem> {
        let Took { mut processor_ms, mut peak_bytes, .. } = self.took;
        let store_folder = self.site.path("store");
        let kept_bytes = match self.keeper {
            Keeper::Nobody => 0,
            Keeper::Asat { daemon, .. } => {
                let (_, kept_bytes, _) = api::until_compact(&self.site, Instant::now()).await?;
                processor_ms += daemon.processor_seconds()? * 1000.0;
                peak_bytes = peak_bytes.max(daemon.peak_rss_bytes()?);
                daemon.stop()?;
                kept_bytes
            }
            Keeper::Command(_) => kept_bytes(&self.kept, &store_folder)?,
            Keeper::Litestream { process, .. } => {
                if let Some((ms, bytes)) = used_by(&process.0) {
                    processor_ms += ms;
                    peak_bytes = peak_bytes.max(bytes);
                }
                kept_bytes(&self.kept, &store_folder)?
            }
        };
        Ok(Ended { kept_bytes, processor_ms, peak_bytes })
    }
}
