//! Commands against a stand-in for `lvm`: what it is given, what its end means, and what happens when it has none.

use std::fs;
use std::time::Instant;

use asat_core::{Code, Problem};
use tempfile::TempDir;

use super::*;

/// A command that stands in for `lvm`, written for the shell. The first word is LVM's command.
pub(crate) fn stand_in(script: &str) -> (TempDir, Result<Lvm, Error>) {
    let folder = tempfile::tempdir().unwrap();
    let (text, path) = (folder.path().join("text"), folder.path().join("lvm"));
    let version = "[ \"$1\" = version ] && { echo '  LVM version:     2.03.16(2) (2022-05-18)'; exit 0; }";
    fs::write(&text, format!("#!/bin/sh\n{version}\n{script}\n")).unwrap();
    // Nothing in this process may have it open for writing: what another test starts just then would inherit that, and
    // the kernel runs nothing that somebody may still write to.
    let installed = std::process::Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
    assert!(installed.unwrap().success());
    let lvm = Lvm::find_in(&[folder.path()]);
    (folder, lvm)
}

fn answer(script: &str, call: &Call) -> Result<String, Error> {
    let (_folder, lvm) = stand_in(script);
    lvm.unwrap().run(call)
}

#[test]
fn versions_are_read_and_compared_as_numbers() {
    let parse = |text: &str| text.parse::<Version>().ok();
    assert_eq!(parse("2.03.16(2) (2022-05-18)"), Some(Version(2, 3, 16)));
    assert_eq!(parse("2.03.11"), Some(Version(2, 3, 11)));
    assert!(Version(2, 3, 9) < Version(2, 3, 11) && Version(3, 0, 0) > OLDEST);
    for text in ["", "2", "2.03", "2.03.", "v2.03.16", "2.03.16.1", "2..16", "2.03.99999999999", "-2.03.16"] {
        assert_eq!(parse(text), None, "{text}");
    }
    assert_eq!(Version(2, 3, 16).to_string(), "2.03.16");
}

#[test]
fn what_is_missing_or_too_old_is_refused() {
    assert!(matches!(Lvm::find_in(&[Path::new("/nonexistent")]), Err(Error::NotInstalled)));
    let (folder, lvm) = stand_in("");
    assert_eq!(lvm.unwrap().version(), Version(2, 3, 16));
    let old = fs::read_to_string(folder.path().join("lvm")).unwrap().replace("2.03.16(2)", "2.02.187(2)");
    fs::write(folder.path().join("lvm"), &old).unwrap();
    assert!(matches!(Lvm::find_in(&[folder.path()]), Err(Error::TooOld { found: Version(2, 2, 187), .. })));
    fs::write(folder.path().join("lvm"), old.replace("LVM version", "version")).unwrap();
    assert!(matches!(Lvm::find_in(&[folder.path()]), Err(Error::Unreadable { .. })));
}

#[test]
fn no_value_becomes_an_option() {
    let call =
        Call::new("lvcreate").flag("--yes").option("--name", "--force").operand("-y").operand("a b;$(c)");
    let text = answer(r#"printf '<%s>' "$@""#, &call).unwrap();
    assert_eq!(text, "<lvcreate><--yes><--name=--force><--><-y><a b;$(c)>");
    assert_eq!(call.to_string(), "lvcreate --yes --name=--force -- -y a b;$(c)");
}

#[test]
fn the_environment_is_the_command_s_own() {
    let text = answer("env | sort; pwd; cat", &Call::new("lvs")).unwrap();
    assert!(text.contains("LC_ALL=C\nLVM_SUPPRESS_FD_WARNINGS=1\n"), "{text}");
    assert!(text.contains("PATH=/usr/sbin:/usr/bin:/sbin:/bin\n") && !text.contains("HOME="), "{text}");
    assert!(text.ends_with("\n/\n"), "{text}");
}

#[test]
fn a_refusal_has_its_reason_and_its_words() {
    let script = "echo '  WARNING: noise' >&2; echo '  Failed to find logical volume \"vg/x\"' >&2; exit 5";
    let error = answer(script, &Call::new("lvremove").operand("vg/x")).unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::NoSuchVolume));
    let said = "`lvremove -- vg/x` failed with status 5: Failed to find logical volume \"vg/x\"";
    assert_eq!(error.to_string(), said);
    let killed = answer("kill -9 $$", &Call::new("lvs")).unwrap_err();
    assert!(matches!(killed, Error::Killed { .. }), "{killed}");
    assert!(!Problem::from(killed).hint.is_empty());
}

#[test]
fn too_much_output_stops_no_command_and_is_refused() {
    let error = answer("head -c 20000000 /dev/zero | tr '\\0' x; exit 0", &Call::new("lvs")).unwrap_err();
    assert!(matches!(&error, Error::Unreadable { what, .. } if what.contains("longer")), "{error}");
    let error = answer("printf '\\377'", &Call::new("lvs")).unwrap_err();
    assert!(matches!(&error, Error::Unreadable { what, .. } if what.contains("UTF-8")), "{error}");
    let error = answer("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 5", &Call::new("lvs")).unwrap_err();
    assert!(error.to_string().len() < 1000);
}

#[test]
fn a_command_that_does_not_end_wedges_the_lane_until_it_does() {
    let (folder, lvm) =
        stand_in("[ \"$1\" = lvs ] && exit 0; while [ -e \"$0.stuck\" ]; do sleep 0.05; done; echo late");
    let lvm = lvm.unwrap();
    let stuck = folder.path().join("lvm.stuck");
    fs::write(&stuck, "").unwrap();
    let began = Instant::now();
    let error = lvm.run(&Call::new("lvcreate").within(Duration::from_millis(200))).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(matches!(&error, Error::Wedged { wedge, .. } if wedge.pid.is_some()), "{error}");

    let began = Instant::now();
    let error = lvm.clone().run(&Call::new("lvs")).unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(100), "a wedged lane answers at once");
    assert!(error.to_string().starts_with("`lvs` was not run: `lvcreate` (process "), "{error}");
    assert_eq!(Problem::from(error).code, Code::LvmStuck);
    assert_eq!(lvm.lane().wedged().unwrap().command, "lvcreate");

    fs::remove_file(&stuck).unwrap();
    let began = Instant::now();
    while lvm.lane().wedged().is_some() {
        assert!(began.elapsed() < Duration::from_secs(20), "the lane stays wedged");
        std::thread::sleep(Duration::from_millis(10));
    }
    lvm.run(&Call::new("lvs")).unwrap();
}

#[test]
fn what_a_command_leaves_behind_holds_nothing_up() {
    let began = Instant::now();
    let text = answer("sleep 20 & echo done", &Call::new("lvs")).unwrap();
    assert_eq!(text, "done\n");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_program_that_cannot_be_run_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lvm"), "").unwrap();
    let error = Lvm::find_in(&[folder.path()]).unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error}");
}

#[test]
fn somebody_hears_how_long_each_command_that_is_run_takes() {
    #[derive(Debug, Default)]
    struct Heard(std::sync::Mutex<Vec<(&'static str, Duration)>>);
    impl Timing for Heard {
        fn ended(&self, command: &'static str, took: Duration) {
            self.0.lock().unwrap().push((command, took));
        }
    }
    let heard = Arc::<Heard>::default();
    let (_folder, lvm) = stand_in("case $1 in lvs) exit 0;; lvremove) exit 5;; esac; exec sleep 2");
    let lvm = lvm.unwrap().timed_by(Arc::clone(&heard) as Arc<dyn Timing>);
    lvm.run(&Call::new("lvs")).unwrap();
    lvm.run(&Call::new("lvremove")).unwrap_err();
    let deadline = Duration::from_millis(10);
    lvm.run(&Call::new("lvcreate").within(deadline)).unwrap_err();
    // What is refused because that one does not end, is no command that was run.
    lvm.run(&Call::new("vgs")).unwrap_err();
    let heard = heard.0.lock().unwrap();
    assert_eq!(
        heard.iter().map(|(command, _)| *command).collect::<Vec<_>>(),
        ["lvs", "lvremove", "lvcreate"]
    );
    assert!(heard[2].1 >= deadline);
}
