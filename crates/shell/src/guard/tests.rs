//! The guard in a place that shows what a test says, and notes what it is asked for.

use asat_core::event::{Change, Effect, EffectId, Intent};
use asat_core::guard::{Advice, AlarmKey, AlarmKind, GroupSeen, OriginSeen, SnapshotSeen, Target};
use asat_core::recorder::Commit;
use asat_core::register::Register;
use asat_core::snapshot::{BackendKind, Origin};
use asat_core::version::{Content, Holding, State, Store, Version};
use asat_core::{By, Code, Engine, PageSize};

use super::*;
use crate::{Actuators, Sensors, Spectators};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A volume group with one origin, and snapshots of 64 MiB of it.
#[derive(Default)]
struct Place {
    now_ms: u64,
    /// What is used of each snapshot, in MiB.
    used_mib: u64,
    /// What is wrong with each snapshot.
    missing: Option<Missing>,
    in_peace: bool,
    is_blind: bool,
    is_busy: bool,
    alarms: Vec<Step>,
    /// What the guard asked for.
    asked: Vec<String>,
    ended: Vec<GuardEntry>,
    advice: Advice,
}

impl Place {
    fn note(&mut self, what: impl Into<String>) {
        self.asked.push(what.into());
    }

    /// What the guard asked for since this was last called.
    fn asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }
}

impl Sensors for Place {
    fn uptime_ms(&self) -> u64 {
        self.now_ms
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn observe(&mut self, at_ms: u64, recorded: &Recorded, room: &Room) -> Result<Look, Problem> {
        if self.is_blind {
            return Err(Problem::new(Code::Internal, "the device-mapper does not answer", ""));
        }
        let hot = || recorded.hot.iter();
        let snapshot = |(version, _): &(HotVersion, Snapshot)| SnapshotSeen {
            version: version.clone(),
            origin: "origin".to_owned(),
            group: "vg".to_owned(),
            used: self.used_mib * MIB,
            size: 64 * MIB,
            most: GIB,
        };
        let (id, group) = ("origin".to_owned(), "vg".to_owned());
        let seen = Observation {
            at_ms,
            origins: vec![OriginSeen { id, group, written: 0, may_hold: true }],
            snapshots: hot().filter(|_| self.missing.is_none()).map(snapshot).collect(),
            groups: room.groups.clone(),
            ..Observation::default()
        };
        let missing = hot().filter_map(|(version, _)| Some((version.id.clone(), self.missing?)));
        let (missing, alarms) = (missing.collect(), self.alarms.clone());
        Ok(Look { seen, missing, alarms, in_peace: self.in_peace })
    }

    fn ask_room(&mut self) {
        self.note("ask for the room");
    }

    fn ask_whether_removed(&mut self, id: &VersionId, _: &Snapshot) {
        self.note(format!("ask about {id}"));
    }
}

impl Actuators for Place {
    fn extend(&mut self, step: &Step) -> bool {
        self.note(format!("extend {}", step.target));
        !self.is_busy
    }

    fn keep_turn(&mut self) {
        self.note("keep the turn");
    }

    fn give_turn(&mut self) {
        self.note("give the turn");
    }

    fn hold_writers(&mut self, origin: &str, _: &Step, _: u64) -> bool {
        self.note(format!("hold {origin}"));
        true
    }

    fn release_writers(&mut self, origin: &str) {
        self.note(format!("release {origin}"));
    }

    fn release_all(&mut self) {
        self.note("release all");
    }

    fn ask_engine(&mut self, _: &Step, event: Event) {
        self.note(format!("ask the engine: {event:?}"));
    }

    fn tell_engine(&mut self, event: Event) {
        self.note(format!("tell the engine: {event:?}"));
    }

    fn advise(&mut self, advice: Advice) {
        self.advice = advice;
    }
}

impl Spectators for Place {
    fn began(&mut self, step: &Step) {
        self.note(format!("{} has begun", step.action.rung().text()));
    }

    fn ended(&mut self, entry: GuardEntry, _: Option<Duration>) {
        self.ended.push(entry);
    }
}

fn id(name: &str) -> VersionId {
    name.parse().unwrap()
}

fn snapshot(of: &str) -> Snapshot {
    let origin = Origin {
        backend: BackendKind::LvmClassic,
        group: "vg".to_owned(),
        volume: "origin".to_owned(),
        name: "vg/data".to_owned(),
        fs: "ext4".to_owned(),
        inside: "report.db".into(),
    };
    let (name, uuid) = (format!("vg/{of}"), format!("uuid of {of}"));
    Snapshot { origin, name, uuid, with_wal: false, bytes: 64 * MIB, lost: false, not_before: None }
}

/// A version in a snapshot, and perhaps in the archive besides.
fn version(name: &str, archived: bool) -> Version {
    let content = Content {
        cut_at: Timestamp::UNIX_EPOCH,
        fingerprint: None,
        page_size: PageSize::new(4096).unwrap(),
        page_count: 1,
        wal: true,
    };
    let mut holdings = vec![Holding::Snapshot(Box::new(snapshot(name)))];
    holdings.extend(archived.then_some(Holding::Archive { bytes: 1 }));
    Version {
        id: id(name),
        state: State::Ready,
        begun_at: Timestamp::UNIX_EPOCH,
        content: Some(content),
        holdings,
        copy: None,
        pin: None,
        end: None,
    }
}

/// A guard beside the records of these versions, with so much free in the group.
fn guard(versions: &[&str], free: u64) -> Guard {
    let path = "/data/report.db".into();
    let store =
        Store { name: "report".parse().unwrap(), path, added_at: Timestamp::UNIX_EPOCH, damage: None };
    let engine = SharedEngine::new(Engine::new(asat_core::Policy::default(), Register::default()));
    engine.evolve(&[Change::Store(store)], Commit::default());
    let guard = Guard::new(Arc::new(engine), Policy::default(), room(free));
    versions.iter().for_each(|name| put(&guard, version(name, false)));
    guard
}

fn put(guard: &Guard, version: Version) {
    guard.engine.evolve(&[Change::Version(Box::new(version))], Commit::default());
}

fn room(free: u64) -> Room {
    let groups = vec![GroupSeen { id: "vg".to_owned(), free, extent: 4 * MIB }];
    Room { groups, ..Room::default() }
}

/// It looks at this time, and acts.
fn tick(guard: &mut Guard, place: &mut Place, now_ms: u64) -> Planned {
    place.now_ms = now_ms;
    let planned = guard.look(place).unwrap();
    guard.act(place, &planned);
    planned
}

fn free(planned: &Planned) -> u64 {
    planned.look.seen.groups.iter().map(|group| group.free).sum()
}

/// The step of a plan that takes this rung.
fn step(planned: &Planned, rung: Rung) -> Step {
    planned.plan.steps.iter().find(|step| step.action.rung() == rung).unwrap().clone()
}

fn done(step: Step) -> Told {
    Told::Ended(Ended { step, outcome: Outcome::Done, took: None, added: None })
}

#[test]
fn an_extension_begins_and_keeps_the_turn_until_it_has_ended_and_nothing_follows() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place { used_mib: 63, ..Place::default() });
    let planned = tick(&mut guard, &mut place, 0);
    let begun = ["ask for the room", "extend snapshot report@1", "keep the turn", "extend has begun"]
        .map(str::to_owned);
    assert_eq!(place.asked(), begun);
    assert_eq!(guard.memory().open(), 1);

    (place.now_ms, place.used_mib) = (700, 1);
    guard.hear(&mut place, done(step(&planned, Rung::Extend)));
    assert_eq!((guard.memory().open(), place.asked()), (0, vec!["ask for the room".to_owned()]));
    let entry = &place.ended[0];
    assert_eq!((entry.rung, entry.took_ms, &entry.outcome), (Rung::Extend, 700, &Outcome::Done));
    tick(&mut guard, &mut place, 701);
    assert_eq!(place.asked(), ["give the turn"]);
}

#[test]
fn an_extension_that_cannot_begin_as_another_one_is_under_way_is_planned_again() {
    let (mut guard, mut place) =
        (guard(&["report@1"], GIB), Place { used_mib: 63, is_busy: true, ..Place::default() });
    for (now_ms, more) in [(0, vec!["ask for the room"]), (20, vec![])] {
        tick(&mut guard, &mut place, now_ms);
        let asked = more.into_iter().chain(["extend snapshot report@1", "give the turn"]);
        assert_eq!(place.asked(), asked.collect::<Vec<_>>(), "after {now_ms} ms");
        assert_eq!(guard.memory().open(), 0);
    }
}

#[test]
fn a_look_that_fails_lets_all_writers_go() {
    let (mut guard, mut place) =
        (guard(&["report@1"], GIB), Place { is_blind: true, used_mib: 63, ..Place::default() });
    let problem = guard.look(&mut place).unwrap_err();
    assert_eq!(problem.detail, "the device-mapper does not answer");
    assert_eq!(place.asked(), ["give the turn", "release all"]);
    place.is_blind = false;
    assert_eq!(tick(&mut guard, &mut place, 1000).look.seen.snapshots.len(), 1);
}

#[test]
fn what_an_extension_took_is_not_free_until_lvm_says_what_is() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place { used_mib: 63, ..Place::default() });
    let extension = step(&tick(&mut guard, &mut place, 0), Rung::Extend);
    let Action::Extend { to, .. } = &extension.action else { panic!("{extension:?}") };
    let left = GIB - (to - 64 * MIB);
    guard.hear(&mut place, done(extension));
    assert_eq!(free(&guard.look(&mut place).unwrap()), left);
    guard.hear(&mut place, Told::Room(Err(Problem::new(Code::LvmStuck, "", ""))));
    assert_eq!(free(&guard.look(&mut place).unwrap()), left, "what was said last stands");
    guard.hear(&mut place, Told::Room(Ok(room(GIB / 2))));
    assert_eq!(free(&guard.look(&mut place).unwrap()), GIB / 2);
}

#[test]
fn an_extension_that_failed_has_taken_nothing() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place { used_mib: 63, ..Place::default() });
    let step = step(&tick(&mut guard, &mut place, 0), Rung::Extend);
    let outcome = Outcome::Failed("insufficient free space".to_owned());
    guard.hear(&mut place, Told::Ended(Ended { step, outcome, took: None, added: None }));
    assert_eq!(free(&guard.look(&mut place).unwrap()), GIB);
}

#[test]
fn a_new_snapshot_takes_room_and_is_seen_once_the_guard_is_told_that_records_have_changed() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place::default());
    assert_eq!(tick(&mut guard, &mut place, 0).look.seen.snapshots.len(), 1);
    place.asked();

    put(&guard, version("report@2", false));
    let planned = tick(&mut guard, &mut place, 20);
    assert_eq!((planned.look.seen.snapshots.len(), free(&planned)), (1, GIB), "it has not been told");
    assert_eq!(place.asked(), ["give the turn"]);

    guard.hear(&mut place, Told::Changed);
    let planned = tick(&mut guard, &mut place, 40);
    assert_eq!((planned.look.seen.snapshots.len(), free(&planned)), (2, GIB - 64 * MIB));
    assert_eq!(place.asked(), ["ask for the room", "give the turn"]);
}

#[test]
fn a_version_is_hurried_until_the_records_say_that_it_is_in_the_archive() {
    let (mut guard, mut place) = (guard(&["report@1"], 0), Place { used_mib: 63, ..Place::default() });
    tick(&mut guard, &mut place, 0);
    let asked = place.asked();
    assert!(asked.contains(&"hurry has begun".to_owned()), "{asked:?}");
    assert!(asked.contains(&"tell the engine: Tick".to_owned()), "{asked:?}");

    for now_ms in [20, 9000] {
        tick(&mut guard, &mut place, now_ms);
        assert!(!place.asked().contains(&"hurry has begun".to_owned()), "it is under way");
    }
    put(&guard, version("report@1", true));
    guard.hear(&mut place, Told::Changed);
    tick(&mut guard, &mut place, 9500);
    let hurries: Vec<&GuardEntry> = place.ended.iter().filter(|entry| entry.rung == Rung::Hurry).collect();
    assert_eq!((hurries.len(), &hurries[0].outcome, hurries[0].took_ms), (1, &Outcome::Done, 9500));
}

/// The snapshot of a version is removed from now on.
fn drop_snapshot(guard: &Guard, name: &str) {
    drop_what_holds(guard, name, snapshot(name));
}

fn drop_what_holds(guard: &Guard, name: &str, snapshot: Snapshot) {
    let effect = Effect::DropSnapshot { version: id(name), snapshot };
    let intent = Intent { id: EffectId(1), at: Timestamp::UNIX_EPOCH, by: By::asat(), effect };
    guard.engine.evolve(&[Change::Intended(intent)], Commit::default());
}

#[test]
fn a_version_that_was_given_up_is_over_with_its_snapshot() {
    let (mut guard, mut place) = (guard(&["report@1", "report@2"], 0), Place::default());
    let policy = Policy { space_before_retention: true, ladder: vec![Rung::Retire], ..Policy::default() };
    guard.configure(policy);
    tick(&mut guard, &mut place, 0);
    place.used_mib = 63;
    let retirement = step(&tick(&mut guard, &mut place, 1000), Rung::Retire);
    assert_eq!(retirement.action, Action::Retire { version: id("report@1") });
    place.asked();

    // What is to be retired is, and its snapshot is removed next.
    drop_snapshot(&guard, "report@1");
    guard.hear(&mut place, done(retirement.clone()));
    assert_eq!(place.asked(), [format!("ask the engine: {:?}", Event::Demote(id("report@1")))]);
    assert_eq!((guard.memory().open(), place.ended.len()), (1, 0));

    guard.engine.evolve(&[Change::Concluded(EffectId(1))], Commit::default());
    place.now_ms = 1600;
    guard.hear(&mut place, done(retirement));
    assert_eq!(guard.memory().open(), 0);
    assert_eq!((place.ended[0].rung, place.ended[0].took_ms), (Rung::Retire, 600));
}

#[test]
fn lvm_is_asked_for_the_room_when_a_snapshot_is_gone_and_not_while_it_is_being_removed() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place::default());
    tick(&mut guard, &mut place, 0);
    place.asked();
    drop_snapshot(&guard, "report@1");
    guard.hear(&mut place, Told::Changed);
    assert_eq!(tick(&mut guard, &mut place, 20).look.seen.snapshots, []);
    assert_eq!(place.asked(), ["give the turn"]);

    let gone = Version { holdings: vec![Holding::Archive { bytes: 1 }], ..version("report@1", true) };
    guard
        .engine
        .evolve(&[Change::Concluded(EffectId(1)), Change::Version(Box::new(gone))], Commit::default());
    guard.hear(&mut place, Told::Changed);
    tick(&mut guard, &mut place, 40);
    assert_eq!(place.asked(), ["ask for the room", "give the turn"]);
}

#[test]
fn lvm_is_not_asked_for_the_room_when_a_clone_is_removed() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place::default());
    tick(&mut guard, &mut place, 0);
    place.asked();
    let mut clone = snapshot("report@2");
    clone.origin.backend = BackendKind::Reflink;
    drop_what_holds(&guard, "report@2", clone);
    for (now_ms, change) in [(20, None), (40, Some(Change::Concluded(EffectId(1))))] {
        guard.engine.evolve(&Vec::from_iter(change), Commit::default());
        guard.hear(&mut place, Told::Changed);
        tick(&mut guard, &mut place, now_ms);
        assert_eq!(place.asked(), ["give the turn"]);
    }
}

#[test]
fn a_version_that_was_given_up_for_a_folder_is_over_once_it_is_out_of_the_archive() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place::default());
    drop_snapshot(&guard, "report@1");
    let action = Action::Retire { version: id("report@1") };
    let step = Step { target: Target::Folder("/state".to_owned()), action, reason: "it is full".to_owned() };
    guard.hear(&mut place, done(step));
    assert_eq!(place.ended.len(), 1);
}

#[test]
fn before_a_stop_nothing_is_waited_for_that_only_another_look_needs() {
    let (mut guard, mut place) = (guard(&["report@1"], 0), Place::default());
    drop_snapshot(&guard, "report@1");
    let action = Action::Retire { version: id("report@1") };
    let step = Step { target: Target::Group("vg".to_owned()), action, reason: "it is full".to_owned() };
    guard.hear_last(&mut place, Ended { step, outcome: Outcome::Done, took: None, added: None });
    assert_eq!(place.ended.len(), 1);
}

#[test]
fn of_a_snapshot_that_is_gone_lvm_is_asked_once_in_ten_seconds_and_the_records_are_told_once_it_agrees() {
    let (mut guard, mut place) =
        (guard(&["report@1"], GIB), Place { missing: Some(Missing::Gone), ..Place::default() });
    for (now_ms, asks) in [(0, true), (1000, false), (9999, false), (10_000, true), (10_020, false)] {
        tick(&mut guard, &mut place, now_ms);
        assert_eq!(place.asked().contains(&"ask about report@1".to_owned()), asks, "after {now_ms} ms");
    }
    guard.hear(&mut place, Told::Removed(id("report@1")));
    assert_eq!(place.asked(), [format!("tell the engine: {:?}", Event::Vanished(id("report@1")))]);
}

#[test]
fn of_a_snapshot_that_was_full_the_records_are_told_at_every_look_until_they_say_so() {
    let (mut guard, mut place) =
        (guard(&["report@1"], GIB), Place { missing: Some(Missing::Lost), ..Place::default() });
    let overflowed = format!("tell the engine: {:?}", Event::Overflowed(id("report@1")));
    for now_ms in [0, 1000] {
        tick(&mut guard, &mut place, now_ms);
        assert_eq!(place.asked()[0], overflowed);
    }
    let mut lost = version("report@1", false);
    lost.holdings = Vec::new();
    put(&guard, Version { state: State::Lost, ..lost });
    guard.hear(&mut place, Told::Changed);
    tick(&mut guard, &mut place, 2000);
    assert!(!place.asked().contains(&overflowed));
}

#[test]
fn lvm_is_asked_for_the_room_every_ten_seconds_and_every_five_minutes_while_all_is_quiet() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place::default());
    let cases = [
        (0, false, true),
        (9_999, false, false),
        (10_000, false, true),
        (300_000, true, false),
        (310_000, true, true),
        (319_999, false, false),
        (320_000, false, true),
    ];
    for (now_ms, in_peace, asks) in cases {
        place.in_peace = in_peace;
        tick(&mut guard, &mut place, now_ms);
        assert_eq!(place.asked().contains(&"ask for the room".to_owned()), asks, "after {now_ms} ms");
    }
}

#[test]
fn lvm_is_asked_again_soon_if_it_cannot_say_how_much_room_there_is_and_ever_more_seldom_if_it_fails_again() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place::default());
    tick(&mut guard, &mut place, 0);
    let mut now_ms = 0;
    for pause in [1000, 2000, 4000, 8000, 10_000, 10_000] {
        place.asked();
        guard.hear(&mut place, Told::Room(Err(Problem::new(Code::LvmStuck, "it does not answer", ""))));
        for (after, asks) in [(20, false), (pause - 1, false), (pause, true)] {
            tick(&mut guard, &mut place, now_ms + after);
            assert_eq!(place.asked().contains(&"ask for the room".to_owned()), asks, "{pause}: {after}");
        }
        now_ms += pause;
    }
    guard.hear(&mut place, Told::Room(Ok(room(GIB))));
    guard.hear(&mut place, Told::Room(Err(Problem::new(Code::LvmStuck, "it does not answer", ""))));
    tick(&mut guard, &mut place, now_ms + 1000);
    assert!(place.asked().contains(&"ask for the room".to_owned()));
}

#[test]
fn publications_are_advised_of_the_size_of_snapshots_and_of_a_group_without_room() {
    let (mut guard, mut place) = (guard(&["report@1"], GIB), Place::default());
    tick(&mut guard, &mut place, 0);
    let size = place.advice.volumes.sizes["origin"];
    assert!((16 * MIB..=GIB / 4).contains(&size), "{size}");
    assert!(place.advice.volumes.not_in.is_empty() && place.advice.nowhere.is_none());

    place.used_mib = 63;
    guard.hear(&mut place, Told::Room(Ok(room(0))));
    tick(&mut guard, &mut place, 1000);
    assert_eq!(place.advice.volumes.sizes["origin"], 0);
    assert!(place.advice.volumes.not_in["vg"].contains("snapshot report@1"), "{:?}", place.advice);
}

#[test]
fn alarms_that_no_volume_shows_are_part_of_the_plan() {
    let target = Target::Folder("/var/lib/asat".to_owned());
    let key = AlarmKey { target: target.clone(), kind: AlarmKind::Broken };
    let action = Action::Alarm { key, hint: "look at the disk".to_owned() };
    let alarm = Step { target, action, reason: "nothing can be recorded".to_owned() };
    let (mut guard, mut place) = (guard(&[], GIB), Place { alarms: vec![alarm.clone()], ..Place::default() });
    assert_eq!(tick(&mut guard, &mut place, 0).plan.steps, [alarm]);
}
