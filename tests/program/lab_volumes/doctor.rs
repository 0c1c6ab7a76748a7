//! What `asat doctor` says of stores on volumes, and how it ends.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::lab::{Lab, Machine, in_lab};
use crate::lab_volumes::site::Site;

fn doctor(machine: &Machine, config: &Path) -> Output {
    let mut command = machine.command(env!("CARGO_BIN_EXE_asat"));
    command.args(["doctor", "--json", "--config"]).arg(config).output().unwrap()
}

/// What was found by a check of a group, of one subject where the group has several.
fn found<'a>(report: &'a Value, group: &str, subject: Option<&str>, check: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    let wanted = |finding: &&Value| {
        (finding["group"].as_str(), finding["subject"].as_str(), finding["check"].as_str())
            == (Some(group), subject, Some(check))
    };
    findings.iter().find(wanted).unwrap_or_else(|| panic!("no {group} {subject:?} {check} in {report:#}"))
}

#[test]
fn lab_the_doctor_knows_volumes_and_what_is_wrong() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "64m");
        site.thin("pool", "64m", "thin", "100m");
        let (on_data, on_thin) = (site.formatted("data"), site.formatted("thin"));
        let stores = [on_data.at.join("a.db"), on_thin.at.join("b.db")];
        for store in &stores {
            fs::write(store, "a store's content is not looked at").unwrap();
        }
        let folder = machine.folder("etc");
        let config = folder.join("asat.toml");
        let write = |state: &Path, second: &Path| {
            let text = format!(
                "state = {state:?}\nlisten.unix = \"asat.sock\"\n[[store]]\nname = \"a\"\npath = {:?}\n\
                 [[store]]\nname = \"b\"\npath = {second:?}\n",
                stores[0]
            );
            fs::write(&config, text).unwrap();
        };

        write(&on_thin.at.join("state"), &stores[1]);
        let output = doctor(machine, &config);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        println!("{report:#}");
        assert!(output.status.success() && report["ok"] == true && output.stderr.is_empty(), "{output:?}");
        let kept = |store| found(&report, "store", Some(store), "backend")["what"].as_str().unwrap();
        assert_eq!(
            kept("a"),
            format!("cut by lvm-classic: snapshots of the plain volume {}", site.of("data"))
        );
        // The state folder would lie on the same volume.
        let thin = site.of("thin");
        assert_eq!(kept("b"), format!("no snapshot can be taken of {thin}: the state folder lies on it too"));
        let room = found(&report, "store", Some("a"), "room-for-snapshots");
        assert!(room["what"].as_str().unwrap().contains("are free in the group"), "{room}");
        let mapper = found(&report, "machine", None, "device-mapper");
        assert!(mapper["what"].as_str().unwrap().contains("version 4."), "{mapper}");
        let lvm = found(&report, "machine", None, "lvm")["what"].as_str().unwrap();
        assert!(lvm.contains(&site.lvm.version().to_string()), "{lvm}");
        for check in ["snapshot-modules", "lvm-monitor", "thin-delta"] {
            assert_eq!(found(&report, "machine", None, check)["level"], "ok", "{report:#}");
        }
        // The state folder would lie beside the store `b`, and has not the room that copies may take.
        let apart = found(&report, "state", None, "apart");
        assert_eq!(
            (&apart["level"], apart["what"].as_str().unwrap().ends_with("store b")),
            (&"warning".into(), true)
        );
        assert_eq!(found(&report, "state", None, "room-for-copies")["level"], "warning");
        assert!(!on_thin.at.join("state").exists(), "the doctor has made something");

        write(&machine.folder("state"), &on_thin.at);
        let output = doctor(machine, &config);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["ok"], &report["problems"]), (&false.into(), &1.into()));
        assert_eq!(found(&report, "store", Some("b"), "file")["level"], "problem");
        assert_eq!(found(&report, "state", None, "apart")["level"], "ok");

        // The last lines of the configuration are the store's.
        for (keep, kind, room) in [(0, "lvm-classic", "are free in the group"), (1, "lvm-thin", "has used")] {
            write(&machine.folder("state"), &stores[1]);
            let text = fs::read_to_string(&config).unwrap() + &format!("keep_snapshots = {keep}\n");
            fs::write(&config, text).unwrap();
            let report: Value = serde_json::from_slice(&doctor(machine, &config).stdout).unwrap();
            let said = |check| found(&report, "store", Some("b"), check)["what"].as_str().unwrap();
            assert_eq!(
                said("backend"),
                format!("cut by {kind}: snapshots of the thin volume {}", site.of("thin"))
            );
            assert!(said("room-for-snapshots").contains(room), "{report:#}");
        }
    });
}
