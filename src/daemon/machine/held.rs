//! What the archives hold of versions, when the daemon starts.

use asat_archive::{Archive, Error};
use asat_core::event::{Archived, Damaged, Described, Found};
use asat_core::register::Register;
use asat_core::version::{State, Version};
use asat_core::{Code, Problem, StoreName, VersionId};

use super::{Machine, certified, describe};

impl Machine {
    /// What is wrong with files of the archives that cannot be read.
    pub(in crate::daemon) fn unread(&self) -> Vec<Problem> {
        let archives = self.archives();
        let of_open = archives.open.values().flat_map(|archive| archive.unread()).map(Problem::from);
        of_open.chain(archives.unread.values().cloned()).collect()
    }

    /// What the archives have.
    ///
    /// # Errors
    /// Where one cannot be read at this time, or only by a newer asat.
    pub(super) fn look_at_archives(
        &self,
        register: &Register,
        found: &[Found],
    ) -> Result<Vec<Archived>, Problem> {
        let mut archived = Vec::new();
        let archives = self.archives();
        for (store, archive) in &archives.open {
            archived.extend(look_at_archive(archive, store, register)?);
            // A file that was written last, of which nothing can be read, may be that of a version that is in a snapshot still.
            let newest = archive.newest().unwrap_or(0);
            let mut of_snapshots = found.iter().map(|found| &found.version);
            if of_snapshots.any(|id| id.store == *store && id.number > newest) {
                archived.retain(|held| held.version.store != *store || held.version.number <= newest);
            }
        }
        for (store, problem) in &archives.unread {
            let Ok(history) = register.history(store) else { continue };
            let versions = history.versions.values().map(|entry| &entry.version);
            archived.extend(versions.filter(|version| version.is_archived()).map(|version| {
                let damaged = Damaged { why: problem.detail.clone(), described: None };
                Archived { version: version.id.clone(), described: Some(Err(damaged)) }
            }));
        }
        Ok(archived)
    }

    /// The stores whose archives are worth compacting.
    pub(super) fn uncompacted(&self) -> Vec<StoreName> {
        let archives = self.archives();
        let worth = archives.open.iter().filter(|(_, archive)| archive.is_worth_compacting());
        worth.map(|(store, _)| store.clone()).collect()
    }
}

/// What an archive has of a store's versions. Those that the register has as archived are taken as they are, unless a file is
/// damaged or gone: then any of them may need it.
fn look_at_archive(
    archive: &Archive,
    store: &StoreName,
    register: &Register,
) -> Result<Vec<Archived>, Problem> {
    let version_of = |id: &VersionId| register.entry(id).ok().map(|entry| &entry.version);
    let is_known = |id: &VersionId| {
        version_of(id).is_some_and(|version| version.is_archived() && version.state != State::Lost)
    };
    let live = archive.live();
    let recorded = |number: u64| version_of(&VersionId { store: store.clone(), number });
    let is_other = |number| recorded(number).is_some_and(|version| certified::is_other(archive, version));
    // Files of another history have at least another newest version.
    let newest =
        live.iter().rev().copied().find(|number| recorded(*number).is_some_and(Version::is_archived));
    let of_another_history = newest.is_some_and(is_other);
    // All at once, so that none of them is read by itself.
    let unreadable = archive.unreadable()?;
    let mut archived = Vec::new();
    for &number in &live {
        let version = VersionId { store: store.clone(), number };
        let was_lost = version_of(&version).is_some_and(|version| version.state == State::Lost);
        let described = match is_known(&version) {
            known if (!known || of_another_history) && is_other(number) => {
                Some(Err(Damaged { why: certified::of_another_history(&version), described: None }))
            }
            true => None,
            false => Some(look_into(archive, &version, was_lost)?),
        };
        archived.push(Archived { version, described });
    }
    for (number, error) in archive.lost() {
        if !error.is_loss() {
            return Err(error.into());
        }
        let version = VersionId { store: store.clone(), number };
        // Of a store that nothing is recorded of, nobody else may get the number.
        let is_expected = match register.history(store) {
            Ok(_) => version_of(&version).is_some_and(|version| version.is_archived()),
            Err(_) => true,
        };
        if is_expected {
            let damaged = Damaged { why: Problem::from(error).detail, described: None };
            archived.push(Archived { version, described: Some(Err(damaged)) });
        }
    }
    for (number, error) in unreadable {
        let Ok(place) = live.binary_search(&number) else { continue };
        if let Some(Archived { version, described: described @ None }) = archived.get_mut(place) {
            let known = describe(archive, version).ok().map(Box::new);
            *described = Some(Err(Damaged { why: Problem::from(error).detail, described: known }));
        }
    }
    Ok(archived)
}

/// What an archive says of a version, and whether its pages can be put together. Damage keeps nobody from the other versions, nor
/// does one that was lost before; what this asat cannot know, or this machine not read at the moment, does.
fn look_into(
    archive: &Archive,
    id: &VersionId,
    was_lost: bool,
) -> Result<Result<Box<Described>, Damaged>, Problem> {
    let read = archive.describe(id.number).and_then(|_| archive.read(id.number).map(drop));
    let is_loss = read.as_ref().is_err_and(Error::is_loss);
    let (described, problem) = match (describe(archive, id).map(Box::new), read) {
        (Ok(described), Ok(())) => return Ok(Ok(described)),
        (Ok(described), Err(error)) => (Some(described), error.into()),
        (Err(problem), _) => (None, problem),
    };
    match problem.code {
        code if is_loss || was_lost || code == Code::Damaged => {
            Ok(Err(Damaged { why: problem.detail, described }))
        }
        _ => Err(problem),
    }
}
