//! Deleting what nothing in the bucket needs any more.
//!
//! It may run anywhere, beside publishers and readers, with credentials of its own. What a manifest names is kept until that manifest has
//! been superseded for longer than the grace: so a reader of an older manifest can continue for so long. The service's clock counts.
//! What a publisher may be about to name is kept: what was stored within the grace, and in the newest epoch whatever is above the newest
//! manifest's files. So it does not matter what is published meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::bucket::Entry;
use crate::error::Error;
use crate::layout;
use crate::manifest::PRUNED;
use crate::probe;
use crate::repository::{Found, History};

/// What is kept though nothing needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How long a manifest is kept that was superseded, with all that it names.
    pub grace: Duration,
    /// So many manifests are kept however old they are, the newest; at least one. They are the way back after a mistake.
    pub manifests: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { grace: Duration::from_secs(7 * 24 * 3600), manifests: 100 }
    }
}

/// What was deleted, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many files of archives.
    pub files: usize,
    /// How long they were together, in bytes.
    pub bytes: u64,
    /// How many manifests.
    pub manifests: usize,
}

/// Deletes what was not needed for longer than it is kept; or says only what that is.
///
/// # Errors
/// If a manifest that is kept cannot be read; what the service answers. What was deleted until then was not needed.
pub fn prune(history: &History, keep: &Keep, is_rehearsal: bool) -> Result<Pruned, Error> {
    let bucket = &*history.bucket;
    let now = probe::now(bucket)?;
    // What was stored after this is too young.
    let limit = now.checked_sub(keep.grace).unwrap_or(jiff::Timestamp::MIN);
    let Some(head) = history.newest()? else { return Ok(Pruned::default()) };
    let manifests = history.list()?;
    let (kept, spare) = manifests.split_at(kept(&manifests, keep.manifests, |entry| entry.modified < limit));
    let mut needed: BTreeSet<String> = head.files.iter().map(|file| file.key(&history.store)).collect();
    for (number, _) in kept {
        if let Found::Manifest(kept) = history.find(*number)? {
            needed.extend(kept.manifest.files.iter().map(|file| file.key(&history.store)));
        }
    }
    let is_spare = |entry: &Entry| {
        let Some((epoch, number)) = layout::numbers_of_file(&history.store, &entry.key) else { return false };
        let may_be_named = (epoch, number) > (head.epoch, head.newest_file());
        entry.modified < limit && !may_be_named && !needed.contains(&entry.key)
    };
    let mut pruned = Pruned { manifests: spare.len(), ..Pruned::default() };
    for entry in bucket.list_all(&layout::files(&history.store))?.into_iter().filter(is_spare) {
        if !is_rehearsal {
            // A listing may be old, and the object may have been stored again since.
            let is_spare = bucket.look(&entry.key)?.is_some_and(|there| there.modified < limit);
            if !is_spare {
                continue;
            }
            bucket.delete(&entry.key)?;
        }
        pruned.files += 1;
        pruned.bytes += entry.bytes;
    }
    // The oldest first, so that what is left is a row without gaps. A number is never free again.
    for (_, entry) in spare.iter().rev().filter(|_| !is_rehearsal) {
        bucket.store(
            &entry.key,
            u64::try_from(PRUNED.len()).unwrap_or(0),
            &mut [Ok(PRUNED.to_vec())].into_iter(),
        )?;
    }
    Ok(pruned)
}

/// How many of these manifests are kept; they are in order, the newest first. One is spare if the next newer one is old.
fn kept(manifests: &[(u64, Entry)], at_least: usize, is_old: impl Fn(&Entry) -> bool) -> usize {
    let newer = manifests.iter().enumerate().skip(at_least.saturating_sub(1));
    newer
        .filter(|(_, (_, entry))| is_old(entry))
        .map(|(place, _)| place + 1)
        .next()
        .unwrap_or(manifests.len())
}
