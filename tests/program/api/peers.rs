//! Callers on the Unix socket: what each may do, by his user and his groups.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde_json::json;

use crate::common::{Answer, PATIENCE, World, exchange};

/// Users and groups that nobody on this machine has.
const PUBLISHER: u32 = 3_999_990_001;
const READER: u32 = 3_999_990_002;
const STRANGER: u32 = 3_999_990_003;
const GROUP: u32 = 3_999_990_100;

fn peered() -> World {
    let mut world = World::new();
    world.config = format!(
        "unix_mode = \"0666\"\n[[peer]]\nuser = \"{PUBLISHER}\"\nrole = \"publish\"\n\
         [[peer]]\ngroup = \"{GROUP}\"\nrole = \"read\""
    );
    world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
    world.start_under_contract();
    // Others have to come to the socket.
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(world.folder.path(), mode).unwrap();
    world
}

/// Asks as another user, with this group: the thread that connects has both.
fn call(world: &World, user: u32, group: u32, method: &str, path: &str, body: &str) -> Answer {
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(group));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            let stream = UnixStream::connect(world.socket()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let headers = [("Content-Type", "application/json")];
            exchange(stream, method, path, &headers, body.as_bytes()).unwrap()
        });
        asking.join().unwrap()
    });
    let contract = world.contract.as_ref().unwrap();
    contract.check(method, path, &answer).unwrap_or_else(|why| panic!("{method} {path}: {why}\n{answer}"));
    answer
}

/// Who runs the daemon may do everything, whatever the rules say.
#[test]
fn the_daemons_own_user_is_an_administrator() {
    let world = peered();
    world.publish("first");
    world.settled("report@1");
    world.retire("report@1");
    let actor = world.get("/audit").json()["entries"][0]["actor"].as_str().unwrap().to_owned();
    assert!(actor.starts_with(&format!("uid {}", rustix::process::geteuid().as_raw())), "{actor}");
}

#[test]
fn others_may_do_what_their_user_or_group_may_and_strangers_nothing() {
    if !rustix::process::geteuid().is_root() {
        // Only root can be somebody else; the rules themselves are tested where they are applied.
        return;
    }
    let world = peered();
    let calls = [
        ("POST", "/snapshots", "{\"label\":\"close\"}", [true, false, false]),
        ("GET", "/versions", "", [true, true, false]),
        ("POST", "/versions/report@1/mounts", "{\"holder\":\"x\"}", [true, true, false]),
        ("DELETE", "/versions/report@9", "", [false, false, false]),
        ("GET", "/audit", "", [false, false, false]),
        ("DELETE", "/leases/x", "{\"reason\":\"x\"}", [false, false, false]),
        ("GET", "/nothing", "", [true, true, false]),
    ];
    for (method, path, body, allowed) in calls {
        let callers = [(PUBLISHER, STRANGER), (READER, GROUP), (STRANGER, STRANGER)];
        for ((user, group), allowed) in callers.into_iter().zip(allowed) {
            let answer = call(&world, user, group, method, path, body);
            assert_eq!(answer.status != 403, allowed, "{method} {path} as {user}: {answer}");
            if !allowed {
                let problem = answer.expect_problem(403, "forbidden");
                assert!(problem["detail"].as_str().unwrap().contains(&format!("uid {user}")), "{problem}");
            }
        }
    }
    assert_eq!(call(&world, STRANGER, STRANGER, "GET", "/healthz", "").status, 200);
    let entries = world.get("/audit?action=publish").json()["entries"].clone();
    assert_eq!(entries[0]["actor"], format!("uid {PUBLISHER}"));
}

#[test]
fn a_lease_is_closed_by_who_took_it_and_else_by_an_administrator_with_a_trace() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = peered();
    world.publish("first");
    let opened = |holder: &str| {
        let body = json!({ "holder": holder }).to_string();
        let answer = call(&world, READER, GROUP, "POST", "/versions/report@1/mounts", &body);
        format!("/versions/report@1/mounts/{}", answer.json()["lease"].as_str().unwrap())
    };
    let (own, other) = (opened("own"), opened("other"));
    for (method, body) in [("PUT", "{}"), ("DELETE", "")] {
        let problem =
            call(&world, PUBLISHER, STRANGER, method, &other, body).expect_problem(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains(&format!("uid {READER}")), "{problem}");
    }
    assert_eq!(call(&world, READER, GROUP, "PUT", &own, "{}").status, 200);
    assert_eq!(call(&world, READER, GROUP, "DELETE", &own, "").status, 204);
    assert_eq!(world.get("/audit?action=revoke").json()["entries"], json!([]));
    assert_eq!(world.request("DELETE", &other, &[], b"").status, 204);
    let entry = world.get("/audit?action=revoke").json()["entries"][0].clone();
    assert_eq!(entry["details"]["taken_by"], format!("uid {READER}"), "{entry}");
}
