//! A hold begins, ends when it is released, and ends by itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use asat_host::brake::{Error, MOST_HOLD};
use asat_host::dm;
use asat_host::dm::target::Snapshot as State;
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, Machine, in_lab};
use crate::lab_brake::ground::{Ground, brake, program};

/// The brake's process, spoken to by hand.
struct Bare {
    child: Child,
    output: Box<dyn Iterator<Item = String>>,
}

impl Bare {
    fn start(machine: &Machine) -> Self {
        let mut command = machine.command(program().to_str().unwrap());
        command.arg("brake").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut bare = Self { child, output: Box::new(lines) };
        assert_eq!(bare.output.next().unwrap(), "ready locked");
        bare
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.output.next().unwrap()
    }
}

#[test]
fn lab_a_writer_waits_until_it_is_released_or_the_time_is_over() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let (writer, mut brake) = (ground.writer(), brake());
        assert!(brake.is_locked());
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", brake.process_id().unwrap())).unwrap();
        println!("{}", status.lines().find(|line| line.starts_with("VmLck")).unwrap());

        let held = brake.hold(&ground.origin, Duration::from_secs(5)).unwrap();
        assert!(ground.is_suspended());
        writer.expect_waiting("held");
        let released = held.release().unwrap();
        assert!(!ground.is_suspended() && released.trouble.is_none());
        assert!((300..5000).contains(&released.held.as_millis()), "{released:?}");
        println!(
            "released after {:?}; writing goes on in {:?}",
            released.held,
            writer.expect_writing("released")
        );

        // Nobody releases it, and it lets go all the same.
        let began = Instant::now();
        let held = brake.hold(&ground.origin, Duration::from_millis(700)).unwrap();
        writer.expect_waiting("before the deadline");
        writer.expect_writing("after the deadline");
        println!("let go by itself after {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(5));
        let released = held.release().unwrap();
        assert!(released.trouble.is_none() && released.held >= Duration::from_millis(700), "{released:?}");
        assert!(released.held < Duration::from_secs(5), "{released:?}");

        // A value that goes releases it too.
        drop(brake.hold(&ground.origin, Duration::from_secs(9)).unwrap());
        assert!(!ground.is_suspended());

        // Ten of them in a row: how long it takes to suspend and to resume beside a writer at full speed.
        for _ in 0..10 {
            let began = Instant::now();
            let held = brake.hold(&ground.origin, Duration::from_secs(5)).unwrap();
            let (suspended, began) = (began.elapsed(), Instant::now());
            held.release().unwrap();
            println!("suspended in {suspended:?}, resumed in {:?}", began.elapsed());
            writer.expect_writing("in between");
        }
        writer.stop();
    });
}

/// LVM resumes an origin at the end of each command that changes a snapshot of it. What a writer gets through meanwhile is
/// what the guard must reckon with, so it is printed.
#[test]
fn lab_what_is_resumed_while_it_is_held_is_held_again() {
    const TIMES: u64 = 20;
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let (site, mut brake, writer) = (&ground.site, brake(), ground.writer());
        let held = brake.hold(&ground.origin, MOST_HOLD).unwrap();
        let before = writer.count();
        for _ in 0..TIMES {
            site.control.resume(&ground.origin.to_string()).unwrap();
            site.wait_until("it is held again", || ground.is_suspended());
        }
        let through = writer.count() - before;
        println!("{through} MiB were written while it was resumed {TIMES} times");
        writer.expect_waiting("it is held still");
        let released = held.release().unwrap();
        assert!(released.trouble.is_none() && !ground.is_suspended(), "{released:?}");
        writer.expect_writing("released");
        writer.stop();
        assert!(matches!(ground.state(), State::Valid { .. }), "{:?}", ground.state());
    });
}

#[test]
fn lab_what_is_not_there_or_suspended_by_somebody_else_is_not_held() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let (site, mut brake) = (&ground.site, brake());
        let nobody = asat_host::volume::DeviceUuid { volume: ground.origin.group, ..ground.origin };
        let error = brake.hold(&nobody, Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("there is no device-mapper device"), "{error}");

        // Two can be at it: the second does not take it away from the first.
        machine.run("dmsetup", &["suspend", &site.device("data")]);
        let error = brake.hold(&ground.origin, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(&error, Error::Refused { said, .. } if said.contains("somebody else")), "{error}");
        assert!(ground.is_suspended());
        machine.run("dmsetup", &["resume", &site.device("data")]);
        brake.hold(&ground.origin, Duration::from_secs(1)).unwrap().release().unwrap();

        // Only whole volumes, and only by their UUIDs.
        for part in [
            String::new(),
            site.device("data"),
            format!("{}-real", ground.origin),
            format!("{}x", ground.origin),
        ] {
            for error in [site.control.suspend(&part), site.control.resume(&part)].map(Result::unwrap_err) {
                assert!(matches!(error, dm::Error::NotAVolume(_)), "{part}: {error}");
            }
        }
    });
}

#[test]
fn lab_the_process_lets_go_at_its_bound_at_a_signal_and_with_its_input() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let foreign = ground.make_foreign("other");
        let writer = ground.writer();
        let hold = format!("hold {} {}", ground.origin, u64::MAX);

        // Whatever is asked, there is a bound.
        let mut bare = Bare::start(machine);
        let began = Instant::now();
        assert_eq!(bare.ask(&hold), "held");
        assert_eq!(bare.ask(&hold), "failed a device is held already");
        assert_eq!(bare.ask(&format!("hold {foreign} 1000")), "failed a device is held already");
        assert_eq!(bare.ask(&"x".repeat(5000)), "failed the line is too long");
        writer.expect_waiting("held without end");
        // Whoever goes on asking does not put that off.
        while ground.is_suspended() {
            assert!(bare.ask("hold").starts_with("failed"));
            assert!(began.elapsed() < MOST_HOLD + Duration::from_secs(5));
        }
        println!("the bound was kept after {:?}", began.elapsed());
        assert!(began.elapsed() >= MOST_HOLD);
        writer.expect_writing("after the bound");
        assert!(bare.ask("release").starts_with("released 10"));
        assert_eq!(bare.ask("release"), "failed nothing was held");
        assert!(bare.ask("hold x 1").starts_with("failed the UUID"));

        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            assert_eq!(bare.ask(&hold), "held");
            kill_process(Pid::from_child(&bare.child), signal).unwrap();
            assert!(bare.child.wait().unwrap().success());
            assert!(!ground.is_suspended(), "{signal:?}");
            bare = Bare::start(machine);
        }
        assert_eq!(bare.ask(&hold), "held");
        drop(bare.child.stdin.take());
        assert!(bare.child.wait().unwrap().success());
        assert!(!ground.is_suspended());
        writer.stop();
    });
}
