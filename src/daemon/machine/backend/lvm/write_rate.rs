//! How fast the volumes of stores are written: a classic snapshot has to take that in until its version is archived.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use asat_core::StoreName;
use asat_host::machine;

use crate::daemon::machine::lock;

/// What was seen of each store's volume.
#[derive(Default)]
pub(super) struct WriteRates(Mutex<BTreeMap<StoreName, WriteRate>>);

#[derive(Clone, Copy, Default)]
struct WriteRate {
    /// When, and how much had been written to the volume by then.
    seen: Option<(Instant, u64)>,
    /// The fastest that was seen, in bytes a second.
    fastest: Option<u64>,
}

impl WriteRates {
    /// Looks how much was written to the volume of a store since the last look; answers the fastest that was seen so far, in bytes a
    /// second.
    pub(super) fn look(&self, store: &StoreName, device: (u32, u32)) -> Option<u64> {
        let written = machine::bytes_written(device);
        let mut rates = lock(&self.0);
        let rate = rates.entry(store.clone()).or_default();
        let now = Instant::now();
        if let (Some((at, before)), Some(written)) = (rate.seen, written) {
            let seconds = now.duration_since(at).as_secs().max(1);
            rate.fastest = rate.fastest.max(Some(written.saturating_sub(before) / seconds));
        }
        rate.seen = written.map(|written| (now, written));
        rate.fastest
    }
}
