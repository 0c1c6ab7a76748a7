//! The archive itself: opening it, what it holds, and the one way in which it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use asat_core::boundary;

use crate::builder::Sealed;
use crate::error::{Error, unless_refused};
use crate::folder::{Folder, Opened};
use crate::head::Head;
use crate::lock::lock;
use crate::manifest::{Manifest, Meta, SegmentRef};
use crate::objects::Objects;
use crate::reader::Reader;
use crate::recent::Recent;
use crate::segment::Ends;
use crate::state::State;
use crate::view::View;

/// One store's archive. Cloning gives another handle on the same one.
///
/// One version may be written, versions given up, segments merged, and any number read, all at the same time; reads wait for nobody.
#[derive(Clone, Debug)]
pub struct Archive {
    pub(crate) inner: Arc<Inner>,
}

/// What the handles share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) objects: Arc<dyn Objects>,
    state: Mutex<Arc<State>>,
    /// Held while the archive changes.
    commit: Mutex<Files>,
    /// How long all files are together, in bytes.
    bytes: AtomicU64,
    /// Held during a merge, of which there is one at a time.
    pub(crate) merging: Mutex<()>,
    /// Held while something is recorded.
    pub(crate) recording: Mutex<()>,
    /// Whether a version is being written.
    pub(crate) writing: Mutex<bool>,
    /// Tells that none is being written any more.
    pub(crate) written: Condvar,
    /// What is known of the newest version, while somebody may want to write the next one.
    pub(crate) head: Mutex<Option<Head>>,
    /// What is in memory of its pages.
    pub(crate) recent: Recent,
    /// Held while that is read.
    pub(crate) reading: Mutex<()>,
    /// Versions that are given up and can be read on, each in the last state that had it.
    kept: Mutex<BTreeMap<u64, Arc<State>>>,
    /// Versions that were found to need nothing of files that are lost.
    needs_none_of: Mutex<BTreeMap<u64, BTreeSet<u64>>>,
    /// Whether versions were given up since it was looked at last what of segments nobody needs: that takes reading their indexes.
    pub(crate) has_garbage: AtomicBool,
}

/// The files that are there.
#[derive(Debug, Default)]
struct Files {
    /// Each with its length in bytes.
    there: BTreeMap<u64, u64>,
    /// The highest number that a file had since the archive was opened, be it deleted by now. The next one gets the number after it, so that
    /// of two that write to one archive only one can go on.
    highest: u64,
    /// The manifest before the newest: should that be damaged, it says what the archive was.
    fallback: Manifest,
}

impl Archive {
    /// Opens the archive in `folder`, making the folder where it is missing, and removes what a crash has left. Where the newest file is
    /// damaged, the archive is what the one before says.
    ///
    /// # Errors
    /// Where the machine refuses, another asat has it open, it has another format, or no file says what it is.
    pub fn open(folder: &Path) -> Result<(Self, Opened), Error> {
        let (folder, mut found) = Folder::open(folder)?;
        if let Some(name) = found.foreign.iter().find(|name| is_of_format_4(name)) {
            return Err(Error::Format { path: folder.place().join(name), found: 4 });
        }
        let (archive, opened) = Self::over(Arc::new(folder))?;
        found.removed.extend(opened.removed);
        Ok((archive, found))
    }

    /// Opens the archive whose files are these objects.
    pub(crate) fn over(objects: Arc<dyn Objects>) -> Result<(Self, Opened), Error> {
        let (mut manifest, files) = newest_manifest(&*objects)?;
        take_in(&objects, &mut manifest, |file| files.there.contains_key(&file));
        let inner = Inner::new(objects, manifest, files);
        let swept = inner.sweep(&mut lock(&inner.commit));
        let name = |path: PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let removed = swept.into_iter().map(|file| name(inner.objects.name(file))).collect();
        Ok((Self { inner: Arc::new(inner) }, Opened { removed, ..Opened::default() }))
    }

    /// An archive in which nothing is looked for, and of which nothing is deleted.
    pub(crate) fn reading(objects: Arc<dyn Objects>, manifest: Manifest) -> Self {
        Self { inner: Arc::new(Inner::new(objects, manifest, Files::default())) }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.inner.objects.place()
    }

    /// Files that cannot be read, each with what is wrong. Of those that were written last nothing is seen until they are put back and the
    /// archive is opened again.
    #[must_use]
    pub fn unread(&self) -> Vec<Error> {
        self.inner.look(|state| {
            let lost = state.slots.iter().filter_map(|slot| slot.segment().err());
            lost.chain(self.inner.unread(state)).collect()
        })
    }

    /// Versions that files may have which cannot be read, each with what is in the way: those of a segment that is lost; and one for each
    /// file that was written last, if that was a version.
    #[must_use]
    pub fn lost(&self) -> BTreeMap<u64, Error> {
        self.inner.look(|state| self.inner.lost(state))
    }

    /// The live versions, oldest first.
    #[must_use]
    pub fn live(&self) -> Vec<u64> {
        self.inner.look(|state| state.live_from(0).iter().map(|version| version.number).collect())
    }

    /// The highest number of a live version.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.inner.look(|state| state.newest())
    }

    /// Whether nothing was stored of versions from this number on.
    #[must_use]
    pub fn ends_below(&self, number: u64) -> bool {
        self.inner.state().manifest.highest < number
    }

    /// Whether a version can be read.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.inner.look(|state| state.live(number).is_some())
    }

    /// What is recorded of a live version. Whether its pages can be had, [`Self::read`] finds out.
    pub fn describe(&self, number: u64) -> Result<Meta, Error> {
        self.inner.look_at(number, |state| state.describe(number))
    }

    /// What all files take on disk, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner.bytes.load(Ordering::Relaxed)
    }

    /// What a live version took when it was written; older ones may hold pages of it too.
    #[must_use]
    pub fn stored_bytes(&self, number: u64) -> Option<u64> {
        self.inner.look(|state| state.live(number).map(|version| version.bytes))
    }

    /// Opens a version for reading. What is given up or merged later does not disturb the reader.
    pub fn read(&self, number: u64) -> Result<Reader, Error> {
        self.inner.look_at(number, |state| self.inner.open_version(state, number))
    }
}

impl Inner {
    fn new(objects: Arc<dyn Objects>, manifest: Manifest, files: Files) -> Self {
        Self {
            state: Mutex::new(Arc::new(State::new(Arc::clone(&objects), manifest))),
            objects,
            bytes: AtomicU64::new(files.there.values().sum()),
            commit: Mutex::new(files),
            merging: Mutex::default(),
            recording: Mutex::default(),
            writing: Mutex::default(),
            written: Condvar::new(),
            head: Mutex::default(),
            recent: Recent::default(),
            reading: Mutex::default(),
            kept: Mutex::default(),
            needs_none_of: Mutex::default(),
            has_garbage: AtomicBool::new(true),
        }
    }

    /// Goes on to a state that others have written; what is open of the one before stays open.
    pub(crate) fn go_on_to(&self, after: State, keep: &BTreeSet<u64>, bytes: u64) {
        let before = self.state();
        let mut kept = lock(&self.kept);
        kept.retain(|number, _| keep.contains(number) && !after.may_have(*number));
        // What is in no segment any more is not named as given up either.
        let is_new = |number: &u64| before.live(*number).is_some() && !after.may_have(*number);
        let given_up: Vec<u64> = keep.iter().copied().filter(is_new).collect();
        kept.extend(given_up.into_iter().map(|number| (number, Arc::clone(&before))));
        drop(kept);
        *lock(&self.state) = Arc::new(after);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// The archive as it is now.
    pub(crate) fn state(&self) -> Arc<State> {
        boundary::step("archive: look at the state");
        Arc::clone(&lock(&self.state))
    }

    /// Nothing is committed as long as what it answers lives.
    pub(crate) fn unchanging(&self) -> impl Drop {
        lock(&self.commit)
    }

    /// Looks at the archive as it is now. Files that a state names may be deleted before they are open, because another state has followed:
    /// then it looks again.
    pub(crate) fn look<T>(&self, look: impl Fn(&Arc<State>) -> T) -> T {
        loop {
            let state = self.state();
            let seen = look(&state);
            let is_open = state.is_open() && state.manifest.unread.is_empty();
            if is_open || Arc::ptr_eq(&state, &self.state()) {
                return seen;
            }
        }
    }

    /// Looks at a live version, in the same way.
    pub(crate) fn look_at<T>(
        &self,
        number: u64,
        look: impl Fn(&State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let state = self.state();
            let kept = lock(&self.kept).get(&number).cloned();
            if let Some(kept) = kept {
                return look(&kept);
            }
            if !state.is_live(number) {
                return Err(state.no_such_version(number));
            }
            match look(&state) {
                Err(error) if error.is_loss() && !Arc::ptr_eq(&state, &self.state()) => {}
                result => return result,
            }
        }
    }

    /// The archive as it is now, with all segments open that can be.
    pub(crate) fn opened(&self) -> Arc<State> {
        self.look(|state| {
            state.slots.iter().for_each(|slot| _ = slot.segment());
            Arc::clone(state)
        })
    }

    /// Opens a version.
    pub(crate) fn open_version(&self, state: &State, number: u64) -> Result<Reader, Error> {
        let meta = state.describe(number)?;
        // Of a large store it takes time to find out where its pages are, and memory.
        if let Some(head) = self.known_head(number).filter(|head| head.view.lost.is_empty()) {
            return Ok(Reader::new(meta, head.view));
        }
        match unless_refused(View::new(state, number))? {
            Ok(view) => Ok(Reader::new(meta, view)),
            Err(lost) => self.read_without(state, meta, lost),
        }
    }

    /// Opens a version though a segment is lost that it may need: it needs nothing of it if all of its pages have the version's
    /// fingerprint without. That is found out once, as it takes reading all of them.
    fn read_without(&self, state: &State, meta: Meta, error: Error) -> Result<Reader, Error> {
        let number = meta.number;
        if !self.objects.is_near() {
            return Err(error);
        }
        let view = View::without_lost(state, number)?;
        let (lost, reader) = (view.lost.clone(), Reader::new(meta, view));
        if lock(&self.needs_none_of).get(&number) == Some(&lost) {
            return Ok(reader);
        }
        if unless_refused(reader.fingerprint())?.ok() != Some(reader.meta().fingerprint) {
            return Err(error);
        }
        self.note_needless(state, [number]);
        Ok(reader)
    }

    /// Takes note of versions that need nothing of what is lost: what was not lost when that was found out is open still.
    pub(crate) fn note_needless(&self, state: &State, versions: impl IntoIterator<Item = u64>) {
        let lost = versions.into_iter().map(|number| (number, state.lost_in(number)));
        let lost: Vec<_> = lost.filter(|(_, lost)| !lost.is_empty()).collect();
        lock(&self.needs_none_of).extend(lost);
    }

    /// Whether a version was found to need nothing of what is lost, or nothing is that it may need.
    pub(crate) fn known_needless(&self, state: &State, number: u64) -> bool {
        let lost = state.lost_in(number);
        lost.is_empty() || lock(&self.needs_none_of).get(&number) == Some(&lost)
    }

    /// What is known of a version, if it is the newest one, all of its pages were read, and their files have not changed since.
    pub(crate) fn known_head(&self, number: u64) -> Option<Head> {
        let known = lock(&self.head).clone();
        let known = known.filter(|known| known.view.number == number && known.lost.is_empty())?;
        known.is_as_read(&self.state()).then_some(known)
    }

    /// Takes note of what was just written: a version upon the one before, or another file with what some files had. What was left
    /// out, or was taken from them, was read then. `change` brings what is known up to date, and answers whether that relies on the new file.
    pub(crate) fn rely_on(&self, state: &State, change: impl FnOnce(&mut Option<Head>) -> bool) {
        let file = state.manifest.number;
        let slot = state.slots.iter().find(|slot| slot.reference.file == file);
        let stamp = slot.and_then(|slot| slot.segment().ok()?.object.stamp());
        let mut known = lock(&self.head);
        if change(&mut known)
            && let Some(head) = known.as_mut()
        {
            Arc::make_mut(&mut head.files).extend(stamp.map(|stamp| (file, stamp)));
        }
    }

    /// Changes the archive: writes one more file, whose manifest is the newest one after `change`. That hears of the state which it
    /// changes; if the file is a segment, the manifest has it already. `None`: it says that what was computed does not hold any more, and
    /// nothing has changed.
    pub(crate) fn commit(
        &self,
        sealed: Sealed,
        change: impl FnOnce(&State, &mut Manifest) -> bool,
    ) -> Result<Option<Arc<State>>, Error> {
        let mut files = lock(&self.commit);
        let before = self.state();
        let number = files.highest + 1;
        let mut manifest = Manifest { number, ..before.manifest.clone() };
        sealed.segment(number).into_iter().for_each(|segment| manifest.insert(segment));
        if !change(&before, &mut manifest) {
            return Ok(None);
        }
        let published = sealed.publish(&manifest);
        let is_there = || manifest_of(&*self.objects, number).is_ok_and(|there| there == manifest);
        match &published {
            Ok(()) => {}
            // It may have been created even if it is said that this failed, but not if another one is there.
            Err(error) if !matches!(error, Error::Busy { .. }) && is_there() => {}
            Err(_) => return published.map(|()| None),
        }
        if self.objects.list().is_ok_and(|all| all.last() > Some(&number)) {
            // Another asat was at work since this one opened it, and has deleted its file of this number already: what it says now counts.
            self.objects.delete(number)?;
            let what = "another asat has written to it since this one opened it";
            return Err(Error::busy(self.objects.place(), what));
        }
        files.highest = number;
        files.there.insert(number, len_of(&*self.objects, number));
        files.fallback = before.manifest.clone();
        let after = Arc::new(before.then(manifest));
        boundary::step("archive: take the new state");
        *lock(&self.state) = Arc::clone(&after);
        self.sweep(&mut files);
        published.map(|()| Some(after))
    }

    /// Writes the manifest once more if the one before names segments that the newest does not: these are deleted then, and nothing of
    /// them comes back should the newest file be damaged.
    pub(crate) fn let_go(&self) -> Result<(), Error> {
        let newest = self.state();
        let is_needed = |segment: &SegmentRef| newest.has(segment);
        let is_let_go = lock(&self.commit).fallback.segments.iter().all(is_needed);
        if is_let_go { Ok(()) } else { self.commit_manifest(|_, _| true).map(drop) }
    }

    /// The number of a state's newest file, if it has nothing but the manifest, and that says what is said in the one before, which is needed
    /// for what else it has.
    ///
    /// # Errors
    /// What the machine refuses at this moment.
    pub(crate) fn repeats(&self, state: &State) -> Result<Option<u64>, Error> {
        let (newest, number) = (&state.manifest, state.manifest.number);
        let segments = newest.segments.iter().map(|segment| segment.file);
        let Some(last) = segments.chain(newest.records.iter().map(|records| records.file)).max() else {
            return Ok(None);
        };
        if last >= number {
            return Ok(None);
        }
        let said = unless_refused(manifest_of(&*self.objects, last))?;
        let is_said = said.is_ok_and(|said| Manifest { number, ..said } == *newest);
        Ok(is_said.then_some(number))
    }

    /// Changes nothing but the manifest. On a full disk, the files are deleted before that only the manifest before needs: what is given up
    /// must not be kept for want of a block.
    pub(crate) fn commit_manifest(
        &self,
        mut change: impl FnMut(&State, &mut Manifest) -> bool,
    ) -> Result<Option<Arc<State>>, Error> {
        let mut commit = || self.commit(Sealed::empty(&*self.objects)?, &mut change);
        match commit() {
            Err(Error::Full { .. }) => {
                let mut files = lock(&self.commit);
                files.fallback = Manifest::default();
                self.sweep(&mut files);
                drop(files);
                commit()
            }
            result => result,
        }
    }

    /// Files that were newer than the newest one that could be read, each with what is wrong.
    pub(crate) fn unread(&self, state: &State) -> Vec<Error> {
        let unread = state.manifest.unread.keys();
        let wrong = unread.filter_map(|file| Some((file, manifest_of(&*self.objects, *file).err()?)));
        // What was forgotten meanwhile is deleted.
        let is_unread = |file: &u64| self.state().manifest.unread.contains_key(file);
        wrong.filter(|(file, _)| is_unread(file)).map(|(_, error)| error).collect()
    }

    /// Versions that files may have which cannot be read, each with what is in the way.
    fn lost(&self, state: &State) -> BTreeMap<u64, Error> {
        let is_unknown = |number: &u64| state.is_live(*number) && state.live(*number).is_none();
        let mut lost = BTreeMap::new();
        for slot in state.slots.iter().filter(|slot| slot.segment().is_err()) {
            let unknown = (slot.reference.first..=slot.reference.last).filter(is_unknown);
            lost.extend(unknown.filter_map(|number| Some((number, slot.segment().err()?))));
        }
        let (unread, mut below) = (&state.manifest.unread, u64::MAX);
        let last = unread.iter().rev().map(|(file, up_to)| {
            below = below.saturating_sub(1).min(*up_to);
            (below, file)
        });
        let last = last.filter(|(number, _)| is_unknown(number));
        lost.extend(
            last.filter_map(|(number, file)| Some((number, manifest_of(&*self.objects, *file).err()?))),
        );
        lost
    }

    /// Deletes the files that nothing needs. The newest manifest and what it names are needed, and so are those of the one before: should
    /// the newest file be damaged, that says what the archive was. What cannot be deleted now is deleted after the next change.
    fn sweep(&self, files: &mut Files) -> Vec<u64> {
        let state = self.state();
        let mut needed: BTreeSet<u64> = state.manifest.files().chain(files.fallback.files()).collect();
        needed.extend(state.manifest.unread.keys());
        let spare = files.there.keys().copied().filter(|file| !needed.contains(file));
        let gone: Vec<u64> = spare.filter(|file| self.objects.delete(*file).is_ok()).collect();
        gone.iter().for_each(|file| _ = files.there.remove(file));
        self.bytes.store(files.there.values().sum(), Ordering::Relaxed);
        gone
    }
}

/// The newest manifest that can be read, with the files that are newer as unread; and the files that there are.
fn newest_manifest(objects: &dyn Objects) -> Result<(Manifest, Files), Error> {
    let mut files = Files {
        there: objects.list()?.into_iter().map(|file| (file, len_of(objects, file))).collect(),
        ..Files::default()
    };
    files.highest = files.there.last_key_value().map_or(0, |(file, _)| *file);
    let (mut unread, mut first_error) = (Vec::new(), None);
    for &file in files.there.keys().rev() {
        match unless_refused(manifest_of(objects, file))? {
            Ok(mut manifest) => {
                let before = files.there.range(..file).next_back();
                let before = before.and_then(|(file, _)| manifest_of(objects, *file).ok());
                files.fallback = before.unwrap_or_default();
                // Each of them has one version at most.
                let up_to = manifest.highest + u64::try_from(unread.len()).unwrap_or(u64::MAX);
                manifest.unread.extend(unread.into_iter().map(|file| (file, up_to)));
                return Ok((manifest, files));
            }
            Err(error) => _ = first_error.get_or_insert(error),
        }
        unread.push(file);
    }
    first_error.map_or(Ok((Manifest::default(), files)), Err)
}

/// What the archive was according to a file.
fn manifest_of(objects: &dyn Objects, file: u64) -> Result<Manifest, Error> {
    let manifest = Ends::open(objects, file)?.manifest()?;
    if manifest.number == file {
        return Ok(manifest);
    }
    Err(Error::damaged(&objects.name(file), format!("it is file {} of an archive", manifest.number)))
}

/// Takes files in that could not be read before and can be now, and forgets those that somebody removed. What was written meanwhile sees
/// nothing of them, as it stands alone; and a version must see what it lies upon, and
/// nothing that was written without it below.
pub(crate) fn take_in(objects: &Arc<dyn Objects>, manifest: &mut Manifest, is_there: impl Fn(u64) -> bool) {
    let unread = std::mem::take(&mut manifest.unread);
    for (&file, &up_to) in &unread {
        let opened = manifest_of(&**objects, file)
            .and_then(|said| Ok((said, Ends::open(&**objects, file)?.segment(file)?)));
        let stays = match opened {
            Ok((said, Some(segment))) => {
                let state = State::new(Arc::clone(objects), manifest.clone());
                let mut numbers = segment.directory.versions.iter().map(|version| version.number);
                if numbers.all(|number| !state.is_live(number) || state.live(number).is_some()) {
                    continue;
                }
                let below = said.segments.iter().filter(|other| other.file != file);
                let is_lost = |other: &SegmentRef| {
                    unread.contains_key(&other.file) && !manifest.segments.contains(other)
                };
                // The newest version that there was when it was written.
                let upon = below.clone().map(|other| other.last).max().unwrap_or(0);
                // Whether it may have something of a version between the two.
                let end = |other: &SegmentRef| other.last.saturating_add(1).min(segment.directory.last);
                let is_between = |other: &SegmentRef| other.first.max(upon + 1) < end(other);
                // What stands alone shows nothing of what is below.
                let versions = &segment.directory.versions;
                let is_alone = !versions.is_empty() && versions.iter().all(|version| version.stands_alone);
                let lies_upon_others = manifest.segments.iter().any(is_between) || below.clone().any(is_lost);
                let stays = lies_upon_others && !is_alone;
                if !stays {
                    manifest.insert(segment.reference());
                }
                stays
            }
            Ok((_, None)) => false,
            Err(_) => is_there(file),
        };
        if stays {
            manifest.unread.insert(file, up_to);
        }
    }
}

/// How long a file is, in bytes; nothing if it cannot be opened.
fn len_of(objects: &dyn Objects, file: u64) -> u64 {
    objects.open(file).map_or(0, |object| object.len())
}

/// Whether a file is one of format 4: there each version had a file of its own.
fn is_of_format_4(name: &str) -> bool {
    let stem = name.strip_suffix(".pack").or_else(|| name.strip_suffix(".layer"));
    let mut numbers = stem.into_iter().flat_map(|stem| stem.split('-')).peekable();
    numbers.peek().is_some() && numbers.all(|number| number.parse::<u64>().is_ok())
}
