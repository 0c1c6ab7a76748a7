//! Faults: what goes wrong, for how long, and whether it excuses a loss.

use std::collections::{BTreeMap, VecDeque};

use asat_core::VersionId;

use crate::Violation;
use crate::dice::Dice;
use crate::hardships;
use crate::sim::{Happening, Sim};
use crate::world::{EXTENT, Volume};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Commands of LVM fail.
    LvmFails,
    /// Commands of LVM hang until their deadline, and may have done their work all the same.
    LvmHangs,
    /// Somebody else takes the group's free space, in hundredths.
    Theft(u64),
    /// Somebody else takes it but for so many extents.
    Leaves(u64),
    /// Somebody removes a snapshot by hand.
    ByHand,
    /// Somebody invalidates a classic snapshot by hand.
    Invalidates,
    /// Somebody switches the pool to read-only.
    PoolReadOnly,
    /// The archive has no room.
    ArchiveFull,
    /// The archive takes ten times as long.
    ArchiveSlow,
    /// The daemon is killed.
    Kill,
    /// The power fails.
    PowerCut,
    /// The daemon is stopped for a while.
    Pause,
    /// The clock is set, by minutes.
    Clock(i64),
}

/// What is wrong at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lvm_fails: u32,
    pub(crate) lvm_hangs: u32,
    pub(crate) archive_full: u32,
    pub(crate) archive_slow: u32,
    pub(crate) stolen: u64,
    pub(crate) paused_until: u64,
    pub(crate) clock_ms: i64,
    /// How often the machine was switched on again, and when it was last.
    pub(crate) boots: u64,
    pub(crate) booted_at: u64,
    /// Since when everything that the guard needs works: the daemon, and LVM.
    pub(crate) well_since: u64,
    /// When the free space of the group changed, and how much it was from then on.
    pub(crate) rooms: VecDeque<(u64, u64)>,
    /// Since when which snapshots could have gone.
    pub(crate) removable_since: BTreeMap<VersionId, u64>,
    /// When a brake last had to wait for a command of LVM.
    pub(crate) waited_at: Option<u64>,
    /// When something that the guard did failed last.
    pub(crate) failed_at: Option<u64>,
}

impl Fault {
    pub(crate) fn any(dice: &mut Dice) -> Self {
        match dice.below(16) {
            0 | 12 => Self::LvmFails,
            1 | 13 => Self::LvmHangs,
            2 => Self::Theft(100),
            3 => Self::Theft(dice.between(50, 99)),
            4 => Self::ByHand,
            14 => Self::Invalidates,
            15 => Self::PoolReadOnly,
            5 => Self::ArchiveFull,
            6 => Self::ArchiveSlow,
            7 | 8 => Self::Kill,
            9 => Self::PowerCut,
            10 => Self::Pause,
            _ => Self::Clock(minutes(i64::try_from(dice.below(240)).unwrap_or(0) - 120)),
        }
    }
}

/// By how much a clock is set: mostly by less than two hours, sometimes by up to ten years.
fn minutes(minutes: i64) -> i64 {
    if minutes % 4 == 0 { minutes * 30 * 24 * 60 } else { minutes }
}

impl Sim {
    pub(crate) fn go_wrong(&mut self, fault: Fault) -> Result<(), Violation> {
        self.glance();
        self.say(|| format!("{fault:?}"));
        self.tally.count("faults");
        let lasting = self.dice.between(1000, 120_000);
        match fault {
            Fault::LvmFails => self.faults.lvm_fails += 1,
            Fault::LvmHangs => self.faults.lvm_hangs += 1,
            Fault::ArchiveFull => self.faults.archive_full += 1,
            Fault::ArchiveSlow => self.faults.archive_slow += 1,
            Fault::Theft(part) => self.steal(self.world.free * part / 100),
            Fault::Leaves(extents) => self.steal(self.world.free.saturating_sub(extents * EXTENT)),
            Fault::ByHand => self.remove_by_hand(),
            Fault::Invalidates => self.invalidate_by_hand(),
            Fault::PoolReadOnly => self.switch_pool(true),
            Fault::Kill => return self.crash(false),
            Fault::PowerCut => return self.crash(true),
            Fault::Pause => self.pause(),
            Fault::Clock(minutes) => {
                self.faults.clock_ms += minutes * 60_000;
                self.tally.count(hardships::CLOCK);
            }
        }
        self.wake();
        self.later(lasting, Happening::Mend(fault));
        Ok(())
    }

    pub(crate) fn mend(&mut self, fault: Fault) -> Result<(), Violation> {
        self.glance();
        self.say(|| format!("no more {fault:?}"));
        match fault {
            Fault::LvmFails => self.faults.lvm_fails -= 1,
            Fault::LvmHangs => self.faults.lvm_hangs -= 1,
            Fault::ArchiveFull => self.faults.archive_full -= 1,
            Fault::ArchiveSlow => self.faults.archive_slow -= 1,
            Fault::Theft(_) | Fault::Leaves(_) => {
                self.world.free += std::mem::take(&mut self.faults.stolen);
                self.note_room();
            }
            Fault::PoolReadOnly => self.switch_pool(false),
            _ => {}
        }
        if matches!(fault, Fault::LvmFails | Fault::LvmHangs | Fault::PoolReadOnly) {
            self.faults.well_since = self.faults.well_since.max(self.world.now);
        }
        self.wake();
        Ok(())
    }

    /// Whether LVM works at the moment.
    pub(crate) fn lvm_works(&self) -> bool {
        self.faults.lvm_fails == 0 && self.faults.lvm_hangs == 0 && !self.lvm.hangs()
    }

    fn steal(&mut self, bytes: u64) {
        let taken = bytes / EXTENT * EXTENT;
        self.world.free -= taken;
        self.faults.stolen += taken;
        self.note_room();
        if taken > 0 && self.world.free < EXTENT {
            self.tally.count(hardships::EMPTIED);
        }
    }

    /// One of the snapshots that a test lets through, by chance.
    fn any_snapshot(&mut self, test: impl Fn(&Volume) -> bool) -> Option<VersionId> {
        let found = self.world.snapshots.iter().filter(|(_, volume)| test(volume));
        let ids: Vec<VersionId> = found.map(|(id, _)| id.clone()).collect();
        let index = usize::try_from(self.dice.below(ids.len() as u64)).unwrap_or(0);
        ids.get(index).cloned()
    }

    fn remove_by_hand(&mut self) {
        let takes_writes = self.world.pool.as_ref().is_none_or(|pool| pool.read_only == 0);
        // Nobody can remove what is mounted, nor what lies in a pool that takes no writes.
        let chosen = self.any_snapshot(|volume| !volume.shown && (takes_writes || !volume.is_thin()));
        if let Some(id) = chosen {
            self.say(|| format!("somebody removes the snapshot of {id}"));
            self.world.remove(&id);
            self.note_room();
            self.tally.count(hardships::REMOVED);
        }
    }

    fn invalidate_by_hand(&mut self) {
        if let Some(id) = self.any_snapshot(|volume| !volume.is_thin() && !volume.lost) {
            self.say(|| format!("somebody invalidates the snapshot of {id}"));
            if let Some(volume) = self.world.snapshots.get_mut(&id) {
                volume.lost = true;
            }
            self.tally.count(hardships::INVALIDATED);
        }
    }

    fn switch_pool(&mut self, to_read_only: bool) {
        let Some(pool) = &mut self.world.pool else { return };
        if to_read_only {
            pool.read_only += 1;
            self.tally.count(hardships::READ_ONLY);
        } else {
            pool.read_only -= 1;
        }
    }

    /// The daemon is stopped: what it would have done or heard comes after that (see [`Happening::is_put_off`]).
    fn pause(&mut self) {
        if self.daemon.is_none() {
            return;
        }
        self.faults.paused_until = self.world.now + 20_000;
        self.faults.well_since = self.faults.paused_until;
        if (0..self.world.origins.len()).any(|origin| self.world.rate(origin) > 0) {
            self.tally.count(hardships::PAUSED);
        }
    }

    /// The daemon ends, and perhaps the whole machine. What was under way has happened, or has not.
    pub(crate) fn crash(&mut self, power: bool) -> Result<(), Violation> {
        if self.daemon.is_none() {
            return Ok(());
        }
        self.tally.count("crashes");
        self.finish_by_chance()?;
        self.daemon = None;
        self.faults.paused_until = 0;
        self.life += 1;
        self.drop_happenings(Happening::is_of_a_life);
        self.lvm.clear();
        // The brake lets go when its parent dies.
        self.world.origins.iter_mut().for_each(|origin| origin.held = false);
        for volume in self.world.snapshots.values_mut().filter(|_| power) {
            volume.shown = false;
        }
        self.world.powered = !power;
        let down = if power { self.dice.between(20_000, 90_000) } else { self.dice.between(500, 5000) };
        self.later(down, Happening::Start);
        Ok(())
    }

    /// The daemon starts, and makes records and machine agree.
    pub(crate) fn start(&mut self) -> Result<(), Violation> {
        if !self.world.powered {
            (self.faults.boots, self.faults.booted_at) = (self.faults.boots + 1, self.world.now);
        }
        self.world.powered = true;
        self.faults.well_since = self.faults.well_since.max(self.world.now);
        let register = self.records.load()?;
        self.start_daemon(register)?;
        self.check_after_start()
    }
}
