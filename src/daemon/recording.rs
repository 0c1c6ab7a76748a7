//! Later publications, pins and tags in the archives: so they outlive the catalogue, and come to everybody who has the archive.
//!
//! The catalogue counts, and one thread brings the archives up to it, a moment later. What is to be written is said by the core's `recorder`.
//! Nobody waits for that but who wants a publication to be in the bucket.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use asat_archive::Archive;
use asat_core::event::Event;
use asat_core::recorder::{Changes, Recorder, Understood, Values};
use asat_core::{Code, Problem, StoreName};
use asat_host::machine;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::handle::stopping;
use super::{Handle, Machine, failed};

/// Changes that come within this time are written together.
const PACE: Duration = Duration::from_secs(1);
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
    /// Whether the start could not read what the archive has: a catalogue that does not go on from there has not taken it over then.
    was_unread: bool,
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

impl Keeper {
    /// Brings the store's archive up to the catalogue. Answers whether something was written.
    fn keep(&mut self, store: &StoreName, archive: &Archive, handle: &Handle) -> Result<bool, Problem> {
        let mut recorder = match self.recorder.take() {
            Some(recorder) => recorder,
            None => self.begin(store, &archive.records()?, handle)?,
        };
        let mut is_written = false;
        loop {
            let (changes, more) = changes(&mut recorder, handle);
            is_written |= !changes.is_empty();
            // If it fails, the next one begins again with what the archive has.
            archive.record(changes)?;
            if !more {
                self.recorder = Some(recorder);
                return Ok(is_written);
            }
        }
    }

    /// Writes anew what the store's archive has recorded, as far as it can be read and the catalogue has it.
    fn write_anew(&mut self, store: &StoreName, archive: &Archive, handle: &Handle) -> Result<(), Problem> {
        self.recorder = None;
        let mut values = archive.readable_records()?;
        let mut recorder = self.begin(store, &values, handle)?.looking_at_all();
        loop {
            let (changes, more) = changes(&mut recorder, handle);
            for (key, value) in changes {
                match value {
                    Some(value) => _ = values.insert(key, value),
                    None => _ = values.remove(&key),
                }
            }
            if !more {
                break;
            }
        }
        archive.record_anew(values)?;
        self.recorder = Some(recorder);
        Ok(())
    }

    /// Begins with what the archive has. If the start could not read that, the catalogue takes over first what it lacks.
    fn begin(&mut self, store: &StoreName, values: &Values, handle: &Handle) -> Result<Recorder, Problem> {
        let understood = Understood::of(store, values).map_err(|what| unknown(store, &what))?;
        let (recorder, is_ahead) = {
            let engine = handle.engine();
            let is_ahead = understood.is_ahead_of(store, engine.register(), engine.opened());
            (Recorder::begin(store, values, &understood, engine.opened()), is_ahead)
        };
        if is_ahead && self.was_unread {
            let (sender, taken_over) = mpsc::channel();
            let event = Event::Recorded { store: store.clone(), recorded: understood.recorded };
            handle.tell(event, move |answer| _ = sender.send(answer));
            taken_over.recv().unwrap_or_else(|_| Err(stopping()))?;
            tracing::warn!(%store, "{store}: took over what its archive has recorded of later publications, pins and tags");
        }
        self.was_unread = false;
        Ok(recorder)
    }
}

fn changes(recorder: &mut Recorder, handle: &Handle) -> (Changes, bool) {
    let now = asat_host::clock::now();
    let engine = handle.engine();
    recorder.changes(engine.register(), engine.commit(), now)
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that brings all archives up to the catalogue.
pub(super) struct Recording {
    stopped: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Recording {
    /// Begins, unless the archives are those of a bucket that is followed.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(handle: &Handle, machine: &Arc<Machine>) -> Result<Option<Self>, Problem> {
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
            Keeping { handle, machine, problem: None }.run(&runtime, stop);
        });
        Ok(Some(Self { stopped, thread: thread.map_err(unstarted)? }))
    }

    /// Ends it, once the archives are as the catalogue is.
    pub(super) fn stop(self) {
        self.stopped.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!(
                "what records in the archives ended with a panic; the next start goes on with it"
            );
        }
    }
}

/// What the thread has.
struct Keeping {
    handle: Handle,
    machine: Arc<Machine>,
    /// What was in the way last.
    problem: Option<Problem>,
}

impl Keeping {
    fn run(mut self, runtime: &Runtime, mut stop: watch::Receiver<bool>) {
        let mut changed = self.handle.recorded();
        let mut retry = PACE;
        loop {
            let is_last = *stop.borrow();
            changed.mark_unchanged();
            let kept = self.keep_all();
            if is_last {
                return;
            }
            let pause = if kept { PACE } else { retry };
            retry = if kept { PACE } else { (retry * 2).min(RETRY) };
            runtime.block_on(async {
                tokio::select! {
                    _ = stop.wait_for(|stopped| *stopped) => {}
                    () = tokio::time::sleep(pause) => {}
                }
                let again = async {
                    if kept {
                        _ = changed.changed().await;
                    }
                };
                tokio::select! {
                    _ = stop.wait_for(|stopped| *stopped) => {}
                    () = again => {}
                }
            });
        }
    }

    /// Brings all archives up to the catalogue; answers whether that succeeded.
    fn keep_all(&mut self) -> bool {
        let problem = self.machine.archives().stores().into_iter().filter_map(|store| {
            let problem = self.machine.keep_records(&store).err()?;
            Some((store, problem))
        });
        let first = problem.collect::<Vec<_>>().into_iter().next();
        match (&first, &self.problem) {
            (Some((_, problem)), _) if problem.code == Code::Stopping => {}
            (Some((_, problem)), Some(before)) if problem.code == before.code => {}
            (Some((store, problem)), _) => {
                tracing::error!(%store, "{store}: later publications, pins and tags do not come into its archive: {problem}");
            }
            (None, Some(_)) => {
                tracing::info!("later publications, pins and tags come into the archives again")
            }
            (None, None) => {}
        }
        self.problem = first.map(|(_, problem)| problem);
        self.problem.is_none()
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
        if keeper.keep(store, &archive, handle)? {
            // Who pushes looks at it.
            handle.tell_archived();
        }
        Ok(archive.newest_records())
    }

    /// Writes anew what a store's archive has recorded, of which something cannot be read.
    ///
    /// # Errors
    /// If that cannot be read otherwise, or written.
    pub(in crate::daemon) fn write_records_anew(&self, store: &StoreName) -> Result<(), Problem> {
        let Some(handle) = self.driver.get() else { return Ok(()) };
        let (archive, keeper) = (self.archives.of(store)?, self.recorders.keeper(store));
        lock(&keeper).write_anew(store, &archive, handle)?;
        handle.tell_archived();
        Ok(())
    }
}
