//! A set that is published while the daemon dies is published whole or not at all.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::script::{Died, died};
use super::{journal_mode, until_done};
use crate::common::{World, kept_in, tree, try_request};

const STORES: [&str; 2] = ["ledger", "report"];

/// Two stores that are published together, and the versions of the publications that were acknowledged.
struct Run {
    world: World,
    acknowledged: Vec<(String, Vec<String>)>,
}

impl Run {
    fn new(journal_mode: &str) -> Self {
        let mut world = World::new();
        "[[set]]\nname = \"all\"\nstores = [\"ledger\", \"report\"]".clone_into(&mut world.config);
        let content =
            format!("pragma journal_mode = {journal_mode}; create table t (n); insert into t values (0)");
        world.sqlite().execute_batch(&content).unwrap();
        world.add_store("ledger", &content, "");
        Self { world, acknowledged: Vec::new() }
    }

    /// Starts a daemon that dies by itself at its n-th boundary, and publishes three times; the second time one store has not changed.
    fn play(&mut self, crash_at: u32) -> Result<(), Died> {
        self.world.env = vec![("ASAT_CRASH_AT".to_owned(), crash_at.to_string())];
        let mut running = self.world.spawn();
        if running.wait_for("ready").is_err() {
            running.exit();
            return Err(Died);
        }
        self.world.daemon = Some(running);
        for (key, stores) in [("first", &STORES[..]), ("second", &STORES[..1]), ("third", &STORES[..])] {
            for store in stores {
                let path = self.world.store_at(&format!("{store}.db"));
                rusqlite::Connection::open(path).unwrap().execute("update t set n = n + 1", []).unwrap();
            }
            self.publish(key)?;
        }
        Ok(())
    }

    fn publish(&mut self, key: &str) -> Result<(), Died> {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        let body = br#"{"set": "all"}"#;
        let answer = try_request(&self.world.socket(), "POST", "/snapshots", &headers, body);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let mut running = self.world.daemon.take().unwrap();
                return Err(died(&mut running).unwrap_or_else(|log| panic!("{error}\n{log}")));
            }
        };
        assert_eq!(answer.status, 201, "{answer}");
        let published = answer.json();
        let each = published["published"].as_array().unwrap().iter();
        let versions = each.map(|one| one["version"]["id"].as_str().unwrap().to_owned()).collect();
        self.acknowledged.push((published["cut_at"].as_str().unwrap().to_owned(), versions));
        Ok(())
    }

    /// The versions of each publication of the set, by its instant.
    fn published(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for version in self.world.get("/versions?set=all").json()["versions"].as_array().unwrap() {
            let publications = version["publications"].as_array().unwrap().iter();
            for at in publications.map(|publication| publication["set"]["cut_at"].as_str().unwrap()) {
                found.entry(at.to_owned()).or_default().push(version["id"].as_str().unwrap().to_owned());
            }
        }
        found.values_mut().for_each(|versions| versions.sort());
        found
    }

    /// Every publication has a version of each store that can be read, and those that were acknowledged are as they were said to be.
    fn check(&self) {
        let published = self.published();
        for (at, versions) in &published {
            assert_eq!(versions.len(), STORES.len(), "the set as of {at} is not whole: {versions:?}");
            for version in versions {
                assert_eq!(self.world.get(&format!("/versions/{version}/database")).status, 200);
            }
        }
        for (at, versions) in &self.acknowledged {
            assert_eq!(published.get(at), Some(versions), "as of {at}");
        }
        let unknown = published.len() - self.acknowledged.len();
        assert!(unknown <= 1, "{published:?} is more than was asked for");
        // What is of no set was never published.
        let listed: Value = self.world.get("/versions").json();
        let of_sets = |version: &Value| version["publications"][0]["set"]["name"] == "all";
        assert!(listed["versions"].as_array().unwrap().iter().all(of_sets), "{listed}");
        for store in STORES {
            let verified = self.world.request("POST", &format!("/stores/{store}/verify"), &[], b"").json();
            assert_eq!(verified["ok"], true, "{verified}");
        }
    }
}

#[test]
fn killed_at_any_boundary_the_daemon_has_published_a_set_whole_or_not_at_all() {
    let boundaries = until_done(|nth| {
        let mut run = Run::new(journal_mode(nth));
        let whole = run.play(nth).is_ok();
        if whole {
            run.world.kill();
        }
        run.world.env.clear();
        run.world.start();
        run.check();
        // A client asks again for what it got no answer to, and has it published once.
        let again = ["first", "second", "third"].get(run.acknowledged.len());
        if let Some(key) = again {
            for store in STORES {
                let path = run.world.store_at(&format!("{store}.db"));
                rusqlite::Connection::open(path).unwrap().execute("update t set n = n + 1", []).unwrap();
            }
            run.publish(key).unwrap();
            run.check();
        }
        let live = run.world.get("/versions?state=ready").json()["versions"].as_array().unwrap().len();
        assert!(run.world.stop().success());
        let kept = STORES.map(|store| kept_in(&run.world.path("state/archive").join(store)));
        assert_eq!(kept.iter().map(Vec::len).sum::<usize>(), live, "{kept:?}");
        let beside = tree(&run.world.path("store"));
        assert_eq!(beside.len(), STORES.len(), "something was left beside the stores: {beside:?}");
        !whole
    });
    println!("three publications of a set have {boundaries} boundaries");
    assert!(boundaries > 40, "{}", json!(boundaries));
}
