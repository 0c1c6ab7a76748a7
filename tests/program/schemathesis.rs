//! Schemathesis reads the OpenAPI document and asks what it says may be asked, and what it says may not: no answer is a 5xx,
//! and every answer is documented.
//!
//! It comes from PyPI, with the hashes in `tests/program/schemathesis/requirements.txt`, into a virtual environment below `target`
//! that later runs find again.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::World;
use crate::common::venv::{run, venv};
use sha2::{Digest, Sha256};

const REQUIREMENTS: &str = include_str!("schemathesis/requirements.txt");
const TOKEN: &str = "the-token-of-the-test-of-schemathesis";

/// How long it goes on asking. All operations get their turn in half of that.
const SECONDS: &str = "60";

/// A file of this test's.
fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/schemathesis").join(name)
}

/// The program, installed if it is not there yet.
fn installed() -> PathBuf {
    let requirements = own("requirements.txt");
    let install = ["--require-hashes", "--requirement", requirements.to_str().unwrap()];
    venv("schemathesis", REQUIREMENTS, &install).join("bin/schemathesis")
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
