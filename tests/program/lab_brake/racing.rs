//! The brake and LVM at once: neither knows what the other is about to do.

use std::time::{Duration, Instant};

use asat_host::lvm::units::Bytes;

use crate::lab::{Lab, in_lab};
use crate::lab_brake::ground::{Ground, MIB, brake};

/// Longer than LVM takes to extend a snapshot.
const HOLD: Duration = Duration::from_secs(9);
/// Between two moments of an extension at which writers come to be held, and how many there are.
const STEP: Duration = Duration::from_millis(4);
const MOMENTS: u32 = 60;

/// LVM looks whether the origin is suspended before it suspends it. Held in between, it cannot be suspended once more.
#[test]
fn lab_an_extension_ends_well_at_whatever_moment_writers_come_to_be_held() {
    in_lab(Lab::new(), |machine| {
        let ground = Ground::make(machine, "384m", 16);
        let (site, mut brake) = (&ground.site, brake());
        // What is under way is waited for, so that with somebody writing it takes a while to suspend a volume.
        let writer = ground.writer();
        for moment in 0..MOMENTS {
            let to = Bytes((20 + 4 * u64::from(moment)) * MIB);
            let (lvm, control, snapshot) = (&site.lvm, &site.control, &ground.snapshot);
            let began = Instant::now();
            std::thread::scope(|scope| {
                let extended = scope.spawn(move || lvm.extend(control, snapshot, to));
                // Not a wait for anything: a moment in the middle of what LVM does.
                std::thread::sleep(STEP * moment);
                let held = brake.hold(&ground.origin, HOLD).unwrap();
                let extended = extended.join().unwrap();
                println!("{moment}: {:?} {:?}", began.elapsed(), held.release().unwrap());
                assert_eq!(extended.unwrap().space, to, "moment {moment}");
            });
            site.wait_until("nobody is held", || !ground.is_suspended());
        }
        writer.stop();
    });
}
