//! File names in the archive's folder, made and parsed in one place.
//!
//! Names carry what must change without rewriting a file: whether its version lives, and which numbers it
//! stands for. A name that is not spelled exactly as this module spells it is somebody else's file.

/// What a file in the folder is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    /// `12.pack` or `7-12.pack`: the layer of a live version, 12, and of those up to it that were given up and
    /// folded into it.
    Live {
        /// The lowest version number that the layer stands for.
        from: u64,
        /// The live version.
        number: u64,
    },
    /// `12.layer` or `7-12.layer`: pages that later versions need of versions that were given up.
    Retired {
        /// The lowest version number that the layer stands for.
        from: u64,
        /// The highest, by which the layer is ordered.
        number: u64,
    },
    /// `12.tmp`: a layer that was never finished.
    Temporary(u64),
}

impl FileName {
    /// The name's text.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Live { from, number } => format!("{}.pack", range(from, number)),
            Self::Retired { from, number } => format!("{}.layer", range(from, number)),
            Self::Temporary(number) => format!("{number}.tmp"),
        }
    }

    /// Recognises a name; `None` where it is foreign.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (stem, extension) = text.split_once('.')?;
        let (from, number) = stem.split_once('-').unwrap_or((stem, stem));
        let (from, number) = (from.parse().ok()?, number.parse().ok()?);
        let name = match extension {
            "pack" => Self::Live { from, number },
            "layer" => Self::Retired { from, number },
            "tmp" => Self::Temporary(number),
            _ => return None,
        };
        let sound = match name {
            Self::Temporary(number) => number > 0,
            Self::Live { from, number } | Self::Retired { from, number } => from > 0 && from <= number,
        };
        // One file has one spelling: "+7", "007" and "7-7" parse as numbers and are still foreign.
        (sound && name.text() == text).then_some(name)
    }
}

/// The numbers of a layer: one, or the lowest and the highest.
fn range(from: u64, number: u64) -> String {
    if from == number { number.to_string() } else { format!("{from}-{number}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            FileName::Live { from: 1, number: 1 },
            FileName::Live { from: u64::MAX, number: u64::MAX },
            FileName::Live { from: 7, number: 12 },
            FileName::Retired { from: 7, number: 7 },
            FileName::Retired { from: 7, number: 12 },
            FileName::Temporary(3),
        ] {
            assert_eq!(FileName::parse(&name.text()), Some(name));
        }
    }

    #[test]
    fn other_names_are_foreign() {
        for text in [
            "",
            ".",
            "..",
            ".pack",
            "0.pack",
            "007.pack",
            "+7.pack",
            "-7.pack",
            "7.PACK",
            "7.pack.bak",
            "7-7.pack",
            "12-7.pack",
            "7-7.layer",
            "7-12.tmp",
            "12-7.layer",
            "0-3.layer",
            "7-.layer",
            "-7.layer",
            "1-2-3.layer",
            " 7.layer",
            "7.tmp ",
            "18446744073709551616.pack",
            "0.tmp",
            "lost+found",
            "7.layer\n",
        ] {
            assert_eq!(FileName::parse(text), None, "{text:?}");
        }
    }
}
