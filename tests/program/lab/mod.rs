//! The lab: a real device-mapper for tests, on a machine that may have none.
//!
//! A test calls [`in_lab`] with what it needs and what it checks. Outside, a guest is booted (a real kernel that runs as
//! ordinary processes, over a throw-away view of this machine's files), and the very same test runs inside it. With
//! `ASAT_LAB=loop` there is no guest: as root on a machine with device-mapper, the check runs directly, with loop
//! devices as its disks. A lab that cannot start fails; it never skips.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs
)]

mod folders;
mod groups;
mod guest;
mod machine;
pub mod needs;
mod processor;
mod runner;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

pub use groups::{Fs, Volume, VolumeGroup};
pub use machine::Machine;
pub use runner::{Lab, Ran, Status};

/// Says where a test is: unset outside, `inside` in a guest, `loop` on a machine with loop devices.
pub const WHERE: &str = "ASAT_LAB";
/// Which boot of the guest this is, from 1.
pub const BOOT: &str = "ASAT_LAB_BOOT";

/// How a check ends its process inside. A test runner that finds no test ends with 0, and that proves nothing.
const PASSED: i32 = 71;
/// More boots than any check wants: one that always cuts its power would never end.
const MOST_BOOTS: u32 = 100;

/// The folder of the whole, whichever of its crates this is compiled into.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap()
}

/// Polls a condition until it holds: of what the kernel and LVM do, a test is told nothing otherwise.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(150);
    while !is_so() {
        assert!(Instant::now() < patience, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs the check where there is a device-mapper; the test that calls this passes if and only if the check did.
///
/// The check must be a closure written in the test itself: its name leads back to the test. Where it cuts its power
/// ([`Machine::cut_power`]), the guest boots again on the same disks and the check runs again, with the next
/// [`Machine::boot`].
pub fn in_lab<Check: Fn(&Machine)>(lab: Lab, check: Check) {
    match std::env::var(WHERE).as_deref() {
        Err(_) => outside(&lab, &test_of::<Check>()),
        Ok("inside") => {
            check(&Machine::guest());
            std::process::exit(PASSED);
        }
        Ok("loop") => check(&Machine::with_loops(&lab)),
        Ok(other) => panic!("{WHERE} is `loop` or is not set; it is `{other}`"),
    }
}

fn outside(lab: &Lab, test: &str) {
    let binary = std::env::current_exe().unwrap();
    let command =
        [binary.to_str().unwrap(), test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"];
    let mut took = Duration::ZERO;
    for boot in 1..=MOST_BOOTS {
        let ran = lab.boot(&command, &[(WHERE, "inside"), (BOOT, &boot.to_string())]);
        took += ran.elapsed;
        match ran.status {
            Status::Exit(PASSED) => {
                println!("{}", ran.text());
                // The test runner keeps back what is printed, but not what is written here.
                let said = format!("{test} took {:.1} s\n", took.as_secs_f64());
                return std::io::stderr().write_all(said.as_bytes()).unwrap();
            }
            Status::Cut => {}
            Status::Exit(0) => panic!("{test} did not call `in_lab` inside\n{ran}"),
            _ => panic!("{test} failed inside: {}\n{ran}", complaint(&ran.text())),
        }
    }
    panic!("{test} cut its power {MOST_BOOTS} times");
}

/// The first panic inside, with what it said, for those who see no more than the beginning of an output.
fn complaint(output: &str) -> String {
    let at = output.find("panicked at ").unwrap_or(output.len());
    let lines = output[at..].lines().take(4).map(|line| line.chars().take(400).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// The name of the test that a closure is written in, as the test runner knows it.
fn test_of<Check>() -> String {
    let name = std::any::type_name::<Check>();
    let name = name.split("::{{closure}}").next().unwrap();
    name.split_once("::").expect("a crate's name comes first").1.to_owned()
}
