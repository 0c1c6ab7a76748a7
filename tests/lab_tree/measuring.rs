//! `asat bench reading`: it reads in every way, reports, and leaves nothing.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, in_lab};

#[test]
fn lab_the_benchmark_reads_in_every_way_and_leaves_nothing() {
    in_lab(Lab::new().deadline(Duration::from_secs(180)), |machine| {
        let (dir, out) = (machine.folder("bench"), machine.folder("out").join("report.json"));
        let [dir, out] = [&dir, &out].map(|path| path.to_str().unwrap());
        let arguments = ["bench", "reading", "--versions", "3", "--rows", "200", "--dir", dir, "--out", out];
        let text = machine.run(env!("CARGO_BIN_EXE_asat"), &arguments);
        assert!(text.contains("first query on each version") && text.contains("TARGET"), "{text}");
        let report: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
        let chosen = report["figures"]["chosen"].as_array().unwrap();
        let versions: Vec<_> = chosen.iter().map(|chosen| chosen["version"].as_str().unwrap()).collect();
        assert_eq!(versions, ["report@1", "report@2", "report@3"]);
        for way in chosen.iter().flat_map(|chosen| chosen["ways"].as_array().unwrap()) {
            assert!(way["times"]["ratio"]["median"].as_f64().unwrap() > 0.0, "{way}");
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        // The program itself lies on a mount of the guest's, wherever that is.
        assert!(
            !mounts.lines().any(|mount| mount.contains("asat") && !mount.contains(" hostfs ")),
            "{mounts}"
        );
    });
}
