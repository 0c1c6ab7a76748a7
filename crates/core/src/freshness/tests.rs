//! What can be expected of a store, and since when it is late.

use super::*;

fn expectation(text: &str) -> Expectation {
    text.parse().unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Clocks that go forward from 02:00 to 03:00 on the last Sunday of March, and back in October.
fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

#[test]
fn an_expectation_is_written_as_it_was_read() {
    for text in [
        "every hour",
        "every day by 00:00",
        "every day by 23:59",
        "every business day by 18:00",
        "every week by Friday 18:00",
        "every week by Monday 09:05",
        "every week by Sunday 12:00",
    ] {
        assert_eq!(expectation(text).to_string(), text);
    }
    assert_eq!(expectation("  EVERY\tWeek by friday\n18:00 ").to_string(), "every week by Friday 18:00");
}

#[test]
fn what_says_nothing_that_can_be_expected_is_refused() {
    let words =
        ["", " ", "every", "hour", "every hours", "every hour by 18:00", "every day", "every day at 18:00"];
    let more = [
        "every day by 18:00 UTC",
        "every day by 18 : 00",
        "every\u{a0}hour",
        "évery hour",
        "every business day",
        "every week by 18:00",
        "every week",
        "every month by 18:00",
        "every day by 18:00\u{0} ",
        "never",
    ];
    for text in words.into_iter().chain(more) {
        assert!(text.parse::<Expectation>().is_err(), "{text:?}");
    }
    let long = "every ".repeat(1_000_000);
    let refused = long.parse::<Expectation>().unwrap_err().to_string();
    assert!(refused.len() < 200, "{} bytes", refused.len());
}

#[test]
fn what_is_no_time_of_the_day_is_refused_by_name() {
    for time in [
        "24:00",
        "18:60",
        "99:99",
        "18",
        "18.00",
        "1800",
        ":",
        "18:",
        ":00",
        "18:0",
        "8:00",
        "018:00",
        "18:000",
        "18:00:00",
        "+1:00",
        "-1:00",
        "18:-1",
        "6pm",
        "1８:00",
        "१८:००",
        "18:00Z",
        "18\u{202e}:00",
        "noon",
    ] {
        let refused = format!("every day by {time}").parse::<Expectation>().unwrap_err();
        assert!(matches!(refused, ExpectationError::Time(_)), "{time}: {refused}");
        assert!(format!("every business day by {time}").parse::<Expectation>().is_err(), "{time}");
        assert!(format!("every week by Friday {time}").parse::<Expectation>().is_err(), "{time}");
    }
    for day in ["Fri", "Freitag", "5", "friday,", "Fridayy", "day", "Friday\u{0}"] {
        let refused = format!("every week by {day} 18:00").parse::<Expectation>().unwrap_err();
        assert!(matches!(refused, ExpectationError::Weekday(_)), "{day}: {refused}");
    }
}

#[test]
fn a_store_is_due_on_the_next_day_that_is_named() {
    // 19 November 2026 is a Thursday.
    let cases = [
        ("every hour", "2026-11-19T17:20:00Z", "2026-11-19T18:20:00Z"),
        ("every day by 18:00", "2026-11-19T06:00:00Z", "2026-11-20T18:00:00Z"),
        ("every day by 18:00", "2026-11-19T19:00:00Z", "2026-11-20T18:00:00Z"),
        // After midnight, what comes is still that of the day before.
        ("every day by 18:00", "2026-11-20T05:59:59Z", "2026-11-20T18:00:00Z"),
        // Before midnight, what comes is that of the next morning already.
        ("every day by 06:30", "2026-11-19T23:50:00Z", "2026-11-21T06:30:00Z"),
        ("every day by 06:30", "2026-11-20T00:10:00Z", "2026-11-21T06:30:00Z"),
        ("every day by 00:00", "2026-11-19T23:00:00Z", "2026-11-21T00:00:00Z"),
        ("every business day by 06:30", "2026-11-22T23:50:00Z", "2026-11-24T06:30:00Z"),
        ("every week by Monday 06:00", "2026-11-22T22:00:00Z", "2026-11-30T06:00:00Z"),
        ("every day by 18:00", "2026-12-31T12:00:00Z", "2027-01-01T18:00:00Z"),
        ("every business day by 18:00", "2026-11-19T12:00:00Z", "2026-11-20T18:00:00Z"),
        ("every business day by 18:00", "2026-11-20T12:00:00Z", "2026-11-23T18:00:00Z"),
        ("every business day by 18:00", "2026-11-21T12:00:00Z", "2026-11-23T18:00:00Z"),
        ("every business day by 18:00", "2026-11-22T12:00:00Z", "2026-11-23T18:00:00Z"),
        ("every business day by 18:00", "2026-11-23T06:00:00Z", "2026-11-24T18:00:00Z"),
        ("every week by Friday 18:00", "2026-11-16T06:00:00Z", "2026-11-27T18:00:00Z"),
        ("every week by Friday 18:00", "2026-11-22T23:59:59Z", "2026-11-27T18:00:00Z"),
        ("every week by Monday 09:00", "2026-11-22T20:00:00Z", "2026-11-23T09:00:00Z"),
        ("every week by Sunday 09:00", "2026-11-22T20:00:00Z", "2026-11-29T09:00:00Z"),
    ];
    for (text, published, due) in cases {
        let found = expectation(text).due_after(at(published), &TimeZone::UTC);
        assert_eq!(found, Some(at(due)), "{text} after {published}");
    }
}

#[test]
fn the_day_is_that_of_the_time_zone() {
    let expected = expectation("every day by 18:00");
    // It is six in the morning of the 20th there.
    assert_eq!(expected.due_after(at("2026-11-20T05:00:00Z"), &berlin()), Some(at("2026-11-21T17:00:00Z")));
    assert_eq!(expected.due_after(at("2026-07-01T10:00:00Z"), &berlin()), Some(at("2026-07-02T16:00:00Z")));
    // There is no 02:30 on the day on which the clocks go forward, and there are two on the other.
    let early = expectation("every day by 02:30");
    assert_eq!(early.due_after(at("2026-03-28T10:00:00Z"), &berlin()), Some(at("2026-03-29T01:30:00Z")));
    assert_eq!(early.due_after(at("2026-10-24T10:00:00Z"), &berlin()), Some(at("2026-10-25T00:30:00Z")));
}

#[test]
fn a_store_is_late_from_the_first_time_that_it_missed_until_it_is_published() {
    let expected = expectation("every business day by 18:00");
    let added = at("2026-11-01T00:00:00Z");
    let late = |published: &str, now: &str| {
        expected
            .late_since(Some(at(published)), added, at(now), &TimeZone::UTC)
            .map(|since| since.to_string())
    };
    assert_eq!(late("2026-11-19T17:00:00Z", "2026-11-20T18:00:00Z"), None, "it is in time to the last");
    let since = Some("2026-11-20T18:00:00Z".to_owned());
    assert_eq!(late("2026-11-19T17:00:00Z", "2026-11-20T18:00:01Z"), since);
    assert_eq!(late("2026-11-19T17:00:00Z", "2026-12-24T12:00:00Z"), since, "the first that it missed");
    assert_eq!(
        late("2026-11-20T19:00:00Z", "2026-11-23T18:00:00Z"),
        None,
        "it was late, and is not any more"
    );
    assert_eq!(late("2026-11-20T19:00:00Z", "2026-11-22T23:00:00Z"), None, "nothing is due on a weekend");
    // A clock that went back makes nothing late.
    assert_eq!(late("2026-11-20T19:00:00Z", "2026-01-01T00:00:00Z"), None);
}

#[test]
fn a_store_that_was_never_published_is_late_since_it_was_added() {
    let (added, now) = (at("2026-11-19T17:00:00Z"), at("2026-11-19T17:00:01Z"));
    assert_eq!(expectation("every hour").late_since(None, added, now, &TimeZone::UTC), Some(added));
}

#[test]
fn the_end_of_all_instants_is_never_due() {
    for text in
        ["every hour", "every day by 18:00", "every business day by 00:00", "every week by Friday 18:00"]
    {
        let expected = expectation(text);
        assert_eq!(expected.due_after(Timestamp::MAX, &TimeZone::UTC), None, "{text}");
        assert!(expected.due_after(Timestamp::MIN, &berlin()).is_some(), "{text}");
        let (late, zone) = (Timestamp::MAX, TimeZone::UTC);
        assert_eq!(expected.late_since(Some(Timestamp::MAX), Timestamp::MIN, late, &zone), None, "{text}");
    }
}
