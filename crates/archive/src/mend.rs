//! Repairs what is damaged: what somebody still has the content of is written once more, and takes the place of what was there.
//!
//! Nothing is put right where it stands. A page is known by its check, and a version by its fingerprint; so content from anywhere
//! will do: the store as it is, a snapshot, or another archive of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use asat_core::{PageSize, Problem};

use crate::archive::{Archive, Inner};
use crate::builder::Builder;
use crate::codec::Encoder;
use crate::error::{Error, unless_refused};
use crate::fingerprint::{Fingerprinter, page_hash};
use crate::history::History;
use crate::index::{Check, VersionRef, check_of};
use crate::lock::lock;
use crate::manifest::{Description, Meta, SegmentRef};
use crate::merge::Pace;
use crate::reader::Reader;
use crate::state::{Slot, State};

/// What is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Of each file the pages that do not come out, the versions at which they became that, and what they are checked against.
    pub(crate) pages: BTreeMap<u64, BTreeMap<(u32, u64), Check>>,
    /// The files whose bytes are not what was written, or that are lost; and their blocks that cannot be read and that nobody needs.
    pub(crate) files: BTreeMap<u64, BTreeSet<u32>>,
    /// Whether something that is recorded cannot be read: [`Archive::record_anew`] puts that right.
    pub records: bool,
}

/// A file that was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutRight {
    /// The highest version that was put right with it.
    pub number: u64,
    /// Its name.
    pub file: PathBuf,
    /// How.
    pub by: Remedy,
}

/// What puts a file right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// All that is needed of it comes out, and was written once more.
    Itself,
    /// These pages came from elsewhere.
    Pages(Vec<Check>),
}

/// Pages by their checks.
pub type Contents = BTreeMap<Check, Vec<u8>>;

impl Damage {
    /// Whether nothing is damaged that could be repaired.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.files.is_empty() && !self.records
    }

    /// The checks of the pages whose content is wanted.
    pub fn wanted(&self) -> impl Iterator<Item = Check> {
        self.pages.values().flat_map(|pages| pages.values().copied())
    }
}

/// What a page is checked against: whoever has contents looks for those that are wanted by this.
#[must_use]
pub fn check(page: &[u8]) -> Check {
    check_of(&page_hash(page))
}

impl Archive {
    /// Writes the damaged pages once more that are among `contents`, and those files all of whose pages come out; answers which. What is not there
    /// stays damaged.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the pace says so; or if the machine refuses.
    pub fn repair(
        &self,
        damage: &Damage,
        contents: &Contents,
        pace: Pace<'_>,
    ) -> Result<Vec<PutRight>, Error> {
        let archive = &*self.inner;
        let _alone = lock(&archive.merging);
        let mut repaired: Vec<PutRight> = Vec::new();
        for (file, pages) in &damage.pages {
            let given = pages.iter().filter_map(|(page, check)| {
                Some((*page, contents.get(check)?)).filter(|(_, content)| self::check(content) == *check)
            });
            let given: BTreeMap<(u32, u64), &Vec<u8>> = given.collect();
            let state = archive.opened();
            let segment = state.slots.iter().find(|slot| slot.reference.file == *file);
            let Some(segment) = segment.filter(|_| !given.is_empty()) else { continue };
            if self.put_pages(segment.segment()?.directory.page_size, &given)? {
                let by = Remedy::Pages(given.values().map(|content| self::check(content)).collect());
                let number = given.keys().map(|(_, version)| *version).max().unwrap_or(0);
                repaired.push(PutRight { number, file: archive.objects.name(*file), by });
            }
        }
        for (file, needless) in &damage.files {
            let name = archive.objects.name(*file);
            // If something that is needed does not come out, it stays as it is.
            let number = unless_refused(archive.replace(*file, needless, pace))?.ok().flatten();
            if let Some(number) = number.filter(|_| repaired.iter().all(|repaired| repaired.file != name)) {
                repaired.push(PutRight { number, file: name, by: Remedy::Itself });
            }
        }
        Ok(repaired)
    }

    /// Does without files that were written last and cannot be read, and deletes them: that nobody misses a version of theirs, the caller
    /// knows. Answers which.
    pub fn forget_unread(&self) -> Result<Vec<PathBuf>, Error> {
        let archive = &*self.inner;
        let unread = archive.state().manifest.unread.clone();
        if !unread.is_empty() {
            archive.commit_manifest(|_, manifest| {
                manifest.unread.clear();
                true
            })?;
        }
        Ok(unread.keys().map(|file| archive.objects.name(*file)).collect())
    }

    /// Writes pages as they became at versions once more, whole.
    fn put_pages(&self, page_size: PageSize, pages: &BTreeMap<(u32, u64), &Vec<u8>>) -> Result<bool, Error> {
        let archive = &*self.inner;
        let first = pages.keys().map(|(_, version)| *version).min().unwrap_or(1);
        let mut builder = Builder::new(&archive.objects, page_size, first)?;
        let mut encoder = Encoder::new(page_size.as_usize(), None)?;
        for (at, content) in pages.iter().filter(|(_, content)| content.len() == page_size.as_usize()) {
            builder.add_whole(*at, content, &mut encoder)?;
        }
        if builder.count == 0 {
            return Ok(false);
        }
        Ok(archive.commit(builder.seal(Vec::new())?, |_, _| true)?.is_some())
    }

    /// Writes a version anew, whole, from what `read` hands over; answers its file. Nothing of what was there of it is needed any more. Unless it
    /// `must_live`, it need not be there any more: that it was not given up, the caller knows.
    /// `None`: that is not the content of the version, and nothing has changed.
    ///
    /// # Errors
    /// [`Error::Busy`] if a version is being written when `read` is through: it may lie upon what would be replaced. So `read` ends with
    /// [`Archive::wait_for_writer`], where others write. Where the version was given up, where `read` fails, or where the machine refuses.
    pub fn put_back(
        &self,
        meta: Meta,
        must_live: bool,
        read: impl FnOnce(&mut Rebuild) -> Result<(), Problem>,
    ) -> Result<Option<PathBuf>, Problem> {
        let archive = &*self.inner;
        let _alone = lock(&archive.merging);
        let (number, page_count) = (meta.number, meta.page_count);
        // What cannot be opened at the moment may be what it is put below.
        let state = archive.opened();
        state.slots.iter().try_for_each(|slot| unless_refused(slot.segment()).map(drop))?;
        let is_known = state.may_have(number);
        let is_next = |live: &VersionRef| live.number > number && !is_known;
        let next = |state: &State| state.live_from(number).into_iter().find(is_next).map(|live| live.number);
        let expected = next(&state);
        let above = expected.map(|above| self.read(above)).transpose()?;
        let mut rebuild = Rebuild {
            above: above.filter(|above| above.meta().page_size == meta.page_size),
            page: vec![0; meta.page_size.as_usize()],
            builder: Builder::new(&archive.objects, meta.page_size, number)?,
            encoder: Encoder::new(meta.page_size.as_usize(), None)?,
            fingerprinter: Fingerprinter::new(meta.page_size, page_count),
            pages: 0,
            meta,
        };
        read(&mut rebuild)?;
        let Rebuild { meta, builder, fingerprinter, pages, .. } = rebuild;
        if pages != page_count || fingerprinter.finish() != meta.fingerprint {
            return Ok(None);
        }
        let version = VersionRef { number, page_count, bytes: 0, is_whole: true, stands_alone: false };
        let sealed = builder.seal(vec![(version, Description::of(&meta)?)])?;
        let mut is_disturbed = false;
        let committed = archive.commit(sealed, |state, manifest| {
            // What is written lies upon what the version before showed, which no merge keeps once that is whole. And what would be seen of
            // this version in one that was written meanwhile was not compared with it.
            is_disturbed = *lock(&archive.writing) || next(state) != expected;
            // The file that it was written in has nothing else.
            let is_it = |segment: &SegmentRef| (segment.first, segment.last) == (number, number);
            let written = manifest.number;
            manifest.segments.retain(|segment| !is_it(segment) || segment.file == written);
            !is_disturbed && state.is_live(number) && (!must_live || state.live(number).is_some())
        })?;
        if is_disturbed {
            return Err(Error::busy(self.folder(), "another version is being written, or was").into());
        }
        let state = committed.ok_or_else(|| state.no_such_version(number))?;
        *lock(&archive.head) = None;
        Ok(Some(archive.objects.name(state.manifest.number)))
    }
}

impl Inner {
    /// Has the archive do without a damaged file: what is needed of it is written once more. Answers the highest version that it has something of.
    fn replace(&self, file: u64, needless: &BTreeSet<u32>, pace: Pace<'_>) -> Result<Option<u64>, Error> {
        let state = self.opened();
        let Some(slot) = state.slots.iter().find(|slot| slot.reference.file == file) else { return Ok(None) };
        let last = slot.reference.last;
        if slot.segment().is_err() {
            return Ok(self.do_without(&state, slot)?.then_some(last));
        }
        for mut history in History::all(&state)? {
            if history.segments.iter().all(|segment| segment.number != file) {
                continue;
            }
            history.without.extend(needless.iter().map(|block| (file, *block)));
            history.pass_over_others(file)?;
            if self.merge(&history, &[file].into(), true, pace)?.is_some() {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }

    /// Has the archive do without a lost segment: all versions that it may have had are elsewhere or were given up, and no other one needs it.
    fn do_without(&self, state: &State, lost: &Slot) -> Result<bool, Error> {
        let SegmentRef { file, first, last, .. } = lost.reference;
        let live = state.live_from(0);
        let is_there = |number: u64| live.binary_search_by_key(&number, |version| version.number).is_ok();
        if (first..=last).any(|number| state.is_live(number) && !is_there(number)) {
            return Ok(false);
        }
        for number in live.iter().map(|version| version.number).filter(|number| *number >= first) {
            if state.seen_in(number).any(|slot| slot.reference.file == file) {
                self.open_version(state, number)?;
            }
        }
        let expected = state.manifest.number;
        let committed = self.commit_manifest(|state, manifest| {
            manifest.segments.retain(|segment| segment.file != file);
            manifest.forget();
            // If it is back by now, what was found may be what it has.
            state.manifest.number == expected && !lost.is_open()
        })?;
        Ok(committed.is_some())
    }
}

/// A version that is written anew.
pub struct Rebuild {
    meta: Meta,
    /// The next version, if that was written while nothing was known of this one. Its pages stay what they are.
    above: Option<Reader>,
    page: Vec<u8>,
    builder: Builder,
    encoder: Encoder,
    fingerprinter: Fingerprinter,
    pages: u32,
}

impl Rebuild {
    /// What is recorded of the version.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Takes the next page.
    ///
    /// # Errors
    /// Where it is of another size, or the machine refuses.
    pub fn page(&mut self, page: &[u8]) -> Result<(), Error> {
        if page.len() != self.meta.page_size.as_usize() || self.pages == self.meta.page_count {
            return Err(Error::Misuse(format!("page {} does not belong to the version", self.pages + 1)));
        }
        self.pages += 1;
        self.fingerprinter.page(page);
        let (number, version) = (self.pages, self.meta.number);
        self.builder.add_whole((number, version), page, &mut self.encoder)?;
        if let Some(above) = &self.above
            && number <= above.meta().page_count
            && above.since(number)? < version
        {
            above.read_page(number, &mut self.page)?;
            if self.page != page {
                self.builder.add_whole((number, above.meta().number), &self.page, &mut self.encoder)?;
            }
        }
        Ok(())
    }
}
