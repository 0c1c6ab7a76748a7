//! A whole number as JSON Schema has it: `60.0` is an integer there, and is taken as `60`.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;

/// Up to this, each whole number is a number of its own in floating point, too.
const MOST_AS_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Reads one into a type of numbers that have no sign.
pub(crate) fn deserialize<'de, D, N>(deserializer: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    let value = Value::deserialize(deserializer)?;
    let whole = value.as_u64().or_else(|| from_float(value.as_f64()?));
    whole.and_then(|whole| N::try_from(whole).ok()).ok_or_else(|| {
        let is_large = value.as_f64().is_some_and(|number| number > MOST_AS_FLOAT);
        let wanted = if whole.is_some() || is_large { "a smaller number" } else { "a whole number, as 5" };
        D::Error::custom(format!("invalid value: {}, expected {wanted}", kind(&value)))
    })
}

/// What stands there, in the words of other readers. A text may be a secret, or long.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => format!("boolean `{truth}`"),
        Value::Number(number) => format!("integer `{number}`"),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "sequence".to_owned(),
        Value::Object(_) => "map".to_owned(),
    }
}

fn from_float(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..=MOST_AS_FLOAT).contains(&number);
    // A whole number is written without a fraction; the zero below zero is zero.
    is_whole.then(|| format!("{:.0}", number.abs()).parse().ok()).flatten()
}

/// The same of a number that may be absent.
pub(crate) mod option {
    use serde::Deserialize;
    use serde::de::Deserializer;

    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Whole(#[serde(deserialize_with = "super::deserialize")] u64);

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<Whole>::deserialize(deserializer)?.map(|Whole(number)| number))
    }
}

#[cfg(test)]
mod tests {
    fn read(text: &str) -> Option<u32> {
        super::deserialize(&mut serde_json::Deserializer::from_str(text)).ok()
    }

    #[test]
    fn a_number_without_a_fraction_is_whole_however_it_is_written() {
        for (text, whole) in [("60", 60), ("1326927.0", 1_326_927), ("6e1", 60), ("-0.0", 0), ("0", 0)] {
            assert_eq!(read(text), Some(whole), "{text}");
        }
        for text in ["1.5", "-1", "-1.0", "4294967296", "4294967296.0", "1e300", "\"60\"", "null", "true"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
