//! The benchmarks that need no volume and no mount, at a small size: each reports all that it measures, and leaves nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs a benchmark; answers its report.
fn bench(arguments: &[&str]) -> Value {
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
    let (dir, out) = (folder.path().join("bench"), folder.path().join("report.json"));
    fs::create_dir(&dir).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat-bench"));
    command.args(arguments).arg("--dir").arg(&dir).arg("--out").arg(&out);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is left");
    let report: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    let (text, targets) = (String::from_utf8(output.stdout).unwrap(), report["targets"].as_array().unwrap());
    assert!(!targets.is_empty() && text.contains("TARGET"), "{text}");
    for target in targets {
        assert!(text.contains(target["what"].as_str().unwrap()), "{target}: {text}");
    }
    report
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn an_idle_daemon_is_measured_without_watch_mode_and_with_it() {
    let report = bench(&["idle", "--versions=3", "--size=1MB", "--seconds=1"]);
    let figures = &report["figures"];
    assert_eq!(figures["versions"], 3);
    for kind in ["unwatched", "watched"] {
        let idle = &figures[kind];
        assert!(number(&idle["resident_bytes"]) > 1e6 && number(&idle["seconds"]) >= 1.0, "{report:#}");
        assert!(number(&idle["looks"]) >= 1.0, "its guard looks: {report:#}");
        assert!(number(&idle["processor_percent"]) < 100.0, "{report:#}");
    }
}

#[test]
fn peers_are_measured_on_the_same_work_and_give_back_what_they_kept() {
    let document = tempfile::tempdir().unwrap();
    let path = document.path().to_str().unwrap();
    let options = ["--publications=3", "--rows=200", "--also-on=xfs,btrfs", "--document", path];
    let report = bench(&[&["compare"], &options[..]].concat());
    let figures = &report["figures"];
    let names = |compared: &Value, of: &str| -> Vec<String> {
        let each = compared[of].as_array().unwrap().iter();
        each.map(|peer| peer["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(figures, "peers")[..4], ["asat", "cp", "sqlite3 .backup", "VACUUM INTO"]);
    let sharing = figures["sharing"].as_array().unwrap();
    for peer in sharing.iter().chain([figures]).flat_map(|compared| compared["peers"].as_array().unwrap()) {
        for figure in ["writer", "kept_after_ms", "first_answer_ms"] {
            assert!(number(&peer[figure]["median"]) > 0.0, "{figure}: {peer:#}");
        }
        assert!(number(&peer["kept_bytes"]) > 0.0, "{peer:#}");
    }
    // Who is not here is named, and so is a file system that cannot be made here.
    assert!(names(figures, "missing").contains(&"Litestream".to_owned()), "{report:#}");
    assert_eq!(sharing.len(), 2);
    for (compared, name) in sharing.iter().zip(["xfs", "btrfs"]) {
        assert_eq!(compared["file_system"], name);
        let is_here = names(compared, "peers").starts_with(&["asat".to_owned(), "cp --reflink".to_owned()]);
        assert!(is_here || names(compared, "missing") == [name], "{report:#}");
    }
    let text = fs::read_to_string(document.path().join("compare.md")).unwrap();
    assert!(text.contains("| asat |") && text.contains("- Litestream: "), "{text}");
    for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        assert!(fs::read_to_string(document.path().join(link)).unwrap().contains("</svg>"), "{link}");
    }
}

#[test]
fn a_follower_is_measured_with_and_without_encryption() {
    for encrypt in [&[][..], &["--encrypt", "--again"]] {
        let options = ["follow", "--versions=5", "--publications=2", "--seconds=1", "--size=1MB"];
        let report = bench(&[&options, encrypt].concat());
        let figures = &report["figures"];
        assert_eq!(figures["is_encrypted"], !encrypt.is_empty());
        for figure in ["stored_all_ms", "stored_all_requests", "stored_requests_each", "start_requests"] {
            assert!(number(&figures[figure]) > 0.0, "{figure}: {report:#}");
        }
    }
}

#[test]
fn lists_are_measured_alone_and_beside_publications() {
    let options = ["--versions=300", "--requests=3", "--clients=4", "--seconds=1", "--rate=40"];
    let report = bench(&[&["listing"], &options[..]].concat());
    let busy = &report["figures"]["while_publishing"];
    for kind in ["first", "through", "paced"] {
        let (pages, waited) = (&busy[kind]["pages"], &busy[kind]["pages"]["waited_ms"]);
        assert!(number(&pages["answers"]) > 0.0 && number(&busy[kind]["publications"]) > 0.0, "{report:#}");
        assert!(number(&waited["median"]) <= number(&waited["p99"]), "{report:#}");
    }
    // The pace of all together, and no more.
    assert!(number(&busy["paced"]["pages"]["answers"]) <= 44.0, "{report:#}");
}

#[test]
fn publications_of_what_has_not_changed_are_measured_and_found_again() {
    let report = bench(&["publishing", "--seconds=1", "--rounds=1"]);
    let figures = &report["figures"];
    assert_eq!(figures["answered"], figures["found"], "{report:#}");
    for kind in ["healthz", "same", "new_alone", "new_many"] {
        assert!(number(&figures[kind][0]["answers"]) > 0.0, "{kind}: {report:#}");
    }
}

#[test]
fn a_daemon_with_much_to_do_is_measured_beside_one_with_little() {
    let options = ["--stores=3", "--leases=4", "--readers=9", "--versions=2", "--rounds=2", "--seconds=1"];
    let report = bench(&[&["scale", "--size=100KiB"], &options[..]].concat());
    let figures = &report["figures"];
    for (kind, times) in
        [("stores", ["publish", "publish_another", "ready"]), ("leases", ["take", "list", "give_back"])]
    {
        for time in times {
            let time = &figures[kind][time];
            assert!(number(&time["few_ms"]["median"]) > 0.0 && number(&time["many_ms"]["median"]) > 0.0);
            assert!(number(&time["ratio"]["median"]) > 0.0, "{report:#}");
        }
        for alone in ["few", "many"].map(|daemon| &figures[kind]["idle"][daemon]) {
            assert!(number(&alone["resident_bytes"]) > 1e6 && number(&alone["seconds"]) >= 1.0, "{report:#}");
        }
    }
    let rates = figures["readers"]["copies"].as_array().unwrap();
    assert_eq!(rates.iter().map(|rate| &rate["readers"]).collect::<Vec<_>>(), [1, 8, 9]);
    assert!(rates.iter().all(|rate| number(&rate["per_second"]) > 0.0), "{report:#}");
}

#[test]
fn without_the_program_beside_it_nothing_is_measured() {
    let own = Path::new(env!("CARGO_BIN_EXE_asat-bench"));
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir_in(own.parent().unwrap()).unwrap();
    let alone = folder.path().join("asat-bench");
    fs::hard_link(own, &alone).unwrap();
    let output = Command::new(&alone).arg("idle").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains(&format!("no program {}", folder.path().join("asat").display())), "{said}");
}
