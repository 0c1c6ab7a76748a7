//! What the guard was doing when the daemon was told to stop is on record.

use crate::lab::{in_lab, wait_until};
use crate::lab_brake::writer::Writer;
use crate::lab_guard::site::{Site, lab};

#[test]
fn lab_what_was_under_way_at_a_stop_is_in_the_guard_s_log() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic(machine, 3);
        site.publish(1..=3, true);
        let writer = Writer::start(&site.ballast, 40, u64::MAX);
        let is_extending =
            || site.capacity()["plan"].as_array().unwrap().iter().any(|step| step["action"] == "extend");
        wait_until("something is extended", is_extending);
        let log = site.end();
        writer.expect_writing("nobody is held any more");
        writer.stop();

        let told =
            log.lines().filter(|line| line.contains("asat::daemon::guard") && line.contains(" action=\""));
        let (ended, begun): (Vec<&str>, Vec<&str>) = told.partition(|line| line.contains(" took_ms="));
        println!("{} actions were begun, and {} have ended", begun.len(), ended.len());
        assert!(!begun.is_empty() && begun.len() == ended.len(), "{log}");
        site.ground.world.start();
        let rows = |number: usize| {
            let why = site.ground.world.get(&format!("/versions/report@{number}/why")).json();
            why["actions"].as_array().unwrap().len()
        };
        assert!((1..=3).map(rows).sum::<usize>() >= ended.len());
        site.check_contents();
    });
}
