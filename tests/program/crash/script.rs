//! The script that is interrupted everywhere, and the ledger of what was acknowledged before the interruption.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::bank::{Dice, content};
use crate::common::{Answer, Running, World, kept_in, tree, try_request};

/// One thing that a client or the store's application does. Versions are meant by the label of their
/// publication: after a crash their numbers may be others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The application rewrites these rows, each on a page of its own.
    Write(u32, u32),
    /// Publishes under this label, and with a key made of it.
    Publish(&'static str),
    Open(&'static str),
    Close(&'static str),
    Retire(&'static str),
}
use Step::{Close, Open, Publish, Retire, Write};

/// Each kind of effect at least once: a new version, one that is reused, a copy that is made, used again and
/// evicted, retirement of a middle version and of the newest one, compaction, and retention.
pub const SCRIPT: &[Step] = &[
    Publish("first"),
    Write(0, 16),
    Publish("second"),
    Publish("second again"),
    Write(0, 16),
    Publish("third"),
    Write(4, 20),
    Publish("fourth"),
    Open("first"),
    Close("first"),
    Open("third"), // There is room for one copy, so that of the first version goes.
    Retire("second"),
    Write(4, 17),
    Publish("fifth"),
    Retire("fourth"), // Little of it is still needed: compaction follows.
    Write(0, 24),
    Publish("sixth"),
    Retire("sixth"),    // The newest.
    Publish("seventh"), // With exactly the content of the retired one.
    Write(2, 3),
    Publish("eighth"), // The fifth live version, and four are kept: the first one goes.
    Close("third"),
    Open("eighth"),
];

/// How many versions the retention keeps.
const KEPT: usize = 4;

/// The script on a world of its own.
pub struct Run {
    pub world: World,
    journal_mode: &'static str,
    next: usize,
    writes: u32,
    /// The store as it was when each publication was asked for, by label, whether it was acknowledged or not.
    asked: Vec<(&'static str, Vec<u8>)>,
    /// The version of each acknowledged publication.
    acknowledged: BTreeMap<&'static str, String>,
    /// The versions whose retirement was acknowledged.
    given_up: BTreeSet<String>,
    leases: BTreeMap<&'static str, (String, PathBuf)>,
}

/// A request that got no answer: the daemon died before it, amid it, or just after it.
#[derive(Debug)]
pub struct Died;

impl Run {
    pub fn new(journal_mode: &'static str) -> Self {
        let mut world = World::new();
        "[copies]\nmax_size = \"200 KB\"".clone_into(&mut world.config);
        world.store_config = format!("retention = {{ keep = \"the last {KEPT}\" }}");
        let (asked, acknowledged, given_up, leases) = Default::default();
        let mut run = Self { world, journal_mode, next: 0, writes: 0, asked, acknowledged, given_up, leases };
        run.write(0, 24);
        run
    }

    /// The daemon dies by itself at its n-th boundary; at none, where there is no n.
    pub fn start(&mut self, crash_at: Option<u32>) -> Result<(), Died> {
        self.world.env = crash_at.map(|n| ("ASAT_CRASH_AT".to_owned(), n.to_string())).into_iter().collect();
        let mut running = self.world.spawn();
        match running.wait_for("ready") {
            Ok(_) => {
                self.world.daemon = Some(running);
                Ok(())
            }
            Err(log) => {
                assert!(crash_at.is_some() && log.contains(KILLED), "the daemon did not start:\n{log}");
                running.exit();
                Err(Died)
            }
        }
    }

    /// Goes on with the script until its end or the daemon's.
    pub fn play(&mut self) -> Result<(), Died> {
        while let Some(&step) = SCRIPT.get(self.next) {
            self.perform(step)?;
            self.next += 1;
        }
        Ok(())
    }

    /// The step that was interrupted.
    pub fn interrupted(&self) -> Option<Step> {
        SCRIPT.get(self.next).copied()
    }

    fn perform(&mut self, step: Step) -> Result<(), Died> {
        match step {
            Write(from, to) => self.write(from, to),
            Publish(label) => self.publish(label)?,
            Open(label) => {
                let path = format!("/versions/{}/mounts", self.acknowledged[label]);
                let answer = self.ask("POST", &path, Some(json!({ "holder": "script" })), &[])?;
                assert_eq!(answer.status, 201, "{step:?}: {answer}");
                let lease = answer.json();
                let text = |key: &str| lease[key].as_str().unwrap().to_owned();
                self.leases.insert(label, (text("lease"), text("path").into()));
            }
            Close(label) => {
                let path = format!("/versions/{}/mounts/{}", self.acknowledged[label], self.leases[label].0);
                let answer = self.ask("DELETE", &path, None, &[])?;
                // It may have been closed by the request that got no answer.
                assert!([204, 404].contains(&answer.status), "{step:?}: {answer}");
                self.leases.remove(label);
            }
            Retire(label) => {
                let path = format!("/versions/{}", self.acknowledged[label]);
                let answer = self.ask("DELETE", &path, None, &[])?;
                assert_eq!(answer.status, 200, "{step:?}: {answer}");
                self.given_up.insert(self.acknowledged[label].clone());
            }
        }
        Ok(())
    }

    fn publish(&mut self, label: &'static str) -> Result<(), Died> {
        if self.asked.last().is_none_or(|(last, _)| *last != label) {
            self.asked.push((label, content(&self.world.store())));
        }
        let key = format!("key of {label}");
        let answer =
            self.ask("POST", "/snapshots", Some(json!({ "label": label })), &[("Idempotency-Key", &key)])?;
        let expected = if label.ends_with("again") { 200 } else { 201 };
        assert_eq!(answer.status, expected, "{label}: {answer}");
        let version = answer.json()["version"]["id"].as_str().unwrap().to_owned();
        self.acknowledged.insert(label, version);
        Ok(())
    }

    /// A request; where it gets no answer, the daemon must have been killed by the test and by nothing else.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Result<Answer, Died> {
        let mut headers = headers.to_vec();
        headers.extend(body.as_ref().map(|_| ("Content-Type", "application/json")));
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let answer = try_request(&self.world.socket(), method, path, &headers, body.as_bytes());
        answer.map_err(|error| {
            let mut running = self.world.daemon.take().unwrap();
            died(&mut running).unwrap_or_else(|log| panic!("{method} {path}: {error}\n{log}"))
        })
    }

    /// Checks everything that was promised before the interruption, on a daemon that has recovered.
    pub fn check_promises(&self) {
        let let_go = self.let_go();
        let retiring = match self.interrupted() {
            Some(Retire(label)) => self.acknowledged.get(label),
            _ => None,
        };
        for (label, version) in &self.acknowledged {
            let found = self.world.get(&format!("/versions/{version}/database"));
            if self.given_up.contains(version) {
                found.expect_problem(410, "retired");
                continue;
            }
            if found.status != 200 {
                assert!(retiring == Some(version) || let_go.contains(version), "{label} is gone: {found}");
                found.expect_problem(410, "retired");
                continue;
            }
            assert!(found.body == *self.content_of(label), "{label} ({version}) has other content");
            let shown = self.world.get(&format!("/versions/{version}")).json();
            assert!(labels(&shown).any(|other| other == *label), "{label} is not among {shown}");
        }
        for (label, (lease, path)) in &self.leases {
            if self.interrupted() != Some(Close(label)) {
                assert!(
                    std::fs::read(path).unwrap() == *self.content_of(label),
                    "the copy of {label} is other"
                );
                let renewed = format!("/versions/{}/mounts/{lease}", self.acknowledged[label]);
                assert_eq!(self.world.send("PUT", &renewed, &json!({})).status, 200, "the lease on {label}");
            }
        }
        self.check_unacknowledged();
        self.check_archive();
    }

    /// What nobody was told of is wholly there or not at all.
    fn check_unacknowledged(&self) {
        let Some(Publish(label)) = self.interrupted() else { return };
        let versions = self.published_as(label);
        assert!(versions.len() <= 1, "{label} was published twice: {versions:?}");
        for version in versions {
            let found = self.world.get(&format!("/versions/{version}/database"));
            assert_eq!(found.status, 200, "{label}: {found}");
            assert!(found.body == *self.content_of(label), "{label} ({version}) is half of it");
        }
    }

    /// The archive is whole, and no version is left between its states.
    pub fn check_archive(&self) {
        let verified = self.world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], true, "{verified}");
        let cutting = self.world.get("/versions?state=cutting").json();
        assert_eq!(cutting["versions"], json!([]), "{cutting}");
    }

    /// Sends the interrupted request once more, as a client does that got no answer.
    pub fn retry(&mut self) {
        let Some(step) = self.interrupted() else { return };
        if self.perform(step).is_err() {
            panic!("{step:?} was interrupted again");
        }
        self.next += 1;
        if let Publish(label) = step {
            let versions = self.published_as(label);
            assert_eq!(versions, [self.acknowledged[label].clone()], "{label} was to be published once");
        }
    }

    /// Ends the daemon in good order, and looks for what should not be there.
    pub fn stop_and_check_for_litter(&mut self) {
        let listed = self.world.get("/versions?state=ready").json();
        let listed = listed["versions"].as_array().unwrap().iter();
        let live: BTreeMap<u64, Value> = listed.map(|v| (v["number"].as_u64().unwrap(), v.clone())).collect();
        assert!(self.world.stop().success());
        let state = self.world.path("state");
        for (path, _) in tree(&state) {
            let name = path.strip_prefix(&state).unwrap().to_str().unwrap();
            let known = match name.split('/').collect::<Vec<_>>()[..] {
                ["catalogue.db" | "catalogue.db-newest" | "installation" | "lock"] => true,
                // What is known of what changed stays, and can be made again.
                ["summaries.db" | "summaries.db-journal"] => true,
                // Which of them there may be is looked at below.
                ["archive", "report", _] => true,
                // A copy whose lease is over stays until its room is needed, or until the next start.
                ["copies", version, "report.db"] | ["copies", ".identities", version] => {
                    live.values().any(|live| live["id"] == version)
                }
                _ => false,
            };
            assert!(known, "{name} was left in the state folder");
        }
        let kept = kept_in(&state.join("archive/report"));
        assert!(kept.iter().eq(live.keys()), "the archive has {kept:?}, and live are {:?}", live.keys());
        let beside: Vec<_> = tree(&self.world.path("store")).into_iter().map(|(path, _)| path).collect();
        assert_eq!(beside, [self.world.store()], "something was left beside the store");
    }

    /// The versions that were let go by the rule, or may be any moment.
    fn let_go(&self) -> Vec<String> {
        let version = |(label, _): &(&'static str, Vec<u8>)| self.acknowledged.get(label);
        let mut live: Vec<Option<&String>> = self.asked.iter().map(version).collect();
        live.dedup();
        live.retain(|version| version.is_none_or(|version| !self.given_up.contains(version)));
        live.iter().rev().skip(KEPT).filter_map(|version| version.cloned()).collect()
    }

    /// Once the script is through, the rule must have done its work.
    pub fn check_retention(&self) {
        let first = self.world.get(&format!("/versions/{}/database", self.acknowledged["first"]));
        first.expect_problem(410, "retired");
    }

    /// Every version that has a publication with this label.
    fn published_as(&self, label: &str) -> Vec<String> {
        let label = label.replace(' ', "%20");
        let listed = self.world.get(&format!("/versions?state=any&label={label}")).json();
        let mut found = Vec::new();
        for version in listed["versions"].as_array().unwrap() {
            let times = labels(version).filter(|other| other.replace(' ', "%20") == label).count();
            found.extend(std::iter::repeat_n(version["id"].as_str().unwrap().to_owned(), times));
        }
        found
    }

    fn content_of(&self, label: &str) -> &Vec<u8> {
        &self.asked.iter().find(|(asked, _)| *asked == label).unwrap().1
    }

    /// A real commit by the application, which then closes the store, so that all of it is in its main file.
    fn write(&mut self, from: u32, to: u32) {
        self.writes += 1;
        let mut store = self.world.sqlite();
        store.pragma_update(None, "journal_mode", self.journal_mode).unwrap();
        store.execute_batch("create table if not exists row (id integer primary key, data blob)").unwrap();
        let transaction = store.transaction().unwrap();
        for id in from..to {
            transaction
                .execute("insert or replace into row values (?1, ?2)", (id, noise(self.writes, id)))
                .unwrap();
        }
        transaction.commit().unwrap();
    }
}

/// What the daemon logs when it is killed at a boundary.
const KILLED: &str = "crash test: killed";

/// Waits for the end of a daemon that was to be killed; its log where it was not.
pub fn died(running: &mut Running) -> Result<Died, String> {
    running.wait_for(KILLED)?;
    running.exit();
    Ok(Died)
}

/// Bytes that do not compress, so that segments have the sizes that they would have with real data.
fn noise(write: u32, id: u32) -> Vec<u8> {
    let mut dice = Dice((u64::from(write) << 32) | u64::from(id));
    (0..3000).map(|_| dice.below(256) as u8).collect()
}

/// The labels of a version's publications.
fn labels(version: &Value) -> impl Iterator<Item = &str> {
    version["publications"].as_array().unwrap().iter().filter_map(|publication| publication["label"].as_str())
}
