//! Versions as stock clients see them: Python's `sqlite3` and the `sqlite3` program, never our own SQLite.
//!
//! A client inside the store says what the store holds at the moment of a publication. Later a client that knows
//! nothing of asat opens the version's as-at copy, and must find exactly that.

mod beside;
mod bytes;
mod client;
mod copies;
mod encodings;
mod histories;
mod large;
mod paths;
mod speed;

use std::path::PathBuf;

use crate::common::World;
use serde_json::{Value, json};

/// Publishes a store; answers the whole answer.
fn publish(world: &World, store: &str) -> Value {
    let answer = world.send("POST", "/snapshots", &json!({ "store": store }));
    assert!(answer.status == 200 || answer.status == 201, "{answer}");
    answer.json()
}

/// Publishes a store that has changed; answers the new version's name.
fn publish_new(world: &World, store: &str) -> String {
    let published = publish(world, store);
    assert_eq!(published["reused"], false, "{published}");
    published["version"]["id"].as_str().unwrap().to_owned()
}

/// An opened version.
struct Opened {
    lease: String,
    path: PathBuf,
    uri: String,
}

fn open(world: &World, version: &str) -> Opened {
    let answer =
        world.send("POST", &format!("/versions/{version}/mounts"), &json!({ "holder": "a stock client" }));
    assert_eq!(answer.status, 201, "{answer}");
    let text = |field: &str| answer.json()[field].as_str().unwrap().to_owned();
    Opened { lease: text("lease"), path: PathBuf::from(text("path")), uri: text("uri") }
}

fn close(world: &World, version: &str, opened: &Opened) {
    let answer = world.request("DELETE", &format!("/versions/{version}/mounts/{}", opened.lease), &[], b"");
    assert_eq!(answer.status, 204, "{answer}");
}
