//! Scenarios: what a seed stands for, how it is written so that it replays, and how a failing one is made smaller.

use std::fmt;

use asat_core::guard::Rung;

use crate::dice::Dice;

/// Everything that decides a run besides the dice of its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What the dice begin with.
    pub seed: u64,
    /// How many stores there are, each on a volume of its own.
    pub stores: u64,
    /// How many of them, the last ones, lie in the thin pool.
    pub thin: u64,
    /// How long it lasts.
    pub minutes: u64,
    /// How often somebody writes much and publishes.
    pub episodes: u64,
    /// How many versions somebody reads or pins.
    pub readers: u64,
    /// How often something goes wrong: commands fail or hang, space is taken by others, the daemon dies.
    pub faults: u64,
    /// The free space of the group, in MiB.
    pub room: u64,
    /// Of how many versions of a store the snapshot is kept although they are archived.
    pub keep: u64,
    /// Whether a version may be given up so that a younger one lives on.
    pub space_first: bool,
    /// Whether the guard looks at every tick, even if nothing can have changed.
    pub every_look: bool,
    /// Whether the records are kept by the real catalogue.
    pub catalogue: bool,
    /// Which rungs the guard may take, the first in the lowest bit: without one, the checks must find what is lost.
    pub ladder: u64,
}

const KEYS: [&str; 12] = [
    "stores",
    "thin",
    "minutes",
    "episodes",
    "readers",
    "faults",
    "room",
    "keep",
    "space_first",
    "every_look",
    "catalogue",
    "ladder",
];

impl Scenario {
    /// Every rung of the ladder.
    pub const WHOLE_LADDER: u64 = (1 << Rung::ALL.len()) - 1;

    /// The rungs that the guard may take.
    #[must_use]
    pub fn rungs(&self) -> Vec<Rung> {
        let rungs = Rung::ALL.into_iter().enumerate();
        rungs.filter(|(bit, _)| self.ladder >> bit & 1 == 1).map(|(_, rung)| rung).collect()
    }

    /// The scenario of a seed: mostly minutes at full speed, some days, a few years.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x5ce4_a210);
        let kind = dice.below(100);
        let minutes = match kind {
            0..55 => dice.between(1, 30),
            55..85 => dice.between(30, 3 * 24 * 60),
            85..97 => dice.between(3 * 24 * 60, 30 * 24 * 60),
            _ => dice.between(30 * 24 * 60, 4 * 365 * 24 * 60),
        };
        let stores = dice.between(1, 4);
        Self {
            seed,
            stores,
            thin: if dice.percent(35) { dice.between(1, stores) } else { 0 },
            minutes,
            episodes: dice.between(
                1,
                match kind {
                    0..55 => 6,
                    55..97 => 12,
                    _ => 60,
                },
            ),
            readers: dice.below(5),
            faults: if dice.percent(50) { 0 } else { dice.between(1, 6) },
            room: match dice.below(10) {
                0..3 => dice.between(0, 2 << 10),
                3..6 => dice.between(1 << 10, 16 << 10),
                _ => dice.between(64 << 10, 1 << 20),
            },
            keep: if dice.percent(70) { 0 } else { dice.between(1, 3) },
            space_first: dice.percent(30),
            every_look: minutes <= 3 && dice.percent(25),
            catalogue: dice.percent(4),
            ladder: Self::WHOLE_LADDER,
        }
    }

    /// The same with some values replaced, as `minutes=3,faults=0`.
    ///
    /// # Errors
    /// The part that is no value of a scenario.
    pub fn with(mut self, values: &str) -> Result<Self, String> {
        for part in values.split(',').filter(|part| !part.is_empty()) {
            let parsed = part.split_once('=').and_then(|(key, value)| Some((key, value.parse().ok()?)));
            let Some((key, value)) = parsed else { return Err(part.to_owned()) };
            if !self.set(key, value) {
                return Err(part.to_owned());
            }
        }
        Ok(self)
    }

    fn set(&mut self, key: &str, value: u64) -> bool {
        match key {
            "stores" => self.stores = value.clamp(1, 8),
            "thin" => self.thin = value,
            "minutes" => self.minutes = value.max(1),
            "episodes" => self.episodes = value,
            "readers" => self.readers = value,
            "faults" => self.faults = value,
            "room" => self.room = value,
            "keep" => self.keep = value,
            "space_first" => self.space_first = value > 0,
            "every_look" => self.every_look = value > 0,
            "catalogue" => self.catalogue = value > 0,
            "ladder" => self.ladder = value,
            _ => return false,
        }
        true
    }

    fn get(&self, key: &str) -> u64 {
        match key {
            "stores" => self.stores,
            "thin" => self.thin,
            "minutes" => self.minutes,
            "episodes" => self.episodes,
            "readers" => self.readers,
            "faults" => self.faults,
            "room" => self.room,
            "keep" => self.keep,
            "space_first" => self.space_first.into(),
            "every_look" => self.every_look.into(),
            "catalogue" => self.catalogue.into(),
            _ => self.ladder,
        }
    }

    /// Scenarios that are smaller by one step: fewer stores, shorter, fewer faults.
    #[must_use]
    pub fn smaller(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for key in KEYS.into_iter().filter(|key| !matches!(*key, "room" | "every_look" | "ladder")) {
            let value = self.get(key);
            for less in [0, value / 2, value.saturating_sub(1)] {
                let mut smaller = self.clone();
                smaller.set(key, less);
                if smaller.get(key) < value && !found.contains(&smaller) {
                    found.push(smaller);
                }
            }
        }
        found
    }
}

impl fmt::Display for Scenario {
    /// As it is given to the program again: the seed, and what differs from the seed's own scenario.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SEED={}", self.seed)?;
        let own = Self::of(self.seed);
        let differs = KEYS.into_iter().filter(|key| self.get(key) != own.get(key));
        let values: Vec<String> = differs.map(|key| format!("{key}={}", self.get(key))).collect();
        if values.is_empty() { Ok(()) } else { write!(f, " SIM={}", values.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_as_it_is_written() {
        for seed in 0..100 {
            let scenario = Scenario::of(seed);
            assert_eq!(scenario.to_string(), format!("SEED={seed}"));
            for smaller in scenario.smaller() {
                let text = smaller.to_string();
                let values = text.split_once("SIM=").unwrap().1;
                assert_eq!(Scenario::of(seed).with(values), Ok(smaller));
            }
        }
        for bad in ["minutes", "minutes=x", "hours=3", "faults=-1"] {
            assert_eq!(Scenario::of(1).with(bad), Err(bad.to_owned()));
        }
    }
}
