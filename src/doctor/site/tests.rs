//! Configurations, folders and sockets as data.

use std::path::PathBuf;

use asat_core::{Code, Problem};
use asat_host::doctor::Footing;

use super::*;
use crate::doctor::facts::Store;

const GIB: u64 = 1 << 30;

fn place(fs: &str, minor: u32, free: u64) -> Place {
    Place { fs: fs.to_owned(), mount_point: PathBuf::from("/"), device: (254, minor), free }
}

fn entry(kind: Kind, bytes: u64, mode: u32) -> PathKind {
    PathKind::There { kind, bytes, owner: 990, mode, links: 2 }
}

/// A site with stores of 2 GiB each on these devices, and the state folder on device 0.
fn site(stores: &[(&str, u32)], free: u64) -> Site {
    let store = |(name, minor): &(&str, u32)| Store {
        sharing: None,
        name: (*name).to_owned(),
        path: PathBuf::from("/srv/r.db"),
        file: entry(Kind::File, 2 * GIB, 0o644),
        place: Ok(place("ext4", *minor, free)),
        footing: Footing::Plain(String::new()),
        cloning: Err(String::new()),
        backend: None,
        keep_snapshots: 0,
        watched: None,
        tracked: None,
        beside_state: *minor == 0,
        beside_needed: None,
    };
    Site {
        tree: None,
        stores: stores.iter().map(store).collect(),
        state: StateFacts {
            path: PathBuf::from("/var/lib/asat"),
            folder: entry(Kind::Folder, 4096, 0o710),
            place: Ok(place("ext4", 0, free)),
            max_copy_bytes: 10 * GIB,
            max_cache_bytes: None,
            copy_bytes: Some(0),
            begun: false,
            catalogue: Ok(Vec::new()),
        },
        listeners: Vec::new(),
        alarm_command: None,
        remote: None,
        follow: None,
    }
}

fn said(site: &Site) -> Vec<(&'static str, Level)> {
    state(site, 990).into_iter().map(|finding| (finding.check, finding.level)).collect()
}

#[test]
fn a_state_folder_with_room_on_a_volume_of_its_own() {
    let site = site(&[("report", 1)], 20 * GIB);
    let expected = ["folder", "file-system", "apart", "room-for-copies"].map(|check| (check, Level::Ok));
    assert_eq!(said(&site), expected);
    assert_eq!(state(&site, 0)[0].level, Level::Note, "somebody else's folder");
}

#[test]
fn a_state_folder_beside_its_stores_without_room() {
    let mut site = site(&[("report", 0), ("other", 1), ("audit", 0)], 5 * GIB);
    let warned = |site: &Site| -> Vec<String> {
        let findings = state(site, 990).into_iter().filter(|finding| finding.level == Level::Warning);
        findings.map(|finding| finding.what).collect()
    };
    let expected = [
        "it shares its file system with the stores audit, report",
        "the first versions may take 6.0 GiB, and 5.0 GiB are free",
        "as-at copies may take 10.0 GiB, they take 0 B now, and 5.0 GiB are free",
    ];
    assert_eq!(warned(&site), expected);
    site.state.begun = true;
    site.state.copy_bytes = Some(6 * GIB);
    assert_eq!(warned(&site).len(), 1);
    site.state.max_cache_bytes = Some(6 * GIB);
    assert_eq!(warned(&site)[1], "the cache of the bucket may take 6.0 GiB, and 5.0 GiB are free");
    site.state.max_cache_bytes = Some(4 * GIB);
    assert_eq!(warned(&site).len(), 1);
}

#[test]
fn folders_that_the_daemon_would_refuse() {
    let mut site = site(&[], 20 * GIB);
    for (folder, level) in [
        (entry(Kind::Folder, 0, 0o777), Level::Problem),
        (entry(Kind::File, 0, 0o600), Level::Problem),
        (PathKind::Hidden("Permission denied".to_owned()), Level::Problem),
        (PathKind::Missing, Level::Note),
    ] {
        site.state.folder = folder;
        assert_eq!(said(&site)[0], ("folder", level), "{:?}", site.state.folder);
    }
    site.state.place = Ok(place("tmpfs", 0, 20 * GIB));
    assert_eq!(said(&site)[1], ("file-system", Level::Warning));
}

#[test]
fn a_configuration_is_in_order_missing_or_wrong() {
    let file = PathBuf::from("/etc/asat/asat.toml");
    let read = |stores| configuration(&Configuration::Read { file: file.clone(), stores, follows: false });
    let follows = configuration(&Configuration::Read { file: file.clone(), stores: 0, follows: true });
    assert_eq!(follows.what, "/etc/asat/asat.toml is in order, and names a bucket to follow");
    assert_eq!((read(0).level, read(1).level), (Level::Warning, Level::Ok));
    assert_eq!(read(2).what, "/etc/asat/asat.toml is in order, and names 2 stores");
    assert_eq!(configuration(&Configuration::None).level, Level::Note);
    let wrong = Problem::new(Code::Configuration, "no such key", "take it out");
    let wrong = configuration(&Configuration::Wrong(wrong));
    assert_eq!((wrong.level, wrong.advice.as_deref()), (Level::Problem, Some("take it out")));
}

#[test]
fn an_alarm_command_that_cannot_be_run_is_a_problem() {
    let judged = |usable| alarm_command(&("/opt/page".to_owned(), usable));
    assert_eq!(judged(Ok(())).level, Level::Ok);
    let missing = judged(Err("cannot run /opt/page: No such file or directory (os error 2)".to_owned()));
    assert_eq!((missing.level, missing.group), (Level::Problem, Group::Guard));
    assert!(missing.what.contains("/opt/page: No such file") && missing.advice.is_some(), "{missing:?}");
}

#[test]
fn sockets_in_every_state() {
    let level = |found| {
        listener(&Listener { address: "unix:/run/asat/asat.sock".to_owned(), unix: true, found }).level
    };
    assert_eq!(level(Listening::Somebody), Level::Ok);
    assert_eq!(level(Listening::Nothing), Level::Note);
    assert_eq!(level(Listening::Stale), Level::Note);
    assert_eq!(level(Listening::NotPermitted), Level::Note);
    assert_eq!(level(Listening::Unknown(String::new())), Level::Warning);
    assert_eq!(level(Listening::InTheWay), Level::Problem);
}
