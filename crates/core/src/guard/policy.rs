//! The guard's policy: what it may do, in which order, and what it assumes before it has seen anything.

use serde::{Deserialize, Serialize};

/// A step of the ladder: what the guard does about space that runs short. The order of the declaration is the
/// one in which they are taken by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Give a snapshot or a pool more of its group's free space.
    Extend,
    /// Drop the snapshot of a version that is in the archive as well, and that nobody needs.
    Demote,
    /// Bring the oldest version that is only in a snapshot into the archive, before other work.
    Hurry,
    /// Hold the writes to an origin for a bounded time, while the others finish.
    Brake,
    /// Give a version up that retention would keep.
    Retire,
    /// Take no new publications where they would make it worse.
    Refuse,
    /// Tell an administrator.
    Alarm,
}

impl Rung {
    /// Every rung, in its default order.
    pub const ALL: [Self; 7] =
        [Self::Extend, Self::Demote, Self::Hurry, Self::Brake, Self::Retire, Self::Refuse, Self::Alarm];

    /// The rung as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Extend => "extend",
            Self::Demote => "demote",
            Self::Hurry => "hurry",
            Self::Brake => "brake",
            Self::Retire => "retire",
            Self::Refuse => "refuse",
            Self::Alarm => "alarm",
        }
    }
}

/// What the configuration says about the guard. Times are in milliseconds, sizes in bytes, rates in bytes a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rungs that may be taken, in the order of their precedence. One that is left out is never taken.
    pub ladder: Vec<Rung>,
    /// Whether a version that retention would keep may be given up so that a younger classic snapshot lives on.
    /// A thin pool that fills harms its origin, so there the origin goes first in any case.
    pub space_before_retention: bool,
    /// The shortest time between two looks.
    pub shortest_tick_ms: u64,
    /// The longest time between two looks.
    pub longest_tick_ms: u64,
    /// How fast an origin is taken to be written, at the least, however quiet it has been.
    pub least_rate: u64,
    /// The fastest that any writer can be: what the devices take beside a snapshot. It decides how often the guard
    /// looks, and what is left at the least, so that a writer of whom nothing was foreseen is held in time.
    pub full_rate: u64,
    /// After this time, half of a fastest rate or of a longest latency that was seen is forgotten.
    pub half_life_ms: u64,
    /// How long an extension takes, before one was seen. Twice the longest is planned with.
    pub first_latency_ms: u64,
    /// How long an extension takes at the least, however quick the last ones were.
    pub least_latency_ms: u64,
    /// For how long an extension lasts at the fastest rate, beyond what makes its target safe.
    pub lasting_ms: u64,
    /// The longest that writes are held at a time.
    pub brake_ms: u64,
    /// How long it takes from a look until writes are held.
    pub brake_latency_ms: u64,
    /// The least free space under archive and catalogue.
    pub least_folder_free: u64,
}

impl Policy {
    /// Which of the two holds where there is no space for all that is kept: the sentence that people are shown.
    #[must_use]
    pub fn precedence(&self) -> &'static str {
        if !self.ladder.contains(&Rung::Retire) {
            return "retention before space: no version is ever given up for space";
        }
        if self.space_before_retention {
            return "space before retention: if a snapshot or a thin pool would fill and nothing else helps, the oldest \
                    version that nobody holds is given up";
        }
        "retention before space: no version is given up so that another one's snapshot lives on; only if a thin pool \
         would fill, which harms the store itself, the oldest version in it that nobody holds is given up"
    }
}

impl Default for Policy {
    /// Safe on an ordinary machine. The first latency is the longest that was measured with LVM 2.03 while an
    /// unthrottled writer ran (0.7 to 1.7 s). The full rate is half as much again as was measured beside one
    /// snapshot (508 MiB/s).
    fn default() -> Self {
        Self {
            ladder: Rung::ALL.to_vec(),
            space_before_retention: false,
            shortest_tick_ms: 20,
            longest_tick_ms: 1000,
            least_rate: 4 << 20,
            full_rate: 768 << 20,
            half_life_ms: 6 * 60 * 60 * 1000,
            first_latency_ms: 1700,
            least_latency_ms: 200,
            lasting_ms: 8000,
            brake_ms: 2000,
            brake_latency_ms: 50,
            least_folder_free: 64 << 20,
        }
    }
}
