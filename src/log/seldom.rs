//! Lines that others can cause as often as they like: of each source at most one a second is written, and one tells how many were not.
//!
//! So that who is loud does not hide another, each source is counted by itself, and so that nobody fills the memory or the log by coming
//! from everywhere, only some sources are at a time. All further ones are counted together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// The shortest time between two lines about a source.
const PAUSE: Duration = Duration::from_secs(1);
/// So many sources are counted by themselves.
const MOST_SOURCES: usize = 16;
/// What the others are called together.
const OTHERS: &str = "other places";

/// Lines of a kind.
pub(crate) struct Seldom {
    said: Mutex<Said>,
    /// Tells how many lines about a source were left out.
    tell_left_out: fn(source: &str, count: u64),
}

/// What was said.
#[derive(Default)]
struct Said {
    sources: BTreeMap<String, Pause>,
    /// All for which there was no room among the sources.
    others: Option<Pause>,
    /// Whether somebody waits for the end of a pause.
    is_awaited: bool,
}

/// The time after a line.
struct Pause {
    since: Instant,
    left_out: u64,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It may be written, and so many before it were not.
    Now(u64),
    /// It is counted.
    LeftOut,
}

impl Seldom {
    /// Lines of which it is told by this how many were left out.
    pub(crate) fn new(tell_left_out: fn(source: &str, count: u64)) -> Arc<Self> {
        Arc::new(Self { said: Mutex::default(), tell_left_out })
    }

    /// Whether a line about a source may be written now. Where it may not, it is counted, and how many were is told of when the pause
    /// is over.
    pub(crate) fn may_tell(self: &Arc<Self>, source: &str) -> bool {
        let turn = self.said().turn(source, Instant::now());
        match turn {
            Turn::Now(left_out) => {
                if left_out > 0 {
                    (self.tell_left_out)(source, left_out);
                }
                true
            }
            Turn::LeftOut => {
                self.await_pauses();
                false
            }
        }
    }

    /// Sees to it that somebody waits for the pauses. Where nobody can, it is told of with the next line, or at the end.
    fn await_pauses(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let is_awaited = std::mem::replace(&mut self.said().is_awaited, true);
        if !is_awaited {
            runtime.spawn(tell_after_pauses(Arc::downgrade(self)));
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seldom {
    fn drop(&mut self) {
        let said = std::mem::take(&mut *self.said());
        let others = said.others.into_iter().map(|pause| (OTHERS.to_owned(), pause));
        for (source, Pause { left_out, .. }) in said.sources.into_iter().chain(others) {
            if left_out > 0 {
                (self.tell_left_out)(&source, left_out);
            }
        }
    }
}

/// Tells of what was left out as pauses end, until nothing was.
async fn tell_after_pauses(seldom: Weak<Seldom>) {
    loop {
        let Some(end) = seldom.upgrade().and_then(|seldom| seldom.said().next_end()) else { return };
        tokio::time::sleep_until(end.into()).await;
        let Some(seldom) = seldom.upgrade() else { return };
        let over = seldom.said().over(Instant::now());
        over.iter().for_each(|(source, count)| (seldom.tell_left_out)(source, *count));
    }
}

impl Said {
    fn turn(&mut self, source: &str, now: Instant) -> Turn {
        if let Some(pause) = self.sources.get_mut(source) {
            return pause.turn(now);
        }
        self.sources.retain(|_, pause| !pause.is_over(now) || pause.left_out > 0);
        if self.sources.len() < MOST_SOURCES {
            self.sources.insert(source.to_owned(), Pause { since: now, left_out: 0 });
            return Turn::Now(0);
        }
        self.others.get_or_insert(Pause { since: now, left_out: 0 }).left_out += 1;
        Turn::LeftOut
    }

    /// When the first pause ends in which something was left out. Where none does, nobody waits any more.
    fn next_end(&mut self) -> Option<Instant> {
        let pauses = self.sources.values().chain(&self.others);
        let next = pauses.filter(|pause| pause.left_out > 0).map(|pause| pause.since + PAUSE).min();
        self.is_awaited = next.is_some();
        next
    }

    /// What was left out in pauses that are over, by source. That it is told of is a line, too, and begins a pause.
    fn over(&mut self, now: Instant) -> Vec<(String, u64)> {
        let mut over = Vec::new();
        for (source, pause) in &mut self.sources {
            if pause.left_out > 0 && pause.is_over(now) {
                over.push((source.clone(), pause.left_out));
                *pause = Pause { since: now, left_out: 0 };
            }
        }
        if let Some(pause) = self.others.take_if(|pause| pause.is_over(now)) {
            over.push((OTHERS.to_owned(), pause.left_out));
        }
        over
    }
}

impl Pause {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= PAUSE
    }

    fn turn(&mut self, now: Instant) -> Turn {
        if !self.is_over(now) {
            self.left_out += 1;
            return Turn::LeftOut;
        }
        self.since = now;
        Turn::Now(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of lines at these milliseconds, about one source each.
    fn turns<const N: usize>(said: &mut Said, begin: Instant, lines: [(&str, u64); N]) -> [Turn; N] {
        lines.map(|(source, after_ms)| said.turn(source, begin + Duration::from_millis(after_ms)))
    }

    #[test]
    fn of_each_source_a_line_a_second_is_written_and_those_that_were_not_are_counted() {
        use Turn::{LeftOut, Now};
        let (mut said, begin) = (Said::default(), Instant::now());
        let lines = [("a", 0), ("a", 1), ("b", 2), ("a", 999), ("b", 3), ("a", 1000), ("b", 1001)];
        let expected = [Now(0), LeftOut, Now(0), LeftOut, LeftOut, Now(2), LeftOut];
        assert_eq!(turns(&mut said, begin, lines), expected);
        assert_eq!(turns(&mut said, begin, [("b", 9000), ("a", 9000)]), [Now(2), Now(0)]);
    }

    #[test]
    fn what_was_left_out_is_told_of_when_the_pause_is_over_without_another_line() {
        let (mut said, begin) = (Said::default(), Instant::now());
        let at = |after_ms| begin + Duration::from_millis(after_ms);
        turns(&mut said, begin, [("a", 0), ("b", 100), ("quiet", 100), ("a", 200), ("b", 300), ("b", 400)]);
        assert_eq!(said.next_end(), Some(at(1000)));
        assert!(said.is_awaited && said.over(at(999)).is_empty());
        assert_eq!(said.over(at(1000)), [("a".to_owned(), 1)]);
        assert_eq!(said.next_end(), Some(at(1100)));
        assert_eq!(said.over(at(1100)), [("b".to_owned(), 2)]);
        assert_eq!((said.next_end(), said.is_awaited), (None, false));
        // To tell so was a line: the next one has to wait again.
        assert_eq!(said.turn("a", at(1500)), Turn::LeftOut);
        assert_eq!(said.next_end(), Some(at(2000)));
    }

    #[test]
    fn no_more_sources_are_known_than_there_may_be_and_the_others_are_counted_together() {
        let (mut said, begin) = (Said::default(), Instant::now());
        let at = |after_ms| begin + Duration::from_millis(after_ms);
        let turns: Vec<Turn> = (0..1000).map(|source| said.turn(&source.to_string(), at(source))).collect();
        assert!(turns[..MOST_SOURCES].iter().all(|turn| *turn == Turn::Now(0)));
        assert!(turns[MOST_SOURCES..].iter().all(|turn| *turn == Turn::LeftOut));
        assert_eq!(said.sources.len(), MOST_SOURCES);
        let first = u64::try_from(MOST_SOURCES).unwrap();
        assert_eq!(said.over(at(1000 + first)), [(OTHERS.to_owned(), 1000 - first)]);
        // Who has been quiet makes room.
        assert_eq!(said.turn("another", at(2000)), Turn::Now(0));
        assert_eq!(said.sources.len(), 1);
    }

    static TOLD: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());
    static TOLD_AT_THE_END: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

    #[tokio::test]
    async fn whoever_waits_for_pauses_tells_what_was_left_out_and_is_done() {
        let seldom = Seldom::new(|source, count| TOLD.lock().unwrap().push((source.to_owned(), count)));
        let over = Pause { since: Instant::now().checked_sub(PAUSE).unwrap(), left_out: 7 };
        seldom.said().sources.insert("a".to_owned(), over);
        seldom.said().is_awaited = true;
        tell_after_pauses(Arc::downgrade(&seldom)).await;
        assert_eq!(*TOLD.lock().unwrap(), [("a".to_owned(), 7)]);
        assert!(!seldom.said().is_awaited);
        // A line that is left out has somebody wait again.
        assert!(!seldom.may_tell("a"));
        assert!(seldom.said().is_awaited);
    }

    #[test]
    fn at_the_latest_it_is_told_at_the_end() {
        let told = |source: &str, count| TOLD_AT_THE_END.lock().unwrap().push((source.to_owned(), count));
        let seldom = Seldom::new(told);
        assert!(
            seldom.may_tell("a") && !seldom.may_tell("a") && !seldom.may_tell("a") && seldom.may_tell("b")
        );
        assert!(TOLD_AT_THE_END.lock().unwrap().is_empty());
        drop(seldom);
        assert_eq!(*TOLD_AT_THE_END.lock().unwrap(), [("a".to_owned(), 2)]);
    }
}
