//! A daemon that may open fewer files than its archive has versions reads all of them.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::api::world;
use crate::common::World;

const VERSIONS: u32 = 110;

/// How many files the daemon may have open from now on; answers how many it might before.
fn allow(world: &World, files: Option<u64>) -> Option<u64> {
    let pid = Pid::from_child(&world.daemon.as_ref().unwrap().child);
    let limit = Rlimit { current: files, ..rustix::process::getrlimit(Resource::Nofile) };
    prlimit(Some(pid), Resource::Nofile, limit).unwrap().current
}

#[test]
fn with_few_files_a_long_history_is_written_and_read() {
    let world = world();
    if world.ground.is_volume() {
        // Its versions are published without the archive.
        return;
    }
    let before = allow(&world, Some(80));
    let store = world.sqlite();
    // Each version changes pages of its own, so that the newest one needs something of all.
    for n in 0..VERSIONS {
        store.execute("insert into ledger values (randomblob(9000))", []).unwrap();
        world.publish(&n.to_string());
    }
    for number in [1, VERSIONS / 2, VERSIONS] {
        assert_eq!(world.get(&format!("/versions/report@{number}/database")).status, 200);
    }
    assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
    assert_eq!(world.get("/audit?action=repair").json()["entries"], json!([]));
    allow(&world, before);
}
