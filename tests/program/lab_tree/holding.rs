//! A version that is open is held, and one that is on its way into the archive is waited for.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde_json::Value;

use crate::common::{Answer, World};
use crate::lab::{Fs, Lab, in_lab};
use crate::lab_tree::{FUSE, at, connect, errno, publish, rows, world};

/// Where the first page of a segment lies, right after its header (`docs/archive-format.md`).
const FIRST_PAGE: u64 = 12;

fn retire(world: &World, version: &str) -> Answer {
    world.request("DELETE", &format!("/versions/{version}"), &[], b"")
}

fn leases(version: &Value) -> u64 {
    version["leases"].as_u64().unwrap()
}

#[test]
fn lab_a_version_is_held_while_it_is_open_and_let_go_after() {
    in_lab(Lab::new(), |_| {
        let world = world(2);
        let path = at(&world, "report@1/report.db");
        let (first, second) = (connect(&path), connect(&path));
        assert_eq!((rows(&first), rows(&second)), (1, 1));
        assert_eq!(leases(&world.get("/versions/report@1").json()), 1, "all who have it open share a lease");
        drop(first);
        let refused = retire(&world, "report@1").expect_problem(409, "leased");
        assert!(refused["detail"].as_str().unwrap().contains("fuse"), "{refused}");
        assert_eq!(rows(&second), 1);
        drop(second);
        // It stays leased for whoever opens it again, but not in the way of those who give it up. The kernel tells of the
        // closing in its own time.
        while retire(&world, "report@1").status == 409 {
            assert_eq!(leases(&world.get("/versions/report@1").json()), 1);
        }
        assert_eq!(world.get("/versions/report@1").json()["state"], "retired");
        assert_eq!(errno(&fs::File::open(&path).unwrap_err()), Errno::NOENT);
        assert_eq!(rows(&connect(&at(&world, "report@2/report.db"))), 2);
    });
}

#[test]
fn lab_a_version_that_is_given_up_is_gone_from_where_it_was_seen() {
    in_lab(Lab::new(), |_| {
        let world = world(2);
        let path = at(&world, "report@1/report.db");
        assert!(fs::metadata(&path).is_ok());
        world.retire("report@1");
        // The kernel asks again after a second.
        let begun = Instant::now();
        while fs::metadata(&path).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is there for ever");
        }
        assert_eq!(errno(&fs::metadata(path.parent().unwrap()).unwrap_err()), Errno::NOENT);
    });
}

#[test]
fn lab_a_version_that_is_repaired_is_read_again_by_who_has_it_open() {
    in_lab(Lab::new(), |_| {
        // The store has it all still.
        let world = world(1);
        let segment = fs::OpenOptions::new().read(true).write(true).open(world.segment(1));
        let (segment, mut byte) = (segment.unwrap(), [0]);
        let file = fs::File::open(at(&world, "report@1/report.db")).unwrap();
        // The first page lies right after the header.
        segment.read_exact_at(&mut byte, FIRST_PAGE + 2).unwrap();
        segment.write_all_at(&[byte[0] ^ 1], FIRST_PAGE + 2).unwrap();
        let mut page = [0; 4096];
        assert_eq!(errno(&file.read_exact_at(&mut page, 0).unwrap_err()), Errno::IO);
        let report = world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(report["ok"], false, "{report}");
        file.read_exact_at(&mut page, 0).unwrap();
        assert!(page.starts_with(b"SQLite format 3"));
        assert_eq!(rows(&connect(&at(&world, "report@1/report.db"))), 1);
    });
}

#[test]
fn lab_a_version_whose_lease_is_revoked_is_read_no_longer_and_can_be_given_up() {
    in_lab(Lab::new(), |_| {
        let world = world(2);
        let path = at(&world, "report@1/report.db");
        let (file, other) = (fs::File::open(&path).unwrap(), connect(&at(&world, "report@2/report.db")));
        assert_eq!(rows(&other), 2);
        let list = world.get("/leases?holder=fuse").json()["leases"].clone();
        let lease = list.as_array().unwrap().iter().find(|lease| lease["version"] == "report@1").unwrap();
        assert_eq!((&lease["actor"], lease["path"].as_str()), (&"asat".into(), path.to_str()));
        let target = format!("/leases/{}?reason=incident", lease["lease"].as_str().unwrap());
        let answer = world.request("DELETE", &target, &[], b"");
        assert_eq!(answer.status, 200, "{answer}");
        // What the kernel has in its cache already it gives; nothing was read of this one yet.
        let mut page = [0; 4096];
        assert_eq!(errno(&file.read_exact_at(&mut page, 0).unwrap_err()), Errno::IO);
        assert_eq!(errno(&fs::File::open(&path).unwrap_err()), Errno::BUSY);
        assert_eq!(rows(&other), 2, "another version is another lease's");
        assert_eq!(leases(&world.get("/versions/report@1").json()), 0);
        world.retire("report@1");
        drop(file);
        assert_eq!(errno(&fs::File::open(&path).unwrap_err()), Errno::NOENT);
    });
}

#[test]
fn lab_a_lease_is_renewed_for_as_long_as_the_file_is_open() {
    in_lab(Lab::new(), |_| {
        // The shortest lease there is: it would be over long before the file is closed.
        let world = crate::lab_tree::configured(&format!("{FUSE}[copies]\nmax_lease = \"3s\"\n"), 1);
        let reader = connect(&at(&world, "report@1/report.db"));
        assert_eq!(rows(&reader), 1);
        // Time passes on purpose: more than two such leases last.
        std::thread::sleep(Duration::from_secs(7));
        retire(&world, "report@1").expect_problem(409, "leased");
        assert_eq!(rows(&reader), 1);
    });
}

#[test]
fn lab_a_version_that_was_opened_stays_open_for_a_while_and_is_not_leased_for_ever() {
    in_lab(Lab::new(), |_| {
        // What is not opened again goes at the second renewal.
        let world = crate::lab_tree::configured(&format!("{FUSE}[copies]\nmax_lease = \"3s\"\n"), 1);
        for _ in 0..3 {
            assert_eq!(rows(&connect(&at(&world, "report@1/report.db"))), 1);
        }
        assert_eq!(leases(&world.get("/versions/report@1").json()), 1);
        world.until("report@1", |version| leases(version) == 0);
        assert_eq!(rows(&connect(&at(&world, "report@1/report.db"))), 1);
    });
}

#[test]
fn lab_a_version_that_is_only_in_its_snapshot_is_opened_once_it_is_in_the_archive() {
    in_lab(Lab::new().disks(1, "1G"), |machine| {
        let group = machine.volume_group("tree", &[0]);
        let origin = group.origin("data", "128M", Fs::Ext4);
        let mut world = World::new();
        FUSE.clone_into(&mut world.config);
        world.ground.folder = origin.path("");
        "backend = \"lvm-classic\"".clone_into(&mut world.store_config);
        world.sqlite().execute_batch("pragma journal_mode = wal; create table ledger (entry text)").unwrap();
        world.start_under_contract();
        for version in 1..=3 {
            publish(&world, version);
            assert_eq!(rows(&connect(&at(&world, "latest/report.db"))), version);
            // Reading it keeps no snapshot.
            let reader = connect(&at(&world, &format!("report@{version}/report.db")));
            assert_eq!(rows(&reader), version);
            world.settled(&format!("report@{version}"));
        }
        world.stop();
    });
}
