//! Verifies an archive, and reports everything found instead of stopping at the first.
//!
//! Files are read whole and compared with their checksums. Then pages are put together as each live version shows them, page by page,
//! each from what it was before: every one against its check, and all of a version against its fingerprint.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use asat_core::Fingerprint;

use crate::archive::{Archive, Inner};
use crate::error::Error;
use crate::fingerprint::{Fingerprinter, PageHash, page_hash};
use crate::history::{Assembler, History, Item, Live, base_of, chain, needed};
use crate::index::{Encoding, check_of};
use crate::lock::lock;
use crate::mend::Damage;
use crate::state::State;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files read whole.
    pub segments: usize,
    /// Versions whose content was compared with its fingerprint.
    pub versions: usize,
    /// What is wrong; empty where everything is well.
    pub findings: Vec<Finding>,
    /// What of it [`Archive::repair`] may repair.
    pub damage: Damage,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// The live versions that cannot be read whole because of it.
    pub affects: Vec<u64>,
    /// What to do.
    pub advice: String,
}

/// Hears how many of how many bytes were read, and says whether to go on.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

impl Archive {
    /// Verifies one live version, or everything.
    pub fn verify(&self, number: Option<u64>, progress: Progress<'_>) -> Result<Report, Error> {
        let archive = &*self.inner;
        let state = archive.state();
        if let Some(number) = number
            && state.live(number).is_none()
        {
            return Err(state.no_such_version(number));
        }
        let total_bytes = state.manifest.segments.iter().map(|segment| segment.bytes).sum();
        let mut check =
            Check { archive, state: &state, report: Report::default(), done_bytes: 0, total_bytes, progress };
        check.files(number)?;
        for history in History::all(&state)? {
            check.history(&history, |live| number.is_none_or(|number| number == live))?;
        }
        let mut report = check.report;
        report.findings.sort_by(|one, other| one.file.cmp(&other.file));
        if !report.findings.is_empty() {
            // The next version looks again at what it relies on.
            *lock(&archive.head) = None;
        }
        Ok(report)
    }

    /// The live versions that cannot be put together any more, each with what is in the way. Unless a segment is lost nothing is read; if
    /// one is, all of those that may need it: only then does it show which do.
    pub fn unreadable(&self) -> Result<BTreeMap<u64, Error>, Error> {
        let state = self.inner.state();
        if state.lost().next().is_none() {
            return Ok(BTreeMap::new());
        }
        let needs = |number: u64| !self.inner.known_needless(&state, number);
        let (archive, progress) = (&*self.inner, &mut |_, _| ControlFlow::Continue(()));
        let report = Report::default();
        let mut check = Check { archive, state: &state, report, done_bytes: 0, total_bytes: 0, progress };
        for history in History::all(&state)? {
            check.history(&history, needs)?;
        }
        let report = check.report;
        let affected = |finding: &Finding| {
            let (file, what) = (finding.file.clone(), finding.what.clone());
            let error = move |number: &u64| (*number, Error::damaged(&file, what.clone()));
            finding.affects.iter().map(error).collect::<Vec<_>>()
        };
        Ok(report.findings.iter().flat_map(affected).collect())
    }
}

/// A verification under way.
struct Check<'a> {
    archive: &'a Inner,
    state: &'a Arc<State>,
    report: Report,
    done_bytes: u64,
    total_bytes: u64,
    progress: Progress<'a>,
}

impl Check<'_> {
    /// Reads files whole: all, or those that a version may need.
    fn files(&mut self, number: Option<u64>) -> Result<(), Error> {
        let files: BTreeSet<u64> = match number {
            Some(number) => self.state.seen_in(number).map(|slot| slot.reference.file).collect(),
            None => self.state.slots.iter().map(|slot| slot.reference.file).collect(),
        };
        let (state, objects) = (self.state, &*self.archive.objects);
        for error in number.is_none().then(|| self.archive.unread(state)).into_iter().flatten() {
            let file = error.path().unwrap_or(objects.place()).to_owned();
            self.find(file, &error, Vec::new());
        }
        for slot in state.slots.iter().filter(|slot| files.contains(&slot.reference.file)) {
            self.report.segments += 1;
            let segment = slot.segment();
            let mut checked = segment.and_then(|segment| segment.check_bytes(|read| self.advance(read)));
            if checked.is_ok() && Arc::ptr_eq(&self.archive.state(), state) {
                // It may have been opened long before.
                checked = slot.open().map(drop);
            }
            match checked {
                Ok(()) => {}
                Err(error) if error.is_finding() => {
                    // Which versions that concerns, their fingerprints tell.
                    self.report.damage.note_file(slot.reference.file, std::iter::empty());
                    self.find(objects.name(slot.reference.file), &error, Vec::new());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Puts all pages together that some live versions show.
    fn history(&mut self, history: &History, which: impl Fn(u64) -> bool) -> Result<(), Error> {
        let wanted = |place: usize| {
            let live = history.live.get(place).filter(|live| !live.is_lost);
            live.is_some_and(|live| which(live.number))
        };
        let mut versions = Versions::of(self.state, history, &wanted)?;
        if versions.open.is_empty() {
            return Ok(());
        }
        let (mut work, mut blocked) = (Work::new(history)?, BTreeMap::<usize, (Error, BTreeSet<u64>)>::new());
        for block in history.blocks() {
            while let Err(error) = history.pages(block, |items| work.page(items, &wanted, &mut versions)) {
                let place = history.place_of(&error).filter(|_| error.is_loss());
                let Some(place) = place.filter(|place| history.without.borrow_mut().insert((*place, block)))
                else {
                    return Err(error);
                };
                // The others are looked at without; those that may need it are refused, be it that they do not.
                let may_need = |live: &Live| {
                    history.segments.get(place).is_some_and(|segment| live.may_need(segment, block))
                };
                let refused =
                    history.live.iter().enumerate().filter(|(nth, live)| wanted(*nth) && may_need(live));
                let refused = refused.map(|(_, live)| live.number);
                blocked.entry(place).or_insert((error, BTreeSet::new())).1.extend(refused);
            }
            self.advance(0)?;
        }
        self.report.versions += versions.open.len();
        for (segment, bad) in work.bad {
            let Some(segment) = history.segments.get(segment) else { continue };
            let (first, affects) = (bad.pages.first().copied(), bad.affects.into_iter().collect());
            let (page, version) = first.map_or((0, 0), |(page, version, _)| (page, version));
            let what = format!(
                "page {page} of version {version} does not match its check ({} pages)",
                bad.pages.len()
            );
            self.report.damage.note(segment.number, bad.pages.iter().copied());
            self.find(segment.name().to_owned(), &segment.damaged(what), affects);
        }
        let mut well: BTreeSet<u64> = versions.open.values().map(|version| version.number).collect();
        let judged = versions.judge();
        judged.iter().for_each(|(number, _)| _ = well.remove(number));
        self.archive.note_needless(self.state, well);
        for (place, (error, affects)) in &blocked {
            let Some(segment) = history.segments.get(*place) else { continue };
            if judged.iter().any(|(number, _)| affects.contains(number)) {
                self.report.damage.keep_file(segment.number);
            } else {
                let without = history.without.borrow();
                let needless = without.iter().filter(|(other, _)| other == place).map(|(_, block)| *block);
                self.report.damage.note_file(segment.number, needless);
            }
            self.find(segment.name().to_owned(), error, affects.iter().copied().collect());
        }
        let is_named = |number: &u64| blocked.values().any(|(_, affects)| affects.contains(number));
        for (number, error) in judged.into_iter().filter(|(number, _)| !is_named(number)) {
            let Some(error) = error else { continue };
            let mut files: Vec<PathBuf> = error.path().map(PathBuf::from).into_iter().collect();
            if files.is_empty() {
                files.extend(
                    self.state.lost_in(number).into_iter().map(|file| self.archive.objects.name(file)),
                );
            }
            if files.is_empty() {
                let described = self.state.described_in(number);
                files.extend(described.map(|segment| segment.name().to_owned()));
            }
            for file in files {
                self.find(file, &error, vec![number]);
            }
        }
        Ok(())
    }

    fn find(&mut self, file: PathBuf, error: &Error, affects: Vec<u64>) {
        if let Some(known) = self.report.findings.iter_mut().find(|known| known.file == file) {
            let all: BTreeSet<u64> = known.affects.iter().copied().chain(affects).collect();
            known.affects = all.into_iter().collect();
            return;
        }
        let advice = match error {
            error if error.is_loss() => {
                "put this file back from a backup, import an export of the versions that need it, or give them up (docs/recover.md)"
            }
            error => error.hint(),
        };
        let (what, advice) = (error.to_string(), advice.to_owned());
        self.report.findings.push(Finding { file, what, affects, advice });
    }

    fn advance(&mut self, read_bytes: u64) -> Result<(), Error> {
        self.done_bytes += read_bytes;
        match (self.progress)(self.done_bytes, self.total_bytes.max(self.done_bytes)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }
}

/// Versions whose fingerprints are computed page by page, by their places in the history.
struct Versions {
    open: BTreeMap<usize, Open>,
}

struct Open {
    number: u64,
    /// Its fingerprint, or why that is not known.
    expected: Result<Fingerprint, Error>,
    fingerprinter: Fingerprinter,
    pages: u32,
    page_count: u32,
    /// Whether a page of it does not come out.
    lost: bool,
}

impl Versions {
    fn of(state: &State, history: &History, wanted: &impl Fn(usize) -> bool) -> Result<Self, Error> {
        let mut open = BTreeMap::new();
        for (place, live) in history.live.iter().enumerate().filter(|(place, _)| wanted(*place)) {
            let meta = match state.describe(live.number) {
                Err(error) if !error.is_loss() => return Err(error),
                meta => meta,
            };
            let page_count = meta.as_ref().map_or(0, |meta| meta.page_count);
            let fingerprinter = Fingerprinter::new(history.page_size, page_count);
            let expected = meta.map(|meta| meta.fingerprint);
            let version =
                Open { number: live.number, expected, fingerprinter, pages: 0, page_count, lost: false };
            open.insert(place, version);
        }
        Ok(Self { open })
    }

    /// The versions that are wrong, and how, unless that was named because of a page.
    fn judge(self) -> Vec<(u64, Option<Error>)> {
        let wrong = |version: Open| {
            let Open { number, expected, pages, page_count, .. } = version;
            let found = version.fingerprinter.finish();
            let what = match expected {
                _ if version.lost => return Some((number, None)),
                Err(error) => return Some((number, Some(error))),
                Ok(_) if pages != page_count => {
                    format!("{pages} of {page_count} pages of version {number} are there")
                }
                Ok(expected) if found != expected => {
                    format!("version {number} was written with fingerprint {expected}, and has {found}")
                }
                Ok(_) => return None,
            };
            Some((number, Some(Error::Damaged { path: PathBuf::new(), what })))
        };
        self.open.into_values().filter_map(wrong).collect()
    }
}

/// What a segment has that does not come out.
#[derive(Default)]
struct Bad {
    pages: Vec<(u32, u64, crate::index::Check)>,
    affects: BTreeSet<u64>,
}

struct Work<'a> {
    history: &'a History,
    assembler: Assembler,
    page: Vec<u8>,
    /// Which item is in hand, by its place.
    in_hand: Option<usize>,
    bad: BTreeMap<usize, Bad>,
}

impl<'a> Work<'a> {
    fn new(history: &'a History) -> Result<Self, Error> {
        let page = vec![0; history.page_size.as_usize()];
        Ok(Self { history, assembler: Assembler::new()?, page, in_hand: None, bad: BTreeMap::new() })
    }

    /// Checks a page as all wanted versions show it.
    fn page(
        &mut self,
        items: &mut [Item],
        wanted: &impl Fn(usize) -> bool,
        versions: &mut Versions,
    ) -> Result<(), Error> {
        for item in items.iter_mut().filter(|item| !item.shown_in().any(wanted)) {
            item.shown = (0, 0);
        }
        let needed = needed(items);
        self.in_hand = None;
        let (mut well, mut lacks) = (vec![false; items.len()], vec![false; items.len()]);
        for (place, item) in items.iter().enumerate().filter(|(place, _)| needed.get(*place) == Some(&true)) {
            let hash = self.read(items, place)?;
            let comes_out = hash.is_some();
            if let Some(well) = well.get_mut(place) {
                *well = comes_out;
            }
            self.in_hand = Some(place).filter(|_| comes_out);
            let base = base_of(items, &item.entry);
            let is_difference = item.entry.encoding == Encoding::Difference;
            if is_difference && base.is_none_or(|base| lacks.get(base) == Some(&true)) {
                // What lies upon something that is lost is not to blame: the fingerprints tell of it.
                lacks.get_mut(place).into_iter().for_each(|lacks| *lacks = true);
                continue;
            }
            // Nor is what lies upon something that does not come out.
            let base_is_well = base.is_none_or(|base| well.get(base) == Some(&true));
            let shown_in = item.shown_in().filter(|place| wanted(*place));
            let affected: Vec<usize> = shown_in
                .filter(|place| {
                    self.history
                        .live
                        .get(*place)
                        .is_some_and(|live| live.shows(item.entry.page, item.entry.version))
                })
                .collect();
            if comes_out {
                for place in affected {
                    if let (Some(version), Some(hash)) = (versions.open.get_mut(&place), hash) {
                        version.fingerprinter.hash(&hash);
                        version.pages += 1;
                    }
                }
                continue;
            }
            let blamed = if base_is_well { item.segment } else { self.blame(items, place, &well) };
            let bad = self.bad.entry(blamed).or_default();
            // What somebody has of what lies upon it is of use as well.
            bad.pages.push((item.entry.page, item.entry.version, item.entry.check));
            for place in affected {
                if let Some(version) = versions.open.get_mut(&place) {
                    version.lost = true;
                    bad.affects.insert(version.number);
                }
            }
        }
        Ok(())
    }

    /// Puts the page together as it became at an item; answers its hash if it is what it was.
    fn read(&mut self, items: &[Item], place: usize) -> Result<Option<PageHash>, Error> {
        let Self { history, assembler, page, in_hand, .. } = self;
        let Some(item) = items.get(place) else { return Ok(None) };
        let base = base_of(items, &item.entry);
        let came_out = match base {
            Some(base) if *in_hand == Some(base) => assembler.lay(history, item, page)?,
            _ => assembler.page(history, items, place, page)?,
        };
        let hash = page_hash(page);
        Ok(Some(hash).filter(|hash| came_out && check_of(hash) == item.entry.check))
    }

    /// The segment that has what does not come out below an item.
    fn blame(&self, items: &[Item], place: usize, well: &[bool]) -> usize {
        let lowest = chain(items, place).take_while(|place| well.get(*place) != Some(&true)).last();
        lowest.and_then(|place| items.get(place)).map_or(0, |item| item.segment)
    }
}
