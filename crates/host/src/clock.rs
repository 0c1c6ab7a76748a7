//! The clocks, and the names that come from them.
//!
//! Everything that asat records is precise to the microsecond. What is read from the clock is cut to that at
//! once, so that an instant compares equal before and after it went through the catalogue or over the wire.

use std::sync::OnceLock;
use std::time::Duration;

use asat_core::clock::{Moment, Reading};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nix::time::{ClockId, clock_gettime};

/// The time, in whole microseconds.
#[must_use]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// What the machine's clocks say. Where the kernel does not name the boot, a smaller uptime shows that it is another one.
#[must_use]
pub fn read() -> Reading {
    static BOOT: OnceLock<String> = OnceLock::new();
    let named = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Every kernel that this runs on has that clock. It is asked through the C library: some kernels offer no vDSO.
    let uptime = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    let uptime_ms = uptime.map_or(0, |uptime| uptime.as_millis());
    let boot = BOOT.get_or_init(|| named().trim().to_owned()).clone();
    Reading { wall: now(), moment: Moment { boot, uptime_ms: u64::try_from(uptime_ms).unwrap_or(0) } }
}

/// The time zone of the machine, by `TZ` or `/etc/localtime`; UTC where neither says one.
#[must_use]
pub fn zone() -> TimeZone {
    TimeZone::system()
}

/// A name for a lease that nobody else has: a UUID of version 7, which sorts by the time of its making.
#[must_use]
pub fn new_lease_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_whole_microseconds() {
        for _ in 0..100 {
            assert_eq!(now().subsec_nanosecond() % 1000, 0);
        }
        assert!(now().as_second() > 1_700_000_000);
    }

    #[test]
    fn the_uptime_goes_on_within_one_boot() {
        let (first, second) = (read().moment, read().moment);
        assert_eq!(first.boot.len(), 36, "{first:?}");
        assert_eq!(first.boot, second.boot);
        assert!(0 < first.uptime_ms && first.uptime_ms <= second.uptime_ms, "{first:?} {second:?}");
    }

    #[test]
    fn lease_ids_differ() {
        let ids: std::collections::BTreeSet<_> = (0..1000).map(|_| new_lease_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 36));
    }
}
