//! Which versions the status page lists, by what somebody looks for, and a page of them.

use asat_core::query::{Filter, Search};
use asat_core::{Problem, StoreName};
use jiff::Timestamp;
use serde::Deserialize;

use super::super::{Face, cursor, extract};
use super::timeline::{self, Day};
use super::{encoded, given, version};

/// How many versions stand on one page.
const MOST_VERSIONS: usize = 30;

/// What the address of the page says. The fields of a form that were left empty say nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParameters {
    /// Only this store's.
    store: Option<String>,
    /// Only those whose label has this in it.
    label: Option<String>,
    /// Only those that somebody with this in the name vouches for.
    person: Option<String>,
    /// Only those of this day.
    day: Option<String>,
    /// Where to go on.
    cursor: Option<String>,
}

/// What somebody looks for.
pub(super) struct Wanted {
    pub(super) store: Option<StoreName>,
    pub(super) label: String,
    pub(super) person: String,
    pub(super) day: String,
    search: Option<Search>,
}

/// A page of the versions that are wanted.
pub(super) struct History {
    pub(super) days: Vec<Day>,
    pub(super) is_newest: bool,
    pub(super) newest_href: String,
    pub(super) older_href: Option<String>,
}

impl Wanted {
    /// What is looked for, and where to go on.
    ///
    /// # Errors
    /// If a name or a day cannot be read.
    pub(super) fn read(parameters: ListParameters) -> Result<(Self, Option<String>), Problem> {
        let ListParameters { store, label, person, day, cursor } = parameters;
        let (store, label, person, day) = (given(store), given(label), given(person), given(day));
        let search = Search {
            label: label.clone(),
            person: person.clone(),
            day: day.as_deref().map(extract::business_date).transpose()?,
        };
        let wanted = Self {
            store: store.as_deref().map(extract::store).transpose()?,
            label: label.unwrap_or_default(),
            person: person.unwrap_or_default(),
            day: day.unwrap_or_default(),
            search: Some(search).filter(|search| *search != Search::default()),
        };
        Ok((wanted, cursor))
    }

    /// Whether it is a store's versions, or all of them, and nothing of what was said of them counts.
    pub(super) fn is_search(&self) -> bool {
        self.search.is_some()
    }

    /// The store by its name; empty for all.
    pub(super) fn store_name(&self) -> &str {
        self.store.as_ref().map(StoreName::as_str).unwrap_or_default()
    }

    /// Where all versions of the same store are.
    pub(super) fn all_href(&self) -> String {
        match &self.store {
            Some(store) => format!("/?store={}#versions", encoded(store.as_str())),
            None => "/#versions".to_owned(),
        }
    }

    fn filter(&self) -> Filter {
        Filter { store: self.store.clone(), search: self.search.clone(), ..Filter::default() }
    }

    /// The same as the beginning of an address's query.
    fn query(&self) -> String {
        let said = [
            ("store", self.store_name()),
            ("label", &self.label),
            ("person", &self.person),
            ("day", &self.day),
        ];
        let said = said.into_iter().filter(|(_, text)| !text.is_empty());
        said.map(|(name, text)| format!("{name}={}&", encoded(text))).collect()
    }
}

impl History {
    /// The versions from a place on.
    ///
    /// # Errors
    /// If there is no such store, or the place is none of this list.
    pub(super) fn read(
        face: &Face,
        wanted: &Wanted,
        from: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let (filter, query) = (wanted.filter(), wanted.query());
        let after = from.map(|text| cursor::read(text, &filter)).transpose()?;
        let engine = face.handle.engine();
        let register = engine.register();
        let (entries, next) = register.list(&filter, after.as_ref(), MOST_VERSIONS)?;
        let before: Vec<_> =
            entries.iter().map(|entry| version::before(register, &entry.version.id)).collect();
        let written = entries.into_iter().map(|entry| face.found(register, entry, &filter));
        let mut days = timeline::days(written.collect(), now);
        // The engine is not held while what is known is read from the disk.
        drop(engine);
        for (item, pair) in days.iter_mut().flat_map(Day::versions_mut).zip(before) {
            item.changed = pair.and_then(|(before, id)| version::known(&face.comparisons, &before, &id));
        }
        Ok(Self {
            days,
            is_newest: after.is_none(),
            newest_href: format!("/?{}#versions", query.trim_end_matches('&')),
            older_href: next.map(|place| {
                format!("/?{query}cursor={}#versions", encoded(&cursor::write(&place, &filter)))
            }),
        })
    }
}
