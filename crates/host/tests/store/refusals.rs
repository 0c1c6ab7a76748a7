//! What is no readable store, and what is said of it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use asat_core::Code;
use asat_host::store::read_pages;

use crate::common::{Collector, PATIENT, collect, into_problem, listing, make_store, raw, refusal};

/// Asserts how a path is refused, and that its folder is as it was.
fn refused(path: &Path, code: Code, because: &str) {
    let folder = path.parent().unwrap();
    let before = folder.is_dir().then(|| listing(folder));
    let (problem, begun) = refusal(path, &PATIENT);
    assert_eq!(problem.code, code, "{problem}");
    assert!(problem.detail.contains(because), "{problem}");
    assert!(problem.detail.contains(path.file_name().unwrap().to_str().unwrap()), "{problem}");
    assert!(!begun);
    assert_eq!(before, folder.is_dir().then(|| listing(folder)));
}

#[test]
fn what_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    refused(&at("missing.db"), Code::StoreMissing, "is not there");
    refused(&at("no/such/folder.db"), Code::StoreMissing, "is not there");
    symlink(at("nowhere"), at("dangling.db")).unwrap();
    refused(&at("dangling.db"), Code::StoreMissing, "is not there");
    fs::write(at("file"), "x").unwrap();
    refused(&at("file/store.db"), Code::StoreMissing, "is not there");
    symlink(at("loop.db"), at("loop.db")).unwrap();
    refused(&at("loop.db"), Code::StoreUnreadable, "leads to itself");
}

#[test]
fn what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder.db")).unwrap();
    refused(&at("folder.db"), Code::StoreUnreadable, "is a folder");
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe.db"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    refused(&at("pipe.db"), Code::StoreUnreadable, "is a pipe");
    let _listener = UnixListener::bind(at("socket.db")).unwrap();
    refused(&at("socket.db"), Code::StoreUnreadable, "is a socket");
    symlink("/dev/null", at("null.db")).unwrap();
    refused(&at("null.db"), Code::StoreUnreadable, "is a device");
}

#[test]
fn a_pipe_beside_the_store() {
    for suffix in ["-journal", "-wal", "-shm"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        drop(make_store(&path, "wal", 1));
        let pipe = folder.path().join(format!("store.db{suffix}"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        refused(&path, Code::StoreUnreadable, "is a pipe");
    }
}

#[test]
fn what_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fs::write(&path, "").unwrap();
    refused(&path, Code::StoreUnreadable, "is empty");
    // Opening it with SQLite would throw the WAL away.
    fs::write(folder.path().join("store.db-wal"), "precious").unwrap();
    refused(&path, Code::StoreUnreadable, "is empty");
    fs::remove_file(folder.path().join("store.db-wal")).unwrap();
    for content in
        ["xx", "SQLite format 3\0", "no database at all, but long enough for one".repeat(100).as_str()]
    {
        fs::write(&path, content).unwrap();
        refused(&path, Code::StoreUnreadable, "is not a SQLite database");
    }
    let mut noise = File::open("/dev/urandom").unwrap();
    let mut bytes = vec![0; 64 << 10];
    std::io::Read::read_exact(&mut noise, &mut bytes).unwrap();
    fs::write(&path, bytes).unwrap();
    refused(&path, Code::StoreUnreadable, "or it is encrypted");
}

#[test]
fn what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 1000));
    let whole = raw(&path);
    for len in [100, 511, 4095, 4096, 4097, whole.len() / 2, whole.len() - 4096] {
        fs::write(&path, &whole[..len]).unwrap();
        let (problem, begun) = refusal(&path, &PATIENT);
        assert_eq!((problem.code, begun), (Code::StoreUnreadable, false), "{len}: {problem}");
    }
    let with = |at: usize, bytes: &[u8]| {
        fs::write(&path, &whole).unwrap();
        File::options().write(true).open(&path).unwrap().write_all_at(bytes, at as u64).unwrap();
    };
    with(0, b"x");
    refused(&path, Code::StoreUnreadable, "is not a SQLite database");
    with(16, &[3, 3]);
    refused(&path, Code::StoreUnreadable, "is not a SQLite database");
    with(18, &[3, 1]);
    refused(&path, Code::StoreUnreadable, "newer");
    with(28, &u32::MAX.to_be_bytes());
    refused(&path, Code::StoreUnreadable, "damaged");
    with(100, &[0xff; 300]);
    refused(&path, Code::StoreUnreadable, "damaged");
    fs::write(&path, &whole).unwrap();
    assert!(collect(&path).1 == whole);
}

#[test]
fn a_last_page_that_is_there_in_part_and_bytes_behind_it_are_read_as_sqlite_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 1000));
    let whole = raw(&path);
    for less in [1, 100, 4095] {
        fs::write(&path, &whole[..whole.len() - less]).unwrap();
        let mut padded = whole.clone();
        padded[whole.len() - less..].fill(0);
        assert!(collect(&path).1 == padded, "{less} bytes less");
    }
    for more in [1, 4096, 10_000] {
        fs::write(&path, [whole.as_slice(), &vec![7; more]].concat()).unwrap();
        assert!(collect(&path).1 == whole, "{more} bytes more");
    }
}

#[test]
fn a_store_with_two_names_is_refused_whichever_is_asked_for() {
    for journal in ["wal", "delete"] {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("store.db"), folder.path().join("link.db"));
        // The writer's last commits are in the WAL, which has the name of the file that it has opened.
        let writer = make_store(&path, journal, 10);
        fs::hard_link(&path, &link).unwrap();
        for name in [&link, &path] {
            refused(name, Code::StoreUnreadable, "has 2 names");
        }
        fs::remove_file(&link).unwrap();
        assert!(!collect(&path).1.is_empty());
        drop(writer);
    }
}

#[test]
fn a_file_cut_short_beside_a_wal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "wal", 2000);
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); UPDATE t SET text = 'x' WHERE id = 1").unwrap();
    let crashed = folder.path().join("crashed.db");
    let whole = fs::read(&path).unwrap();
    fs::write(&crashed, &whole[..whole.len() / 2]).unwrap();
    fs::copy(folder.path().join("store.db-wal"), folder.path().join("crashed.db-wal")).unwrap();
    let (problem, begun) = refusal(&crashed, &PATIENT);
    assert_eq!((problem.code, begun), (Code::StoreUnreadable, false));
    assert!(problem.detail.contains("and its WAL at most"), "{problem}");
}

#[test]
fn headers_of_formats_that_sqlite_does_not_read() {
    // The place in the header, what is written there, and what is said.
    let forged: [(u64, &[u8], &str); 8] = [
        (44, &[0, 0, 0, 5], "unsupported file format"),
        (44, &[0xff; 4], "unsupported file format"),
        (19, &[3], "of a format that this SQLite does not know"),
        (19, &[0xff], "of a format that this SQLite does not know"),
        (18, &[3], "its file format is newer than this SQLite"),
        (16, &[0, 3], "is not a SQLite database"),
        (21, &[0x41], "is not a SQLite database"),
        (0, b"sQLite", "is not a SQLite database"),
    ];
    for (at, bytes, because) in forged {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        drop(make_store(&path, "delete", 10));
        File::options().write(true).open(&path).unwrap().write_all_at(bytes, at).unwrap();
        refused(&path, Code::StoreUnreadable, because);
    }
}

#[test]
fn no_header_is_answered_with_an_error_of_our_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 10));
    let content = fs::read(&path).unwrap();
    for at in 0..112 {
        for byte in [0, 1, 2, 5, 0x7f, 0xff] {
            let mut forged = content.clone();
            forged[at] = byte;
            fs::write(&path, forged).unwrap();
            let read = read_pages(&path, &PATIENT, &AtomicBool::new(false), &mut Collector::default());
            if let Err(failed) = read {
                let (problem, _) = into_problem(failed);
                assert_eq!(problem.code, Code::StoreUnreadable, "byte {at} is {byte}: {problem}");
            }
        }
    }
}
