//! The guard's section: what it may do, what it assumes, and whom it tells.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use asat_core::Problem;
use asat_core::guard::{Policy, Rung};
use asat_host::brake::MOST_HOLD;
use asat_host::lvm::report::Name;

use super::raw;
use super::validate::{duration, size, wrong};

/// What the guard may do, what it assumes, and whom it tells.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// What its plans go by.
    pub policy: Policy,
    /// The thin pools that it may extend, as `group/pool`.
    pub pools: Vec<String>,
    /// Whom it tells.
    pub alarm: AlarmConfig,
}

/// What is done about an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmConfig {
    /// A command to start: an absolute path and its arguments. Empty where there is none.
    pub command: Vec<String>,
    /// After how long an alarm that nobody has acknowledged is told again.
    pub repeat: Duration,
}

/// The longest that the guard may look away. An hour would be as wrong as a day.
const MOST_TICK: Duration = Duration::from_secs(60);
/// What is forgotten faster is not worth remembering; what is repeated faster cannot be read.
const LEAST_MEMORY: Duration = Duration::from_secs(1);

pub(super) fn validate(raw: &raw::Guard) -> Result<GuardConfig, Problem> {
    let usual = Policy::default();
    let policy = Policy {
        ladder: raw.ladder.as_deref().map_or(Ok(usual.ladder), ladder)?,
        space_before_retention: raw.space_before_retention,
        shortest_tick_ms: millis("guard.shortest_tick", &raw.shortest_tick, usual.shortest_tick_ms)?,
        longest_tick_ms: millis("guard.longest_tick", &raw.longest_tick, usual.longest_tick_ms)?,
        least_rate: rate("guard.least_rate", &raw.least_rate, usual.least_rate)?,
        full_rate: rate("guard.full_rate", &raw.full_rate, usual.full_rate)?,
        half_life_ms: millis("guard.half_life", &raw.half_life, usual.half_life_ms)?,
        lasting_ms: millis("guard.lasting", &raw.lasting, usual.lasting_ms)?,
        brake_ms: millis("guard.brake", &raw.brake, usual.brake_ms)?,
        least_folder_free: match &raw.least_free {
            Some(text) => size("guard.least_free", text)?,
            None => usual.least_folder_free,
        },
        ..usual
    };
    check_ranges(&policy)?;
    let pools = pools(&raw.pools)?;
    let alarm = AlarmConfig {
        command: command("guard.alarm_command", &raw.alarm_command)?,
        repeat: repeat(&raw.alarm_repeat)?,
    };
    let rests_on = [
        ("guard.pools", !pools.is_empty(), Rung::Extend),
        ("guard.space_before_retention", policy.space_before_retention, Rung::Retire),
        ("guard.alarm_command", !alarm.command.is_empty(), Rung::Alarm),
    ];
    let missing = rests_on.into_iter().find(|(_, set, rung)| *set && !policy.ladder.contains(rung));
    if let Some((key, _, rung)) = missing {
        let what = format!("has no effect, since the ladder has no rung {:?}", rung.text());
        return Err(wrong(key, what, "add the rung to guard.ladder, or leave this key out"));
    }
    Ok(GuardConfig { policy, pools, alarm })
}

fn ladder(names: &[String]) -> Result<Vec<Rung>, Problem> {
    let known = Rung::ALL.map(Rung::text).join(", ");
    let hint = format!("name each of these at most once, in the order of their precedence: {known}");
    let mut ladder = Vec::new();
    for name in names {
        let Some(rung) = Rung::ALL.into_iter().find(|rung| rung.text() == name) else {
            return Err(wrong("guard.ladder", format!("{name:?} is no rung"), &hint));
        };
        if ladder.contains(&rung) {
            return Err(wrong("guard.ladder", format!("{name:?} is named twice"), &hint));
        }
        ladder.push(rung);
    }
    Ok(ladder)
}

fn check_ranges(policy: &Policy) -> Result<(), Problem> {
    let Policy { shortest_tick_ms, longest_tick_ms, least_rate, full_rate, half_life_ms, brake_ms, .. } =
        *policy;
    if Duration::from_millis(longest_tick_ms) > MOST_TICK {
        let what = format!("{longest_tick_ms} ms is longer than a minute");
        return Err(wrong("guard.longest_tick", what, "write for example \"1s\""));
    }
    if shortest_tick_ms > longest_tick_ms {
        let what = format!("{shortest_tick_ms} ms is longer than the longest, {longest_tick_ms} ms");
        return Err(wrong("guard.shortest_tick", what, "make it shorter, or guard.longest_tick longer"));
    }
    if least_rate > full_rate {
        let what = format!("{least_rate} bytes a second are more than the full rate, {full_rate}");
        return Err(wrong("guard.least_rate", what, "make it smaller, or guard.full_rate larger"));
    }
    if Duration::from_millis(half_life_ms) < LEAST_MEMORY {
        let what = format!("{half_life_ms} ms is shorter than a second");
        return Err(wrong("guard.half_life", what, "write for example \"6h\""));
    }
    if Duration::from_millis(brake_ms) > MOST_HOLD {
        let most = MOST_HOLD.as_secs();
        let what = format!("{brake_ms} ms is longer than {most} s, for which writes are ever held");
        return Err(wrong("guard.brake", what, "write for example \"2s\""));
    }
    Ok(())
}

/// A time in milliseconds.
fn millis(key: &str, text: &Option<String>, usual: u64) -> Result<u64, Problem> {
    let Some(text) = text else { return Ok(usual) };
    let millis = u64::try_from(duration(key, text)?.as_millis());
    millis.ok().filter(|millis| *millis > 0).ok_or_else(|| {
        wrong(key, format!("{text:?} is not as long as a millisecond"), "write for example \"20ms\"")
    })
}

/// A rate in bytes a second.
pub(super) fn rate(key: &str, text: &Option<String>, usual: u64) -> Result<u64, Problem> {
    let Some(text) = text else { return Ok(usual) };
    size(key, text.strip_suffix("/s").unwrap_or(text).trim_end())
}

fn pools(names: &[String]) -> Result<Vec<String>, Problem> {
    let hint = "write each as \"group/pool\", once, as lvs names it";
    let mut known = BTreeSet::new();
    for name in names {
        let parts = name.split_once('/').map(|(group, pool)| (group.parse::<Name>(), pool.parse::<Name>()));
        if !matches!(parts, Some((Ok(_), Ok(_)))) {
            return Err(wrong("guard.pools", format!("{name:?} names no thin pool"), hint));
        }
        if !known.insert(name) {
            return Err(wrong("guard.pools", format!("{name:?} is named twice"), hint));
        }
    }
    Ok(names.to_vec())
}

/// The command is not looked for here: a script that is missing must not keep a daemon from starting. The daemon and the
/// doctor tell of it.
pub(super) fn command(key: &str, words: &[String]) -> Result<Vec<String>, Problem> {
    let hint = "write an absolute path and its arguments, each a string of its own; there is no shell";
    match words.first() {
        Some(program) if !Path::new(program).is_absolute() => {
            Err(wrong(key, format!("{program:?} is not an absolute path"), hint))
        }
        _ if words.iter().any(|word| word.contains('\0')) => {
            Err(wrong(key, "has a word that no program can be given".to_owned(), hint))
        }
        _ => Ok(words.to_vec()),
    }
}

fn repeat(text: &Option<String>) -> Result<Duration, Problem> {
    let Some(text) = text else { return Ok(Duration::from_secs(60 * 60)) };
    let repeat = duration("guard.alarm_repeat", text)?;
    if repeat < LEAST_MEMORY {
        let what = format!("{text:?} is shorter than a second");
        return Err(wrong("guard.alarm_repeat", what, "write for example \"1h\""));
    }
    Ok(repeat)
}
