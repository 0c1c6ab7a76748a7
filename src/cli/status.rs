//! `status`: everything on one screen, and what to do next.

use std::fmt::Write as _;

use asat_client::{Client, Request};
use asat_core::guard::Span;
use asat_core::{Code, Problem};
use asat_wire::{Alarm, Capacity, CapacityTarget, Clock, Health, Store, StoreList, Trouble};
use jiff::Timestamp;
use serde::Serialize;

use super::output::{Failure, Output};
use super::table;
use crate::text::{both, clean, counted, relative, size};

/// How everything stands.
#[derive(Debug, Serialize)]
struct Status {
    /// Where the daemon was asked.
    server: String,
    /// How the daemon is.
    daemon: Health,
    /// The stores, by name.
    stores: Vec<Store>,
    /// What can run out of space.
    space: Vec<CapacityTarget>,
    /// What keeps the guard from its work, if something does.
    guard_trouble: Option<Trouble>,
    /// What somebody must know.
    alarms: Vec<Alarm>,
    /// How many leases are open.
    leases: usize,
    /// What asat believes of the machine's clock.
    clock: Clock,
    /// What to do next, most urgent first.
    next: Vec<Step>,
}

/// Something that somebody should do.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Step {
    /// Why.
    why: String,
    /// What to do; a command, if one does it.
    what: String,
    /// Whether it cannot wait: something is wrong.
    urgent: bool,
}

pub(super) async fn status(client: &Client, output: &Output) -> Result<(), Failure> {
    let status = ask(client).await?;
    output.answer(&status, |status| text(status, Timestamp::now()))?;
    if status.next.iter().any(|step| step.urgent) { Err(Failure::AlarmOn) } else { Ok(()) }
}

async fn ask(client: &Client) -> Result<Status, Problem> {
    let daemon: Health = client.ask(&Request::unversioned("healthz")).await?;
    let StoreList { stores } = client.ask(&Request::get(&["stores"])).await?;
    let clock: Clock = client.ask(&Request::get(&["clock"])).await?;
    let Capacity { targets, alarms, trouble, leases, .. } = client.ask(&Request::get(&["capacity"])).await?;
    let mut status = Status {
        server: client.server().to_string(),
        daemon,
        stores,
        space: targets,
        guard_trouble: trouble,
        alarms,
        leases: leases.open,
        clock,
        next: Vec::new(),
    };
    status.next = next(&status);
    Ok(status)
}

/// What to do next.
fn next(status: &Status) -> Vec<Step> {
    let urgent = |why: &str, what: &str| Step { why: why.to_owned(), what: what.to_owned(), urgent: true };
    let mut steps = Vec::new();
    if let Some(trouble) = &status.guard_trouble {
        steps.push(urgent(&trouble.detail, &trouble.hint));
    }
    // What keeps the guard from its work is what the daemon says of itself first.
    // That a store is late or could not be published, the store says.
    let failed = |trouble: &Trouble| {
        let mut failures = status.stores.iter().filter_map(|store| store.failed.as_ref());
        failures.any(|failed| failed.detail == trouble.detail)
    };
    let of_stores = |trouble: &&Trouble| trouble.code == Code::Late.text().0 || failed(trouble);
    let trouble = status.daemon.trouble.as_ref().filter(|trouble| !of_stores(trouble));
    if let Some(trouble) = trouble.filter(|_| status.guard_trouble.is_none()) {
        steps.push(urgent(&trouble.detail, &trouble.hint));
    }
    for alarm in status.alarms.iter().filter(|alarm| alarm.acknowledged_at.is_none()) {
        let known = format!("asat acknowledge '{}'", alarm.key);
        let what = if alarm.hint.is_empty() { known } else { format!("{}; then {known}", alarm.hint) };
        steps.push(urgent(&alarm.reason, &what));
    }
    if status.clock.doubted {
        steps.push(urgent("the machine's clock is doubted, and nothing ends by it", "asat clock"));
    }
    steps.extend(status.stores.iter().flat_map(of_store));
    steps
}

/// What to do about a store.
fn of_store(store: &Store) -> Vec<Step> {
    let name = &store.name;
    let troubles = [
        store.failed.as_ref().filter(|failed| !store.is_said_by_watch(failed)),
        store.watch.as_ref().and_then(|watch| watch.trouble.as_ref()),
        store.remote.as_ref().and_then(|remote| remote.trouble.as_ref()),
        store.followed.as_ref().and_then(|followed| followed.trouble.as_ref()),
    ];
    let wrong = |why: String, what: &str| Step { why, what: what.to_owned(), urgent: true };
    let mut steps: Vec<Step> = troubles
        .into_iter()
        .flatten()
        .map(|trouble| wrong(format!("{name}: {}", trouble.detail), &trouble.hint))
        .collect();
    let late = store.expected.as_ref().and_then(|expected| expected.problem(name));
    if store.configured && store.backend == "none" {
        steps.push(wrong(format!("{name} cannot be published now"), "asat doctor"));
    } else if let Some(late) = late {
        steps.push(wrong(late.detail, &late.hint));
    } else if store.configured
        && store.versions == 0
        && store.expected.is_none()
        && store.followed.is_none()
        && store.failed.is_none()
    {
        let what = format!("asat publish {name} --label LABEL");
        steps.push(wrong(format!("{name} has no version that can be read"), &what));
    }
    steps
}

fn text(status: &Status, now: Timestamp) -> String {
    let Status { server, daemon, stores, leases, clock, .. } = status;
    let mut text = format!("asat {} at {}: {}\n", clean(&daemon.version), clean(server), how_it_is(status));
    if clock.doubted {
        let _ = writeln!(
            text,
            "clock   DOUBTED: it says {}; asat uses {}",
            both(clock.clock_at, now),
            both(clock.believed_at, now)
        );
    }
    let _ = writeln!(text, "space   {}", space(&status.space));
    for target in status.space.iter().filter(|target| target.level != "safe") {
        let _ = writeln!(text, "          {}", short_of(target));
    }
    let open = counted(u64::try_from(*leases).unwrap_or(u64::MAX), "lease");
    let _ = writeln!(text, "leases  {open} open{}", if *leases > 0 { ": asat leases" } else { "" });
    let unknown = status.alarms.iter().filter(|alarm| alarm.acknowledged_at.is_none()).count();
    let alarms = match (status.alarms.len(), unknown) {
        (0, _) => "none".to_owned(),
        (all, 0) => format!("{all}, all acknowledged"),
        (all, unknown) => format!("{all}, of which {unknown} not acknowledged"),
    };
    let _ = writeln!(text, "alarms  {alarms}");
    if stores.is_empty() {
        text.push_str("\nno store is configured\n");
    } else {
        let _ = writeln!(text, "\n{}", table::standing(stores, now));
    }
    text.push_str("\nNext\n");
    if status.next.is_empty() {
        text.push_str("  nothing: all is well\n");
    }
    for step in &status.next {
        let mark = if step.urgent { "!" } else { "-" };
        let _ = writeln!(text, "  {mark} {}\n    {}", clean(&step.why), clean(&step.what));
    }
    text
}

/// How the daemon is, or how many things cannot wait: the daemon is well while a bucket is away.
fn how_it_is(status: &Status) -> String {
    let urgent = status.next.iter().filter(|step| step.urgent).count();
    match urgent {
        0 => clean(&status.daemon.status),
        1 => "1 thing needs attention".to_owned(),
        urgent => format!("{urgent} things need attention"),
    }
}

/// How what can run out of space stands as a whole.
fn space(targets: &[CapacityTarget]) -> String {
    let count = |level: &str| targets.iter().filter(|target| target.level == level).count();
    match (targets.len(), targets.len().saturating_sub(count("safe"))) {
        (0, _) => "nothing is watched".to_owned(),
        (1, 0) => "the one place that is watched is safe".to_owned(),
        (all, 0) => format!("all {all} that are watched are safe"),
        (all, short) => format!("{short} of {all} SHORT: asat capacity"),
    }
}

fn short_of(target: &CapacityTarget) -> String {
    let CapacityTarget { kind, name, level, used_bytes, size_bytes, full_in_ms, .. } = target;
    let full = full_in_ms.map_or_else(String::new, |ms| format!(", full in {}", Span(ms)));
    let used = format!("{} of {}", size(*used_bytes), size(*size_bytes));
    format!("{} {}: {}, {used}{full}", clean(kind), clean(name), clean(level))
}

/// How far a store's history is in the bucket.
pub(super) fn in_bucket(store: &Store, now: Timestamp) -> String {
    if let Some(followed) = &store.followed {
        return followed
            .seen_at
            .map_or_else(|| "not seen yet".to_owned(), |at| format!("followed, seen {}", relative(at, now)));
    }
    let Some(remote) = &store.remote else { return String::new() };
    match (remote.state.as_str(), remote.pending) {
        ("fenced", _) => "fenced".to_owned(),
        (_, 0) => "all stored".to_owned(),
        (_, pending) => {
            let since = remote
                .pending_since
                .map_or_else(String::new, |at| format!(", the oldest cut {}", relative(at, now)));
            format!("{pending} behind{since}")
        }
    }
}

#[cfg(test)]
mod tests;
