//! An archive whose files are somewhere else and are written by another asat: it is read, and follows that one from state to state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive::{Archive, take_in};
use crate::error::{Error, unless_refused};
use crate::files::FileId;
use crate::layout::{FOOTER_LEN, Footer, HEADER_LEN};
use crate::manifest::Manifest;
use crate::objects::{Draft, Object, Objects, Stamp};
use crate::segment::{END_BYTES, Ends};
use crate::state::{Slot, State};

/// The bytes of one file that is somewhere else. They never change, and can be read by any number of threads.
pub trait FileBytes: Debug + Send + Sync {
    /// What the file is.
    fn id(&self) -> FileId;
    /// How it is called in messages.
    fn name(&self) -> &Path;
    /// Fills `buffer` with what begins at `offset`, all of which the file has.
    ///
    /// # Errors
    /// [`Error::Away`] if it cannot be had at this moment; an [`Error::Io`] that something was not found if it is gone for good.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;
    /// Says that this is read soon, so that it can be fetched together with what is read next.
    fn expect(&self, offset: u64, len: u64);
    /// Says that something which was read is not what was written: nothing that is kept of the file is believed any more.
    fn doubt(&self);
}

impl Archive {
    /// An archive that others write and that has nothing yet. `place` says in messages where it is.
    #[must_use]
    pub fn elsewhere(place: &Path) -> Self {
        let nothing = Elsewhere { place: place.to_owned(), files: BTreeMap::new() };
        Self::reading(Arc::new(nothing), Manifest::default())
    }

    /// Goes on to the state that these files are, in the order of their numbers. Those who read read on in the state before, and versions
    /// that are to be kept can be read on although they are given up, as long as their files are there.
    ///
    /// # Errors
    /// If the newest file cannot be read, or is not what it is said to be; if another one is away. Nothing has changed then.
    pub fn advance(&self, files: &[Arc<dyn FileBytes>], keep: &BTreeSet<u64>) -> Result<(), Error> {
        let Some(newest) = files.last().map(|newest| newest.id()) else { return Ok(()) };
        let named = files.iter().map(|file| (file.id().number, Arc::clone(file))).collect();
        let objects: Arc<dyn Objects> = Arc::new(Elsewhere { place: self.folder().to_owned(), files: named });
        // Where what is known before is open, nothing of this is fetched.
        let is_known = |file: &&Arc<dyn FileBytes>| self.inner.state().is_open_in(file.id().number);
        for file in files.iter().filter(|file| !is_known(file)) {
            let bytes = file.id().bytes;
            file.expect(bytes.saturating_sub(END_BYTES), bytes.min(END_BYTES));
        }
        let ends = Ends::open(&*objects, newest.number)?;
        let manifest = ends.manifest()?;
        if manifest.number != newest.number {
            let what = format!("it is file {} of an archive", manifest.number);
            return Err(ends.into_parts().0.damaged(what));
        }
        // What its publisher could not read when it wrote this may be read here. If it is away, it would not be looked for again before the next one.
        let mut manifest = manifest;
        let segment = |file: &u64| Ends::open(&*objects, *file).and_then(|ends| ends.segment(*file));
        manifest.unread.keys().try_for_each(|file| unless_refused(segment(file)).map(drop))?;
        take_in(&objects, &mut manifest, |number| files.iter().any(|file| file.id().number == number));
        let after = self.inner.state().over(objects, manifest);
        // What is away for a moment must not look as if it were given up.
        after.slots.iter().try_for_each(|slot| unless_refused(slot.segment()).map(drop))?;
        let bytes = files.iter().map(|file| file.id().bytes).fold(0, u64::saturating_add);
        self.inner.go_on_to(after, keep, bytes);
        Ok(())
    }

    /// Which of these versions were given up: the archive says so, and not only that what has them cannot be read, here or by who writes it.
    #[must_use]
    pub fn given_up(&self, versions: &[u64]) -> Vec<u64> {
        let state = self.inner.state();
        let Segments { lost, versions: has } = Segments::of(&state);
        let unread = if state.manifest.unread.is_empty() { BTreeMap::new() } else { self.lost() };
        let may_be_there = |number| has.contains(&number) || lost.iter().any(|(slot, _)| slot.covers(number));
        let is_kept = |number| unread.contains_key(&number) || state.is_live(number) && may_be_there(number);
        versions.iter().copied().filter(|number| !is_kept(*number)).collect()
    }

    /// Versions that segments may have which cannot be read, each time with what is in the way. A number among them may never have been a
    /// version.
    #[must_use]
    pub fn lost_versions(&self) -> Vec<(Vec<u64>, Error)> {
        let state = self.inner.state();
        let Segments { lost, versions: has } = Segments::of(&state);
        let is_lost = |number: &u64| state.is_live(*number) && !has.contains(number);
        let numbers = |slot: &Slot| (slot.reference.first..=slot.reference.last).filter(is_lost).collect();
        lost.into_iter().map(|(slot, error)| (numbers(slot), error)).collect()
    }

    /// Has what describes the versions from one on be fetched together, when the first of them is asked for.
    pub fn expect_descriptions(&self, first: u64) {
        let state = self.inner.state();
        let slots = state.slots.iter().filter(|slot| slot.reference.last >= first);
        slots.filter_map(|slot| slot.segment().ok()).for_each(|segment| segment.expect_descriptions());
    }
}

/// The segments of a state, each of which was looked for once, and not for each of its versions.
struct Segments<'a> {
    /// Those that cannot be read, with what is in the way.
    lost: Vec<(&'a Slot, Error)>,
    /// The versions that the others have, be it that they are given up.
    versions: BTreeSet<u64>,
}

impl<'a> Segments<'a> {
    fn of(state: &'a State) -> Self {
        let (mut lost, mut versions): (Vec<(&Slot, Error)>, _) = (Vec::new(), BTreeSet::new());
        for slot in &state.slots {
            match slot.segment() {
                Ok(segment) => {
                    versions.extend(segment.directory.versions.iter().map(|version| version.number))
                }
                Err(error) => lost.push((slot, error)),
            }
        }
        Self { lost, versions }
    }
}

/// Files that are somewhere else, of one state of an archive.
#[derive(Debug)]
struct Elsewhere {
    place: PathBuf,
    files: BTreeMap<u64, Arc<dyn FileBytes>>,
}

impl Elsewhere {
    fn read_only(&self) -> Error {
        Error::ReadOnly { folder: self.place.clone() }
    }
}

impl Objects for Elsewhere {
    fn draft(&self) -> Result<Box<dyn Draft>, Error> {
        Err(self.read_only())
    }

    fn open(&self, number: u64) -> Result<Arc<dyn Object>, Error> {
        match self.files.get(&number) {
            Some(file) => open(file),
            None => Err(Error::io("open", &self.name(number), std::io::ErrorKind::NotFound.into())),
        }
    }

    fn list(&self) -> Result<Vec<u64>, Error> {
        Ok(self.files.keys().copied().collect())
    }

    fn delete(&self, _: u64) -> Result<(), Error> {
        Err(self.read_only())
    }

    fn is_near(&self) -> bool {
        false
    }

    fn room(&self) -> Option<u64> {
        None
    }

    fn name(&self, number: u64) -> PathBuf {
        match self.files.get(&number) {
            Some(file) => file.name().to_owned(),
            None => self.place.join(crate::folder::name_of(number)),
        }
    }

    fn place(&self) -> &Path {
        &self.place
    }
}

/// Opens a file, if it is the one that is meant: another one may have been put in its place. What else is wrong with its ends is found out
/// when they are read.
fn open(file: &Arc<dyn FileBytes>) -> Result<Arc<dyn Object>, Error> {
    let (object, id): (Arc<dyn Object>, _) = (Arc::new(Remote(Arc::clone(file))), file.id());
    if id.bytes < HEADER_LEN + FOOTER_LEN {
        return Ok(object);
    }
    let footer = object.read_range(id.bytes - FOOTER_LEN..id.bytes)?;
    match Footer::decode_end(&footer, id.bytes) {
        Ok(footer) if footer.hash() != id.hash => {
            Err(object.damaged("it is another file than the one that was meant"))
        }
        _ => Ok(object),
    }
}

/// A file that is somewhere else, open.
#[derive(Debug)]
struct Remote(Arc<dyn FileBytes>);

impl Object for Remote {
    fn name(&self) -> &Path {
        self.0.name()
    }

    fn len(&self) -> u64 {
        self.0.id().bytes
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let end = offset.checked_add(crate::layout::len_of(buffer));
        if end.is_none_or(|end| end > self.len()) {
            return Err(Error::damaged(self.name(), "it ends before what was to be read of it"));
        }
        self.0.read(offset, buffer)
    }

    fn expect(&self, offset: u64, len: u64) {
        self.0.expect(offset, len);
    }

    fn stamp(&self) -> Option<Stamp> {
        // It is named by its content, so it never changes under its name.
        Some(Stamp { inode: self.0.id().number, bytes: self.0.id().bytes, modified: (0, 0) })
    }

    fn doubt(&self) {
        self.0.doubt();
    }
}
