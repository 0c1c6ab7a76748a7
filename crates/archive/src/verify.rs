//! Verifies layers and versions, and reports everything found instead of stopping at the first.
//!
//! Every layer is read whole: its bytes against the checksum of the file, every frame against its page's
//! hash. Versions are then replayed from the hashes, oldest first, each compared with its fingerprint. Only
//! where something is wrong are versions resolved one by one, to say which of them it concerns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use asat_core::PageSize;
use zstd::bulk::Decompressor;

use crate::archive::{Archive, Inner};
use crate::chain::{Layer, Layers};
use crate::error::Error;
use crate::fingerprint::{Fingerprinter, page_hash};
use crate::index::Entry;
use crate::meta::Meta;
use crate::pack::Pack;
use crate::reader::decode;
use crate::resolve::slot_mut;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Layers read whole.
    pub layers: usize,
    /// Versions whose content was resolved and compared with its fingerprint.
    pub versions: usize,
    /// What is wrong; empty where everything is well.
    pub findings: Vec<Finding>,
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
        let mut replay = Replay::default();
        let mut suspect = false;
        for layer in chosen {
            let asked_for = layer.live && number.is_none_or(|number| number == layer.number);
            check.report.versions += usize::from(asked_for);
            match check.layer(layer)? {
                Some(checked) => suspect |= !replay.apply(&checked) && asked_for,
                None => suspect = true,
            }
        }
        if suspect || !check.bad.is_empty() {
            let versions = number.map_or_else(|| self.live(), |number| vec![number]);
            versions.into_iter().for_each(|number| check.attribute(number));
        }
        Ok(check.report)
    }
}

impl Inner {
    /// The layers that a version needs; where that cannot be told any more, all that it could need.
    fn layers_of(&self, layers: &Layers, number: u64) -> Result<BTreeSet<u64>, Error> {
        match self.resolve(number) {
            Ok(map) => Ok(map.packs.iter().map(|pack| pack.meta().number).chain([number]).collect()),
            Err(error @ Error::NoSuchVersion { .. }) => Err(error),
            Err(_) => Ok(layers.range(..=number).map(|(&number, _)| number).collect()),
        }
    }

    /// Whether a layer is in the chain still.
    fn has(&self, layer: &Layer) -> bool {
        self.layers().get(&layer.number).is_some_and(|now| now.from == layer.from)
    }
}

/// A layer that can be read, whatever became of single frames in it.
struct Checked {
    meta: Meta,
    entries: Vec<Entry>,
}

/// The pages of the chain up to some layer, as hashes.
#[derive(Default)]
struct Replay {
    page_size: Option<PageSize>,
    hashes: Vec<u128>,
}

impl Replay {
    /// Goes on to the next layer; answers whether its version's fingerprint comes out.
    fn apply(&mut self, layer: &Checked) -> bool {
        let meta = &layer.meta;
        if meta.parent.is_none() || self.page_size != Some(meta.page_size) {
            self.hashes.clear();
            self.page_size = Some(meta.page_size);
        }
        let count = usize::try_from(meta.page_count).unwrap_or(usize::MAX);
        let missing = count.saturating_sub(self.hashes.len());
        if missing > layer.entries.len() {
            // Some are in no layer: do not make room for a page count that may be a lie.
            return false;
        }
        self.hashes.resize(count, 0);
        for entry in &layer.entries {
            if let Some(hash) = slot_mut(&mut self.hashes, entry.page) {
                *hash = entry.hash;
            }
        }
        let hashes = self.hashes.iter().copied();
        Fingerprinter::of_hashes(meta.page_size, meta.page_count, hashes) == meta.fingerprint
    }
}

/// A verification under way.
struct Check<'a> {
    archive: &'a Inner,
    report: Report,
    /// Pages whose frame is damaged: layer, page, and the finding that says so.
    bad: Vec<(u64, u32, usize)>,
    done_bytes: u64,
    total_bytes: u64,
    progress: Progress<'a>,
}

impl<'a> Check<'a> {
    fn new(archive: &'a Inner, total_bytes: u64, progress: Progress<'a>) -> Self {
        Self { archive, report: Report::default(), bad: Vec::new(), done_bytes: 0, total_bytes, progress }
    }

    /// Reads a layer whole. `None`: it cannot be used at all, or is gone since the verification began.
    fn layer(&mut self, layer: &Layer) -> Result<Option<Checked>, Error> {
        let checked = match layer.open(&self.archive.folder) {
            Ok(pack) => self.pack(&pack),
            Err(error) => Err(error),
        };
        match checked {
            Ok(checked) => {
                self.report.layers += 1;
                Ok(Some(checked))
            }
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(_) if !self.archive.has(layer) => Ok(None),
            Err(error) => {
                self.report.layers += 1;
                let file = self.archive.folder.path().join(layer.name().text());
                self.find(file, error);
                Ok(None)
            }
        }
    }

    /// Checks an open layer; fails where its index is of no use.
    fn pack(&mut self, pack: &Pack) -> Result<Checked, Error> {
        let mut entries = Vec::new();
        pack.index()?.each(|entry| entries.push(entry))?;
        if let Err(error) = pack.check_bytes(|read| self.advance(read)) {
            if matches!(error, Error::Stopped) {
                return Err(error);
            }
            self.find(pack.path().to_owned(), error);
        }
        self.frames(pack, &entries)?;
        Ok(Checked { meta: pack.meta().clone(), entries })
    }

    /// Compares every frame of a layer with its page's hash.
    fn frames(&mut self, pack: &Pack, entries: &[Entry]) -> Result<(), Error> {
        let unusable = |error: std::io::Error| Error::Misuse(format!("zstd cannot be set up: {error}"));
        let mut decompressor = Decompressor::new().map_err(unusable)?;
        let mut page = vec![0; pack.meta().page_size.as_usize()];
        let mut frame = Vec::new();
        let mut damaged = Vec::new();
        for (nth, entry) in entries.iter().enumerate() {
            if nth % 256 == 0 {
                self.advance(0)?;
            }
            frame.resize(usize::try_from(entry.len).unwrap_or(usize::MAX), 0);
            let read = pack.read_at(entry.offset, &mut frame);
            let sound = read.is_ok() && decode(&mut decompressor, &frame, &mut page);
            if !sound || page_hash(&page) != entry.hash {
                damaged.push(entry.page);
            }
        }
        if let Some(first) = damaged.first() {
            let what = format!(
                "{} of its pages do not match their hashes, the first is page {first}",
                damaged.len()
            );
            let finding = self.report.findings.len();
            self.find(pack.path().to_owned(), Error::damaged(pack.path(), what));
            self.bad.extend(damaged.into_iter().map(|page| (pack.meta().number, page, finding)));
        }
        Ok(())
    }

    /// Says of every finding whether it concerns this version.
    fn attribute(&mut self, number: u64) {
        let map = match self.archive.resolve(number) {
            Ok(map) => map,
            // Given up meanwhile.
            Err(Error::NoSuchVersion { .. }) => return,
            Err(error) => return self.attribute_error(number, error),
        };
        for &(layer, page, finding) in &self.bad {
            let nth = usize::try_from(page).ok().and_then(|page| page.checked_sub(1));
            let pack = nth.and_then(|nth| map.slots.get(nth)).and_then(|slot| map.pack(slot));
            if let Some(finding) = self.report.findings.get_mut(finding)
                && pack.is_some_and(|pack| pack.meta().number == layer)
                && finding.affects.last() != Some(&number)
            {
                finding.affects.push(number);
            }
        }
    }

    /// The version cannot be resolved: because of a layer found before, or of something new.
    fn attribute_error(&mut self, number: u64, error: Error) {
        let named = match &error {
            Error::Damaged { path, .. } | Error::Io { path, .. } | Error::Newer { path, .. } => path.clone(),
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
        let advice = match error {
            Error::Damaged { .. } => {
                "restore this file from a backup, or give up the versions that it affects"
            }
            _ => error.hint(),
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
