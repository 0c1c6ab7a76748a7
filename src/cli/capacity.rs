//! `capacity` and `acknowledge`: what can run out of space, what is done about it, and who knows.

use std::fmt::Write as _;
use std::time::Duration;

use asat_core::Problem;
use asat_core::guard::Span;
use jiff::Timestamp;

use super::args::{AcknowledgeArgs, CapacityArgs};
use super::output::{Failure, Output};
use super::{events, table, why};
use crate::text::{both, clean, counted, relative, size};
use asat_client::sse::Parser;
use asat_client::{Client, Request, Stream};
use asat_wire::{
    AcknowledgeRequest, Alarm, Brake, Capacity, LeaseBounds, PlannedAction, Precedence, Waiting,
};

/// The longest time between two drawings.
const AGAIN: Duration = Duration::from_secs(1);
/// The shortest: a guard that does much is drawn no faster than can be read.
const AT_MOST: Duration = Duration::from_millis(100);

pub(super) async fn capacity(args: &CapacityArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    if args.watch {
        return watch(client, output).await;
    }
    let capacity = ask(client).await?;
    output.answer(&capacity, |capacity| text(capacity, Timestamp::now()))?;
    if needs_somebody(&capacity) { Err(Failure::AlarmOn) } else { Ok(()) }
}

async fn ask(client: &Client) -> Result<Capacity, Problem> {
    client.ask(&Request::get(&["capacity"])).await
}

/// Whether there is something that nobody knows of yet, or that the guard cannot see to.
fn needs_somebody(capacity: &Capacity) -> bool {
    capacity.trouble.is_some() || capacity.alarms.iter().any(|alarm| alarm.acknowledged_at.is_none())
}

/// Shows it again and again. Whoever listens first misses nothing that happens after.
async fn watch(client: &Client, output: &Output) -> Result<(), Failure> {
    let mut stream = client.stream(&Request::get(&["events"]).long()).await?;
    let mut parser = Parser::default();
    loop {
        output.redraw(&ask(client).await?, |capacity| text(capacity, Timestamp::now()))?;
        tokio::time::sleep(AT_MOST).await;
        // Where nothing happens it is drawn again all the same, since times go on.
        if let Ok(heard) = tokio::time::timeout(AGAIN, heard(client, &mut stream, &mut parser)).await {
            heard?;
        }
    }
}

/// Waits until the guard has done something, or an alarm has changed.
async fn heard(client: &Client, stream: &mut Stream, parser: &mut Parser) -> Result<(), Problem> {
    while let Some(piece) = stream.next().await? {
        let events = parser.push(&piece)?;
        if events.iter().any(|event| ["guard", "alarm", "missed"].contains(&event.name.as_str())) {
            return Ok(());
        }
    }
    Err(events::ended(client))
}

pub(super) async fn acknowledge(
    args: &AcknowledgeArgs,
    client: &Client,
    output: &Output,
) -> Result<(), Failure> {
    let body = AcknowledgeRequest { key: args.key.join(" ") };
    let request = Request::post(&["capacity", "alarms", "acknowledge"]).json(&body)?;
    let alarm: Alarm = client.ask(&request).await?;
    output
        .answer(&alarm, |alarm| format!("{} is known, and not repeated until it is over", clean(&alarm.key)))
}

fn text(capacity: &Capacity, now: Timestamp) -> String {
    let mut text = match capacity.looked_at {
        Some(at) => {
            format!("looked {}, and looks again within {}\n", both(at, now), Span(capacity.tick_ms))
        }
        None => "the guard has not looked at anything\n".to_owned(),
    };
    if let Some(trouble) = &capacity.trouble {
        let _ = write!(text, "\nTROUBLE: {}\n", clean(&trouble.detail));
        if !trouble.hint.is_empty() {
            let _ = writeln!(text, "  hint: {}", clean(&trouble.hint));
        }
    }
    if !capacity.targets.is_empty() {
        let _ = write!(text, "\n{}\n", table::targets(&capacity.targets));
    }
    // What an alarm says stands below, with what can be done about it.
    let steps: Vec<String> =
        capacity.plan.iter().filter(|step| step.action != "alarm").map(planned).collect();
    section(&mut text, "Plan", steps);
    section(&mut text, "Alarms", capacity.alarms.iter().map(|one| alarm(one, now)).collect());
    section(&mut text, "Brakes", capacity.brakes.iter().map(brake).collect());
    section(&mut text, "Given up", waiting(&capacity.waiting, now).into_iter().collect());
    section(&mut text, "Leases", leases(&capacity.leases));
    section(&mut text, "Precedence", precedence(&capacity.precedence));
    section(&mut text, "Last actions", capacity.last_actions.iter().map(why::done).collect());
    text
}

fn section(text: &mut String, title: &str, parts: Vec<String>) {
    if !parts.is_empty() {
        let _ = write!(text, "\n{title}\n{}", parts.concat());
    }
}

fn planned(step: &PlannedAction) -> String {
    let mut text = format!("  {} {}", clean(&step.action), clean(&step.object));
    if let Some(bytes) = step.to_bytes {
        let _ = write!(text, " to {}", size(bytes));
    }
    if let Some(ms) = step.most_ms {
        let _ = write!(text, " for at most {}", Span(ms));
    }
    if step.target != step.object {
        let _ = write!(text, ", for {}", clean(&step.target));
    }
    let _ = write!(text, "\n    {}\n", clean(&step.reason));
    text
}

fn brake(brake: &Brake) -> String {
    let now = if brake.held_now { ", and are held now" } else { "" };
    let times = match brake.holds {
        0 => "were never held".to_owned(),
        holds => format!(
            "were held {}, {} in all, {} at the longest",
            counted(holds, "time"),
            Span(brake.total_ms),
            Span(brake.longest_ms)
        ),
    };
    format!("  writers to {} {times}{now}\n", clean(&brake.origin))
}

/// What waits for the end of its grace, where anything does.
fn waiting(waiting: &Waiting, now: Timestamp) -> Option<String> {
    let next = both(waiting.next_purge_at?, now);
    let versions = counted(u64::try_from(waiting.versions).unwrap_or(u64::MAX), "version");
    Some(format!("  {versions} with {} can be brought back, the first until {next}\n", size(waiting.bytes)))
}

fn leases(leases: &LeaseBounds) -> Vec<String> {
    let LeaseBounds { open, most, most_per_caller, callers } = leases;
    let first = callers.first().map(|caller| format!("; {} has {}", clean(&caller.actor), caller.open));
    let first = first.unwrap_or_default();
    if *open == 0 {
        Vec::new()
    } else {
        vec![format!("  {open} of {most} are open{first} of {most_per_caller}\n")]
    }
}

fn precedence(precedence: &Precedence) -> Vec<String> {
    let rungs: Vec<String> = precedence.ladder.iter().map(|rung| clean(rung)).collect();
    vec![format!("  {}\n", rungs.join(", ")), format!("  {}\n", clean(&precedence.says))]
}

fn alarm(alarm: &Alarm, now: Timestamp) -> String {
    let key = clean(&alarm.key);
    let mut text = format!("  {key}, since {}\n    {}\n", both(alarm.since, now), clean(&alarm.reason));
    if !alarm.hint.is_empty() {
        let _ = writeln!(text, "    hint: {}", clean(&alarm.hint));
    }
    let _ = match alarm.acknowledged_at {
        Some(at) => writeln!(text, "    acknowledged {}", relative(at, now)),
        None => writeln!(text, "    say that you know: asat acknowledge '{key}'"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity() -> Capacity {
        serde_json::from_value(serde_json::json!({
            "looked_at": "2026-11-19T17:00:03Z", "tick_ms": 250,
            "looks": {"full": 7, "glances": 60, "spent_ms": 12.5},
            "targets": [
                {"kind": "snapshot", "name": "report@12", "level": "low", "used_bytes": 1_288_490_189_u64,
                 "size_bytes": 2_147_483_648_u64, "rate_bytes_per_second": 89_128_960,
                 "worst_bytes": 2_200_000_000_u64, "full_in_ms": 9638, "reason": "low"},
                {"kind": "group", "name": "vg", "level": "safe", "used_bytes": 0,
                 "size_bytes": 5_368_709_120_u64, "rate_bytes_per_second": 0, "worst_bytes": 0,
                 "full_in_ms": null, "reason": "safe"},
            ],
            "plan": [
                {"action": "brake", "target": "snapshot report@12", "object": "origin vg/data",
                 "most_ms": 2000, "reason": "urgent"},
                {"action": "extend", "target": "snapshot report@12", "object": "snapshot report@12",
                 "to_bytes": 3_221_225_472_u64, "reason": "low"},
                {"action": "alarm", "target": "group vg", "object": "group vg: short", "reason": "shown below"},
            ],
            "last_actions": [
                {"at": "2026-11-19T17:00:02Z", "action": "extend", "target": "snapshot report@11",
                 "version": "report@11", "reason": "low", "outcome": "done", "failure": null, "took_ms": 412},
            ],
            "brakes": [
                {"origin": "vg/data", "held_now": true, "holds": 3, "total_ms": 2412, "longest_ms": 1900},
                {"origin": "vg/other", "held_now": false, "holds": 0, "total_ms": 0, "longest_ms": 0},
            ],
            "precedence": {"ladder": ["extend", "brake", "alarm"], "says": "retention before space"},
            "alarms": [
                {"key": "group vg: short", "reason": "no\u{1b} space", "hint": "add a disk",
                 "since": "2026-11-19T16:55:03Z", "acknowledged_at": null},
                {"key": "folder /var: short", "reason": "full", "hint": "",
                 "since": "2026-11-19T16:55:03Z", "acknowledged_at": "2026-11-19T16:58:03Z"},
            ],
            "trouble": {"code": "lvm_stuck", "detail": "`lvextend` does not end", "hint": "look at the disks"},
        }))
        .unwrap()
    }

    #[test]
    fn everything_at_a_glance() {
        let expected = "\
looked 2026-11-19 17:00:03 UTC (just now), and looks again within 250 ms

TROUBLE: `lvextend` does not end
  hint: look at the disks

TARGET              LEVEL  USED     OF       AT WORST  RATE        FULL IN
snapshot report@12  low    1.2 GiB  2.0 GiB  2.0 GiB   85.0 MiB/s  9.6 s
group vg            safe   0 B      5.0 GiB  0 B       0 B/s       never

Plan
  brake origin vg/data for at most 2.0 s, for snapshot report@12
    urgent
  extend snapshot report@12 to 3.0 GiB
    low

Alarms
  group vg: short, since 2026-11-19 16:55:03 UTC (5 minutes ago)
    no\\u{1b} space
    hint: add a disk
    say that you know: asat acknowledge 'group vg: short'
  folder /var: short, since 2026-11-19 16:55:03 UTC (5 minutes ago)
    full
    acknowledged 2 minutes ago

Brakes
  writers to vg/data were held 3 times, 2.4 s in all, 1.9 s at the longest, and are held now
  writers to vg/other were never held

Precedence
  extend, brake, alarm
  retention before space

Last actions
  2026-11-19 17:00:02 UTC  extend snapshot report@11: done in 412 ms
    low
";
        assert_eq!(text(&capacity(), "2026-11-19T17:00:03Z".parse().unwrap()), expected);
    }

    #[test]
    fn somebody_is_needed_where_nobody_knows_of_an_alarm() {
        let mut capacity = capacity();
        assert!(needs_somebody(&capacity));
        capacity.trouble = None;
        assert!(needs_somebody(&capacity));
        capacity.alarms.remove(0);
        assert!(!needs_somebody(&capacity), "the other one is acknowledged");
    }
}
