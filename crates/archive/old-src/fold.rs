//! Folds a run of retired layers into the live layer above it: one layer that shows the same takes their place.
//!
//! Frames are copied as they are stored where a page has one in the run and the live layer together. A page that
//! has more is put together and stored again, as its difference from what the next live version below shows. So
//! a folded archive takes what it would if only its live versions had ever been written.

use std::ops::ControlFlow;

use crate::archive::Inner;
use crate::chain::{Layer, lock};
use crate::codec::{Encoder, MOST_WHEN_FOLDED};
use crate::error::Error;
use crate::frames::{Frames, Reading};
use crate::index::Encoding;
use crate::meta::Meta;
use crate::packer::Packer;
use crate::resolve::Resolved;
use crate::survey::Survey;

/// Hears how many bytes were written since it was last asked, and says whether to go on. It may take its time: that
/// is how compaction is kept from taking the disk's bandwidth.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// How much is written between two looks at the pace.
const PACE_BYTES: u64 = 256 << 10;

/// What a file has grown by while it is written, told to a pace.
pub(crate) struct Paced<'a> {
    pace: Pace<'a>,
    told: u64,
}

impl<'a> Paced<'a> {
    pub(crate) fn new(pace: Pace<'a>) -> Self {
        Self { pace, told: 0 }
    }

    /// Tells once there is enough to tell. Fails where the pace says to stop.
    pub(crate) fn reach(&mut self, written: u64) -> Result<(), Error> {
        let news = written.saturating_sub(self.told);
        if news < PACE_BYTES {
            return Ok(());
        }
        self.told = written;
        if (self.pace)(news).is_break() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Tells of all of a file that is there. It is too late to stop.
    pub(crate) fn end(self, written: u64) {
        let _ = (self.pace)(written.saturating_sub(self.told));
    }
}

impl Inner {
    /// Folds the surveyed run; answers the bytes given back. Where the pace says to stop, there is no room, or the survey does
    /// not hold any more (`None`), nothing has changed.
    pub(crate) fn fold(&self, survey: &Survey, pace: Pace<'_>) -> Result<Option<u64>, Error> {
        self.check_room(survey.folded_bytes)?;
        let (above, map) = (&survey.version.meta, &survey.version.map);
        let parent = survey.layers.range(..survey.lowest()).next_back().map(|(_, layer)| layer);
        let mut packer = Packer::create(&self.folder, above.number)?;
        let rest = Rest {
            survey,
            below: self.version_below(survey, parent)?,
            stacked: self.stacked_upon(above.number, map)?,
        };
        let mut paced = Paced::new(pace);
        rest.write(&mut packer, &mut paced)?;
        // Layers above may refer to versions below even where this one does not.
        let needs_below = packer.needs_below
            || packer.count() < u64::from(above.page_count)
            || !survey.stands_alone(self)?;
        let from = survey.run.last().map_or(survey.above.from, |layer| layer.from);
        let meta = Meta {
            covers_from: from,
            parent: parent.filter(|_| needs_below).map(|layer| layer.number),
            ..above.clone()
        };
        let upkeep = lock(&self.upkeep);
        let Some(folded) = self.change(&upkeep, &survey.change(&survey.run), Some((packer, &meta)))? else {
            return Ok(None);
        };
        drop(upkeep);
        paced.end(folded.new_bytes);
        Ok(Some(folded.freed_bytes))
    }

    /// The version that the folded layer continues, where there is one with pages of the same size.
    pub(crate) fn version_below(
        &self,
        survey: &Survey,
        parent: Option<&Layer>,
    ) -> Result<Option<Resolved>, Error> {
        match parent.filter(|layer| layer.live) {
            Some(layer) => {
                let version = self.resolve(layer.number)?;
                Ok(Some(version).filter(|version| version.meta.page_size == survey.version.meta.page_size))
            }
            None => Ok(None),
        }
    }
}

/// What is left of a run and of the live version above it.
struct Rest<'a> {
    survey: &'a Survey,
    /// The next live version below.
    below: Option<Resolved>,
    /// How many differences lie upon each page.
    stacked: Vec<u32>,
}

/// What putting pages together takes.
struct Bench {
    encoder: Encoder,
    frames: Frames,
    frames_below: Frames,
    page: Vec<u8>,
    page_below: Vec<u8>,
}

impl Rest<'_> {
    fn write(&self, packer: &mut Packer, paced: &mut Paced<'_>) -> Result<(), Error> {
        let page_len = self.survey.version.meta.page_size.as_usize();
        let mut bench = Bench {
            encoder: Encoder::new(page_len)?,
            frames: Frames::new()?,
            frames_below: Frames::new()?,
            page: vec![0; page_len],
            page_below: vec![0; page_len],
        };
        for page in 0..self.survey.version.map.page_count() {
            self.page(page, &mut bench, packer)?;
            paced.reach(packer.len())?;
        }
        Ok(())
    }

    /// Writes what is needed of one page, counted from 0.
    fn page(&self, nth: usize, bench: &mut Bench, packer: &mut Packer) -> Result<(), Error> {
        let map = &self.survey.version.map;
        let mut within = self.survey.entries_within(nth);
        let (Some(top), further) = (within.next(), within.next()) else {
            return Ok(());
        };
        let number = u32::try_from(nth + 1).unwrap_or(u32::MAX);
        let hash = map.hash(nth).unwrap_or_default();
        let depth_below = self.depth_below(nth);
        let fits = |more: u32| {
            let stacked = self.stacked.get(nth).copied().unwrap_or(0);
            depth_below.is_some_and(|depth| depth + more + stacked <= MOST_WHEN_FOLDED)
        };
        let below = self.below.as_ref().filter(|_| fits(0));
        if below.and_then(|below| below.map.hash(nth)) == Some(hash) {
            // It is what it was: nothing needs to be stored.
            return Ok(());
        }
        if further.is_none() && top.encoding == Encoding::Earlier {
            return packer.earlier(number, self.survey.below(top.offset), hash);
        }
        if further.is_none() && (top.encoding == Encoding::Difference || !fits(1)) {
            let frame = bench.frames.stored(map, top, Reading::InOrder)?;
            return packer.frame(number, (top.encoding, frame), hash);
        }
        bench.frames.page(map, nth, Reading::InOrder, &mut bench.page)?;
        let mut before = None;
        if let Some(below) = below.filter(|_| fits(1)) {
            bench.frames_below.page(&below.map, nth, Reading::InOrder, &mut bench.page_below)?;
            before = Some(bench.page_below.as_slice());
        }
        packer.frame(number, bench.encoder.encode(&bench.page, before), hash)
    }

    /// As how many differences the version below has a page, where it has it.
    fn depth_below(&self, nth: usize) -> Option<u32> {
        let map = &self.below.as_ref()?.map;
        map.hash(nth).map(|_| map.depth(nth))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::archive::Archive;
    use crate::codec::MOST_DIFFERENCES;
    use crate::meta::Cut;

    /// A store of four pages: one that changes a little in every version, one that changes in every third, one that is new
    /// every fiftieth time, and one that is again what it was thirteen versions before, but for every hundredth.
    fn pages(number: u64) -> [Vec<u8>; 4] {
        let page = |seed: u64, at: u64| {
            let mut page: Vec<u8> = (0..512_u64).map(|nth| (nth * seed % 251).to_le_bytes()[0]).collect();
            for version in at.saturating_sub(50)..=at {
                let place = usize::try_from(version * 37 % 500).unwrap_or(0);
                page[place..place + 8].copy_from_slice(&version.to_le_bytes());
            }
            page
        };
        let again = page(17, 1000 + number % 13 + number / 100);
        [page(7, number), page(11, number / 3), page(13 + number / 50, number), again]
    }

    fn write(archive: &Archive, number: u64) {
        let mut writer = archive.begin(number, asat_core::PageSize::new(512).unwrap(), 4).unwrap();
        (1..).zip(pages(number)).for_each(|(nth, page)| writer.page(nth, &page).unwrap());
        let (store, cut_at) = ("report".parse().unwrap(), jiff::Timestamp::UNIX_EPOCH);
        let cut = Cut { store, cut_at, wal: true, note: serde_json::Value::Null, even_if_unchanged: true };
        writer.finish(cut).unwrap();
    }

    /// The most differences that reading any page of any version follows.
    fn deepest(archive: &Archive) -> u32 {
        let mut deepest = 0;
        for number in archive.live() {
            let version = archive.inner.resolve(number).unwrap();
            let (mut frames, mut found) = (Frames::new().unwrap(), vec![0; 512]);
            for (nth, page) in pages(number).iter().enumerate() {
                frames.page(&version.map, nth, Reading::Single, &mut found).unwrap();
                assert_eq!(&found, page, "page {nth} of version {number}");
                deepest = deepest.max(version.map.depth(nth));
            }
        }
        deepest
    }

    /// Compacts as where there is no room to fold; answers of how many bytes the pace hears while runs are trimmed.
    fn trim(archive: &Archive) -> u64 {
        let mut told = 0;
        let mut pace = |bytes| {
            told += bytes;
            ControlFlow::Continue(())
        };
        for above in archive.inner.unsettled() {
            let survey = archive.inner.prepare(above, &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
            match archive.inner.compact_in_little_room(survey, Error::Stopped, &mut pace) {
                Ok(Some(_)) | Err(Error::Stopped) => {}
                refused => panic!("{refused:?}"),
            }
        }
        let report = archive.verify(None, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings, []);
        told
    }

    #[test]
    fn where_there_is_no_room_to_fold_what_is_not_needed_is_given_back_still() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let archive = Archive::open(folder.path()).unwrap().0;
        (1..=60).for_each(|number| write(&archive, number));
        (2..40).for_each(|number| _ = archive.retire(number).unwrap());
        let old = tempfile::tempdir_in("/dev/shm").unwrap();
        let copy = |name: &str, from: &Path, to: &Path| _ = fs::copy(from.join(name), to.join(name)).unwrap();
        let names = |archive: &Archive| -> Vec<String> {
            archive.inner.layers().values().map(|layer| layer.name().text()).collect()
        };
        names(&archive).iter().for_each(|name| copy(name, folder.path(), old.path()));
        let before = archive.bytes();
        let told = trim(&archive);
        assert_eq!(told, fs::metadata(folder.path().join("3-39.layer")).unwrap().len());
        assert!(archive.bytes() < before, "{} and {before} before", archive.bytes());
        // Of the second version nothing was needed.
        let trimmed = names(&archive);
        assert_eq!(trimmed[..3], ["1.pack", "3-39.layer", "40.pack"]);
        assert!(deepest(&archive) <= MOST_WHEN_FOLDED);

        // A crash may leave layers that were trimmed.
        drop(archive);
        let left = ["20.layer", "3.layer", "39.layer"];
        left.iter().for_each(|name| copy(name, old.path(), folder.path()));
        let (archive, mut opened) = Archive::open(folder.path()).unwrap();
        opened.removed.sort();
        assert_eq!((opened.removed, opened.foreign), (left.map(str::to_owned).to_vec(), Vec::new()));
        assert_eq!(names(&archive), trimmed);
        assert!(deepest(&archive) <= MOST_WHEN_FOLDED);

        // Where there is room again, the rest is given back.
        archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(archive.inner.layers().len(), archive.live().len());
        assert!(deepest(&archive) <= MOST_WHEN_FOLDED);
    }

    #[test]
    fn a_page_that_changes_again_and_again_is_stored_whole_now_and_then() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let archive = Archive::open(folder.path()).unwrap().0;
        (1..=80).for_each(|number| write(&archive, number));
        assert_eq!(deepest(&archive), MOST_DIFFERENCES);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn folding_in_any_order_never_makes_reading_longer_than_it_may_be(
            rounds in prop::collection::vec((1..60_u64, prop::collection::vec(any::<u16>(), 0..50), any::<bool>()), 1..8),
        ) {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let archive = Archive::open(folder.path()).unwrap().0;
            let mut number = 0;
            for (written, retired, has_room) in rounds {
                for _ in 0..written {
                    number += 1;
                    write(&archive, number);
                }
                for nth in retired {
                    let live = archive.live();
                    // The newest stays.
                    if let Some(nth) = usize::from(nth).checked_rem(live.len() - 1) {
                        archive.retire(live[nth]).unwrap();
                    }
                }
                if has_room {
                    archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
                } else {
                    trim(&archive);
                }
                prop_assert!(deepest(&archive) <= MOST_WHEN_FOLDED);
            }
        }
    }
}
