//! What all of it is for: a classic snapshot beside a writer at full speed, with the brake, and without.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use asat_host::brake::{Brake, Error};
use asat_host::dm::target::Snapshot as State;
use asat_host::lvm::units::Bytes;

use crate::lab::{Lab, in_lab};
use crate::lab_brake::ground::{Ground, MIB, OVER_AND_OVER, brake};
use crate::lab_brake::writer::{BLOCK, Writer};

/// What is written, in MiB.
const WRITTEN: u64 = 512;
/// The snapshot's space at first, and what it gets each time, in MiB.
const SPACE: u64 = 64;
const STEP: u64 = 128;
/// How full it may be, in percent.
const LEVEL: u64 = 75;
/// How long one hold may last.
const MOST: Duration = Duration::from_secs(5);
/// A look at the state takes a fraction of this.
const TICK: Duration = Duration::from_millis(1);

/// Writes all of it, and has the snapshot extended at the level, by whoever answers its new space in MiB, until that is
/// more than what is written. Answers the snapshot's state at the end.
fn write_beside(ground: &Ground<'_>, mut extend: impl FnMut(u64) -> u64) -> State {
    let began = Instant::now();
    let writer = Writer::start(&ground.device(), WRITTEN * MIB / BLOCK, 1);
    let mut space = SPACE;
    while !writer.is_done() {
        match ground.state() {
            State::Valid { used, .. } if space < WRITTEN && used.0 / 2048 * 100 >= space * LEVEL => {
                println!("  {} of {space} MiB used, {} MiB written", used.0 / 2048, writer.count());
                space = extend(space);
            }
            _ => std::thread::sleep(TICK),
        }
    }
    println!("  written in {:?}, longest wait {:?}", began.elapsed(), writer.longest());
    writer.stop();
    ground.state()
}

fn with_the_brake(ground: &Ground<'_>, brake: &mut Brake, space: u64) -> u64 {
    let began = Instant::now();
    let held = brake.hold(&ground.origin, MOST).unwrap();
    let (suspended, began) = (began.elapsed(), Instant::now());
    let site = &ground.site;
    let extended =
        site.lvm.extend(&site.control, &ground.snapshot, Bytes((space + STEP) * MIB)).unwrap().space;
    let took = began.elapsed();
    let released = held.release().unwrap();
    println!("  suspended in {suspended:?}; lvextend took {took:?}; {released:?}");
    assert!(released.trouble.is_none() && released.held < MOST, "{released:?}");
    assert!(extended.0 > space * MIB, "{extended}");
    extended.0 / MIB
}

#[test]
fn lab_a_snapshot_beside_a_writer_at_full_speed_survives_with_the_brake() {
    in_lab(Lab::new().disks(1, "1536M"), |machine| {
        let ground = Ground::make(machine, "520m", SPACE);
        let mut brake = brake();
        let mut times = 0;
        let state = write_beside(&ground, |space| {
            times += 1;
            with_the_brake(&ground, &mut brake, space)
        });
        println!("  {state:?} after {times} extensions");
        assert!(matches!(state, State::Valid { used, .. } if used.0 / 2048 >= WRITTEN), "{state:?}");
        expect_old(&ground, WRITTEN);
    });
}

/// The same without: else the test above would show nothing.
#[test]
fn lab_a_snapshot_beside_a_writer_at_full_speed_is_lost_without() {
    in_lab(Lab::new().disks(1, "1536M"), |machine| {
        let ground = Ground::make(machine, "520m", SPACE);
        // Nobody extends it, though it is looked at.
        write_beside(&ground, |_| WRITTEN);
        // The kernel gives it up beside the write, a moment later.
        ground.site.wait_until("the snapshot is lost", || ground.state() == State::Invalid);
    });
}

/// The brake lets go while LVM works, or LVM is done first: whichever of them resumes the device, it happens at one moment
/// or another of what the other does.
#[test]
fn lab_a_hold_that_ends_amid_an_extension_harms_nothing() {
    in_lab(Lab::new().disks(1, "1536M"), |machine| {
        let ground = Ground::make(machine, "520m", SPACE);
        let (site, mut brake, writer) = (&ground.site, brake(), ground.writer());
        let mut holds = 0;
        for round in 1..=15 {
            let most = Duration::from_millis(20 + 8 * round);
            let held = match brake.hold(&ground.origin, most) {
                Ok(held) => held,
                // On a busy machine the shortest ones are over before the device is suspended.
                Err(Error::Refused { said, .. }) if said.contains("took longer") => continue,
                Err(error) => panic!("{error}"),
            };
            holds += 1;
            let (to, began) = (Bytes((SPACE + 4 * round) * MIB), Instant::now());
            assert_eq!(site.lvm.extend(&site.control, &ground.snapshot, to).unwrap().space, to);
            let took = began.elapsed();
            let released = held.release().unwrap();
            println!("  held for {most:?} at most, and {:?}; extended in {took:?}", released.held);
            assert!(!ground.is_suspended() && released.trouble.is_none());
            writer.expect_writing("released");
        }
        writer.stop();
        assert!(holds > 0);
        assert!(matches!(ground.state(), State::Valid { .. }), "{:?}", ground.state());
        expect_old(&ground, OVER_AND_OVER);
    });
}

/// LVM's records may be ahead of the kernel, and LVM refuses to extend to what it has recorded already.
#[test]
fn lab_space_that_the_kernel_does_not_use_yet_is_had_by_extending_to_it() {
    in_lab(Lab::new().disks(1, "1536M"), |machine| {
        let ground = Ground::make(machine, "520m", SPACE);
        let site = &ground.site;
        let (to, longer) = (Bytes((SPACE + 4) * MIB), Bytes((SPACE + 8) * MIB));
        let cow = format!("{}-cow", ground.snapshot.group().device_name(ground.snapshot.name()));
        let before = machine.run("dmsetup", &["table", &cow]);
        for held in [None, Some(brake())] {
            assert_eq!(site.lvm.extend(&site.control, &ground.snapshot, to).unwrap().space, to);
            machine.run("dmsetup", &["reload", &cow, "--table", before.trim()]);
            machine.run("dmsetup", &["resume", &cow]);
            assert!(matches!(ground.state(), State::Valid { total, .. } if total.0 == SPACE * 2048));
            let mut brake = held;
            let hold = brake.as_mut().map(|brake| brake.hold(&ground.origin, MOST).unwrap());
            assert_eq!(site.lvm.extend(&site.control, &ground.snapshot, to).unwrap().space, to);
            assert!(hold.is_none_or(|hold| hold.release().unwrap().trouble.is_none()));
            assert!(!ground.is_suspended());
            machine.run("dmsetup", &["reload", &cow, "--table", before.trim()]);
            machine.run("dmsetup", &["resume", &cow]);
        }
        assert_eq!(site.lvm.extend(&site.control, &ground.snapshot, longer).unwrap().space, longer);
        ground.writer().stop();
        assert!(matches!(ground.state(), State::Valid { .. }), "{:?}", ground.state());
    });
}

/// The snapshot has what the volume had before anything was written: the new disk's zeros.
fn expect_old(ground: &Ground<'_>, mib: u64) {
    let name = ground.snapshot.name().as_str();
    let device = |name: &str| File::open(Path::new("/dev").join(ground.site.of(name))).unwrap();
    let (mut old, mut new) = (vec![1; 1 << 20], vec![1; 1 << 20]);
    let (mut snapshot, mut origin) = (device(name), device("data"));
    for at in 0..mib {
        snapshot.read_exact(&mut old).unwrap();
        origin.read_exact(&mut new).unwrap();
        assert!(old.iter().all(|&byte| byte == 0), "MiB {at} of the snapshot has changed");
        assert!(new.iter().all(|&byte| byte == b'n'), "MiB {at} was not written");
    }
}
