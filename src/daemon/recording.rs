//! Later publications, pins and tags in the archives: so they outlive the catalogue, and come to everybody who has the archive.
//!
//! The catalogue counts, and one thread brings the archives up to it, a moment later. What is to be written is said by the core's `recorder`.
//! Nobody waits for that but who wants a publication to be in the bucket.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use asat_archive::Archive;
use asat_core::event::Event;
use asat_core::recorder::{Changes, Recorder, Understood, Values};
use asat_core::{Code, Problem, StoreName};
use asat_host::machine;
use tokio::sync::watch;

use super::handle::stopping;
use super::host::Host as _;
use super::machine::lock;
use super::{Handle, Machine, failed};

/// Changes that come within this time are written together.
const PACE: Duration = Duration::from_secs(1);
/// And within so many times the time that the last ones took: however much is certified, that takes a tenth of a processor at most.
const REST: u32 = 9;
/// So many changes at most are one file: each takes in what is in the short ones before it.
const TOGETHER: usize = 16_384;
/// After how long something that failed is tried again, at most.
const RETRY: Duration = Duration::from_secs(60);

/// What brings each store's archive up to the catalogue.
#[derive(Debug, Default)]
pub(super) struct Recorders {
    stores: Mutex<BTreeMap<StoreName, Arc<Mutex<Keeper>>>>,
}

/// What brings one store's archive up to the catalogue.
#[derive(Debug, Default)]
struct Keeper {
    /// Nothing before it has begun, and after an error.
    recorder: Option<Recorder>,
    /// Whether the start could not read what the archive has: a catalogue that has to take it over has not done so then.
    was_unread: bool,
    /// Whether the archive has a mark of this run: then the catalogue goes on from there.
    has_marked: bool,
}

impl Recorders {
    /// Takes note that a start could not read what a store's archive has recorded.
    pub(super) fn unread(&self, store: &StoreName) {
        lock(&self.keeper(store)).was_unread = true;
    }

    fn keeper(&self, store: &StoreName) -> Arc<Mutex<Keeper>> {
        Arc::clone(lock(&self.stores).entry(store.clone()).or_default())
    }
}

/// A store's archive, and the catalogue.
struct Both<'a> {
    store: &'a StoreName,
    archive: &'a Archive,
    handle: &'a Handle,
    machine: &'a Machine,
}

impl Keeper {
    /// Brings the archive up to the catalogue. Answers whether something was written.
    fn keep(&mut self, both: &Both<'_>) -> Result<bool, Problem> {
        let mut recorder = match self.recorder.take() {
            Some(recorder) => recorder,
            None => self.begin(both, &both.archive.records()?)?,
        };
        let (mut together, mut is_written) = (Changes::new(), false);
        loop {
            let (changes, more) = both.changes(&mut recorder);
            together.extend(changes);
            if !more || together.len() >= TOGETHER {
                is_written |= !together.is_empty();
                // If it fails, the next one begins again with what the archive has.
                both.archive.record(std::mem::take(&mut together))?;
            }
            if !more {
                self.recorder = Some(recorder);
                self.has_marked |= is_written;
                return Ok(is_written);
            }
        }
    }

    /// Writes anew what the archive has recorded, as far as it can be read and the catalogue has it.
    fn write_anew(&mut self, both: &Both<'_>) -> Result<(), Problem> {
        self.recorder = None;
        let mut values = both.archive.readable_records()?;
        let mut recorder = self.begin(both, &values)?.looking_at_all();
        loop {
            let (changes, more) = both.changes(&mut recorder);
            for (key, text) in changes {
                match text {
                    Some(text) => _ = values.insert(key, text),
                    None => _ = values.remove(&key),
                }
            }
            if !more {
                break;
            }
        }
        both.archive.record_anew(values)?;
        self.recorder = Some(recorder);
        self.has_marked = true;
        Ok(())
    }

    /// Begins with what the archive has. If the start could not read that, the catalogue takes over first what it lacks.
    fn begin(&mut self, both: &Both<'_>, values: &Values) -> Result<Recorder, Problem> {
        let Both { store, handle, .. } = both;
        let understood = Understood::of(store, values).map_err(|what| unknown(store, &what))?;
        let (recorder, must_be_taken_over) = {
            let engine = handle.engine();
            let opened = if self.has_marked { engine.commit() } else { engine.opened() };
            let must_be_taken_over = understood.must_be_taken_over(store, engine.register(), opened);
            (Recorder::begin(store, values, &understood, opened), must_be_taken_over)
        };
        if must_be_taken_over && self.was_unread {
            let (sender, taken_over) = mpsc::channel();
            let event = Event::Recorded { store: (*store).clone(), recorded: understood.recorded };
            handle.tell(event, move |answer| _ = sender.send(answer));
            taken_over.recv().unwrap_or_else(|_| Err(stopping()))?;
            tracing::warn!(%store, "{store}: took over what its archive has recorded of later publications, pins and tags");
        }
        self.was_unread = false;
        Ok(recorder)
    }
}

impl Both<'_> {
    /// What is to be recorded next, and whether there may be more.
    fn changes(&self, recorder: &mut Recorder) -> (Changes, bool) {
        let now = self.machine.now();
        let changes = {
            let engine = self.handle.engine();
            recorder.changes(engine.register(), engine.commit(), now)
        };
        if changes.1 {
            // A long history was looked at.
            self.handle.shared_engine().free_unpacked();
        }
        changes
    }
}

/// What an archive has recorded, understood.
///
/// # Errors
/// If it is lost or damaged, cannot be read at this moment, or is of a kind that is not known here.
pub(super) fn understood(store: &StoreName, archive: &Archive) -> Result<Understood, Problem> {
    Understood::of(store, &archive.records()?).map_err(|what| unknown(store, &what))
}

fn unknown(store: &StoreName, what: &str) -> Problem {
    let detail = format!("the archive of {store} has records of a kind that is not known here: {what}");
    Problem::new(Code::Damaged, detail, "use the asat that has written them, or a newer one")
}

/// The thread that brings all archives up to the catalogue.
pub(super) struct Recording {
    stopped: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Recording {
    /// Begins when it is known that the catalogue is sound, unless the archives are those of a bucket that is followed.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(
        handle: &Handle,
        machine: &Arc<Machine>,
        is_sound: watch::Receiver<bool>,
    ) -> Result<Option<Self>, Problem> {
        if machine.archives().are_followed() {
            return Ok(None);
        }
        let unstarted = |error: std::io::Error| failed("start what records in the archives", &error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(unstarted)?;
        let stopped = watch::Sender::new(false);
        let (handle, machine, stop) = (handle.clone(), Arc::clone(machine), stopped.subscribe());
        let thread = Builder::new().name("records".to_owned()).spawn(move || {
            machine::give_way();
            runtime.block_on(Keeping { handle, machine, failing: BTreeMap::new() }.run(is_sound, stop));
        });
        Ok(Some(Self { stopped, thread: thread.map_err(unstarted)? }))
    }

    /// Ends it, once the archives are as the catalogue is.
    pub(super) fn stop(self) {
        self.stopped.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!("what records in the archives ended with a panic; the next start continues it");
        }
    }
}

/// What the thread has.
struct Keeping {
    handle: Handle,
    machine: Arc<Machine>,
    /// The stores whose archives cannot be brought up.
    failing: BTreeMap<StoreName, Failing>,
}

/// What is in the way, and when it is tried again.
struct Failing {
    code: Code,
    again: Instant,
    pause: Duration,
}

impl Keeping {
    async fn run(mut self, mut is_sound: watch::Receiver<bool>, mut stop: watch::Receiver<bool>) {
        let mut changed = self.handle.recorded();
        // What is damaged must not come into the archives.
        tokio::select! {
            sound = is_sound.wait_for(|is_sound| *is_sound) => if sound.is_err() { return },
            _ = stop.wait_for(|stopped| *stopped) => {}
        }
        while *is_sound.borrow() {
            let is_last = *stop.borrow();
            changed.mark_unchanged();
            let began = Instant::now();
            self.keep_all(is_last);
            if is_last {
                return;
            }
            let pace = PACE.max(began.elapsed() * REST);
            let again = self.failing.values().map(|failing| failing.again).min();
            tokio::select! {
                _ = stop.wait_for(|stopped| *stopped) => {}
                () = wait(&mut changed, pace, again) => {}
            }
        }
    }

    /// Brings all archives up to the catalogue. One in whose way something is, is tried again in its time.
    fn keep_all(&mut self, is_last: bool) {
        for store in self.machine.archives().stores() {
            let waits = self.failing.get(&store).is_some_and(|failing| failing.again > Instant::now());
            if is_last || !waits {
                let kept = self.machine.keep_records(&store);
                self.note(store, kept.err());
            }
        }
    }

    /// Takes note of what was in the way.
    fn note(&mut self, store: StoreName, problem: Option<Problem>) {
        let before = self.failing.remove(&store);
        match problem.filter(|problem| problem.code != Code::Stopping) {
            Some(problem) => {
                if before.as_ref().is_none_or(|before| before.code != problem.code) {
                    tracing::error!(%store, "{store}: later publications, pins and tags do not come into its archive: {problem}");
                }
                let pause = before.map_or(PACE, |before| (before.pause * 2).min(RETRY));
                let failing = Failing { code: problem.code, again: Instant::now() + pause, pause };
                self.failing.insert(store, failing);
            }
            None if before.is_some() => {
                tracing::info!(%store, "{store}: later publications, pins and tags come into its archive again");
            }
            None => {}
        }
    }
}

/// Waits for so long, and until something was recorded, or until an instant.
async fn wait(changed: &mut watch::Receiver<()>, pace: Duration, until: Option<Instant>) {
    tokio::time::sleep(pace).await;
    let again = async {
        match until {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // It is never closed: the thread has a handle.
        _ = changed.changed() => {}
        () = again => {}
    }
}

impl Machine {
    /// Brings what a store's archive has recorded up to the catalogue. Answers the file in which it is then; 0 if nothing is recorded.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn keep_records(&self, store: &StoreName) -> Result<u64, Problem> {
        let Some(handle) = self.driver.get() else { return Ok(0) };
        let (archive, keeper) = (self.archives.of(store)?, self.recorders.keeper(store));
        let mut keeper = lock(&keeper);
        if keeper.keep(&Both { store, archive: &archive, handle, machine: self })? {
            // Who pushes looks at it.
            handle.tell_archived();
        }
        Ok(archive.newest_records())
    }

    /// Writes anew what a store's archive has recorded, of which something cannot be read.
    ///
    /// # Errors
    /// If that cannot be read for another reason than damage, or written.
    pub(in crate::daemon) fn write_records_anew(&self, store: &StoreName) -> Result<(), Problem> {
        let Some(handle) = self.driver.get() else { return Ok(()) };
        let (archive, keeper) = (self.archives.of(store)?, self.recorders.keeper(store));
        lock(&keeper).write_anew(&Both { store, archive: &archive, handle, machine: self })?;
        handle.tell_archived();
        Ok(())
    }

    /// Whether this daemon has never read what a store's archive has recorded: only the archive, or a bucket, may have it.
    pub(in crate::daemon) fn has_unread_records(&self, store: &StoreName) -> bool {
        lock(&self.recorders.keeper(store)).was_unread
    }
}
