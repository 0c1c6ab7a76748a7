//! `capacity`, `why` and `acknowledge` against a daemon that answers from a script.

use serde_json::{Value, json};

use crate::cli_client::fake::{Fake, json as answer, problem, version};

fn capacity(acknowledged_at: &Value, trouble: &Value) -> Value {
    json!({
        "looked_at": "2026-11-19T17:00:03.000000Z", "tick_ms": 250,
        "looks": { "full": 7, "glances": 60, "spent_ms": 12.5 },
        "targets": [{
            "kind": "group", "name": "vg", "level": "low", "used_bytes": 0, "size_bytes": 0,
            "rate_bytes_per_second": 0, "worst_bytes": 0, "full_in_ms": null, "reason": "low",
        }],
        "plan": [], "last_actions": [],
        "brakes": [{ "origin": "vg/data", "held_now": false, "holds": 1, "total_ms": 512, "longest_ms": 512 }],
        "precedence": { "ladder": ["extend", "alarm"], "says": "retention before space" },
        "alarms": [{
            "key": "group vg: short", "reason": "no space", "hint": "add a disk",
            "since": "2026-11-19T16:55:03.000000Z", "acknowledged_at": acknowledged_at,
        }],
        "leases": { "open": 0, "most": 0, "most_per_caller": 0, "callers": [] },
        "waiting": { "versions": 0, "bytes": 0, "next_purge_at": null },
        "trouble": trouble,
    })
}

#[test]
fn the_exit_code_says_whether_somebody_must_look() {
    let known = json!("2026-11-19T16:58:03.000000Z");
    let trouble = json!({ "code": "lvm_stuck", "detail": "it does not end", "hint": "" });
    let cases = [
        (capacity(&known, &Value::Null), 0),
        (capacity(&Value::Null, &Value::Null), 13),
        (capacity(&known, &trouble), 13),
    ];
    for (told, code) in cases {
        let fake = Fake::new([answer(200, &told), answer(200, &told)]);
        let ran = fake.run(&["capacity"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(code), ""), "{ran:?}");
        assert!(ran.out.contains("group vg") && ran.out.contains("no space"), "{ran:?}");
        assert!(ran.out.contains("writers to vg/data were held 1 time, 512 ms in all"), "{ran:?}");
        assert!(ran.out.contains("  extend, alarm\n  retention before space\n"), "{ran:?}");
        let ran = fake.run(&["capacity", "--json"]);
        assert_eq!((ran.code, ran.json()), (Some(code), told));
        assert_eq!(fake.asked()[0].line, "GET /v1/capacity");
    }
}

#[test]
fn it_is_shown_again_when_the_guard_does_something() {
    let events =
        "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n: hi\n\nevent: guard\ndata: {}\n\n";
    let told = capacity(&Value::Null, &Value::Null);
    for arguments in [["capacity", "--watch"].as_slice(), &["capacity", "--watch", "--json"]] {
        let fake = Fake::new([events.to_owned(), answer(200, &told), answer(200, &told)]);
        let ran = fake.run(arguments);
        assert_eq!(ran.code, Some(10), "the daemon went away: {ran:?}");
        let lines: Vec<String> = fake.asked().into_iter().map(|asked| asked.line).collect();
        assert_eq!(lines, ["GET /v1/events", "GET /v1/capacity", "GET /v1/capacity"]);
        assert!(!ran.out.contains('\u{1b}'), "this is no terminal: {ran:?}");
        if arguments.contains(&"--json") {
            let shown: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(shown, [told.clone(), told.clone()]);
        } else {
            assert_eq!(ran.out.matches("looked 2026-11-19 17:00:03 UTC").count(), 2, "{ran:?}");
        }
    }
}

#[test]
fn an_alarm_is_acknowledged_with_quotes_or_without() {
    let alarm = capacity(&json!("2026-11-19T16:58:03.000000Z"), &Value::Null)["alarms"][0].clone();
    let fake = Fake::new([answer(200, &alarm), answer(200, &alarm), problem(404, "not_found")]);
    let ran = fake.run(&["acknowledge", "group", "vg:", "short"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 1), "{ran:?}");
    assert_eq!(fake.run(&["acknowledge", "group vg: short", "--json"]).json(), alarm);
    assert_eq!(fake.run(&["acknowledge", "x"]).code, Some(4));
    let asked = fake.asked();
    for asked in &asked[..2] {
        assert_eq!(asked.line, "POST /v1/capacity/alarms/acknowledge");
        assert_eq!(asked.json(), json!({ "key": "group vg: short" }));
    }
}

#[test]
fn why_asks_for_one_version() {
    let action = json!({
        "at": "2026-11-19T16:59:59.000000Z", "action": "extend", "target": "snapshot report@12", "version": "report@12",
        "reason": "low", "outcome": "done", "failure": null, "took_ms": 412,
    });
    let told = json!({ "version": version(12), "actions": [action] });
    let fake = Fake::new([answer(200, &told), answer(200, &told), problem(404, "unknown_version")]);
    let ran = fake.run(&["why", "report@latest", "--limit", "1"]);
    assert!(ran.out.starts_with("report@12 is ready\n") && ran.out.contains("done in 412 ms"), "{ran:?}");
    assert!(ran.err.contains("--limit"), "{ran:?}");
    assert_eq!(fake.run(&["why", "report@12", "--json"]).json(), told);
    assert_eq!(fake.run(&["why", "report@12"]).code, Some(4));
    let lines: Vec<String> = fake.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(
        lines[..2],
        ["GET /v1/versions/report@latest/why?limit=1", "GET /v1/versions/report@12/why?limit=50"]
    );
}
