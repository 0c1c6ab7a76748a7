//! The register: every record in memory, as the catalogue has it.
//!
//! It is the fold of all changes. The catalogue gives its rows back as changes too, so that what was loaded
//! and what was lived are the same thing. Versions at rest are kept as bytes, in chunks, so that a long history costs little.

mod bytes;
mod chunk;
mod digest;
mod history;
mod versions;

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::clock::Anchor;
use crate::event::{Change, EffectId, Intent};
use crate::harm::Harm;
use crate::nearest::choose;
use crate::version::{Lease, LeaseId, Publication, Version};
use crate::{Code, Problem, StoreName, VersionId, VersionRef};

use chunk::Indexed;
pub use chunk::{Chunk, Headline, SPAN};
use digest::Digest;
pub use history::{Entry, History};
pub use versions::Versions;

/// All records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    stores: BTreeMap<StoreName, History>,
    /// The version of each publication, by the publication's number.
    publications: BTreeMap<u64, VersionId>,
    /// For each idempotency key, the publication that was made with it.
    keys: HashMap<Digest, u64>,
    leases: BTreeMap<LeaseId, Lease>,
    intents: BTreeMap<EffectId, Intent>,
    next_effect: u64,
    /// The versions in their grace, by when it is over.
    graces: BTreeSet<(Timestamp, VersionId)>,
    /// What was believed of the machine's clock last.
    clock: Option<Anchor>,
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
                    let grace = history.remove(id.number).and_then(|entry| entry.version.grace());
                    grace.into_iter().for_each(|until| _ = self.graces.remove(&(until, id.clone())));
                }
            }
            Change::Published(publication) => self.put_publication(publication),
            Change::Packed(chunk) => _ = self.put_chunk(&chunk.store, chunk.number, chunk.packed),
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
        let (id, grace) = (version.id.clone(), version.grace());
        let before = history.put(version).and_then(|before| before.grace());
        if before != grace {
            before.into_iter().for_each(|until| _ = self.graces.remove(&(until, id.clone())));
            self.graces.extend(grace.map(|until| (until, id)));
        }
    }

    fn put_publication(&mut self, mut publication: Publication) {
        let Some(history) = self.stores.get_mut(&publication.version.store) else { return };
        let store = history.store.name.clone();
        publication.version.store.clone_from(&store);
        let indexed = Indexed::of(&publication);
        if history.versions.publish(publication) {
            self.index(&store, &indexed);
        }
    }

    /// Takes in a chunk of a store's history, in the place of what there is of its versions, which is the same. Says whether its bytes are
    /// those of a chunk.
    pub fn put_chunk(&mut self, store: &StoreName, number: u64, packed: Arc<[u8]>) -> bool {
        let Some(history) = self.stores.get_mut(store) else { return false };
        let store = history.store.name.clone();
        let Some(indexed) = history.versions.put_chunk(number, packed) else { return false };
        indexed.iter().for_each(|indexed| self.index(&store, indexed));
        true
    }

    fn index(&mut self, store: &StoreName, indexed: &Indexed) {
        let Indexed { number, version, label, key } = *indexed;
        if let (Some(label), Some(history)) = (label, self.stores.get_mut(store)) {
            history.label(label, number);
        }
        self.keys.extend(key.map(|key| (key, number)));
        self.publications.insert(number, VersionId { store: store.clone(), number: version });
    }

    /// The bytes of a chunk, if it has versions and all of them are at rest.
    #[must_use]
    pub fn packed(&self, store: &StoreName, number: u64) -> Option<Arc<[u8]>> {
        self.stores.get(store)?.versions.packed(number)
    }

    /// The chunks of all histories that can be kept as bytes from now on.
    pub fn to_be_packed(&self) -> impl Iterator<Item = Chunk> {
        self.stores().flat_map(|history| history.versions.to_be_packed())
    }

    /// Frees the versions that are unpacked only because somebody asked for them, if these are many.
    pub fn free_unpacked(&mut self) {
        self.stores.values_mut().for_each(|history| history.versions.free_unpacked());
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
            let hint = match self.stores.len() {
                0 => "none is configured: add a [[store]] section to the configuration".to_owned(),
                _ => choose("the stores are", name.as_str(), self.stores.keys().map(StoreName::as_str)),
            };
            Problem::new(Code::UnknownStore, format!("there is no store {name}"), hint)
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
                    format!("asat publish {store} makes one; asat ls {store} --state any lists those that were retired"),
                )
            }),
        }
    }

    /// A publication by its number.
    #[must_use]
    pub fn publication(&self, number: u64) -> Option<&Publication> {
        let version = self.publications.get(&number)?;
        self.stores.get(&version.store)?.versions.get(version.number)?.publication(number)
    }

    /// The publications that were recorded together with this one, which is the first of its set; only itself if it is of
    /// no set.
    pub fn publications_with(&self, number: u64) -> impl Iterator<Item = &Publication> {
        let first = self.publication(number);
        let of_set = first.and_then(|first| first.of_set.as_ref());
        // They have numbers in a row, unless they were adopted from the archives, store by store: then the others are anywhere after it.
        let others = of_set.map(|_| self.publications.range(number + 1..)).into_iter().flatten();
        let others = others
            .filter(move |(_, version)| first.is_some_and(|first| version.store != first.version.store));
        let others = others.filter_map(|(number, _)| self.publication(*number));
        first.into_iter().chain(others.filter(move |other| other.of_set.as_ref() == of_set))
    }

    /// All publications, oldest first.
    pub fn publications(&self) -> impl DoubleEndedIterator<Item = &Publication> {
        self.publications.keys().filter_map(|number| self.publication(*number))
    }

    /// The numbers of publications above one, oldest first, each with its version.
    pub fn publications_after(&self, number: u64) -> impl Iterator<Item = (u64, &VersionId)> {
        let above = self.publications.range(number.saturating_add(1)..);
        above.map(|(number, version)| (*number, version))
    }

    /// The publication that was made with an idempotency key.
    #[must_use]
    pub fn publication_by_key(&self, key: &str) -> Option<&Publication> {
        self.keys.get(&Digest::of(key)).and_then(|number| self.publication(*number))
    }

    /// The value of the marker that watch mode has published last of a store.
    #[must_use]
    pub fn last_marker(&self, store: &StoreName) -> Option<&str> {
        // By version, and not by number: later publications that were taken over out of an archive have the highest numbers.
        let versions = self.stores.get(store)?.versions.values().rev();
        let newest_first = versions.flat_map(|entry| entry.publications.iter().rev());
        newest_first.into_iter().find_map(|publication| publication.attributes.marker())
    }

    /// The number that the next publication gets.
    #[must_use]
    pub fn next_publication(&self) -> u64 {
        self.publications.last_key_value().map_or(1, |(newest, _)| newest + 1)
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
