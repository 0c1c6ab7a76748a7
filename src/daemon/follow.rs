//! Following a bucket: the versions that another asat publishes are recorded here, and read from there.
//!
//! One thread asks in turn for each store whether there is a newer manifest. If there is, the archive goes on to it, and then the
//! records: what can be listed can be opened. Nothing is ever written into the bucket. What fails is tried again at the next turn, and all
//! stays as it was: what cannot be read for a moment is not taken to be given up.

mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use asat_archive::Archive;
use asat_core::event::{Archived, Damaged, Effect, Event, Followed, Recorded};
use asat_core::recorder::Understood;
use asat_core::version::State;
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_remote::{Cache, Follower, NoteFile, Repository, Service, Stop};
use jiff::Timestamp;

pub use standing::{FollowStanding, Follows};

use super::archives::describe;
use super::{Handle, Machine, failed, recording};
use crate::config::{Config, FollowConfig};

/// How often asat looks for new stores, and checks that the bucket is still the one that was followed.
const LOOK_AROUND: Duration = Duration::from_secs(600);
/// If a look at one store takes so long and fails, the service is taken to be away for all of them.
const SLOW: Duration = Duration::from_secs(5);
/// Somebody waits for what is read: a service that takes longer is taken to be away.
const TIMEOUTS: [(&str, &str); 2] = [("timeout", "30 seconds"), ("connect_timeout", "5 seconds")];

/// The thread that follows.
pub(super) struct Following {
    stop: Stop,
    stopped: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Following {
    /// Begins to follow, if that is configured. The bucket is not asked anything before the thread runs, so a daemon starts without it, with
    /// what was recorded before.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(
        config: &Config,
        handle: &Handle,
        machine: &Arc<Machine>,
    ) -> Result<Option<Self>, Problem> {
        let Some(follow) = &config.follow else { return Ok(None) };
        let (stop, (stopped, wait)) = (Stop::new(), mpsc::channel());
        let follows = Follow {
            config: follow.clone(),
            cache: config.cache(),
            stop: stop.clone(),
            handle: handle.clone(),
            machine: Arc::clone(machine),
            bucket: None,
        };
        let thread = Builder::new().name("follow".to_owned()).spawn(move || follows.run(&wait));
        let thread = thread.map_err(|error| failed("start what follows the bucket", &error))?;
        Ok(Some(Self { stop, stopped, thread }))
    }

    /// Ends it, and whatever is being read from the bucket.
    pub(super) fn stop(self) {
        self.stop.stop();
        drop(self.stopped);
        if self.thread.join().is_err() {
            tracing::error!("what follows the bucket ended with a panic; the next start continues it");
        }
    }
}

/// What the thread has.
struct Follow {
    config: FollowConfig,
    cache: PathBuf,
    stop: Stop,
    handle: Handle,
    machine: Arc<Machine>,
    bucket: Option<Bucket>,
}

/// The bucket, once it has answered.
struct Bucket {
    repository: Repository,
    cache: Arc<Cache>,
    followers: BTreeMap<StoreName, Follower>,
    looked_around: Option<Instant>,
    /// The store at which the last turn ended, if it did not come to the others.
    failed: Option<StoreName>,
}

impl Follow {
    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        loop {
            if let Err(problem) = self.look() {
                self.tell(None, Err(problem));
            }
            // It is closed when the daemon stops, and nothing is ever sent.
            if stopped.recv_timeout(self.config.poll) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Looks once at everything.
    fn look(&mut self) -> Result<(), Problem> {
        let mut bucket = match self.bucket.take() {
            Some(bucket) => bucket,
            None => self.open()?,
        };
        let looked = self.look_at(&mut bucket);
        self.bucket = Some(bucket);
        looked
    }

    fn look_at(&self, bucket: &mut Bucket) -> Result<(), Problem> {
        // As long as no store has anything, this is all that there is to ask.
        let is_empty = bucket.followers.values().all(|follower| follower.manifest().is_none());
        let is_round = is_empty || bucket.looked_around.is_none_or(|at| at.elapsed() >= LOOK_AROUND);
        if is_round {
            self.look_around(bucket)?;
            bucket.looked_around = Some(Instant::now());
        }
        let stores: Vec<StoreName> = bucket.followers.keys().cloned().collect();
        let failed = bucket.failed.take();
        let (seen, unseen) = stores.split_at(stores.partition_point(|store| Some(store) <= failed.as_ref()));
        for store in unseen.iter().chain(seen) {
            let Some(follower) = bucket.followers.get_mut(store) else { continue };
            let began = Instant::now();
            let looked_back = if is_round { follower.look_back().map_err(not_the_same) } else { Ok(()) };
            let followed = looked_back.and_then(|()| self.follow(store, follower));
            let followed = followed.inspect_err(|problem| self.know(store, follower, problem));
            if let Err(problem) = &followed
                && problem.code == Code::RemoteUnavailable
                && began.elapsed() >= SLOW
            {
                // The others would wait as long for nothing. The next turn begins with them.
                bucket.failed = Some(store.clone());
                return Err(problem.clone());
            }
            self.tell(Some(store), followed);
        }
        self.tell(None, Ok(()));
        Ok(())
    }

    fn open(&self) -> Result<Bucket, Problem> {
        let mut options = TIMEOUTS.to_vec();
        options.extend(self.config.place.options());
        let service = Service::open_with(&self.config.place.url, self.stop.clone(), &options)?;
        let service = Arc::new(service);
        let repository = Repository::open(Arc::clone(&service) as Arc<dyn asat_remote::Bucket>)?;
        let repository = repository.read_with(self.config.place.identities()?);
        repository.must_be_readable()?;
        let cache = Cache::new(Arc::clone(&repository.bucket), &self.cache, self.config.cache)?;
        self.machine.follows().served_by(service, Arc::clone(&cache));
        Ok(Bucket { repository, cache, followers: BTreeMap::new(), looked_around: None, failed: None })
    }

    /// Finds stores that are new, and sees that the bucket has the repository that was followed.
    fn look_around(&self, bucket: &mut Bucket) -> Result<(), Problem> {
        // It was opened just now, if nothing was looked at yet.
        let is_first = bucket.looked_around.is_none();
        let known = &bucket.repository;
        if !is_first && Repository::open(Arc::clone(&known.bucket))?.id != known.id {
            let url = &self.config.place.url;
            let detail = format!("{url} has another repository than before: somebody has made it anew");
            return Err(Problem::new(Code::Fenced, detail, ANEW));
        }
        let stores = match self.config.stores.as_slice() {
            [] => bucket.repository.stores()?,
            named => named.to_vec(),
        };
        for store in stores {
            let new = || {
                let note = NoteFile(self.machine.follows().note_of(&store));
                Follower::new(&bucket.repository, &store, &bucket.cache).noted_in(Box::new(note))
            };
            bucket.followers.entry(store.clone()).or_insert_with(new);
        }
        // What was damaged or missing may have been put right.
        self.machine.follows().record_again();
        Ok(())
    }

    /// Goes on to what a store is in the bucket now, first the archive and then the records.
    fn follow(&self, store: &StoreName, follower: &mut Follower) -> Result<(), Problem> {
        let has_moved = follower.follow(&self.leased(store)).map_err(not_the_same)?;
        let Some(manifest) = follower.manifest() else {
            if self.config.stores.is_empty() {
                return Ok(());
            }
            let detail = format!("{} has nothing of {store}", self.config.place.url);
            return Err(Problem::new(Code::UnknownStore, detail, "asat remote list says what it has"));
        };
        let is_recorded = self.machine.follows().is_recorded(store, manifest.number);
        if has_moved || !is_recorded {
            self.machine.archives().follow(store, follower.archive());
            self.machine.follows().come_to(store, manifest.clone());
            self.record(store, follower)?;
            follower.note()?;
            self.machine.follows().recorded(store);
        }
        // It is not looked for anew at each poll, and stays known.
        self.machine.follows().lacking_records(store).map_or(Ok(()), Err)
    }

    /// Lists a store that is in the bucket and cannot be read, before anything is known of it: so it is said that it cannot be followed.
    fn know(&self, store: &StoreName, follower: &Follower, problem: &Problem) {
        let is_known = self.handle.engine().register().history(store).is_ok();
        if is_known || matches!(problem.code, Code::Stopping | Code::RemoteUnavailable | Code::UnknownStore) {
            return;
        }
        let (store, place) = (store.clone(), follower.place());
        let nothing = Followed { store, place, has: Vec::new(), gone: Vec::new(), recorded: None };
        if let Err(problem) = self.commit(nothing) {
            tracing::error!("a store that cannot be followed is not listed: {problem}");
        }
    }

    /// The versions of a store that somebody has leased, or is about to.
    fn leased(&self, store: &StoreName) -> BTreeSet<u64> {
        let engine = self.handle.engine();
        let copied = engine.register().intents().filter_map(|intent| match &intent.effect {
            Effect::MakeCopy { version, .. } => Some(version),
            _ => None,
        });
        let leased = engine.register().leases().map(|lease| &lease.version).chain(copied);
        leased.filter(|version| version.store == *store).map(|version| version.number).collect()
    }

    /// Records what the archive has and what it has not any more. All that is new is recorded at once: nobody sees a part of it.
    fn record(&self, store: &StoreName, follower: &Follower) -> Result<(), Problem> {
        let archive = follower.archive();
        let followed = |has, gone, recorded| Followed {
            store: store.clone(),
            place: follower.place(),
            has,
            gone,
            recorded,
        };
        let Difference { new, lost, gone } = Difference::of(&self.handle, store, archive);
        let (count, given_up) = (new.len(), gone.len());
        let mut has = lost;
        match look_into(store, archive, &new) {
            Ok(found) => has.extend(found),
            Err(problem) => {
                // What is given up cannot be read any more, whether the rest can be looked into or not.
                self.commit(followed(Vec::new(), gone, None))?;
                return Err(problem);
            }
        }
        has.sort_by_key(|archived| archived.version.number);
        let (recorded, unread) = match recording::understood(store, archive) {
            // The publisher's clock is of no matter: what it has is so.
            Ok(Understood { recorded, .. }) => {
                let as_of = recorded.as_of.map(|_| Timestamp::MAX);
                (Some(Recorded { as_of, ..recorded }), None)
            }
            // The versions can be listed and opened without.
            Err(problem) if problem.code == Code::Damaged => (None, Some(problem)),
            Err(problem) => {
                self.commit(followed(Vec::new(), gone, None))?;
                return Err(problem);
            }
        };
        self.commit(followed(has, gone, recorded))?;
        if count + given_up > 0 {
            tracing::info!(%store, new = count, given_up, "{store}: came to what is in the bucket now");
        }
        self.machine.follows().lacks_records(store, unread);
        Ok(())
    }

    fn commit(&self, followed: Followed) -> Result<(), Problem> {
        let (sender, recorded) = mpsc::channel();
        // The thread that waits for it may be gone with the daemon.
        self.handle.tell(Event::Followed(followed), move |answer| _ = sender.send(answer));
        let stopping = || Problem::new(Code::Stopping, "the daemon is stopping", "");
        recorded.recv().unwrap_or_else(|_| Err(stopping())).map(drop)
    }

    /// Says what came of a look at a store, or at the bucket.
    fn tell(&self, store: Option<&StoreName>, looked: Result<(), Problem>) {
        if looked.as_ref().is_err_and(|problem| problem.code == Code::Stopping) {
            return;
        }
        let what = store.map_or_else(|| self.config.place.url.clone(), ToString::to_string);
        match self.machine.follows().note(store, looked) {
            standing::Turn::Worse(problem) => tracing::error!("{what} cannot be followed: {problem}"),
            standing::Turn::Better => tracing::info!("{what} is followed again"),
            standing::Turn::Same => {}
        }
    }
}

/// What to do if a bucket does not go on where it was.
const ANEW: &str = "look at who has emptied it, made it anew, or put it back from a backup. To follow what is there now, stop asat and give it an empty state folder (docs/follow.md)";

/// The problem that the history in the bucket is another one than the one that was followed, if that is the error.
fn not_the_same(error: asat_remote::Error) -> Problem {
    // What is missing of files is an error of the archive: of the bucket, only manifests are asked for here.
    let is_another =
        matches!(&error, asat_remote::Error::Missing { .. } | asat_remote::Error::Replaced { .. });
    let problem = Problem::from(error);
    if !is_another {
        return problem;
    }
    let detail = format!("the history that was followed is not there any more: {}", problem.detail);
    Problem { code: Code::Fenced, detail, hint: ANEW.to_owned() }
}

/// What the archive says of versions, oldest first. Damage keeps nobody from the other ones.
fn look_into(store: &StoreName, archive: &Archive, versions: &[u64]) -> Result<Vec<Archived>, Problem> {
    if let Some(first) = versions.first() {
        archive.expect_descriptions(*first);
    }
    let look = |number: &u64| {
        let version = VersionId { store: store.clone(), number: *number };
        let described = match describe(archive, &version) {
            Ok(described) => Ok(Box::new(described)),
            Err(problem) if problem.code == Code::Damaged => {
                Err(Damaged { why: problem.detail, described: None })
            }
            Err(problem) => return Err(problem),
        };
        Ok(Archived { version, described })
    };
    versions.iter().map(look).collect()
}

/// What the records lack, and what they have that is given up.
struct Difference {
    new: Vec<u64>,
    /// Versions that are not recorded, and that a file may have which cannot be read.
    lost: Vec<Archived>,
    gone: Vec<u64>,
}

impl Difference {
    fn of(handle: &Handle, store: &StoreName, archive: &Archive) -> Self {
        // Copied first: nothing is recorded as long as the engine is looked at, and the archive may be far away.
        let known: BTreeMap<u64, State> = {
            let engine = handle.engine();
            let headlines = engine.register().history(store).into_iter();
            let headlines = headlines.flat_map(|history| history.versions.headlines());
            headlines.map(|headline| (headline.number, headline.state)).collect()
        };
        let new = archive.live().into_iter().filter(|number| known.get(number) != Some(&State::Ready));
        let lost = archive.lost_versions().into_iter().flat_map(|(numbers, error)| {
            let why = Problem::from(error).detail;
            let unknown = numbers.into_iter().filter(|number| !known.contains_key(number));
            let lost = unknown.map(|number| {
                let described = Err(Damaged { why: why.clone(), described: None });
                Archived { version: VersionId { store: store.clone(), number }, described }
            });
            lost.collect::<Vec<_>>()
        });
        let is_kept = |state: &State| matches!(state, State::Ready | State::Lost);
        let kept: Vec<u64> =
            known.iter().filter(|(_, state)| is_kept(state)).map(|(number, _)| *number).collect();
        Self { new: new.collect(), lost: lost.collect(), gone: archive.given_up(&kept) }
    }
}
