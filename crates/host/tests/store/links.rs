//! A store's owner who puts a link in its place, to what is another user's. The reader is root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_core::{Code, Problem};
use asat_host::store::{Restoring, Target, ask, read_frozen, read_pages, restore, still};

use crate::common::{Collector, PATIENT, collect, into_problem, make_store, refusal};

const OWNER: u32 = 1;
const VICTIM: u32 = 2;

/// A private database of the victim's, and a folder of the owner's with a store.
fn site(folder: &Path) -> (PathBuf, PathBuf) {
    assert!(rustix::process::geteuid().is_root(), "this test gives files to other users: run it as root");
    let make = |name: &str, user: u32, rows: u32| {
        let place = folder.join(name);
        fs::create_dir(&place).unwrap();
        let path = place.join("store.db");
        drop(make_store(&path, "wal", rows));
        for path in [&path, &place] {
            chown(path, Some(user), Some(user)).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        }
        path
    };
    (make("victim", VICTIM, 5), make("owner", OWNER, 10))
}

/// Everything that opens a store, and what came of it.
fn all_ways(store: &Path, version: &Path) -> Vec<(&'static str, Problem)> {
    let cancel = Arc::new(AtomicBool::new(false));
    let second = Duration::from_secs(1);
    let restoring = Restoring { source: version, limits: &PATIENT, cancel: &cancel };
    let frozen = read_frozen(store, false, &cancel, &mut Collector::default()).unwrap_err();
    vec![
        ("read", refusal(store, &PATIENT).0),
        ("marker", ask(store, "SELECT count(*) FROM t", second, second, &cancel).unwrap_err().into()),
        ("still", still(store, &PATIENT, &cancel, false).unwrap_err().into()),
        ("restore", restore(store, &restoring, || Ok(true), &mut |_, _| {}).unwrap_err().into()),
        ("snapshot", into_problem(frozen).0),
    ]
}

#[test]
fn a_link_to_what_is_another_users_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (victim, store) = site(folder.path());
    let version = folder.path().join("version.db");
    drop(make_store(&version, "delete", 1));
    let before = fs::read(&victim).unwrap();
    let place = store.parent().unwrap();
    let replace_file = || {
        fs::remove_file(&store).unwrap();
        symlink(&victim, &store).unwrap();
        lchown(&store, Some(OWNER), None).unwrap();
    };
    let replace_folder = || {
        fs::remove_file(&store).unwrap();
        fs::remove_dir(place).unwrap();
        symlink(victim.parent().unwrap(), place).unwrap();
        lchown(place, Some(OWNER), None).unwrap();
    };
    for replace in [&replace_file as &dyn Fn(), &replace_folder] {
        replace();
        for (way, problem) in all_ways(&store, &version) {
            assert_eq!(problem.code, Code::StoreUnreadable, "{way}: {problem}");
            assert!(
                problem.detail.contains("is a symbolic link of the user") && problem.hint.contains("root"),
                "{problem}"
            );
        }
        assert!(fs::read(&victim).unwrap() == before, "the private database was written to");
    }
}

#[test]
fn links_of_root_and_to_what_is_ones_own_are_followed_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let (_, store) = site(folder.path());
    let link = folder.path().join("link.db");
    symlink(&store, &link).unwrap();
    for user in [0, OWNER] {
        lchown(&link, Some(user), None).unwrap();
        collect(&link);
    }
    lchown(&link, Some(VICTIM), None).unwrap();
    assert_eq!(refusal(&link, &PATIENT).0.code, Code::StoreUnreadable);
}

#[test]
fn in_a_snapshot_not_even_the_owners_link_to_a_file_of_his_own_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, store) = site(folder.path());
    let link = folder.path().join("link.db");
    symlink(&store, &link).unwrap();
    lchown(&link, Some(OWNER), None).unwrap();
    collect(&link);
    // It leads out of the snapshot, to what is there today.
    let read = read_frozen(&link, false, &AtomicBool::new(false), &mut Collector::default());
    let problem = into_problem(read.unwrap_err()).0;
    assert_eq!(problem.code, Code::StoreUnreadable);
    assert!(problem.detail.contains("is a symbolic link of the user"), "{problem}");
}

#[test]
fn a_file_of_another_owner_than_it_has_to_be_is_opened_in_no_way() {
    let folder = tempfile::tempdir().unwrap();
    let (victim, _) = site(folder.path());
    let version = folder.path().join("version.db");
    drop(make_store(&version, "delete", 1));
    let before = fs::read(&victim).unwrap();
    let store = || Target { path: victim.clone(), owner: Some(OWNER) };
    let (cancel, second) = (Arc::new(AtomicBool::new(false)), Duration::from_secs(1));
    let restoring = Restoring { source: &version, limits: &PATIENT, cancel: &cancel };
    let read = read_pages(store(), &PATIENT, &cancel, &mut Collector::default()).unwrap_err();
    for (way, problem) in [
        ("read", into_problem(read).0),
        ("marker", ask(store(), "SELECT count(*) FROM t", second, second, &cancel).unwrap_err().into()),
        ("still", still(store(), &PATIENT, &cancel, false).unwrap_err().into()),
        ("restore", restore(store(), &restoring, || Ok(true), &mut |_, _| {}).unwrap_err().into()),
    ] {
        assert_eq!(problem.code, Code::StoreUnreadable, "{way}: {problem}");
        assert!(problem.detail.contains("belonged to the user"), "{way}: {problem}");
    }
    assert!(fs::read(&victim).unwrap() == before, "it was written to");
}

#[test]
fn a_link_beside_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (victim, store) = site(folder.path());
    for suffix in ["-wal", "-shm", "-journal"] {
        let beside = store.with_file_name(format!("store.db{suffix}"));
        symlink(&victim, &beside).unwrap();
        lchown(&beside, Some(OWNER), None).unwrap();
        let (problem, _) = refusal(&store, &PATIENT);
        assert!(problem.detail.contains("is a symbolic link"), "{problem}");
        fs::remove_file(&beside).unwrap();
    }
    collect(&store);
}
