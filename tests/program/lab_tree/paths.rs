//! The tree, the store and everything else lie in folders whose names have blanks, letters beyond ASCII, and what means something in
//! the mount table, in a shell and in a URI.

use std::fs;

use crate::common::World;
use crate::lab::{Lab, in_lab};
use crate::lab_tree::without::examined;
use crate::lab_tree::{connect, publish, rows, said, stock};

const ODD: &str = "ö 100%?mode=memory#'&снег ";
/// The kernel's way to write a blank: a folder may have it in its name as it stands.
const BLANK: &str = "\\040";

#[test]
fn lab_a_tree_whose_path_has_odd_characters_is_read_left_behind_and_taken_away() {
    in_lab(Lab::new(), |_| {
        let mut world = World::new();
        world.folder = tempfile::Builder::new().prefix(ODD).tempdir().unwrap();
        world.ground.folder = world.path(ODD);
        let root = world.path(&format!("versions {BLANK}{ODD}"));
        world.config = format!("[fuse]\nroot = '''versions {BLANK}{ODD}'''\n");
        world.sqlite().execute_batch("pragma journal_mode = wal; create table ledger (entry text)").unwrap();
        world.start_under_contract();
        (1..=2).for_each(|version| publish(&world, version));
        for killed in [true, false] {
            for (version, name) in [(1, "report@1"), (2, "report@2"), (2, "latest")] {
                let path = root.join(name).join("report.db");
                assert_eq!(rows(&connect(&path)), version, "{}", path.display());
                assert_eq!(said(&stock(0, &path)), format!("ok {version}"));
            }
            let body = serde_json::json!({ "holder": "test" });
            let opened = world.send("POST", "/versions/report@1/mounts", &body).json();
            assert_eq!(opened["path"].as_str(), root.join("report@1/report.db").to_str());
            let by_uri = std::path::PathBuf::from(opened["uri"].as_str().unwrap());
            assert_eq!(said(&stock(0, &by_uri)), "ok 1");
            assert_eq!(examined(&world).0, "ok", "its own tree is not in the way");
            if killed {
                world.kill();
                world.start_under_contract();
            } else {
                assert!(world.stop().success());
            }
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "it is mounted there no longer");
    });
}
