//! A store in WAL mode with an application and a daemon of different users, in every order of starts, with kills.
//!
//! The users are two that each system has: `daemon` is the application, and in its own group alone by the system's lists.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use crate::common::{listing, make_store};
use crate::helper::{Helper, Somebody};

const APPLICATION: Somebody = (1, 1, 1);
/// In the application's group.
const ASAT: Somebody = (65534, 65534, 1);

/// A store of the application's and a version to restore, which everybody may read.
fn site(folder: &Path, group: u32, folder_mode: u32, file_mode: u32) -> (PathBuf, String) {
    assert!(rustix::process::geteuid().is_root(), "this test acts as two other users: run it as root");
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let version = folder.join("version.db");
    drop(make_store(&version, "delete", 7));
    let place = folder.join("place");
    fs::create_dir(&place).unwrap();
    let store = place.join("store.db");
    drop(make_store(&store, "wal", 10));
    for (path, mode) in [(&store, file_mode), (&place, folder_mode)] {
        chown(path, Some(APPLICATION.0), Some(group)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    (store, format!("give:{}", version.display()))
}

fn write(store: &Path) -> Helper {
    let application = Helper::of(APPLICATION, store, "sql:UPDATE t SET text = text WHERE id = 1");
    assert_eq!(application.report, "done");
    application
}

fn end(helper: Helper, by_a_kill: bool) {
    if by_a_kill { helper.kill() } else { drop(helper) }
}

#[test]
fn as_the_document_installs_it_each_can_write_whoever_came_first_and_however_both_ended() {
    for (number, case) in (0..8).map(|number| (number, [1, 2, 4].map(|bit| number & bit != 0))) {
        let [asat_first, asat_killed, application_killed] = case;
        let folder = tempfile::tempdir().unwrap();
        let (store, give) = site(folder.path(), APPLICATION.1, 0o2775, 0o664);
        let hold = || {
            let asat = Helper::of(ASAT, &store, "still:false");
            assert_eq!(asat.report, "Nobody", "{case:?}");
            asat
        };
        let (asat, application) = if asat_first {
            let asat = hold();
            (asat, write(&store))
        } else {
            let application = write(&store);
            (hold(), application)
        };
        end(asat, asat_killed);
        assert_eq!(Helper::of(ASAT, &store, &give).report, "restored", "{case:?}");
        end(application, application_killed);
        // Whatever was left: the daemon first in one half of the cases, and the application in the other.
        if number % 2 == 0 {
            assert_eq!(Helper::of(ASAT, &store, &give).report, "restored", "{case:?}");
        }
        drop(write(&store));
        assert!(Helper::of(ASAT, &store, "read").report.starts_with("read "), "{case:?}");
    }
}

#[test]
fn nobody_is_locked_out_where_it_is_installed_otherwise() {
    // Given to the daemon's group, which the application is not in; without `g+s`; without `g+w` on the file.
    for (group, folder_mode, file_mode) in [(65534, 0o775, 0o664), (1, 0o775, 0o664), (1, 0o2775, 0o644)] {
        let case = format!("{group} {folder_mode:o} {file_mode:o}");
        let folder = tempfile::tempdir().unwrap();
        let (store, give) = site(folder.path(), group, folder_mode, file_mode);
        let before = listing(store.parent().unwrap());
        let refuse_all = |when: &str| {
            for job in ["read", "still:false", give.as_str()] {
                let report = Helper::of(ASAT, &store, job).report.clone();
                let is_so = report.contains("to lock nobody out of it")
                    || (job != "read" && file_mode == 0o644 && report.contains("may not be written"));
                assert!(is_so, "{case}, {when}: {job}: {report}");
                assert!(job.starts_with("still") || report.contains("docs/install.md"), "{report}");
            }
        };
        refuse_all("alone");
        assert_eq!(listing(store.parent().unwrap()), before, "{case}");
        let application = write(&store);
        refuse_all("beside the application");
        drop(application);
        drop(write(&store));
    }
}
