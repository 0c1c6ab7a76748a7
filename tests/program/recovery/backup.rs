//! Where a copy of the catalogue can be, and where not.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::World;
use crate::recovery::{ASAT, asat, catalogues, flip_label, flip_middle, refused, world};

#[test]
fn no_copy_is_made_in_the_state_folder() {
    let mut world = world();
    for runs in [true, false] {
        if !runs {
            assert!(world.stop().success());
        }
        std::os::unix::fs::symlink(world.path("state/archive"), world.path(&format!("link-{runs}"))).unwrap();
        let names = ["state/catalogue.db-journal", "state/archive/copy.db", "state/../state/copy.db"];
        for name in names.map(str::to_owned).into_iter().chain([format!("link-{runs}/copy.db")]) {
            let to = world.path(&name);
            let output = asat(&world, &["backup", to.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(3), "{name}");
            let refusal = refused(&output);
            assert!(refusal.contains("is in the state folder"), "{name}: {refusal}");
            assert!(!to.exists(), "{name}");
        }
    }
    assert_eq!(catalogues(&world), ["catalogue.db", "catalogue.db-newest"]);
}

#[test]
fn a_copy_may_have_any_name_that_a_file_may_have() {
    let world = world();
    let folder = world.path("copies");
    fs::create_dir(&folder).unwrap();
    for name in [":memory:", "file:copy.db", "a copy?mode=memory#%41.db"] {
        let mut command = Command::new(ASAT);
        command.args(["backup", name, "--config"]).arg(world.path("asat.toml"));
        let output = command.current_dir(&folder).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let copy = fs::read(folder.join(name)).unwrap();
        assert!(copy.starts_with(b"SQLite format 3\0"), "{name}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
}

/// Refuses to make a copy of what the daemon would refuse to start with, and leaves nothing where it was to be.
fn check_no_copy(world: &World, said: &str) {
    let folder = world.path("copies");
    fs::create_dir(&folder).unwrap();
    let output = asat(world, &["backup", folder.join("copy.db").to_str().unwrap()]);
    let refusal = refused(&output);
    assert!(output.status.code() == Some(9) && refusal.contains(said), "{refusal}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn no_copy_is_made_where_the_log_has_lost_what_was_acknowledged() {
    let mut world = world();
    world.kill();
    flip_middle(&world.path("state/catalogue.db-wal"));
    check_no_copy(&world, "was acknowledged");
}

#[test]
fn no_copy_is_made_of_records_that_are_not_what_was_committed() {
    let mut world = world();
    assert!(world.stop().success());
    flip_label(&world, "close 3");
    check_no_copy(&world, "its records are not what was committed");
}
