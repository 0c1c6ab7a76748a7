//! `audit` and `leases`: who did what, and who holds what.

use serde_json::{Value, json};

use super::{answered, done, text, world, world_with_history};

#[test]
fn who_did_what_is_listed_and_held_against_what_was_noted_down() {
    let world = world_with_history();
    done(&world, &["pin", "report@1", "--reason", "audit"]);
    let list = answered(&world, &["audit"]);
    assert_eq!(list, world.get("/audit?limit=50").json());
    assert_eq!(list["entries"].as_array().unwrap().len(), 3);
    let table = done(&world, &["audit", "report", "--action", "pin"]);
    assert!(
        table.starts_with("NUMBER") && table.contains("report@1") && table.contains("reason: audit"),
        "{table}"
    );
    let output = world.asat(&["audit", "--limit", "2"]);
    assert!(text(&output.stderr).contains("--all"), "{output:?}");
    assert_eq!(answered(&world, &["audit", "--all"])["entries"], list["entries"]);
    assert!(text(&world.asat(&["audit", "--action", "retire"]).stderr).contains("nothing of that kind"));

    let verified = answered(&world, &["audit", "--verify"]);
    assert_eq!(verified["verdict"]["ok"], true);
    let place = verified["head"]["place"].as_str().unwrap();
    let said = done(&world, &["audit", "--noted", place]);
    assert!(
        said.starts_with("the audit trail is what was written: 3 entries\n") && said.contains(place),
        "{said}"
    );
    let other = format!("2:{}", &place[2..]);
    let output = world.asat(&["audit", "--noted", &other]);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert!(text(&output.stdout).contains("broken at entry 2"), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn many_entries_come_in_pages() {
    let world = world();
    for _ in 0..300 {
        let pin = json!({ "reason": "audit" });
        assert_eq!(world.send("POST", "/snapshots", &json!({ "label": "close" })).status / 100, 2);
        assert_eq!(world.send("PUT", "/versions/report@1/pin", &pin).status, 200);
        assert_eq!(world.request("DELETE", "/versions/report@1/pin", &[], b"").status, 200);
    }
    let numbers = |list: &Value| -> Vec<u64> {
        list["entries"].as_array().unwrap().iter().map(|entry| entry["number"].as_u64().unwrap()).collect()
    };
    let all = numbers(&answered(&world, &["audit", "--all"]));
    assert!(all.len() > 600, "{}", all.len());
    let last = u64::try_from(all.len()).unwrap();
    assert_eq!(all, (1..=last).rev().collect::<Vec<_>>());
    assert_eq!(numbers(&answered(&world, &["audit", "--limit", "501"])), all[..501]);
}

#[test]
fn who_holds_what_is_listed_and_an_administrator_takes_it_back() {
    let world = world_with_history();
    assert!(text(&world.asat(&["leases"]).stderr).contains("nobody holds"));
    let mount = answered(&world, &["open", "report@1", "--holder", "month-end"]);
    let lease = mount["lease"].as_str().unwrap();
    let list = answered(&world, &["leases"]);
    assert_eq!(list, world.get("/leases").json());
    let table = done(&world, &["leases", "report", "--holder", "month-end"]);
    assert!(table.contains(lease) && table.contains("month-end") && table.contains("uid "), "{table}");
    let output = world.asat(&["retire", "report@1", "--yes"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(
        text(&output.stderr).contains("month-end") && text(&output.stderr).contains("asat leases"),
        "{output:?}"
    );

    assert_eq!(world.asat(&["leases", "revoke", lease]).status.code(), Some(2), "it needs a reason");
    assert_eq!(world.asat(&["leases", "revoke", "none", "--reason", "x"]).status.code(), Some(4));
    assert_eq!(world.asat(&["leases", "revoke", lease, "--reason", ""]).status.code(), Some(3));
    let said = done(&world, &["leases", "revoke", lease, "--reason", "incident 4711"]);
    assert_eq!(said, format!("the lease {lease} of month-end on report@1 is revoked\n"));
    assert_eq!(answered(&world, &["leases"])["leases"], json!([]));
    let entry = answered(&world, &["audit", "--action", "revoke"])["entries"][0].clone();
    assert_eq!(entry["details"]["reason"], "incident 4711");
}
