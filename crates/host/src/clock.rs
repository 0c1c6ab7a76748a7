//! The clock, and the names that come from it.
//!
//! Everything that asat records is precise to the microsecond. What is read from the clock is cut to that at
//! once, so that an instant compares equal before and after it went through the catalogue or over the wire.

use jiff::Timestamp;

/// The time, in whole microseconds.
#[must_use]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
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
    fn lease_ids_differ() {
        let ids: std::collections::BTreeSet<_> = (0..1000).map(|_| new_lease_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 36));
    }
}
