//! The way over: each live version is written anew, the new archive compared whole, both folders exchanged, and the old one removed.
//!
//! The new archive grows in a folder beside the old one, whose name is no store's. Whatever ends the upgrade, the next one looks at both
//! folders and goes on from there: until they are exchanged, the old one counts and is not touched; from then on, what is left is to
//! remove it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use asat_archive::{Archive, Cut, Error, Kept, Writer};
use asat_core::{Code, PageSize, Problem, StoreName};

use crate::layers::{Layers, is_layer, is_unfinished};
use crate::pack::{FORMAT, Meta, Pack, damaged};
use crate::pages::Pages;
use crate::place::Place;

/// After so many versions, what was written is merged, so that it stays small.
const COMPACTED_EVERY: usize = 64;

/// What an upgrade did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many versions were taken over. `None`: the archive has today's format already.
    pub versions: Option<usize>,
    /// The versions that were left out, since they cannot be read, and why.
    pub left_out: Vec<(u64, String)>,
    /// What the archive took before, in bytes.
    pub bytes_before: u64,
    /// What it takes now.
    pub bytes_after: u64,
    /// A folder beside the archive that was not removed, as it has files that are not asat's.
    pub kept: Option<PathBuf>,
}

/// What somebody wants of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The versions of which it is known from elsewhere that the archive has them. One whose file is gone cannot be put back when the
    /// old archive has gone, so it counts as damaged.
    pub expected: BTreeSet<u64>,
    /// Whether versions that cannot be read are left out.
    pub leave_damaged: bool,
}

/// Takes the archive of a store below `root` over, and removes the old one when that is done. `tell` hears how far it is.
///
/// # Errors
/// Where the archive is in use or of another format, a version cannot be read, or the machine refuses, as a full disk does. The archive is
/// as it was then, and the next upgrade goes on with what was taken over.
pub fn upgrade(
    root: &Path,
    store: &StoreName,
    wanted: &Wanted,
    tell: &dyn Fn(&str),
) -> Result<Outcome, Problem> {
    let aside = format!(".{store}.upgrade");
    let names = Names { store, aside: &aside };
    let result = run(root, names, wanted, tell);
    result.map_err(|error| explained(error, store, &root.join(&aside)))
}

/// Refuses a folder with an archive of format 4, as the archive itself does. Whoever asks beforehand has changed nothing yet.
///
/// # Errors
/// Where there is a file of that format, or the machine refuses.
pub fn refuse_old(folder: &Path) -> Result<(), Problem> {
    if !folder.is_dir() {
        return Ok(());
    }
    let files = Place::open(folder)?.list()?;
    match files.into_iter().find(|(name, _)| is_layer(name)) {
        Some((name, _)) => Err(Error::Format { path: folder.join(name), found: FORMAT }.into()),
        None => Ok(()),
    }
}

/// The names of both folders: that of the archive, and that of the one beside it. A dot begins no store's name.
#[derive(Clone, Copy)]
struct Names<'a> {
    store: &'a StoreName,
    aside: &'a str,
}

/// Why an upgrade ended early.
enum Stop {
    Error(Error),
    /// What was taken over is not what the old archive has: it has changed since.
    Outdated,
    /// Versions that cannot be read, which may not be left out.
    Damaged(Vec<(u64, String)>),
    Problem(Problem),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn run(root: &Path, names: Names<'_>, wanted: &Wanted, tell: &dyn Fn(&str)) -> Result<Outcome, Stop> {
    let store = names.store.to_string();
    let folder = root.join(&store);
    if !folder.is_dir() {
        let detail = format!("{store} has no archive: there is no folder {}", folder.display());
        return Err(Problem::new(Code::UnknownStore, detail, "").into());
    }
    let (root, place, aside) = (Place::open(root)?, Place::open(&folder)?, root.join(names.aside));
    // The lock stays with the folder when its name changes.
    place.lock()?;
    let (is_old, is_new) = formats(&place)?;
    if !is_old {
        let kept = if aside.is_dir() { remove_old(&root, names.aside, tell)? } else { None };
        return Ok(Outcome { kept, ..Outcome::default() });
    }
    let is_left = aside.is_dir() && formats(&Place::open(&aside)?)?.0;
    if is_new || is_left {
        let both = if is_left { aside.display().to_string() } else { "files of today's format".to_owned() };
        let detail =
            format!("{} has layers of format {FORMAT}, and there is {both} as well", folder.display());
        let hint = "one of them is from elsewhere, such as a backup: find out which one is to count, move the other one away, and try again";
        return Err(Problem::new(Code::InUse, detail, hint).into());
    }
    let layers = Layers::of(&place)?;
    let (archive, left_out) = match take_over(&layers, &aside, wanted, tell) {
        Err(Stop::Outdated) => {
            tell("the archive has changed since the upgrade was begun, which begins anew");
            clear(&aside, is_ours)?;
            take_over(&layers, &aside, wanted, tell)?
        }
        taken => taken?,
    };
    check(&archive, &layers, &left_out, tell)?;
    let (bytes_before, bytes_after) = (layers.bytes(), archive.bytes());
    let versions = Some(archive.live().len());
    root.exchange(&store, names.aside)?;
    root.sync()?;
    drop((archive, place));
    let kept = remove_old(&root, names.aside, tell)?;
    Ok(Outcome { versions, left_out, bytes_before, bytes_after, kept })
}

/// Whether a folder has files of format 4, and of today's.
fn formats(place: &Place) -> Result<(bool, bool), Error> {
    let files = place.list()?;
    let has = |is: fn(&str) -> bool| files.iter().any(|(name, _)| is(name));
    Ok((has(is_layer), has(is_segment)))
}

/// Writes what is not there yet into the new archive.
fn take_over(
    layers: &Layers,
    aside: &Path,
    wanted: &Wanted,
    tell: &dyn Fn(&str),
) -> Result<(Archive, Vec<(u64, String)>), Stop> {
    let archive = match Archive::open(aside) {
        Err(error) if error.is_loss() => return Err(Stop::Outdated),
        opened => opened?.0,
    };
    for number in archive.live() {
        if !layers.all.get(&number).is_some_and(|layer| layer.is_live) {
            archive.retire(number)?;
        }
    }
    let total = layers.live().count();
    let (mut pages, mut taken, mut nth) = (Pages::new(layers)?, Taken { archive, before: None }, 0);
    let gone = wanted.expected.iter().filter(|number| !layers.live().any(|live| live == **number));
    let mut left_out: Vec<(u64, String)> =
        gone.map(|number| (*number, "its file is not there".to_owned())).collect();
    let mut written = 0;
    for layer in layers.all.values() {
        let laid = match pages.lay(layer) {
            Err(error) if !error.is_loss() => return Err(error.into()),
            laid => laid,
        };
        if !layer.is_live {
            continue;
        }
        nth += 1;
        let is_new = taken.archive.ends_below(layer.number);
        // Where the upgrade is to stop, the others are read all the same, so that all that are damaged are named at once.
        let is_to_write = is_new && (wanted.leave_damaged || left_out.is_empty());
        let result = match laid {
            Ok(pack) => taken.take(&mut pages, &pack, is_to_write),
            Err(error) => Err(Trouble::Lost(error)),
        };
        match result {
            // It could not be read when the versions above it were written.
            Ok(()) if !is_new && !taken.archive.contains(layer.number) => return Err(Stop::Outdated),
            Ok(()) => {}
            Err(Trouble::Lost(error)) if taken.archive.contains(layer.number) => {
                tell(&format!("version {} was taken over before it was damaged: {error}", layer.number));
            }
            Err(Trouble::Lost(error)) => {
                tell(&format!("version {} cannot be read: {error}", layer.number));
                left_out.push((layer.number, error.to_string()));
            }
            Err(Trouble::Outdated) => return Err(Stop::Outdated),
            Err(Trouble::Other(error)) => return Err(error.into()),
        }
        written += usize::from(is_to_write);
        if nth % COMPACTED_EVERY == 0 || nth == total {
            if written > 0 {
                taken.archive.compact(&mut |_| ControlFlow::Continue(()))?;
                written = 0;
            }
            tell(&format!("{nth} of {total} versions are looked through"));
        }
    }
    if wanted.leave_damaged || left_out.is_empty() {
        Ok((taken.archive, left_out))
    } else {
        Err(Stop::Damaged(left_out))
    }
}

/// The new archive, and the version that was taken over last.
struct Taken {
    archive: Archive,
    before: Option<Before>,
}

/// A version that is in the new archive, or would be: its number and its pages.
struct Before {
    number: u64,
    page_size: PageSize,
    hashes: Vec<[u8; 32]>,
}

/// Why a version was not taken over.
enum Trouble {
    /// It cannot be read.
    Lost(Error),
    /// The new archive has another in its place.
    Outdated,
    Other(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl Taken {
    /// Takes the version over that the pages are of, or only reads it.
    fn take(&mut self, pages: &mut Pages<'_>, pack: &Pack, is_to_write: bool) -> Result<(), Trouble> {
        let Meta { number, page_size, page_count, fingerprint, .. } = pack.meta;
        let is_there = self.archive.contains(number);
        if is_there {
            match self.archive.describe(number) {
                Ok(known) if known.fingerprint == fingerprint => {}
                Err(error) if !error.is_loss() => return Err(error.into()),
                _ => return Err(Trouble::Outdated),
            }
        }
        if !pages.are_of(&pack.meta) {
            let what = format!("version {number} was written with other pages than its layers have");
            return Err(Trouble::Lost(pack.damaged(&what)));
        }
        if is_to_write {
            let mut writer = self.archive.begin(number, page_size, page_count)?;
            self.pages(pages, &pack.meta, Some(&mut writer))?;
            finish(writer, &pack.meta)?;
        } else if !is_there {
            self.pages(pages, &pack.meta, None)?;
        }
        self.before = Some(Before { number, page_size, hashes: pages.hashes.clone() });
        Ok(())
    }

    /// Reads all pages that are others than in the version before, and writes all where there is a writer.
    fn pages(
        &self,
        pages: &mut Pages<'_>,
        meta: &Meta,
        mut writer: Option<&mut Writer>,
    ) -> Result<(), Trouble> {
        let compared_with = writer.as_ref().and_then(|writer| writer.compared_with());
        let before = self.before.as_ref().filter(|before| {
            before.page_size == meta.page_size && (writer.is_none() || compared_with == Some(before.number))
        });
        let mut page = vec![0; meta.page_size.as_usize()];
        for (nth, number) in (1..=meta.page_count).enumerate() {
            if before.is_some_and(|before| before.hashes.get(nth) == pages.hashes.get(nth)) {
                let is_taken = match &mut writer {
                    Some(writer) => writer.same(number)?,
                    None => true,
                };
                if is_taken {
                    continue;
                }
            }
            pages.read(nth, &mut page).map_err(|error| match error.is_loss() {
                true => Trouble::Lost(error),
                false => Trouble::Other(error),
            })?;
            if let Some(writer) = &mut writer {
                writer.page(number, &page)?;
            }
        }
        Ok(())
    }
}

fn finish(writer: Writer, meta: &Meta) -> Result<(), Error> {
    let Meta { store, cut_at, wal, note, .. } = meta.clone();
    match writer.finish(Cut { store, cut_at, wal, note, even_if_unchanged: true })? {
        Kept::Stored { fingerprint, .. } if fingerprint == meta.fingerprint => Ok(()),
        kept => Err(Error::Misuse(format!("version {} came out as another: {kept:?}", meta.number))),
    }
}

/// Compares the new archive with what it was written from.
fn check(
    archive: &Archive,
    layers: &Layers,
    left_out: &[(u64, String)],
    tell: &dyn Fn(&str),
) -> Result<(), Stop> {
    tell("reading all that was taken over, and comparing it");
    let is_left_out = |number: &u64| left_out.iter().any(|(left_out, _)| left_out == number);
    let expected: Vec<u64> = layers.live().filter(|number| !is_left_out(number)).collect();
    let report = archive.verify(None, &mut |_, _| ControlFlow::Continue(()))?;
    if let Some(finding) = report.findings.first() {
        // It would be found so again.
        clear(archive.folder(), is_ours)?;
        return Err(damaged(&finding.file, &finding.what).into());
    }
    if archive.live() != expected || report.versions != expected.len() {
        return Err(
            Error::Misuse("the new archive does not have the versions of the old one".to_owned()).into()
        );
    }
    Ok(())
}

/// Removes the old archive, unless there are files in its folder that are not asat's; answers its path then.
fn remove_old(root: &Place, name: &str, tell: &dyn Fn(&str)) -> Result<Option<PathBuf>, Error> {
    let folder = Place::open(&root.path.join(name))?;
    folder.lock()?;
    if !Layers::of(&folder)?.foreign.is_empty() {
        return Ok(Some(folder.path));
    }
    tell("removing the old archive");
    clear(&folder.path, |_| true)?;
    root.remove_folder(name)?;
    root.sync()?;
    Ok(None)
}

fn clear(folder: &Path, is_to_go: impl Fn(&str) -> bool) -> Result<(), Error> {
    let folder = Place::open(folder)?;
    folder
        .list()?
        .iter()
        .filter(|(name, _)| is_to_go(name))
        .try_for_each(|(name, _)| folder.remove_file(name))
}

/// Whether a file is one of a new archive.
fn is_ours(name: &str) -> bool {
    is_segment(name) || is_unfinished(name)
}

fn is_segment(name: &str) -> bool {
    name.ends_with(".segment")
}

/// What is said of why an upgrade ended early.
fn explained(stop: Stop, store: &StoreName, aside: &Path) -> Problem {
    let as_it_was = "the archive is as it was";
    match stop {
        Stop::Problem(problem) => problem,
        Stop::Outdated => {
            Problem::new(Code::Internal, format!("the archive of {store} changes meanwhile"), "")
        }
        Stop::Damaged(versions) => {
            let named: Vec<String> = versions.iter().map(|(number, _)| format!("{store}@{number}")).collect();
            let why = versions.first().map_or("", |(_, why)| why.as_str());
            let detail = format!("{} cannot be read: {why}", named.join(", "));
            let hint = "the archive is as it was: have the asat that wrote it put it right (asat verify), or put the file back from a backup, and \
                        upgrade again; or give these versions up: asat archive upgrade --leave-damaged";
            Problem::new(Code::Damaged, detail, hint)
        }
        Stop::Error(Error::Format { path, found }) => {
            let detail = format!(
                "{} has format version {found}, and what is upgraded is version {FORMAT}",
                path.display()
            );
            let hint = if found < FORMAT {
                "have the asat that wrote it write its versions out (asat export), and begin with an empty state folder"
            } else {
                "use the asat that wrote it, or a newer one"
            };
            Problem::new(Code::NotReadable, detail, hint)
        }
        Stop::Error(Error::Io { doing: "exchange", path, source }) => {
            let (path, aside) = (path.display(), aside.display());
            let detail = format!("{path} and {aside} cannot be exchanged: {source}");
            let hint = format!(
                "this file system may not have that: all is taken over into the second one, so do it by hand: mv {path} {path}.old && mv {aside} {path}"
            );
            Problem::new(Code::Internal, detail, hint)
        }
        Stop::Error(error) => {
            let is_full = matches!(error, Error::Full { .. });
            let problem = Problem::from(error);
            if !is_full {
                return problem;
            }
            let hint = format!(
                "{as_it_was}, and what was taken over is in {}: the new one takes about as much beside the old one, so free or add space there, \
                 then upgrade again, which continues",
                aside.display()
            );
            Problem::new(problem.code, problem.detail, hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_folders_cannot_be_exchanged_it_is_said_how_that_is_done_by_hand() {
        let path = PathBuf::from("/a/report");
        let error = crate::pack::io("exchange", &path, std::io::ErrorKind::InvalidInput.into());
        let problem = explained(error.into(), &"report".parse().unwrap(), Path::new("/a/.report.upgrade"));
        assert!(
            problem.hint.ends_with("mv /a/report /a/report.old && mv /a/.report.upgrade /a/report"),
            "{problem}"
        );
    }
}
