//! Watch mode: each store with a marker has a thread that sleeps until somebody may have written to it.
//!
//! What is to be done, and when, is said by the core's `watch`. A commit is told by the kernel; whether there was one shows by
//! the times of the files, so that what asat itself does to them, or a reader, is no reason to ask for the marker again.

mod standing;
mod store_watcher;

use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, pipe};
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use asat_core::event::{Event, Publish, Reply};
use asat_core::watch::{self, Step, Watch};
use asat_core::{Code, Problem, StoreName};
use asat_host::clock;
use asat_host::store::{Before, Signature};
use asat_host::watching::Noticed;

use super::Notice;
use super::handle::stopping;
use super::{Handle, Machine};
use crate::config::{Config, StoreConfig, WatchConfig};
pub use standing::Watched;
use store_watcher::StoreWatcher;

/// How watch mode stands with each store that has a marker.
#[derive(Clone, Default)]
pub struct Watches(Arc<RwLock<BTreeMap<StoreName, Watched>>>);

impl Watches {
    /// How it stands with the stores.
    pub fn read(&self) -> RwLockReadGuard<'_, BTreeMap<StoreName, Watched>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, store: &StoreName, watched: &Watched) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(store.clone(), watched.clone());
    }

    fn remove(&self, store: &StoreName) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(store);
    }
}

/// The threads of all stores with a marker.
#[derive(Default)]
pub(super) struct Watchers {
    watching: BTreeMap<StoreName, Watching>,
    /// Those that were told to end.
    ended: BTreeMap<StoreName, JoinHandle<()>>,
}

/// The thread of one store.
struct Watching {
    config: WatchConfig,
    thread: JoinHandle<()>,
    /// As this closes, the thread ends.
    _open: PipeWriter,
}

impl Watchers {
    /// Begins to watch every store that the configuration has a marker for.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn start(config: &Config, handle: &Handle, machine: &Arc<Machine>) -> Result<Self, Problem> {
        let mut watchers = Self::default();
        watchers.configure(config, handle, machine)?;
        Ok(watchers)
    }

    /// Watches as this configuration says: whatever is watched otherwise than before is watched anew.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn configure(
        &mut self,
        config: &Config,
        handle: &Handle,
        machine: &Arc<Machine>,
    ) -> Result<(), Problem> {
        let wanted = |name: &StoreName| config.stores.get(name).and_then(|store| store.watch.as_ref());
        let is_other = |name: &StoreName, watching: &mut Watching| wanted(name) != Some(&watching.config);
        let others = self.watching.extract_if(.., is_other);
        self.ended.extend(others.map(|(name, Watching { thread, .. })| (name, thread)));
        for (name, store) in &config.stores {
            let Some(watch) = store.watch.as_ref().filter(|_| !self.watching.contains_key(name)) else {
                continue;
            };
            let (end, open) = pipe().map_err(|error| super::failed("watch a store", &error))?;
            let (name, store, config) = (name.clone(), store.clone(), watch.clone());
            let (handle, machine) = (handle.clone(), Arc::clone(machine));
            // It may be in the middle of a publication, after which the next one knows what is published.
            let before = self.ended.remove(&name);
            let run = {
                let (name, config) = (name.clone(), config.clone());
                let watcher = move |handle: &Handle| Watcher::new(&name, &store, &config, handle, &machine);
                let at_once = before.is_none().then(|| watcher(&handle));
                move || {
                    wait_for(before);
                    at_once.unwrap_or_else(|| watcher(&handle)).run(&end);
                }
            };
            let thread = Builder::new().name(format!("watch {name}")).spawn(run);
            let thread = thread.map_err(|error| super::failed("watch a store", &error))?;
            self.watching.insert(name, Watching { config, thread, _open: open });
        }
        Ok(())
    }

    /// Has the threads end. Those that wait for a publication end with the driver.
    pub(super) fn stop(&mut self) {
        let watching = std::mem::take(&mut self.watching);
        self.ended.extend(watching.into_iter().map(|(name, Watching { thread, .. })| (name, thread)));
    }

    /// Waits until they have.
    pub(super) fn join(self) {
        self.ended.into_values().for_each(|thread| wait_for(Some(thread)));
    }
}

fn wait_for(thread: Option<JoinHandle<()>>) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("watching a store ended with a panic");
    }
}

/// The watch over one store.
struct Watcher {
    name: StoreName,
    handle: Handle,
    machine: Arc<Machine>,
    policy: Watch,
    watcher: StoreWatcher,
    store: StoreConfig,
    /// What the files were like before the marker was asked for last.
    signature: Option<Signature>,
    watched: Watched,
    began: Instant,
}

impl Watcher {
    fn new(
        name: &StoreName,
        store: &StoreConfig,
        config: &WatchConfig,
        handle: &Handle,
        machine: &Arc<Machine>,
    ) -> Self {
        let published = handle.engine().register().last_marker(name).map(str::to_owned);
        let watcher = StoreWatcher::open(&store.path, config.poll);
        let watched = Watched { published: published.clone(), ..Watched::default() };
        let mut watcher = Self {
            name: name.clone(),
            handle: handle.clone(),
            machine: Arc::clone(machine),
            policy: Watch::new(config.pace, published),
            watcher,
            store: store.clone(),
            signature: None,
            watched,
            began: Instant::now(),
        };
        watcher.note_eyes();
        watcher.handle.watches().put(name, &watcher.watched);
        watcher
    }

    fn run(mut self, end: &PipeReader) {
        loop {
            let now = self.began.elapsed();
            match self.policy.next(now) {
                Step::Wait(until) => {
                    match self.watcher.wait(until.map(|until| until.saturating_sub(now)), end) {
                        Noticed::Change => self.policy.notice(self.began.elapsed()),
                        Noticed::Nothing => {}
                        Noticed::End => return self.handle.watches().remove(&self.name),
                    }
                    self.note_eyes();
                }
                Step::Ask { anyway } => self.ask(anyway),
                Step::Publish(value) => self.publish(&value),
            }
        }
    }

    /// Asks for the marker; unless `anyway`, only where the store's files are not what they were before it was asked for.
    fn ask(&mut self, anyway: bool) {
        let is_same = |seen: &Signature| seen.still_holds(&self.store.path);
        if !anyway && self.signature.as_ref().is_some_and(is_same) {
            return self.policy.unchanged();
        }
        let (began, since) = (self.began.elapsed(), clock::now());
        let seen = Before::look(&self.store.path);
        let answer = self.machine.marker(&self.name);
        self.signature = seen.settled(&self.store.path);
        self.policy.answered(began, self.began.elapsed(), &answer, seen.is_commit_under_way());
        let (before, is_first) = (self.watched.value.clone(), self.watched.asked_at.is_none());
        match &answer {
            Ok(value) => {
                self.watched.answered(since, value);
                // What was refused stays trouble until it is published, or is no longer wanted.
                let is_wanted = matches!(self.policy.next(began), Step::Publish(_));
                let is_over = !is_wanted && self.tell_trouble(None);
                self.tell(is_first || is_over || self.watched.value != before);
            }
            Err(problem) => {
                let is_news = self.tell_trouble(Some(problem));
                self.tell(is_news);
            }
        }
    }

    fn publish(&mut self, value: &str) {
        let store = Some(self.name.clone());
        let publish = Publish { store, attributes: watch::attributes(value), ..Publish::default() };
        let (say, answer) = channel();
        self.handle.tell(Event::Publish(publish), move |answer| drop(say.send(answer)));
        let answer = answer.recv().unwrap_or_else(|_| Err(stopping())).map(|reply| self.found(&reply, value));
        self.policy.published(self.began.elapsed(), &answer);
        self.watched.published = self.policy.last_published().map(str::to_owned);
        if let Ok(value) = &answer {
            self.watched.answered(clock::now(), &Some(value.clone()));
        }
        let is_news = self.tell_trouble(answer.as_ref().err());
        self.tell(is_news || answer.is_ok());
    }

    /// The value that was published: what was cut may have a newer one than was wanted.
    fn found(&self, reply: &Reply, wanted: &str) -> String {
        let engine = self.handle.engine();
        let publication = match reply {
            Reply::Published(number) | Reply::Known(number) => engine.register().publication(*number),
            _ => None,
        };
        let found = publication.and_then(|publication| publication.attributes.marker());
        found.unwrap_or(wanted).to_owned()
    }

    /// Takes trouble in, and logs it where it is news; answers whether it is.
    fn tell_trouble(&mut self, trouble: Option<&Problem>) -> bool {
        if trouble.is_some_and(|problem| problem.code == Code::Stopping) {
            return false;
        }
        let is_news = self.watched.troubled(clock::now(), trouble);
        match trouble {
            Some(problem) if is_news => {
                let code = problem.code.text().0;
                tracing::warn!(store = %self.name, code, "watch mode: {problem}");
            }
            None if is_news => {
                self.handle.failures().forget(&self.name);
                tracing::info!(store = %self.name, "watch mode works again");
            }
            _ => {}
        }
        is_news
    }

    /// Lets others see how it stands, and tells them where there are news.
    fn tell(&self, is_news: bool) {
        self.handle.watches().put(&self.name, &self.watched);
        if is_news {
            self.handle.notify(Notice::Watch(self.name.clone(), Box::new(self.watched.clone())));
        }
    }

    /// Takes in how changes are seen.
    fn note_eyes(&mut self) {
        let polls = self.watcher.why_polling();
        if self.watched.polls.as_deref() != polls {
            self.watched.polls = polls.map(str::to_owned);
            if let Some(why) = &self.watched.polls {
                tracing::warn!(store = %self.name, "its files are looked at for changes: {why}");
            }
            self.handle.watches().put(&self.name, &self.watched);
        }
    }
}
