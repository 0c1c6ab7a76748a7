//! The versions that are open in the tree, and those that were until lately.
//!
//! A program that asks short questions opens a version again and again, and opening one takes much longer than such a
//! question: the directories of segments have to be read, and a lease recorded. So a version stays open for a while after
//! the last who had it open, unless somebody gives it up meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use asat_core::VersionId;

use super::shelf::Opened;
use crate::daemon::machine::lock;

/// How many versions stay open that nobody has open; the index of a large one takes memory.
const KEPT: usize = 8;

/// For how long a version is not opened again that was taken from whoever had it open: time to give it up.
const BARRED: Duration = Duration::from_secs(60);

/// The versions.
pub(in crate::daemon) struct Recent<T = Opened> {
    open: Mutex<BTreeMap<VersionId, Kept<T>>>,
    /// Those that were taken from whoever had them open, and when.
    barred: Mutex<BTreeMap<VersionId, Instant>>,
}

struct Kept<T> {
    version: Arc<T>,
    /// Whether anybody has had it open since the last look.
    used: bool,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { open: Mutex::default(), barred: Mutex::default() }
    }
}

impl<T> Kept<T> {
    /// Whether nobody has it open.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.version) == 1
    }
}

impl<T> Recent<T> {
    /// A version, where it is open still.
    pub(super) fn find(&self, id: &VersionId) -> Option<Arc<T>> {
        let mut open = lock(&self.open);
        let kept = open.get_mut(id)?;
        kept.used = true;
        Some(Arc::clone(&kept.version))
    }

    /// Takes a version in that was opened; answers the one of that name that is open already, where there is one.
    pub(super) fn add(&self, id: &VersionId, version: T) -> Arc<T> {
        let mut open = lock(&self.open);
        let idle: Vec<VersionId> =
            open.iter().filter(|(_, kept)| kept.is_idle()).map(|(id, _)| id.clone()).collect();
        let too_many = (idle.len() + 1).saturating_sub(KEPT);
        for id in idle.iter().take(too_many) {
            open.remove(id);
        }
        let version = Arc::new(version);
        let kept = open.entry(id.clone()).or_insert(Kept { version, used: true });
        kept.used = true;
        Arc::clone(&kept.version)
    }

    /// Lets go of what nobody has had open since the look before this one.
    pub(super) fn look(&self) {
        lock(&self.open).retain(|_, kept| std::mem::take(&mut kept.used) || !kept.is_idle());
    }

    /// Lets go of a version that nobody has open, as somebody wants to give it up.
    pub(in crate::daemon) fn let_go(&self, id: &VersionId) {
        let mut open = lock(&self.open);
        if open.get(id).is_some_and(Kept::is_idle) {
            open.remove(id);
        }
    }

    /// Takes a version from whoever has it open, if it is meant, and answers it; for a while nobody gets it again.
    pub(in crate::daemon) fn bar(&self, id: &VersionId, is_meant: impl FnOnce(&T) -> bool) -> Option<Arc<T>> {
        let mut open = lock(&self.open);
        let version = Arc::clone(&open.get(id).filter(|kept| is_meant(&kept.version))?.version);
        open.remove(id);
        lock(&self.barred).insert(id.clone(), Instant::now());
        Some(version)
    }

    /// Whether a version was taken from whoever had it open, not long ago.
    pub(super) fn is_barred(&self, id: &VersionId) -> bool {
        let mut barred = lock(&self.barred);
        barred.retain(|_, since| since.elapsed() < BARRED);
        barred.contains_key(id)
    }

    /// Lets go of everything; who has a version open keeps it.
    pub(super) fn clear(&self) {
        lock(&self.open).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> VersionId {
        format!("report@{number}").parse().unwrap()
    }

    fn is_open(recent: &Recent<u64>, number: u64) -> bool {
        lock(&recent.open).contains_key(&id(number))
    }

    #[test]
    fn what_is_open_stays_and_what_was_goes_at_the_second_look() {
        let recent = Recent::default();
        let held = recent.add(&id(1), 1);
        drop(recent.add(&id(2), 2));
        recent.look();
        assert!(is_open(&recent, 1) && is_open(&recent, 2));
        drop(recent.find(&id(2)));
        recent.look();
        assert!(is_open(&recent, 1) && is_open(&recent, 2), "it was asked for since");
        recent.look();
        assert!(is_open(&recent, 1) && !is_open(&recent, 2));
        recent.let_go(&id(1));
        assert!(is_open(&recent, 1), "somebody has it open");
        drop(held);
        recent.let_go(&id(1));
        assert!(!is_open(&recent, 1));
    }

    #[test]
    fn a_version_that_is_taken_away_is_not_opened_again_for_a_while() {
        let recent = Recent::default();
        let held = recent.add(&id(1), 1);
        drop(recent.add(&id(2), 2));
        assert!(recent.bar(&id(1), |version| *version == 7).is_none(), "another lease is meant");
        assert!(is_open(&recent, 1) && !recent.is_barred(&id(1)));
        assert!(recent.bar(&id(1), |version| *version == 1).is_some_and(|taken| Arc::ptr_eq(&taken, &held)));
        assert!(!is_open(&recent, 1) && is_open(&recent, 2));
        assert!(recent.is_barred(&id(1)) && !recent.is_barred(&id(2)));
        assert!(recent.bar(&id(3), |_| true).is_none());
        assert!(!recent.is_barred(&id(3)), "nobody had it open");
    }

    #[test]
    fn a_version_that_two_open_at_once_is_open_once() {
        let recent = Recent::default();
        let (first, second) = (recent.add(&id(1), 1), recent.add(&id(1), 1));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(recent.find(&id(2)).is_none());
    }

    #[test]
    fn few_stay_open_that_nobody_has_open() {
        let recent = Recent::default();
        let held: Vec<_> = (1..=20).map(|number| recent.add(&id(number), number)).collect();
        (21..=50).for_each(|number| drop(recent.add(&id(number), number)));
        assert_eq!((1..=20).filter(|&number| is_open(&recent, number)).count(), held.len());
        assert_eq!((21..=50).filter(|&number| is_open(&recent, number)).count(), KEPT);
        assert!(is_open(&recent, 50), "the one that was opened last is among them");
        recent.clear();
        assert!((1..=50).all(|number| !is_open(&recent, number)));
    }
}
