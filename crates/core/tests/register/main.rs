//! A register that keeps what is at rest as bytes says what one says that does not: random histories, every question.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use asat_core::check::CheckResult;
use asat_core::event::Change;
use asat_core::query::{Filter, Position};
use asat_core::register::{Entry, Register, SPAN};
use asat_core::snapshot::{Cost, Hold};
use asat_core::version::{
    Attributes, Content, End, Holding, Pin, Publication, SetPublication, State, Store, Version,
};
use asat_core::{Fingerprint, PageSize, StoreName, VersionId};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// So many versions are published, each with so many publications.
    Publish { versions: u64, publications: u64 },
    /// One is published again.
    Again(Index),
    /// One is given up, or lost, or pinned, or is as it was.
    Becomes(Index, State, bool),
    /// What is at rest is packed.
    Pack,
    /// What was unpacked to be read is freed.
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop::sample::select(vec![State::Ready, State::Retired, State::Lost, State::Failed]);
    prop_oneof![
        3 => (1..200_u64, 0..3_u64).prop_map(|(versions, publications)| Step::Publish { versions, publications }),
        2 => any::<Index>().prop_map(Step::Again),
        3 => (any::<Index>(), state, any::<bool>()).prop_map(|(of, state, pinned)| Step::Becomes(of, state, pinned)),
        4 => Just(Step::Pack),
        1 => Just(Step::Free),
    ]
}

/// Two registers that have taken in the same, of which one packs.
struct Twins {
    packing: Register,
    plain: Register,
    packed: usize,
}

fn report() -> StoreName {
    "report".parse().unwrap()
}

fn at(number: u64) -> Timestamp {
    Timestamp::new(1_700_000_000 + i64::try_from(number).unwrap() * 61, 7000).unwrap()
}

fn version(number: u64, state: State, pinned: bool) -> Version {
    let id = VersionId { store: report(), number };
    let content = Content {
        cut_at: at(number),
        fingerprint: Some(Fingerprint::of_model(u128::from(number))),
        page_size: PageSize::new(4096).unwrap(),
        page_count: u32::try_from(number * 3).unwrap(),
        wal: number.is_multiple_of(2),
    };
    let end = End { at: at(number + 5), reason: format!("reason {number}"), purge_after: None };
    let pin = Pin { reason: "audit".into(), owner: None, set_at: at(number), expires_at: None, hot: false };
    Version {
        id,
        state,
        begun_at: at(number) - jiff::SignedDuration::from_nanos(1),
        content: (state != State::Failed).then_some(content),
        holdings: vec![Holding::Archive { bytes: number * 100 }; usize::from(state == State::Ready)],
        copy: None,
        pin: pinned.then(|| Box::new(pin)),
        end: (state != State::Ready).then(|| Box::new(end)),
    }
}

/// Publications say much or little.
fn publication(number: u64, version: u64) -> Publication {
    let says =
        |nth: u64, text: &str| (!number.is_multiple_of(nth)).then(|| format!("{text} {}", number % 50));
    let ratio = f64::from(u32::try_from(number).unwrap()) * 9.937242460346578e-5;
    let free = [("kind".to_owned(), json!(number % 3)), ("ratio".to_owned(), json!(ratio))];
    let check = CheckResult { name: "rows".into(), passed: true, found: "7".into(), took_us: number };
    Publication {
        number,
        version: VersionId { store: report(), number: version },
        at: at(number),
        attributes: Attributes {
            label: says(3, "Größe"),
            certified_by: says(4, "ann"),
            business_date: number
                .is_multiple_of(5)
                .then(|| at(number).to_zoned(jiff::tz::TimeZone::UTC).date()),
            note: says(7, "note\n"),
            free: free.into_iter().take(usize::try_from(number % 3).unwrap()).collect(),
        },
        key: says(2, &format!("key {number}")),
        of_set: number
            .is_multiple_of(11)
            .then(|| SetPublication { set: "all".parse().unwrap(), cut_at: at(number) }),
        reused: number.is_multiple_of(6),
        cost: Cost {
            writer_blocked_us: number,
            hold: Hold::ALL[usize::try_from(number % 5).unwrap()],
            snapshot_us: 3,
        },
        elapsed_us: u64::MAX - number,
        checks: vec![check; usize::try_from(number % 3).unwrap()],
    }
}

impl Twins {
    fn new() -> Self {
        let mut twins = Self { packing: Register::default(), plain: Register::default(), packed: 0 };
        let store = Store { name: report(), path: "/report.db".into(), added_at: at(0), damage: None };
        twins.both(&Change::Store(store));
        twins
    }

    fn both(&mut self, change: &Change) {
        self.packing.evolve(change);
        self.plain.evolve(change);
    }

    fn count(&self) -> u64 {
        self.plain.history(&report()).unwrap().next_number() - 1
    }

    fn publish(&mut self, version: u64) {
        self.both(&Change::Published(publication(self.plain.next_publication(), version)));
    }

    fn take(&mut self, step: &Step) {
        let some =
            |of: &Index, count: u64| 1 + u64::try_from(of.index(usize::try_from(count).unwrap())).unwrap();
        match step {
            Step::Publish { versions, publications } => {
                for _ in 0..*versions {
                    let number = self.count() + 1;
                    self.both(&Change::Version(Box::new(version(number, State::Ready, false))));
                    (0..*publications).for_each(|_| self.publish(number));
                }
            }
            Step::Again(of) if self.count() > 0 => self.publish(some(of, self.count())),
            Step::Becomes(of, state, pinned) if self.count() > 0 => {
                let number = some(of, self.count());
                self.both(&Change::Version(Box::new(version(number, *state, *pinned))));
            }
            Step::Again(_) | Step::Becomes(..) => {}
            Step::Pack => {
                let chunks: Vec<Change> = self.packing.to_be_packed().map(Change::Packed).collect();
                self.packed += chunks.len();
                chunks.iter().for_each(|chunk| self.packing.evolve(chunk));
                assert_eq!(self.packing.to_be_packed().count(), 0);
            }
            Step::Free => self.packing.free_unpacked(),
        }
    }

    /// Both answer the same, whatever is asked first.
    fn compare(&self, place: u64) {
        let history = |register: &Register| register.history(&report()).unwrap().clone();
        let (packing, plain) = (history(&self.packing), history(&self.plain));
        let headlines = packing.versions.headlines().collect::<Vec<_>>();
        assert_eq!(headlines, plain.versions.headlines().collect::<Vec<_>>());
        for filter in filters() {
            let list = |after: Option<&Position>| self.packing.list(&filter, after, 40).unwrap();
            let (first, next) = list(None);
            assert_eq!((first, next.clone()), self.plain.list(&filter, None, 40).unwrap());
            assert_eq!(list(next.as_ref()), self.plain.list(&filter, next.as_ref(), 40).unwrap());
        }
        let id = VersionId { store: report(), number: place };
        assert_eq!(self.packing.entry(&id), self.plain.entry(&id));
        assert_eq!(packing.last_cut(), plain.last_cut());
        assert_eq!(packing.newest_readable(), plain.newest_readable());
        assert_eq!(packing.newest_cut(), plain.newest_cut());
        assert_eq!(packing.labelled("GRÖSSE 7"), plain.labelled("größe 7"));
        assert_eq!(self.packing.publication_by_key("key 7 7"), self.plain.publication_by_key("key 7 7"));
        assert_eq!(self.packing.publication(place), self.plain.publication(place));
        assert_eq!(self.packing.as_of(&report(), at(place)), self.plain.as_of(&report(), at(place)));
        let day = at(place).to_zoned(jiff::tz::TimeZone::UTC).date();
        let of_day = |register: &Register| register.as_of_business_date(&report(), day).cloned();
        assert_eq!(of_day(&self.packing), of_day(&self.plain));
        fn some(history: &asat_core::register::History, place: u64) -> Vec<&Entry> {
            history
                .versions
                .range(place..)
                .take(3)
                .chain(history.versions.range(..=place).rev().take(3))
                .collect()
        }
        assert_eq!(some(&packing, place), some(&plain, place));
        assert!(self.packing == self.plain);
        assert!(self.packing.publications().eq(self.plain.publications()));
    }
}

fn filters() -> Vec<Filter> {
    let all = Filter { states: Some(State::ALL.to_vec()), ..Filter::default() };
    vec![
        Filter::default(),
        Filter { label: Some("Größe 8".into()), ..all.clone() },
        Filter { certified_by: Some("ann 9".into()), ..Filter::default() },
        Filter { attribute: Some(("kind".into(), "1".into())), ..Filter::default() },
        Filter { from: Some(at(20)), to: Some(at(300)), ..all.clone() },
        all,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_packed_says_the_same(steps in prop::collection::vec(step(), 1..25), place in 0..2000_u64) {
        let mut twins = Twins::new();
        for step in &steps {
            twins.take(step);
        }
        twins.compare(place);
    }

    #[test]
    fn bytes_that_are_no_chunk_are_refused_or_read_without_a_panic(
        flips in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        length in any::<Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut twins = Twins::new();
        twins.take(&Step::Publish { versions: 3 * SPAN, publications: 2 });
        let mut bytes = twins.plain.packed(&report(), 1).unwrap().to_vec();
        for (place, by) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= by;
        }
        if is_cut {
            bytes.truncate(length.index(bytes.len()));
        }
        if twins.packing.put_chunk(&report(), 1, bytes.into()) {
            let history = twins.packing.history(&report()).unwrap();
            prop_assert!(history.versions.values().count() <= history.versions.len());
        }
    }
}

#[test]
fn a_long_history_is_packed_but_for_its_end() {
    let mut twins = Twins::new();
    twins.take(&Step::Publish { versions: 10 * SPAN, publications: 1 });
    twins.take(&Step::Pack);
    // The first chunk begins with number 1, and the last two are left.
    assert_eq!(twins.packed, 9);
    twins.compare(5 * SPAN);
    // A version that changes is packed again when it is at rest again.
    twins.both(&Change::Version(Box::new(version(5 * SPAN, State::Ready, true))));
    twins.take(&Step::Pack);
    assert_eq!(twins.packed, 9);
    twins.both(&Change::Version(Box::new(version(5 * SPAN, State::Ready, false))));
    twins.take(&Step::Pack);
    assert_eq!(twins.packed, 10);
    twins.compare(7);
    assert!(!twins.packing.put_chunk(&report(), 3, twins.plain.packed(&report(), 2).unwrap()));
    assert!(!twins.packing.put_chunk(
        &"other".parse().unwrap(),
        2,
        twins.plain.packed(&report(), 2).unwrap()
    ));
}
