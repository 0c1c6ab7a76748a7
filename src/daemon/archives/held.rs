//! What the archives hold of versions, when the daemon starts.

use std::collections::{BTreeMap, BTreeSet};

use asat_archive::{Archive, Error};
use asat_core::event::{Archived, Damaged, Described, Found};
use asat_core::recorder::Understood;
use asat_core::register::{History, Register};
use asat_core::version::State;
use asat_core::{Code, Problem, StoreName, VersionId};

use super::{Archives, certified, describe};
use crate::daemon::recording::understood;

impl Archives {
    /// What is wrong with files of the archives that cannot be read.
    pub(in crate::daemon) fn unread(&self) -> Vec<Problem> {
        let archives = self.known();
        let of_open = archives.open.values().flat_map(|archive| archive.unread()).map(Problem::from);
        of_open.chain(archives.unread.values().cloned()).collect()
    }

    /// What the archives have: of which versions what is recorded, and what of others.
    ///
    /// # Errors
    /// Where one cannot be read at this time, or only by a newer asat.
    pub(in crate::daemon) fn look(
        &self,
        register: &Register,
        found: &[Found],
    ) -> Result<HeldByArchives, Problem> {
        if self.are_followed() {
            return Ok(HeldByArchives { as_recorded: as_recorded(register), ..HeldByArchives::default() });
        }
        let mut held = HeldByArchives::default();
        let archives = self.known();
        for (store, archive) in &archives.open {
            let (as_recorded, mut archived) = look_at_archive(archive, store, register)?;
            // A file that was written last, of which nothing can be read, may be that of a version that is in a snapshot still.
            let newest = archive.newest().unwrap_or(0);
            let mut of_snapshots = found.iter().map(|found| &found.version);
            if of_snapshots.any(|id| id.store == *store && id.number > newest) {
                archived.retain(|held| held.version.number <= newest);
            }
            held.as_recorded.insert(store.clone(), as_recorded);
            held.archived.extend(archived);
            match understood(store, archive) {
                Ok(understood) => _ = held.recorded.insert(store.clone(), understood),
                Err(problem) if problem.code == Code::Damaged => {
                    held.unrecorded.insert(store.clone(), problem);
                }
                Err(problem) => return Err(problem),
            }
        }
        for (store, problem) in &archives.unread {
            let Ok(history) = register.history(store) else { continue };
            let versions = history.versions.values().map(|entry| &entry.version);
            held.archived.extend(versions.filter(|version| version.is_archived()).map(|version| {
                let damaged = Damaged { why: problem.detail.clone(), described: None };
                Archived { version: version.id.clone(), described: Err(damaged) }
            }));
        }
        Ok(held)
    }

    /// The stores whose archives are worth compacting.
    pub(in crate::daemon) fn uncompacted(&self) -> Vec<StoreName> {
        let archives = self.known();
        let worth = archives.open.iter().filter(|(_, archive)| archive.is_worth_compacting());
        worth.map(|(store, _)| store.clone()).collect()
    }
}

/// What the archives have.
#[derive(Default)]
pub(in crate::daemon) struct HeldByArchives {
    /// The versions that they have as they are recorded.
    pub(in crate::daemon) as_recorded: BTreeMap<StoreName, BTreeSet<u64>>,
    /// The others, and those of which something is damaged.
    pub(in crate::daemon) archived: Vec<Archived>,
    /// What they have recorded beside them.
    pub(in crate::daemon) recorded: BTreeMap<StoreName, Understood>,
    /// Why that cannot be read.
    pub(in crate::daemon) unrecorded: BTreeMap<StoreName, Problem>,
}

/// What is recorded of a bucket that is followed: it is asked after the start.
fn as_recorded(register: &Register) -> BTreeMap<StoreName, BTreeSet<u64>> {
    let of = |history: &History| {
        let ready = history.versions.headlines().filter(|headline| headline.state == State::Ready);
        (history.store.name.clone(), ready.map(|headline| headline.number).collect())
    };
    register.stores().map(of).collect()
}

/// What an archive has of a store's versions. Those that the register has as archived are taken as they are, unless a file is
/// damaged or gone: then any of them may need it.
fn look_at_archive(
    archive: &Archive,
    store: &StoreName,
    register: &Register,
) -> Result<(BTreeSet<u64>, Vec<Archived>), Problem> {
    let versions = register.history(store).ok().map(|history| &history.versions);
    let headline = |number: u64| versions.and_then(|versions| versions.headline(number));
    let is_archived = |number: u64| headline(number).is_some_and(|headline| headline.is_archived);
    let live = archive.live();
    let is_other = |number| {
        let recorded = versions.and_then(|versions| versions.get(number));
        recorded.is_some_and(|entry| certified::is_other(archive, &entry.version))
    };
    // Files of another history have at least another newest version.
    let newest = live.iter().rev().copied().find(|number| is_archived(*number));
    let of_another_history = newest.is_some_and(is_other);
    // All at once, so that none of them is read by itself.
    let mut unreadable: BTreeMap<u64, Error> = archive.unreadable()?.into_iter().collect();
    let (mut as_recorded, mut archived) = (Vec::new(), Vec::new());
    for &number in &live {
        let version = || VersionId { store: store.clone(), number };
        let recorded = headline(number);
        let was_lost = recorded.is_some_and(|headline| headline.state == State::Lost);
        let is_known = recorded.is_some_and(|headline| headline.is_archived) && !was_lost;
        let described = if (!is_known || of_another_history) && is_other(number) {
            Err(Damaged { why: certified::of_another_history(&version()), described: None })
        } else if !is_known {
            look_into(archive, &version(), was_lost)?
        } else if let Some(error) = unreadable.remove(&number) {
            let known = describe(archive, &version()).ok().map(Box::new);
            Err(Damaged { why: Problem::from(error).detail, described: known })
        } else {
            as_recorded.push(number);
            continue;
        };
        archived.push(Archived { version: version(), described });
    }
    for (number, error) in archive.lost() {
        if !error.is_loss() {
            return Err(error.into());
        }
        let version = VersionId { store: store.clone(), number };
        // Of a store that nothing is recorded of, nobody else may get the number.
        if versions.is_none() || is_archived(number) {
            let damaged = Damaged { why: Problem::from(error).detail, described: None };
            archived.push(Archived { version, described: Err(damaged) });
        }
    }
    Ok((as_recorded.into_iter().collect(), archived))
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
