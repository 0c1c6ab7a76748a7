//! A campaign of kills: a daemon that publishes, the server that has its bucket, and a daemon that follows it are killed at any moment
//! and started again, and whatever was answered before stays true at all three.
//!
//! `KILLS` says how many kills there are, and `KILLS_FROM` the seed of the first story. A seed chooses what is done, who is killed and when; how far
//! the others have come at that moment is the machine's affair, so a seed that has failed may have to be tried more than once.

mod machines;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::{Answer, PATIENCE, World, tree, try_request};
use crate::crash::bank::Dice;
use asat_archive::{Archive, REMOTE_NOTE};
use machines::{Machine, Machines};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

/// A publisher tries again later and later, up to once a minute.
const LONG: Duration = Duration::from_secs(2 * PATIENCE.as_secs());
/// How many kills a story has at most. The next one begins anew, with the next seed. It has more manifests than pruning keeps.
const STORY: u32 = 250;
/// How many kills lie between two looks at everything.
const LOOK_EVERY: u32 = 5;
/// How many rounds the rows of one stay in the store.
const ROUNDS_KEPT: i64 = 40;

#[test]
fn whoever_is_killed_what_was_answered_stays_true_at_the_publisher_in_the_bucket_and_at_the_follower() {
    let (all, first) = (number("KILLS", 6), number("KILLS_FROM", 1));
    let mut left = all;
    for seed in first.. {
        let kills = left.min(STORY);
        left -= kills;
        println!("replay with KILLS_FROM={seed} KILLS={kills}");
        let began = Instant::now();
        let mut story = Story::new(seed);
        story.play(kills);
        story.retire_and_push();
        story.end();
        let (killed, known) = (story.machines.kills, story.known.len());
        println!("{killed} kills and {known} versions in {:?}", began.elapsed());
        if left == 0 {
            return;
        }
    }
}

fn number(variable: &str, usual: u32) -> u32 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

/// When somebody is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    BeforeThePublication,
    /// While it is on its way, or has just been answered; so long after it was asked for.
    AmidThePublication(Duration),
    AfterTheAnswer,
}

/// What happens in a round.
#[derive(Debug)]
struct Plan {
    victim: Machine,
    moment: Moment,
    /// Whether the answer is to come when the version is in the bucket.
    waits: bool,
    /// The version that is retired.
    retires: Option<String>,
    /// The version that is read at the follower at the same time as the publication.
    reads: Option<String>,
    /// Whether the bucket is pruned at the same time as the publication.
    prunes: bool,
    /// Whether the server is away until the end of the next round.
    stays_away: bool,
    /// Whether it is started again only when both daemons have said that it is away, if it is away.
    is_missed: bool,
    /// The victim is killed again so long after it was started.
    again: Option<Duration>,
    /// Whether the client asks again if it gets no answer.
    asks_again: bool,
}

/// A version, as it was acknowledged.
#[derive(Clone, Debug)]
struct Known {
    label: String,
    fingerprint: String,
    counter: i64,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    /// It was to be retired, and nobody knows what came of it.
    Unclear,
    Retired,
}

/// A version that somebody has open at the follower.
struct Open {
    number: u64,
    lease: String,
    copy: PathBuf,
}

/// An answer that may not come.
type Sent = JoinHandle<io::Result<Answer>>;

struct Story {
    machines: Machines,
    dice: Dice,
    store: Connection,
    round: i64,
    /// By their numbers.
    known: BTreeMap<u64, Known>,
    /// The labels of publications that were not there after their publisher was killed, or were refused.
    never: BTreeSet<String>,
    open: Option<Open>,
}

impl Story {
    fn new(seed: u32) -> Self {
        let machines = Machines::new();
        let store = machines.publisher.sqlite();
        let mode = if seed.is_multiple_of(2) { "wal" } else { "delete" };
        store.pragma_update(None, "journal_mode", mode).unwrap();
        store.execute_batch("create table round (number integer primary key, filler blob)").unwrap();
        let (known, never) = (BTreeMap::new(), BTreeSet::new());
        Self { machines, dice: Dice(seed.into()), store, round: 0, known, never, open: None }
    }

    fn play(&mut self, kills: u32) {
        self.machines.start(Machine::Publisher);
        self.machines.start(Machine::Follower);
        let mut looked_at = 0;
        while self.machines.kills < kills {
            self.play_round();
            if self.machines.kills - looked_at >= LOOK_EVERY && !self.machines.is_away {
                self.look_at_everything();
                looked_at = self.machines.kills;
            }
        }
        if self.machines.is_away {
            self.machines.start(Machine::Server);
        }
        self.look_at_everything();
    }

    fn plan(&mut self) -> Plan {
        let was_away = self.machines.is_away;
        let victim = match self.dice.below(if was_away { 2 } else { 3 }) {
            0 => Machine::Publisher,
            1 => Machine::Follower,
            _ => Machine::Server,
        };
        // Most happens soon.
        let mut soon = |most: i64| {
            let most = 1000 << self.dice.below(most);
            let micros = self.dice.below(most);
            Duration::from_micros(micros.try_into().unwrap())
        };
        let (amid, again) = (soon(9), soon(10));
        let moment = match self.dice.below(4) {
            0 => Moment::BeforeThePublication,
            1 => Moment::AfterTheAnswer,
            _ => Moment::AmidThePublication(amid),
        };
        let stays_away = victim == Machine::Server && self.dice.below(3) == 0;
        let waits = self.dice.below(2) == 0 && !was_away && !stays_away;
        let is_one_of = |dice: &mut Dice, often: i64| dice.below(often) == 0;
        let retires = is_one_of(&mut self.dice, 3).then(|| self.any_but_the_newest()).flatten();
        Plan {
            victim,
            moment,
            waits,
            retires: retires.filter(|version| self.is_stored(version)),
            reads: is_one_of(&mut self.dice, 2).then(|| self.any_but_the_newest()).flatten(),
            prunes: is_one_of(&mut self.dice, 4),
            stays_away,
            is_missed: is_one_of(&mut self.dice, 2),
            again: is_one_of(&mut self.dice, 4).then_some(again),
            asks_again: is_one_of(&mut self.dice, 2),
        }
    }

    /// Some version that was not retired.
    fn any_but_the_newest(&mut self) -> Option<String> {
        let kept = self.known.iter().filter(|(_, known)| known.fate == Fate::Kept);
        let kept: Vec<u64> = kept.map(|(number, _)| *number).collect();
        let nth = self.dice.below(kept.len().saturating_sub(1).max(1).try_into().unwrap());
        kept.get(usize::try_from(nth).unwrap()).filter(|_| kept.len() > 1).map(|number| id(*number))
    }

    /// Whether the publisher knows that a version is in the bucket. Only then may it be retired.
    fn is_stored(&self, version: &str) -> bool {
        self.machines.publisher.get(&format!("/versions/{version}")).json()["remote"] == "stored"
    }

    fn play_round(&mut self) {
        let (plan, was_away) = (self.plan(), self.machines.is_away);
        self.change();
        println!("round {}, after {} kills: {plan:?}", self.round, self.machines.kills);
        match plan.moment {
            Moment::BeforeThePublication => {
                self.machines.kill(plan.victim);
                self.start_again(&plan);
                let answer = self.ask_to_publish(plan.waits).join().unwrap();
                self.published(&answer.unwrap(), 201, plan.waits);
                // The publisher may not know yet what is in the bucket.
                self.retire(plan.retires.filter(|_| plan.victim != Machine::Publisher));
            }
            Moment::AfterTheAnswer => {
                let answer = self.ask_to_publish(plan.waits).join().unwrap();
                let number = self.published(&answer.unwrap(), 201, plan.waits);
                self.retire(plan.retires.clone());
                self.machines.kill(plan.victim);
                if plan.waits && plan.victim == Machine::Publisher {
                    // It has it from the bucket, or from nowhere.
                    self.until_followed(number);
                }
                self.start_again(&plan);
            }
            Moment::AmidThePublication(after) => self.kill_amid(&plan, after),
        }
        if was_away {
            if plan.is_missed {
                self.until_missed();
            }
            self.machines.start(Machine::Server);
        }
        self.glance();
    }

    fn kill_amid(&mut self, plan: &Plan, after: Duration) {
        let was_away = self.machines.is_away;
        let published = self.ask_to_publish(plan.waits);
        let retires = plan.retires.clone();
        let retired = retires.as_ref().map(|version| self.ask_to_retire(version));
        let read = plan.reads.as_ref().map(|version| {
            ask(self.machines.follower.socket(), "GET", format!("/versions/{version}/database"), None, "")
        });
        let pruned = plan.prunes.then(|| self.machines.prune());
        // Not a wait for anything: a moment of death that the seed has chosen.
        thread::sleep(after);
        self.machines.kill(plan.victim);
        self.start_again(plan);
        let has_lost = plan.victim == Machine::Publisher;
        match published.join().unwrap() {
            Ok(answer) => _ = self.published(&answer, 201, plan.waits),
            Err(error) if !has_lost => panic!("{error}"),
            Err(_) if plan.asks_again => {
                let again = self.ask_to_publish(plan.waits).join().unwrap().unwrap();
                self.published(&again, 201, plan.waits);
            }
            Err(_) => self.find_out(),
        }
        if let (Some(version), Some(retired)) = (retires, retired) {
            let fate = match retired.join().unwrap() {
                Ok(answer) if answer.status == 200 => Fate::Retired,
                // It has come to the one that was started again, which does not know yet what is in the bucket.
                Ok(answer) if has_lost && answer.json()["code"] == "in_use" => Fate::Kept,
                Ok(answer) => panic!("{version}: {answer}"),
                Err(error) => {
                    assert!(has_lost, "{version}: {error}");
                    Fate::Unclear
                }
            };
            self.known.get_mut(&number_of(&version)).unwrap().fate = fate;
        }
        if let (Some(version), Some(read)) = (&plan.reads, read) {
            match read.join().unwrap() {
                Ok(answer) => self.must_be_right_or_away(version, &answer),
                // An answer that has begun can only break off.
                Err(error) => assert!(was_away || plan.victim != Machine::Publisher, "{version}: {error}"),
            }
        }
        if let Some(pruned) = pruned {
            let pruned = pruned.wait_with_output().unwrap();
            let may_fail = was_away || plan.victim == Machine::Server;
            assert!(may_fail || pruned.status.success(), "{pruned:?}");
        }
    }

    /// Starts the victim again, which may be killed once more on its way.
    fn start_again(&mut self, plan: &Plan) {
        if plan.stays_away {
            return;
        }
        if let Some(after) = plan.again {
            self.machines.start_and_kill(plan.victim, after);
        }
        self.machines.start(plan.victim);
    }

    /// Commits something that says which round it is.
    fn change(&mut self) {
        self.round += 1;
        let bytes = match self.dice.below(16) {
            // More than is sent at once, now and then.
            0 => 1_000_000 + self.dice.below(3_000_000),
            _ => self.dice.below(20_000),
        };
        let touched = self.dice.below(ROUNDS_KEPT);
        let transaction = self.store.transaction().unwrap();
        let change = |text: &str, values: [i64; 2]| transaction.execute(text, values).unwrap();
        change("insert into round values (?1, randomblob(?2))", [self.round, bytes]);
        change(
            "update round set filler = randomblob(length(filler)) where number = ?1 - ?2",
            [self.round, touched],
        );
        change("delete from round where number <= ?1 - ?2", [self.round, ROUNDS_KEPT]);
        transaction.commit().unwrap();
    }

    /// Asks for a publication; the request can be repeated.
    fn ask_to_publish(&self, waits: bool) -> Sent {
        let label = self.label();
        let wait = if waits { json!("remote") } else { Value::Null };
        let body = json!({ "label": label, "certified_by": "ann", "wait": wait }).to_string();
        ask(self.machines.publisher.socket(), "POST", "/snapshots".to_owned(), Some(label), &body)
    }

    fn ask_to_retire(&self, version: &str) -> Sent {
        ask(self.machines.publisher.socket(), "DELETE", format!("/versions/{version}"), None, "")
    }

    /// What is said of this round's publication.
    fn label(&self) -> String {
        format!("round-{}", self.round)
    }

    /// Takes note of a publication that was acknowledged; answers the version's number.
    fn published(&mut self, answer: &Answer, status: u16, waits: bool) -> u64 {
        assert_eq!(answer.status, status, "{answer}");
        let version = &answer.json()["version"];
        assert!(!waits || version["remote"] == "stored", "{answer}");
        self.note(version)
    }

    fn note(&mut self, version: &Value) -> u64 {
        assert_eq!(version["state"], "ready", "{version}");
        let known = Known {
            label: self.label(),
            fingerprint: version["fingerprint"].as_str().unwrap().to_owned(),
            counter: self.round,
            fate: Fate::Kept,
        };
        assert_eq!(version["publications"][0]["label"], *known.label, "{version}");
        let number = version["number"].as_u64().unwrap();
        let before = self.known.insert(number, known);
        assert!(before.is_none(), "{version} has taken the place of {before:?}");
        number
    }

    /// Finds out what came of a publication whose publisher was killed and that is not asked for again.
    fn find_out(&mut self) {
        let path = format!("/versions?state=any&label={}", self.label());
        let found = self.machines.publisher.get(&path).json();
        match found["versions"].as_array().unwrap().as_slice() {
            [] => _ = self.never.insert(self.label()),
            [version] => _ = self.note(version),
            more => panic!("{} was published more than once: {more:#?}", self.label()),
        }
    }

    fn retire(&mut self, version: Option<String>) {
        let Some(version) = version else { return };
        let answer = self.ask_to_retire(&version).join().unwrap().unwrap();
        assert_eq!(answer.status, 200, "{version}: {answer}");
        self.known.get_mut(&number_of(&version)).unwrap().fate = Fate::Retired;
    }

    /// What somebody gets who reads a version at the follower while anything may be killed.
    fn must_be_right_or_away(&self, version: &str, answer: &Answer) {
        if answer.status == 200 {
            return self.must_be_right(version, &answer.body);
        }
        let code = answer.json()["code"].clone();
        match code.as_str().unwrap() {
            // What it does not know may be on its way.
            "unknown_store" | "unknown_version" | "remote_unavailable" => {}
            "retired" => assert_ne!(self.known[&number_of(version)].fate, Fate::Kept, "{version}: {answer}"),
            _ => panic!("{version}: {answer}"),
        }
    }

    /// Sees that the content of a version is what was published.
    fn must_be_right(&self, version: &str, content: &[u8]) {
        let path = self.machines.publisher.path("read.db");
        std::fs::write(&path, content).unwrap();
        assert_eq!(counter(&path), self.known[&number_of(version)].counter, "{version}");
    }

    /// Waits until the follower has a version, as it was acknowledged.
    fn until_followed(&self, number: u64) {
        let path = format!("/versions/{}", id(number));
        until(|| {
            let answer = self.machines.follower.get(&path);
            let is_there = answer.status == 200 && answer.json()["state"] == "ready";
            if is_there { Ok(()) } else { Err(answer.to_string()) }
        });
        let found = self.machines.follower.get(&path).json();
        assert_eq!(found["fingerprint"], *self.known[&number].fingerprint, "{found}");
    }

    /// Waits until both daemons say that the server is away.
    fn until_missed(&self) {
        let Machines { publisher, follower, .. } = &self.machines;
        let until_said = |world: &World, how: &str| {
            let trouble = until(|| {
                let standing = standing(world, how);
                let trouble = &standing["trouble"];
                if trouble.is_null() { Err(standing.to_string()) } else { Ok(trouble.clone()) }
            });
            assert_eq!(trouble["code"], "remote_unavailable", "{trouble}");
        };
        until_said(publisher, "remote");
        // As long as it has seen no store, there is none of which it could say so.
        if !standing(follower, "followed").is_null() {
            until_said(follower, "followed");
        }
    }

    /// Sees that nothing is said at the publisher or at the follower that is not so, whatever they do not know yet.
    fn glance(&self) {
        for world in [&self.machines.publisher, &self.machines.follower] {
            let listed = world.get("/versions?state=any&limit=1000").json();
            for version in listed["versions"].as_array().unwrap() {
                let known = self.known.get(&version["number"].as_u64().unwrap());
                let is_so = match (version["state"].as_str().unwrap(), known) {
                    ("ready", Some(known)) => version["fingerprint"] == *known.fingerprint,
                    ("retiring" | "retired", Some(known)) => known.fate != Fate::Kept,
                    ("failed", None) => true,
                    _ => false,
                };
                assert!(is_so, "it was {known:?}, and is {version}");
            }
        }
    }

    /// All three run. What was answered must be true at the publisher, and come to be at the follower.
    fn look_at_everything(&mut self) {
        self.until_stored();
        self.close();
        // What was given up comes into the bucket and to the follower with the next publication.
        self.change();
        let answer = self.ask_to_publish(true).join().unwrap().unwrap();
        self.published(&answer, 201, true);
        let readable = self.look_at_the_publisher();
        self.until_as_readable(&readable);
        self.read_some(&readable);
    }

    /// Waits until the follower lists the versions that the publisher has.
    fn until_as_readable(&self, readable: &Said) {
        let follower = &self.machines.follower;
        until(|| {
            let listed = said(&follower.get("/versions?limit=1000").json());
            let standing = standing(follower, "followed");
            let is_it = standing["trouble"].is_null() && listed == *readable;
            let what = || format!("the follower has {listed:?} and not {readable:?}: {standing}");
            if is_it { Ok(()) } else { Err(what()) }
        });
    }

    /// Retires a version that is in the bucket. That comes there, and to the follower, if somebody asks for it, without a publication.
    fn retire_and_push(&mut self) {
        self.close();
        let oldest = self.kept().into_iter().map(id).next();
        self.retire(oldest);
        let pushed = self.machines.publisher.send("POST", "/stores/report/remote/push", &json!({}));
        assert_eq!(pushed.status, 200, "{pushed}");
        let readable = self.look_at_the_publisher();
        self.until_as_readable(&readable);
    }

    /// Opens a version at the follower until everything is looked at again.
    fn open(&mut self, number: u64) {
        let follower = &self.machines.follower;
        let mounts = format!("/versions/{}/mounts", id(number));
        let opened = follower.send("POST", &mounts, &json!({ "holder": "ann" }));
        assert_eq!(opened.status, 201, "{opened}");
        let opened = opened.json();
        let [lease, copy] = ["lease", "path"].map(|part| opened[part].as_str().unwrap());
        self.open = Some(Open { number, lease: lease.to_owned(), copy: PathBuf::from(copy) });
    }

    /// Closes the version that is open, which is what it was whatever has happened since.
    fn close(&mut self) {
        let follower = &self.machines.follower;
        let leases = follower.get("/leases").json();
        let leased = leases["leases"].as_array().unwrap().iter().map(|lease| lease["lease"].as_str());
        let expected = self.open.iter().map(|open| Some(open.lease.as_str()));
        assert!(leased.eq(expected), "{leases}");
        let Some(Open { number, lease, copy }) = self.open.take() else { return };
        assert_eq!(counter(&copy), self.known[&number].counter);
        let path = format!("/versions/{}/mounts/{lease}", id(number));
        assert_eq!(follower.request("DELETE", &path, &[], b"").status, 204);
    }

    /// Waits until the publisher has nothing that is not in the bucket.
    fn until_stored(&self) {
        until(|| {
            let standing = standing(&self.machines.publisher, "remote");
            let is_stored = standing["state"] == "stored" && standing["trouble"].is_null();
            if is_stored { Ok(()) } else { Err(standing.to_string()) }
        });
    }

    /// Sees that the publisher has each version as it was acknowledged, and no other; answers those that can be read.
    fn look_at_the_publisher(&mut self) -> Said {
        let listed = until(|| {
            let listed = self.machines.publisher.get("/versions?state=any&limit=1000").json();
            let unsettled =
                |version: &Value| ["cutting", "retiring"].contains(&version["state"].as_str().unwrap());
            let is_unsettled = listed["versions"].as_array().unwrap().iter().any(unsettled);
            if is_unsettled { Err(listed.to_string()) } else { Ok(listed) }
        });
        assert_eq!(listed["next_cursor"], Value::Null);
        let listed = listed["versions"].as_array().unwrap();
        let mut found = BTreeSet::new();
        for version in listed.iter().filter(|version| version["state"] != "failed") {
            let number = version["number"].as_u64().unwrap();
            let known = self.known.get_mut(&number);
            let known = known.unwrap_or_else(|| panic!("nobody has published {version}"));
            known.fate = match (version["state"].as_str().unwrap(), known.fate) {
                ("ready", Fate::Kept | Fate::Unclear) => Fate::Kept,
                ("retired", Fate::Retired | Fate::Unclear) => Fate::Retired,
                _ => panic!("it was {known:?}, and is {version}"),
            };
            assert_eq!(version["fingerprint"], *known.fingerprint, "{version}");
            assert_eq!(version["publications"][0]["label"], *known.label, "{version}");
            assert!(!self.never.contains(&known.label), "it was not there before: {version}");
            found.insert(number);
        }
        let lost: Vec<_> = self.known.iter().filter(|(number, _)| !found.contains(*number)).collect();
        assert!(lost.is_empty(), "the publisher does not list {lost:?}");
        said(&self.machines.publisher.get("/versions?limit=1000").json())
    }

    /// Reads some versions here and there.
    fn read_some(&mut self, readable: &Said) {
        let Machines { publisher, follower, .. } = &self.machines;
        for _ in 0..2 {
            let nth = usize::try_from(self.dice.below(readable.len().try_into().unwrap())).unwrap();
            let version = readable.keys().nth(nth).unwrap();
            let path = format!("/versions/{version}/database");
            let (there, here) = (publisher.get(&path), follower.get(&path));
            assert_eq!((there.status, here.status), (200, 200), "{version}: {there} {here}");
            assert!(there.body == here.body, "{version} is not the same here and there");
            self.must_be_right(version, &here.body);
        }
        let retired = self.known.iter().find(|(_, known)| known.fate == Fate::Retired);
        if let Some((number, _)) = retired {
            let path = format!("/versions/{}/database", id(*number));
            publisher.get(&path).expect_problem(410, "retired");
        }
        let nth = usize::try_from(self.dice.below(readable.len().try_into().unwrap())).unwrap();
        self.open(number_of(readable.keys().nth(nth).unwrap()));
    }

    /// Sees that nothing in the bucket is damaged or missing, and that it restores what the publisher has.
    fn look_at_the_bucket(&self) {
        let verified = self.machines.remote(&["verify", "--read"]);
        let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
        assert!(verified.status.success() && report["findings"] == json!([]), "{verified:?}");
        let to = self.machines.publisher.path("back");
        let restored = self.machines.remote(&["restore", "report", "--to", to.to_str().unwrap()]);
        assert!(restored.status.success(), "{restored:?}");
        assert_eq!(live_in(to), self.kept());
    }

    /// Ends the daemons, and sees that they have left nothing behind and that nothing in them has broken.
    fn end(&mut self) {
        self.look_at_the_bucket();
        for machine in [Machine::Follower, Machine::Publisher] {
            let log = self.machines.stop(machine);
            let is_defect = |line: &&str| line.contains("panic") || line.contains("report this as a defect");
            let defects: Vec<&str> = log.lines().filter(is_defect).collect();
            assert!(defects.is_empty(), "{machine:?} has said: {defects:#?}");
        }
        let archive = self.machines.publisher.path("state/archive/report");
        for (path, _) in tree(&archive) {
            let is_known =
                path.ends_with(REMOTE_NOTE) || path.extension().is_some_and(|ext| ext == "segment");
            assert!(is_known, "{} was left", path.display());
        }
        assert_eq!(live_in(archive), self.kept());
        let cached = tree(&self.machines.follower.path("state/cache"));
        assert!(cached.is_empty(), "the cache is not empty: {cached:?}");
    }

    /// The numbers of the versions that were not retired.
    fn kept(&self) -> Vec<u64> {
        let kept = self.known.iter().filter(|(_, known)| known.fate == Fate::Kept);
        kept.map(|(number, _)| *number).collect()
    }
}

/// Sends a request on its way.
fn ask(socket: PathBuf, method: &'static str, path: String, key: Option<String>, body: &str) -> Sent {
    let body = body.to_owned();
    thread::spawn(move || {
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(key.as_deref().map(|key| ("Idempotency-Key", key)));
        try_request(&socket, method, &path, &headers, body.as_bytes())
    })
}

/// How a daemon's store stands to the bucket.
fn standing(world: &World, how: &str) -> Value {
    world.get("/stores").json()["stores"][0][how].clone()
}

/// What a list says of each version: its state, its fingerprint, and what was said when it was published.
type Said = BTreeMap<String, (Value, Value, Value)>;

fn said(list: &Value) -> Said {
    let of = |version: &Value| {
        let said = (
            version["state"].clone(),
            version["fingerprint"].clone(),
            version["publications"][0]["label"].clone(),
        );
        (version["id"].as_str().unwrap().to_owned(), said)
    };
    list["versions"].as_array().unwrap().iter().map(of).collect()
}

fn id(number: u64) -> String {
    format!("report@{number}")
}

fn number_of(version: &str) -> u64 {
    version.split_once('@').unwrap().1.parse().unwrap()
}

/// Which round a copy of the store is of. It must be sound.
fn counter(copy: &PathBuf) -> i64 {
    let copy = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let whole: String = copy.query_row("pragma integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    copy.query_row("select max(number) from round", (), |row| row.get(0)).unwrap()
}

/// The versions that can be read in an archive that nobody has open.
fn live_in(archive: PathBuf) -> Vec<u64> {
    let (archive, _) = Archive::open(&archive).unwrap();
    assert_eq!(archive.unread().len(), 0);
    archive.live()
}

fn until<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(seen) => assert!(Instant::now() < deadline, "{seen}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}
