//! Virtual environments of Python, below `target`, which later runs find again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// An environment in which `pip install` with these arguments has run, made if the one of this content is not there yet.
pub fn venv(name: &str, content: &str, install: &[&str]) -> PathBuf {
    let digest: String = Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{digest}"));
    let whole = folder.join("whole");
    if !whole.exists() {
        let _ = fs::remove_dir_all(&folder);
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(pip.args(install));
        fs::write(whole, "").unwrap();
    }
    folder
}

/// Runs a command that must succeed; answers what it said.
pub fn run(command: &mut Command) -> String {
    let output = command.output().expect("this test needs python3 (package python3-venv)");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}
