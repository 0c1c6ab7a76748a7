//! Watch mode: when a store's marker is asked for, and what follows from its answer.
//!
//! The marker is a query whose value moves when somebody certifies the store. It is asked for as soon as a commit was noticed
//! and nothing has followed for a moment, and published when it is another one than was published last. Time arrives as what
//! has passed since an instant of the caller's.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::check::{Check, CheckResult, Test};
use crate::version::{Attributes, Free};
use crate::{Code, Problem};

/// When the marker is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// For how long nothing must have been noticed.
    pub debounce: Duration,
    /// The longest that is waited for that: a store that is written without pause is asked all the same.
    pub longest: Duration,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until this instant, or until something is noticed; only for the latter where there is none.
    Wait(Option<Duration>),
    /// Ask for the marker; unless `anyway`, only where the store may have been written to since it was asked for last.
    Ask {
        /// Whether to ask even then.
        anyway: bool,
    },
    /// Publish the store with this value.
    Publish(String),
}

/// One store as watch mode sees it.
#[derive(Clone, Debug)]
pub struct Watch {
    pace: Debounce,
    /// The value that was published last, by this daemon or by an earlier one.
    published: Option<String>,
    /// The first and the last time that something was noticed since the marker was asked for.
    noticed: Option<(Duration, Duration)>,
    /// When it is asked for again although nothing was noticed.
    again_at: Option<Duration>,
    /// When it is asked for again since a commit was under way, and how often in a row that was so.
    under_way: Option<(Duration, u32)>,
    /// How many attempts have failed in a row.
    failures: u32,
    /// Until when the store is left alone, so that asking takes little of the machine.
    rests_until: Duration,
    /// What is to be published.
    wanted: Option<String>,
}

impl Watch {
    /// After an attempt that failed it is tried again, first after this time.
    pub const FIRST_RETRY: Duration = Duration::from_millis(250);
    /// The longest wait for a commit of which nobody tells: one that was under way, or the end of somebody's lock.
    pub const LAST_LOOK: Duration = Duration::from_secs(1);
    /// And at the least as often as this, as long as trying again can help.
    pub const LAST_RETRY: Duration = Duration::from_secs(60);
    /// For so many times as long as an answer took, the marker is not asked for again.
    const REST: u32 = 9;

    /// A store of which this value was published last. Its marker is asked for at once: it may have moved while nobody watched.
    #[must_use]
    pub fn new(pace: Debounce, published: Option<String>) -> Self {
        Self {
            pace,
            published,
            noticed: None,
            again_at: Some(Duration::ZERO),
            under_way: None,
            failures: 0,
            rests_until: Duration::ZERO,
            wanted: None,
        }
    }

    /// The value that was published last.
    #[must_use]
    pub fn last_published(&self) -> Option<&str> {
        self.published.as_deref()
    }

    /// What is to be done now.
    #[must_use]
    pub fn next(&self, now: Duration) -> Step {
        if let Some(value) = &self.wanted {
            return Step::Publish(value.clone());
        }
        let again_at = self.again_at.into_iter().chain(self.under_way.map(|(at, _)| at)).min();
        if again_at.is_some_and(|at| at <= now) {
            return Step::Ask { anyway: true };
        }
        let calm =
            self.noticed.map(|(first, last)| (last + self.pace.debounce).min(first + self.pace.longest));
        let due = calm.map(|calm| calm.max(self.rests_until));
        match due {
            Some(due) if due <= now => Step::Ask { anyway: false },
            due => Step::Wait(due.into_iter().chain(again_at).min()),
        }
    }

    /// Something was noticed that may be a commit.
    pub fn notice(&mut self, now: Duration) {
        let first = self.noticed.map_or(now, |(first, _)| first);
        self.noticed = Some((first, now));
    }

    /// What was noticed was no commit.
    pub fn unchanged(&mut self) {
        self.noticed = None;
    }

    /// The marker was asked for from one instant to the other, and this is its value; nothing where nothing is certified yet. If a
    /// commit was under way then, of whose end nobody will tell, it is asked for again: after `debounce`, and then after
    /// twice as long each time, [`Self::LAST_LOOK`] at most.
    pub fn answered(
        &mut self,
        began: Duration,
        now: Duration,
        answer: &Result<Option<String>, Problem>,
        is_commit_under_way: bool,
    ) {
        (self.noticed, self.again_at) = (None, None);
        self.rests_until = now + Self::REST * now.saturating_sub(began);
        let times = self.under_way.map_or(0, |(_, times)| times);
        let after = (self.pace.debounce * 2_u32.pow(times.min(16))).min(Self::LAST_LOOK);
        self.under_way =
            is_commit_under_way.then(|| ((now + after).max(self.rests_until), times.saturating_add(1)));
        match answer {
            Ok(value) if value.is_some() && *value != self.published => self.wanted.clone_from(value),
            Ok(_) => self.failures = 0,
            Err(problem) => self.fail(now, problem),
        }
    }

    /// The store was published with this value, which is newer than what was wanted at times; or that was refused.
    pub fn published(&mut self, now: Duration, answer: &Result<String, Problem>) {
        self.wanted = None;
        match answer {
            Ok(value) => (self.published, self.failures) = (Some(value.clone()), 0),
            Err(problem) => self.fail(now, problem),
        }
    }

    fn fail(&mut self, now: Duration, problem: &Problem) {
        self.failures = self.failures.saturating_add(1);
        let after = match problem.code {
            // The next commit may mend it, and nothing else: to check a store again and again would only read it.
            Code::CheckFailed | Code::LabelTaken => None,
            Code::MarkerFailed | Code::StoreMissing | Code::StoreUnreadable => Some(Self::LAST_RETRY),
            code => {
                let doublings = (self.failures - 1).min(16);
                // Nobody tells of the end of a lock.
                let last = if code == Code::StoreBusy { Self::LAST_LOOK } else { Self::LAST_RETRY };
                Some((Self::FIRST_RETRY * 2_u32.pow(doublings)).min(last))
            }
        };
        self.again_at = after.map(|after| now + after);
    }
}

/// What is said of a publication of this value: it is its label, and that watch mode has published it is known by it.
#[must_use]
pub fn attributes(value: &str) -> Attributes {
    let free = Free::from([(Attributes::MARKER.to_owned(), value.into())]);
    Attributes { label: Some(value.to_owned()), free, ..Attributes::default() }
}

/// The marker as it is asked of the very content that is cut: somebody may have certified more since it was asked for.
#[must_use]
pub fn check(marker: &str, deadline: Duration) -> Check {
    Check { name: Attributes::MARKER.to_owned(), test: Test::Marker { sql: marker.to_owned() }, deadline }
}

/// What is said of a publication by watch mode, with the value that its content was found to have. Of others it is what was
/// said.
#[must_use]
pub fn as_found(said: &Attributes, checks: &[CheckResult]) -> Attributes {
    let found = checks.iter().rev().find(|check| check.name == Attributes::MARKER);
    match found.filter(|_| said.marker().is_some()) {
        Some(check) => attributes(&check.found),
        None => said.clone(),
    }
}
