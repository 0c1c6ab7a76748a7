//! Questions to the register: lists, and the version as of an instant.

use std::ops::Bound::{Excluded, Unbounded};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::labels::folded;
use crate::register::{Entry, Headline, History, Register};
use crate::version::{Publication, State, Version, plain};
use crate::{Code, Problem, SetName, StoreName, VersionId};

/// Which versions a list has. Everything that is left out does not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this store's.
    pub store: Option<StoreName>,
    /// Only those with a publication of this label. Where more is said of publications, one must be all of it.
    pub label: Option<String>,
    /// Only those with a publication that this person vouches for.
    pub certified_by: Option<String>,
    /// Only those with a publication that stands for this day.
    pub business_date: Option<Date>,
    /// Only those with a publication of this note.
    pub note: Option<String>,
    /// Only those with a publication that has an attribute of this name with this value, as [`plain`] writes it.
    pub attribute: Option<(String, String)>,
    /// Only those with a publication of this set.
    pub set: Option<SetName>,
    /// Only those with the publication of a set of this instant.
    pub set_cut_at: Option<Timestamp>,
    /// Only those cut at or after this instant.
    pub from: Option<Timestamp>,
    /// Only those cut at or before this instant.
    pub to: Option<Timestamp>,
    /// Only those that somebody looks for by some of what was said of them.
    pub search: Option<Search>,
    /// Only those in one of these states; by default those that were acknowledged and not given up.
    pub states: Option<Vec<State>>,
}

/// What somebody remembers of a version. One publication must have all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A part of the label, however it is written.
    pub label: Option<String>,
    /// A part of the name of the person who vouches for it.
    pub person: Option<String>,
    /// The day for which it stands, or on which it was published, in UTC.
    pub day: Option<Date>,
}

impl Search {
    fn finds(&self, publication: &Publication) -> bool {
        let said = &publication.attributes;
        let has = |text: &Option<String>, part: &Option<String>| {
            part.as_ref()
                .is_none_or(|part| text.as_ref().is_some_and(|text| folded(text).contains(&folded(part))))
        };
        let is_of = |day: Date| {
            said.business_date == Some(day) || TimeZone::UTC.to_datetime(publication.at).date() == day
        };
        has(&said.label, &self.label) && has(&said.certified_by, &self.person) && self.day.is_none_or(is_of)
    }
}

/// A place in a list, newest first: the last version that was seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Its cut instant, or when it was begun where it has none.
    pub at: Timestamp,
    /// Its name.
    pub id: VersionId,
}

impl Filter {
    /// The states that a list shows when nobody says which.
    pub const DEFAULT_STATES: [State; 2] = [State::Ready, State::Lost];

    /// Whether a version is in the list. It is unpacked only if its headline does not decide that.
    fn matches(&self, history: &History, headline: &Headline) -> bool {
        let states = self.states.as_deref().unwrap_or(&Self::DEFAULT_STATES);
        let at = headline.listed_at;
        let is_said =
            |entry: &Entry| entry.publications.iter().any(|publication| self.is_said_of(publication));
        states.contains(&headline.state)
            && self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at <= to)
            && (self.says_nothing() || history.versions.get(headline.number).is_some_and(is_said))
    }

    /// Whether it leaves open what publications are like.
    fn says_nothing(&self) -> bool {
        self.label.is_none()
            && self.certified_by.is_none()
            && self.business_date.is_none()
            && self.note.is_none()
            && self.attribute.is_none()
            && self.set.is_none()
            && self.set_cut_at.is_none()
            && self.search.is_none()
    }

    /// The newest publication of a version that is asked for; nothing if the filter leaves open what publications are like.
    #[must_use]
    pub fn found<'a>(&self, entry: &'a Entry) -> Option<&'a Publication> {
        let newest = || entry.publications.iter().rev();
        if self.says_nothing() { None } else { newest().find(|publication| self.is_said_of(publication)) }
    }

    fn is_said_of(&self, publication: &Publication) -> bool {
        let (said, of_set) = (&publication.attributes, publication.of_set.as_ref());
        (self.label.is_none() || said.label == self.label)
            && (self.certified_by.is_none() || said.certified_by == self.certified_by)
            && (self.business_date.is_none() || said.business_date == self.business_date)
            && (self.note.is_none() || said.note == self.note)
            && self.search.as_ref().is_none_or(|search| search.finds(publication))
            && self.set.as_ref().is_none_or(|set| of_set.is_some_and(|of_set| of_set.set == *set))
            && self.set_cut_at.is_none_or(|at| of_set.is_some_and(|of_set| of_set.cut_at == at))
            && self
                .attribute
                .as_ref()
                .is_none_or(|(name, value)| said.free.get(name).is_some_and(|found| plain(found) == *value))
    }
}

impl Entry {
    /// The entry's place in a list.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { at: self.version.listed_at(), id: self.version.id.clone() }
    }
}

impl Register {
    /// Up to `limit` versions after a place, newest first, and the place to go on from where there are more.
    ///
    /// # Errors
    /// [`Code::UnknownStore`].
    pub fn list(
        &self,
        filter: &Filter,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<(Vec<&Entry>, Option<Position>), Problem> {
        let histories: Vec<&History> = match &filter.store {
            Some(name) => vec![self.history(name)?],
            None => self.stores().collect(),
        };
        let all = histories.into_iter().flat_map(|history| {
            history.versions.headlines().map(move |headline| (headline.listed_at, history, headline))
        });
        fn order<'a>(
            (at, history, headline): &(Timestamp, &'a History, &Headline),
        ) -> (Timestamp, &'a str, u64) {
            (*at, history.store.name.as_str(), headline.number)
        }
        let mut found: Vec<_> = all
            .filter(|one| {
                after.is_none_or(|place| order(one) < (place.at, place.id.store.as_str(), place.id.number))
            })
            .filter(|(_, history, headline)| filter.matches(history, headline))
            .collect();
        found.sort_unstable_by(|one, other| order(other).cmp(&order(one)));
        let more = found.len() > limit;
        found.truncate(limit);
        let entries =
            found.into_iter().filter_map(|(_, history, headline)| history.versions.get(headline.number));
        let found: Vec<&Entry> = entries.collect();
        let next = if more { found.last().map(|entry| entry.position()) } else { None };
        Ok((found, next))
    }

    /// The store that is meant where a request names none.
    ///
    /// # Errors
    /// [`Code::Invalid`] where there is not exactly one store.
    pub fn only_store(&self) -> Result<&History, Problem> {
        let mut stores = self.stores();
        match (stores.next(), stores.next()) {
            (Some(history), None) => Ok(history),
            (None, _) => {
                let detail = "the request names no store, and there is none";
                Err(Problem::new(Code::Invalid, detail, "add a [[store]] to the configuration, and restart"))
            }
            _ => {
                let names: Vec<&str> = self.stores().map(|h| h.store.name.as_str()).take(20).collect();
                let detail = "the request names no store, and there is not exactly one";
                Err(Problem::new(Code::Invalid, detail, format!("name one of: {}", names.join(", "))))
            }
        }
    }

    /// The newest version of a store that was cut at or before an instant.
    ///
    /// # Errors
    /// [`Code::BeforeFirst`] where the instant lies before the first version, [`Code::Retired`] or
    /// [`Code::NotReadable`] where the version of that moment is gone, or may be one that is gone and of which it is not
    /// known when it was cut: an older one would be other data.
    pub fn as_of(&self, store: &StoreName, at: Timestamp) -> Result<&Entry, Problem> {
        let history = self.history(store)?;
        let cuts = || history.versions.headlines().filter(|headline| headline.is_dated);
        let found = cuts().rev().find(|headline| headline.listed_at <= at);
        let after = (found.map_or(Unbounded, |headline| Excluded(headline.number)), Unbounded);
        let next = history.versions.range(after).map(|entry| &entry.version);
        next.take_while(|version| version.content.is_none()).try_for_each(check_undated)?;
        let Some(entry) = found.and_then(|headline| history.versions.get(headline.number)) else {
            let hint = match cuts().next() {
                Some(first) => format!("the first is {store}@{}, cut at {}", first.number, first.listed_at),
                None => "nothing was published yet".to_owned(),
            };
            let detail = format!("store {store} has no version cut at or before {at}");
            return Err(Problem::new(Code::BeforeFirst, detail, hint));
        };
        entry.version.check_readable().map_err(|problem| {
            let readable = |headline: &&Headline| headline.state == State::Ready;
            let older = cuts().rev().filter(readable).find(|other| other.listed_at <= at);
            let newer = cuts().filter(readable).find(|other| other.listed_at > at);
            let near: Vec<String> = older
                .into_iter()
                .chain(newer)
                .map(|near| format!("{store}@{} cut at {}", near.number, near.listed_at))
                .collect();
            if near.is_empty() {
                return problem;
            }
            Problem { hint: format!("kept nearby: {}", near.join(", ")), ..problem }
        })?;
        Ok(entry)
    }
}

impl Register {
    /// The version of a store that stood for a business day: of all publications for that day, or else for the last day before
    /// it, the one that was made last.
    ///
    /// # Errors
    /// [`Code::BeforeFirst`] where no publication stands for that day or one before it, [`Code::Retired`] or
    /// [`Code::NotReadable`] where its version is gone: another one would be other data.
    pub fn as_of_business_date(&self, store: &StoreName, date: Date) -> Result<&Entry, Problem> {
        let history = self.history(store)?;
        let dated =
            |publication: &Publication| Some((publication.attributes.business_date?, publication.number));
        let last =
            |entry: &Entry| entry.publications.iter().filter_map(dated).filter(|(day, _)| *day <= date).max();
        let found = history.versions.values().filter_map(|entry| Some((last(entry)?, entry)));
        let Some((_, entry)) = found.max_by_key(|(last, _)| *last) else {
            let detail = format!("no publication of {store} stands for {date} or a day before it");
            return Err(Problem::new(Code::BeforeFirst, detail, "give publications a business_date"));
        };
        entry.version.check_readable()?;
        Ok(entry)
    }
}

/// Refuses a moment that may be that of a version which is gone, and of which not even the instant is left.
fn check_undated(version: &Version) -> Result<(), Problem> {
    if matches!(version.state, State::Cutting | State::Failed) {
        return Ok(());
    }
    version.check_readable().map_err(|problem| {
        let detail =
            format!("{}; when it was cut is not known, and it may be the one of that moment", problem.detail);
        Problem { detail, ..problem }
    })
}

impl Version {
    /// Whether the version's data can be had.
    ///
    /// # Errors
    /// [`Code::Retired`] or [`Code::NotReadable`], with when and why.
    pub fn check_readable(&self) -> Result<(), Problem> {
        let id = &self.id;
        let why = match &self.end {
            Some(end) => format!(" at {}: {}", end.at, end.reason),
            None => String::new(),
        };
        let (code, detail, hint) = match self.state {
            State::Ready => return Ok(()),
            State::Retiring | State::Retired => {
                let hint = match self.grace() {
                    Some(until) => format!("until {until:.6} it can be brought back: asat unretire {id}"),
                    None => format!("asat ls {} lists the versions that are kept", id.store),
                };
                return Err(Problem::new(Code::Retired, format!("version {id} was retired{why}"), hint));
            }
            State::Cutting => (
                Code::NotReadable,
                format!("version {id} is still being made"),
                "try again when it is acknowledged",
            ),
            State::Failed => (Code::NotReadable, format!("version {id} failed{why}"), "publish again"),
            State::Lost => (
                Code::NotReadable,
                format!("version {id} was lost{why}"),
                "bring the missing files back and restart the daemon",
            ),
        };
        Err(Problem::new(code, detail, hint))
    }
}
