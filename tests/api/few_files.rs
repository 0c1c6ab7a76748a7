//! A daemon that may open fewer files than its archive has layers says so, and takes nothing for damaged.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::common::World;
use crate::harm::{code, out};
use crate::world;

const VERSIONS: u32 = 110;

/// How many files the daemon may have open from now on; answers how many it might before.
fn allow(world: &World, files: Option<u64>) -> Option<u64> {
    let pid = Pid::from_child(&world.daemon.as_ref().unwrap().child);
    let limit = Rlimit { current: files, ..rustix::process::getrlimit(Resource::Nofile) };
    prlimit(Some(pid), Resource::Nofile, limit).unwrap().current
}

#[test]
fn with_few_files_what_needs_more_is_refused_and_nothing_is_damaged() {
    let world = world();
    if world.ground.is_volume() {
        // Its versions are published without the archive.
        return;
    }
    let store = world.sqlite();
    // Each version changes pages of its own, so that the newest one needs the layers of all.
    for n in 0..VERSIONS {
        store.execute("insert into ledger values (randomblob(9000))", []).unwrap();
        world.publish(&n.to_string());
    }
    let newest = format!("/versions/report@{VERSIONS}");
    let content = world.get(&format!("{newest}/database")).body;
    store.execute("insert into ledger values ('more')", []).unwrap();

    let before = allow(&world, Some(80));
    let refused = [
        world.request("POST", "/stores/report/verify", &[], b""),
        world.get(&format!("{newest}/database")),
        world.send("POST", &format!("{newest}/mounts"), &json!({ "holder": "a" })),
    ];
    for answer in refused {
        let problem = answer.expect_problem(503, "too_many_files");
        for word in ["LimitNOFILE=", "nothing is damaged"] {
            assert!(problem["hint"].as_str().unwrap().contains(word), "{problem}");
        }
    }
    let ran = world.asat(&["verify"]);
    assert!(code(&ran) == Some(8) && !out(&ran).contains("DAMAGED"), "{ran:?}");
    // What needs few layers goes on: the newest version was read when it was written.
    assert_eq!(world.get("/versions/report@1/database").status, 200);
    let published = world.send("POST", "/snapshots", &json!({}));
    assert!([201, 503].contains(&published.status), "{published}");
    assert_eq!(world.get("/healthz").json()["status"], "ok");

    allow(&world, before);
    assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
    assert!(world.get(&format!("{newest}/database")).body == content);
    assert!([200, 201].contains(&world.send("POST", "/snapshots", &json!({})).status));
    assert_eq!(world.get("/audit?action=repair").json()["entries"], json!([]));
}
