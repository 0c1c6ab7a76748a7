//! Quantities in the words of people, by integers alone.

use std::fmt;

/// A size in bytes, or a rate without its `/s`.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| self.0 >= 1 << shift) {
            Some((shift, unit)) => {
                let tenths = u128::from(self.0) * 10 / (1 << shift);
                write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
            }
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// A time in milliseconds, as people say it: `412 ms`, `9.4 s`, `5 min`.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms @ 0..1000 => write!(f, "{ms} ms"),
            ms @ 1000..120_000 => write!(f, "{}.{} s", ms / 1000, ms % 1000 / 100),
            ms @ 120_000..7_200_000 => write!(f, "{} min", ms / 60_000),
            ms @ 7_200_000..172_800_000 => write!(f, "{} h", ms / 3_600_000),
            ms => write!(f, "{} days", ms / 86_400_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        let sizes = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (64 << 20, "64.0 MiB"),
            ((64 << 20) - 1, "63.9 MiB"),
            (1_610_612_736, "1.5 GiB"),
            (u64::MAX, "15.9 EiB"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(Size(bytes).to_string(), text);
        }
        let spans = [
            (0, "0 ms"),
            (999, "999 ms"),
            (4400, "4.4 s"),
            (119_999, "119.9 s"),
            (120_000, "2 min"),
            (86_400_000, "24 h"),
            (u64::MAX, "213503982334 days"),
        ];
        for (ms, text) in spans {
            assert_eq!(Span(ms).to_string(), text);
        }
    }
}
