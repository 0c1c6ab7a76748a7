//! A store with its versions, and a version with its publications.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use super::Digest;
use super::versions::Versions;
use crate::harm::{Harm, Lost};
use crate::labels::folded;
use crate::nearest::choose;
use crate::version::{Attributes, Publication, State, Store, Tag, Version};
use crate::{Code, Problem, TagName};

/// A store with all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The store.
    pub store: Store,
    /// Its versions by number.
    pub versions: Versions,
    /// Its tags by name.
    pub tags: BTreeMap<TagName, Tag>,
    /// For each label, folded, the first publication that has it.
    labels: HashMap<Digest, u64>,
    /// The versions that are lost.
    lost: BTreeSet<u64>,
    /// Those of which something is to be done by and by, which are few however long the history is.
    moving: BTreeSet<u64>,
}

/// A version with its publications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The version.
    pub version: Version,
    /// Its publications, oldest first.
    pub publications: Vec<Publication>,
    /// If there are several, the newest that says just this.
    said: HashMap<Attributes, u64>,
    /// The place of the one that people know the version by.
    known_by: Option<usize>,
}

impl Entry {
    pub(super) fn new(version: Version) -> Self {
        Self { version, publications: Vec::new(), said: HashMap::new(), known_by: None }
    }

    /// The same with another value of the version.
    #[must_use]
    pub fn with(&self, version: Version) -> Self {
        Self { version, ..self.clone() }
    }

    /// Adds a publication, which is newer than the others.
    pub(super) fn publish(&mut self, publication: Publication) {
        match self.publications.first() {
            Some(first) => {
                if self.said.is_empty() {
                    self.said.insert(first.attributes.clone(), first.number);
                }
                self.said.insert(publication.attributes.clone(), publication.number);
            }
            None => self.publications.reserve_exact(1),
        }
        let known_by = self.known_by().map(rank);
        if known_by.is_none_or(|known| rank(&publication) >= known) {
            self.known_by = Some(self.publications.len());
        }
        self.publications.push(publication);
    }

    /// The publication that people know the version by: the newest that somebody certified, or else that has a label, or else the newest. Also
    /// what nobody certified is published, as before a restore.
    #[must_use]
    pub fn known_by(&self) -> Option<&Publication> {
        self.publications.get(self.known_by?)
    }

    /// The publication of this number, if it is one of these.
    pub(super) fn publication(&self, number: u64) -> Option<&Publication> {
        self.publication_and_before(number).map(|(publication, _)| publication)
    }

    /// The publication of this number, if it is one of these, with those before it.
    #[must_use]
    pub fn publication_and_before(&self, number: u64) -> Option<(&Publication, &[Publication])> {
        let place = self.publications.binary_search_by_key(&number, |publication| publication.number).ok()?;
        Some((self.publications.get(place)?, self.publications.get(..place)?))
    }

    /// The newest publication that says just this.
    #[must_use]
    pub fn said(&self, attributes: &Attributes) -> Option<u64> {
        match self.publications.as_slice() {
            [only] => (only.attributes == *attributes).then_some(only.number),
            _ => self.said.get(attributes).copied(),
        }
    }
}

/// How well a publication says what a version is, beside others of the same version.
fn rank(publication: &Publication) -> u8 {
    match &publication.attributes {
        Attributes { certified_by: Some(_), .. } => 2,
        Attributes { label: Some(_), .. } => 1,
        _ => 0,
    }
}

impl History {
    pub(super) fn new(store: Store) -> Self {
        Self {
            versions: Versions::new(store.name.clone()),
            store,
            tags: BTreeMap::new(),
            labels: HashMap::new(),
            lost: BTreeSet::new(),
            moving: BTreeSet::new(),
        }
    }

    /// The first publication with this label, however that is written.
    #[must_use]
    pub fn labelled(&self, label: &str) -> Option<u64> {
        self.labels.get(&Digest::of(&folded(label))).copied()
    }

    pub(super) fn label(&mut self, label: Digest, publication: u64) {
        let first = self.labels.entry(label).or_insert(publication);
        *first = publication.min(*first);
    }

    /// Records a version's value; answers the one before.
    pub(super) fn put(&mut self, version: Version) -> Option<Version> {
        let number = version.id.number;
        match version.state {
            State::Lost => self.lost.insert(number),
            _ => self.lost.remove(&number),
        };
        match version.is_at_rest() {
            true => self.moving.remove(&number),
            false => self.moving.insert(number),
        };
        self.versions.put(version)
    }

    /// Takes a version out.
    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        self.lost.remove(&number);
        self.moving.remove(&number);
        self.versions.remove(number)
    }

    /// A tag by its name.
    ///
    /// # Errors
    /// [`Code::UnknownTag`], naming the tags that there are.
    pub fn tag(&self, name: &TagName) -> Result<&Tag, Problem> {
        self.tags.get(name).ok_or_else(|| {
            let hint = match self.tags.len() {
                0 => "no version of it has a tag".to_owned(),
                _ => choose("its tags are", name.as_str(), self.tags.keys().map(TagName::as_str)),
            };
            Problem::new(Code::UnknownTag, format!("store {} has no tag {name}", self.store.name), hint)
        })
    }

    /// The tags that lead to a version.
    pub fn tags_on(&self, number: u64) -> impl Iterator<Item = &Tag> {
        self.tags.values().filter(move |tag| tag.version.number == number)
    }

    /// The versions that are lost, oldest first.
    pub fn lost(&self) -> impl Iterator<Item = &Version> {
        self.lost.iter().filter_map(|number| self.versions.get(*number)).map(|entry| &entry.version)
    }

    /// The versions that are not at rest, oldest first.
    pub fn moving(&self) -> impl Iterator<Item = &Version> {
        self.moving.iter().filter_map(|number| self.versions.get(*number)).map(|entry| &entry.version)
    }

    /// What of the store is lost or damaged.
    #[must_use]
    pub fn harm(&self) -> Harm {
        let newest = self.lost().max_by_key(|version| version.end.as_ref().map(|end| end.at));
        let lost = newest.map(|version| Lost {
            newest: version.id.clone(),
            reason: version.end.as_ref().map(|end| end.reason.clone()).unwrap_or_default(),
            count: self.lost.len(),
        });
        Harm { store: self.store.name.clone(), lost, damage: self.store.damage.clone() }
    }

    /// The newest version that can be read.
    #[must_use]
    pub fn newest_readable(&self) -> Option<&Entry> {
        self.newest(|state| state == State::Ready)
    }

    /// The newest version that was cut, whatever became of it.
    #[must_use]
    pub fn newest_cut(&self) -> Option<&Entry> {
        self.newest(|state| !matches!(state, State::Cutting | State::Failed))
    }

    fn newest(&self, wanted: impl Fn(State) -> bool) -> Option<&Entry> {
        let found = self.versions.headlines().rev().find(|headline| wanted(headline.state))?;
        self.versions.get(found.number)
    }

    /// The instant of the last cut: the next one lies after it, whatever the machine's clock says. A version that was
    /// there already has been what the store was at the instant of its set, too.
    #[must_use]
    pub fn last_cut(&self) -> Option<Timestamp> {
        let newest = self.versions.headlines().rev().find(|headline| headline.is_dated)?;
        let publications = self.versions.get(newest.number).into_iter().flat_map(|entry| &entry.publications);
        let of_sets = publications.filter_map(|publication| publication.of_set.as_ref());
        of_sets.map(|of_set| of_set.cut_at).chain([newest.listed_at]).max()
    }

    /// When it was last published, by whichever of its versions.
    #[must_use]
    pub fn published_at(&self) -> Option<Timestamp> {
        self.versions.headlines().filter_map(|headline| headline.published_at).max()
    }

    /// The number that the next version gets.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.versions.next_number()
    }
}
