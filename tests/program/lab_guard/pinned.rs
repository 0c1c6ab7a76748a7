//! No space left, and no version that may go: the store lives on, and somebody is told.

use std::time::Duration;

use serde_json::json;

use crate::lab::{in_lab, wait_until};
use crate::lab_brake::writer::Writer;
use crate::lab_guard::ballast::FLOOD_MIB;
use crate::lab_guard::seen::is_lost;
use crate::lab_guard::site::{Site, lab};

#[test]
fn lab_where_all_is_pinned_and_no_space_is_left_nothing_pinned_is_given_up_and_the_store_goes_on() {
    in_lab(lab(), |machine| {
        // What nobody holds may go for the sake of what is younger: but everything is held.
        let mut site = Site::classic_with(machine, 4, "space_before_retention = true");
        // Space gets short when all are pinned: the guard may take a snapshot of an archived version before.
        site.publish(1..=3, true);
        site.archived(1..=3);
        site.leave_free(64);
        site.hold_up_archiving();
        site.publish(4..=4, true);

        let pace = Duration::from_millis(50);
        let writer = Writer::at_pace(&site.ballast, FLOOD_MIB as u64, 1, pace);
        wait_until("an alarm says so", || site.alarms().iter().any(|key| key.ends_with(": short")));
        println!("{:#}", site.capacity()["alarms"]);
        let answer = site.ground.world.send("POST", "/snapshots", &json!({}));
        let refused = answer.expect_problem(507, "storage_full");
        println!("{}\n    {}", refused["detail"], refused["hint"]);
        wait_until("it is done", || writer.is_done());
        println!("a write took {:?} at the longest", writer.longest());
        writer.join();

        let lost =
            site.states().iter().filter(|(_, status)| status.as_ref().is_none_or(|s| is_lost(s))).count();
        println!("{lost} of 4 snapshots were full");
        wait_until("it is known what is lost", || site.state(4) == "lost ");
        println!("{}", site.version(4)["end_reason"]);
        for number in 1..=3 {
            wait_until("archived ones lost their snapshots only", || site.state(number) == "ready archive");
        }
        // The store takes writes, and its next version.
        site.let_archiving_go_on();
        site.publish(5..=5, false);
        site.archived(5..=5);
        site.check_contents();
        let log = site.end();
        assert!(!log.contains("action=\"retire\""), "{log}");
    });
}
