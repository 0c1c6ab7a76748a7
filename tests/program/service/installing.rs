//! `docs/install.md`, word for word, on a machine that has not seen asat before.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::nspawn::{in_machine, run, said, tried, wait_until};
use crate::service::site::prepare_for_packages;

const DOCUMENT: &str = include_str!("../../../docs/install.md");
const SOURCE: &str = "/root/asat";

/// Runs commands as they stand, by bash, which ends at the first that fails; answers what they print. The program is built
/// already, and is packed without being compressed.
fn typed(commands: &str) -> String {
    let tools = Path::new(env!("CARGO")).parent().unwrap().display();
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", commands]).current_dir(SOURCE).stdin(Stdio::null());
    bash.env("PATH", format!("{}:{tools}", std::env::var("PATH").unwrap()));
    bash.env("BINARY", env!("CARGO_BIN_EXE_asat")).env("COMPRESSION", "none");
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{commands}\n{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// An application that stays connected, once its first statement is done.
fn connect(sql: &str) -> Child {
    let mut application = Command::new("setpriv");
    application.args([
        "--reuid=report",
        "--regid=report",
        "--init-groups",
        "sqlite3",
        "-bail",
        "/srv/report/report.db",
    ]);
    let mut child = application.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "{sql}; select 'done';").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "done\n", "{sql}");
    child
}

/// The daemon publishes and restores a store in WAL mode beside its application, whoever came first, and neither locks the
/// other one out, also where one was killed.
fn both_write() {
    let write = "insert into sale values ('2026-11-22', 1)";
    typed(
        "runuser -u report -- sqlite3 /srv/report/other.db 'pragma journal_mode = wal; create table t (a)'
         chmod g+w /srv/report/other.db
         printf '[[store]]\nname = \"other\"\npath = \"/srv/report/other.db\"\n[[set]]\nname = \"both\"\nstores = [\"other\", \"report\"]\n' \
             >> /etc/asat/asat.toml
         systemctl restart asat",
    );
    for killed in ["application", "daemon", "nobody"] {
        let mut application = connect(write);
        typed("asat publish --set both && asat restore report@1 --yes && asat publish report");
        match killed {
            "application" => application.kill().unwrap(),
            "daemon" => {
                typed("systemctl kill --signal=KILL asat");
                wait_until("the daemon is back", || tried("asat", &["ls"]).status.success());
                // Whatever was open, the application goes on.
                writeln!(application.stdin.as_mut().unwrap(), "{write};").unwrap();
            }
            _ => {}
        }
        drop(application.stdin.take());
        let status = application.wait().unwrap();
        assert!(status.success() || killed == "application", "{killed}: {status}");
        // Nobody has it open now, and the daemon comes first.
        typed("asat publish --set both && asat restore report@2 --yes");
        connect(write).kill().unwrap();
    }
    let judged = tried("asat", &["doctor", "--json"]).stdout;
    let judged: serde_json::Value = serde_json::from_slice(&judged).unwrap();
    let findings = judged["findings"].as_array().unwrap();
    let sharing = findings.iter().find(|finding| finding["check"] == "sharing").unwrap();
    assert_eq!(sharing["level"], "ok", "{sharing}");
    // What was advised once, and locks the application out if the daemon comes first.
    typed(
        "gpasswd --delete asat report; chgrp -R asat /srv/report; chmod g-s /srv/report; systemctl restart asat",
    );
    for first in ["daemon", "application"] {
        let application = (first == "application").then(|| connect(write));
        let refused = said(&tried("asat", &["publish", "report"]));
        assert!(
            refused.contains("to lock nobody out of it") && refused.contains("docs/install.md"),
            "{refused}"
        );
        let judged = said(&tried("asat", &["doctor"]));
        assert!(judged.contains("would lock its application out"), "{judged}");
        drop(application.map(|mut application| application.kill()));
        connect(write).kill().unwrap();
    }
    typed(
        "usermod --append --groups report asat; chgrp -R report /srv/report; chmod g+s /srv/report; systemctl restart asat",
    );
}

#[test]
fn nspawn_the_installation_goes_as_its_document_says() {
    in_machine(|| {
        prepare_for_packages();
        let copy =
            "mkdir \"$2\" && tar -C \"$1\" --exclude=./target --exclude=./.git -cf - . | tar -C \"$2\" -xf -";
        run("sh", &["-c", copy, "copy", env!("CARGO_MANIFEST_DIR"), SOURCE]);
        let examples: Vec<&str> =
            DOCUMENT.split("\n```sh\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0).collect();
        let [package, store, configure, publish, read, wal, upgrade, handing, remove, bare] = examples[..]
        else {
            panic!("the document has {} examples", examples.len());
        };
        typed(package);
        // Only here is the package not compressed, which takes half a minute.
        let compression = "uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball";
        let lintian = format!("lintian --fail-on error,warning --suppress-tags {compression}");
        run("sh", &["-c", &format!("{lintian} {SOURCE}/target/asat_*.deb")]);
        for example in [store, configure] {
            typed(example);
        }
        let listed = typed(publish);
        assert!(listed.contains("2026-11-19 close") && listed.contains("2026-11-20 close"), "{listed}");
        // As it was then, by somebody who is not root.
        assert_eq!(typed(read), "2026-11-19|100\n");
        assert!(typed(wal).contains("report@3"));
        both_write();
        typed(upgrade);
        assert!(typed("asat ls").contains("2026-11-21 close"));
        assert!(typed(handing).contains("2026-11-21 close"));
        assert!(typed(remove).contains("the history in /var/lib/asat is kept"));
        typed(bare);
        typed("systemctl is-active asat");
        // Its configuration is new, and its history is the one that was kept.
        assert!(typed("asat ls").contains("2026-11-21 close"));
    });
}
