//! What the archive is at a moment: a manifest, and the segments that it names.
//!
//! A state never changes. Whoever reads holds one, and whatever happens to the archive meanwhile makes another.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use asat_core::boundary;

use crate::error::{Error, unless_refused};
use crate::index::VersionRef;
use crate::manifest::{Manifest, Meta, SegmentRef};
use crate::objects::Objects;
use crate::segment::{Ends, Segment};

/// A segment that a manifest names. It is opened when something of it is needed first.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) reference: SegmentRef,
    objects: Arc<dyn Objects>,
    opened: OnceLock<Arc<Segment>>,
}

impl Slot {
    /// Whether its file is open: then nothing of it is lost, whatever happens to the file.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    /// Whether its file is open, and not there any more under its name.
    pub(crate) fn is_gone(&self) -> bool {
        self.opened.get().is_some_and(|segment| segment.object.stamp().is_none())
    }

    /// Whether a version is between its first one and its last.
    pub(crate) fn covers(&self, number: u64) -> bool {
        (self.reference.first..=self.reference.last).contains(&number)
    }

    /// The segment. One that cannot be opened may have been put back when it is asked for again.
    pub(crate) fn segment(&self) -> Result<&Arc<Segment>, Error> {
        match self.opened.get() {
            Some(segment) => Ok(segment),
            None => self.open().map(|segment| self.opened.get_or_init(|| Arc::new(segment))),
        }
    }

    /// Opens the segment, be it open already: whoever opens it next has nothing else.
    pub(crate) fn open(&self) -> Result<Segment, Error> {
        boundary::step("archive: open a segment");
        let file = self.reference.file;
        let segment = Ends::open(&*self.objects, file)?.segment(file)?;
        let is_it = |segment: &Segment| segment.reference().identity == self.reference.identity;
        let what = "it is another file than the one of this number";
        segment.filter(is_it).ok_or_else(|| Error::damaged(&self.objects.name(file), what))
    }
}

/// What the archive is. Making one takes as long as there are segments, however many versions these have.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) manifest: Manifest,
    /// The segments, in the order of the manifest. The versions of one that cannot be opened are not known.
    pub(crate) slots: Vec<Arc<Slot>>,
}

impl State {
    /// What a manifest says of an archive whose files are these objects.
    pub(crate) fn new(objects: Arc<dyn Objects>, manifest: Manifest) -> Self {
        Self { objects, manifest: Manifest::default(), slots: Vec::new() }.then(manifest)
    }

    /// What the next manifest says; what is open stays open.
    pub(crate) fn then(&self, manifest: Manifest) -> Self {
        self.over(Arc::clone(&self.objects), manifest)
    }

    /// The same, if the files are found among other objects from then on.
    pub(crate) fn over(&self, objects: Arc<dyn Objects>, manifest: Manifest) -> Self {
        let slot = |reference: &SegmentRef| {
            let known = self.slots.iter().find(|slot| slot.reference == *reference);
            known.cloned().unwrap_or_else(|| {
                let (reference, objects) = (reference.clone(), Arc::clone(&objects));
                Arc::new(Slot { reference, objects, opened: OnceLock::new() })
            })
        };
        let slots = manifest.segments.iter().map(slot).collect();
        Self { objects, manifest, slots }
    }

    /// Whether all segments are open: whatever happens to their files, what is read of them stays the same.
    pub(crate) fn is_open(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_open())
    }

    /// Whether the segment in a file of this number is open.
    pub(crate) fn is_open_in(&self, file: u64) -> bool {
        self.slots.iter().any(|slot| slot.reference.file == file && slot.is_open())
    }

    /// Whether it has this segment.
    pub(crate) fn has(&self, segment: &SegmentRef) -> bool {
        self.manifest.segments.contains(segment)
    }

    /// What is said of a version that is not there.
    pub(crate) fn no_such_version(&self, number: u64) -> Error {
        Error::NoSuchVersion { number, folder: self.objects.place().to_owned() }
    }

    /// A version that can be read.
    pub(crate) fn live(&self, number: u64) -> Option<VersionRef> {
        let segment = self.described_in(number).ok()?;
        segment.directory.version(number).copied().filter(|_| self.is_live(number))
    }

    /// Whether a version was not given up.
    pub(crate) fn is_live(&self, number: u64) -> bool {
        !self.manifest.is_retired(number) && !self.manifest.is_void(number)
    }

    /// The versions that can be read, by number, from one on.
    pub(crate) fn live_from(&self, first: u64) -> Vec<VersionRef> {
        let mut slots: Vec<&Arc<Slot>> =
            self.slots.iter().filter(|slot| slot.reference.last >= first).collect();
        // Of several the one counts that was written last.
        slots.sort_by_key(|slot| Reverse(slot.reference.file));
        let segments = slots.into_iter().filter_map(|slot| slot.segment().ok());
        let versions = segments.flat_map(|segment| &segment.directory.versions);
        let is_live = |version: &&VersionRef| version.number >= first && self.is_live(version.number);
        let mut live: Vec<VersionRef> = versions.filter(is_live).copied().collect();
        live.sort_by_key(|version| version.number);
        live.dedup_by_key(|version| version.number);
        live
    }

    /// The newest version that can be read.
    pub(crate) fn newest(&self) -> Option<u64> {
        let newest = |slot: &Arc<Slot>| slot.segment().ok()?.newest(|number| self.is_live(*number));
        self.slots.iter().filter_map(newest).max()
    }

    /// The newest version beside one that was not given up, be it that it is lost.
    pub(crate) fn newest_beside(&self, number: u64) -> Option<u64> {
        let is_it = |other: &u64| *other != number && self.is_live(*other);
        let newest = |slot: &Arc<Slot>| match slot.segment() {
            Ok(segment) => segment.newest(is_it),
            Err(_) => (slot.reference.first..=slot.reference.last).rev().find(is_it),
        };
        self.slots.iter().filter_map(newest).max()
    }

    /// The lost files that a version may need.
    pub(crate) fn lost_in(&self, number: u64) -> BTreeSet<u64> {
        let lost = self.seen_in(number).filter(|slot| slot.segment().is_err());
        lost.map(|slot| slot.reference.file).collect()
    }

    /// Whether something is lost that would be seen in whatever is written upon a version, were it put back.
    pub(crate) fn is_lost_above(&self, number: u64) -> bool {
        let is_above = |slot: &&Arc<Slot>| slot.reference.last > number;
        // The first version above such a file stands alone, and so do those after it.
        self.manifest.unread.values().any(|up_to| *up_to >= number)
            || self.slots.iter().filter(is_above).any(|slot| slot.segment().is_err())
    }

    /// Whether a version was not given up that is there, or is in a lost segment.
    pub(crate) fn may_have(&self, number: u64) -> bool {
        let has = |segment: &Arc<Segment>| segment.directory.version(number).is_some();
        let mut covering = self.slots.iter().filter(|slot| slot.covers(number));
        self.is_live(number) && covering.any(|slot| slot.segment().map_or(true, has))
    }

    /// The version below which nothing is seen in one: itself if it is whole, or the newest up to it that stands alone.
    pub(crate) fn floor(&self, number: u64) -> u64 {
        if self.live(number).is_some_and(|version| version.is_whole) {
            return number;
        }
        let newest = |slot: &Arc<Slot>| {
            let alone = &slot.segment().ok()?.alone;
            let up_to = alone.get(..alone.partition_point(|alone| *alone <= number)).unwrap_or_default();
            up_to.iter().rev().copied().find(|alone| !self.manifest.is_void(*alone))
        };
        let slots = self.slots.iter().filter(|slot| slot.reference.first <= number);
        slots.filter_map(newest).max().unwrap_or(0)
    }

    /// The segments of which something may be seen in a version.
    pub(crate) fn seen_in(&self, number: u64) -> impl Iterator<Item = &Arc<Slot>> {
        let floor = self.floor(number);
        let is_seen = move |slot: &&Arc<Slot>| slot.reference.first <= number && slot.reference.last >= floor;
        self.slots.iter().filter(is_seen)
    }

    /// What is recorded of a version.
    pub(crate) fn describe(&self, number: u64) -> Result<Meta, Error> {
        self.described_in(number)?.describe(number)
    }

    /// The segment that describes a version: of several, the one that was written last.
    pub(crate) fn described_in(&self, number: u64) -> Result<Arc<Segment>, Error> {
        let (mut found, mut lost): (Option<&Arc<Segment>>, _) = (None, None);
        for slot in self.slots.iter().filter(|slot| slot.covers(number)) {
            match unless_refused(slot.segment())? {
                Ok(segment) if segment.directory.version(number).is_none() => {}
                Ok(segment) if found.is_some_and(|found| found.number > segment.number) => {}
                Ok(segment) => found = Some(segment),
                // Another one may describe it, too.
                Err(error) => lost = Some(error),
            }
        }
        found.cloned().ok_or_else(|| lost.unwrap_or_else(|| self.no_such_version(number)))
    }
}
