//! What must hold after every event, whatever it was.

use std::collections::BTreeMap;

use asat_core::audit::Action;
use asat_core::event::{Change, Event, Intent};
use asat_core::register::{Entry, Register};
use asat_core::version::{Publication, SetPublication, State, Version};
use asat_core::{SetName, StoreName};
use jiff::Timestamp;

use crate::world::World;

/// What must hold after every event.
pub(crate) fn check(world: &World, before: &Register, event: &Event) {
    for publication in before.publications() {
        let now = world.register().publication(publication.number);
        assert_eq!(now, Some(publication), "a publication stays as it is");
    }
    for version in world.versions() {
        check_version(world, version);
    }
    for id in &world.acknowledged {
        let version = &world.register().entry(id).expect("an acknowledged version never disappears").version;
        assert!(!matches!(version.state, State::Cutting | State::Failed), "{version:?} after {event:?}");
    }
    for old in before.stores().flat_map(|history| history.versions.values()).map(|entry| &entry.version) {
        check_hold(world, before, old, event);
    }
    check_sets(world);
    let mut keys: Vec<_> = world.register().publications().filter_map(|p| p.key.as_ref()).collect();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all, "an idempotency key is used once");
    for publication in world.register().publications() {
        let entry = world.register().entry(&publication.version).expect("a publication has its version");
        assert!(entry.publications.contains(publication));
    }
}

/// As of the moment of a publication, the version that was published is found.
pub(crate) fn check_published(world: &World, number: u64) {
    let published = &world.register().publication(number).unwrap().version;
    let last = world.register().history(&published.store).unwrap().last_cut();
    let found = world.register().as_of(&published.store, last.unwrap().max(world.now));
    assert_eq!(found.map(|entry| &entry.version.id), Ok(published), "publication {number}");
}

/// Of a set all stores are published or none, and at its instant each was what its version is.
fn check_sets(world: &World) {
    let mut stores: BTreeMap<(&SetName, Timestamp), Vec<&StoreName>> = BTreeMap::new();
    for Publication { number, version, of_set, .. } in world.register().publications() {
        let Some(SetPublication { set, cut_at }) = of_set else { continue };
        stores.entry((set, *cut_at)).or_default().push(&version.store);
        let history = world.register().history(&version.store).unwrap();
        let cut = |entry: &&Entry| entry.version.content.is_some() && entry.version.listed_at() <= *cut_at;
        let then = history.versions.values().rev().find(cut).map(|entry| &entry.version.id);
        assert_eq!(then, Some(version), "what publication {number} has of {set} at {cut_at}");
    }
    for ((set, _), published) in stores {
        let members = &world.engine.policy().sets[set];
        assert_eq!(published, members.iter().collect::<Vec<_>>(), "{set} is published whole");
    }
}

fn check_version(world: &World, version: &Version) {
    let ended = !matches!(version.state, State::Cutting | State::Ready);
    assert_eq!(version.end.is_some(), ended, "{version:?}");
    if version.state == State::Ready {
        assert!(version.content.is_some() && !version.holdings.is_empty(), "{version:?}");
    }
    if version.state == State::Cutting {
        let cut = |i: &Intent| i.effect.cuts().iter().any(|(id, _)| **id == version.id);
        assert!(world.register().intents().any(cut), "nobody is cutting {version:?}");
    }
    if version.grace().is_some() {
        assert!(!version.holdings.is_empty(), "there is nothing that a grace could wait for: {version:?}");
    }
    if matches!(version.state, State::Retiring | State::Retired) {
        assert_eq!(version.copy, None, "{version:?}");
    }
}

/// A version is not given up while a lease, a pin or a tag holds it.
fn check_hold(world: &World, before: &Register, old: &Version, event: &Event) {
    let leased = before.leases_on(&old.id).any(|lease| lease.expires_at > world.now);
    let pinned = old.pin.as_ref().is_some_and(|pin| pin.counts(world.now));
    let given_up = |state| matches!(state, State::Retiring | State::Retired);
    let now = world.register().entry(&old.id).map(|entry| entry.version.state);
    let tagged = before.history(&old.id.store).unwrap().tags_on(old.id.number).next().is_some();
    if (leased || pinned || tagged) && !given_up(old.state) {
        assert!(!now.is_ok_and(given_up), "{} is given up by {event:?}", old.id);
    }
}

/// What is done is written down, and nothing else is.
pub(crate) fn check_trail(before: &Register, changes: &[Change]) {
    let mut done: Vec<(Action, String)> = Vec::new();
    let mut known = before.clone();
    for change in changes {
        match change {
            Change::Published(publication) => done.push((Action::Publish, publication.version.to_string())),
            Change::Tagged(tag) => done.push((Action::Tag, tag.version.to_string())),
            Change::Untagged(store, name) => {
                let tag = known.history(store).unwrap().tag(name).unwrap();
                done.push((Action::Untag, tag.version.to_string()));
            }
            Change::Version(version) => {
                let old = known.entry(&version.id).ok().map(|entry| entry.version.clone());
                let (was, pin) =
                    (old.as_ref().map(|old| old.state), old.as_ref().and_then(|old| old.pin.clone()));
                let id = version.id.to_string();
                let had_grace = old.as_ref().is_some_and(|old| old.grace().is_some());
                match (was, version.state) {
                    (_, State::Ready) if had_grace => done.push((Action::Unretire, id.clone())),
                    _ if had_grace && version.grace().is_none() => done.push((Action::Purge, id.clone())),
                    (was, State::Retired) if was != Some(State::Retired) && version.grace().is_some() => {
                        done.push((Action::Retire, id.clone()));
                    }
                    (was, State::Retiring) if was != Some(State::Retiring) => {
                        done.push((Action::Retire, id.clone()))
                    }
                    (was, State::Lost) if was != Some(State::Lost) => done.push((Action::Lose, id.clone())),
                    (Some(State::Lost), State::Ready) => done.push((Action::Recover, id.clone())),
                    _ => {}
                }
                match &version.pin {
                    now if *now == pin => {}
                    Some(_) => done.push((Action::Pin, id)),
                    None => done.push((Action::Unpin, id)),
                }
            }
            _ => {}
        }
        known.evolve(change);
    }
    // A revocation looks like any other end of a lease, and a restore like nothing, as do a repair and a clock that is accepted.
    let mut noted: Vec<(Action, String)> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Noted(deed) => Some((deed.action, deed.version.to_string())),
            _ => None,
        })
        .filter(|(action, _)| {
            !matches!(action, Action::Revoke | Action::Restore | Action::Accept | Action::Repair)
        })
        .collect();
    done.sort();
    noted.sort();
    assert_eq!(noted, done);
}
