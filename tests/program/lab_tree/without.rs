//! Where there is no FUSE, versions are read as copies.

use std::fs;

use crate::lab::{Lab, in_lab};
use crate::lab_tree::{at, connect, rows, world};

/// What the doctor says of FUSE: how bad it is, and why.
pub(crate) fn examined(world: &crate::common::World) -> (String, String) {
    let config = world.write_config();
    let said = world.asat(&["doctor", "--json", "--config", config.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let fuse = findings.iter().find(|finding| finding["check"] == "fuse").unwrap();
    let text = |field: &str| fuse[field].as_str().unwrap().to_owned();
    (text("level"), text("what"))
}

#[test]
fn lab_without_fuse_versions_are_read_as_copies_and_everybody_is_told() {
    in_lab(Lab::new(), |_| {
        let mut world = world(1);
        assert_eq!(examined(&world).0, "ok");
        assert_eq!(world.open("report@1"), at(&world, "report@1/report.db"));
        world.stop();
        fs::remove_file("/dev/fuse").unwrap();
        let log = world.start_under_contract();
        assert!(
            log.contains("versions are read as copies") && log.contains("there is no /dev/fuse"),
            "{log}"
        );
        // The lease on the version in the tree goes on with a copy.
        let leased = world.until("report@1", |version| version["path"].is_string());
        assert!(
            leased["path"].as_str().unwrap().starts_with(world.path("state").to_str().unwrap()),
            "{leased}"
        );
        assert_eq!(rows(&connect(&world.open("report@1"))), 1);
        let (level, what) = examined(&world);
        assert!(level == "warning" && what.contains("there is no /dev/fuse"), "{level}: {what}");
        // Nobody who does not ask for a tree needs FUSE.
        world.config.clear();
        assert_eq!(examined(&world).0, "note");
    });
}
