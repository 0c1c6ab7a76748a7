//! Files: stores with their logs, and what an archive is made of.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_archive::{Archive, Cut};
use asat_core::{PageSize, Problem};
use asat_host::store::{Limits, PageSink, read_frozen, read_pages};

use crate::feed;

struct Nowhere;

impl PageSink for Nowhere {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        Ok(())
    }

    fn page(&mut self, _: u32, _: &[u8]) -> Result<(), Problem> {
        Ok(())
    }
}

fn limits() -> Limits {
    Limits { busy: Duration::from_millis(1), hold: Duration::from_secs(10) }
}

/// A store of a few pages in this mode, with its log if it has one.
fn store(folder: &Path, mode: &str) -> (Vec<u8>, Vec<u8>) {
    let path = folder.join("seed.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let fill = format!(
        "pragma page_size = 1024; pragma journal_mode = {mode}; create table t (n integer primary key, x);
         with recursive c(n) as (select 1 union all select n + 1 from c where n < 40) insert into t select n, randomblob(200) from c"
    );
    connection.execute_batch(&fill).unwrap();
    let log = fs::read(folder.join("seed.db-wal")).unwrap_or_default();
    let file = fs::read(&path).unwrap();
    drop(connection);
    fs::remove_file(path).unwrap();
    (file, log)
}

#[test]
fn stores_and_their_logs() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("store.db");
    let log = folder.path().join("store.db-wal");
    let read = || {
        let _ = read_pages(&path, &limits(), &AtomicBool::new(false), &mut Nowhere);
        let _ = fs::remove_file(folder.path().join("store.db-shm"));
        let _ = fs::remove_file(folder.path().join("store.db-wal"));
    };
    let (plain, _) = store(folder.path(), "delete");
    feed(500, &[plain], |bytes| {
        fs::write(&path, bytes).unwrap();
        read();
    });
    let (file, frames) = store(folder.path(), "wal");
    feed(500, std::slice::from_ref(&frames), |bytes| {
        fs::write(&path, &file).unwrap();
        fs::write(&log, bytes).unwrap();
        read();
    });
    feed(500, &[file], |bytes| {
        fs::write(&path, bytes).unwrap();
        fs::write(&log, &frames).unwrap();
        let _ = read_frozen(&path, true, &AtomicBool::new(false), &mut Nowhere);
        read();
    });
}

/// What an archive with three versions is made of.
fn archive(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let (archive, _) = Archive::open(folder).unwrap();
    let size = PageSize::new(1024).unwrap();
    for number in 1..=3_u8 {
        let mut writer = archive.begin(u64::from(number), size, 12).unwrap();
        for page in 1..=12_u8 {
            let mut bytes = vec![page; 1024];
            bytes[usize::from(number) * 9] ^= number;
            writer.page(u32::from(page), &bytes).unwrap();
        }
        writer
            .finish(Cut {
                store: "report".parse().unwrap(),
                cut_at: "2026-11-19T17:00:03.123456Z".parse().unwrap(),
                wal: true,
                note: serde_json::json!({ "label": "close" }),
                even_if_unchanged: false,
            })
            .unwrap();
    }
    drop(archive);
    let files =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn everything_that_an_archive_is_made_of() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let files = archive(folder.path());
    assert!(files.len() >= 3);
    for (name, whole) in &files {
        feed(200, std::slice::from_ref(whole), |bytes| {
            fs::write(folder.path().join(name), bytes).unwrap();
            if let Ok((archive, _)) = Archive::open(folder.path()) {
                for number in archive.live() {
                    let _ = archive.describe(number);
                    let _ = archive
                        .read(number)
                        .and_then(|reader| reader.write_to(&mut std::io::sink(), Path::new("sink")));
                }
                let _ = archive.verify(None, &mut |_, _| ControlFlow::Continue(()));
                let _ = archive.stats();
            }
            for (name, whole) in &files {
                fs::write(folder.path().join(name), whole).unwrap();
            }
        });
    }
}
