//! The register: every record in memory, as the catalogue has it.
//!
//! It is the fold of all changes. The catalogue gives its rows back as changes too, so that what was loaded
//! and what was lived are the same thing.

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use crate::clock::Anchor;
use crate::event::{Change, EffectId, Intent};
use crate::harm::{Harm, Lost};
use crate::labels::folded;
use crate::numbered::Numbered;
use crate::version::{Attributes, Lease, LeaseId, Publication, State, Store, Tag, Version};
use crate::{Code, Problem, StoreName, TagName, VersionId, VersionRef};

/// All records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    stores: BTreeMap<StoreName, History>,
    publications: Numbered<Publication>,
    keys: HashMap<Box<str>, u64>,
    leases: BTreeMap<LeaseId, Lease>,
    intents: BTreeMap<EffectId, Intent>,
    next_effect: u64,
    /// The versions in their grace, by when it is over.
    graces: BTreeSet<(Timestamp, VersionId)>,
    /// What was believed of the machine's clock last.
    clock: Option<Anchor>,
}

/// A store with all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The store.
    pub store: Store,
    /// Its versions by number.
    pub versions: Numbered<Entry>,
    /// Its tags by name.
    pub tags: BTreeMap<TagName, Tag>,
    /// For each label, folded, the first publication that has it.
    labels: HashMap<Box<str>, u64>,
    /// For each version with several publications, the newest that says just this. Where there is only one, it is asked itself.
    said: HashMap<u64, HashMap<Attributes, u64>>,
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
    /// The numbers of its publications, oldest first.
    pub publications: Vec<u64>,
}

impl Register {
    /// Takes a change in.
    pub fn evolve(&mut self, change: &Change) {
        match change {
            // The trail is read where it is kept.
            Change::Noted(_) => {}
            change => self.take_in(change.clone()),
        }
    }

    /// Takes a change in that nobody else needs.
    pub fn take_in(&mut self, change: Change) {
        match change {
            Change::Store(store) => match self.stores.entry(store.name.clone()) {
                Occupied(mut history) => history.get_mut().store = store,
                Vacant(place) => _ = place.insert(History::new(store)),
            },
            Change::Version(version) => self.put_version(*version),
            Change::Discarded(id) => {
                if let Some(history) = self.stores.get_mut(&id.store) {
                    history.lost.remove(&id.number);
                    history.moving.remove(&id.number);
                    history.said.remove(&id.number);
                    let grace = history.versions.remove(id.number).and_then(|entry| entry.version.grace());
                    grace.into_iter().for_each(|until| _ = self.graces.remove(&(until, id.clone())));
                }
            }
            Change::Published(publication) => self.put_publication(publication),
            Change::Tagged(tag) => {
                if let Some(history) = self.stores.get_mut(&tag.version.store) {
                    history.tags.insert(tag.name.clone(), tag);
                }
            }
            Change::Untagged(store, name) => {
                if let Some(history) = self.stores.get_mut(&store) {
                    history.tags.remove(&name);
                }
            }
            Change::Lease(lease) => _ = self.leases.insert(lease.id.clone(), lease),
            Change::LeaseEnded(id) => _ = self.leases.remove(&id),
            Change::Intended(intent) => {
                self.next_effect = self.next_effect.max(intent.id.0 + 1);
                self.intents.insert(intent.id, intent);
            }
            Change::Concluded(id) => _ = self.intents.remove(&id),
            Change::Clock(anchor) => self.clock = Some(anchor),
            Change::Noted(_) => {}
        }
    }

    fn put_version(&mut self, mut version: Version) {
        let Some(history) = self.stores.get_mut(&version.id.store) else { return };
        version.id.store.clone_from(&history.store.name);
        let before = history.versions.get(version.id.number).and_then(|entry| entry.version.grace());
        if before != version.grace() {
            before.into_iter().for_each(|until| _ = self.graces.remove(&(until, version.id.clone())));
            self.graces.extend(version.grace().map(|until| (until, version.id.clone())));
        }
        match version.state {
            State::Lost => history.lost.insert(version.id.number),
            _ => history.lost.remove(&version.id.number),
        };
        match version.is_at_rest() {
            true => history.moving.remove(&version.id.number),
            false => history.moving.insert(version.id.number),
        };
        let number = version.id.number;
        match history.versions.get_mut(number) {
            Some(entry) => entry.version = version,
            None => history.versions.insert(number, Entry { version, publications: Vec::new() }),
        }
    }

    fn put_publication(&mut self, mut publication: Publication) {
        let Publication { number, version, key, attributes, .. } = &mut publication;
        if let Some(history) = self.stores.get_mut(&version.store) {
            version.store.clone_from(&history.store.name);
            if let Some(label) = &attributes.label {
                history.labels.entry(folded(label).into()).or_insert(*number);
            }
            if let Some(entry) = history.versions.get_mut(version.number) {
                let first = entry.publications.first().and_then(|first| self.publications.get(*first));
                if let Some(first) = first {
                    let said = history.said.entry(version.number);
                    let said =
                        said.or_insert_with(|| HashMap::from([(first.attributes.clone(), first.number)]));
                    said.insert(attributes.clone(), *number);
                } else {
                    entry.publications.reserve_exact(1);
                }
                entry.publications.push(*number);
            }
        }
        if let Some(key) = key {
            self.keys.insert(key.as_str().into(), *number);
        }
        self.publications.insert(publication.number, publication);
    }

    /// What was believed of the machine's clock last.
    #[must_use]
    pub fn clock(&self) -> Option<&Anchor> {
        self.clock.as_ref()
    }

    /// The versions in their grace and when it is over, that which is over first first.
    pub fn graces(&self) -> impl Iterator<Item = (Timestamp, &VersionId)> {
        self.graces.iter().map(|(until, id)| (*until, id))
    }

    /// Every store with its history, by name.
    pub fn stores(&self) -> impl Iterator<Item = &History> {
        self.stores.values()
    }

    /// What is lost or damaged, store by store; nothing is said of those that are whole.
    #[must_use]
    pub fn harms(&self) -> Vec<Harm> {
        let harms = self.stores().map(History::harm);
        harms.filter(|harm| harm.lost.is_some() || harm.damage.is_some()).collect()
    }

    /// One store's history.
    ///
    /// # Errors
    /// [`Code::UnknownStore`], naming the stores that there are.
    pub fn history(&self, name: &StoreName) -> Result<&History, Problem> {
        self.stores.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.stores.keys().map(StoreName::as_str).take(20).collect();
            Problem::new(
                Code::UnknownStore,
                format!("there is no store {name}"),
                format!("the stores are: {}", known.join(", ")),
            )
        })
    }

    /// One version by its name.
    ///
    /// # Errors
    /// [`Code::UnknownStore`] or [`Code::UnknownVersion`].
    pub fn entry(&self, id: &VersionId) -> Result<&Entry, Problem> {
        let history = self.history(&id.store)?;
        history.versions.get(id.number).ok_or_else(|| {
            let newest = history.newest_readable().map(|entry| entry.version.id.to_string());
            Problem::new(
                Code::UnknownVersion,
                format!("there is no version {id}"),
                newest.map_or_else(
                    || "nothing was published yet".to_owned(),
                    |id| format!("the newest is {id}"),
                ),
            )
        })
    }

    /// The version that a person means.
    ///
    /// # Errors
    /// As [`Register::entry`]; [`Code::UnknownVersion`] where nothing was published yet; [`Code::UnknownTag`].
    pub fn resolve(&self, wanted: &VersionRef) -> Result<&Entry, Problem> {
        match wanted {
            VersionRef::Exact(id) => self.entry(id),
            VersionRef::Tag(store, name) => {
                let history = self.history(store)?;
                self.entry(&history.tag(name)?.version)
            }
            VersionRef::Latest(store) => self.history(store)?.newest_readable().ok_or_else(|| {
                Problem::new(
                    Code::UnknownVersion,
                    format!("store {store} has no version that can be read"),
                    "publish one first",
                )
            }),
        }
    }

    /// A publication by its number.
    #[must_use]
    pub fn publication(&self, number: u64) -> Option<&Publication> {
        self.publications.get(number)
    }

    /// The newest publication of a version that says just this.
    #[must_use]
    pub fn said(&self, entry: &Entry, attributes: &Attributes) -> Option<u64> {
        let Entry { version: Version { id, .. }, publications } = entry;
        match self.stores.get(&id.store).and_then(|history| history.said.get(&id.number)) {
            Some(said) => said.get(attributes).copied(),
            None => {
                let first = publications.first().and_then(|number| self.publication(*number));
                first.filter(|first| first.attributes == *attributes).map(|first| first.number)
            }
        }
    }

    /// The publications that were recorded together with this one, which is the first of its set; only itself where it is of
    /// no set.
    pub fn publications_with(&self, number: u64) -> impl Iterator<Item = &Publication> {
        let first = self.publication(number);
        let together = move |other: &&Publication| {
            first.is_some_and(|first| {
                other.number == first.number || first.of_set.is_some() && other.of_set == first.of_set
            })
        };
        self.publications.range(number..).filter(together)
    }

    /// The instant of a store's last cut: the next one lies after it, whatever the machine's clock says. A version that was
    /// there already has been what the store was at the instant of its set, too.
    #[must_use]
    pub fn last_cut(&self, history: &History) -> Option<Timestamp> {
        let is_cut = |entry: &&Entry| entry.version.content.is_some();
        let newest = history.versions.values().rev().find(is_cut)?;
        let of_sets =
            newest.publications.iter().filter_map(|number| self.publication(*number)?.of_set.as_ref());
        of_sets.map(|of_set| of_set.cut_at).chain([newest.listed_at()]).max()
    }

    /// All publications, oldest first.
    pub fn publications(&self) -> impl DoubleEndedIterator<Item = &Publication> {
        self.publications.values()
    }

    /// The publication that was made with an idempotency key.
    #[must_use]
    pub fn publication_by_key(&self, key: &str) -> Option<&Publication> {
        self.keys.get(key).and_then(|number| self.publication(*number))
    }

    /// The value of the marker that watch mode has published last of a store.
    #[must_use]
    pub fn last_marker(&self, store: &StoreName) -> Option<&str> {
        let of_store = |publication: &&Publication| publication.version.store == *store;
        self.publications().rev().filter(of_store).find_map(|publication| publication.attributes.marker())
    }

    /// The number that the next publication gets.
    #[must_use]
    pub fn next_publication(&self) -> u64 {
        self.publications.next_number()
    }

    /// The name that the next effect gets.
    #[must_use]
    pub fn next_effect(&self) -> EffectId {
        EffectId(self.next_effect)
    }

    /// A lease by its name.
    #[must_use]
    pub fn lease(&self, id: &LeaseId) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// All leases.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// The leases on a version, expired ones included until they are swept.
    pub fn leases_on<'a>(&'a self, version: &'a VersionId) -> impl Iterator<Item = &'a Lease> {
        self.leases.values().filter(move |lease| lease.version == *version)
    }

    /// All open intents, oldest first.
    pub fn intents(&self) -> impl Iterator<Item = &Intent> {
        self.intents.values()
    }

    /// An open intent by its name.
    #[must_use]
    pub fn intent(&self, id: EffectId) -> Option<&Intent> {
        self.intents.get(&id)
    }
}

impl History {
    fn new(store: Store) -> Self {
        Self {
            store,
            versions: Numbered::default(),
            tags: BTreeMap::new(),
            labels: HashMap::new(),
            said: HashMap::new(),
            lost: BTreeSet::new(),
            moving: BTreeSet::new(),
        }
    }

    /// The first publication with this label, however that is written.
    #[must_use]
    pub fn labelled(&self, label: &str) -> Option<u64> {
        self.labels.get(folded(label).as_str()).copied()
    }

    /// A tag by its name.
    ///
    /// # Errors
    /// [`Code::UnknownTag`], naming the tags that there are.
    pub fn tag(&self, name: &TagName) -> Result<&Tag, Problem> {
        self.tags.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.tags.keys().map(TagName::as_str).take(20).collect();
            let hint = match known.as_slice() {
                [] => "no version of it has a tag".to_owned(),
                known => format!("its tags are: {}", known.join(", ")),
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
        self.versions.values().rev().find(|entry| entry.version.state == State::Ready)
    }

    /// The newest version that was cut, whatever became of it.
    #[must_use]
    pub fn newest_cut(&self) -> Option<&Entry> {
        let was_cut = |entry: &&Entry| !matches!(entry.version.state, State::Cutting | State::Failed);
        self.versions.values().rev().find(was_cut)
    }

    /// The number that the next version gets.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.versions.next_number()
    }
}
