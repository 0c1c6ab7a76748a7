//! Says what each version takes, and what of it which versions need.

use std::collections::BTreeMap;

use asat_core::retention::{Part, Weight};

use crate::archive::Archive;
use crate::error::Error;
use crate::history::History;

/// What an entry takes besides its frame, usually.
const ENTRY_USUAL_BYTES: u64 = 13;

/// What an archive takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All of it, in bytes.
    pub bytes: u64,
    /// How many segments it consists of.
    pub segments: usize,
    /// The live versions, oldest first.
    pub versions: Vec<VersionStats>,
}

/// What a version takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionStats {
    /// Its number.
    pub number: u64,
    /// What it took when it was written.
    pub bytes: u64,
    /// What of the archive no other version needs: at least this much is given back where it alone is given up.
    pub only_bytes: u64,
}

impl Archive {
    /// Reads the indexes of all segments, and says what each version takes.
    pub fn stats(&self) -> Result<Stats, Error> {
        let state = self.inner.state();
        let weight = self.weigh()?;
        // A part that one version alone needs has its number at both ends.
        let mut alone: BTreeMap<u64, u64> = BTreeMap::new();
        for part in weight.parts.iter().filter(|part| part.first == part.last) {
            *alone.entry(part.first).or_default() += part.bytes;
        }
        let live = state.live_from(0);
        let versions = live.values().map(|version| VersionStats {
            number: version.number,
            bytes: version.bytes,
            only_bytes: alone.get(&version.number).copied().unwrap_or(0),
        });
        Ok(Stats { bytes: weight.bytes, segments: state.slots.len(), versions: versions.collect() })
    }

    /// Reads the indexes of all segments, and says what of the archive which versions need.
    pub fn weigh(&self) -> Result<Weight, Error> {
        let state = self.inner.state();
        let mut parts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for history in History::all(&state)? {
            for block in history.blocks() {
                history.pages(block, |items| {
                    for item in items {
                        let needing = history.live.get(item.needed.0..item.needed.1).unwrap_or_default();
                        if let [first, ..] = needing
                            && let [.., last] = needing
                        {
                            let bytes = u64::from(item.entry.len) + ENTRY_USUAL_BYTES;
                            *parts.entry((first.number, last.number)).or_default() += bytes;
                        }
                    }
                    Ok(())
                })?;
            }
        }
        let parts = parts.into_iter().map(|((first, last), bytes)| Part { first, last, bytes }).collect();
        Ok(Weight { bytes: self.bytes(), parts })
    }
}
