//! What is seen from outside: what the kernel says of volumes, and the daemon of what it did.

use std::time::Duration;

use crate::lab::Machine;

/// What the kernel says of a volume, called `group/volume`; `None` where there is none.
pub fn dm_status(machine: &Machine, name: &str) -> Option<String> {
    let status = machine.try_run("dmsetup", &["status", &format!("/dev/{name}")]);
    status.ok().map(|status| status.trim().to_owned())
}

/// What the kernel says of a volume's device.
pub fn dm_info(machine: &Machine, name: &str) -> String {
    machine.run("dmsetup", &["info", &format!("/dev/{name}")])
}

/// The longest that writers were held at a time, and how often they were, as the daemon said.
pub fn holds(log: &str) -> (Duration, usize) {
    let held = log.lines().filter(|line| line.contains("action=\"brake\" took_ms="));
    let held: Vec<u64> = held.map(|line| line.rsplit_once("took_ms=").unwrap().1.parse().unwrap()).collect();
    (Duration::from_millis(held.iter().copied().max().unwrap_or(0)), held.len())
}

/// Holds nobody for longer than configured: 2 s, and half a second in which a slow machine starts and ends that.
pub fn check_holds(log: &str) {
    let (longest, count) = holds(log);
    println!("writers were held {count} times, for {longest:?} at the longest");
    assert!(longest <= Duration::from_millis(2500), "{log}");
}

/// Whether the kernel says that a snapshot's content is lost.
pub fn is_lost(status: &str) -> bool {
    status.contains("Invalid") || status.contains("Overflow")
}
