//! Sharing: how a group's free extents are divided among those that need some.
//!
//! First everybody gets what makes it safe, in the order of precedence; only what is left after that, and after a
//! reserve for those that are still safe, goes into comfort. So two that need the last extents at once are both
//! served before either gets more than it must have.

use std::collections::{BTreeMap, BTreeSet};

use super::action::Level;
use super::case::{Case, Margins, Rank};
use super::memory::FAILING;
use super::memory::Memory;
use super::observation::Observation;
use super::pace::within;
use super::policy::Rung;
use super::target::Target;

/// The free space of a group, and what is asked of it. All in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) free: u64,
    extent: u64,
    /// What may be needed on top of what was granted, so that everything lasts in comfort.
    pub(super) reserve: u64,
}

/// What is not to be touched of a group's free space, in bytes.
type Spared<'a> = BTreeMap<&'a str, u64>;

fn of(spared: &Spared<'_>, group: &str) -> u64 {
    spared.get(group).copied().unwrap_or(0)
}

/// The room in every group.
pub(super) struct Rooms<'a>(BTreeMap<&'a str, Room>);

impl<'a> Rooms<'a> {
    pub(super) fn new(seen: &'a Observation, margins: Margins, cases: &[Case<'a>]) -> Self {
        let mut rooms = BTreeMap::new();
        for group in &seen.groups {
            let room = Room { free: group.free, extent: group.extent.max(1), reserve: 0 };
            rooms.entry(group.id.as_str()).or_insert(room);
        }
        let mut rooms = Self(rooms);
        rooms.reckon(margins, cases.iter());
        rooms
    }

    /// Reckons the reserve that these must have: what each may still need to last in comfort.
    fn reckon<'c>(&mut self, margins: Margins, cases: impl Iterator<Item = &'c Case<'a>>)
    where
        'a: 'c,
    {
        self.0.values_mut().for_each(|room| room.reserve = 0);
        for case in cases.filter(|case| case.growable && case.is_precious()) {
            let comfort = self.comfort(case, margins);
            if let Some(room) = self.0.get_mut(case.group) {
                room.reserve = room.reserve.saturating_add(comfort.saturating_sub(case.to));
            }
        }
    }

    /// The room in a group; none in one that was not seen.
    pub(super) fn of(&self, group: &str) -> Room {
        self.0.get(group).copied().unwrap_or_default()
    }

    /// Divides the free space: sets what each case is extended to.
    pub(super) fn divide(&mut self, memory: &Memory, now_ms: u64, margins: Margins, cases: &mut [Case<'a>]) {
        for case in cases.iter_mut() {
            // What is under way will be taken, whether or not it can be seen yet.
            if let Some(to) = memory.extending(&case.target) {
                self.take(case.group, to.saturating_sub(case.size));
                case.to = case.to.max(to);
            }
        }
        self.reckon(margins, cases.iter().filter(|case| !case.is_in_need()));
        let (mut served, mut ahead) = (BTreeMap::new(), Spared::new());
        for equals in cases.chunk_by_mut(|one, next| one.class() == next.class()) {
            // What would harm nobody but readers leaves alone what others may need yet, or a version is lost for that.
            let is_last = equals.iter().all(|case| case.rank() >= Rank::Needed);
            let spared = if is_last { ahead.clone() } else { Spared::new() };
            served.append(&mut self.serve(memory, now_ms, margins, equals, &spared));
            for case in equals.iter().filter(|case| case.growable && !is_last) {
                let comfort = self.comfort(case, margins).saturating_sub(case.to);
                let ahead = ahead.entry(case.group).or_default();
                *ahead = ahead.saturating_add(comfort);
            }
        }
        for case in cases.iter_mut() {
            let Some(failures) = served.get(&case.target) else { continue };
            let room = self.of(case.group);
            let comfort = self.comfort(case, margins);
            let step = comfort.saturating_sub(case.size).saturating_mul(1 + u64::from(*failures));
            let most = room.up(case.most.saturating_sub(case.size));
            let more = step.min(most).saturating_sub(case.to.saturating_sub(case.size));
            let taken = self.take(case.group, more.min(room.free.saturating_sub(room.reserve)));
            case.to = case.to.saturating_add(taken);
        }
        self.reckon(margins, cases.iter());
    }

    /// Gives those of one rank what makes them safe, where there is so much, and levels the others. Answers who has got all,
    /// and how often in a row it could not be extended.
    fn serve(
        &mut self,
        memory: &Memory,
        now_ms: u64,
        margins: Margins,
        equals: &mut [Case<'a>],
        spared: &Spared<'a>,
    ) -> BTreeMap<Target, u32> {
        let (mut served, mut short) = (BTreeMap::new(), Vec::new());
        let crowded = self.crowded(margins, equals, spared);
        for case in equals.iter_mut().filter(|case| case.growable && case.is_in_need()) {
            let name = case.target.to_string();
            let room = self.of(case.group);
            let failures = memory.failures(Rung::Extend, &name).0;
            case.later = match case.level {
                Level::Urgent => !memory.may_begin_soon(Rung::Extend, &name, now_ms),
                _ => !memory.may_begin(Rung::Extend, &name, now_ms),
            };
            // What one under way does not bring comes with the next.
            let asked = self.wanted(case, margins.horizon).saturating_sub(case.to);
            if !case.is_precious() && asked > room.free.saturating_sub(room.reserve) {
                // Rather than take what others may need, it goes.
                continue;
            }
            let wanted = escalated(asked, failures).max(room.extent.min(asked));
            let shares = case.origin().is_some_and(|origin| crowded.contains(origin));
            if shares || wanted > room.free.saturating_sub(of(spared, case.group)) {
                short.push((case, wanted));
                continue;
            }
            let taken = self.take(case.group, wanted);
            case.to = case.to.saturating_add(taken);
            if taken > 0 && taken >= asked && failures < FAILING {
                served.insert(case.target.clone(), failures);
            }
        }
        self.level(margins, short, spared);
        served
    }

    /// The origins for whose snapshots there is not enough together. They fill all of them at once, so none is made safe
    /// at the cost of the others.
    fn crowded(&self, margins: Margins, equals: &[Case<'a>], spared: &Spared<'a>) -> BTreeSet<&'a str> {
        let mut asked: BTreeMap<&'a str, (u64, &'a str)> = BTreeMap::new();
        for case in equals.iter().filter(|case| case.growable && case.is_in_need() && case.is_precious()) {
            let Some(origin) = case.origin() else { continue };
            let (bytes, _) = asked.entry(origin).or_insert((0, case.group));
            *bytes = bytes.saturating_add(self.wanted(case, margins.horizon).saturating_sub(case.to));
        }
        let free = |group: &str| self.of(group).free.saturating_sub(of(spared, group));
        let crowded = asked.into_iter().filter(|(_, (bytes, group))| *bytes > free(group));
        crowded.map(|(origin, _)| origin).collect()
    }

    /// Divides what is left among those that there is not enough for, each with what it wants: so that all of a group last
    /// equally long, and then what is left over in their order.
    fn level(&mut self, margins: Margins, mut short: Vec<(&mut Case<'a>, u64)>, spared: &Spared<'a>) {
        let groups: BTreeSet<&'a str> = short.iter().map(|(case, _)| case.group).collect();
        for group in groups {
            let share = |rooms: &Self, case: &Case<'_>, wanted: u64, ms: u64| {
                let lasting = case.used.saturating_add(within(case.rates.fastest, ms));
                rooms.above(case, lasting).saturating_sub(case.to).min(wanted)
            };
            let spared = of(spared, group);
            let (free, mut ms) = (self.of(group).free.saturating_sub(spared), (0, margins.horizon));
            while ms.0 < ms.1 {
                let middle = ms.0 + (ms.1 - ms.0).div_ceil(2);
                let of_group = short.iter().filter(|(case, _)| case.group == group);
                let shares = of_group.map(|(case, wanted)| share(self, case, *wanted, middle));
                let fits = shares.fold(0, u64::saturating_add) <= free;
                ms = if fits { (middle, ms.1) } else { (ms.0, middle - 1) };
            }
            for ms in [ms.0, u64::MAX] {
                for (case, wanted) in short.iter_mut().filter(|(case, _)| case.group == group) {
                    let free = self.of(group).free.saturating_sub(spared);
                    let taken = self.take(group, share(self, case, *wanted, ms).min(free));
                    case.to = case.to.saturating_add(taken);
                    *wanted = wanted.saturating_sub(taken);
                }
            }
        }
    }

    /// The size, in whole extents on top of what it has, at which a case is safe for so many milliseconds.
    fn wanted(&self, case: &Case<'_>, ms: u64) -> u64 {
        self.above(case, case.demand(ms))
    }

    /// The same so that it stays safe for as long as an extension is to last.
    fn comfort(&self, case: &Case<'_>, margins: Margins) -> u64 {
        let lasting = within(case.rates.fastest, margins.lasting);
        self.above(case, case.demand(margins.horizon).saturating_add(lasting))
    }

    /// The size, in whole extents on top of what it has, that is above a demand, or at which it cannot overflow.
    pub(super) fn above(&self, case: &Case<'_>, demand: u64) -> u64 {
        let needed = demand.saturating_add(1).min(case.most);
        let more = self.of(case.group).up(needed.saturating_sub(case.size));
        case.size.saturating_add(more)
    }

    /// Takes whole extents, as many as there are of those that are asked for.
    fn take(&mut self, group: &str, bytes: u64) -> u64 {
        let Some(room) = self.0.get_mut(group) else { return 0 };
        let taken = bytes.min(room.free) / room.extent * room.extent;
        room.free = room.free.saturating_sub(taken);
        taken
    }
}

impl Room {
    /// So many bytes in whole extents, rounded up where that fits into 64 bits.
    fn up(self, bytes: u64) -> u64 {
        let extent = self.extent.max(1);
        bytes.checked_next_multiple_of(extent).unwrap_or(u64::MAX / extent * extent)
    }

    /// What is missing of the reserve.
    pub(super) fn shortfall(self) -> u64 {
        self.reserve.saturating_sub(self.free)
    }
}

/// What is asked for after so many failures in a row. LVM may refuse a size for which there is space (another
/// took it meanwhile, or its allocation policy finds none in one piece), so from the second failure on less is
/// asked for each time. After the first one the step is doubled, since it comes late.
fn escalated(bytes: u64, failures: u32) -> u64 {
    bytes >> failures.saturating_sub(1).min(63)
}
