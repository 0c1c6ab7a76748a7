//! Whoever holds the brake dies or stands still, and the writer goes on.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use asat_host::brake::Trouble;
use asat_host::volume::stack::parse_uuid;
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, in_lab};
use crate::lab_brake::ground::{Ground, brake};

/// Longer than the test waits: what goes on before did not wait for the deadline.
const LONG: Duration = Duration::from_secs(9);
const SOON: Duration = Duration::from_secs(4);
/// Says which device the helper below holds.
const DEVICE: &str = "ASAT_TEST_DEVICE";

fn signal(process: Option<u32>, signal: Signal) {
    let id = i32::try_from(process.unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

#[test]
fn lab_the_brake_lets_go_when_its_parent_is_killed() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let writer = ground.writer();
        let mut parent = machine.command(std::env::current_exe().unwrap().to_str().unwrap());
        parent.args(["lab_brake::failing::lab_that_holds", "--exact", "--ignored", "--nocapture"]);
        let mut parent =
            parent.env(DEVICE, ground.origin.to_string()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !said.ends_with(b"it is held") {
            parent.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            said.push(byte[0]);
        }
        writer.expect_waiting("held");
        parent.kill().unwrap();
        let took = writer.expect_writing("the parent is dead");
        println!("writing goes on {took:?} after the parent was killed");
        assert!(took < SOON, "{took:?}");
        parent.wait().unwrap();
        writer.stop();
    });
}

/// Only for the test above.
#[test]
#[ignore = "it holds a device until it is killed"]
fn lab_that_holds() {
    let device = parse_uuid(&std::env::var(DEVICE).unwrap()).unwrap();
    let mut brake = brake();
    let _held = brake.hold(&device, LONG).unwrap();
    println!("it is held");
    loop {
        std::thread::park();
    }
}

#[test]
fn lab_the_parent_resumes_when_the_brake_is_killed_or_stopped() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let (writer, mut brake) = (ground.writer(), brake());
        for (how, sent) in [("killed", Signal::KILL), ("stopped", Signal::STOP)] {
            let process = brake.process_id();
            let began = Instant::now();
            let held = brake.hold(&ground.origin, LONG).unwrap();
            signal(process, sent);
            writer.expect_waiting(how);
            let asked = Instant::now();
            let released = held.release().unwrap();
            println!("{how}: {released:?}, resumed {:?} after it was asked", asked.elapsed());
            assert!(matches!(released.trouble, Some(Trouble::Ended | Trouble::Silent(_))), "{released:?}");
            assert!(!ground.is_suspended() && began.elapsed() < SOON);
            writer.expect_writing(how);
            assert_eq!(brake.process_id(), None);

            // The next hold has a process of its own.
            let held = brake.hold(&ground.origin, LONG).unwrap();
            writer.expect_waiting("held by another process");
            assert!(held.release().unwrap().trouble.is_none());
            assert_ne!(brake.process_id(), process);
        }

        // It dies while nothing is held, and nobody is told of it.
        signal(brake.process_id(), Signal::KILL);
        ground.site.wait_until("it is dead", || {
            let process = format!("/proc/{}", brake.process_id().unwrap());
            let status = std::fs::read_to_string(format!("{process}/stat"));
            // Its pipe is open until the last of its threads has ended, too.
            let threads = std::fs::read_dir(format!("{process}/task")).map_or(0, Iterator::count);
            threads <= 1 && status.is_ok_and(|status| status.contains(") Z "))
        });
        assert!(brake.hold(&ground.origin, LONG).unwrap().release().unwrap().trouble.is_none());

        // It stands still before it is asked: nothing is held, and the next hold works.
        signal(brake.process_id(), Signal::STOP);
        let began = Instant::now();
        let error = brake.hold(&ground.origin, Duration::from_millis(500)).unwrap_err();
        println!("stopped before: after {:?}: {error}", began.elapsed());
        assert!(began.elapsed() < SOON && !ground.is_suspended());
        writer.expect_writing("nothing is held");
        assert!(brake.hold(&ground.origin, LONG).unwrap().release().unwrap().trouble.is_none());
        writer.stop();
    });
}
