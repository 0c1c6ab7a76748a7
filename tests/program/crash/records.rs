//! What is said of versions after they were cut, while the daemon dies: what was acknowledged is said after the restart, and also if the
//! catalogue is lost after that, as the archive has it too.

use std::fs;
use std::io;

use serde_json::{Value, json};

use super::script::{Died, died};
use super::{journal_mode, until_done};
use crate::common::{World, try_request};

/// What a client does: a method, a path, a body, and what is said of the two versions from then on: labels, the pin's reason and tags.
type Step = (&'static str, &'static str, fn() -> Value, fn() -> [Value; 2]);

const NOTHING: fn() -> Value = || json!([[], null, []]);
const STEPS: [Step; 10] = [
    ("POST", "/snapshots", || json!({ "label": "a" }), || [json!([["a"], null, []]), NOTHING()]),
    (
        "POST",
        "/snapshots",
        || json!({ "label": "a, final" }),
        || [json!([["a", "a, final"], null, []]), NOTHING()],
    ),
    (
        "PUT",
        "/stores/report/tags/month-end",
        || json!({ "version": "FIRST" }),
        || [json!([["a", "a, final"], null, ["month-end"]]), NOTHING()],
    ),
    (
        "PUT",
        "/versions/FIRST/pin",
        || json!({ "reason": "audit" }),
        || [json!([["a", "a, final"], "audit", ["month-end"]]), NOTHING()],
    ),
    // The store changes before this one.
    (
        "POST",
        "/snapshots",
        || json!({ "label": "b" }),
        || [json!([["a", "a, final"], "audit", ["month-end"]]), json!([["b"], null, []])],
    ),
    (
        "PUT",
        "/stores/report/tags/month-end",
        || json!({ "version": "SECOND" }),
        || [json!([["a", "a, final"], "audit", []]), json!([["b"], null, ["month-end"]])],
    ),
    (
        "DELETE",
        "/versions/FIRST/pin",
        || Value::Null,
        || [json!([["a", "a, final"], null, []]), json!([["b"], null, ["month-end"]])],
    ),
    (
        "PUT",
        "/versions/SECOND/pin",
        || json!({ "reason": "year" }),
        || [json!([["a", "a, final"], null, []]), json!([["b"], "year", ["month-end"]])],
    ),
    (
        "DELETE",
        "/stores/report/tags/month-end",
        || Value::Null,
        || [json!([["a", "a, final"], null, []]), json!([["b"], "year", []])],
    ),
    (
        "POST",
        "/snapshots",
        || json!({ "label": "b, final" }),
        || [json!([["a", "a, final"], null, []]), json!([["b", "b, final"], "year", []])],
    ),
];

struct Run {
    world: World,
    /// How many steps were acknowledged.
    done: usize,
    /// Whether the store has changed for the second version.
    is_changed: bool,
}

impl Run {
    fn new(journal_mode: &str) -> Self {
        let world = World::new();
        let content =
            format!("pragma journal_mode = {journal_mode}; create table t (n); insert into t values (0)");
        world.sqlite().execute_batch(&content).unwrap();
        Self { world, done: 0, is_changed: false }
    }

    /// Starts a daemon that dies by itself at its n-th boundary, and goes on to the end of the steps or of the daemon.
    fn play(&mut self, crash_at: u32) -> Result<(), Died> {
        self.world.env = vec![("ASAT_CRASH_AT".to_owned(), crash_at.to_string())];
        let mut running = self.world.spawn();
        if running.wait_for("ready").is_err() {
            running.exit();
            return Err(Died);
        }
        self.world.daemon = Some(running);
        while self.done < STEPS.len() {
            self.perform()?;
        }
        Ok(())
    }

    /// Does the next step. A client that got no answer repeats it.
    fn perform(&mut self) -> Result<(), Died> {
        let (method, path, body, _) = STEPS[self.done];
        let body = body();
        if body["label"] == "b" && !self.is_changed {
            self.world.sqlite().execute("update t set n = n + 1", []).unwrap();
            self.is_changed = true;
        }
        let key = format!("step {}", self.done);
        let mut headers = vec![("Content-Type", "application/json")];
        if method == "POST" {
            headers.push(("Idempotency-Key", &key));
        }
        let versions = match self.versions() {
            Ok(versions) => versions,
            Err(error) => return Err(self.died(&error)),
        };
        // A number that was given when the daemon died is not given again.
        let named = |text: &str| {
            let name = |nth: usize| versions.get(nth).map_or("", String::as_str);
            text.replace("FIRST", name(0)).replace("SECOND", name(1))
        };
        let text = if body.is_null() { String::new() } else { named(&body.to_string()) };
        let path = &named(path);
        match try_request(&self.world.socket(), method, path, &headers, text.as_bytes()) {
            Ok(answer) => {
                // What is to be deleted may have been deleted by the request that got no answer.
                let is_done = answer.status < 300 || method == "DELETE" && answer.status == 404;
                assert!(is_done, "{method} {path}: {answer}");
                self.done += 1;
                Ok(())
            }
            Err(error) => Err(self.died(&error)),
        }
    }

    /// Sees that the daemon has died as it was meant to.
    fn died(&mut self, error: &io::Error) -> Died {
        let mut running = self.world.daemon.take().unwrap();
        died(&mut running).unwrap_or_else(|log| panic!("{error}\n{log}"))
    }

    /// The versions that there are, oldest first.
    fn versions(&self) -> io::Result<Vec<String>> {
        let listed = try_request(&self.world.socket(), "GET", "/versions?state=ready", &[], b"")?.json();
        let listed = listed["versions"].as_array().unwrap().iter();
        let mut versions: Vec<(u64, String)> = listed
            .map(|version| (version["number"].as_u64().unwrap(), version["id"].as_str().unwrap().to_owned()))
            .collect();
        versions.sort();
        Ok(versions.into_iter().map(|(_, id)| id).collect())
    }

    /// What is said of the two versions.
    fn said(&self) -> [Value; 2] {
        let versions = self.versions().unwrap();
        assert!(versions.len() <= 2, "{versions:?}");
        [0, 1].map(|nth| {
            let Some(version) = versions.get(nth) else { return NOTHING() };
            let version = self.world.get(&format!("/versions/{version}")).json();
            let publications = version["publications"].as_array().unwrap().iter();
            let labels: Vec<Value> = publications.map(|publication| publication["label"].clone()).collect();
            json!([labels, version["pin"]["reason"], version["tags"]])
        })
    }

    /// What is said after so many steps.
    fn after(steps: usize) -> [Value; 2] {
        steps.checked_sub(1).map_or_else(|| [NOTHING(), NOTHING()], |last| STEPS[last].3())
    }
}

#[test]
fn killed_at_any_boundary_the_daemon_says_what_was_said_and_without_its_catalogue_too() {
    let boundaries = until_done(|nth| {
        let mut run = Run::new(journal_mode(nth));
        let whole = run.play(nth).is_ok();
        if whole {
            run.world.kill();
        }
        run.world.env.clear();
        run.world.start();
        let (said, done) = (run.said(), run.done);
        let may_be = [Run::after(done), Run::after((done + 1).min(STEPS.len()))];
        assert!(may_be.contains(&said), "killed at {nth}, after {done} steps: {said:?}");
        if run.done < STEPS.len() {
            run.perform().unwrap();
        }
        assert_eq!(run.said(), Run::after(run.done), "killed at {nth}, and done again");
        assert!(run.world.stop().success());
        fs::remove_file(run.world.path("state/catalogue.db")).unwrap();
        if nth.is_multiple_of(3) {
            fs::remove_file(run.world.path("state/catalogue.db-newest")).unwrap();
        }
        run.world.start();
        assert_eq!(run.said(), Run::after(run.done), "killed at {nth}, and the catalogue was lost");
        assert!(run.world.stop().success());
        !whole
    });
    println!("ten steps have {boundaries} boundaries");
    assert!(boundaries > 60, "ten steps have {boundaries} boundaries");
}
