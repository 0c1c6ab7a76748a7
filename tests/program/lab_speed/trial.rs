//! Publications beside a writer, and what every version must be.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::lab_speed::replay::{self, Replay};
use crate::lab_speed::writer::Writer;
use crate::lab_store::ground::{Ground, is_archived};
use crate::lab_store::ledger;

/// How many publications are made before their versions are checked.
const BATCH: u32 = 5;
/// One of so many publications is made while the writer rests.
const PAUSED: u32 = 8;

pub struct Trial<'g, 'm> {
    ground: &'g Ground<'m>,
    writer: Option<Writer>,
    replay: Replay,
    journal: &'static str,
    pause: Duration,
    read: Vec<Read>,
    told: Told,
}

/// A version that was read in its snapshot, and is to be found in the archive.
struct Read {
    published: Value,
    /// Which transaction was its last.
    seq: u64,
    pages: Vec<u8>,
}

/// What the publications in one journal mode were like.
#[derive(Default)]
struct Told {
    holds: BTreeMap<String, u32>,
    blocked: Vec<f64>,
    snapshot: Vec<f64>,
    elapsed: Vec<f64>,
    rested: u32,
    longest: Duration,
}

impl<'g, 'm> Trial<'g, 'm> {
    /// Makes the store, and starts the daemon and the writer.
    pub fn begin(ground: &'g mut Ground<'m>, journal: &'static str) -> Self {
        drop(ledger::create(&ground.world.store(), journal));
        let log = ground.world.start();
        assert!(log.contains("cut by snapshots"), "{log}");
        let replay = Replay::new(&ground.world.path("replay.db"), journal);
        let mut trial = Self {
            ground,
            writer: None,
            replay,
            journal,
            pause: Duration::ZERO,
            read: Vec::new(),
            told: Told::default(),
        };
        trial.start_writer();
        trial
    }

    /// Has the application change the store's journal mode, as it can while nobody else has the store open.
    pub fn change_journal(&mut self, journal: &'static str) {
        self.stop_writer();
        let store = ledger::connect(&self.ground.world.store());
        drop(self.replay.pages_at(ledger::seq(&store)));
        ledger::set_journal(&store, journal);
        self.replay.set_journal(journal);
        self.journal = journal;
        drop(store);
        self.start_writer();
    }

    /// Has the writer pause after each transaction from now on.
    pub fn slow_down(&mut self, pause: Duration) {
        self.stop_writer();
        self.pause = pause;
        self.start_writer();
    }

    /// Ends the writer.
    pub fn end(mut self) {
        self.stop_writer();
    }

    /// Publishes so many times: a few times in a row, then all of these are checked while the writer rests.
    pub fn publish(&mut self, times: u32) {
        let (mut seconds, mut transactions) = (0.0, 0);
        for nth in 1..=times {
            let (began, before) = (Instant::now(), self.writer().committed());
            self.writer().wait_for_another();
            self.publish_once(nth.is_multiple_of(PAUSED));
            if nth.is_multiple_of(BATCH) || nth == times {
                self.ground.settled(1);
            }
            seconds += began.elapsed().as_secs_f64();
            transactions += self.writer().committed() - before;
            if nth.is_multiple_of(BATCH) || nth == times {
                self.writer().order_rest();
                self.check();
                self.writer().order_on();
            }
        }
        let (backend, told) = (self.ground.kind.backend(), std::mem::take(&mut self.told));
        let (journal, pause) = (self.journal, self.pause);
        println!(
            "{backend} {journal}, pauses of {pause:?}: {told}; {transactions} transactions in {seconds:.1} s"
        );
    }

    fn publish_once(&mut self, resting: bool) {
        let writer = self.writer.as_ref().unwrap();
        // While the writer rests, what is certified is known to the last byte from the store itself.
        let expected = resting.then(|| {
            writer.order_rest();
            in_rollback_mode(replay::pages(&ledger::connect(&self.ground.world.store())))
        });
        let acknowledged = writer.committed();
        let answer = self.ground.world.send("POST", "/snapshots", &json!({}));
        let begun = writer.begun();
        assert_eq!(answer.status, 201, "{answer}");
        if resting {
            writer.order_on();
        }
        let published = answer.json();
        let (seq, pages) = self.read_in_the_snapshot(&published);
        assert!(
            (acknowledged..=begun).contains(&seq),
            "it is the state after transaction {seq}; {acknowledged} was committed before the request, and {begun} was \
             the last one begun before the answer\n{published:#}"
        );
        assert!(expected.is_none_or(|expected| expected == pages), "it has other pages\n{published:#}");
        self.told.note(&published, resting, self.writer().longest());
        self.read.push(Read { published, seq, pages });
    }

    /// Opens the version at once, while it is in its snapshot; answers which transaction was its last, and its bytes.
    fn read_in_the_snapshot(&self, published: &Value) -> (u64, Vec<u8>) {
        let world = &self.ground.world;
        let version = format!("/versions/{}", published["version"]["id"].as_str().unwrap());
        let mounts = format!("{version}/mounts");
        let lease = world.send("POST", &mounts, &json!({ "holder": "reader" }));
        assert_eq!(lease.status, 201, "{lease}");
        let lease = lease.json();
        let path = Path::new(lease["path"].as_str().unwrap());
        // A state that is in the WAL too is no file that can be shown.
        let with_wal = self.journal == "wal" && published["hold"] == "snapshot";
        let why = || world.get(&format!("{version}/why"));
        assert_eq!(path.starts_with(world.path("mnt")), !with_wal, "{lease}\n{published:#}\n{}", why());
        let copy = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let found = (ledger::seq(&copy), std::fs::read(path).unwrap());
        drop(copy);
        let closed = format!("{mounts}/{}", lease["lease"].as_str().unwrap());
        assert_eq!(world.request("DELETE", &closed, &[], b"").status, 204);
        found
    }

    /// Every version is the state after its last transaction, to the last page, and has the same bytes in the archive.
    fn check(&mut self) {
        let world = &self.ground.world;
        for Read { published, seq, pages } in self.read.drain(..) {
            let id = published["version"]["id"].as_str().unwrap();
            let version = world.get(&format!("/versions/{id}")).json();
            assert!(version["state"] == "ready" && is_archived(&version), "{version:#}");
            let found = world.get(&format!("/versions/{id}/database"));
            assert!(found.body == pages, "{id} has other bytes in the archive than in its snapshot");
            let copy = world.path("audited.db");
            std::fs::write(&copy, &pages).unwrap();
            assert_eq!(ledger::audit(&copy), seq);
            let replayed = replay::content(self.replay.pages_at(seq));
            if let Some(page) = first_difference(&replay::content(pages), &replayed) {
                panic!("page {page} of {id} is not as transaction {seq} leaves it\n{published:#}");
            }
        }
        let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], true, "{verified}");
    }

    fn writer(&self) -> &Writer {
        self.writer.as_ref().unwrap()
    }

    fn start_writer(&mut self) {
        let world = &self.ground.world;
        self.writer = Some(Writer::start(&world.store(), &world.path("board"), self.pause));
    }

    fn stop_writer(&mut self) {
        self.writer.take().unwrap().stop();
    }
}

impl Told {
    fn note(&mut self, published: &Value, resting: bool, longest: Duration) {
        *self.holds.entry(published["hold"].as_str().unwrap().to_owned()).or_default() += 1;
        self.blocked.push(published["writer_blocked_ms"].as_f64().unwrap());
        self.snapshot.push(published["snapshot_ms"].as_f64().unwrap());
        self.elapsed.push(published["elapsed_ms"].as_f64().unwrap());
        self.rested += u32::from(resting);
        self.longest = self.longest.max(longest);
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spread = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
            format!("{:.1} / {:.1} / {:.1}", at(0.5), at(0.9), at(1.0))
        };
        let Self { holds, blocked, snapshot, elapsed, rested, longest } = self;
        write!(f, "{} publications ({rested} while it rested) by hold {holds:?}; ", blocked.len())?;
        let [blocked, snapshot, elapsed] = [blocked, snapshot, elapsed].map(|values| spread(values));
        write!(
            f,
            "ms at the median, 90 % and most: writer blocked {blocked}, lvcreate {snapshot}, publishing {elapsed}; "
        )?;
        write!(f, "the writer's longest transaction {longest:?}")
    }
}

/// The pages as a version has them.
fn in_rollback_mode(mut pages: Vec<u8>) -> Vec<u8> {
    pages[18..20].fill(1);
    pages
}

/// The number of the first page in which two databases differ.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    let size = usize::from(u16::from_be_bytes([other[16], other[17]]));
    let differs = one.chunks(size).zip(other.chunks(size)).position(|(one, other)| one != other);
    let shorter = one.len().min(other.len()) / size;
    differs.or((one.len() != other.len()).then_some(shorter)).map(|index| index + 1)
}
