//! The few programs besides LVM's own that a benchmark runs: they make, mount and look for file systems, or are stock
//! clients of SQLite.
//!
//! They run as LVM's commands do: from fixed folders, without a shell, in an environment of their own, and in a
//! process group of their own, so that an interrupt typed at the terminal does not end one half-way.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use asat_core::{Code, Problem};

use super::failed;

/// Where the programs may be. A search path could be set by somebody else.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Runs a program to its end; answers what it wrote to its standard output.
pub(super) fn run(program: &str, arguments: &[&OsStr]) -> Result<String, Problem> {
    let binary = find(program)?;
    let output = Command::new(binary)
        .args(arguments)
        .current_dir("/")
        .env_clear()
        .env("LC_ALL", "C")
        .env("PATH", FOLDERS.join(":"))
        .stdin(Stdio::null())
        .process_group(0)
        .output();
    let output = output.map_err(|error| failed(&format!("run {program}"), error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(
        &format!("run `{program} {}`", words.join(" ")),
        format!("{}: {}", output.status, said.trim()),
    ))
}

fn find(program: &str) -> Result<PathBuf, Problem> {
    let found = FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let what = format!("{program} is in none of {}", FOLDERS.join(", "));
        Problem::new(
            Code::Configuration,
            what,
            "install the packages util-linux, mount, e2fsprogs and sqlite3",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(words: &'a [&'a str]) -> Vec<&'a OsStr> {
        words.iter().map(OsStr::new).collect()
    }

    #[test]
    fn a_program_answers_fails_or_is_missing() {
        assert_eq!(run("printf", &words(&["%s", "a b"])).unwrap(), "a b");
        let failed = run("ls", &words(&["/does/not/exist"])).unwrap_err();
        assert!(failed.detail.contains("`ls /does/not/exist`"), "{failed:?}");
        assert!(failed.detail.contains("No such file"), "{failed:?}");
        assert_eq!(run("no-such-program", &[]).unwrap_err().code, Code::Configuration);
    }

    #[test]
    fn nothing_of_this_environment_reaches_a_program() {
        assert!(!run("env", &[]).unwrap().contains("CARGO"));
    }
}
