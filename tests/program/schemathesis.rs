//! Schemathesis reads the OpenAPI document and asks what it says may be asked, and what it says may not: no answer is a 5xx,
//! and every answer is documented.
//!
//! It comes from PyPI, with the hashes in `tests/schemathesis/requirements.txt`, into a virtual environment below `target`
//! that later runs find again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::World;
use sha2::{Digest, Sha256};

const REQUIREMENTS: &str = include_str!("schemathesis/requirements.txt");
const TOKEN: &str = "the-token-of-the-test-of-schemathesis";

/// How long it goes on asking. All operations get their turn in half of that.
const SECONDS: &str = "60";

/// A file of this test's.
fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/schemathesis").join(name)
}

/// The program, installed where it is not there yet.
fn installed() -> PathBuf {
    let digest: String =
        Sha256::digest(REQUIREMENTS).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schemathesis-{digest}"));
    let whole = folder.join("whole");
    if !whole.exists() {
        let _ = fs::remove_dir_all(&folder);
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]);
        run(pip.arg("--requirement").arg(own("requirements.txt")));
        fs::write(whole, "").unwrap();
    }
    folder.join("bin/schemathesis")
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("this test needs python3 (package python3-venv)");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

#[test]
fn no_request_that_the_document_suggests_is_answered_otherwise_than_it_says() {
    let schemathesis = installed();
    let mut world = World::new();
    let content = "create table sale (amount); insert into sale values (1)";
    world.sqlite().execute_batch(content).unwrap();
    world.add_store("ledger", content, "");
    let digest: String = Sha256::digest(TOKEN).iter().map(|byte| format!("{byte:02x}")).collect();
    world.config = format!(
        "tcp = \"127.0.0.1:0\"\n[[token]]\nname = \"schemathesis\"\nrole = \"admin\"\nsha256 = \"{digest}\"\n\
         [[set]]\nname = \"month-end\"\nstores = [\"ledger\", \"report\"]"
    );
    let log = world.start();
    let address = log.lines().find_map(|line| line.split_once("listening on http://")).unwrap().1.trim();
    for label in ["month-end", "2026-11-19 close"] {
        world.send("POST", "/snapshots", &serde_json::json!({ "store": "report", "label": label }));
    }
    let mut command = Command::new(schemathesis);
    command.arg("--config-file").arg(own("schemathesis.toml")).args([
        "run",
        "--no-color",
        "--max-time",
        SECONDS,
    ]);
    command.arg(format!("http://{address}/v1/openapi.json")).env("ASAT_TOKEN", TOKEN);
    // What it keeps of a run goes with the world.
    let said = run(command.current_dir(world.folder.path()));
    for phase in ["Examples", "Coverage", "Fuzzing", "Stateful"] {
        assert!(said.contains(&format!("✅ {phase}")), "{phase} was not tried:\n{said}");
    }
    let health = world.get("/healthz").json();
    assert_eq!(health["status"], "ok", "{health}");
    assert!(world.stop().success());
}
