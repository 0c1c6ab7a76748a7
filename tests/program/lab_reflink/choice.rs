//! Which stores are cloned where nobody has chosen, and what `asat doctor` says of them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use asat_core::snapshot::BackendKind;
use asat_host::clones::MANY_PIECES;
use serde_json::Value;

use crate::common::World;
use crate::lab::{Machine, in_lab};
use crate::lab_reflink::site;

/// What the doctor found of the store, by check.
fn found(machine: &Machine, config: &Path, check: &str) -> (String, String) {
    let mut command = machine.command(env!("CARGO_BIN_EXE_asat"));
    let output = command.args(["doctor", "--json", "--config"]).arg(config).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let wanted = findings.iter().find(|f| f["subject"] == "report" && f["check"] == check);
    let finding = wanted.unwrap_or_else(|| panic!("no {check} in {report:#}"));
    let text = |key: &str| finding[key].as_str().unwrap().to_owned();
    (text("level"), text("what"))
}

/// The backend that the daemon has chosen.
fn chosen(world: &mut World) -> String {
    world.start();
    let backend = world.get("/stores").json()["stores"][0]["backend"].as_str().unwrap().to_owned();
    assert!(world.stop().success());
    backend
}

#[test]
fn lab_a_large_store_is_cloned_where_it_can_be_and_a_small_one_is_read() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        world.store_config.clear();
        assert_eq!(chosen(&mut world), "pages");
        let (level, what) = found(machine, &world.write_config(), "backend");
        assert!(level == "note" && what.starts_with("cut by pages"), "{level}: {what}");
        // It is one file of many bytes, few of which are anywhere.
        File::options()
            .write(true)
            .open(world.store())
            .unwrap()
            .set_len(BackendKind::LEAST_FOR_CLONES)
            .unwrap();
        assert_eq!(chosen(&mut world), "reflink");
        let (level, what) = found(machine, &world.write_config(), "backend");
        assert!(
            level == "ok" && what.starts_with("cut by reflink, since reading its 1.0 GiB"),
            "{level}: {what}"
        );
        assert_eq!(found(machine, &world.write_config(), "pieces").0, "ok");
        // The clones would be on another file system.
        let elsewhere = machine.folder("elsewhere");
        world.store_config = format!("clones = \"{}\"", elsewhere.display());
        assert_eq!(chosen(&mut world), "pages");
        let (_, what) = found(machine, &world.write_config(), "backend");
        assert!(what.contains("and no clones:") && what.contains("is on another file system"), "{what}");
        world.store_config += "\nbackend = \"reflink\"";
        assert_eq!(chosen(&mut world), "none");
        let (level, what) = found(machine, &world.write_config(), "backend");
        assert!(level == "problem" && what.contains("is on another file system"), "{level}: {what}");
    });
}

#[test]
fn lab_the_doctor_warns_of_a_store_in_very_many_pieces() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let world = site::world(machine, &ground);
        assert_eq!(found(machine, &world.write_config(), "pieces").0, "ok");
        // Every second block is a hole.
        let file = File::options().write(true).open(world.store()).unwrap();
        for piece in 1..=u64::from(MANY_PIECES) {
            file.write_all_at(&[1; 4096], piece * 8192).unwrap();
        }
        file.sync_all().unwrap();
        let (level, what) = found(machine, &world.write_config(), "pieces");
        assert!(level == "warning" && what.contains("half a second"), "{level}: {what}");
    });
}
