//! What lies beside a store, before and after; links, replaced files, and places where nothing may be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use asat_core::Code;
use asat_host::store::read_pages;

use crate::common::{Collector, PATIENT, ask, collect, into_problem, listing, make_store, raw};
use crate::helper::Helper;

#[test]
fn nothing_is_left_beside_the_store() {
    let folder = tempfile::tempdir().unwrap();
    for journal in ["delete", "truncate", "persist", "wal"] {
        let path = folder.path().join(format!("{journal}.db"));
        drop(make_store(&path, journal, 100));
        let before = (listing(folder.path()), fs::read(&path).unwrap());
        collect(&path);
        assert_eq!((listing(folder.path()), fs::read(&path).unwrap()), before, "{journal}");
        let writer = make_store(&folder.path().join(format!("open-{journal}.db")), journal, 100);
        let before = listing(folder.path());
        collect(&folder.path().join(format!("open-{journal}.db")));
        assert_eq!(listing(folder.path()), before, "{journal}, with a writer");
        drop(writer);
    }
}

#[test]
fn a_link_leads_to_the_store_and_its_wal() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    let writer = make_store(&real.join("store.db"), "wal", 10);
    let link = folder.path().join("link.db");
    symlink("real/store.db", &link).unwrap();
    let before = listing(folder.path());
    let (_, pages) = collect(&link);
    assert_eq!(ask(&pages, "SELECT count(*) || '' FROM t"), "10");
    assert_eq!(listing(folder.path()), before);
    drop(writer);
}

#[test]
fn each_read_is_of_the_file_that_has_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for (journal, rows) in [("delete", 3), ("wal", 5), ("wal", 7), ("delete", 9)] {
        let next = folder.path().join("next.db");
        drop(make_store(&next, journal, rows));
        fs::rename(&next, &path).unwrap();
        let (_, pages) = collect(&path);
        assert!(pages == raw(&path));
        assert_eq!(ask(&pages, "SELECT count(*) || '' FROM t"), rows.to_string());
    }
}

#[test]
fn while_the_file_is_replaced_again_and_again_each_read_is_of_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let sources = [40, 900].map(|rows| {
        let source = folder.path().join(format!("{rows}.db"));
        drop(make_store(&source, "delete", rows));
        source
    });
    let contents = sources.clone().map(|source| raw(&source));
    fs::copy(&sources[0], &path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for source in sources.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                let next = folder.path().join("next.db");
                fs::copy(source, &next).unwrap();
                fs::rename(&next, &path).unwrap();
            }
        });
        // Nothing is asserted before the other thread was told to stop.
        let results: Vec<_> = (0..200)
            .map(|_| {
                let mut sink = Collector::default();
                let result = read_pages(&path, &PATIENT, &AtomicBool::new(false), &mut sink);
                result.map(|_| contents.contains(&sink.bytes)).map_err(into_problem)
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        for result in results {
            match result {
                Ok(is_one_of_them) => assert!(is_one_of_them),
                Err((problem, begun)) => {
                    assert_eq!((problem.code, begun), (Code::StoreBusy, false), "{problem}")
                }
            }
        }
    });
}

/// A folder that `nobody` may or may not write in, with a store of the same kind. `None` where this process
/// cannot be somebody else.
fn foreign(folder: &Path, journal: &str, folder_mode: u32, file_mode: u32) -> Option<std::path::PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let place = folder.join(format!("{journal}-{folder_mode:o}-{file_mode:o}"));
    fs::create_dir(&place).unwrap();
    let path = place.join("store.db");
    drop(make_store(&path, journal, 100));
    chown(&path, Some(1), Some(1)).unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(file_mode)).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(folder_mode)).unwrap();
    Some(path)
}

#[test]
fn where_nothing_may_be_written() {
    let folder = tempfile::tempdir().unwrap();
    for (journal, folder_mode, file_mode, expected) in [
        ("delete", 0o755, 0o644, "read "),
        ("delete", 0o777, 0o644, "read "),
        ("delete", 0o755, 0o666, "read "),
        ("delete", 0o755, 0o600, "may not be read"),
        ("delete", 0o700, 0o666, "may not be read"),
        ("wal", 0o777, 0o666, "read "),
        ("wal", 0o777, 0o644, "to lock nobody out of it"),
        ("wal", 0o755, 0o644, "cannot be read without writing"),
        ("wal", 0o755, 0o666, "cannot be read without writing"),
        ("wal", 0o755, 0o600, "may not be read"),
    ] {
        let Some(path) = foreign(folder.path(), journal, folder_mode, file_mode) else { return };
        let before = listing(path.parent().unwrap());
        let report = Helper::read_as_nobody(&path);
        assert!(report.contains(expected), "{journal} {folder_mode:o} {file_mode:o}: {report}");
        assert_eq!(listing(path.parent().unwrap()), before, "{journal} {folder_mode:o} {file_mode:o}");
    }
}

#[test]
fn where_nothing_may_be_written_a_writer_who_is_there_helps() {
    let folder = tempfile::tempdir().unwrap();
    for (folder_mode, file_mode, expected) in
        [(0o755, 0o644, "read "), (0o777, 0o644, "to lock nobody out of it"), (0o755, 0o666, "read ")]
    {
        let Some(path) = foreign(folder.path(), "wal", folder_mode, file_mode) else { return };
        let writer = Helper::execute(&path, "DELETE FROM t WHERE id = 1");
        let before = listing(path.parent().unwrap());
        let report = Helper::read_as_nobody(&path);
        assert!(report.contains(expected), "{folder_mode:o} {file_mode:o}: {report}");
        assert_eq!(listing(path.parent().unwrap()), before);
        drop(writer);
    }
}

#[test]
fn where_nothing_may_be_written_and_a_writer_has_crashed() {
    let folder = tempfile::tempdir().unwrap();
    for (folder_mode, file_mode, sidecars, expected) in [
        (0o755, 0o644, &["-wal"][..], "cannot be read without writing"),
        (0o777, 0o644, &["-wal"], "to lock nobody out of it"),
        (0o755, 0o666, &["-wal"], "cannot be read without writing"),
        (0o755, 0o644, &["-wal", "-shm"], "read "),
        (0o777, 0o644, &["-wal", "-shm"], "to lock nobody out of it"),
    ] {
        let place = folder.path().join(format!("{}", sidecars.len()));
        fs::create_dir_all(&place).unwrap();
        let Some(path) = foreign(&place, "wal", folder_mode, file_mode) else { return };
        let alive = place.join("alive.db");
        let writer = make_store(&alive, "wal", 10);
        for suffix in [""].iter().chain(sidecars) {
            let crashed = format!("{}{suffix}", path.display());
            fs::copy(format!("{}{suffix}", alive.display()), &crashed).unwrap();
            fs::set_permissions(&crashed, Permissions::from_mode(file_mode)).unwrap();
        }
        drop(writer);
        fs::remove_file(&alive).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let before = listing(path.parent().unwrap());
        let report = Helper::read_as_nobody(&path);
        assert!(report.contains(expected), "{folder_mode:o} {file_mode:o} {sidecars:?}: {report}");
        assert_eq!(listing(path.parent().unwrap()), before, "{folder_mode:o} {file_mode:o} {sidecars:?}");
    }
}
