//! The daemon: wiring, listeners, signals and shutdown.
//!
//! [`start`] joins configuration, catalogue, machine and engine; [`serve`] lets clients in until it is told to
//! stop. [`main`] does both for the command line, under systemd or not.

mod archives;
mod comparisons;
mod driver;
mod failures;
mod feed;
mod follow;
mod guard;
mod handle;
mod host;
pub(crate) mod import;
mod listen;
mod machine;
mod message;
mod notices;
mod performers;
mod progress;
mod rebuild;
mod recording;
mod reload;
mod remote;
mod signals;
mod tree;
mod upgrade;
mod watch;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use asat_catalogue::{Catalogue, Check};
use asat_core::register::{History, Register};
use asat_core::{Backing, Code, Engine, Problem};
use asat_host::lvm::InstallationId;
use asat_host::{StateFolder, brake, memory, socket};

pub use comparisons::{Changes, Comparisons, RowChanged, RowFound, RowOf, VersionPages};
pub use failures::Failures;
pub use follow::{FollowStanding, Follows};
pub use guard::{Alarm, Braked, Done, GuardStatus, Looks};
pub use handle::Handle;
pub use import::import;
pub use machine::{Machine, VersionBytes, VersionGuard, found};
pub use notices::{Notice, Notices};
pub use rebuild::{back_up, rebuild};
pub use remote::{RemoteAnswer, RemoteState, Remotes, Standing};
pub use upgrade::upgrade;
pub use watch::{Watched, Watches};

use crate::config::{Config, SCHEMES};
use crate::log;
use crate::metrics::Metrics;
use guard::Guarding;
use host::Host as _;
use signals::Signals;

/// A daemon that has made catalogue and machine agree, and takes events.
pub struct Daemon {
    /// The way to the engine.
    pub handle: Handle,
    /// The archives and the copies.
    pub machine: Arc<Machine>,
    /// What tells what changed between versions.
    pub comparisons: Arc<Comparisons>,
    driver: JoinHandle<()>,
    /// Closed when the driver has ended, however that came.
    driving: tokio::sync::watch::Receiver<()>,
    /// The check of the catalogue as it was at the start, if that takes its time.
    check: Option<Check>,
    /// Whether it is known to be sound.
    sound: tokio::sync::watch::Sender<bool>,
    /// What is wrong with it, once that is known.
    damage: tokio::sync::watch::Sender<Option<Problem>>,
    /// Looks at what the start has not looked at.
    looking: OnceLock<JoinHandle<()>>,
    guard: Guarding,
    tree: Option<tree::Served>,
    /// What tells of changes; an asat that follows a bucket tells of none.
    feed: Option<feed::Feed>,
    /// What brings the archives up to the catalogue; an asat that follows a bucket has none.
    recording: Option<recording::Recording>,
    /// What pushes to the bucket, if one is configured.
    pushing: Option<remote::Pushing>,
    /// What follows a bucket, if one is configured.
    following: Option<follow::Following>,
    watchers: Mutex<watch::Watchers>,
    _state: StateFolder,
}

/// Runs the daemon in the foreground until SIGTERM or SIGINT. At SIGHUP it reads its configuration again.
///
/// # Errors
/// Where it cannot start: the configuration, the state folder, the catalogue, an archive or a listener.
pub fn main(file: &Path) -> Result<(), Problem> {
    #[cfg(debug_assertions)]
    crash::listen();
    memory::use_one_arena();
    // Before there are other threads, and before another program is started.
    let handed = socket::handed_over()?;
    let mut config = Config::load(file)?;
    log::begin(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| failed("start its threads", &error))?;
    let hangup = runtime.block_on(async { signals::hangup() })?;
    let daemon = start(&config)?;
    let served = runtime.block_on(async {
        listen::serve(file, &mut config, &daemon, handed, Signals::listen(hangup)?).await
    });
    let stopped = daemon.stop();
    runtime.shutdown_background();
    tracing::info!("stopped");
    served.and(stopped)
}

/// Claims the state folder, opens what is in it, and settles what the last run left.
///
/// # Errors
/// See [`main`].
pub fn start(config: &Config) -> Result<Daemon, Problem> {
    let state = StateFolder::claim(&config.state)?;
    asat_host::machine::raise_open_files_limit();
    let mut catalogue = open_catalogue(config, &state)?;
    let notices = Notices::default();
    let installation = catalogue.installation().parse()?;
    let_go_of_volumes();
    let tree = tree::Mounting::begin(config, catalogue.installation())?;
    let tree_root = tree.as_ref().and_then(tree::Mounting::root);
    let metrics = Arc::<Metrics>::default();
    let (machine, backings) = Machine::open(config, installation, tree_root, notices.clone(), &metrics)?;
    let machine = Arc::new(machine);
    let comparisons = Arc::new(Comparisons::open(config, Arc::clone(machine.archives())));
    let (register, check) = if catalogue.is_short()? {
        (catalogue.load()?, None)
    } else {
        let (register, check) = catalogue.read()?;
        (register, Some(check))
    };
    check_role(config, &register)?;
    let engine = Engine::new(config.policy(&backings), register).opened_at(catalogue.newest_commit());
    let (driver, handle) = driver::Driver::start(Arc::clone(&machine), engine, catalogue, metrics, notices)?;
    let (drives, driving) = tokio::sync::watch::channel(());
    machine.drive_by(handle.clone());
    let drive = move || {
        let _drives = drives;
        driver.run();
    };
    let driver = std::thread::Builder::new().name("driver".to_owned()).spawn(drive);
    let driver = driver.map_err(|error| failed("start its driver", &error))?;
    let guard = Guarding::start(Arc::clone(&machine), handle.clone(), config);
    let guard = guard.map_err(|error| failed("start its guard", &error))?;
    let serve = |tree| tree::Served::start(tree, handle.clone(), Arc::clone(&machine), config);
    let tree = tree.map(serve).transpose()?;
    let feed = match config.follow {
        None => Some(feed::Feed::start(&handle, &comparisons, &config.feed_command)?),
        Some(_) => None,
    };
    let sound = tokio::sync::watch::Sender::new(check.is_none());
    let recording = recording::Recording::start(&handle, &machine, sound.subscribe())?;
    let pushing = remote::Pushing::start(config, &handle, &machine)?;
    let following = follow::Following::start(config, &handle, &machine)?;
    let watchers = Mutex::new(watch::Watchers::start(config, &handle, &machine)?);
    Ok(Daemon {
        handle,
        machine,
        comparisons,
        driver,
        driving,
        check,
        sound,
        damage: tokio::sync::watch::Sender::new(None),
        looking: OnceLock::new(),
        guard,
        tree,
        feed,
        recording,
        pushing,
        following,
        watchers,
        _state: state,
    })
}

impl Daemon {
    /// Begins to look at what the start has not looked at: whether the catalogue is what was committed, then at what the next versions rely
    /// on. It takes the longer, the longer the history is. Who only reads does not wait for it.
    ///
    /// # Errors
    /// If no thread can be started.
    fn begin_to_look(&self) -> Result<(), Problem> {
        let (check, machine) = (self.check.clone(), Arc::clone(&self.machine));
        let (damage, sound) = (self.damage.clone(), self.sound.clone());
        let looking = std::thread::Builder::new().name("look".to_owned()).spawn(move || {
            if machine.is_stopping() {
                return;
            }
            if let Some(Err(error)) = check.map(|check| check.run()) {
                damage.send_replace(Some(error.into()));
                return;
            }
            sound.send_replace(true);
            // What others publish, others rely on.
            if !machine.archives().are_followed() {
                machine.read_newest_of_all();
            }
        });
        let looking = looking.map_err(|error| failed("start what looks at its files", &error))?;
        self.looking.get_or_init(|| looking);
        Ok(())
    }

    /// Goes by another configuration, of which all can change while it runs.
    ///
    /// # Errors
    /// Where a store that it adds cannot be taken up, or what follows from it cannot be committed. All is as it was then, but that a new command
    /// of the feed may have been told of a version.
    fn adopt(&self, before: &Config, new: &Config) -> Result<(), Problem> {
        let mut backings = self.machine.prepare(new)?;
        let engine = self.handle.engine();
        for (name, backing) in &mut backings {
            if let Some(problem) = self.machine.unknown_history(name, engine.register()) {
                *backing = Backing::Unusable(problem);
            }
        }
        for (name, store) in &engine.policy().stores {
            backings.entry(name.clone()).or_insert_with(|| store.backing.clone());
        }
        drop(engine);
        self.machine.configure(new);
        // Before there are versions of stores that are new: of what comes after it, its command is told.
        self.tell_command(new);
        self.handle.configure(new.policy(&backings)).inspect_err(|_| {
            self.tell_command(before);
            self.machine.configure(before);
        })?;
        self.guard.configure(&new.guard);
        if let Some(Err(problem)) = self.pushing.as_ref().map(remote::Pushing::push_all) {
            tracing::error!("what is new does not come into the bucket: {problem}");
        }
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(problem) = watchers.configure(new, &self.handle, &self.machine) {
            tracing::error!("watch mode is not as configured: {problem}");
        }
        Ok(())
    }

    /// Tells the command of this configuration of changes from now on.
    fn tell_command(&self, config: &Config) {
        self.feed.iter().for_each(|feed| feed.configure(&config.feed_command));
    }

    /// Returns when the driver has ended, with which nothing can be recorded any more. Nobody tells it to before the end.
    async fn undriven(&self) {
        let mut driving = self.driving.clone();
        while driving.changed().await.is_ok() {}
    }

    /// Returns when the catalogue turns out not to be what was committed, with what is wrong.
    async fn damaged(&self) -> Problem {
        let mut damage = self.damage.subscribe();
        loop {
            if let Some(problem) = damage.borrow_and_update().clone() {
                return problem;
            }
            // It is sent by this very daemon, so it cannot be closed.
            let _ = damage.changed().await;
        }
    }

    /// Ends what is under way and waits until its outcome is recorded.
    ///
    /// # Errors
    /// What is wrong with the catalogue, if that was found out.
    pub fn stop(self) -> Result<(), Problem> {
        let mut watchers = self.watchers.into_inner().unwrap_or_else(PoisonError::into_inner);
        watchers.stop();
        if let Some(tree) = self.tree {
            tree.stop();
        }
        if let Some(feed) = self.feed {
            feed.stop();
        }
        if let Some(recording) = self.recording {
            recording.stop();
        }
        if let Some(following) = self.following {
            following.stop();
        }
        if let Some(pushing) = self.pushing {
            pushing.stop();
        }
        self.guard.stop();
        self.machine.stop();
        self.handle.stop();
        if self.driver.join().is_err() {
            tracing::error!("the driver ended with a panic; the next start settles what it left");
        }
        watchers.join();
        let _ = self.looking.into_inner().map(JoinHandle::join);
        self.damage.send_replace(None).map_or(Ok(()), Err)
    }
}

/// Opens the catalogue. Where there is none, it is of the installation that the state folder is of, so that the snapshots are ours
/// that its daemons have made.
fn open_catalogue(config: &Config, state: &StateFolder) -> Result<Catalogue, Problem> {
    upgrade::refuse_old(config)?;
    let path = config.catalogue();
    let kept = if Catalogue::is_missing(&path)? { state.installation()? } else { None };
    let catalogue = Catalogue::open_of(&path, kept.as_ref().map(InstallationId::as_str))?;
    if let Err(error) = state.keep(&catalogue.installation().parse()?) {
        // It is needed where the catalogue is lost, and written again at the next start.
        tracing::warn!("the installation's id is not written down: {}", Problem::from(error));
    }
    Ok(catalogue)
}

/// Refuses a state folder whose records are of stores that are published where this daemon would follow a bucket, or the other way round: what the
/// one lacks, the other would take for lost or given up.
fn check_role(config: &Config, register: &Register) -> Result<(), Problem> {
    let in_bucket = |history: &History| {
        let path = history.store.path.to_string_lossy();
        SCHEMES.iter().any(|scheme| path.starts_with(scheme))
    };
    let is_other = |history: &&History| in_bucket(history) != config.follow.is_some();
    let Some(other) = register.stores().find(is_other) else { return Ok(()) };
    let (state, store) = (config.state.display(), &other.store.name);
    let detail = match config.follow {
        Some(_) => format!("{state} is the state folder of a daemon that publishes {store}"),
        None => format!("{state} is the state folder of a daemon that follows {store} in a bucket"),
    };
    let hint = "give this one a state folder of its own: `state` in its configuration";
    Err(Problem::new(Code::Configuration, detail, hint))
}

/// Lets the writers go that a brake of an earlier run has left waiting. Where there is no device-mapper, nobody is.
fn let_go_of_volumes() {
    let Ok(control) = asat_host::dm::Control::open() else { return };
    match brake::let_go(&control, Path::new(brake::RECORDS)) {
        Ok(resumed) => resumed.iter().for_each(|name| tracing::warn!("{name} was suspended, and is resumed")),
        Err(error) => {
            tracing::error!("cannot see whether a volume is left suspended: {}", Problem::from(error))
        }
    }
}

fn failed(what: &str, error: &std::io::Error) -> Problem {
    Problem::new(Code::Internal, format!("asat cannot {what}: {error}"), "check the limits of the service")
}

/// The crash tests' way to end the daemon at the n-th effect boundary, or at the n-th of one name: `12`, or
/// `volumes: taken#2`; with a `!` behind it only the thread that comes there ends, by a panic. It is in no release build.
#[cfg(debug_assertions)]
mod crash {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);
    /// The only boundary that counts, where it is only one.
    static NAME: OnceLock<String> = OnceLock::new();
    /// Set where a thread shall end, and not the daemon.
    static OF_THREAD: OnceLock<()> = OnceLock::new();

    /// Arms the crash where the environment says so.
    pub(super) fn listen() {
        let Ok(text) = std::env::var("ASAT_CRASH_AT") else { return };
        let of_daemon = text.strip_suffix('!').inspect(|_| *OF_THREAD.get_or_init(|| ())).unwrap_or(&text);
        let (name, nth) = of_daemon.rsplit_once('#').unwrap_or(("", of_daemon));
        let Ok(nth) = nth.parse() else { return };
        if !name.is_empty() {
            NAME.get_or_init(|| name.to_owned());
        }
        LEFT.store(nth, Ordering::SeqCst);
        asat_core::boundary::listen(pass);
    }

    fn pass(name: &'static str) {
        let counts = NAME.get().is_none_or(|only| only == name);
        if counts && LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
            if OF_THREAD.get().is_some() {
                std::panic::resume_unwind(Box::new("a crash test ends this thread"));
            }
            tracing::warn!("crash test: killed at the boundary {name:?}");
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
    }
}
