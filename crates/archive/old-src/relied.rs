//! What a new version may rely on: those pages of the newest one that were read.
//!
//! A page that has not changed is left out of a new version, which relies on what older layers have of it. An index says what that must
//! hash to, and nothing of whether it still does. So it is read once before: after a start, and again where a file has changed
//! since. A page that does not come out is stored whole by the next version, which has it from the store; so that one and those
//! after it can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use asat_core::PageSize;

use crate::archive::{Archive, Inner};
use crate::chain::lock;
use crate::disk::Stamp;
use crate::error::Error;
use crate::fingerprint::{PageHash, SIDE_BY_SIDE, hash_pages};
use crate::frames::{Frames, Reading};
use crate::pages::PageMap;

/// Says whether to go on reading.
pub type GoOn<'a> = &'a dyn Fn() -> bool;

/// The newest version, as far as the next one relies on it.
#[derive(Clone, Debug)]
pub(crate) struct Relied {
    pub(crate) number: u64,
    pub(crate) page_size: PageSize,
    /// The hash of each page.
    pub(crate) hashes: Arc<Vec<PageHash>>,
    /// The pages, counted from 0, that cannot be read.
    pub(crate) lost: Arc<BTreeSet<usize>>,
    /// What the files were like that its pages were read of, by the numbers of their layers.
    pub(crate) files: Arc<BTreeMap<u64, Stamp>>,
}

impl Relied {
    /// The hash of a page, counted from 0, that a new version may leave out.
    pub(crate) fn hash(&self, nth: usize) -> Option<&PageHash> {
        self.hashes.get(nth).filter(|_| !self.lost.contains(&nth))
    }
}

impl Archive {
    /// Reads those pages of the newest version that the next one may rely on and that were not read yet. [`Self::begin`] does the same;
    /// if somebody is held up while a version is written, this is called before. Answers how many pages cannot be read.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `go_on` says so; or if the machine refuses.
    pub fn read_newest(&self, go_on: GoOn<'_>) -> Result<usize, Error> {
        let Some(number) = self.newest() else { return Ok(0) };
        match self.inner.relied(number, go_on) {
            Ok(relied) => Ok(relied.lost.len()),
            // The next version relies on nothing then.
            Err(error) if error.is_loss() || matches!(error, Error::NoSuchVersion { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Whether this is the newest version and all of its pages were read since their files were last changed. Nothing is read for that.
    #[must_use]
    pub fn was_read(&self, number: u64) -> bool {
        let known =
            lock(&self.inner.head).clone().filter(|known| known.number == number && known.lost.is_empty());
        self.newest() == Some(number) && known.is_some_and(|known| self.inner.is_as_read(&known))
    }
}

impl Inner {
    /// The newest version, all pages of which were read since their files were last changed.
    pub(crate) fn relied(&self, number: u64, go_on: GoOn<'_>) -> Result<Relied, Error> {
        let _alone = lock(&self.reading);
        let known = lock(&self.head).clone().filter(|known| known.number == number);
        if let Some(known) = &known
            && self.is_as_read(known)
        {
            return Ok(known.clone());
        }
        let relied = self.read_again(number, known.as_ref(), go_on)?;
        *lock(&self.head) = Some(relied.clone());
        Ok(relied)
    }

    /// Whether all files that the version was read of are there as they were.
    fn is_as_read(&self, known: &Relied) -> bool {
        let layers = self.layers();
        known.files.contains_key(&known.number)
            && known.files.iter().all(|(number, stamp)| {
                layers.get(number).and_then(|layer| self.folder.stamp(&layer.name().text()).ok())
                    == Some(*stamp)
            })
    }

    /// Reads what is not known of a version.
    fn read_again(&self, number: u64, known: Option<&Relied>, go_on: GoOn<'_>) -> Result<Relied, Error> {
        let version = self.resolve(number)?;
        let stamps = version.map.packs().map(|pack| Ok((pack.meta().number, pack.stamp()?)));
        let mut files = stamps.collect::<Result<BTreeMap<u64, Stamp>, Error>>()?;
        let is_read = |layer: u64| known.is_some_and(|known| known.files.get(&layer) == files.get(&layer));
        let is_wanted = |nth: usize| {
            known.is_some_and(|known| known.lost.contains(&nth))
                || version.map.frames_of(nth).any(|frame| !is_read(version.map.layer_of(frame)))
        };
        let lost = Arc::new(unreadable(&version.map, is_wanted, go_on)?);
        if let Some(layer) = self.layers().get(&number) {
            // It may have no page of its own.
            let own = self.folder.stamp(&layer.name().text());
            files.insert(number, own.map_err(|source| Error::io("look at", self.folder.path(), source))?);
        }
        let hashes = Arc::new(version.map.hashes().to_vec());
        Ok(Relied { number, page_size: version.meta.page_size, hashes, lost, files: Arc::new(files) })
    }

    /// Takes note of a version that was just written upon the one `before`. What was left out was read then, and the rest came from the
    /// store. If it `refers` to other versions, it is not known which files these are.
    pub(crate) fn rely_on(&self, mut written: Relied, before: Option<u64>, refers: bool) {
        let layers = self.layers();
        let stamp =
            layers.get(&written.number).and_then(|layer| self.folder.stamp(&layer.name().text()).ok());
        if let Some(stamp) = stamp.filter(|_| !refers) {
            Arc::make_mut(&mut written.files).insert(written.number, stamp);
        }
        let mut head = lock(&self.head);
        // Somebody may have found damage meanwhile, or given up the version before.
        if before.is_none() || head.as_ref().map(|known| known.number) == before {
            *head = Some(written);
        }
    }
}

/// The pages of those wanted, counted from 0, that do not come out.
fn unreadable(
    map: &PageMap,
    is_wanted: impl Fn(usize) -> bool,
    go_on: GoOn<'_>,
) -> Result<BTreeSet<usize>, Error> {
    let page_len = map.page_size().as_usize();
    let (mut frames, mut page) = (Frames::new()?, vec![0; page_len]);
    let (mut lost, mut waiting) = (BTreeSet::new(), Waiting::default());
    for nth in (0..map.page_count()).filter(|&nth| is_wanted(nth)) {
        match frames.decode(map, map.frames_of(nth).copied(), Reading::InOrder, &mut page) {
            Ok(true) => waiting.take(nth, &page),
            Ok(false) => _ = lost.insert(nth),
            Err(error) if error.is_loss() => _ = lost.insert(nth),
            Err(error) => return Err(error),
        }
        if waiting.pages.len() == SIDE_BY_SIDE {
            waiting.compare(map, &mut lost);
            if !go_on() {
                return Err(Error::Stopped);
            }
        }
    }
    waiting.compare(map, &mut lost);
    Ok(lost)
}

/// Pages that were put together, and are to be compared with their hashes.
#[derive(Default)]
struct Waiting {
    pages: Vec<usize>,
    bytes: Vec<u8>,
    hashes: Vec<PageHash>,
}

impl Waiting {
    fn take(&mut self, nth: usize, page: &[u8]) {
        self.pages.push(nth);
        self.bytes.extend_from_slice(page);
    }

    fn compare(&mut self, map: &PageMap, lost: &mut BTreeSet<usize>) {
        hash_pages(&self.bytes, map.page_size().as_usize(), &mut self.hashes);
        let hashed = self.pages.drain(..).zip(self.hashes.drain(..));
        lost.extend(hashed.filter(|(nth, hash)| map.hash(*nth) != Some(*hash)).map(|(nth, _)| nth));
        self.bytes.clear();
    }
}
