//! Random histories, the same ones for the same seed.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::path::PathBuf;

use asat_core::audit::{Action, Deed};
use asat_core::check::CheckResult;
use asat_core::clock::{Anchor, Doubt, Moment};
use asat_core::event::{Change, Effect, EffectId, Intent, SetMember};
use asat_core::harm::{Damage, Tried};
use asat_core::register::Register;
use asat_core::snapshot::{BackendKind, Cost, Hold, Origin, Snapshot};
use asat_core::version::{
    Attributes, Content, Copy, End, Free, Holding, Lease, LeaseId, Pin, Publication, SetPublication, State,
    Store, Tag, Version,
};
use asat_core::{By, Fingerprint, PageSize, StoreName, VersionId};
use jiff::Timestamp;
use serde_json::json;

/// A source of numbers that replays (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % bound as u64).unwrap()
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.roll().is_multiple_of(2)
    }

    pub(crate) fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.coin() { Some(value(self)) } else { None }
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len())].clone()) }
    }

    pub(crate) fn instant(&mut self) -> Timestamp {
        let second = i64::try_from(self.roll() % 4_000_000_000).unwrap();
        let fractions = [0, 1_000, 123_456_000, 123_456_789, 999_999_999];
        Timestamp::new(second, fractions[self.below(fractions.len())]).unwrap()
    }

    pub(crate) fn text(&mut self) -> String {
        let texts =
            ["close", "", "größer → 🎉", "a 'quoted' \"text\"", "two\nlines\tand a tab", "nul \0 inside"];
        format!("{} {}", texts[self.below(texts.len())], self.below(1000))
    }

    pub(crate) fn by(&mut self) -> By {
        By { actor: format!("token {}", self.text()), request: self.maybe(Self::text) }
    }

    pub(crate) fn bytes(&mut self) -> u64 {
        [0, 1, 4096, 48_672_768, i64::MAX.cast_unsigned()][self.below(5)]
    }
}

pub(crate) fn store_name(number: usize) -> StoreName {
    format!("store-{number}").parse().unwrap()
}

pub(crate) fn store(dice: &mut Dice, name: StoreName) -> Store {
    let path = PathBuf::from(format!("/srv/{}/{}.db", dice.text(), name));
    let damage = dice.maybe(|dice| Damage {
        found_at: dice.instant(),
        what: dice.text(),
        versions: (0..dice.below(3)).map(|_| dice.bytes()).collect(),
        tried: [None, Some(Tried::Failed), Some(Tried::InVain)][dice.below(3)],
    });
    Store { name, path, added_at: dice.instant(), damage }
}

pub(crate) fn content(dice: &mut Dice) -> Content {
    let half = u128::from(dice.roll());
    Content {
        cut_at: dice.instant(),
        fingerprint: dice
            .maybe(|dice| Fingerprint::of_model([0, u128::MAX, half, half << 64][dice.below(4)])),
        page_size: PageSize::new(512 << dice.below(8)).unwrap(),
        page_count: [0, 1, 11_883, u32::MAX][dice.below(4)],
        wal: dice.coin(),
    }
}

fn holding(dice: &mut Dice) -> Holding {
    if dice.coin() {
        Holding::Archive { bytes: dice.bytes() }
    } else {
        Holding::Snapshot(Box::new(snapshot(dice)))
    }
}

fn snapshot(dice: &mut Dice) -> Snapshot {
    let backends = [BackendKind::LvmThin, BackendKind::LvmClassic, BackendKind::Reflink];
    Snapshot {
        origin: Origin {
            backend: backends[dice.below(3)],
            group: dice.text(),
            volume: dice.text(),
            name: dice.text(),
            fs: dice.text(),
            inside: PathBuf::from(format!("/{}", dice.text())),
        },
        name: dice.text(),
        uuid: dice.text(),
        with_wal: dice.coin(),
        bytes: dice.bytes(),
        lost: dice.coin(),
        not_before: dice.maybe(Dice::instant),
    }
}

pub(crate) fn attributes(dice: &mut Dice) -> Attributes {
    Attributes {
        label: dice.maybe(Dice::text),
        certified_by: dice.maybe(Dice::text),
        business_date: dice.maybe(|_| "2026-11-19".parse().unwrap()),
        note: dice.maybe(Dice::text),
        free: free(dice),
    }
}

fn free(dice: &mut Dice) -> Free {
    // Numbers that few readers read exactly: any fraction, and integers that are too large for one.
    let fraction = f64::from_bits(dice.roll());
    let fraction = if fraction.is_finite() { fraction } else { 9.937242460346578e-5 };
    let large: serde_json::Value = serde_json::from_str(&format!("{}{}", u64::MAX, dice.roll())).unwrap();
    let values =
        [json!("größer"), json!(-41), json!(u64::MAX), json!(0.1), json!(true), json!(fraction), large];
    (0..dice.below(4)).map(|number| (format!("key {number}"), values[dice.below(7)].clone())).collect()
}

pub(crate) fn version(dice: &mut Dice, id: VersionId, state: State) -> Version {
    let ended = !matches!(state, State::Cutting | State::Ready);
    let content = if state == State::Ready { Some(content(dice)) } else { dice.maybe(content) };
    Version {
        id,
        state,
        begun_at: dice.instant(),
        content,
        holdings: (0..dice.below(3)).map(|_| holding(dice)).collect(),
        copy: dice.maybe(|dice| {
            Box::new(Copy { in_snapshot: dice.coin(), bytes: dice.bytes(), used_at: dice.instant() })
        }),
        pin: dice.maybe(|dice| {
            Box::new(Pin {
                reason: dice.text(),
                owner: dice.maybe(Dice::text),
                set_at: dice.instant(),
                expires_at: dice.maybe(Dice::instant),
                hot: dice.coin(),
            })
        }),
        end: ended.then(|| {
            Box::new(End {
                at: dice.instant(),
                reason: dice.text(),
                purge_after: (state == State::Retired && dice.coin()).then(|| dice.instant()),
            })
        }),
    }
}

pub(crate) fn publication(dice: &mut Dice, number: u64, version: VersionId) -> Publication {
    Publication {
        number,
        version,
        at: dice.instant(),
        attributes: attributes(dice),
        key: dice.maybe(|dice| format!("{} {number}", dice.text())),
        of_set: dice
            .maybe(|dice| SetPublication { set: "month-end".parse().unwrap(), cut_at: dice.instant() }),
        reused: dice.coin(),
        cost: Cost {
            writer_blocked_us: dice.bytes(),
            hold: Hold::ALL[dice.below(Hold::ALL.len())],
            snapshot_us: dice.bytes(),
        },
        elapsed_us: dice.bytes(),
        checks: (0..dice.below(4)).map(|_| check(dice)).collect(),
    }
}

fn check(dice: &mut Dice) -> CheckResult {
    CheckResult { name: dice.text(), passed: dice.coin(), found: dice.text(), took_us: dice.bytes() }
}

pub(crate) fn lease(dice: &mut Dice, id: LeaseId, version: VersionId) -> Lease {
    let holder = dice.text();
    let actor = dice.maybe(|dice| dice.by().actor);
    Lease { id, version, holder, actor, granted_at: dice.instant(), expires_at: dice.instant() }
}

pub(crate) fn effects(dice: &mut Dice, version: &VersionId) -> [Effect; 11] {
    let version = version.clone();
    let lease = LeaseId(dice.text());
    [
        Effect::Cut {
            anew: dice.coin(),
            version: version.clone(),
            attributes: attributes(dice),
            key: dice.maybe(Dice::text),
            after: dice.maybe(Dice::instant),
            origin: dice.maybe(|dice| snapshot(dice).origin),
            then_restore: dice.maybe(|_| version.clone()),
        },
        Effect::CutSet {
            set: "month-end".parse().unwrap(),
            members: vec![SetMember {
                anew: false,
                version: version.clone(),
                origin: dice.maybe(|dice| snapshot(dice).origin),
            }],
            attributes: attributes(dice),
            key: dice.maybe(Dice::text),
            after: dice.maybe(Dice::instant),
        },
        Effect::Restore { version: version.clone(), before: version.clone(), publication: u64::MAX },
        Effect::Archive { version: version.clone() },
        Effect::DropSnapshot { version: version.clone(), snapshot: snapshot(dice) },
        Effect::Retire { version: version.clone() },
        Effect::Compact { store: version.store.clone() },
        Effect::Weigh { store: version.store.clone() },
        Effect::Repair { store: version.store.clone() },
        Effect::MakeCopy {
            version: version.clone(),
            in_snapshot: dice.coin(),
            lease,
            holder: dice.text(),
            ttl_s: u32::MAX,
        },
        Effect::DropCopy { version },
    ]
}

/// Something that was done to a version.
pub(crate) fn deed(dice: &mut Dice, version: VersionId) -> Deed {
    let action = Action::ALL[dice.below(Action::ALL.len())];
    let deed = Deed::new(dice.instant(), dice.by(), action, version);
    (0..dice.below(4)).fold(deed, |deed, _| deed.with(&dice.text(), dice.text()))
}

/// What may be believed of a clock.
pub(crate) fn anchor(dice: &mut Dice) -> Anchor {
    let moment = |dice: &mut Dice| Moment { boot: dice.text(), uptime_ms: u64::MAX };
    let doubt = dice.coin().then(|| Doubt { since: moment(dice), ahead_s: i64::MIN });
    Anchor { time: dice.instant(), moment: moment(dice), doubt }
}

/// One change that may follow upon what a register holds.
pub(crate) fn change(dice: &mut Dice, register: &Register) -> Change {
    let versions: Vec<VersionId> = register
        .stores()
        .flat_map(|history| history.versions.values())
        .map(|entry| entry.version.id.clone())
        .collect();
    let some_store = dice.below(3);
    let Some(id) = dice.one_of(&versions) else {
        return first_change(dice, register, store_name(some_store));
    };
    let unused = |id: &VersionId| {
        let is_tagged = register.history(&id.store).unwrap().tags_on(id.number).next().is_some();
        register.entry(id).unwrap().publications.is_empty()
            && register.leases_on(id).next().is_none()
            && !is_tagged
    };
    match dice.below(13) {
        0 => first_change(dice, register, store_name(some_store)),
        1 | 2 => {
            let state = State::ALL[dice.below(State::ALL.len())];
            Change::Version(Box::new(version(dice, id, state)))
        }
        3 if unused(&id) => Change::Discarded(id),
        3 | 4 => Change::Published(publication(dice, register.next_publication(), id)),
        5 => {
            let name = LeaseId(format!("lease-{}", dice.below(8)));
            Change::Lease(lease(dice, name, id))
        }
        6 => Change::LeaseEnded(LeaseId(format!("lease-{}", dice.below(8)))),
        7 => {
            let effect = effects(dice, &id)[dice.below(9)].clone();
            Change::Intended(Intent { id: register.next_effect(), at: dice.instant(), by: dice.by(), effect })
        }
        8 => Change::Noted(Box::new(deed(dice, id))),
        9 => {
            let name = format!("tag-{}", dice.below(4)).parse().unwrap();
            Change::Tagged(Tag { name, version: id, set_at: dice.instant() })
        }
        11 => Change::Clock(anchor(dice)),
        10 => Change::Untagged(id.store, format!("tag-{}", dice.below(4)).parse().unwrap()),
        _ => {
            let open: Vec<EffectId> = register.intents().map(|intent| intent.id).collect();
            Change::Concluded(dice.one_of(&open).unwrap_or(EffectId(1_000_000)))
        }
    }
}

fn first_change(dice: &mut Dice, register: &Register, name: StoreName) -> Change {
    match register.history(&name) {
        Ok(history) if dice.below(4) > 0 => {
            let id = VersionId { store: name, number: history.next_number() };
            Change::Version(Box::new(version(dice, id, State::Cutting)))
        }
        _ => Change::Store(store(dice, name)),
    }
}
