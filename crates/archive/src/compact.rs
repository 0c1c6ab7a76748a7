//! Merges retired layers, so that giving up versions gives back their space.
//!
//! What the live version above a run needs is copied, frame by frame as it is stored, into one layer that
//! takes the run's place. A run is merged when at least half of it is dead, so that each byte copied is paid
//! for by one given back.

use crate::archive::{Archive, Inner};
use crate::chain::{Layer, lock};
use crate::error::Error;
use crate::index::Entry;
use crate::meta::Meta;
use crate::naming::FileName;
use crate::packer::Packer;
use crate::survey::{Needed, Survey};

/// Frames that lie side by side are copied in pieces of at most this many bytes.
const COPY_BYTES: usize = 1 << 20;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// What it gave back on disk.
    pub freed_bytes: u64,
    /// How many layers there were, live ones included.
    pub layers_before: usize,
    /// How many there are now.
    pub layers_after: usize,
    /// Whether the budget ended it while there was more to do.
    pub more: bool,
}

impl Archive {
    /// Gives back the space of pages that no live version needs, wherever that is at least half of a run of
    /// retired layers. Stops after writing `budget_bytes`, to go on another time. A damaged run is left as it
    /// is, and reported after the others are done.
    pub fn compact(&self, budget_bytes: Option<u64>) -> Result<Compacted, Error> {
        let archive = &*self.inner;
        let layers_before = archive.layers().len();
        let (mut budget_left, mut freed_bytes, mut more) = (budget_bytes, 0, false);
        let mut first_error = None;
        for above in archive.unsettled() {
            if budget_left == Some(0) {
                more = true;
                break;
            }
            // Held for one run at a time: somebody may need to give up a version meanwhile.
            let _upkeep = lock(&archive.upkeep);
            match archive.compact_below(above) {
                Ok((freed, written)) => {
                    freed_bytes += freed;
                    budget_left = budget_left.map(|left| left.saturating_sub(written));
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let layers_after = archive.layers().len();
        match first_error {
            Some(error) => Err(error),
            None => Ok(Compacted { freed_bytes, layers_before, layers_after, more }),
        }
    }
}

impl Inner {
    /// The live versions above runs that may be worth compacting, oldest first.
    fn unsettled(&self) -> Vec<u64> {
        let chain = lock(&self.chain);
        let layers = chain.layers();
        let mut last_live = true;
        let above_a_run = layers.values().filter(|layer| {
            let below_is_live = std::mem::replace(&mut last_live, layer.live);
            layer.live && !below_is_live
        });
        above_a_run.map(|layer| layer.number).filter(|number| !chain.settled.contains(number)).collect()
    }

    /// Compacts the run below one live version; answers the bytes given back and the bytes written.
    fn compact_below(&self, above: u64) -> Result<(u64, u64), Error> {
        let layers = self.layers();
        let Some(above) = layers.get(&above).filter(|layer| layer.live) else {
            return Ok((0, 0));
        };
        let survey = self.survey(&layers, above)?;
        let mut freed = self.remove(&survey.dead())?;
        let mut written = 0;
        if survey.worth_merging() {
            let old_bytes: u64 = survey.needed.iter().map(|needed| needed.pack.bytes()).sum();
            written = self.merge(&survey)?;
            freed += old_bytes.saturating_sub(written);
        }
        lock(&self.chain).settled.insert(above.number);
        Ok((freed, written))
    }

    /// Writes what is needed of a run into one layer, puts it in place and removes the others.
    fn merge(&self, survey: &Survey) -> Result<u64, Error> {
        let (Some(newest), Some(oldest)) = (survey.needed.first(), survey.needed.last()) else {
            return Ok(0);
        };
        let meta = Meta {
            covers_from: oldest.pack.meta().covers_from,
            parent: oldest.pack.meta().parent.filter(|_| survey.needs_below),
            ..newest.pack.meta().clone()
        };
        let mut packer = Packer::create(&self.folder, meta.number)?;
        copy_frames(&survey.needed, &mut packer)?;
        let name = FileName::Retired { from: meta.covers_from, number: meta.number };
        let bytes = packer.publish(&meta, name)?;
        // The merged layer takes the newest one's place in the chain, and may have taken its name on disk.
        let is_needed = |layer: &&Layer| survey.needed.iter().any(|needed| needed.number == layer.number);
        let merged: Vec<Layer> = survey.run.iter().filter(is_needed).cloned().collect();
        let (same_number, others): (Vec<Layer>, Vec<Layer>) =
            merged.into_iter().partition(|layer| layer.number == meta.number);
        lock(&self.chain).put(Layer::new(meta.covers_from, meta.number, false, bytes));
        self.remove(&others)?;
        for replaced in same_number.iter().filter(|layer| layer.name() != name) {
            self.folder.unlink(&replaced.name().text())?;
            self.folder.sync_folder()?;
        }
        Ok(bytes)
    }
}

/// Copies the needed frames of several layers in page order.
fn copy_frames(needed: &[Needed], packer: &mut Packer) -> Result<(), Error> {
    let of_layer = |layer| move |entry: &Entry| (layer, *entry);
    let mut frames: Vec<(&Needed, Entry)> =
        needed.iter().flat_map(|layer| layer.entries.iter().map(of_layer(layer))).collect();
    frames.sort_unstable_by_key(|(_, entry)| entry.page);
    let mut buffer = Vec::new();
    let mut frames = frames.into_iter().peekable();
    while let Some((layer, first)) = frames.next() {
        // Gather what lies side by side in the same file, and read it at once.
        let (mut entries, mut len, mut end) = (vec![first], frame_len(&first), end_of(&first));
        while let Some((_, entry)) = frames
            .next_if(|(next, entry)| next.number == layer.number && entry.offset == end && len < COPY_BYTES)
        {
            len += frame_len(&entry);
            end = end_of(&entry);
            entries.push(entry);
        }
        buffer.resize(len, 0);
        layer.pack.read_at(first.offset, &mut buffer)?;
        let (mut rest, raw_len) = (buffer.as_slice(), layer.pack.meta().page_size.as_usize());
        for entry in entries {
            let (frame, after) = rest.split_at_checked(frame_len(&entry)).unwrap_or((rest, &[]));
            packer.frame(entry.page, frame, frame.len() == raw_len, entry.hash)?;
            rest = after;
        }
    }
    Ok(())
}

fn frame_len(entry: &Entry) -> usize {
    usize::try_from(entry.len).unwrap_or(usize::MAX)
}

fn end_of(entry: &Entry) -> u64 {
    entry.offset + u64::from(entry.len)
}
