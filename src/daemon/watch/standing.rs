//! How watch mode stands with a store, for whoever asks.

use asat_core::{Code, Problem};
use jiff::Timestamp;

/// How watch mode stands with a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The value of the marker when it was asked for last; nothing where nothing was certified.
    pub value: Option<String>,
    /// Since when it is that value, as far as this daemon has seen.
    pub since: Option<Timestamp>,
    /// When it was asked for last.
    pub asked_at: Option<Timestamp>,
    /// The value that was published last.
    pub published: Option<String>,
    /// Why the store's files are looked at again and again, where changes to them are not told.
    pub polls: Option<String>,
    /// What keeps watch mode from its work, and since when.
    pub trouble: Option<(Problem, Timestamp)>,
}

impl Watched {
    /// Takes an answer of the marker in.
    pub(super) fn answered(&mut self, now: Timestamp, value: &Option<String>) {
        if self.since.is_none() || self.value != *value {
            (self.value, self.since) = (value.clone(), Some(now));
        }
        self.asked_at = Some(now);
    }

    /// Takes trouble in, or that it is over; answers whether there was news in it.
    pub(super) fn troubled(&mut self, now: Timestamp, trouble: Option<&Problem>) -> bool {
        let is_news = match (&self.trouble, trouble) {
            (None, None) => false,
            (Some((old, _)), Some(new)) => !is_same(old, new),
            _ => true,
        };
        let since = self.trouble.as_ref().map(|(_, since)| *since).filter(|_| !is_news);
        self.trouble = trouble.map(|problem| (problem.clone(), since.unwrap_or(now)));
        is_news
    }
}

/// Whether a problem is the one that there was. Elsewhere than in a query's fault, numbers differ each time.
fn is_same(old: &Problem, new: &Problem) -> bool {
    old.code == new.code && (old.code != Code::MarkerFailed || old.detail == new.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_news_once() {
        let (now, later) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let mut watched = Watched::default();
        let busy = |ms: u32| Problem::new(Code::StoreBusy, format!("locked for {ms} ms"), "");
        assert!(!watched.troubled(now, None));
        assert!(watched.troubled(now, Some(&busy(1000))));
        assert!(!watched.troubled(later, Some(&busy(1001))));
        assert_eq!(watched.trouble, Some((busy(1001), now)));
        assert!(watched.troubled(later, Some(&Problem::new(Code::MarkerFailed, "no such table: a", ""))));
        assert!(watched.troubled(later, Some(&Problem::new(Code::MarkerFailed, "no such table: b", ""))));
        assert!(watched.troubled(later, None));
        watched.answered(now, &None);
        assert_eq!((watched.since, watched.asked_at), (Some(now), Some(now)));
        watched.answered(later, &None);
        assert_eq!((watched.since, watched.asked_at), (Some(now), Some(later)));
    }
}
