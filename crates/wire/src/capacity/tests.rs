//! What the guard says, in JSON.

use asat_core::guard::{AlarmKey, AlarmKind, GuardEntry, Level, Outcome, Target};
use asat_core::{Code, VersionId};
use serde_json::{Value, json};

use super::*;

const POOL: &str = "pQ7dYk-0000-1111-2222-3333-4444-abcdef";
const GROUP: &str = "gX1aBc-0000-1111-2222-3333-4444-abcdef";

fn names() -> BTreeMap<String, String> {
    [(POOL, "vg/pool"), (GROUP, "vg")].map(|(id, name)| (id.to_owned(), name.to_owned())).into()
}

fn version() -> VersionId {
    "report@12".parse().unwrap()
}

fn value(written: &impl Serialize) -> Value {
    serde_json::to_value(written).unwrap()
}

#[test]
fn a_target_is_written_with_its_kind_and_its_name() {
    let targets = [
        (Target::Snapshot(version()), "snapshot", "report@12"),
        (Target::PoolData(POOL.to_owned()), "pool-data", "vg/pool"),
        (Target::PoolMetadata(POOL.to_owned()), "pool-metadata", "vg/pool"),
        (Target::Group(GROUP.to_owned()), "group", "vg"),
        (Target::Group("unknown".to_owned()), "group", "unknown"),
        (Target::Folder("/var/lib/as at".to_owned()), "folder", "/var/lib/as at"),
    ];
    for (target, kind, name) in targets {
        let reason = format!("{target}: 1.0 GiB of 2.0 GiB used");
        let assessment = Assessment {
            target,
            level: Level::Urgent,
            used: 1,
            size: 2,
            rate: 3,
            worst: 4,
            full_in_ms: Some(5),
            reason,
        };
        let expected = json!({
            "kind": kind, "name": name, "level": "urgent", "used_bytes": 1, "size_bytes": 2,
            "rate_bytes_per_second": 3, "worst_bytes": 4, "full_in_ms": 5,
            "reason": format!("{kind} {name}: 1.0 GiB of 2.0 GiB used"),
        });
        assert_eq!(value(&CapacityTarget::new(&assessment, Names(&names()))), expected);
    }
}

#[test]
fn a_step_says_what_is_done_to_what() {
    let pool = || Target::PoolData(POOL.to_owned());
    let key = AlarmKey { target: pool(), kind: AlarmKind::Short };
    let steps = [
        (Action::Extend { target: pool(), to: 7 }, json!(["extend", "pool-data vg/pool", 7, null])),
        (Action::Brake { origin: POOL.to_owned(), most_ms: 9 }, json!(["brake", "origin vg/pool", null, 9])),
        (Action::Demote { version: version() }, json!(["demote", "report@12", null, null])),
        (Action::Hurry { version: version() }, json!(["hurry", "report@12", null, null])),
        (Action::Retire { version: version() }, json!(["retire", "report@12", null, null])),
        (Action::Refuse { scope: Scope::Everywhere }, json!(["refuse", "everywhere", null, null])),
        (Action::Refuse { scope: Scope::Group(GROUP.to_owned()) }, json!(["refuse", "group vg", null, null])),
        (
            Action::Refuse { scope: Scope::Pool(POOL.to_owned()) },
            json!(["refuse", "pool vg/pool", null, null]),
        ),
        (
            Action::Alarm { key, hint: "add space".to_owned() },
            json!(["alarm", "pool-data vg/pool: short", null, null]),
        ),
    ];
    for (action, expected) in steps {
        let step = Step { target: Target::Group(GROUP.to_owned()), action, reason: format!("{POOL} fills") };
        let written = value(&PlannedAction::new(&step, Names(&names())));
        let parts = ["action", "object", "to_bytes", "most_ms"].map(|field| written[field].clone());
        assert_eq!(Value::from(parts.to_vec()), expected);
        assert_eq!((&written["target"], &written["reason"]), (&json!("group vg"), &json!("vg/pool fills")));
    }
}

#[test]
fn what_was_done_is_written_with_what_came_of_it() {
    let outcomes = [
        (Outcome::Done, "done", Value::Null),
        (Outcome::Failed(format!("no space in {GROUP}")), "failed", json!("no space in vg")),
        (Outcome::Stalled, "stalled", Value::Null),
    ];
    for (outcome, word, failure) in outcomes {
        let step = Step {
            target: Target::Snapshot(version()),
            action: Action::Extend { target: Target::Snapshot(version()), to: 1 },
            reason: "low".to_owned(),
        };
        let at = "2026-11-19T17:00:00.000000Z".parse().unwrap();
        let expected = json!({
            "at": "2026-11-19T17:00:00.000000Z", "action": "extend", "target": "snapshot report@12",
            "version": "report@12", "reason": "low", "outcome": word, "failure": failure, "took_ms": 412,
        });
        let entry = GuardEntry::of(&step, at, outcome, 412);
        assert_eq!(value(&PastAction::new(&entry, Names(&names()))), expected);
    }
}

#[test]
fn trouble_is_told_in_full_or_by_its_kind_alone() {
    let problem = Problem::new(Code::LvmStuck, format!("`lvextend {GROUP}/x` does not end"), "look");
    let full = value(&Trouble::new(&problem, Names(&names())));
    assert_eq!(
        full,
        json!({ "code": "lvm_stuck", "detail": "`lvextend vg/x` does not end", "hint": "look" })
    );
    let kind = Trouble::of_kind(&problem);
    assert_eq!(kind.detail, "A command of LVM does not end");
    assert!(!value(&kind).to_string().contains("vg"), "{kind:?}");
}
