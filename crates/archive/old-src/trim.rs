//! Gives back space where there is none: of a run of retired layers only what is needed is kept.
//!
//! Folding writes the live layer above the run anew, which on a full disk may be just what does not fit. This writes
//! the run alone, and of that only the frames that the live version above it needs: where little is needed, little
//! room is enough. What folding would give back besides is left for when there is room.

use std::collections::BTreeMap;
use std::io;

use crate::archive::Inner;
use crate::chain::lock;
use crate::codec::Encoder;
use crate::error::Error;
use crate::fingerprint::{PageHash, page_hash};
use crate::fold::{Pace, Paced};
use crate::frames::{Frames, Reading};
use crate::index::Encoding;
use crate::meta::Meta;
use crate::packer::Packer;
use crate::pages::{Frame, nth_of};
use crate::survey::{ENTRY_USUAL_BYTES, Survey};

/// So much of the disk is left to others: whoever records something must not find the disk full because of
/// a compaction.
const LEFT_TO_OTHERS_BYTES: u64 = 256 << 10;

impl Inner {
    /// Whether a file of about so many bytes can be written, and others still find some room. Fails where it cannot.
    pub(crate) fn check_room(&self, bytes: u64) -> Result<(), Error> {
        if bytes.saturating_add(LEFT_TO_OTHERS_BYTES) <= self.folder.free_bytes()? {
            return Ok(());
        }
        Err(Error::io("compact", self.folder.path(), io::ErrorKind::StorageFull.into()))
    }

    /// Leaves of the surveyed run what is needed.
    pub(crate) fn trim(&self, survey: &Survey, pace: Pace<'_>) -> Result<Trimmed, Error> {
        let (Some(newest), Some(oldest)) = (survey.run.first(), survey.run.last()) else {
            return Ok(Trimmed::NotWorth);
        };
        let run_bytes: u64 = survey.run.iter().map(|layer| layer.bytes).sum();
        let needed = Needed::of(survey);
        if needed.bytes > run_bytes / 10 * 9 {
            return Ok(Trimmed::NotWorth);
        }
        let mut packer = Packer::create(&self.folder, newest.number)?;
        let mut paced = Paced::new(pace);
        let stands_alone = needed.write(self, &mut packer, &mut paced)?;
        let newest_pack = newest.open(&self.folder)?;
        let below = survey.layers.range(..oldest.number).next_back().map(|(&number, _)| number);
        let parent = below.filter(|_| !stands_alone);
        let meta = Meta { covers_from: oldest.from, parent, ..newest_pack.meta().clone() };
        let upkeep = lock(&self.upkeep);
        let Some(trimmed) = self.change(&upkeep, &survey.change(&survey.run), Some((packer, &meta)))? else {
            return Ok(Trimmed::Moved);
        };
        drop(upkeep);
        paced.end(trimmed.new_bytes);
        Ok(Trimmed::Freed(trimmed.freed_bytes))
    }
}

/// What came of trimming.
pub(crate) enum Trimmed {
    /// So many bytes were given back.
    Freed(u64),
    /// It would give back less than a tenth of the run.
    NotWorth,
    /// The survey does not hold any more.
    Moved,
}

/// What the live version above a run needs of it.
struct Needed<'a> {
    survey: &'a Survey,
    /// The layer of the newest frame of each page that is needed, pages counted from 0.
    layers: BTreeMap<usize, u64>,
    /// What it takes, about.
    bytes: u64,
}

impl<'a> Needed<'a> {
    fn of(survey: &'a Survey) -> Self {
        let map = &survey.version.map;
        let mut needed = Self { survey, layers: BTreeMap::new(), bytes: 0 };
        for page in 0..map.page_count() {
            let Some(newest) = needed.frames(page).next() else { continue };
            needed.layers.insert(page, map.layer_of(newest));
            let frames: u64 = needed.frames(page).map(|frame| u64::from(frame.len)).sum();
            needed.bytes += ENTRY_USUAL_BYTES + frames.min(u64::from(map.page_size().bytes()));
        }
        needed
    }

    /// Those entries of a page that lie in the run, newest first.
    fn frames(&self, page: usize) -> impl Iterator<Item = &'a Frame> + Clone {
        let (map, above) = (&self.survey.version.map, self.survey.above.number);
        self.survey.entries_within(page).skip_while(move |frame| map.layer_of(frame) == above)
    }

    /// Those and the ones that they are laid upon.
    fn frames_down(&self, page: usize) -> impl Iterator<Item = Frame> + Clone {
        let (map, above) = (&self.survey.version.map, self.survey.above.number);
        map.frames_of(page).skip_while(move |frame| map.layer_of(frame) == above).copied()
    }

    /// The hash of each page that is needed, and whether no page below the run is seen through it.
    fn hashes(&self, archive: &Inner) -> Result<(BTreeMap<usize, PageHash>, bool), Error> {
        let (mut hashes, mut stands_alone) = (BTreeMap::new(), false);
        for layer in &self.survey.run {
            let pack = layer.open(&archive.folder)?;
            stands_alone |= pack.meta().parent.is_none();
            pack.index()?.each(|entry| {
                let of_this = |page: &usize| self.layers.get(page) == Some(&layer.number);
                if let Some(page) = nth_of(entry.page).filter(of_this) {
                    hashes.insert(page, entry.hash);
                }
            })?;
        }
        Ok((hashes, stands_alone))
    }

    /// Writes it; answers whether no page below the run is seen through it.
    fn write(&self, archive: &Inner, packer: &mut Packer, paced: &mut Paced<'_>) -> Result<bool, Error> {
        let (hashes, stands_alone) = self.hashes(archive)?;
        let map = &self.survey.version.map;
        let page_len = map.page_size().as_usize();
        let (mut encoder, mut reading) = (Encoder::new(page_len)?, Frames::new()?);
        let (mut page, mut below) = (vec![0; page_len], vec![0; page_len]);
        for (&nth, &hash) in &hashes {
            paced.reach(packer.len())?;
            let number = u32::try_from(nth + 1).unwrap_or(u32::MAX);
            let frames: Vec<&Frame> = self.frames(nth).collect();
            if let [only] = frames.as_slice() {
                if only.encoding == Encoding::Earlier {
                    packer.earlier(number, self.survey.below(only.offset), hash)?;
                    continue;
                }
                let frame = reading.stored(map, only, Reading::InOrder)?;
                packer.frame(number, (only.encoding, frame), hash)?;
                continue;
            }
            // One frame for several: a difference again where that is what all of them are.
            let down = self.frames_down(nth);
            if !reading.decode(map, down.clone(), Reading::InOrder, &mut page)? || page_hash(&page) != hash {
                let path = self.survey.above.name().text();
                let what = format!("page {number} cannot be put together");
                return Err(Error::damaged(&archive.folder.path().join(path), what));
            }
            let mut before = None;
            if frames.iter().all(|frame| frame.encoding == Encoding::Difference)
                && reading.decode(map, down.skip(frames.len()), Reading::InOrder, &mut below)?
            {
                before = Some(below.as_slice());
            }
            packer.frame(number, encoder.encode(&page, before), hash)?;
        }
        Ok(stands_alone)
    }
}
