//! Discovery on the machine that runs the tests, whatever it stands on.

use super::*;

#[test]
fn a_store_on_this_machine_stands_on_something() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("r.db");
    let absent = lvm::Error::NotInstalled;
    let missing = discover(&store, || Err(absent.to_string())).unwrap_err();
    assert_eq!(Problem::from(missing).code, Code::StoreMissing);
    fs::write(&store, "x").unwrap();
    fs::write(folder.path().join("r.db-wal"), "x").unwrap();
    match discover(&store, || Err(absent.to_string())).unwrap() {
        Ground::Plain { fs, why } => assert!(!fs.is_empty() && !why.to_string().is_empty()),
        Ground::Lvm(_) => panic!("without LVM"),
    }
    let places = places(&store).unwrap();
    assert_eq!(places.len(), 3);
    assert!(places.iter().all(|place| place.mount == places[0].mount));
}

#[test]
fn a_store_without_a_device_is_told_so() {
    // procfs is there on every machine, and lies on nothing.
    let why = discover(Path::new("/proc/self/status"), || Err(lvm::Error::NotInstalled.to_string())).unwrap();
    assert_eq!(why, Ground::Plain { fs: "proc".to_owned(), why: Obstacle::NoDevice("proc".to_owned()) });
}
