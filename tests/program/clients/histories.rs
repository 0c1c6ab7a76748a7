//! Histories: a store grows, shrinks, changes its page size and is replaced, and every version stays what it
//! was.
//!
//! Each history is lived in every page size, journal mode and vacuum mode that SQLite has.

use std::fs;
use std::path::{Path, PathBuf};

use crate::clients::bytes::{expect_image, image, names};
use crate::clients::client::{Python, dump};
use crate::clients::{close, open, publish, publish_new};
use crate::common::World;

const PAGE_SIZES: [u32; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
const VACUUM_MODES: [&str; 3] = ["none", "full", "incremental"];

#[test]
fn versions_of_stores_with_a_write_ahead_log() {
    histories_in("wal");
}

#[test]
fn versions_of_stores_that_delete_their_journal() {
    histories_in("delete");
}

#[test]
fn versions_of_stores_that_truncate_their_journal() {
    histories_in("truncate");
}

#[test]
fn versions_of_stores_that_keep_their_journal() {
    histories_in("persist");
}

/// A store as it is configured and used.
struct Store {
    name: String,
    path: PathBuf,
    page_size: u32,
    vacuum: &'static str,
    journal: &'static str,
}

/// What a client saw in the store as a version was published.
struct Moment {
    version: String,
    content: String,
    dump: Option<String>,
    image: Vec<u8>,
}

fn histories_in(journal: &'static str) {
    let mut world = World::new();
    fs::create_dir(world.path("store")).unwrap();
    let stores = every_store(&world, journal);
    for Store { name, path, .. } in &stores {
        world.store_config += &format!("[[store]]\nname = {name:?}\npath = {path:?}\n");
    }
    world.start();
    let mut python = Python::start();
    for store in &stores {
        // All versions are there before the first is read: most of them have to be put together from many.
        let moments = live(&world, store, &mut python);
        for moment in &moments {
            expect_moment(&world, moment, &mut python);
        }
    }
    world.stop();
}

fn every_store(world: &World, journal: &'static str) -> Vec<Store> {
    let mut stores = Vec::new();
    for page_size in PAGE_SIZES {
        for vacuum in VACUUM_MODES {
            let name = format!("{vacuum}-{page_size}");
            stores.push(Store {
                path: world.path("store").join(format!("{name}.db")),
                name,
                page_size,
                vacuum,
                journal,
            });
        }
    }
    stores
}

/// Lives a history and publishes after each of its steps.
fn live(world: &World, store: &Store, python: &mut Python) -> Vec<Moment> {
    let path = store.path.as_path();
    let mut moments = Vec::new();
    let mut look = |python: &mut Python| moments.push(moment(world, store, python));

    fill(path, store, python);
    look(python);

    // It grows; what is rolled back is in no version, be it before the publication or after.
    python.run(path, &["BEGIN", ITEMS, "INSERT INTO text VALUES ('a certified word')", "COMMIT"]);
    python.run(path, &["BEGIN", "DELETE FROM item", "UPDATE account SET balance = 0", "ROLLBACK"]);
    look(python);

    // It shrinks inside: pages become free, and in two of the vacuum modes go at once.
    python.run(path, &["DELETE FROM attachment WHERE id > 3", "DELETE FROM item WHERE id % 3 > 0"]);
    python.run(path, &["PRAGMA incremental_vacuum(4)"]);
    look(python);

    // It shrinks on disk.
    python.run(path, &["DELETE FROM text", "VACUUM"]);
    look(python);

    // Its pages get another size.
    let other = if store.page_size == 65536 { 512 } else { store.page_size * 2 };
    let (size, journal) =
        (format!("PRAGMA page_size = {other}"), format!("PRAGMA journal_mode = {}", store.journal));
    python.run(path, &["PRAGMA journal_mode = delete", &size, "VACUUM", &journal]);
    assert_eq!(python.number(path, "PRAGMA page_size"), i64::from(other));
    look(python);

    // Another file takes its place, as report pipelines do it.
    let next = path.with_extension("next");
    fill(&next, store, python);
    python.run(&next, &["UPDATE account SET balance = balance + 1"]);
    python.close(&next);
    python.close(path);
    fs::rename(&next, path).unwrap();
    look(python);

    // And it grows again, past what it was.
    python.run(
        path,
        &["BEGIN", ITEMS, ITEMS, "INSERT INTO attachment VALUES (99, zeroblob(150000))", "COMMIT"],
    );
    look(python);

    let again = publish(world, &store.name);
    assert_eq!(
        (&again["reused"], &again["version"]["number"]),
        (&true.into(), &moments.len().into()),
        "{again}"
    );
    python.close(path);
    moments
}

const ITEMS: &str = "INSERT INTO item (name, price, note)
    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 250)
    SELECT 'item ' || i * 7919 % 1000, i * 0.25, printf('%0*d', i % 90, i) FROM n";

/// Makes a store with everything that a database file may hold: rows, an index, a table without row ids,
/// full-text search, and values that overflow their page by a little and by a lot.
fn fill(path: &Path, store: &Store, python: &mut Python) {
    let (size, vacuum) =
        (format!("PRAGMA page_size = {}", store.page_size), format!("PRAGMA auto_vacuum = {}", store.vacuum));
    python.run(
        path,
        &[&size, &vacuum, &format!("PRAGMA journal_mode = {}", store.journal), "PRAGMA synchronous = off"],
    );
    let attachments = format!(
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 8)
         INSERT INTO attachment SELECT i, CAST(printf('%0*d', {} / 2 * (i - 1) + i, i) AS BLOB) FROM n",
        store.page_size
    );
    python.run(
        path,
        &[
            "BEGIN",
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, note TEXT)",
            "CREATE INDEX item_by_name ON item (name, price DESC)",
            "CREATE TABLE account (code TEXT PRIMARY KEY, balance) WITHOUT ROWID",
            "CREATE TABLE attachment (id INTEGER PRIMARY KEY, data BLOB)",
            "CREATE VIRTUAL TABLE text USING fts5 (body)",
            "CREATE VIEW total AS SELECT sum(price) FROM item",
            ITEMS,
            "INSERT INTO account SELECT DISTINCT name, price FROM item WHERE true ON CONFLICT DO NOTHING",
            "INSERT INTO text SELECT name || ' costs ' || price FROM item WHERE id % 5 = 0",
            &attachments,
            "PRAGMA user_version = 7",
            "COMMIT",
        ],
    );
    assert_eq!(python.number(path, "PRAGMA page_size"), i64::from(store.page_size));
    assert_eq!(python.run(path, &["PRAGMA journal_mode"])[0][0], store.journal);
}

/// Looks into the store and publishes it, while a transaction is open that nobody will ever see.
fn moment(world: &World, store: &Store, python: &mut Python) -> Moment {
    let content = python.inside(&store.path);
    // The text of a database takes a process for each; a few sizes tell as much as all.
    let dump = [512, 4096, 65536].contains(&store.page_size).then(|| dump(store.path.to_str().unwrap()));
    let image = image(&store.path, &world.path("image.db"), python);
    python.run(&store.path, &["BEGIN IMMEDIATE", "UPDATE account SET balance = -1"]);
    let version = publish_new(world, &store.name);
    python.run(&store.path, &["ROLLBACK"]);
    Moment { version, content, dump, image }
}

/// Opens a version as any client would and finds what there was.
fn expect_moment(world: &World, moment: &Moment, python: &mut Python) {
    let Moment { version, content, image, .. } = moment;
    let opened = open(world, version);
    assert_eq!(python.read_uri(&opened.uri), *content, "{version} by URI");
    assert_eq!(python.read_path(&opened.path), *content, "{version} by path");
    if let Some(expected) = &moment.dump {
        assert!(dump(&opened.uri) == *expected, "{version} as text");
        assert!(dump(opened.path.to_str().unwrap()) == *expected, "{version} as text");
    }
    expect_image(&opened.path, image, version);
    let store = version.split('@').next().unwrap();
    assert_eq!(names(opened.path.parent().unwrap()), [format!("{store}.db")], "{version}");
    close(world, version, &opened);
}
