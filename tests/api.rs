//! The HTTP API as a specification: what every call answers, in words and in JSON, on a real daemon.
//!
//! Every answer that any of these tests sees is held against `/openapi.json` as well.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

mod common;

#[path = "api/access.rs"]
mod access;
#[path = "api/audit.rs"]
mod audit;
#[path = "api/capacity.rs"]
mod capacity;
#[path = "api/changes.rs"]
mod changes;
#[path = "api/checks.rs"]
mod checks;
#[path = "api/clock.rs"]
mod clock;
#[path = "api/colliding.rs"]
mod colliding;
#[path = "api/commits.rs"]
mod commits;
#[path = "api/download.rs"]
mod download;
#[path = "api/events.rs"]
mod events;
#[path = "api/few_files.rs"]
mod few_files;
#[path = "api/finding.rs"]
mod finding;
#[path = "api/grounds.rs"]
mod grounds;
#[path = "api/harm.rs"]
mod harm;
#[path = "api/keeping.rs"]
mod keeping;
#[path = "lab/mod.rs"]
mod lab;
#[path = "api/labels.rs"]
mod labels;
#[path = "api/leases.rs"]
mod leases;
#[path = "api/moving.rs"]
mod moving;
#[path = "api/opening.rs"]
mod opening;
#[path = "api/peers.rs"]
mod peers;
#[path = "api/publishing.rs"]
mod publishing;
#[path = "api/relying.rs"]
mod relying;
#[path = "api/repairing.rs"]
mod repairing;
#[path = "api/restoring.rs"]
mod restoring;
#[path = "api/retention.rs"]
mod retention;
#[path = "api/retiring.rs"]
mod retiring;
#[path = "api/routes.rs"]
mod routes;
#[path = "api/sets.rs"]
mod sets;
#[path = "api/shadow.rs"]
mod shadow;
#[path = "api/stores.rs"]
mod stores;
#[path = "api/surviving.rs"]
mod surviving;
#[path = "api/tags.rs"]
mod tags;
#[path = "api/watching.rs"]
mod watching;

use common::World;
use serde_json::Value;

/// A daemon whose store has a table and two rows, and nothing published yet.
fn world() -> World {
    configured("", "")
}

/// The same with more lines in the configuration: at its top level, and for the store.
fn configured(config: &str, store: &str) -> World {
    let mut world = World::new();
    config.clone_into(&mut world.config);
    store.clone_into(&mut world.store_config);
    world
        .sqlite()
        .execute_batch("create table ledger(entry text); insert into ledger values ('a'), ('b')")
        .unwrap();
    world.start_under_contract();
    world
}

/// Changes the store and publishes it, so that a new version is made; answers the publication.
fn publish_change(world: &World, label: &str) -> Value {
    world.sqlite().execute("insert into ledger values (?1)", [label]).unwrap();
    let published = world.publish(label);
    assert_eq!(published["reused"], false, "{published}");
    published
}

/// What was said of a version when it was published and stays: its pages may be elsewhere by now, and only a version in
/// the archive has a fingerprint.
fn as_published(version: &Value) -> Value {
    let mut version = version.clone();
    for field in ["holdings", "fingerprint"] {
        version.as_object_mut().unwrap().remove(field);
    }
    version
}

/// The names of the versions in a list's answer, in its order.
fn ids(list: &Value) -> Vec<&str> {
    list["versions"].as_array().unwrap().iter().map(|version| version["id"].as_str().unwrap()).collect()
}
