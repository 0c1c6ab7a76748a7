//! The machine's clock: nothing ends by one that jumps, until it agrees again or somebody accepts it.

use asat_core::audit::Action;
use asat_core::clock::{Bounds, Moment, Reading};
use asat_core::event::{Answer, Archived, Change, Described, Event, Publish, Reply, Restore, Survey};
use asat_core::version::{Attributes, Content};
use asat_core::{By, Code, Policy, Toll};
use jiff::{SignedDuration, Timestamp};

use crate::world::{World, exactly, id, keeping};

const DAY: i64 = 86_400;

/// A machine with a clock that is set, in a world.
struct Machine {
    world: World,
    boot: u32,
    booted: Timestamp,
    /// The time that it is.
    time: Timestamp,
    /// By how many seconds the clock is out.
    out: i64,
}

impl Machine {
    /// Thirteen versions, each of which is kept for thirty days; what goes can be brought back for a week.
    fn new() -> Self {
        let world = World::with_versions(13);
        let time = world.now;
        let mut machine = Self { world, boot: 0, booted: time, time, out: 0 };
        machine.world.restart_with(&[("report", keeping("all for 30 days"))]);
        let policy = machine.world.engine().policy().clone();
        let grace = SignedDuration::from_hours(7 * 24);
        machine.world.engine.configure(Policy { grace, ..policy });
        machine.tick();
        machine
    }

    fn clocks(&self) -> Reading {
        let uptime = self.time.duration_since(self.booted).as_millis();
        let moment = Moment { boot: self.boot.to_string(), uptime_ms: uptime.try_into().unwrap() };
        Reading { wall: self.time + SignedDuration::from_secs(self.out), moment }
    }

    /// The periodic work, as the driver does it.
    fn tick(&mut self) {
        let clocks = self.clocks();
        self.world.ask(&Event::Clock(clocks.clone())).unwrap();
        self.world.now = self.world.engine().believed(&clocks).time;
        self.world.ask(&Event::Tick).unwrap();
    }

    fn pass(&mut self, seconds: i64) {
        self.time += SignedDuration::from_secs(seconds);
        self.tick();
    }

    fn set(&mut self, by: i64) {
        self.out += by;
        self.tick();
    }

    /// Is off for a while.
    fn reboot(&mut self, off: i64) {
        self.time += SignedDuration::from_secs(off);
        (self.boot, self.booted) = (self.boot + 1, self.time);
        self.tick();
    }

    fn accept(&mut self, reason: Option<&str>) {
        let event = Event::AcceptClock { reading: self.clocks(), reason: reason.map(str::to_owned) };
        let answer = self.world.tell_for(&By::user(0, Some("root")), &event);
        assert_eq!(answer, Answer::Now(Ok(Reply::Done)));
        self.tick();
    }

    fn ready(&self) -> usize {
        self.world.states("report").matches("ready").count()
    }

    fn is_doubted(&self) -> bool {
        self.world.register().clock().unwrap().doubt.is_some()
    }
}

#[test]
fn a_jump_gives_nothing_up_until_somebody_accepts_it() {
    for jump in [60 * DAY, 3650 * DAY] {
        let mut machine = Machine::new();
        machine.world.open("report@1", "ann");
        let pin = Event::Pin {
            version: exactly("report@2"),
            reason: "audit".to_owned(),
            owner: None,
            expires_at: Some(machine.time + SignedDuration::from_hours(1)),
            hot: false,
        };
        machine.world.ask(&pin).unwrap();
        machine.world.ask(&Event::retire(exactly("report@3"))).unwrap();

        machine.set(jump);
        machine.pass(60);
        assert_eq!((machine.ready(), machine.is_doubted()), (12, true));
        assert!(machine.world.version("report@2").pin.is_some(), "the pin counts");
        assert!(machine.world.version("report@3").grace().is_some(), "it can be brought back");
        assert_eq!(machine.world.register().leases().count(), 1);
        // What the lease and the pin keep would go as well.
        let toll = machine.world.engine().toll(machine.clocks().wall);
        assert_eq!(toll, Toll { versions: 11, graces: 1, leases: 1, pins: 1 });

        machine.set(-jump);
        assert_eq!((machine.ready(), machine.is_doubted()), (12, false), "as if nothing had been");

        machine.set(jump);
        machine.accept(Some("it is so late"));
        machine.world.settle();
        assert_eq!((machine.ready(), machine.is_doubted()), (1, false), "the rules are carried out now");
        let back = Event::Unretire { version: exactly("report@4"), reason: None };
        machine.world.ask(&back).unwrap();
        assert_eq!(machine.ready(), 2, "what went can be brought back");
        let gone = Event::Unretire { version: exactly("report@3"), reason: None };
        assert_eq!(machine.world.refused(&gone).code, Code::Purged);
    }
}

#[test]
fn that_a_clock_was_accepted_stands_in_the_audit_trail_of_each_store() {
    let mut machine = Machine::new();
    machine.accept(Some("nobody doubts it"));
    assert!(
        machine.world.noted.iter().all(|deed| deed.action != Action::Accept),
        "there was nothing to accept"
    );
    machine.set(60 * DAY);
    let reason = Some(" ".to_owned());
    let refused = machine.world.refused(&Event::AcceptClock { reading: machine.clocks(), reason });
    assert_eq!(refused.code, Code::Invalid);
    machine.accept(Some("the machine was off"));
    let deed = machine.world.noted.iter().find(|deed| deed.action == Action::Accept).unwrap();
    assert_eq!((&deed.version, deed.by.actor.as_str()), (&id("report@13"), "uid 0 (root)"));
    let (believed, clock) = ("2026-11-19T17:13", "2027-01-18T17:13");
    assert!(
        deed.details["believed"].starts_with(believed) && deed.details["clock"].starts_with(clock),
        "{deed:?}"
    );
    assert_eq!(deed.details["reason"], "the machine was off");
}

#[test]
fn a_clock_that_is_set_back_ends_nothing_and_keeps_nothing() {
    let mut machine = Machine::new();
    machine.world.open("report@1", "ann");
    machine.set(-3650 * DAY);
    assert!(machine.is_doubted());
    machine.pass(3600);
    assert_eq!(machine.world.register().leases().count(), 0, "its time is over, whatever the clock says");
    machine.pass(31 * DAY);
    assert_eq!(machine.ready(), 1, "the rules go by the time that has passed");
}

#[test]
fn a_machine_that_was_off_is_believed_for_a_week() {
    let mut machine = Machine::new();
    machine.reboot(6 * DAY);
    assert!(!machine.is_doubted());
    machine.reboot(40 * DAY);
    assert_eq!((machine.ready(), machine.is_doubted()), (13, true));
    machine.world.restart();
    machine.tick();
    assert_eq!((machine.ready(), machine.is_doubted()), (13, true), "a restart forgets no doubt");
    machine.accept(None);
    assert_eq!(machine.ready(), 1);
}

#[test]
fn a_configured_time_accepts_it_without_a_person() {
    let mut machine = Machine::new();
    let policy = machine.world.engine().policy().clone();
    let clock = Bounds { accept_after: Some(SignedDuration::from_hours(24)), ..Bounds::default() };
    machine.world.engine.configure(Policy { clock, ..policy });
    machine.set(60 * DAY);
    machine.pass(DAY - 1);
    assert_eq!(machine.ready(), 13);
    machine.pass(1);
    assert_eq!(machine.ready(), 1);
    let deed = machine.world.noted.iter().find(|deed| deed.action == Action::Accept).unwrap();
    assert_eq!(
        (&deed.by, deed.details["reason"].as_str()),
        (&By::asat(), "it has gone on for clock.accept_after")
    );
}

#[test]
fn while_all_is_well_what_is_believed_is_recorded_each_ten_minutes() {
    let mut machine = Machine::new();
    let recorded = |machine: &Machine| {
        let clocks = |change: &Change| matches!(change, Change::Clock(_));
        machine.world.decided.iter().flatten().filter(|change| clocks(change)).count()
    };
    let before = recorded(&machine);
    (0..60).for_each(|_| machine.pass(60));
    assert_eq!(recorded(&machine) - before, 6);
}

#[test]
fn where_nothing_was_believed_the_newest_instant_counts_that_is_not_in_the_future() {
    let world = World::with_versions(3);
    let engine = world.engine();
    let newest = world.register().publications().map(|publication| publication.at).max().unwrap();
    let after = |days: i64| newest + SignedDuration::from_hours(24 * days);
    let reading = |wall| Reading { wall, moment: Moment { boot: "a".to_owned(), uptime_ms: 5000 } };
    let found_at = |cut_at| {
        let content = Content { cut_at, ..world.version("report@1").content.clone().unwrap() };
        let described = Described {
            content,
            bytes: 1,
            attributes: Attributes::default(),
            key: None,
            of_set: None,
            checks: Vec::new(),
        };
        Survey {
            archived: vec![Archived { version: id("report@4"), described: Ok(Box::new(described)) }],
            ..Survey::default()
        }
    };
    let nothing = Survey::default();
    let cases = [
        // What a start finds, when the catalogue was written last, and what counts.
        (&nothing, None, newest),
        (&nothing, Some(after(20)), after(20)),
        (&nothing, Some(after(4000)), newest),
        (&found_at(after(10)), None, after(10)),
        (&found_at(after(10)), Some(after(20)), after(20)),
        (&found_at(after(4000)), Some(after(20)), after(20)),
    ];
    for (survey, written_at, expected) in cases {
        let witnessed = engine.witnessed(survey, written_at, &reading(after(3650))).unwrap();
        assert!((witnessed.time - expected).total(jiff::Unit::Second).unwrap().abs() < 60.0, "{witnessed:?}");
    }
    let empty = World::new(&[("report", keeping("all for 30 days"))]);
    assert_eq!(empty.engine().witnessed(&nothing, Some(after(20)), &reading(after(3650))), None);
    let mut machine = Machine::new();
    machine.tick();
    let again = machine.world.engine().witnessed(&nothing, None, &machine.clocks());
    assert_eq!(again, None, "what was believed is recorded");
}

#[test]
fn what_begins_while_nobody_knows_which_time_it_is_lasts_as_long_as_it_was_given_for() {
    for settle in [Machine::tick, |machine: &mut Machine| machine.accept(None)] {
        let mut machine = Machine::new();
        machine.out = -3600;
        machine.reboot(60);
        assert!(machine.is_doubted());
        machine.world.open("report@2", "ann");
        machine.world.ask(&Event::Retire { version: exactly("report@1"), reason: None, now: false }).unwrap();
        // The clock is set by more than both last, and by no more than the machine may have been off.
        machine.out = 6 * DAY + 23 * 3600;
        settle(&mut machine);
        assert!(!machine.is_doubted());
        machine.pass(3000);
        assert_eq!(machine.world.register().leases().count(), 1, "ann has an hour");
        machine.pass(6 * DAY);
        assert_eq!(machine.world.register().graces().count(), 1, "it has a week");
        machine.pass(DAY);
        assert_eq!(
            (machine.world.register().leases().count(), machine.world.register().graces().count()),
            (0, 0)
        );
    }
}

#[test]
fn nothing_is_published_while_nobody_knows_which_time_it_is() {
    let publishing = World::publishing("report", "after the holidays", None);
    let again = Event::Publish(Publish {
        unchanged: Some(13),
        ..match publishing.clone() {
            Event::Publish(publish) => publish,
            other => panic!("{other:?}"),
        }
    });
    let restore = Event::Restore(Restore {
        store: "report".parse().unwrap(),
        version: exactly("report@1"),
        certified_by: None,
        note: None,
    });
    for off in [10 * DAY, -3650 * DAY] {
        let mut machine = Machine::new();
        machine.out = off.min(0);
        machine.reboot(off.max(60));
        for event in [&publishing, &again, &restore] {
            let refused = machine.world.refused(event);
            assert_eq!(refused.code, Code::ClockDoubted, "{refused}");
            assert!(refused.hint.contains("asat clock accept"), "{refused}");
        }
        machine.out = 0;
        machine.accept(None);
        assert!(!machine.is_doubted());
        machine.world.begin(&publishing);
    }
    // In one boot it is known exactly, also for as long as the doubt lasts and after what is believed was recorded again.
    let mut machine = Machine::new();
    machine.set(60 * DAY);
    machine.pass(3600);
    assert!(machine.is_doubted());
    machine.world.begin(&publishing);
}
