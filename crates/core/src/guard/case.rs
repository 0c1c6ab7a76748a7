//! Cases: each thing that fills and can be extended, judged by its worst case.
//!
//! A case is safe while `used + fastest rate × (longest tick + n × latency) < size`: extensions follow one
//! another, so each of the `n` that may be extended must be able to wait until all others were. It is urgent
//! once `used + rate of the last second × latency ≥ size`: then not even the next extension would come in time; and
//! once the rate of the moment would fill it before the writer could be held at the look after this one.

use std::collections::{BTreeMap, BTreeSet};

use super::action::{Assessment, Level};
use super::memory::Memory;
use super::observation::{HotVersion, Observation, PoolMode, PoolSeen, SnapshotSeen};
use super::pace::{Rates, lasts, within};
use super::policy::{Policy, Rung};
use super::target::Target;
use super::text::{Size, Span};

/// The largest metadata that every LVM and every kernel uses, in bytes: 15.81 GiB, the bound of older versions of
/// LVM (`allocation/thin_pool_crop_metadata` in lvm.conf(5)). The kernel itself stops at 15.88 GiB.
const MOST_METADATA: u64 = 16_189 << 20;

/// What a mapping takes in metadata, in bytes, if many are written in a row; and the most that it adds between one snapshot and the
/// next. It is the measure that LVM sizes metadata by (lvmthin(7)); the kernel's guide is 48
/// (`Documentation/admin-guide/device-mapper/thin-provisioning.rst`).
///
/// Why it is the most: each leaf of a volume's tree of mappings is copied at most once after a snapshot. A leaf of 4 KiB has
/// 126 to 252 mappings, so a mapping costs up to 33 bytes in it. The block that it leads to may be counted in the tree of
/// reference counts, where a leaf has 168 to 336 of them: up to 25 bytes.
const METADATA_OF_A_MAPPING: u64 = 64;

/// What a block costs that is written by itself, in bytes. The first write after a snapshot copies the leaf of the
/// tree of mappings that they share, and the nodes above it: ten such blocks took 20 metadata blocks of 4 KiB, and a
/// thousand 81, which is 332 bytes each.
const METADATA_BY_ITSELF: u64 = 512;

/// How much is written here and there at the most, in bytes a second: 16,384 writes of 4 KiB, each of which takes a
/// block of its own. Twice as many as were measured on a thin volume; who writes faster writes in a row, or is seen
/// by how fast the metadata fills.
const SCATTERED_RATE: u64 = 64 << 20;

/// The size of such a write.
const SCATTERED_WRITE: u64 = 4 << 10;

/// LVM takes no new snapshots from 75 % of metadata on (lvmthin(7)); so no more than seven tenths of it are used.
const METADATA_TENTHS: u64 = 7;

/// The times that all cases are judged by, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margins {
    /// How long one extension may take.
    pub(super) latency: u64,
    /// How long it may take until this target was looked at and all were extended.
    pub(super) horizon: u64,
    /// How long it takes until writes are held: the shortest time to the next look, and then that.
    pub(super) brake: u64,
    /// For how long an extension is to last beyond that.
    pub(super) lasting: u64,
}

/// What a case is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Snapshot(&'a SnapshotSeen),
    Data(&'a PoolSeen),
    Metadata(&'a PoolSeen),
}

/// What would be harmed: an origin, a version, somebody who reads it, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Metadata,
    Data,
    /// A snapshot of a version that nothing else holds.
    Only,
    /// A snapshot of an archived version that somebody needs.
    Needed,
    /// Any other snapshot.
    Kept,
}

/// Something that fills.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub(super) target: Target,
    pub(super) kind: Kind<'a>,
    pub(super) group: &'a str,
    pub(super) used: u64,
    pub(super) size: u64,
    /// The size beyond which it need not or cannot grow.
    pub(super) most: u64,
    pub(super) rates: Rates,
    /// What is used, at the rate of the moment, before an extension takes effect or its writer is held.
    soon: u64,
    /// What a writer at the devices' full rate adds before it is held.
    reach: u64,
    pub(super) level: Level,
    /// Whether it fills at this moment: it is urgent, or another snapshot of the same origin is.
    fills: bool,
    /// Whether it can be extended at all.
    pub(super) growable: bool,
    /// The size that it is given.
    pub(super) to: u64,
    /// Whether it is given that later, after the pause that follows a failure.
    pub(super) later: bool,
}

/// Every case, in the order of precedence: what harms an origin, then versions that nothing else holds, then those
/// that are read, then the others; of each kind first what fills now, then the oldest. The rest only may.
pub(super) fn cases<'a>(policy: &Policy, memory: &Memory, seen: &'a Observation) -> (Margins, Vec<Case<'a>>) {
    let pools = seen.pools.iter().flat_map(|pool| [Kind::Metadata(pool), Kind::Data(pool)]);
    let kinds = pools.chain(seen.snapshots.iter().map(Kind::Snapshot));
    let mut known = BTreeSet::new();
    let mut cases: Vec<Case<'a>> =
        kinds.map(|kind| Case::new(kind, memory)).filter(|case| known.insert(case.target.clone())).collect();
    let latency = memory.latency_ms(policy, seen.at_ms);
    let growable = cases.iter().filter(|case| case.growable).count().max(1);
    let all = latency.saturating_mul(u64::try_from(growable).unwrap_or(u64::MAX));
    let horizon = memory.tick_ms(policy, seen.at_ms).saturating_add(all);
    let brake = policy.shortest_tick_ms.saturating_add(policy.brake_latency_ms);
    let margins = Margins { latency, horizon, brake, lasting: policy.lasting_ms.max(all) };
    for case in &mut cases {
        case.judge(policy, memory, seen.at_ms, margins);
    }
    let urgent = cases.iter().filter(|case| case.level == Level::Urgent);
    let written: BTreeSet<&str> = urgent.filter_map(Case::origin).collect();
    // The pace to come of one snapshot of an origin is that of all: what is written for the first time is copied to each.
    let mut paces: BTreeMap<&str, u64> = BTreeMap::new();
    for case in &cases {
        if let Some(origin) = case.origin().filter(|origin| written.contains(origin)) {
            let pace = paces.entry(origin).or_default();
            *pace = case.rates.fastest.max(case.rates.momentary).max(*pace);
        }
    }
    for case in &mut cases {
        let pace = case.origin().and_then(|origin| paces.get(origin));
        if let Some(pace) = pace {
            case.rates.fastest = *pace;
            case.level = case.level(margins);
        }
        case.fills = case.level == Level::Urgent || pace.is_some() && case.level == Level::Low;
    }
    cases.sort_by(|a, b| a.precedence().cmp(&b.precedence()));
    (margins, cases)
}

impl<'a> Case<'a> {
    fn new(kind: Kind<'a>, memory: &Memory) -> Self {
        let (target, group, used, size, most, growable) = match kind {
            Kind::Snapshot(seen) => {
                let target = Target::Snapshot(seen.version.id.clone());
                let name = seen.version.id.to_string();
                let leaving =
                    [Rung::Demote, Rung::Retire].iter().any(|rung| memory.is_under_way(*rung, &name));
                let growable = !leaving && seen.size < seen.most;
                (target, &seen.group, seen.used, seen.size, seen.most, growable)
            }
            Kind::Data(seen) => {
                let target = Target::PoolData(seen.id.clone());
                let growable = seen.may_grow && !seen.is_broken();
                // One that has run out can, whatever is known of what is in it.
                let is_out = seen.mode == PoolMode::OutOfDataSpace && seen.data_size >= seen.data_most;
                let most = if is_out { u64::MAX } else { seen.data_most };
                let growable = growable && seen.data_size < most;
                (target, &seen.group, seen.data_used, seen.data_size, most, growable)
            }
            Kind::Metadata(seen) => {
                let target = Target::PoolMetadata(seen.id.clone());
                let (used, size) = (seen.metadata_used, seen.metadata_size);
                // A pool whose metadata was full takes writes again once it is larger.
                let mendable = !seen.is_broken() || seen.is_out_of_metadata();
                let growable = seen.may_grow && mendable && size < MOST_METADATA;
                (target, &seen.group, used, size, MOST_METADATA, growable)
            }
        };
        let (rates, level, to) = (Rates::default(), Level::Safe, size);
        let later = false;
        Self {
            target,
            kind,
            group,
            used,
            size,
            most,
            rates,
            soon: used,
            reach: 0,
            level,
            fills: false,
            growable,
            to,
            later,
        }
    }

    /// What goes first where there is not enough for all.
    fn precedence(&self) -> impl Ord + '_ {
        (self.class(), self.version().map(HotVersion::age), &self.target)
    }

    /// Those of one class share what there is: they are as bad as one another, and all of them fill now, or none does.
    pub(super) fn class(&self) -> (Rank, bool) {
        (self.rank(), !self.fills)
    }

    /// How bad it would be if it were full, the worst first.
    pub(super) fn rank(&self) -> Rank {
        match self.kind {
            Kind::Metadata(_) => Rank::Metadata,
            Kind::Data(_) => Rank::Data,
            Kind::Snapshot(seen) if !seen.version.archived => Rank::Only,
            Kind::Snapshot(seen) if seen.version.needed => Rank::Needed,
            Kind::Snapshot(_) => Rank::Kept,
        }
    }

    /// The version that it holds, where it is a snapshot.
    pub(super) fn version(&self) -> Option<&'a HotVersion> {
        match self.kind {
            Kind::Snapshot(seen) => Some(&seen.version),
            Kind::Data(_) | Kind::Metadata(_) => None,
        }
    }

    /// The origin whose writes fill it, where it is a snapshot.
    pub(super) fn origin(&self) -> Option<&'a str> {
        match self.kind {
            Kind::Snapshot(seen) => Some(&seen.origin),
            Kind::Data(_) | Kind::Metadata(_) => None,
        }
    }

    /// Its pool, where it belongs to one.
    pub(super) fn pool(&self) -> Option<&'a PoolSeen> {
        match self.kind {
            Kind::Snapshot(_) => None,
            Kind::Data(seen) | Kind::Metadata(seen) => Some(seen),
        }
    }

    /// Whether somebody would miss it.
    pub(super) fn is_precious(&self) -> bool {
        self.version().is_none_or(|version| !version.is_demotable())
    }

    fn judge(&mut self, policy: &Policy, memory: &Memory, now_ms: u64, margins: Margins) {
        let growth = memory.growth(policy, &self.target, now_ms);
        self.rates = self.written(policy, memory, now_ms).join(growth, u64::max);
        // Twice the time to the brake: at its first step a writer is seen for a part of the time only.
        let until_extended = within(self.rates.current, margins.latency);
        let until_held = within(self.rates.momentary, margins.brake.saturating_mul(2));
        self.soon = self.used.saturating_add(until_extended.max(until_held)).min(self.ceiling());
        // For data space, writes wait by themselves.
        self.reach = match self.kind {
            Kind::Data(_) => 0,
            Kind::Snapshot(_) | Kind::Metadata(_) => within(self.fastest(policy.full_rate), margins.brake),
        };
        // A snapshot gives back what it was given too much, so there the first step counts as the pace to come.
        if matches!(self.kind, Kind::Snapshot(_)) && self.soon >= self.size {
            self.rates.fastest = self.rates.fastest.max(self.rates.momentary);
        }
        self.level = self.level(margins);
    }

    /// The rates that follow from the writes to its origins.
    fn written(&self, policy: &Policy, memory: &Memory, now_ms: u64) -> Rates {
        let together = |pool: &PoolSeen| {
            let rates = pool.origins.iter().map(|origin| memory.written(policy, origin, now_ms));
            let sum = rates.fold(Rates::default(), |sum, one| sum.join(one, u64::saturating_add));
            Rates { fastest: sum.fastest.max(policy.least_rate), ..sum }
        };
        match self.kind {
            Kind::Snapshot(seen) => memory.written(policy, &seen.origin, now_ms).map(with_records),
            Kind::Data(pool) => together(pool),
            Kind::Metadata(pool) => together(pool).map(|rate| {
                let in_a_row = rate.div_ceil(pool.block.max(1)).saturating_mul(METADATA_OF_A_MAPPING);
                scattered(rate).saturating_add(in_a_row)
            }),
        }
    }

    /// How fast it fills where its origin is written as fast as the devices can, in bytes a second. Writes wait by
    /// themselves for data space, so there it is the rate that is expected. Who writes as fast as that writes blocks in a row, for which
    /// the guide's measure of metadata holds; who writes here and there writes less, and fills metadata faster.
    pub(super) fn fastest(&self, full_rate: u64) -> u64 {
        match self.kind {
            Kind::Snapshot(_) => self.rates.fastest.max(with_records(full_rate)),
            Kind::Data(_) => self.rates.fastest,
            Kind::Metadata(pool) => {
                let in_a_row = (full_rate / pool.block.max(1)).saturating_mul(METADATA_OF_A_MAPPING);
                self.rates.fastest.max(in_a_row).max(scattered(full_rate))
            }
        }
    }

    fn level(&self, margins: Margins) -> Level {
        let pool_is_over = self.pool().is_some_and(PoolSeen::is_broken);
        let is_out = matches!(self.kind, Kind::Data(pool) if pool.mode == PoolMode::OutOfDataSpace);
        if pool_is_over {
            Level::Lost
        } else if is_out {
            Level::Urgent
        } else if self.size >= self.most || self.demand(margins.horizon) < self.size {
            Level::Safe
        } else if self.soon >= self.size {
            Level::Urgent
        } else {
            Level::Low
        }
    }

    /// What may be used after so many milliseconds, in bytes, or before a writer at the devices' full rate is held:
    /// where there is space, its size is to be larger.
    pub(super) fn demand(&self, ms: u64) -> u64 {
        self.must(ms).max(self.used.saturating_add(self.reach))
    }

    /// What may be used after so many milliseconds at the fastest rate that is expected, in bytes: where its size is
    /// not larger, something must be done.
    pub(super) fn must(&self, ms: u64) -> u64 {
        let fastest = self.used.saturating_add(within(self.rates.fastest, ms));
        let written = fastest.min(self.ceiling()).max(self.soon);
        match self.kind {
            Kind::Metadata(_) => written.max(self.used.saturating_mul(10) / METADATA_TENTHS),
            // Whatever the numbers say, it is full.
            Kind::Data(pool) if pool.mode == PoolMode::OutOfDataSpace => written.max(self.size),
            Kind::Snapshot(_) | Kind::Data(_) => written,
        }
    }

    /// What can be used before the next snapshot is taken, however fast its writers are, in bytes. A pool's data grows by the volumes that
    /// are written, each of whose blocks takes another one at most once after a snapshot, and its metadata by the mappings of these; a snapshot by
    /// itself adds next to nothing, and is seen at the next look.
    fn ceiling(&self) -> u64 {
        match self.kind {
            Kind::Metadata(pool) => {
                let mappings = pool.writable / pool.block.max(1);
                self.used.saturating_add(mappings.saturating_mul(METADATA_OF_A_MAPPING))
            }
            Kind::Data(pool) => self.used.saturating_add(pool.writable),
            Kind::Snapshot(_) => u64::MAX,
        }
    }

    /// Whether so little is left, whatever the rates are, that a version may be given up for it: a tenth of metadata, and
    /// a twentieth of anything else. Rates are estimates, and a version is gone for good.
    pub(super) fn is_nearly_full(&self) -> bool {
        let part = if matches!(self.kind, Kind::Metadata(_)) { 10 } else { 20 };
        self.size.saturating_sub(self.used) <= self.size / part
    }

    /// Whether it needs to be extended.
    pub(super) fn is_in_need(&self) -> bool {
        match self.level {
            Level::Safe => false,
            Level::Low | Level::Urgent => true,
            Level::Lost => self.growable,
        }
    }

    /// How it stands, in numbers and in words.
    pub(super) fn assessment(&self, margins: Margins) -> Assessment {
        let never = self.level == Level::Lost || self.size >= self.most;
        let full_in_ms =
            if never { None } else { lasts(self.size.saturating_sub(self.used), self.rates.fastest) };
        let worst = self.demand(margins.horizon);
        let (used, size) = (Size(self.used), Size(self.size));
        let fill = format!("{used} of {size} used");
        let reason = match (self.level, self.kind) {
            (Level::Lost, Kind::Data(pool) | Kind::Metadata(pool)) => format!("{fill}: {}", pool.trouble()),
            (Level::Urgent, Kind::Data(pool)) if pool.mode == PoolMode::OutOfDataSpace => {
                format!("{fill}: writes wait for space, and fail after a minute")
            }
            (Level::Safe, _) if never => format!("{fill}: it cannot overflow at this size"),
            (level, _) => format!(
                "{fill}; at up to {}/s it may be {} within {}: {}",
                Size(self.rates.fastest),
                Size(worst),
                Span(margins.horizon),
                level.text()
            ),
        };
        let (target, level, rate) = (self.target.clone(), self.level, self.rates.fastest);
        Assessment { target, level, used: self.used, size: self.size, rate, worst, full_in_ms, reason }
    }
}

/// The size in bytes at which a classic snapshot that is about to be taken lasts in comfort beside the others, so that
/// nothing needs to be done about it at once.
pub(super) fn first_size(policy: &Policy, memory: &Memory, origin: &str, others: u64, now_ms: u64) -> u64 {
    let fastest = memory.written(policy, origin, now_ms).fastest;
    let all = memory.latency_ms(policy, now_ms).saturating_mul(others.saturating_add(1));
    let ms = memory.tick_ms(policy, now_ms).saturating_add(all).saturating_add(policy.lasting_ms.max(all));
    within(with_records(fastest), ms).saturating_add(1)
}

/// What writes here and there add to a pool's metadata.
fn scattered(rate: u64) -> u64 {
    rate.min(SCATTERED_RATE) / SCATTERED_WRITE * METADATA_BY_ITSELF
}

/// What writes to an origin add to its classic snapshots. A record of 16 bytes for each chunk of 4 KiB is a part in
/// 256; an eighth is ample.
fn with_records(rate: u64) -> u64 {
    rate.saturating_add(rate / 8)
}
