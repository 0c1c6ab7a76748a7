//! The daemon is killed at the boundaries of its effects on a store that lies on a thin volume, or is cloned.
//!
//! `tests/program/crash.rs` does so at each boundary of a store that is cut by pages. Here a round takes seconds, so the
//! boundaries are chosen: those at which volumes, mounts and the archive of a hot version change, mostly one of the two
//! around each step, since what lies between two steps is the same on both sides.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Answer, try_request};
use crate::lab::{Fs, in_lab};
use crate::lab_store::ground::{self, Ground, Kind};
use crate::lab_store::ledger;

/// Where the daemon dies, each in a round of its own: at which passing of which boundary.
const BOUNDARIES: [&str; 18] = [
    "volumes: take#1",
    "volumes: taken#1",
    "mounts: mounted#1",
    "mounts: header written#1",
    // Of these the first belong to the start, and the others to the script.
    "catalogue: commit#3",
    "catalogue: committed#3",
    "catalogue: committed#5",
    "archive: created#1",
    "archive: renamed#1",
    "mounts: placeholder created#1",
    "mounts: bound#1",
    "mounts: detached#1",
    "mounts: unmounted#1",
    "volumes: remove#1",
    "volumes: removed#1",
    "volumes: taken#3",
    "catalogue: committed#15",
    // The manifest that says that the first version is given up.
    "archive: renamed#4",
];

/// The same for a store that is cloned.
const BOUNDARIES_OF_CLONES: [&str; 14] = [
    "clones: take#1",
    "clones: folder made#1",
    "clones: file cloned#1",
    "clones: taken#1",
    "catalogue: committed#3",
    "catalogue: committed#5",
    "archive: created#1",
    "archive: renamed#1",
    "clones: remove#1",
    "clones: emptied#1",
    "clones: removed#1",
    "clones: taken#3",
    "catalogue: committed#15",
    "archive: renamed#4",
];

/// What a client and the application do in each round. The daemon keeps the newest version's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The application commits so many transactions.
    Write(u64),
    Publish(&'static str),
    Open(&'static str),
    Close(&'static str),
    /// Waits until everything is archived and dropped.
    Rest,
    Restore(&'static str),
    Retire(&'static str),
}
use Step::{Close, Open, Publish, Rest, Restore, Retire, Write};

const SCRIPT: [Step; 12] = [
    Write(3),
    Publish("first"),
    Open("first"),
    Close("first"),
    Write(2),
    Publish("second"),
    Rest,
    Write(1),
    Restore("first"),
    Rest,
    Retire("first"),
    Rest,
];

struct Script<'g, 'm> {
    ground: &'g mut Ground<'m>,
    round: usize,
    /// Each acknowledged publication's version and last transaction, by label, over all rounds.
    acknowledged: BTreeMap<String, (String, u64)>,
    retired: Vec<String>,
    lease: Option<(String, PathBuf)>,
}

/// A request that got no answer.
struct Died;

impl Script<'_, '_> {
    /// Kills the daemon at a boundary of a run of the script, and checks what the next one finds.
    fn round(&mut self, boundary: &str) {
        self.round += 1;
        self.start(Some(boundary));
        let mut steps = SCRIPT.into_iter();
        let (step, before) = loop {
            let step = steps.next().unwrap_or_else(|| panic!("{boundary} is never reached"));
            let before = self.seq();
            if self.perform(step).is_err() {
                break (step, before);
            }
        };
        println!("{boundary}: killed in {step:?}");
        self.ground.world.daemon.take().unwrap().exit();
        self.start(None);
        self.check(step, before);
        if let Open(_) = step {
            self.close_what_nobody_was_told_of();
        }
        // Whoever got no answer asks again.
        assert!(self.perform(step).is_ok());
        if let Publish(label) = step {
            assert_eq!(self.published_as(label), [self.acknowledged[&self.named(label)].0.clone()]);
        }
        if let Some((lease, _)) = self.lease.take() {
            assert_eq!(self.ground.world.request("DELETE", &lease, &[], b"").status, 204);
        }
        self.check_versions(&self.ground.at_rest(1));
        self.ground.world.kill();
    }

    fn start(&mut self, boundary: Option<&str>) {
        let world = &mut self.ground.world;
        world.env.retain(|(name, _)| name != "ASAT_CRASH_AT");
        world.env.extend(boundary.map(|boundary| ("ASAT_CRASH_AT".to_owned(), boundary.to_owned())));
        let log = world.start();
        if boundary.is_none() {
            println!("{log}");
        }
    }

    fn perform(&mut self, step: Step) -> Result<(), Died> {
        match step {
            Write(times) => {
                let mut store = ledger::connect(&self.ground.world.store());
                for seq in self.seq() + 1..=self.seq() + times {
                    ledger::commit(&mut store, seq).unwrap();
                }
            }
            Publish(label) => {
                let (label, seq) = (self.named(label), self.seq());
                let answer = self.ask("POST", "/snapshots", Some(json!({ "label": label })), Some(&label))?;
                assert!([200, 201].contains(&answer.status), "{answer}");
                let version = answer.json()["version"]["id"].as_str().unwrap().to_owned();
                self.acknowledged.insert(label, (version, seq));
            }
            Open(label) => {
                let mounts = format!("/versions/{}/mounts", self.version(label));
                let answer = self.ask("POST", &mounts, Some(json!({ "holder": "script" })), None)?;
                assert_eq!(answer.status, 201, "{answer}");
                let lease = answer.json();
                let text = |key: &str| lease[key].as_str().unwrap();
                self.lease = Some((format!("{mounts}/{}", text("lease")), PathBuf::from(text("path"))));
            }
            Close(_) => {
                let (lease, _) = self.lease.clone().unwrap();
                let answer = self.ask("DELETE", &lease, None, None)?;
                // It may have been closed by the request that got no answer.
                assert!([204, 404].contains(&answer.status), "{answer}");
                self.lease = None;
            }
            Rest => self.rest()?,
            Restore(label) => {
                let wanted = Some(json!({ "version": self.version(label) }));
                let answer = self.ask("POST", "/stores/report/restore", wanted, None)?;
                assert_eq!(answer.status, 200, "{answer}");
                assert_eq!(self.seq(), self.acknowledged[&self.named(label)].1);
            }
            Retire(label) => {
                let version = self.version(label);
                let answer = self.ask("DELETE", &format!("/versions/{version}"), None, None)?;
                assert_eq!(answer.status, 200, "{answer}");
                self.retired.push(version);
            }
        }
        Ok(())
    }

    /// Polls until nothing is under way. The check of the volumes comes after the crash.
    fn rest(&self) -> Result<(), Died> {
        loop {
            let versions = self.ask("GET", "/versions?state=any&limit=100", None, None)?.json();
            let versions = versions["versions"].as_array().unwrap();
            let hot = versions.iter().filter(|version| ground::snapshot_of(version).is_some()).count();
            let ready = |version: &&Value| version["state"] == "ready";
            let states = ["ready", "retired", "failed"];
            let settled = versions.iter().all(|version| states.contains(&version["state"].as_str().unwrap()));
            if hot <= 1 && settled && versions.iter().filter(ready).all(ground::is_archived) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What was promised before the daemon died, on one that has recovered.
    fn check(&self, interrupted: Step, before: u64) {
        let world = &self.ground.world;
        if let (Some((lease, path)), false) = (&self.lease, matches!(interrupted, Close(_))) {
            assert_eq!(ledger::audit(path), self.acknowledged[&self.named("first")].1);
            assert_eq!(world.send("PUT", lease, &json!({})).status, 200, "the lease is gone");
        }
        match interrupted {
            // A store is as it was or as it is wanted.
            Restore(label) => {
                let wanted = self.acknowledged[&self.named(label)].1;
                let found = ledger::audit_open(&ledger::connect(&world.store()));
                assert!([before, wanted].contains(&found), "the store has transaction {found}");
            }
            _ => assert_eq!(ledger::audit_open(&ledger::connect(&world.store())), before),
        }
        if let Publish(label) = interrupted {
            // What nobody was told of is wholly there or not at all.
            let versions = self.published_as(label);
            assert!(versions.len() <= 1, "{label} was published twice: {versions:?}");
            versions.iter().for_each(|version| assert_eq!(self.audit(version), before, "{version}"));
        }
    }

    /// A lease that was granted in the daemon's last moment holds its version until it expires, which no test waits for.
    fn close_what_nobody_was_told_of(&self) {
        let catalogue = rusqlite::Connection::open(self.ground.world.path("state/catalogue.db")).unwrap();
        let mut leases = catalogue.prepare("select store || '@' || version, id from lease").unwrap();
        let leases = leases.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        for (version, lease) in leases.map(rusqlite::Result::<(String, String)>::unwrap) {
            let lease = format!("/versions/{version}/mounts/{lease}");
            assert_eq!(self.ground.world.request("DELETE", &lease, &[], b"").status, 204);
        }
    }

    fn check_versions(&self, versions: &[Value]) {
        for (label, (version, seq)) in &self.acknowledged {
            let found = versions.iter().find(|found| found["id"] == **version).expect(label);
            let expected = if self.retired.contains(version) { "retired" } else { "ready" };
            assert_eq!(found["state"], expected, "{label}: {found:#}");
            // The other rounds' versions were looked at in theirs, and the archive verifies them all at the end.
            if expected == "ready" && label.ends_with(&format!(" {}", self.round)) {
                assert_eq!(self.audit(version), *seq, "{label}: {found:#}");
            }
        }
    }

    fn audit(&self, version: &str) -> u64 {
        let found = self.ground.world.get(&format!("/versions/{version}/database"));
        assert_eq!(found.status, 200, "{version}: {found}");
        let copy = self.ground.world.path("audited.db");
        std::fs::write(&copy, found.body).unwrap();
        ledger::audit(&copy)
    }

    fn published_as(&self, label: &str) -> Vec<String> {
        let label = self.named(label).replace(' ', "%20");
        let listed = self.ground.world.get(&format!("/versions?state=any&label={label}")).json();
        let versions = listed["versions"].as_array().unwrap().iter();
        versions.map(|version| version["id"].as_str().unwrap().to_owned()).collect()
    }

    fn named(&self, label: &str) -> String {
        format!("{label} {}", self.round)
    }

    fn version(&self, label: &str) -> String {
        self.acknowledged[&self.named(label)].0.clone()
    }

    fn seq(&self) -> u64 {
        ledger::seq(&ledger::connect(&self.ground.world.store()))
    }

    fn ask(&self, method: &str, path: &str, body: Option<Value>, key: Option<&str>) -> Result<Answer, Died> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(key.map(|key| ("Idempotency-Key", key)));
        try_request(&self.ground.world.socket(), method, path, &headers, body.as_bytes()).map_err(|_| Died)
    }
}

/// A store that is exactly as the version that was given up last is kept anew, and then that version is certified again.
fn publish_unchanged_after_retiring(ground: &Ground<'_>) -> String {
    let world = &ground.world;
    let first = world.publish("given up")["version"]["id"].clone();
    ground.at_rest(1);
    let retired = world.request("DELETE", &format!("/versions/{}", first.as_str().unwrap()), &[], b"");
    assert_eq!(retired.status, 200, "{retired}");
    let second = world.publish("as it was");
    assert_eq!((&second["reused"], second["version"]["id"] == first), (&json!(false), false), "{second:#}");
    let third = world.publish("once more");
    assert_eq!((&third["reused"], &third["version"]["id"]), (&json!(true), &second["version"]["id"]));
    second["version"]["id"].as_str().unwrap().to_owned()
}

/// Kills the daemon at each of the boundaries, and looks at what is left of all rounds.
fn kill_at(ground: &mut Ground<'_>, boundaries: &[&str]) {
    ground.configure("keep_snapshots = 1");
    drop(ledger::create(&ground.world.store(), "wal"));
    let (acknowledged, retired) = Default::default();
    let mut script = Script { ground, round: 0, acknowledged, retired, lease: None };
    for boundary in boundaries {
        script.round(boundary);
    }
    ground.world.start();
    let verified = ground.world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(verified["ok"], true, "{verified}");
    let newest = publish_unchanged_after_retiring(ground);
    let versions = ground.at_rest(1);
    assert_eq!((&versions[0]["id"], &versions[0]["state"]), (&json!(newest), &json!("ready")));
    ground.check_pool();
    assert!(ground.world.stop().success());
}

#[test]
fn lab_killed_at_boundaries_over_a_thin_volume_the_daemon_keeps_what_it_promised() {
    in_lab(ground::lab(), |machine| {
        kill_at(&mut Ground::make(machine, Kind::Thin, Fs::Ext4), &BOUNDARIES);
    });
}

#[test]
fn lab_killed_at_boundaries_of_clones_the_daemon_keeps_what_it_promised() {
    in_lab(ground::lab(), |machine| {
        kill_at(&mut Ground::make(machine, Kind::Reflink, Fs::Xfs), &BOUNDARIES_OF_CLONES);
    });
}
