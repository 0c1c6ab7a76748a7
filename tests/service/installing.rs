//! `docs/install.md`, word for word, on a machine that has not seen asat before.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::nspawn::{in_machine, run, said};
use crate::site::prepare_for_packages;

const DOCUMENT: &str = include_str!("../../docs/install.md");
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
        for example in [package, store, configure] {
            typed(example);
        }
        let listed = typed(publish);
        assert!(listed.contains("2026-11-19 close") && listed.contains("2026-11-20 close"), "{listed}");
        // As it was then, by somebody who is not root.
        assert_eq!(typed(read), "2026-11-19|100\n");
        assert!(typed(wal).contains("report@3"));
        typed(upgrade);
        assert!(typed("asat versions").contains("2026-11-21 close"));
        assert!(typed(handing).contains("2026-11-21 close"));
        assert!(typed(remove).contains("the history in /var/lib/asat is kept"));
        typed(bare);
        typed("systemctl is-active asat");
        // Its configuration is new, and its history is the one that was kept.
        assert!(typed("asat versions").contains("2026-11-21 close"));
    });
}
