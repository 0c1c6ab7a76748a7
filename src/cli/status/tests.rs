//! What is on the screen, and what is to be done next.

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-19T17:00:03Z".parse().unwrap()
}

fn store(name: &str, more: &Value) -> Store {
    let mut store = json!({
        "name": name, "path": "/srv/x.db", "backend": "pages", "configured": true, "versions": 12,
        "newest": format!("{name}@12"), "newest_cut_at": "2026-11-19T15:00:03Z", "archive_bytes": 1024,
    });
    for (key, value) in more.as_object().unwrap() {
        store[key] = value.clone();
    }
    serde_json::from_value(store).unwrap()
}

fn well(stores: Vec<Store>) -> Status {
    let mut status = Status {
        server: "unix:/run/asat/asat.sock".to_owned(),
        daemon: Health { status: "ok".to_owned(), version: "0.1.0".to_owned(), trouble: None },
        stores,
        space: Vec::new(),
        guard_trouble: None,
        alarms: Vec::new(),
        leases: 0,
        clock: serde_json::from_value(json!({
            "believed_at": "2026-11-19T17:00:03Z", "clock_at": "2026-11-19T17:00:03Z", "doubted": false,
            "would_end": {"versions": 0, "graces": 0, "leases": 0, "pins": 0},
        }))
        .unwrap(),
        next: Vec::new(),
    };
    status.next = next(&status);
    status
}

#[test]
fn all_is_well() {
    let remote = json!({"remote": {"url": "s3://h", "state": "pending", "stored": 9, "pending": 3,
        "pending_since": "2026-11-19T16:55:03Z", "manifest": 1, "bytes": 9, "trouble": null}});
    let expected = "\
asat 0.1.0 at unix:/run/asat/asat.sock: ok
space   nothing is watched
leases  0 leases open
alarms  none

STORE   NEWEST     CUT          VERSIONS  KEPT     BUCKET
report  report@12  2 hours ago  12        1.0 KiB  3 behind, the oldest cut 5 minutes ago

Next
  nothing: all is well
";
    assert_eq!(text(&well(vec![store("report", &remote)]), now()), expected);
}

#[test]
fn a_store_that_is_late_is_said_to_be_once() {
    let expected = |published: &Value, since: &Value| {
        json!({"expected": {"every": "every business day by 18:00", "published_at": published,
            "due_at": null, "late_since": since}})
    };
    let published = json!("2026-11-18T15:00:03Z");
    let late = store("late", &expected(&published, &json!("2026-11-18T18:00:00Z")));
    let fresh = store("fresh", &expected(&published, &Value::Null));
    let mut never = store("never", &expected(&Value::Null, &json!("2026-11-18T18:00:00Z")));
    (never.versions, never.newest, never.newest_cut_at) = (0, None, None);
    let mut status = well(vec![fresh, late, never]);
    status.daemon.status = "degraded".to_owned();
    status.daemon.trouble =
        serde_json::from_value(json!({"code": "late", "detail": "late", "hint": "publish it"})).unwrap();
    let said: Vec<(String, bool)> = next(&status).into_iter().map(|step| (step.why, step.urgent)).collect();
    let expected = [
        "late is expected every business day by 18:00, and is late since 2026-11-18 18:00 UTC",
        "never is expected every business day by 18:00, and was never published",
    ];
    assert_eq!(said, expected.map(|why| (why.to_owned(), true)));
    assert!(text(&status, now()).contains("asat publish late"), "{}", text(&status, now()));
}

#[test]
fn what_is_wrong_comes_with_what_to_do() {
    let never = json!({"versions": 0, "newest": null, "newest_cut_at": null});
    let lasting =
        json!({"code": "x", "detail": "no\u{1b} answer", "hint": "look", "since": "2026-11-19T16:55:03Z"});
    let bucket = json!({"remote": {"url": "s3://h", "state": "pending", "stored": 9, "pending": 0, "pending_since": null,
        "manifest": 1, "bytes": 9, "trouble": lasting}});
    let mut status =
        well(vec![store("a", &never), store("b", &bucket), store("c", &json!({"backend": "none"}))]);
    status.alarms = serde_json::from_value(json!([
        {"key": "group vg: short", "reason": "no space", "hint": "add a disk", "since": "2026-11-19T16:55:03Z",
         "acknowledged_at": null},
        {"key": "folder /var: short", "reason": "full", "hint": "", "since": "2026-11-19T16:55:03Z",
         "acknowledged_at": "2026-11-19T16:58:03Z"},
    ]))
    .unwrap();
    status.clock.doubted = true;
    status.next = next(&status);
    let said = text(&status, now());
    for line in [
        "asat 0.1.0 at unix:/run/asat/asat.sock: 5 things need attention\n",
        "alarms  2, of which 1 not acknowledged\n",
        "  ! no space\n    add a disk; then asat acknowledge 'group vg: short'\n",
        "  ! the machine's clock is doubted, and nothing ends by it\n    asat clock\n",
        "  ! a has no version that can be read\n    asat publish a --label LABEL\n",
        "  ! b: no\\u{1b} answer\n    look\n",
        "  ! c cannot be published now\n    asat doctor\n",
        "b      b@12             2 hours ago  12        1.0 KiB  all stored\n",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    assert!(next(&well(vec![store("a", &never)])).iter().all(|step| step.urgent));
}
