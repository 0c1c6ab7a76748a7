//! The log and the guard.

use std::path::Path;
use std::time::Duration;

use asat::config::{AlarmConfig, Config};
use asat_core::guard::{Policy, Rung};

use crate::config::{check_refused, folder};

#[test]
fn a_log_that_there_is_not_is_refused() {
    let folder = folder();
    for (line, parts) in [
        ("format = \"xml\"", ["log.format: \"xml\"", "\"json\""]),
        ("format = \"JSON\"", ["log.format: \"JSON\"", "\"json\""]),
        ("level = \"loud\"", ["log.level: \"loud\"", "\"debug\""]),
        ("level = \"\"", ["log.level: \"\"", "\"debug\""]),
        ("file = \"/var/log/asat\"", ["file", "there is no"]),
    ] {
        check_refused(folder.path(), &format!("[log]\n{line}"), &parts);
    }
}

#[test]
fn what_the_guard_cannot_go_by_is_refused_by_its_key() {
    let folder = folder();
    for (line, key, said) in [
        ("ladder = [\"extend\", \"jump\"]", "ladder", "\"jump\" is no rung"),
        ("ladder = [\"Extend\"]", "ladder", "hurry, brake"),
        ("ladder = [\"alarm\", \"extend\", \"alarm\"]", "ladder", "named twice"),
        ("shortest_tick = \"fast\"", "shortest_tick", "for example"),
        ("shortest_tick = \"0s\"", "shortest_tick", "must be longer than 0s"),
        ("shortest_tick = \"900us\"", "shortest_tick", "a millisecond"),
        ("shortest_tick = \"2s\"", "shortest_tick", "longer than the longest, 1000 ms"),
        ("shortest_tick = \"3s\"\nlongest_tick = \"2s\"", "shortest_tick", "the longest, 2000 ms"),
        ("longest_tick = \"10ms\"", "shortest_tick", "the longest, 10 ms"),
        ("longest_tick = \"-1s\"", "longest_tick", "must be longer than 0s"),
        ("longest_tick = \"61s\"", "longest_tick", "longer than a minute"),
        ("least_rate = \"0\"", "least_rate", "10 GiB"),
        ("least_rate = \"50 %\"", "least_rate", "is not a size"),
        ("least_rate = \"4 MiB/min\"", "least_rate", "is not a size"),
        ("least_rate = \"3 GiB/s\"", "least_rate", "more than the full rate"),
        ("full_rate = \"0 MiB/s\"", "full_rate", "10 GiB"),
        ("full_rate = \"1 MiB\"", "least_rate", "more than the full rate"),
        ("half_life = \"1 month\"", "half_life", "no fixed length"),
        ("half_life = \"999ms\"", "half_life", "shorter than a second"),
        ("lasting = \"0s\"", "lasting", "must be longer than 0s"),
        ("brake = \"10001ms\"", "brake", "longer than 10 s"),
        ("brake = \"0s\"", "brake", "must be longer than 0s"),
        ("least_free = \"20%\"", "least_free", "is not a size"),
        ("pools = [\"pool\"]", "pools", "group/pool"),
        ("pools = [\"vg/pool/x\"]", "pools", "names no thin pool"),
        ("pools = [\"vg/-pool\"]", "pools", "names no thin pool"),
        ("pools = [\"/pool\"]", "pools", "names no thin pool"),
        ("pools = [\"vg/pool\", \"vg/pool\"]", "pools", "named twice"),
        ("pools = [\"vg/pool\"]\nladder = [\"alarm\"]", "pools", "no rung \"extend\""),
        (
            "space_before_retention = true\nladder = [\"extend\"]",
            "space_before_retention",
            "no rung \"retire\"",
        ),
        ("alarm_command = [\"page\"]", "alarm_command", "not an absolute path"),
        ("alarm_command = [\"./page\"]", "alarm_command", "not an absolute path"),
        ("alarm_command = [\"\"]", "alarm_command", "not an absolute path"),
        ("alarm_command = [\"/bin/page\", \"a\\u0000b\"]", "alarm_command", "no program can be given"),
        ("alarm_command = [\"/bin/page\"]\nladder = []", "alarm_command", "no rung \"alarm\""),
        ("alarm_repeat = \"10ms\"", "alarm_repeat", "shorter than a second"),
        ("alarm_repeat = \"hourly\"", "alarm_repeat", "for example"),
    ] {
        check_refused(folder.path(), &format!("[guard]\n{line}"), &[&format!("guard.{key}: "), said]);
    }
    for line in ["brake = true", "ladder = \"extend\"", "alarm_command = \"/bin/page\"", "pools = [1]"] {
        let key = line.split(' ').next().unwrap();
        check_refused(folder.path(), &format!("[guard]\n{line}"), &["and should be", key]);
    }
}

#[test]
fn the_guard_goes_by_what_is_written_and_else_by_the_defaults() {
    let parse = |text: &str| Config::parse(text, Path::new("/etc/asat")).unwrap().guard;
    let guard = parse("");
    assert_eq!(guard.policy, Policy::default());
    assert_eq!((guard.pools.len(), guard.alarm.command.len()), (0, 0));
    assert_eq!(guard.alarm.repeat, Duration::from_secs(3600));

    let guard = parse(
        "[guard]\nladder = [\"retire\", \"alarm\", \"extend\"]\nspace_before_retention = true\n\
         shortest_tick = \"5ms\"\nlongest_tick = \"1 min\"\nleast_rate = \"64 MiB\"\nfull_rate = \"500 MB/s\"\n\
         half_life = \"1h 30m\"\nlasting = \"30s\"\nbrake = \"10s\"\nleast_free = \"1 GiB\"\n\
         pools = [\"vg/pool\", \"vg/other+1\"]\nalarm_command = [\"/bin/page\", \"\", \"a b\"]\nalarm_repeat = \"90s\"",
    );
    let expected = Policy {
        ladder: vec![Rung::Retire, Rung::Alarm, Rung::Extend],
        space_before_retention: true,
        shortest_tick_ms: 5,
        longest_tick_ms: 60_000,
        least_rate: 64 << 20,
        full_rate: 500_000_000,
        half_life_ms: 5_400_000,
        lasting_ms: 30_000,
        brake_ms: 10_000,
        least_folder_free: 1 << 30,
        ..Policy::default()
    };
    assert_eq!(guard.policy, expected);
    assert_eq!(guard.pools, ["vg/pool", "vg/other+1"]);
    let command = ["/bin/page", "", "a b"].map(str::to_owned).to_vec();
    assert_eq!(guard.alarm, AlarmConfig { command, repeat: Duration::from_secs(90) });
    assert_eq!(parse("[guard]\nladder = []").policy.ladder, []);
}
