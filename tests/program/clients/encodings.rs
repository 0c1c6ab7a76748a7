//! Encodings: a store is rebuilt with its text in another encoding and on pages of another size, in its file or in another one that
//! takes its place, and every version reads as it was.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::clients::bytes::{expect_download, expect_image, image};
use crate::clients::client::{Python, dump, sqlite3};
use crate::clients::{open, publish_new};
use crate::common::World;

/// What a client saw as a version was published.
struct Moment {
    version: String,
    encoding: &'static str,
    page_size: i64,
    content: String,
    dump: String,
    image: Vec<u8>,
}

#[test]
fn versions_of_a_store_with_a_write_ahead_log_whose_encoding_changes() {
    encodings_in("wal");
}

#[test]
fn versions_of_a_store_that_deletes_its_journal_whose_encoding_changes() {
    encodings_in("delete");
}

fn encodings_in(journal: &str) {
    let mut world = World::new();
    let store = world.store();
    fs::create_dir_all(store.parent().unwrap()).unwrap();
    let mut python = Python::start();
    build(&store, "UTF-8", 4096, journal, &mut python);
    world.start();
    let mut moments = vec![moment(&world, "UTF-8", 4096, &mut python)];

    // The same text, as SQLite's online backup brings it into the file while it is in use. It cannot change the size of a log's pages.
    let in_place: [(&str, u32); 3] = match journal {
        "wal" => [("UTF-16le", 4096), ("UTF-16be", 4096), ("UTF-8", 4096)],
        _ => [("UTF-16le", 1024), ("UTF-16be", 65536), ("UTF-8", 512)],
    };
    for (encoding, page_size) in in_place {
        let source = source(&world, encoding, page_size, &mut python);
        // A connection keeps the encoding that it has found.
        python.close(&store);
        sqlite3(&[store.to_str().unwrap(), &format!(".restore '{}'", source.to_str().unwrap())]);
        fs::remove_file(&source).unwrap();
        moments.push(moment(&world, encoding, page_size, &mut python));
    }

    // Another file takes the place of the store: built anew, and packed by SQLite, which keeps the encoding.
    for (encoding, page_size) in [("UTF-16be", 2048), ("UTF-8", 4096), ("UTF-16le", 4096)] {
        let (source, packed) = (source(&world, encoding, page_size, &mut python), world.path("packed.db"));
        sqlite3(&[source.to_str().unwrap(), &format!("VACUUM INTO '{}'", packed.to_str().unwrap())]);
        fs::remove_file(&source).unwrap();
        python.close(&store);
        fs::rename(&packed, &store).unwrap();
        python.run(
            &store,
            &[&format!("PRAGMA journal_mode = {journal}"), "INSERT INTO word VALUES (99, 'Œuvre')"],
        );
        moments.push(moment(&world, encoding, page_size, &mut python));
    }

    for moment in &moments {
        expect_moment(&world, moment, &mut python);
    }
    // A store that is brought back gets its encoding back, too.
    python.close(&store);
    let answer = world.send("POST", "/stores/report/restore", &json!({ "version": "report@6" }));
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(python.inside(&store), moments[5].content);
    world.stop();
}

/// A database with text that every encoding writes in another way.
fn build(path: &Path, encoding: &str, page_size: u32, journal: &str, python: &mut Python) {
    let settings = [
        format!("PRAGMA encoding = '{encoding}'"),
        format!("PRAGMA page_size = {page_size}"),
        format!("PRAGMA journal_mode = {journal}"),
    ];
    python.run(path, &settings.each_ref().map(String::as_str));
    python.run(
        path,
        &[
            "CREATE TABLE word (id INTEGER PRIMARY KEY, \"größe\" TEXT)",
            "CREATE INDEX by_word ON word (\"größe\")",
            "INSERT INTO word VALUES (1, 'plain'), (2, 'größer'), (3, 'снег'), (4, '𝄞 clef'), (5, '')",
            "WITH RECURSIVE n(i) AS (VALUES (10) UNION ALL SELECT i + 1 FROM n WHERE i < 60)
             INSERT INTO word SELECT i + 100, printf('%.*c', i * 40, 'é') FROM n",
        ],
    );
}

/// A new database beside the store, which nobody has open.
fn source(world: &World, encoding: &str, page_size: u32, python: &mut Python) -> PathBuf {
    let path = world.path("source.db");
    build(&path, encoding, page_size, "delete", python);
    python.close(&path);
    path
}

/// Looks into the store, which must be as it was made, and publishes it.
fn moment(world: &World, encoding: &'static str, page_size: u32, python: &mut Python) -> Moment {
    let store = world.store();
    let page_size = i64::from(page_size);
    assert_eq!(python.run(&store, &["PRAGMA encoding"]), json!([[encoding]]));
    assert_eq!(python.number(&store, "PRAGMA page_size"), page_size);
    let (content, dump) = (python.inside(&store), dump(store.to_str().unwrap()));
    let image = image(&store, &world.path("image.db"), python);
    Moment { version: publish_new(world, "report"), encoding, page_size, content, dump, image }
}

fn expect_moment(world: &World, moment: &Moment, python: &mut Python) {
    let Moment { version, encoding, page_size, content, dump: text, image } = moment;
    let opened = open(world, version);
    assert_eq!(python.query(&opened.uri, "PRAGMA encoding"), json!([[encoding]]), "{version}");
    assert_eq!(world.get(&format!("/versions/{version}")).json()["page_size"], *page_size, "{version}");
    assert_eq!(python.read_path(&opened.path), *content, "{version}");
    assert!(dump(&opened.uri) == *text, "{version} as text");
    let found = python.query(&opened.uri, "SELECT id FROM word WHERE \"größe\" = 'снег'");
    assert_eq!(found, json!([[3]]), "{version} by its index");
    expect_image(&opened.path, image, version);
    expect_download(world, version, &opened.path);
}
