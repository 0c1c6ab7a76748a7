//! Which time it is, as far as the machine's clock can be believed.
//!
//! Leases and pins end, graces are over and rules let versions go as time passes. So a clock that jumps forward must not be
//! gone by: what it ends does not come back when the clock is set right. The wall clock is held against a clock that nobody can
//! set, and against what was believed last:
//!
//! - In the boot in which something was believed, the uptime says exactly how much time has passed. The wall clock is believed
//!   while it says the same, give or take [`Bounds::max_jump`].
//! - After another boot it is known only that at least the uptime has passed. The wall clock is believed if the machine would have
//!   been off for no longer than [`Bounds::max_off`].
//!
//! Where nothing was believed before, as in a catalogue that was made anew, the newest instant that is recorded of anything is
//! taken for what was believed in a boot of which nothing is known ([`witnessed`]).
//!
//! Otherwise the time that is known to have passed counts, until the clock agrees again, a person accepts what it says, or it has
//! said so for [`Bounds::accept_after`]. What was believed last is recorded now and then as an [`Anchor`], so that a start of the
//! daemon knows as much as the run before.
//!
//! Small corrections are followed at once. But the anchor follows them slowly, so that a clock that gains time in small steps is
//! found out as well.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The least time between two records of what is believed, while nothing else is to be recorded.
pub const RECORD_EVERY: SignedDuration = SignedDuration::from_mins(10);

/// The boot of what is only witnessed: any that was before.
const UNKNOWN_BOOT: &str = "unknown";

/// A clock that gains or loses more than this part of the time that passes is not followed for long.
const MOST_DRIFT: i32 = 50;

/// What the machine's clocks say at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What its wall clock says.
    pub wall: Timestamp,
    /// The moment by the clock that nobody can set.
    pub moment: Moment,
}

/// A moment by the clock that nobody can set: it counts from the machine's boot, also while the machine sleeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The name of the boot.
    pub boot: String,
    /// The time since then, in milliseconds.
    pub uptime_ms: u64,
}

/// What was believed at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The time.
    pub time: Timestamp,
    /// The moment.
    pub moment: Moment,
    /// Since when the wall clock is not believed, if it is not.
    pub doubt: Option<Doubt>,
}

/// Since when the wall clock is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// When that was seen first.
    pub since: Moment,
    /// By how many seconds it was ahead then; negative if it was behind.
    pub ahead_s: i64,
}

/// How far the wall clock is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// By how much it may differ from the time that has passed since something was believed in the same boot.
    pub max_jump: SignedDuration,
    /// For how long the machine may have been off.
    pub max_off: SignedDuration,
    /// After what time it is accepted without a person, if it goes on saying the same; never if this is left out.
    pub accept_after: Option<SignedDuration>,
}

/// Long enough for what a time server corrects, and for a week without power.
impl Default for Bounds {
    fn default() -> Self {
        let max_off = SignedDuration::from_hours(7 * 24);
        Self { max_jump: SignedDuration::from_mins(30), max_off, accept_after: None }
    }
}

/// What is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Believed {
    /// The time.
    pub time: Timestamp,
    /// What the wall clock says.
    pub wall: Timestamp,
    /// Whether the wall clock is doubted; otherwise both times are the same.
    pub doubted: bool,
}

impl Believed {
    /// By how much the wall clock is ahead of the time that is believed; negative if it is behind.
    #[must_use]
    pub fn ahead(&self) -> SignedDuration {
        self.wall.duration_since(self.time)
    }

    /// An instant of the wall clock as it is believed.
    #[must_use]
    pub fn corrected(&self, wall: Timestamp) -> Timestamp {
        wall.checked_sub(self.ahead()).unwrap_or(self.time)
    }

    /// What the wall clock says and what is believed, in a sentence.
    #[must_use]
    pub fn what(&self) -> String {
        let (ahead, wall, time) = (self.ahead(), seconds(self.wall), seconds(self.time));
        let direction = if ahead.is_negative() { "behind" } else { "ahead of" };
        format!(
            "the machine's clock says {wall}, {} {direction} {time}, which asat believes and uses",
            Span(ahead.abs())
        )
    }
}

/// What to do about a clock that is doubted.
#[must_use]
pub fn hint(bounds: &Bounds) -> String {
    let by_itself = bounds.accept_after.map(|after| {
        format!("; asat accepts it without you if it lasts for {} (clock.accept_after)", Span(after))
    });
    format!(
        "set the clock right, and this is over; if it is right, type: asat clock accept{}",
        by_itself.unwrap_or_default()
    )
}

/// What is believed of what the clocks say, by what was believed last. A doubt after another boot lasts until its end is recorded
/// ([`renewed`]): the time that is believed may leap by days then, and what began meanwhile is to last as long as it was given for.
#[must_use]
pub fn believed(anchor: Option<&Anchor>, bounds: &Bounds, reading: &Reading) -> Believed {
    let wall = reading.wall;
    let Some(anchor) = anchor else { return Believed { time: wall, wall, doubted: false } };
    let doubted = anchor.is_uncertain_at(&reading.moment) || !anchor.agrees(bounds, reading);
    Believed { time: if doubted { anchor.expected(&reading.moment) } else { wall }, wall, doubted }
}

/// What is to be recorded of what the clocks say, if anything is.
#[must_use]
pub fn renewed(anchor: Option<&Anchor>, bounds: &Bounds, reading: &Reading) -> Option<Anchor> {
    let Some(anchor) = anchor else { return Some(accepted(reading)) };
    let (passed, is_same_boot) = anchor.passed(&reading.moment);
    let is_due = passed >= RECORD_EVERY;
    if anchor.agrees(bounds, reading) {
        let is_news = !is_same_boot || anchor.doubt.is_some();
        return (is_due || is_news).then(|| match is_same_boot {
            true => Anchor { time: followed(anchor, passed, reading.wall), ..accepted(reading) },
            false => accepted(reading),
        });
    }
    let time = anchor.expected(&reading.moment);
    let ahead_s = reading.wall.duration_since(time).as_secs();
    let lasts = anchor.doubt.as_ref().filter(|doubt| doubt.lasts(&reading.moment, ahead_s, bounds));
    let Some(doubt) = lasts else {
        let doubt = Some(Doubt { since: reading.moment.clone(), ahead_s });
        return Some(Anchor { doubt, ..anchor.clone() });
    };
    let doubted_for = since(&doubt.since, &reading.moment);
    if bounds.accept_after.is_some_and(|after| doubted_for.is_some_and(|lasted| lasted >= after)) {
        return Some(accepted(reading));
    }
    // After another boot more may have passed than is known: the clock may still come to say so.
    (is_due && is_same_boot).then(|| Anchor {
        time,
        moment: reading.moment.clone(),
        doubt: Some(doubt.clone()),
    })
}

/// What is to be recorded where a person accepts what the wall clock says.
#[must_use]
pub fn accepted(reading: &Reading) -> Anchor {
    Anchor { time: reading.wall, moment: reading.moment.clone(), doubt: None }
}

/// What is to be recorded where nothing was believed before, and something that is kept says that it was this time once.
#[must_use]
pub fn witnessed(time: Timestamp, reading: &Reading) -> Anchor {
    let moment = Moment { boot: UNKNOWN_BOOT.to_owned(), uptime_ms: reading.moment.uptime_ms };
    Anchor { time, moment, doubt: None }
}

impl Anchor {
    /// Whether the wall clock says what it may say after what was believed.
    #[must_use]
    pub fn agrees(&self, bounds: &Bounds, reading: &Reading) -> bool {
        let (_, is_same_boot) = self.passed(&reading.moment);
        let most = if is_same_boot { bounds.max_jump } else { bounds.max_off.max(bounds.max_jump) };
        let ahead = reading.wall.duration_since(self.expected(&reading.moment));
        (-bounds.max_jump..=most).contains(&ahead)
    }

    /// The time that it is at least.
    fn expected(&self, now: &Moment) -> Timestamp {
        later(self.time, self.passed(now).0)
    }

    /// Whether in this boot the clock was doubted, and nobody knows how much time had passed before.
    fn is_uncertain_at(&self, now: &Moment) -> bool {
        let doubt = self.doubt.as_ref().filter(|doubt| doubt.since.boot != self.moment.boot);
        doubt.is_some_and(|doubt| since(&doubt.since, now).is_some())
    }

    /// Why nobody knows which time it is: the clock is doubted in another boot than that in which this was believed, so it may be right.
    #[must_use]
    pub fn uncertainty(&self) -> Option<String> {
        let doubt = self.doubt.as_ref().filter(|doubt| doubt.since.boot != self.moment.boot)?;
        let ahead = SignedDuration::from_secs(doubt.ahead_s);
        let direction = if ahead.is_negative() { "behind" } else { "ahead of" };
        let time = seconds(self.time);
        Some(format!(
            "nobody knows for how long the machine was off: its clock is {} {direction} what is known to have passed since {time}",
            Span(ahead.abs())
        ))
    }

    /// The time that has passed at least, and whether that is all of it as it is the same boot.
    fn passed(&self, now: &Moment) -> (SignedDuration, bool) {
        match since(&self.moment, now) {
            Some(passed) => (passed, true),
            // It may have been in this boot, so only what has passed since it was found counts.
            None if self.moment.boot == UNKNOWN_BOOT => {
                (millis(now.uptime_ms.saturating_sub(self.moment.uptime_ms)), false)
            }
            None => (millis(now.uptime_ms), false),
        }
    }
}

impl Doubt {
    /// Whether it is the same doubt still: in the same boot, and of a clock that has not jumped again.
    fn lasts(&self, now: &Moment, ahead_s: i64, bounds: &Bounds) -> bool {
        let moved = SignedDuration::from_secs(self.ahead_s.saturating_sub(ahead_s)).abs();
        since(&self.since, now).is_some() && moved <= bounds.max_jump
    }
}

/// The time from a moment to a later one of the same boot.
fn since(then: &Moment, now: &Moment) -> Option<SignedDuration> {
    let passed = now.uptime_ms.checked_sub(then.uptime_ms);
    passed.filter(|_| then.boot == now.boot).map(millis)
}

/// The time that the anchor has come to, which follows the wall clock only as fast as a clock may drift.
fn followed(anchor: &Anchor, passed: SignedDuration, wall: Timestamp) -> Timestamp {
    let expected = later(anchor.time, passed);
    let most = passed / MOST_DRIFT;
    later(expected, wall.duration_since(expected).clamp(-most, most))
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    let bound = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(by).unwrap_or(bound)
}

fn millis(ms: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// An instant without the part of a second, for people.
fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// A long time for people, in the largest unit of which it has two.
struct Span(SignedDuration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (size, name) = [(86_400, "days"), (3600, "hours"), (60, "minutes")]
            .into_iter()
            .find(|(size, _)| seconds >= 2 * size)
            .unwrap_or((1, "seconds"));
        write!(f, "{} {name}", (seconds + size / 2) / size)
    }
}

#[cfg(test)]
mod tests;
