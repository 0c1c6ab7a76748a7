//! Verifies layers and versions, and reports everything found instead of stopping at the first.
//!
//! Layers are read whole, oldest first, each laid upon those before it: its bytes against the checksum of the file,
//! every frame against its page's hash, and the hashes of a live version's pages against its fingerprint. Only
//! where something is wrong are versions resolved one by one, to say which of them it concerns.
//!
//! A difference that no version shows any more may lie upon a page that is gone. So a difference that does not come
//! out, in a file whose bytes are as they were written, is damage only where a live version needs it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::archive::{Archive, Inner};
use crate::chain::{Layer, Layers, lock, most_pages};
use crate::error::Error;
use crate::fingerprint::PageHash;
use crate::frames::{Frames, Reading};
use crate::index::Encoding;
use crate::pack::Pack;
use crate::pages::{PageMap, nth_of};
use crate::repair::Damage;
use crate::replay::Replay;
use crate::resolve::chain_of;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Layers read whole.
    pub layers: usize,
    /// Versions whose content was resolved and compared with its fingerprint.
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
    /// Verifies one live version with every layer that it needs, or everything.
    pub fn verify(&self, number: Option<u64>, progress: Progress<'_>) -> Result<Report, Error> {
        let archive = &*self.inner;
        let layers = archive.layers();
        let wanted = match number {
            Some(number) => archive.layers_of(&layers, number)?,
            None => layers.keys().copied().collect(),
        };
        let chosen: Vec<&Layer> = layers.values().filter(|layer| wanted.contains(&layer.number)).collect();
        let mut check = Check::new(archive, chosen.iter().map(|layer| layer.bytes).sum(), progress);
        let mut replay = Replay::new(most_pages(layers.values()));
        let mut suspect = false;
        for layer in chosen {
            let asked_for = layer.live && number.is_none_or(|number| number == layer.number);
            check.report.versions += usize::from(asked_for);
            match check.layer(layer, &layers, &mut replay)? {
                Some(comes_out) => suspect |= !comes_out && asked_for,
                None => suspect = true,
            }
        }
        check.judge_doubtful(number, &layers)?;
        if suspect || !check.bad.is_empty() {
            let versions = number.map_or_else(|| self.live(), |number| vec![number]);
            versions.into_iter().try_for_each(|number| check.attribute(number))?;
        }
        if !check.report.findings.is_empty() {
            // The next version looks again at what it relies on.
            *lock(&archive.head) = None;
        }
        Ok(check.report)
    }
}

impl Inner {
    /// The layers that a version needs; where that cannot be told any more, all that it could need.
    fn layers_of(&self, layers: &Layers, number: u64) -> Result<BTreeSet<u64>, Error> {
        match self.resolve(number) {
            Ok(version) => Ok(version.map.packs().map(|pack| pack.meta().number).chain([number]).collect()),
            Err(error @ Error::NoSuchVersion { .. }) => Err(error),
            Err(_) => Ok(layers.range(..=number).map(|(&number, _)| number).collect()),
        }
    }

    /// Whether a layer is in the chain still.
    fn has(&self, layer: &Layer) -> bool {
        self.layers().get(&layer.number).is_some_and(|now| now.from == layer.from)
    }
}

/// Whether a page is what it must be, as a version has it now.
fn comes_out(map: &PageMap, page: u32) -> bool {
    let (Some(nth), Ok(mut frames)) = (nth_of(page), Frames::new()) else { return false };
    frames.page(map, nth, Reading::Single, &mut vec![0; map.page_size().as_usize()]).is_ok()
}

/// Pages, and what each must hash to.
type Pages = Vec<(u32, PageHash)>;

/// A verification under way.
struct Check<'a> {
    archive: &'a Inner,
    report: Report,
    /// Pages whose frame is damaged: layer, page, and the finding that says so.
    bad: Vec<(u64, u32, usize)>,
    /// Differences and references that do not come out, for want of the page that they lie upon or name, it may be: their
    /// layers and pages.
    doubtful: Vec<(Arc<Pack>, Pages)>,
    done_bytes: u64,
    total_bytes: u64,
    progress: Progress<'a>,
}

impl<'a> Check<'a> {
    fn new(archive: &'a Inner, total_bytes: u64, progress: Progress<'a>) -> Self {
        let (report, bad, doubtful) = (Report::default(), Vec::new(), Vec::new());
        Self { archive, report, bad, doubtful, done_bytes: 0, total_bytes, progress }
    }

    /// Reads a layer whole; answers whether its version's fingerprint comes out. `None`: it cannot be used at all, or
    /// is gone since the verification began.
    fn layer(&mut self, layer: &Layer, layers: &Layers, replay: &mut Replay) -> Result<Option<bool>, Error> {
        let archive = self.archive;
        let checked = match layer.open(&archive.folder) {
            Ok(pack) => self.pack(&pack, replay, || chain_of(&archive.folder, layers, layer)),
            Err(error) => Err(error),
        };
        if checked.is_err() {
            replay.miss_one();
        }
        match checked {
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(_) if !self.archive.has(layer) => Ok(None),
            // What keeps it from being read at this moment says nothing of what it holds.
            Err(error) if !error.is_finding() => Err(error),
            Err(error) => {
                self.report.layers += 1;
                if matches!(error, Error::Damaged { .. }) {
                    self.report.damage.note_around(layer);
                }
                self.find(self.archive.folder.path().join(layer.name().text()), error);
                Ok(None)
            }
            Ok(comes_out) => {
                self.report.layers += 1;
                Ok(Some(comes_out))
            }
        }
    }

    /// Checks an open layer; fails where its index is of no use.
    fn pack(
        &mut self,
        pack: &Arc<Pack>,
        replay: &mut Replay,
        older: impl Fn() -> Result<Vec<Arc<Pack>>, Error>,
    ) -> Result<bool, Error> {
        let (pages, are_all) = replay.lay(pack, older)?;
        let mut as_written = true;
        if let Err(error) = pack.check_bytes(|read| self.advance(read)) {
            if !error.is_finding() {
                return Err(error);
            }
            as_written = false;
            self.find(pack.path().to_owned(), error);
        }
        // To write a layer anew is to vouch for all its bytes. Where they are not as they were written, and pages lie upon what is
        // damaged or gone itself, that is put right first.
        let can_be_repaired = as_written || are_all;
        if !as_written && can_be_repaired {
            self.report.damage.note(pack.meta(), []);
        }
        let (mut damaged, mut doubtful) = (Pages::new(), Pages::new());
        for (nth, (page, encoding)) in pages.into_iter().enumerate() {
            if nth % 256 == 0 {
                self.advance(0)?;
            }
            match replay.check(page)? {
                true => {}
                false if as_written && matches!(encoding, Encoding::Difference | Encoding::Earlier) => {
                    doubtful.push((page, replay.hash(page)));
                }
                false => damaged.push((page, replay.hash(page))),
            }
        }
        self.find_pages(pack, damaged, can_be_repaired);
        if !doubtful.is_empty() {
            self.doubtful.push((Arc::clone(pack), doubtful));
        }
        Ok(replay.comes_out(pack.meta()))
    }

    /// Notes damaged pages, and what each must hash to.
    fn find_pages(&mut self, pack: &Pack, damaged: Pages, can_be_repaired: bool) {
        let Some((first, _)) = damaged.first() else { return };
        let what =
            format!("{} of its pages do not match their hashes, the first is page {first}", damaged.len());
        let finding = self.report.findings.len();
        self.find(pack.path().to_owned(), Error::damaged(pack.path(), what));
        self.bad.extend(damaged.iter().map(|&(page, _)| (pack.meta().number, page, finding)));
        if can_be_repaired {
            self.report.damage.note(pack.meta(), damaged);
        }
    }

    /// Finds those doubtful differences that are needed: by the version asked for, or else by the one next above, since
    /// what that does not show no later one does.
    fn judge_doubtful(&mut self, number: Option<u64>, layers: &Layers) -> Result<(), Error> {
        for (pack, mut pages) in std::mem::take(&mut self.doubtful) {
            let layer = pack.meta().number;
            let above = layers.range(layer..).find(|(_, layer)| layer.live).map(|(&number, _)| number);
            let Some(number) = number.or(above) else { continue };
            let map = match self.archive.resolve(number) {
                Ok(version) => version.map,
                // A version that cannot be resolved is spoken of elsewhere, or given up meanwhile.
                Err(error) if error.is_finding() || matches!(error, Error::NoSuchVersion { .. }) => continue,
                Err(error) => return Err(error),
            };
            let is_needed = |nth: usize| map.entries_of(nth).any(|frame| map.layer_of(frame) == layer);
            pages.retain(|&(page, _)| nth_of(page).is_some_and(is_needed));
            // What was laid upon files of before a compaction and of after comes out of those of after.
            pages.retain(|&(page, _)| !comes_out(&map, page));
            self.find_pages(&pack, pages, true);
        }
        Ok(())
    }

    /// Says of every finding whether it concerns this version.
    fn attribute(&mut self, number: u64) -> Result<(), Error> {
        let map = match self.archive.resolve(number) {
            Ok(version) => version.map,
            // Given up meanwhile.
            Err(Error::NoSuchVersion { .. }) => return Ok(()),
            Err(error) if error.is_finding() => {
                self.attribute_error(number, error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (mut frames, mut buffer) = (Frames::new()?, vec![0; map.page_size().as_usize()]);
        for &(layer, page, finding) in &self.bad {
            let Some(nth) = nth_of(page) else { continue };
            // What is damaged below may be just what a later difference replaces.
            let needs_it = map.entries_of(nth).any(|frame| map.layer_of(frame) == layer)
                && match frames.page(&map, nth, Reading::Single, &mut buffer) {
                    Ok(()) => false,
                    Err(error) if error.is_finding() => true,
                    Err(error) => return Err(error),
                };
            if let Some(finding) = self.report.findings.get_mut(finding)
                && needs_it
                && finding.affects.last() != Some(&number)
            {
                finding.affects.push(number);
            }
        }
        Ok(())
    }

    /// The version cannot be resolved: because of a layer found before, or of something new.
    fn attribute_error(&mut self, number: u64, error: Error) {
        let named = match &error {
            Error::Damaged { path, .. }
            | Error::Io { path, .. }
            | Error::Older { path, .. }
            | Error::Newer { path, .. } => path.clone(),
            _ => self.archive.folder.path().to_owned(),
        };
        if !self.report.findings.iter().any(|finding| finding.file == named) {
            self.find(named.clone(), error);
        }
        if let Some(finding) = self.report.findings.iter_mut().find(|finding| finding.file == named) {
            finding.affects.push(number);
        }
    }

    fn find(&mut self, file: PathBuf, error: Error) {
        let advice = match &error {
            error if error.is_loss() => {
                "put this file back from a backup, import an export of the versions that need it, or give them up (docs/recover.md)"
            }
            error => error.hint(),
        };
        let (what, advice) = (error.to_string(), advice.to_owned());
        self.report.findings.push(Finding { file, what, affects: Vec::new(), advice });
    }

    fn advance(&mut self, read_bytes: u64) -> Result<(), Error> {
        self.done_bytes += read_bytes;
        match (self.progress)(self.done_bytes, self.total_bytes.max(self.done_bytes)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }
}
