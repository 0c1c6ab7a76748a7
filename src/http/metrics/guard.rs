//! The guard, as it stands after its last look.

use std::collections::BTreeMap;

use asat_core::guard::{AlarmKind, Assessment, Target};

use crate::daemon::GuardStatus;
use crate::metrics::Family;
use asat_wire::Names;

pub(super) fn families(standing: &GuardStatus) -> Vec<Family> {
    let mut families = targets(standing);
    families.extend(brakes(standing));
    families.extend(health(standing));
    families
}

/// The targets. Snapshots come and go with versions, and stand under their stores: for each store the one whose worst case is
/// the worst.
fn targets(standing: &GuardStatus) -> Vec<Family> {
    let mut levels =
        Family::gauge("asat_guard_targets", "What can run out of space, by how near it is to that.");
    let mut used = Family::gauge("asat_guard_target_used_ratio", "How much of its space is in use.");
    let mut size = Family::gauge("asat_guard_target_size_bytes", "How large it is.");
    let mut worst = Family::gauge(
        "asat_guard_target_worst_case_bytes",
        "What may be in use before it can be dealt with, at the fastest rate that is expected.",
    );
    let mut full =
        Family::gauge("asat_guard_target_seconds_to_full", "The time until it is full at that rate.");
    let mut counts = BTreeMap::<(&str, &str), u64>::new();
    let mut nearest = BTreeMap::<(&str, String), &Assessment>::new();
    for one in &standing.assessments {
        let (kind, name) = told(&one.target, Names(&standing.names));
        *counts.entry((kind, one.level.text())).or_default() += 1;
        let place = nearest.entry((kind, name)).or_insert(one);
        if ratio(one.worst, one.size) > ratio(place.worst, place.size) {
            *place = one;
        }
    }
    for ((kind, level), count) in counts {
        levels.add([("kind", kind), ("level", level)], count);
    }
    for ((kind, name), one) in &nearest {
        let labels = [("kind", *kind), ("name", name.as_str())];
        used.add_real(labels, ratio(one.used, one.size));
        size.add(labels, one.size);
        worst.add(labels, one.worst);
        one.full_in_ms.into_iter().for_each(|ms| full.add_real(labels, seconds(ms)));
    }
    vec![levels, used, size, worst, full]
}

/// A target's kind and its name, for labels.
fn told(target: &Target, names: Names<'_>) -> (&'static str, String) {
    match target {
        Target::Snapshot(version) => ("snapshot", version.store.to_string()),
        Target::PoolData(pool) => ("pool-data", names.told(pool)),
        Target::PoolMetadata(pool) => ("pool-metadata", names.told(pool)),
        Target::Group(group) => ("group", names.told(group)),
        Target::Folder(folder) => ("folder", folder.clone()),
        Target::Version(version) => ("version", version.store.to_string()),
        Target::Store(store) => ("store", store.to_string()),
        Target::Clock => ("clock", "wall".to_owned()),
    }
}

/// For how long writers were held, by the volume that they write to.
fn brakes(standing: &GuardStatus) -> Vec<Family> {
    let mut holds = Family::counter("asat_brake_holds_total", "How often the guard held a volume's writers.");
    let mut total =
        Family::counter("asat_brake_held_seconds_total", "For how long the guard held a volume's writers.");
    let mut now =
        Family::gauge("asat_brake_held", "Whether a volume's writers are held (1), or are not (0).");
    for (origin, braked) in &standing.brakes {
        let volume = Names(&standing.names).told(origin);
        holds.add([("volume", &volume)], braked.holds);
        total.add_real([("volume", &volume)], braked.total.as_secs_f64());
        now.add([("volume", &volume)], u64::from(braked.now));
    }
    vec![holds, total, now]
}

/// Whether it can do its work, and what it wants somebody to know.
fn health(standing: &GuardStatus) -> Vec<Family> {
    let mut degraded = Family::gauge(
        "asat_guard_degraded",
        "Whether something keeps the guard from looking or from acting (1), or nothing does (0).",
    );
    degraded.add([], u64::from(standing.trouble.is_some()));
    let mut alarms = Family::gauge("asat_guard_alarms", "Alarms that are on, by what they are about.");
    for kind in AlarmKind::ALL {
        let on = standing.alarms.iter().filter(|alarm| alarm.key.kind == kind).count();
        alarms.add([("kind", kind.text())], u64::try_from(on).unwrap_or(u64::MAX));
    }
    let mut looks = Family::counter("asat_guard_looks_total", "How often the guard has looked.");
    looks.add([("look", "full")], standing.looks.full);
    looks.add([("look", "glance")], standing.looks.glances);
    let mut spent = Family::counter("asat_guard_look_seconds_total", "The time that the guard's looks took.");
    spent.add_real([], standing.looks.spent.as_secs_f64());
    vec![degraded, alarms, looks, spent]
}

/// Of nothing, nothing is in use.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use asat_core::guard::Level;

    use super::*;
    use crate::metrics::write;

    fn assessment(target: &str, worst: u64, full_in_ms: Option<u64>) -> Assessment {
        let (level, reason) = (Level::Low, String::new());
        Assessment {
            target: target.parse().unwrap(),
            level,
            used: 25,
            size: 100,
            rate: 1,
            worst,
            full_in_ms,
            reason,
        }
    }

    #[test]
    fn of_a_stores_snapshots_the_one_in_the_worst_case_is_told() {
        let standing = GuardStatus {
            assessments: vec![
                assessment("snapshot report@1", 30, Some(1500)),
                assessment("snapshot report@2", 90, Some(500)),
                assessment("snapshot report@3", 80, None),
                assessment("pool-data pU1d", 25, None),
            ],
            names: [("pU1d".to_owned(), "vg/pool".to_owned())].into(),
            ..GuardStatus::default()
        };
        let written = write(families(&standing)).unwrap();
        for line in [
            "asat_guard_targets{kind=\"snapshot\",level=\"low\"} 3",
            "asat_guard_target_worst_case_bytes{kind=\"snapshot\",name=\"report\"} 90",
            "asat_guard_target_seconds_to_full{kind=\"snapshot\",name=\"report\"} 0.5",
            "asat_guard_target_used_ratio{kind=\"pool-data\",name=\"vg/pool\"} 0.25",
            "asat_guard_target_size_bytes{kind=\"pool-data\",name=\"vg/pool\"} 100",
            "asat_guard_degraded 0",
        ] {
            assert!(written.lines().any(|written| written == line), "{line}:\n{written}");
        }
        assert!(!written.contains('@') && !written.contains("pU1d"), "{written}");
        let full = written.lines().filter(|line| line.starts_with("asat_guard_target_seconds_to_full{"));
        assert_eq!(full.count(), 1, "{written}");
    }
}
