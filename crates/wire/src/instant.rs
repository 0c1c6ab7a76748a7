//! An instant as text: RFC 3339 in UTC, always with six digits after the second.
//!
//! With digits left out where they are zero, `…44.5Z` would sort after `…44.51Z`. As it is, the order of the
//! texts is that of the instants, for a program that sorts what it does not parse.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::Serializer;
use serde::de::{Deserialize, Deserializer};

pub(crate) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*at))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    Timestamp::deserialize(deserializer).map(in_microseconds)
}

/// The same of an instant that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Serializer, Timestamp, in_microseconds, text};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_some(&text(*at)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let at: Option<Timestamp> = Option::deserialize(deserializer)?;
        Ok(at.map(in_microseconds))
    }
}

/// What of an instant is written again: one that was kept more exactly than it is shown would not be found by what is shown.
fn in_microseconds(at: Timestamp) -> Timestamp {
    let nanoseconds = at.as_nanosecond();
    Timestamp::from_nanosecond(nanoseconds - nanoseconds.rem_euclid(1000)).unwrap_or(at)
}

fn text(at: Timestamp) -> String {
    const MICROSECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    MICROSECONDS.timestamp_to_string(&at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_read_as_exactly_as_it_is_written() {
        for nanoseconds in [0, 999, 1000, 1999, -1, -999, -1000, -1001, 1_763_571_603_123_456_789] {
            let at = Timestamp::from_nanosecond(nanoseconds).unwrap();
            let read = deserialize(serde_json::Value::String(at.to_string())).unwrap();
            assert_eq!((read.subsec_nanosecond() % 1000, text(read)), (0, text(at)), "{nanoseconds}");
        }
    }

    #[test]
    fn texts_sort_as_the_instants_do() {
        let micros = [-1, 0, 1, 10, 11, 999_999, 1_000_000, 593_270 + (1 << 50), 593_271 + (1 << 50)];
        let texts = micros.map(|micros| text(Timestamp::from_microsecond(micros).unwrap()));
        assert!(texts.is_sorted_by(|earlier, later| earlier < later), "{texts:?}");
        assert_eq!(texts[1], "1970-01-01T00:00:00.000000Z");
    }
}
