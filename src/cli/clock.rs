//! `clock`: what asat believes of the machine's clock, and that a person accepts what it says.

use asat_core::Problem;

use super::args::{ClockArgs, ClockCommand};
use super::confirm::confirm;
use super::output::{Failure, Output};
use crate::text::{both, counted};
use asat_client::{Client, Request};
use asat_wire::{AcceptRequest, Clock, WouldEnd};

pub(super) async fn clock(args: &ClockArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let found: Clock = client.ask(&Request::get(&["clock"])).await?;
    let Some(ClockCommand::Accept { yes, reason }) = &args.command else {
        output.answer(&found, text)?;
        return if found.doubted { Err(Failure::AlarmOn) } else { Ok(()) };
    };
    if found.doubted && !yes {
        let at = both(found.clock_at, found.believed_at);
        let question = format!("{} Is it {at}?", ending(found.would_end));
        confirm(&question, &format!("{at} would be accepted"), "the clock was not accepted").await?;
    }
    let now = accept(reason.as_deref(), client).await?;
    output.answer(&now, |now| match found.doubted {
        true => format!("asat uses the machine's clock: {}", both(now.clock_at, now.clock_at)),
        false => text(now),
    })?;
    Ok(())
}

async fn accept(reason: Option<&str>, client: &Client) -> Result<Clock, Problem> {
    let body = AcceptRequest { reason: reason.map(str::to_owned) };
    client.ask(&Request::post(&["clock", "accept"]).json(&body)?.long()).await
}

fn text(clock: &Clock) -> String {
    let Clock { believed_at, clock_at, doubted, would_end } = clock;
    if !doubted {
        return format!("the machine's clock is believed: it is {clock_at:.0}");
    }
    format!(
        "the machine's clock says {clock_at:.0}, and is doubted\nasat uses         {believed_at:.0}\n{}\n\
         set the clock right, and this is over; if it is right, type: asat clock accept",
        ending(*would_end)
    )
}

/// What ends once the clock is accepted.
fn ending(WouldEnd { versions, graces, leases, pins }: WouldEnd) -> String {
    let count = |number: usize, what| counted(u64::try_from(number).unwrap_or(u64::MAX), what);
    let mut ends = Vec::new();
    if versions > 0 {
        ends.push(format!("{} given up by retention", count(versions, "version")));
    }
    if graces > 0 {
        ends.push(format!(
            "{} of versions that were given up, which are gone for good then",
            count(graces, "grace")
        ));
    }
    ends.extend((leases > 0).then(|| count(leases, "lease")));
    ends.extend((pins > 0).then(|| count(pins, "pin")));
    match ends.as_slice() {
        [] => "Nothing would end by it.".to_owned(),
        ends => format!("By it would end: {}.", ends.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubted_clock_is_told_with_what_would_end_and_what_to_type() {
        let believed_at = "2026-11-19T17:00:00Z".parse().unwrap();
        let clock_at = "2036-11-19T17:00:00Z".parse().unwrap();
        let would_end = WouldEnd { versions: 11, graces: 1, leases: 0, pins: 2 };
        let said = text(&Clock { believed_at, clock_at, doubted: true, would_end });
        assert_eq!(
            said,
            "the machine's clock says 2036-11-19T17:00:00Z, and is doubted\n\
             asat uses         2026-11-19T17:00:00Z\n\
             By it would end: 11 versions given up by retention; 1 grace of versions that were given up, which are gone for good \
             then; 2 pins.\n\
             set the clock right, and this is over; if it is right, type: asat clock accept"
        );
        let calm =
            Clock { believed_at, clock_at: believed_at, doubted: false, would_end: WouldEnd::default() };
        assert_eq!(text(&calm), "the machine's clock is believed: it is 2026-11-19T17:00:00Z");
    }
}
