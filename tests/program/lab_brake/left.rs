//! What is left suspended is resumed, and what somebody else suspended is not.

use std::path::Path;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use asat_host::brake::{self, RECORDS};
use asat_host::dm::Control;
use asat_host::volume::DeviceUuid;

use crate::lab::{Lab, in_lab};
use crate::lab_brake::ground::{Ground, program};
use crate::lab_volumes::site::Site;

fn let_go(control: &Control) -> Vec<String> {
    brake::let_go(control, Path::new(RECORDS)).unwrap()
}

#[test]
fn lab_only_what_a_brake_could_have_left_is_resumed() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let (site, control) = (&ground.site, &ground.site.control);
        ground.make_foreign("other");
        site.classic("alone", "8m");
        assert_eq!(let_go(control), Vec::<String>::new());

        let writer = ground.writer();
        let foreign =
            [site.device("other"), site.device("alone"), site.device(ground.snapshot.name().as_str())];
        for device in &foreign {
            machine.run("dmsetup", &["suspend", device]);
        }
        control.suspend(&ground.origin.to_string()).unwrap();
        writer.expect_waiting("left behind");
        let began = Instant::now();
        let said = machine.run(program().to_str().unwrap(), &["brake", "--let-go"]);
        println!("{} in {:?}", said.trim(), began.elapsed());
        assert_eq!(said.trim(), format!("resumed: {}", site.device("data")));
        writer.expect_writing("resumed");
        for (device, volume) in foreign.iter().zip(["other", "alone", ground.snapshot.name().as_str()]) {
            assert!(site.status(volume).suspended, "{device}");
        }
        let began = Instant::now();
        assert_eq!(let_go(control), Vec::<String>::new());
        println!("with nothing to do in {:?}", began.elapsed());
        for device in &foreign {
            machine.run("dmsetup", &["resume", device]);
        }
        writer.stop();
    });
}

/// A volume that shows by nothing that it was held: it is thin, or its last snapshot has gone meanwhile.
#[test]
fn lab_what_is_written_down_is_resumed_whatever_it_is() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.thin("pool", "64m", "thin", "32m");
        site.classic("plain", "16m");
        for name in ["thin", "plain"] {
            let volume = site.volume(name);
            let uuid = DeviceUuid { group: volume.group_uuid, volume: volume.uuid };
            site.control.suspend(&uuid.to_string()).unwrap();
            assert_eq!(let_go(&site.control), Vec::<String>::new());
            assert!(site.status(name).suspended, "{name} was resumed by nobody's word");
            brake::write_down(Path::new(RECORDS), &uuid).unwrap();
            assert_eq!(let_go(&site.control), [site.device(name)]);
            assert!(!site.status(name).suspended, "{name}");
            // It is nobody's business any more.
            site.control.suspend(&uuid.to_string()).unwrap();
            assert_eq!(let_go(&site.control), Vec::<String>::new());
            site.control.resume(&uuid.to_string()).unwrap();
        }
    });
}

/// Somebody who suspends for a moment is not disturbed, however often.
#[test]
fn lab_a_device_that_is_suspended_now_and_then_is_left_alone() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        let ground = Ground::make(machine, "64m", 32);
        let (control, uuid) = (&ground.site.control, ground.origin.to_string());
        let (done, over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let theirs = &uuid;
            let somebody = scope.spawn(move || {
                let mut times = 0;
                while over.try_recv() == Err(TryRecvError::Empty) {
                    control.suspend(theirs).unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                    assert!(control.is_suspended(theirs).unwrap(), "somebody else resumed it");
                    control.resume(theirs).unwrap();
                    std::thread::sleep(Duration::from_millis(25));
                    times += 1;
                }
                times
            });
            for _ in 0..20 {
                ground.site.wait_closely("it is suspended", || ground.is_suspended());
                assert_eq!(let_go(control), Vec::<String>::new());
            }
            drop(done);
            let times = somebody.join().unwrap();
            println!("suspended {times} times");
            assert!(times >= 20, "{times}");
        });
    });
}
