//! The clock as a specification: what is believed of which reading, and what is recorded of it.

use proptest::prelude::*;

use super::*;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEARS: i64 = 3650 * DAY;

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-11-19T17:00:00Z".parse().unwrap();
    begin + SignedDuration::from_secs(seconds)
}

fn moment(boot: &str, uptime_s: i64) -> Moment {
    Moment { boot: boot.to_owned(), uptime_ms: u64::try_from(uptime_s).unwrap() * 1000 }
}

/// A reading of the wall clock, so many seconds after the time of [`anchor`], in a boot with this uptime.
fn reading(wall: i64, boot: &str, uptime_s: i64) -> Reading {
    Reading { wall: at(wall), moment: moment(boot, uptime_s) }
}

/// It was believed to be zero, ten days after boot `a`.
fn anchor() -> Anchor {
    Anchor { time: at(0), moment: moment("a", 10 * DAY), doubt: None }
}

#[test]
fn what_is_believed() {
    let bounds = Bounds::default();
    // What the wall clock says, the boot, the uptime; and what is believed, if it is not the wall clock.
    let cases = [
        // It goes on as it should, or is corrected by less than half an hour.
        (0, "a", 10 * DAY, None),
        (DAY, "a", 11 * DAY, None),
        (DAY + 29 * MINUTE, "a", 11 * DAY, None),
        (DAY - 29 * MINUTE, "a", 11 * DAY, None),
        // The machine slept for a year: the uptime knows.
        (365 * DAY, "a", 375 * DAY, None),
        // It jumps.
        (DAY + 31 * MINUTE, "a", 11 * DAY, Some(DAY)),
        (DAY + 60 * DAY, "a", 11 * DAY, Some(DAY)),
        (YEARS, "a", 10 * DAY + 1, Some(1)),
        (DAY - 31 * MINUTE, "a", 11 * DAY, Some(DAY)),
        (-50 * 365 * DAY, "a", 11 * DAY, Some(DAY)),
        // Another boot, after up to a week without power.
        (HOUR, "b", MINUTE, None),
        (7 * DAY, "b", MINUTE, None),
        (7 * DAY + 2 * MINUTE, "b", MINUTE, Some(MINUTE)),
        (60 * DAY, "b", HOUR, Some(HOUR)),
        (YEARS, "b", HOUR, Some(HOUR)),
        // The clock lost its battery; then a time server sets it.
        (-20 * 365 * DAY, "b", MINUTE, Some(MINUTE)),
        (5 * HOUR, "b", 2 * MINUTE, None),
        // A name that does not change does not hide another boot.
        (HOUR, "a", MINUTE, None),
        (YEARS, "a", MINUTE, Some(MINUTE)),
    ];
    for (wall, boot, uptime, expected) in cases {
        let found = believed(Some(&anchor()), &bounds, &reading(wall, boot, uptime));
        let time = at(expected.unwrap_or(wall));
        assert_eq!(
            found,
            Believed { time, wall: at(wall), doubted: expected.is_some() },
            "{wall} {boot} {uptime}"
        );
        assert_eq!(found.corrected(found.wall), found.time);
    }
    let first = believed(None, &bounds, &reading(YEARS, "a", 0));
    assert_eq!((first.time, first.doubted), (at(YEARS), false), "there is nothing to hold it against");
}

#[test]
fn what_is_witnessed_is_held_against_the_clock_as_if_the_machine_had_been_off_since() {
    let bounds = Bounds::default();
    // It was found in the same boot, after ten days: how much of them has passed since, nobody knows.
    let first = |wall| {
        let found = reading(wall, "a", 10 * DAY);
        let anchor = witnessed(at(0), &found);
        (believed(Some(&anchor), &bounds, &found), renewed(Some(&anchor), &bounds, &found).unwrap())
    };
    for wall in [0, MINUTE, 7 * DAY] {
        let (found, recorded) = first(wall);
        assert_eq!((found.time, found.doubted), (at(wall), false), "{wall}");
        assert_eq!(recorded, accepted(&reading(wall, "a", 10 * DAY)));
    }
    for wall in [7 * DAY + MINUTE, YEARS] {
        let (found, recorded) = first(wall);
        assert_eq!((found.time, found.doubted), (at(0), true), "{wall}");
        // Time passes, and a clock that is set less than a week after what was witnessed is believed, once that is recorded.
        let later = |wall, boot, uptime| believed(Some(&recorded), &bounds, &reading(wall, boot, uptime));
        assert_eq!(later(wall + HOUR, "a", 10 * DAY + HOUR).time, at(HOUR));
        assert_eq!(later(3 * DAY, "a", 10 * DAY + HOUR).time, at(HOUR));
        let set = reading(3 * DAY, "a", 10 * DAY + HOUR);
        assert_eq!(renewed(Some(&recorded), &bounds, &set), Some(accepted(&set)));
        let rebooted = later(wall + HOUR, "b", MINUTE);
        assert_eq!((rebooted.time, rebooted.doubted), (at(0), true));
    }
}

#[test]
fn what_is_believed_is_recorded_now_and_then() {
    let bounds = Bounds::default();
    let next = |wall, uptime| renewed(Some(&anchor()), &bounds, &reading(wall, "a", uptime));
    assert_eq!(renewed(None, &bounds, &reading(5, "a", 5)), Some(accepted(&reading(5, "a", 5))));
    assert_eq!(next(9 * MINUTE, 10 * DAY + 9 * MINUTE), None);
    let later = next(10 * MINUTE, 10 * DAY + 10 * MINUTE).unwrap();
    assert_eq!(later, accepted(&reading(10 * MINUTE, "a", 10 * DAY + 10 * MINUTE)));
    // Of a correction by ten minutes, only so much as a clock may drift in that time.
    let corrected = next(20 * MINUTE, 10 * DAY + 10 * MINUTE).unwrap();
    assert_eq!(corrected.time, at(10 * MINUTE + 12));
    let rebooted = renewed(Some(&anchor()), &bounds, &reading(DAY, "b", 5)).unwrap();
    assert_eq!(rebooted, accepted(&reading(DAY, "b", 5)), "the next doubt is judged by this boot");
}

#[test]
fn a_doubt_is_recorded_once_and_over_when_the_clock_agrees() {
    let bounds = Bounds::default();
    let jumped = reading(60 * DAY, "a", 10 * DAY + 5);
    let doubting = renewed(Some(&anchor()), &bounds, &jumped).unwrap();
    let doubt = doubting.doubt.clone().unwrap();
    assert_eq!((&doubt.since, doubt.ahead_s), (&jumped.moment, 60 * DAY - 5));
    assert_eq!(
        (doubting.time, &doubting.moment),
        (at(0), &anchor().moment),
        "nothing else is believed by that"
    );
    let on = |anchor: &Anchor, wall, uptime| renewed(Some(anchor), &bounds, &reading(wall, "a", uptime));
    assert_eq!(on(&doubting, 60 * DAY + 60, 10 * DAY + 65), None);
    let after = on(&doubting, 60 * DAY + DAY, 11 * DAY).unwrap();
    assert_eq!(
        (after.time, after.doubt.as_ref()),
        (at(DAY), Some(&doubt)),
        "a reboot would forget no more than minutes"
    );
    let over = on(&after, DAY + 5, 11 * DAY + 5).unwrap();
    assert_eq!(over.doubt, None);
}

#[test]
fn a_doubt_after_another_boot_waits_for_a_clock_that_is_set_later() {
    let bounds = Bounds::default();
    let doubting = renewed(Some(&anchor()), &bounds, &reading(-YEARS, "b", 5)).unwrap();
    assert_eq!(renewed(Some(&doubting), &bounds, &reading(-YEARS + HOUR, "b", HOUR)), None);
    // Three days off: more than a jump, and less than a week.
    let set = reading(3 * DAY, "b", 2 * HOUR);
    assert_eq!(believed(Some(&doubting), &bounds, &set).time, at(2 * HOUR), "until its end is recorded");
    assert_eq!(renewed(Some(&doubting), &bounds, &set), Some(accepted(&set)));
}

#[test]
fn a_configured_time_accepts_only_a_clock_that_goes_on_saying_the_same() {
    let bounds = Bounds { accept_after: Some(SignedDuration::from_hours(24)), ..Bounds::default() };
    let mut now = renewed(Some(&anchor()), &bounds, &reading(60 * DAY, "a", 10 * DAY)).unwrap();
    let mut look = |wall: i64, uptime| {
        let reading = reading(wall, "a", uptime);
        let next = renewed(Some(&now), &bounds, &reading);
        now = next.unwrap_or_else(|| now.clone());
        now.doubt.is_some()
    };
    assert!(look(60 * DAY + 23 * HOUR, 10 * DAY + 23 * HOUR));
    assert!(look(YEARS + 23 * HOUR, 10 * DAY + 23 * HOUR), "another jump begins anew");
    assert!(look(YEARS + 25 * HOUR, 10 * DAY + 25 * HOUR));
    assert!(!look(YEARS + 47 * HOUR, 10 * DAY + 47 * HOUR));
    assert_eq!(now.time, at(YEARS + 47 * HOUR));
}

#[test]
fn a_doubt_is_told_with_both_times_and_what_to_type() {
    let found = believed(Some(&anchor()), &Bounds::default(), &reading(60 * DAY, "a", 10 * DAY));
    assert_eq!(
        found.what(),
        "the machine's clock says 2027-01-18T17:00:00Z, 60 days ahead of 2026-11-19T17:00:00Z, which asat believes and uses"
    );
    let behind = believed(Some(&anchor()), &Bounds::default(), &reading(-45 * MINUTE, "a", 10 * DAY));
    assert!(behind.what().contains("45 minutes behind 2026"), "{}", behind.what());
    let after = Bounds { accept_after: Some(SignedDuration::from_hours(24)), ..Bounds::default() };
    assert!(hint(&Bounds::default()).ends_with("if it is right, type: asat clock accept"));
    assert!(hint(&after).ends_with("if it lasts for 24 hours (clock.accept_after)"), "{}", hint(&after));
}

/// Something that happens to a machine, in seconds.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// Time passes, and the daemon looks at the clock.
    Passes(i64),
    /// Somebody sets the wall clock.
    Set(i64),
    /// The daemon is restarted: only the record is left, as it is written.
    Restart,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (1_i64..3 * HOUR).prop_map(Happens::Passes),
        2 => (-2 * HOUR..2 * HOUR).prop_map(Happens::Set),
        1 => (-YEARS..YEARS).prop_map(Happens::Set),
        1 => Just(Happens::Restart),
    ]
}

proptest! {
    /// Whatever anybody does with the wall clock in one boot, and however often: the time that is believed is out by the bound
    /// at the most, and by what a clock may drift.
    #[test]
    fn nobody_moves_the_time_that_is_believed(story in proptest::collection::vec(happens(), 1..60)) {
        let bounds = Bounds::default();
        let (mut passed, mut ahead) = (0_i64, 0_i64);
        let mut record = accepted(&reading(0, "a", 0));
        for happened in story {
            match happened {
                Happens::Passes(seconds) => passed += seconds,
                Happens::Set(seconds) => ahead += seconds,
                Happens::Restart => {
                    let written = serde_json::to_string(&record).unwrap();
                    record = serde_json::from_str(&written).unwrap();
                }
            }
            let now = reading(passed + ahead, "a", passed);
            let found = believed(Some(&record), &bounds, &now);
            let out = found.time.duration_since(at(passed)).abs();
            let most = bounds.max_jump + SignedDuration::from_secs(passed / i64::from(MOST_DRIFT) + 1);
            prop_assert!(out <= most, "out by {out} after {passed} s, {happened:?}: {record:?}");
            record = renewed(Some(&record), &bounds, &now).unwrap_or(record);
        }
    }
}
