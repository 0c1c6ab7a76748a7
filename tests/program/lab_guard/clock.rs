//! The machine's clock is stepped while the guard works.

use std::time::Duration;

use crate::lab::in_lab;
use crate::lab_brake::writer::Writer;
use crate::lab_guard::ballast::FLOOD_MIB;
use crate::lab_guard::seen::{check_holds, is_lost};
use crate::lab_guard::site::{Site, lab};

#[test]
fn lab_a_clock_that_is_stepped_by_hours_loses_nothing_and_alarms_of_nothing_else() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic(machine, 3);
        site.publish(1..=1, true);
        let writer = Writer::at_pace(&site.ballast, 20, u64::MAX, Duration::from_millis(100));
        for (number, step) in [(2, "+7 hours"), (3, "-14 hours")] {
            machine.run("date", &["-s", step]);
            writer.expect_writing("after the step");
            site.publish(number..=number, true);
            writer.expect_writing("after the publication");
            println!("{step}: looked at {}, alarms {:?}", site.capacity()["looked_at"], site.alarms());
        }
        site.archived(1..=3);
        writer.stop();
        println!("{FLOOD_MIB} MiB written in {:?}", site.flood());
        let states = site.states();
        let cut: Vec<&str> = states.iter().map(|(version, _)| version["cut_at"].as_str().unwrap()).collect();
        println!("newest first: {cut:?}");
        assert!(cut.is_sorted_by(|newer, older| newer > older), "{cut:?}");
        // Nothing goes by the steps, instants neither.
        let instant = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        let all = instant(cut[0]).duration_since(instant(cut[cut.len() - 1]));
        assert!(all < jiff::SignedDuration::from_mins(30), "{cut:?}");
        for (version, status) in &states {
            assert!(status.as_ref().is_some_and(|status| !is_lost(status)), "{status:?} {version:#}");
        }
        site.check_contents();
        let log = site.end();
        let alarms: Vec<&str> = log.lines().filter(|line| line.contains(" alarm=")).collect();
        assert!(
            !alarms.is_empty() && alarms.iter().all(|line| line.contains("clock wall: doubted")),
            "{log}"
        );
        check_holds(&log);
    });
}
