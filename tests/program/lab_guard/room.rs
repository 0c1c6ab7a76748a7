//! A publication for which the group has no room: a snapshot that is kept for convenience only makes room for it.

use serde_json::json;

use crate::lab::in_lab;
use crate::lab_guard::site::{CALM, Site, lab};

#[test]
fn lab_the_oldest_kept_snapshots_make_room_for_a_new_version_and_what_is_needed_does_not() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic_with(machine, 3, CALM);
        // Room for three snapshots of 64 MiB.
        site.leave_free(200);
        site.publish(1..=3, false);
        site.archived(1..=3);
        site.pin(1);
        site.publish(4..=4, false);
        let states = || (1..=4).map(|number| site.state(number)).collect::<Vec<_>>();
        println!("{:?}", states());
        assert_eq!(site.state(1), "ready snapshot+archive", "it is pinned hot");
        assert_eq!(site.state(2), "ready archive", "the oldest that nobody needs");
        assert_eq!(site.state(3), "ready snapshot+archive");
        site.archived(4..=4);

        // Nothing goes where that would not be enough, or where it may not.
        site.pin(3);
        site.pin(4);
        let before = states();
        site.ground.world.sqlite().execute("insert into t values (5)", ()).unwrap();
        let answer = site.ground.world.send("POST", "/snapshots", &json!({ "label": "5" }));
        println!("{}", answer.expect_problem(507, "storage_full")["detail"]);
        assert_eq!(states(), before);
        site.check_contents();
        let log = site.end();
        assert!(log.contains("report@2") && log.contains("make room"), "{log}");
    });
}
