//! Glances: while all is quiet, the kernel's counters of writes say that another look would show the same.
//!
//! A classic snapshot fills by writes to its origin, or to itself, which only asat's own few bytes are; a pool fills by
//! writes to the devices below it. So between two looks it is enough to see that nobody wrote to those, which takes one
//! read for each, however many snapshots there are.
//!
//! The counters are believed until something fills that they know nothing of.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use asat_core::guard::Level;
use asat_host::machine::Watch;
use asat_shell::{Look, Planned};

/// After this time everything is looked at again, even if nobody writes: a folder fills by other writes, and a
/// snapshot by writes to itself.
const LOOK_FULLY: Duration = Duration::from_secs(1);

/// What asat and a file system that is mounted write to a new snapshot by themselves is less than this, in bytes.
const LITTLE: u64 = 4 << 20;

/// Whether a glance is enough.
#[derive(Default)]
pub(super) struct Glances {
    watch: Watch,
    /// Whether the counters had not moved when the look under way began.
    is_still: bool,
    /// If all was quiet at the last look: when that was, and the time from one glance to the next in milliseconds.
    quiet: Option<(Instant, u64)>,
    /// What was used of each snapshot, at the last look.
    used: BTreeMap<String, u64>,
    disbelieved: bool,
}

impl Glances {
    /// If nothing has happened since the last look, answers when to look again, in milliseconds.
    pub(super) fn glance(&self) -> Option<u64> {
        let (looked, tick_ms) = self.quiet?;
        let enough = !self.disbelieved && looked.elapsed() < LOOK_FULLY && self.watch.is_still();
        enough.then_some(tick_ms)
    }

    /// Something is known to have happened.
    pub(super) fn disturb(&mut self) {
        self.quiet = None;
    }

    /// A look begins; answers whether all was quiet at the last one, and nothing has happened since, as far as it is known.
    pub(super) fn begin(&mut self) -> bool {
        let was_quiet = self.quiet.take().is_some();
        self.is_still = self.watch.is_still();
        // What is written from here on is seen by the next glance, whether or not this look sees it.
        self.watch.mark();
        was_quiet && self.is_still
    }

    /// Writes to these devices fill what is seen.
    pub(super) fn over(&mut self, devices: &[(u32, u32)]) {
        self.watch.over(devices);
    }

    /// A look that began at `looked` has ended; `is_idle` if nothing is under way besides.
    pub(super) fn end(&mut self, looked: Instant, planned: &Planned, is_idle: bool) {
        let Planned { look: Look { seen, missing, .. }, plan } = planned;
        let used = seen.snapshots.iter().map(|seen| (seen.version.id.to_string(), seen.used));
        let used: BTreeMap<String, u64> = used.collect();
        let filled = |(id, used): (&String, &u64)| {
            self.used.get(id).is_some_and(|before| used.saturating_sub(*before) > LITTLE)
        };
        if self.is_still && !self.disbelieved && used.iter().any(filled) {
            self.disbelieved = true;
            tracing::warn!(
                "a snapshot fills, and the kernel counts no writes to its origin: everything is looked at every time"
            );
        }
        self.used = used;
        let safe = plan.assessments.iter().all(|found| found.level == Level::Safe);
        // What the records say lasts until they change, and that is told.
        let is_of_records = plan.steps.iter().all(|step| step.target.is_of_records());
        let quiet = safe && is_idle && is_of_records && missing.is_empty();
        self.quiet = quiet.then_some((looked, plan.tick_ms));
    }
}
