//! Paths: whatever a store is called and wherever it lies, its versions open by path and by URI.

use std::fs;
use std::path::{Path, PathBuf};

use crate::clients::bytes::{expect_image, image, names};
use crate::clients::client::{Python, dump};
use crate::clients::{open, publish, publish_new};
use crate::common::World;

/// Everything that means something in a URI, in a shell or in TOML, and letters beyond ASCII.
const ODD: &str = "ö 100%?mode=memory#'%41&снег ";

/// A world whose every path has odd names in it.
fn odd_world() -> World {
    let mut world = World::new();
    world.folder = tempfile::Builder::new().prefix(ODD).tempdir().unwrap();
    world
}

fn make(store: &Path, python: &mut Python) {
    fs::create_dir_all(store.parent().unwrap()).unwrap();
    let rows = "INSERT INTO t VALUES (1), ('größer'), (x'00ff')";
    python.run(store, &["PRAGMA journal_mode = wal", "CREATE TABLE t (x)", rows]);
}

#[test]
fn a_version_opens_by_path_and_by_uri_whatever_its_folder_is_called() {
    let mut world = odd_world();
    let store = world.path(ODD).join(format!("{ODD}.db"));
    world.store_config = format!("[[store]]\nname = \"odd\"\npath = {:?}\n", store.to_str().unwrap());
    let mut python = Python::start();
    make(&store, &mut python);
    let (content, text) = (python.inside(&store), dump(store.to_str().unwrap()));
    let image = image(&store, &world.path("image.db"), &mut python);
    world.start();

    let version = publish_new(&world, "odd");
    let opened = open(&world, &version);
    assert!(opened.path.to_str().unwrap().contains(ODD), "{}", opened.path.display());
    assert_eq!(python.read_path(&opened.path), content);
    assert_eq!(python.read_uri(&opened.uri), content);
    assert_eq!(dump(opened.path.to_str().unwrap()), text);
    assert_eq!(dump(&opened.uri), text);
    expect_image(&opened.path, &image, &version);

    // The URI names that very file: nothing else was made by opening it.
    assert_eq!(names(opened.path.parent().unwrap()), ["odd.db"]);
    let shown = world.get("/stores").json();
    assert_eq!(shown["stores"][0]["path"].as_str().map(PathBuf::from), Some(store));
    world.stop();
}

#[test]
fn a_store_behind_a_symbolic_link_is_the_file_that_the_link_leads_to() {
    let mut world = World::new();
    let (link, first, second) = (world.store(), world.path("first/data.db"), world.path("second/data.db"));
    let mut python = Python::start();
    make(&first, &mut python);
    make(&second, &mut python);
    python.run(&second, &["INSERT INTO t VALUES ('second')"]);
    let contents = [python.inside(&first), python.inside(&second)];
    fs::create_dir(world.path("store")).unwrap();
    std::os::unix::fs::symlink("../first/data.db", &link).unwrap();
    world.start();
    publish_new(&world, "report");

    // The link is pointed elsewhere in one step, as deployments do it.
    let next = world.path("store/next");
    std::os::unix::fs::symlink("../second/data.db", &next).unwrap();
    fs::rename(&next, &link).unwrap();
    publish_new(&world, "report");
    assert_eq!(publish(&world, "report")["reused"], true);

    for (version, content) in ["report@1", "report@2"].into_iter().zip(contents) {
        let opened = open(&world, version);
        assert_eq!(python.read_uri(&opened.uri), content, "{version}");
    }
    // SQLite keeps its files beside the database, not beside the link; nobody adds any.
    python.close(&first);
    python.close(&second);
    assert_eq!(names(&world.path("store")), ["report.db"]);
    assert_eq!(names(&world.path("first")), ["data.db"]);
    assert_eq!(names(&world.path("second")), ["data.db"]);
    world.stop();
}

#[test]
fn a_file_that_is_renamed_away_and_back_is_the_same_store() {
    let mut world = World::new();
    let (store, away) = (world.store(), world.path("away.db"));
    let mut python = Python::start();
    make(&store, &mut python);
    let content = python.inside(&store);
    python.close(&store);
    world.start();
    publish_new(&world, "report");

    fs::rename(&store, &away).unwrap();
    let refused = world.send("POST", "/snapshots", &serde_json::json!({}));
    refused.expect_problem(422, "store_missing");
    assert_eq!(names(&world.path("store")), [""; 0], "a database was made where there is none");

    fs::rename(&away, &store).unwrap();
    let again = publish(&world, "report");
    assert_eq!((&again["reused"], &again["version"]["id"]), (&true.into(), &"report@1".into()));
    assert_eq!(python.read_uri(&open(&world, "report@1").uri), content);
    world.stop();
}

#[test]
fn a_replaced_store_is_the_new_file_even_while_somebody_holds_the_old_one() {
    let mut world = World::new();
    let (store, next) = (world.store(), world.path("store/next.db"));
    let mut python = Python::start();
    make(&store, &mut python);
    python.run(&store, &["PRAGMA journal_mode = delete"]);
    world.start();
    let old = python.inside(&store);
    publish_new(&world, "report");

    let mut pipeline = Python::start();
    pipeline.run(&next, &["CREATE TABLE fresh (y)", "INSERT INTO fresh VALUES (1)"]);
    let new = pipeline.inside(&next);
    pipeline.close(&next);
    fs::rename(&next, &store).unwrap();
    // This client still has the file that is gone, and reads it.
    assert_eq!(python.inside(&store), old);
    publish_new(&world, "report");

    for (version, content) in [("report@1", old), ("report@2", new)] {
        assert_eq!(pipeline.read_uri(&open(&world, version).uri), content, "{version}");
    }
    assert_eq!(names(&world.path("store")), ["report.db"]);
    world.stop();
}
