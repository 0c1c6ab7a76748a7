//! Verifies an archive, and reports everything found instead of stopping at the first.
//!
//! Files are read whole and compared with their checksums. Then pages are put together as each live version shows them, page by page,
//! each from what it was before: every one against its check, and all of a version against its fingerprint.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use asat_core::{Fingerprint, PageSize};

use crate::archive::{Archive, Inner};
use crate::error::{Error, unless_refused};
use crate::fingerprint::Fingerprinter;
use crate::history::{Assembler, History, Item, Live, chain, pages};
use crate::index;
use crate::lock::lock;
use crate::mend::Damage;
use crate::state::{Slot, State};

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
        let state = archive.opened();
        if let Some(number) = number.filter(|number| state.live(*number).is_none()) {
            return Err(state.no_such_version(number));
        }
        let mut check = Check::new(archive, &state, progress);
        check.total_bytes = state.manifest.segments.iter().map(|segment| segment.bytes).sum();
        check.files(number)?;
        let mut report = check.versions(|live| number.is_none_or(|number| number == live))?;
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
        let state = self.inner.opened();
        if state.is_open() {
            return Ok(BTreeMap::new());
        }
        let mut go_on = |_, _| ControlFlow::Continue(());
        let check = Check::new(&self.inner, &state, &mut go_on);
        let report = check.versions(|number| !self.inner.known_needless(&state, number))?;
        let mut unreadable = BTreeMap::new();
        for Finding { file, what, affects, .. } in report.findings {
            unreadable
                .extend(affects.into_iter().map(|number| (number, Error::damaged(&file, what.clone()))));
        }
        Ok(unreadable)
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

impl<'a> Check<'a> {
    fn new(archive: &'a Inner, state: &'a Arc<State>, progress: Progress<'a>) -> Self {
        Self { archive, state, report: Report::default(), done_bytes: 0, total_bytes: 0, progress }
    }

    /// Reads files whole: all, or those that a version may need.
    fn files(&mut self, number: Option<u64>) -> Result<(), Error> {
        let state = self.state;
        let slots: Vec<&Arc<Slot>> = match number {
            Some(number) => state.seen_in(number).collect(),
            None => state.slots.iter().collect(),
        };
        let unread = number.is_none().then(|| self.archive.unread(state));
        unread.into_iter().flatten().for_each(|error| self.find(&error, []));
        if number.is_none() {
            self.records()?;
        }
        for slot in slots {
            self.report.segments += 1;
            let segment = slot.segment();
            let mut checked = segment.and_then(|segment| segment.check_bytes(|read| self.advance(read)));
            // It may have been opened long before. What is deleted because nobody needs it any more is not in the state that follows.
            if checked.is_ok()
                && let Err(error) = slot.open()
                && self.archive.state().has(&slot.reference)
            {
                checked = Err(error);
            }
            let Err(error) = checked else { continue };
            if !error.is_finding() {
                return Err(error);
            }
            // Which versions that concerns, their fingerprints tell.
            self.report.damage.files.entry(slot.reference.file).or_default();
            self.find(&error, []);
        }
        Ok(())
    }

    /// Reads the files with records.
    fn records(&mut self) -> Result<(), Error> {
        for records in &self.state.manifest.records {
            let Err(error) = unless_refused(records.check(&*self.state.objects))? else { continue };
            // It may have been deleted because another state has followed.
            if self.archive.state().manifest.records.contains(records) {
                self.report.damage.records = true;
                self.find(&error, []);
            }
        }
        Ok(())
    }

    /// Puts these versions together.
    fn versions(mut self, which: impl Fn(u64) -> bool) -> Result<Report, Error> {
        for mut history in History::all(self.state)? {
            // Only these show anything then, and nothing is needed but for them. What others need is not known.
            let others = history.live.extract_if(.., |live| live.is_lost || !which(live.number)).collect();
            if !history.live.is_empty() {
                self.history(history, others)?;
            }
        }
        Ok(self.report)
    }

    /// Puts all pages together that live versions show.
    fn history(&mut self, mut history: History, others: Vec<Live>) -> Result<(), Error> {
        let (mut work, mut blocked) = (Work::new(self.state, &history)?, Blocked::new());
        let mut may_be_needed = BTreeSet::new();
        for block in history.blocks() {
            let mut check = |items: Vec<Item<'_>>| pages(&items).try_for_each(|items| work.page(items));
            while let Err(error) = history.items(block).and_then(&mut check) {
                let Some(segment) = history.pass_over(block, &error) else { return Err(error) };
                // The others are looked at without; those that may need it are refused, be it that they do not.
                let refused = history.live.iter().filter(|live| live.may_need(&segment, block));
                let refused = refused.map(|live| live.number);
                blocked.entry(segment.number).or_insert((error, BTreeSet::new())).1.extend(refused);
                may_be_needed.extend(
                    others.iter().any(|live| live.may_need(&segment, block)).then_some(segment.number),
                );
            }
            self.advance(0)?;
        }
        self.report.versions += work.versions.len();
        for (file, bad) in work.bad {
            let (page, version) = bad.pages.first_key_value().map(|(at, _)| *at).unwrap_or_default();
            let count = bad.pages.len();
            let what = format!("page {page} of version {version} does not match its check ({count} pages)");
            self.find(&Error::damaged(&self.archive.objects.name(file), what), bad.affects);
            self.report.damage.pages.entry(file).or_default().extend(bad.pages);
        }
        let mut well: BTreeSet<u64> = history.live.iter().map(|live| live.number).collect();
        let judged: Vec<(u64, Vec<Error>)> =
            work.versions.into_iter().filter_map(|version| version.judge(self.state)).collect();
        judged.iter().for_each(|(number, _)| _ = well.remove(number));
        self.archive.note_needless(self.state, well);
        self.judge(&history, blocked, &may_be_needed, judged);
        Ok(())
    }

    /// Says of which files blocks cannot be read, and which versions are wrong for no other reason that is known.
    fn judge(
        &mut self,
        history: &History,
        blocked: Blocked,
        may_be_needed: &BTreeSet<u64>,
        mut judged: Vec<(u64, Vec<Error>)>,
    ) {
        let is_wrong: BTreeSet<u64> = judged.iter().map(|(number, _)| *number).collect();
        for (file, (error, affects)) in blocked {
            if affects.is_disjoint(&is_wrong) && !may_be_needed.contains(&file) {
                let needless = history.without.iter().filter(|(other, _)| *other == file);
                self.report.damage.files.entry(file).or_default().extend(needless.map(|(_, block)| block));
            } else {
                // It cannot be done without as it is.
                self.report.damage.files.remove(&file);
            }
            judged.retain(|(number, _)| !affects.contains(number));
            self.find(&error, affects);
        }
        for (number, errors) in judged {
            errors.iter().for_each(|error| self.find(error, [number]));
        }
    }

    /// Takes note of what is wrong with the file that an error is about.
    fn find(&mut self, error: &Error, affects: impl IntoIterator<Item = u64>) {
        let file = error.path().unwrap_or(self.archive.objects.place()).to_owned();
        if let Some(known) = self.report.findings.iter_mut().find(|known| known.file == file) {
            known.affects.extend(affects);
            known.affects.sort_unstable();
            known.affects.dedup();
            return;
        }
        let if_lost = "put this file back from a backup, import an export of the versions that need it, or give them up (docs/recover.md)";
        let advice = if error.is_loss() { if_lost } else { error.hint() };
        let (what, affects) = (error.to_string(), affects.into_iter().collect());
        self.report.findings.push(Finding { file, what, affects, advice: advice.to_owned() });
    }

    fn advance(&mut self, read_bytes: u64) -> Result<(), Error> {
        self.done_bytes += read_bytes;
        let flow = (self.progress)(self.done_bytes, self.total_bytes.max(self.done_bytes));
        if flow.is_break() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Files that have blocks which cannot be read: why, and the versions that may need these.
type Blocked = BTreeMap<u64, (Error, BTreeSet<u64>)>;

/// A version whose fingerprint is computed page by page.
struct Version {
    live: Live,
    /// Its fingerprint, or why that is not known.
    expected: Result<Fingerprint, Error>,
    fingerprinter: Fingerprinter,
    pages: u32,
    page_count: u32,
    /// Whether a page of it does not come out.
    lost: bool,
}

impl Version {
    fn new(state: &State, page_size: PageSize, live: Live) -> Result<Self, Error> {
        let meta = unless_refused(state.describe(live.number))?;
        let page_count = meta.as_ref().map_or(0, |meta| meta.page_count);
        let fingerprinter = Fingerprinter::new(page_size, page_count);
        let expected = meta.map(|meta| meta.fingerprint);
        Ok(Self { live, expected, fingerprinter, pages: 0, page_count, lost: false })
    }

    /// Its number if it is wrong, and how, unless that was named because of a page.
    fn judge(self, state: &State) -> Option<(u64, Vec<Error>)> {
        let Self { live: Live { number, .. }, expected, pages, page_count, .. } = self;
        let found = self.fingerprinter.finish();
        let what = match expected {
            _ if self.lost => return Some((number, Vec::new())),
            Err(error) => return Some((number, vec![error])),
            Ok(_) if pages != page_count => {
                format!("{pages} of {page_count} pages of version {number} are there")
            }
            Ok(expected) if found != expected => {
                format!("version {number} was written with fingerprint {expected}, and has {found}")
            }
            Ok(_) => return None,
        };
        // It misses something of the files that are lost. If none is, the file is named that describes it.
        let lost = state.lost_in(number).into_iter().map(|file| state.objects.name(file));
        let mut files: Vec<PathBuf> = lost.collect();
        if files.is_empty() {
            files.extend(state.described_in(number).map(|segment| segment.object.name().to_owned()));
        }
        Some((number, files.iter().map(|file| Error::damaged(file, what.clone())).collect()))
    }
}

/// What a segment has that does not come out.
#[derive(Default)]
struct Bad {
    /// Their numbers, and the versions at which they became that.
    pages: BTreeMap<(u32, u64), index::Check>,
    affects: BTreeSet<u64>,
}

/// Pages that are put together for versions.
struct Work {
    assembler: Assembler,
    /// Those of the history, in the same order.
    versions: Vec<Version>,
    /// What does not come out, by the files that are to blame.
    bad: BTreeMap<u64, Bad>,
}

impl Work {
    fn new(state: &State, history: &History) -> Result<Self, Error> {
        let version = |live: &Live| Version::new(state, history.page_size, *live);
        let versions = history.live.iter().map(version).collect::<Result<_, _>>()?;
        Ok(Self { assembler: Assembler::new(history.page_size)?, versions, bad: BTreeMap::new() })
    }

    /// Checks a page as all versions show it.
    fn page(&mut self, items: &[Item<'_>]) -> Result<(), Error> {
        let mut well = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            // What lies upon something that is lost is not to blame: the fingerprints tell of it.
            if !item.is_needed() || !item.is_complete {
                well.push(false);
                continue;
            }
            let hash = self.assembler.page(items, place)?;
            well.push(hash.is_some());
            let (first, last) = item.shown;
            let shows = |version: &&mut Version| version.live.shows(item.entry.page, item.entry.version);
            let versions = self.versions.get_mut(first..last).unwrap_or_default();
            let affected = versions.iter_mut().filter(shows);
            if let Some(hash) = hash {
                affected.for_each(|version| {
                    version.fingerprinter.hash(&hash);
                    version.pages += 1;
                });
                continue;
            }
            // What lies upon something that does not come out is not to blame either.
            let below = chain(items, place).take_while(|place| well.get(*place) != Some(&true));
            let blamed = below.last().and_then(|place| items.get(place)).unwrap_or(item);
            let bad = self.bad.entry(blamed.segment.number).or_default();
            // What somebody has of what lies upon it is of use as well.
            bad.pages.insert((item.entry.page, item.entry.version), item.entry.check);
            affected.for_each(|version| {
                version.lost = true;
                bad.affects.insert(version.live.number);
            });
        }
        Ok(())
    }
}
