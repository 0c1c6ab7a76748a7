//! The clock's section: how far the machine's clock is believed.

use std::time::Duration;

use asat_core::Problem;
use asat_core::clock::Bounds;
use jiff::SignedDuration;

use super::raw;
use super::validate::{duration, wrong};

/// Less than this is no jump: time servers correct as much, and so does a machine that is busy.
const LEAST_JUMP: Duration = Duration::from_secs(60);

pub(super) fn validate(raw: &raw::Clock) -> Result<Bounds, Problem> {
    let usual = Bounds::default();
    let max_jump = match &raw.max_jump {
        None => usual.max_jump,
        Some(text) if duration("clock.max_jump", text)? < LEAST_JUMP => {
            let what = format!("{text:?} is shorter than a minute, which a clock may be corrected by");
            return Err(wrong("clock.max_jump", what, "write for example \"30m\""));
        }
        Some(text) => length("clock.max_jump", text)?,
    };
    let max_off = raw.max_off.as_deref().map(|text| length("clock.max_off", text));
    let accept_after = raw.accept_after.as_deref().map(|text| length("clock.accept_after", text));
    let max_off = max_off.unwrap_or(Ok(usual.max_off))?;
    Ok(Bounds { max_jump, max_off, accept_after: accept_after.transpose()? })
}

fn length(key: &str, text: &str) -> Result<SignedDuration, Problem> {
    let length = SignedDuration::try_from(duration(key, text)?);
    length.map_err(|_| wrong(key, format!("{text:?} is too long"), "write for example \"7d\""))
}
