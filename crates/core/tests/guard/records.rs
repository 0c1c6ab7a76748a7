//! Names and records are read as they are written.

use asat_core::guard::{GuardEntry, Outcome, Rung, Target};
use jiff::Timestamp;

#[test]
fn a_target_is_read_as_it_is_written() {
    let texts = [
        "snapshot report@12",
        "pool-data 5dBVOf-BTdT",
        "pool-metadata a pool",
        "group vg",
        "folder /var/lib/with spaces/asat",
    ];
    for text in texts {
        assert_eq!(text.parse::<Target>().map(String::from).as_deref(), Ok(text));
    }
    for text in ["", "snapshot", "snapshot report", "snapshot report@0", "volume x", "Group vg"] {
        assert!(text.parse::<Target>().is_err(), "{text:?}");
    }
}

#[test]
fn a_record_is_read_as_it_is_written() {
    for outcome in [Outcome::Done, Outcome::Failed("no space".to_owned()), Outcome::Stalled] {
        for rung in Rung::ALL {
            let entry = GuardEntry {
                at: Timestamp::UNIX_EPOCH,
                target: Target::Snapshot("report@12".parse().unwrap()),
                version: Some("report@12".parse().unwrap()),
                rung,
                reason: "why".to_owned(),
                outcome: outcome.clone(),
                took_ms: u64::MAX,
            };
            let text = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<GuardEntry>(&text).unwrap(), entry, "{text}");
            assert!(text.contains(rung.text()), "{text}");
        }
    }
}
