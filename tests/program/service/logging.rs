//! The journal: lines with fields, by which they are found.

use serde_json::Value;

use crate::nspawn::{in_machine, run};
use crate::service::site::{asat, config, configure, install};

/// What the journal has of the service by these matches, oldest first.
fn journal(matches: &[&str]) -> Vec<Value> {
    run("journalctl", &["--sync"]);
    let arguments = [&["--no-pager", "--output=json", "--unit=asat.service"], matches].concat();
    let lines = run("journalctl", &arguments);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn publish(request: &str) {
    let socket = ["--fail", "--silent", "--show-error", "--unix-socket", "/run/asat/asat.sock"];
    let named = format!("X-Request-Id: {request}");
    let rest = ["-H", &named, "-H", "Content-Type: application/json", "-d", "{}", "http://asat/snapshots"];
    run("curl", &[&socket[..], &rest].concat());
}

#[test]
fn nspawn_lines_in_the_journal_are_found_by_version_and_by_request() {
    in_machine(|| {
        install();
        run("systemctl", &["start", "asat"]);
        publish("close-4711");
        for found in [journal(&["VERSION=report@1"]), journal(&["REQUEST=close-4711"])] {
            let published = found.iter().find(|line| line["MESSAGE"] == "published report@1").unwrap();
            assert_eq!(
                (&published["VERSION"], &published["REQUEST"]),
                (&"report@1".into(), &"close-4711".into())
            );
            assert_eq!((&published["REUSED"], &published["PRIORITY"]), (&"false".into(), &"6".into()));
            assert_eq!(published["SYSLOG_IDENTIFIER"], "asat");
        }
        // A configuration chooses otherwise, and the journal takes the lines as they are.
        configure(&config("[log]\nformat = \"json\""));
        run("systemctl", &["restart", "asat"]);
        asat(&["ls"]);
        let lines = journal(&["_TRANSPORT=stdout"]);
        let ready =
            lines.iter().filter_map(|line| serde_json::from_str::<Value>(line["MESSAGE"].as_str()?).ok());
        assert!(ready.into_iter().any(|line| line["message"] == "ready"), "{lines:#?}");
    });
}
