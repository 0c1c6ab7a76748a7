//! A store that has moved since the daemon started, and a store whose WAL somebody keeps from being checkpointed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rusqlite::Connection;

use crate::lab::{Fs, in_lab};
use crate::lab_bad_volumes::site::{Site, content, lab, read};

const CLASSIC: &str = "backend = \"lvm-classic\"";

#[test]
fn lab_a_store_that_has_moved_is_refused_until_the_daemon_looks_again() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        let (own, other) = (site.folder(), site.group.origin("other", "64M", Fs::Ext4));
        let other = other.folder.unwrap();
        site.restart_with(CLASSIC);
        let (link, here, there) = (site.world.path("store"), own.join("report.db"), other.join("report.db"));
        let moved = own.join("moved.db");
        let relink = |folder: &Path| {
            fs::remove_file(&link).unwrap();
            symlink(folder, &link).unwrap();
        };
        type Move<'a> = (&'a str, &'a dyn Fn());
        let moves: [Move<'_>; 3] = [
            ("it is at /moved.db there now, and was at /report.db", &|| {
                fs::rename(&here, &moved).unwrap();
                symlink(&moved, &here).unwrap();
            }),
            ("it lies on another one now", &|| {
                fs::copy(&moved, &there).unwrap();
                fs::remove_file(&here).unwrap();
                symlink(&there, &here).unwrap();
            }),
            ("it lies on another one now", &|| {
                fs::copy(&there, own.join("last.db")).unwrap();
                fs::remove_file(&there).unwrap();
                symlink(own.join("last.db"), &there).unwrap();
                relink(&other);
            }),
        ];
        for (why, happen) in moves {
            site.publish();
            site.settle();
            site.close_store();
            happen();
            site.open_store();
            site.write(64);
            site.refused(500, "configuration", &["when asat started", why, "restart asat"]);
            site.restart();
            site.check_that_all_is_well();
        }
    });
}

#[test]
fn lab_a_reader_that_holds_up_the_wal_does_not_hold_up_a_publication() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        site.put_state_on_small_disk();
        site.restart_with(CLASSIC);
        site.publish();
        site.settle();
        site.hold_up_archiving();
        let reader = Connection::open(site.world.store()).unwrap();
        reader.execute_batch("begin; select count(*) from t").unwrap();
        let seen = content(&reader);
        site.write(6 << 10);
        let answer = site.ask_to_publish();
        let (publication, expected) = (answer.json(), content(&read(&site.world.store())));
        assert_eq!((answer.status, publication["hold"].as_str()), (201, Some("snapshot")), "{answer}");
        println!("writers were held for {} ms", publication["writer_blocked_ms"]);
        let id = publication["version"]["id"].as_str().unwrap();
        assert_eq!(site.state(id), "ready snapshot");
        // The store goes on, and the version does not.
        site.write(64);
        assert_eq!(content(&reader), seen);
        drop(reader);
        let copy = site.world.open(id);
        assert_eq!(content(&read(&copy)), expected);
        let download = site.world.get(&format!("/versions/{id}/database"));
        let problem = download.expect_problem(409, "in_use");
        println!("{}\n    {}", problem["detail"], problem["hint"]);

        site.let_archiving_go_on();
        site.check_that_all_is_well();
        assert_eq!(site.state(id), "ready archive");
        let downloaded = machine.folder("downloads").join("report.db");
        fs::write(&downloaded, site.world.get(&format!("/versions/{id}/database")).body).unwrap();
        assert_eq!(content(&read(&downloaded)), expected);
        assert_eq!(content(&read(&copy)), expected);
    });
}
