//! The driver on a machine that is made up: a volume group with room for two snapshots.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, Once};
use std::thread::JoinHandle;

use asat_core::clock::{Anchor, Reading};
use asat_core::event::{
    Change, Cut, CutFailure, Effect, Event, Filed, Kept, Lack, Outcome, Publish, Reply, Retired, Survey,
};
use asat_core::guard::{GuardEntry, Outcome as Came, Rung};
use asat_core::register::Register;
use asat_core::snapshot::{BackendKind, Cost, Origin, Snapshot};
use asat_core::version::{Attributes, Content, State};
use asat_core::{Backing, By, Code, Fingerprint, PageSize, Policy, StoreName, StorePolicy, VersionId};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use tempfile::TempDir;

use super::*;
use crate::daemon::{Notice, Notices};

/// A volume group with room for two snapshots.
#[derive(Default)]
struct Group {
    taken: Mutex<Vec<VersionId>>,
    /// What somebody holds in process.
    held: Mutex<Vec<VersionId>>,
    /// What happens as pages are let go, and why that fails.
    letting_go: Mutex<Option<LettingGo>>,
}

type LettingGo = Box<dyn FnOnce() -> Result<(), Problem> + Send>;

impl Group {
    fn take(&self, version: &VersionId, origin: &Origin) -> Result<Cut, CutFailure> {
        let mut taken = self.taken.lock().unwrap();
        if taken.len() == 2 {
            let problem = Problem::new(Code::StorageFull, "the group is full", "");
            return Err(CutFailure { problem, begun: false, left: None, lacks: Some(Lack::Bytes(64)) });
        }
        taken.push(version.clone());
        let snapshot = Snapshot {
            origin: origin.clone(),
            name: format!("vg/{version}"),
            uuid: version.to_string(),
            with_wal: false,
            bytes: 64,
            lost: false,
            not_before: None,
        };
        let content = Content {
            cut_at: asat_host::clock::now(),
            fingerprint: None,
            page_size: PageSize::new(4096).unwrap(),
            page_count: 1,
            wal: false,
        };
        let kept = Kept::Snapshot { content, snapshot: Box::new(snapshot) };
        Ok(Cut { cost: Cost::default(), kept, checks: Vec::new() })
    }
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

thread_local! {
    /// The log of the driver that this thread drives.
    static DRIVEN: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// Writes into the log of the driver that the thread drives. One subscriber serves all threads, since whether anybody wants a line at
/// all is remembered for all of them at once.
struct OfThisThread;

impl std::io::Write for OfThisThread {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        DRIVEN.with_borrow_mut(|log| log.as_mut().map_or(Ok(bytes.len()), |log| log.write(bytes)))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs a driver on a thread of its own, with this log.
fn run(driver: Driver<Group>, log: &Log) -> JoinHandle<()> {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| OfThisThread).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    let log = log.clone();
    std::thread::spawn(move || {
        DRIVEN.set(Some(log));
        driver.run();
    })
}

impl Host for Group {
    fn now(&self) -> Timestamp {
        asat_host::clock::now()
    }

    fn clocks(&self) -> Reading {
        asat_host::clock::read()
    }

    fn go_by(&self, _: &Anchor) {}

    fn survey(&self, _: &Register) -> Result<Survey, Problem> {
        Ok(Survey::default())
    }

    fn archive_bytes(&self, _: &StoreName) -> u64 {
        0
    }

    fn held(&self, versions: &[VersionId], _: bool) -> Vec<VersionId> {
        let held = self.held.lock().unwrap();
        versions.iter().filter(|version| held.contains(version)).cloned().collect()
    }

    fn perform(&self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Cut { version, origin: Some(origin), .. } => Outcome::Cut(self.take(version, origin)),
            Effect::Archive { .. } => Outcome::Archive(Ok(Filed {
                fingerprint: Fingerprint::of_model(1),
                bytes: 1,
                worth_compacting: false,
            })),
            Effect::DropSnapshot { version, .. } => {
                self.taken.lock().unwrap().retain(|taken| taken != version);
                Outcome::DropSnapshot(Ok(()))
            }
            Effect::Retire { .. } => {
                let let_go = self.letting_go.lock().unwrap().take().map_or(Ok(()), |happens| happens());
                Outcome::Retire(let_go.map(|()| Retired { freed_bytes: 0, worth_compacting: false }))
            }
            other => panic!("nobody asks for {other:?}"),
        }
    }

    fn undo(&self, _: &Effect) -> Result<(), Problem> {
        Ok(())
    }

    fn stop(&self) {}
}

/// One store that is cut by classic snapshots, all of which are kept.
fn policy() -> Policy {
    let origin = Origin {
        backend: BackendKind::LvmClassic,
        group: "group".to_owned(),
        volume: "volume".to_owned(),
        name: "vg/data".to_owned(),
        fs: "ext4".to_owned(),
        inside: PathBuf::from("/report.db"),
    };
    let store = StorePolicy {
        path: PathBuf::from("/srv/report.db"),
        retention: asat_core::retention::Retention::default(),
        backing: Backing::Volume(origin),
        keep_snapshots: 9,
        unique_labels: false,
        expect: None,
    };
    let stores = [("report".parse().unwrap(), store)].into();
    Policy {
        stores,
        sets: BTreeMap::new(),
        max_copy_bytes: 1,
        max_ttl_s: 60,
        may_demote: true,
        ..Policy::default()
    }
}

fn start(folder: &TempDir) -> (Driver<Group>, Handle) {
    let catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
    let engine = Engine::new(policy(), catalogue.load().unwrap());
    Driver::start(Arc::new(Group::default()), engine, catalogue, Arc::default(), Notices::default()).unwrap()
}

fn ask(handle: &Handle, event: Event) -> Result<Reply, Problem> {
    let (say, answer) = channel();
    handle.tell(event, move |answer| say.send(answer).unwrap());
    answer.recv().unwrap()
}

/// Publishes, and waits until the newest version is in the archive.
fn publish(handle: &Handle, version: &str) -> Result<Reply, Problem> {
    let mut notices = handle.listen();
    let asked = Publish::default();
    let reply = ask(handle, Event::Publish(asked))?;
    let id: VersionId = version.parse().unwrap();
    while !handle.engine().register().entry(&id)?.version.is_archived() {
        notices.blocking_recv().unwrap();
    }
    Ok(reply)
}

#[test]
fn a_publication_without_room_waits_for_the_oldest_kept_snapshot_to_go() {
    let folder = tempfile::tempdir().unwrap();
    let (driver, handle) = start(&folder);
    let host = Arc::clone(&driver.ports.host);
    let driver = std::thread::spawn(|| driver.run());
    let taken = || host.taken.lock().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    publish(&handle, "report@1").unwrap();
    publish(&handle, "report@2").unwrap();
    assert_eq!(taken(), ["report@1", "report@2"]);

    assert_eq!(publish(&handle, "report@3"), Ok(Reply::Published(3)));
    assert_eq!(taken(), ["report@2", "report@3"]);

    for version in ["report@2", "report@3"] {
        let (version, reason) = (version.parse().unwrap(), "audit".to_owned());
        ask(&handle, Event::Pin { version, reason, owner: None, expires_at: None, hot: true }).unwrap();
    }
    assert_eq!(publish(&handle, "report@4").unwrap_err().code, Code::StorageFull);
    assert_eq!(taken(), ["report@2", "report@3"]);
    handle.stop();
    driver.join().unwrap();
}

#[test]
fn what_somebody_holds_is_not_given_up_until_he_lets_it_go() {
    let folder = tempfile::tempdir().unwrap();
    let (driver, handle) = start(&folder);
    let host = Arc::clone(&driver.ports.host);
    let driver = std::thread::spawn(|| driver.run());
    publish(&handle, "report@1").unwrap();
    let hold =
        |held: &[&str]| *host.held.lock().unwrap() = held.iter().map(|id| id.parse().unwrap()).collect();
    let retire = || ask(&handle, Event::retire("report@1".parse().unwrap()));
    hold(&["report@1"]);
    assert_eq!(retire().unwrap_err().code, Code::InUse);
    hold(&["report@2"]);
    assert_eq!(retire(), Ok(Reply::Version("report@1".parse().unwrap())));
    handle.stop();
    driver.join().unwrap();
}

#[test]
fn a_retirement_is_answered_by_what_is_recorded_whatever_becomes_of_the_pages() {
    let folder = tempfile::tempdir().unwrap();
    let (driver, handle) = start(&folder);
    let host = Arc::clone(&driver.ports.host);
    let driver = std::thread::spawn(|| driver.run());
    ["report@1", "report@2", "report@3"].iter().for_each(|version| drop(publish(&handle, version).unwrap()));
    let id = |version: &str| version.parse::<VersionId>().unwrap();
    let retire = |version: &str| ask(&handle, Event::retire(version.parse().unwrap()));
    let state = |version: &str| handle.engine().register().entry(&id(version)).unwrap().version.state;
    let given_up = |version: &str| Ok(Reply::Version(id(version)));
    let happens = |what: LettingGo| *host.letting_go.lock().unwrap() = Some(what);

    // Its pages cannot be let go yet.
    happens(Box::new(|| Err(Problem::new(Code::StorageFull, "no room", ""))));
    assert_eq!(retire("report@2"), given_up("report@2"));
    assert_eq!(state("report@2"), State::Retiring);

    // They are, and that cannot be recorded.
    let (catalogue, aside) = (folder.path().join("catalogue.db"), folder.path().join("aside"));
    let (from, to) = (catalogue.clone(), aside.clone());
    happens(Box::new(move || {
        std::fs::rename(from, to).unwrap();
        Ok(())
    }));
    for _ in 0..2 {
        assert_eq!(retire("report@1"), given_up("report@1"));
        assert_eq!(state("report@1"), State::Retiring);
    }
    // What is on its way already is answered by that, though trying it again cannot be recorded.
    assert_eq!(retire("report@2"), given_up("report@2"));
    // What cannot be recorded at all is refused, and is not done.
    assert_eq!(retire("report@3").unwrap_err().code, Code::Damaged);
    assert_eq!(state("report@3"), State::Ready);

    std::fs::rename(&aside, &catalogue).unwrap();
    ask(&handle, Event::Tick).unwrap();
    assert_eq!(state("report@1"), State::Retired);
    handle.stop();
    driver.join().unwrap();
    let register = Catalogue::open(&catalogue).unwrap().load().unwrap();
    let recorded = |version: &str| register.entry(&id(version)).unwrap().version.state;
    assert_eq!([recorded("report@1"), recorded("report@3")], [State::Retired, State::Ready]);
}

#[test]
fn those_who_publish_what_has_not_changed_at_the_same_time_share_one_commit() {
    let told = published_together(10);
    // Each is told of with the request that it was recorded for.
    assert_eq!(told.len(), 11, "{told:?}");
    assert!(told[0].contains("published report@1 version=report@1 reused=false"), "{told:?}");
    for (nth, line) in told[1..].iter().enumerate() {
        let (request, label) =
            (format!("by{{request=request-{}}}: ", 2 * nth), format!("label=\"label {nth}\""));
        assert!(line.contains(&request) && line.contains(&label) && line.contains("reused=true"), "{told:?}");
    }
}

#[test]
fn of_very_many_who_share_one_commit_one_line_tells() {
    let told = published_together(17);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("published report@1 again, 17 times version=report@1 count=17"), "{told:?}");
}

/// A caller who is told of trouble has it logged with his answer, so the driver logs it only for one who has gone away.
#[test]
fn a_publication_that_fails_is_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
    let engine = Engine::new(Policy { may_demote: false, ..policy() }, catalogue.load().unwrap());
    let (driver, handle) =
        Driver::start(Arc::new(Group::default()), engine, catalogue, Arc::default(), Notices::default())
            .unwrap();
    let log = Log::default();
    let driver = run(driver, &log);
    publish(&handle, "report@1").unwrap();
    publish(&handle, "report@2").unwrap();
    let lines = || {
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        log.matches("the group is full").count()
    };
    let publication = || Event::Publish(Publish::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refused = runtime.block_on(handle.ask(By::asat(), publication()));
    assert_eq!(refused.map_err(|problem| problem.code), Err(Code::StorageFull));
    ask(&handle, Event::Tick).unwrap();
    assert_eq!(lines(), 0);
    // It is sent as it is polled, and nobody waits for the answer.
    assert!(handle.ask(By::asat(), publication()).now_or_never().is_none());
    handle.stop();
    driver.join().unwrap();
    assert_eq!(lines(), 1);
}

/// Publishes what has not changed with so many labels at the same time, each twice; answers what the log says of it.
fn published_together(labels: u64) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (driver, handle) = start(&folder);
    let log = Log::default();
    let driver = run(driver, &log);
    publish(&handle, "report@1").unwrap();

    // Whoever is answered on the driver's thread holds it up.
    let (go_on, held) = channel();
    handle.tell(Event::Tick, move |_| held.recv().unwrap());
    let mut notices = handle.listen();
    let (say, answers) = channel();
    for number in 0..2 * labels {
        let label = Some(format!("label {}", number / 2));
        let attributes = Attributes { label, ..Attributes::default() };
        let say = say.clone();
        let asked = Publish { attributes, unchanged: Some(1), ..Publish::default() };
        let by = By { request: Some(format!("request-{number}")), ..By::asat() };
        let asking =
            handle.ask_and(by, Event::Publish(asked), move |answer| say.send(answer.clone()).unwrap());
        assert!(asking.now_or_never().is_none(), "it is asked, and answered later");
    }
    go_on.send(()).unwrap();
    let answers: Vec<_> = answers.iter().take(2 * usize::try_from(labels).unwrap()).collect();
    let expected =
        (2..labels + 2).flat_map(|number| [Ok(Reply::Published(number)), Ok(Reply::Known(number))]);
    assert_eq!(answers, expected.collect::<Vec<_>>());
    handle.stop();
    driver.join().unwrap();
    let mut commits = Vec::new();
    while let Ok(notice) = notices.try_recv() {
        if let Notice::Changed(changes) = notice {
            let published = changes.iter().filter(|change| matches!(change, Change::Published(_)));
            commits.push(u64::try_from(published.count()).unwrap());
        }
    }
    assert_eq!(commits, [labels]);
    let stores = handle.metrics().stores.all();
    let store = stores.values().next().unwrap();
    let counted = [&store.new, &store.reused, &store.known].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counted, [1, labels, labels]);
    let looked: u64 = store.took.read().buckets.iter().map(|(_, count)| count).sum();
    assert_eq!(looked, 1, "what was not looked into the store for does not hide what was");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| line.contains("published")).map(str::to_owned).collect()
}

#[test]
fn what_the_guard_did_until_the_end_is_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let (driver, handle) = start(&folder);
    let entry = GuardEntry {
        at: asat_host::clock::now(),
        target: "group vg".parse().unwrap(),
        version: None,
        rung: Rung::Extend,
        reason: "it was low".to_owned(),
        outcome: Came::Done,
        took_ms: 7,
    };
    handle.stop();
    handle.log(vec![entry.clone()]);
    driver.run();
    let catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
    assert_eq!(catalogue.guard_log(About::Anything, 9).unwrap(), [entry]);
}

#[test]
fn another_policy_takes_up_what_it_adds_and_leaves_on_record_what_it_drops() {
    let folder = tempfile::tempdir().unwrap();
    let (mut driver, handle) = start(&folder);
    let [report, other]: [StoreName; 2] = ["report", "other"].map(|name| name.parse().unwrap());
    let mut changed = policy();
    let store = changed.stores.remove(&report).unwrap();
    changed.stores.insert(other.clone(), store);
    driver.shell.configure(&mut driver.ports, changed).unwrap();
    {
        let engine = handle.engine();
        assert!(engine.register().history(&report).is_ok() && engine.register().history(&other).is_ok());
        assert_eq!(engine.policy().stores.keys().collect::<Vec<_>>(), [&other]);
    }
    drop(driver);
    // What was taken up is what the next start finds.
    let catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
    assert!(catalogue.load().unwrap().history(&other).is_ok());
}
