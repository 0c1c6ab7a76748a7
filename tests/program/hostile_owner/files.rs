//! Files that are cut short, replaced, or no files.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use crate::common::World;
use crate::hostile_owner::{
    assert_others_are_served, beside, beside_its_owner, fill, lay_down_with_wal, publish, world,
};

/// Cuts a file short, where it is there.
fn truncate(path: &std::path::Path, length: u64) {
    if let Ok(file) = File::options().write(true).open(path) {
        file.set_len(length).unwrap();
    }
}

#[test]
fn a_wal_index_that_is_cut_short_during_a_read_ends_that_read_alone() {
    let mut world = world();
    fs::remove_file(world.store()).unwrap();
    lay_down_with_wal(&world);
    world.start();
    let shm = beside(&world.store(), "-shm");
    let is_bus_error = |answer: &crate::common::Answer| {
        answer.status != 201 && String::from_utf8_lossy(&answer.body).contains("SIGBUS")
    };
    assert!(
        beside_its_owner(&world, || truncate(&shm, 0), is_bus_error),
        "the file was never cut short in time"
    );
    // When the owner has stopped, the store is published as ever.
    fs::remove_file(&shm).unwrap();
    let answer = publish(&world.socket());
    assert!([200, 201].contains(&answer.status), "{answer}");
}

#[test]
fn no_file_of_a_store_that_is_cut_short_or_grows_ends_the_daemon() {
    for (mode, suffix) in
        [("wal", "-wal"), ("wal", ""), ("delete", ""), ("delete", "-journal"), ("wal", "-shm")]
    {
        let mut world = world();
        fs::remove_file(world.store()).unwrap();
        match mode {
            "wal" => lay_down_with_wal(&world),
            _ => fill(&world.sqlite(), mode),
        }
        world.start();
        let file = beside(&world.store(), suffix);
        let again = fs::read(&file).unwrap_or_else(|_| vec![0xd9; 70_000]);
        let at_work = || {
            for length in [0, 100, 4096, 40_000] {
                truncate(&file, length);
            }
            fs::write(&file, &again).unwrap();
        };
        let mut rounds = std::cell::Cell::new(0);
        beside_its_owner(&world, at_work, |_| {
            rounds.set(rounds.get() + 1);
            rounds.get() == 20
        });
        assert_eq!(*rounds.get_mut(), 20, "{mode}{suffix}");
    }
}

#[test]
fn a_store_that_is_replaced_again_and_again_is_one_of_those_or_refused() {
    let mut world = world();
    world.start();
    let (store, other, third) = (world.store(), world.path("second.db"), world.path("third.db"));
    fs::copy(&store, &other).unwrap();
    let at_work = || {
        fs::rename(&store, &third).unwrap();
        fs::rename(&other, &store).unwrap();
        fs::rename(&third, &other).unwrap();
        fs::hard_link(&store, &third).unwrap();
        fs::remove_file(&third).unwrap();
    };
    let seen = std::cell::RefCell::new(Vec::new());
    beside_its_owner(&world, at_work, |answer| {
        let expected = [200, 201, 404, 409, 422, 503].contains(&answer.status);
        assert!(expected, "{answer}");
        seen.borrow_mut().push(answer.status);
        false
    });
    assert_eq!(seen.borrow().len(), 100);
}

#[test]
fn what_is_no_file_is_refused_in_the_place_of_a_store_and_beside_it() {
    let mut world = world();
    world.start();
    for suffix in ["", "-wal", "-shm", "-journal"] {
        for (kind, lay) in KINDS {
            let file = beside(&world.store(), suffix);
            if suffix.is_empty() {
                fs::rename(&file, world.path("kept.db")).unwrap();
            }
            lay(&world, &file);
            let answer = publish(&world.socket());
            let refused = [404, 422, 503].contains(&answer.status);
            assert!(refused, "{kind} as {suffix:?}: {answer}");
            assert_others_are_served(&world);
            fs::remove_file(&file).or_else(|_| fs::remove_dir(&file)).unwrap();
            if suffix.is_empty() {
                fs::rename(world.path("kept.db"), &file).unwrap();
            }
        }
    }
    let answer = publish(&world.socket());
    assert!([200, 201].contains(&answer.status), "{answer}");
}

type Lay = fn(&World, &std::path::Path);

const KINDS: [(&str, Lay); 5] = [
    ("a pipe", |_, path| {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
    }),
    ("a folder", |_, path| fs::create_dir(path).unwrap()),
    ("a socket", |_, path| drop(UnixListener::bind(path).unwrap())),
    ("a device", |_, path| symlink("/dev/zero", path).unwrap()),
    ("a link to itself", |_, path| symlink(path, path).unwrap()),
];
