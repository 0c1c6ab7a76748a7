//! What comes from outside: volumes, writers, publications, readers, faults, as a scenario and its dice have it.

use std::collections::BTreeMap;

use asat_core::clock::Bounds;
use asat_core::retention::Retention;
use asat_core::snapshot::{BackendKind, Origin as Ground};
use asat_core::{Backing, Policy, StorePolicy};
use jiff::SignedDuration;

use crate::Scenario;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::pool::Pool;
use crate::sim::{Happening, Sim};
use crate::world::{Burst, EXTENT, Origin, World};

const MIB: u64 = 1 << 20;

/// The machine at the beginning, and the configuration.
pub(crate) fn setting(scenario: &Scenario, dice: &mut Dice) -> (World, Policy) {
    let classic = scenario.stores.saturating_sub(scenario.thin);
    let origins: Vec<Origin> =
        (0..scenario.stores).map(|number| origin(number, number >= classic, dice)).collect();
    let mut pool = None;
    if origins.iter().any(|origin| origin.thin) {
        let mapped: u64 = origins.iter().filter(|origin| origin.thin).map(|origin| origin.size / 2).sum();
        let spare = mapped * dice.between(2, 60) / 100;
        let size = (mapped + spare).next_multiple_of(EXTENT) + EXTENT;
        let mut made = Pool::new(size, dice.between(8, 64) * MIB);
        for (index, origin) in origins.iter().enumerate().filter(|(_, origin)| origin.thin) {
            made.add(index, origin.size, origin.size / 2);
        }
        pool = Some(made);
    }
    let stores = origins.iter().map(|origin| {
        let keep_last = dice.percent(40).then(|| format!("the last {}", dice.between(1, 5)));
        let keep_last = keep_last.map(|words| words.parse().unwrap_or_else(|error| unreachable!("{error}")));
        let policy = StorePolicy {
            path: format!("/srv/{}.db", origin.store).into(),
            retention: Retention { keep: keep_last, ..Retention::default() },
            backing: Backing::Volume(ground(origin)),
            keep_snapshots: usize::try_from(scenario.keep).unwrap_or(0),
            unique_labels: false,
            expect: None,
        };
        (origin.store.clone(), policy)
    });
    let (stores, may_demote) = (stores.collect(), true);
    let policy = Policy {
        stores,
        sets: BTreeMap::new(),
        max_copy_bytes: 1 << 40,
        max_ttl_s: 31 * 86_400,
        may_demote,
        // Leases last an hour at the most: a clock that is out by as much as is usually followed would end them unnoticed.
        clock: Bounds { max_jump: SignedDuration::from_mins(2), ..Bounds::default() },
        ..Policy::default()
    };
    let world = World {
        now: 0,
        free: (scenario.room * MIB) / EXTENT * EXTENT,
        origins,
        pool,
        snapshots: std::collections::BTreeMap::new(),
        archive: std::collections::BTreeMap::new(),
        copies: std::collections::BTreeSet::new(),
        archive_pace: dice.pick(&[5_000, 20_000, 50_000, 200_000]),
        powered: true,
    };
    (world, policy)
}

fn origin(number: u64, thin: bool, dice: &mut Dice) -> Origin {
    let size = (256 * MIB) << dice.below(if thin { 5 } else { 8 });
    let store = format!("s{number}").parse().unwrap_or_else(|error| unreachable!("{error}"));
    Origin {
        store,
        id: format!("origin-{number}"),
        size,
        thin,
        written: 0,
        burst: None,
        held: false,
        live: 0,
        store_bytes: size / dice.between(2, 16),
        paced: (0, 0),
    }
}

/// The origin as records have it.
pub(crate) fn ground(origin: &Origin) -> Ground {
    Ground {
        backend: if origin.thin { BackendKind::LvmThin } else { BackendKind::LvmClassic },
        group: "vg".to_owned(),
        volume: origin.id.clone(),
        name: format!("vg/{}", origin.id),
        fs: "ext4".to_owned(),
        inside: "/store.db".into(),
    }
}

impl Sim {
    /// Puts everything that comes from outside into the queue.
    pub(crate) fn write_script(&mut self) {
        let length = self.scenario.minutes * 60_000;
        let mut begins = Vec::new();
        for _ in 0..self.scenario.episodes {
            let begin = self.dice.below(length);
            begins.push(begin);
            if self.scenario.faults > 0 && self.dice.percent(20) {
                self.write_squeeze(begin);
            } else {
                self.write_episode(begin);
            }
        }
        for _ in 0..self.scenario.faults {
            let fault = Fault::any(&mut self.dice);
            // Mostly while something is going on that it could harm.
            let busy = !begins.is_empty() && self.dice.percent(70);
            let at = if busy {
                self.dice.pick(&begins) + self.dice.below(90_000)
            } else {
                self.dice.below(length)
            };
            self.at(at, Happening::Fault(fault));
        }
    }

    /// Stores are published, others take the group's space, and then the stores are written much. What was published may
    /// be pinned, and then nothing is left; otherwise a few extents are.
    fn write_squeeze(&mut self, begin: u64) {
        let pinned = self.dice.percent(50);
        for origin in 0..self.world.origins.len() {
            let (burst, lasting) = self.burst(origin);
            let little = Burst { rate: 1000, ..burst };
            self.at(begin, Happening::Write { origin, burst: Some(little) });
            self.at(begin + 1000, Happening::Publish { origin });
            let seconds = self.dice.between(60, 600).cast_signed();
            for after in [2000, 3000, 5000].into_iter().filter(|_| pinned) {
                self.at(begin + after, Happening::Pin { origin, hot: true, seconds });
            }
            self.at(begin + 6000, Happening::Write { origin, burst: Some(burst) });
            self.at(begin + 6000 + lasting, Happening::Write { origin, burst: None });
        }
        let others = if pinned { Fault::Theft(100) } else { Fault::Leaves(self.dice.between(1, 150)) };
        self.at(begin + 5500, Happening::Fault(others));
    }

    /// Within two minutes, somebody writes, publishes, writes on, and perhaps reads what was published.
    fn write_episode(&mut self, begin: u64) {
        let stores = self.world.origins.len() as u64;
        for _ in 0..self.dice.between(1, 3) {
            let origin = usize::try_from(self.dice.below(stores)).unwrap_or(0);
            let at = begin + self.dice.below(60_000);
            let (burst, lasting) = self.burst(origin);
            self.at(at, Happening::Write { origin, burst: Some(burst) });
            self.at(at + lasting, Happening::Write { origin, burst: None });
            for _ in 0..self.dice.between(1, 3) {
                // Mostly just before or while much is written.
                let early = self.dice.percent(70);
                let publish = if early {
                    at.saturating_sub(5000) + self.dice.below(10_000)
                } else {
                    at + self.dice.below(lasting)
                };
                self.at(publish, Happening::Publish { origin });
            }
        }
        if self.dice.below(self.scenario.episodes) < self.scenario.readers {
            let origin = usize::try_from(self.dice.below(stores)).unwrap_or(0);
            let at = begin + self.dice.between(1000, 180_000);
            let seconds = u32::try_from(self.dice.between(5, 3600)).unwrap_or(5);
            let hot = self.dice.percent(60);
            let happening = match self.dice.below(3) {
                0 => Happening::Pin { origin, hot, seconds: i64::from(seconds) },
                _ => Happening::Read { origin, seconds },
            };
            self.at(at, happening);
        }
    }

    /// Somebody writes at some pace into some part of a volume, for some time.
    fn burst(&mut self, origin: usize) -> (Burst, u64) {
        let Origin { size, thin, .. } = self.world.origins[origin];
        let kib_per_s = match self.dice.below(6) {
            0 => self.dice.between(1, 1000),
            1 => 4096,
            2 => self.dice.between(4 << 10, 40 << 10),
            3 => self.dice.between(40 << 10, 300 << 10),
            // As fast as the devices can.
            _ => 2 << 20,
        };
        let part = size / self.dice.pick(&[1, 1, 4, 16, 64]);
        let from = self.dice.below(size - part + 1) / EXTENT * EXTENT;
        // A volume in a pool begins half written, and may come to be written whole.
        let scattered = thin && self.dice.percent(30);
        // At most 10,000 writes of 4 KiB a second.
        let rate = if scattered { kib_per_s.min(40_000) } else { kib_per_s };
        let burst = Burst { rate: (rate << 10).div_ceil(1000), from, to: from + part, at: from, scattered };
        (burst, self.dice.pick(&[500, 3000, 10_000, 30_000, 120_000]))
    }
}
