//! The HTTP API as a specification: what every call answers, in words and in JSON, on a real daemon.
//!
//! Every answer that any of these tests sees is held against `/openapi.json` as well.

mod access;
mod audit;
mod capacity;
mod changes;
mod checks;
mod clock;
mod colliding;
mod commits;
mod download;
mod events;
mod few_files;
mod finding;
mod grounds;
mod harm;
mod keeping;
mod labels;
mod leases;
mod moving;
mod opening;
mod peers;
mod publishing;
mod relying;
mod repairing;
mod restoring;
mod retention;
mod retiring;
mod routes;
mod sets;
mod shadow;
mod stores;
mod surviving;
mod tags;
mod watching;

use crate::common::World;
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
