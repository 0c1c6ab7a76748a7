//! What goes on when the power goes: an application that writes, and a client that publishes, opens and retires.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Answer, try_request};
use crate::lab_power::records::Records;
use crate::lab_store::ledger;

/// The pace of the application: the processor is for the daemon too.
const PAUSE: Duration = Duration::from_millis(4);

/// A source of repeatable chance.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = ledger::mix(self.0);
        self.0 % end
    }
}

pub struct Work<'a> {
    pub store: PathBuf,
    pub socket: PathBuf,
    pub records: &'a Records,
    /// The newest transaction that was begun, and the newest that is committed.
    begun: AtomicU64,
    committed: AtomicU64,
}

impl<'a> Work<'a> {
    pub fn new(store: PathBuf, socket: PathBuf, records: &'a Records) -> Self {
        let seq = AtomicU64::new(ledger::seq(&ledger::connect(&store)));
        let committed = AtomicU64::new(seq.load(Ordering::SeqCst));
        Self { store, socket, records, begun: seq, committed }
    }

    /// Writes until the power goes.
    pub fn write(&self) {
        let mut store = ledger::connect(&self.store);
        let mut seq = self.committed.load(Ordering::SeqCst);
        loop {
            seq += 1;
            self.begun.store(seq, Ordering::SeqCst);
            if let Err(error) = ledger::commit(&mut store, seq) {
                return self.records.trouble(&format!("the application was disturbed: {error}"));
            }
            self.committed.store(seq, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
        }
    }

    /// Asks the daemon for this and that until the power goes.
    pub fn publish(&self, mut dice: Dice) {
        loop {
            let done = match dice.below(10) {
                0..7 => self.publish_once(),
                7..9 => self.open(&mut dice),
                _ => self.retire(&mut dice),
            };
            if let Err(trouble) = done {
                return self.records.trouble(&trouble);
            }
        }
    }

    fn publish_once(&self) -> Result<(), String> {
        let since = self.committed.load(Ordering::SeqCst);
        let answer = self.ask("POST", "/snapshots", Some(json!({})))?;
        let until = self.begun.load(Ordering::SeqCst);
        match answer.status {
            201 => {
                let version = answer.json()["version"]["id"].as_str().unwrap().to_owned();
                self.records.published(&version, since, until);
                Ok(())
            }
            // Nothing was written since.
            200 => Ok(()),
            _ => Err(format!("POST /snapshots: {}", answer.json())),
        }
    }

    /// Opens a version and reads it, and mostly closes it too.
    fn open(&self, dice: &mut Dice) -> Result<(), String> {
        let Some(version) = self.any(dice) else { return Ok(()) };
        let path = format!("/versions/{version}/mounts");
        let answer = self.ask("POST", &path, Some(json!({ "holder": "work", "ttl_seconds": 2 })))?;
        // It may be on its way out.
        if [409, 410].contains(&answer.status) {
            return Ok(());
        }
        let lease = answer.json();
        let (Some(copy), Some(name)) = (lease["path"].as_str(), lease["lease"].as_str()) else {
            return Err(format!("POST {path}: {answer}"));
        };
        let seq = ledger::audit(Path::new(copy));
        if !self.records.promised().versions[&version].contains(&seq) {
            return Err(format!("{copy} has transaction {seq}"));
        }
        if dice.below(4) > 0 {
            self.ask("DELETE", &format!("{path}/{name}"), None)?;
        }
        Ok(())
    }

    fn retire(&self, dice: &mut Dice) -> Result<(), String> {
        let Some(version) = self.any(dice) else { return Ok(()) };
        self.records.retiring(&version);
        let answer = self.ask("DELETE", &format!("/versions/{version}"), None)?;
        match answer.status {
            200 => {
                self.records.retired(&version);
                Ok(())
            }
            // Somebody still has it, or it is on its way.
            409 => Ok(()),
            _ => Err(format!("DELETE {version}: {answer}")),
        }
    }

    /// One of the newest versions that are there.
    fn any(&self, dice: &mut Dice) -> Option<String> {
        let promised = self.records.promised();
        let mut live: Vec<_> = promised.versions.into_keys().collect();
        live.retain(|version| !promised.retired.contains(version));
        live.sort_by_key(|version| std::cmp::Reverse(number(version)));
        let index = dice.below(4) as usize;
        live.into_iter().nth(index)
    }

    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Answer, String> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let headers = [("Content-Type", "application/json")];
        try_request(&self.socket, method, path, &headers, body.as_bytes())
            .map_err(|error| format!("{method} {path}: {error}"))
    }
}

/// The number of a version within its store.
pub fn number(version: &str) -> u64 {
    version.rsplit('@').next().unwrap().parse().unwrap()
}
