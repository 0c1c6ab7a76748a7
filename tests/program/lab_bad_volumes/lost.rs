//! A snapshot that overflows or is removed before its version is in the archive: that version is lost and says why, and
//! no other one is.

use std::fs;
use std::io::Write as _;

use crate::lab::{in_lab, wait_until};
use crate::lab_bad_volumes::site::{Site, lab};

/// What happens to a snapshot.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Overflow,
    Removal,
}

/// When the daemon finds it.
#[derive(Clone, Copy, Debug)]
enum Found {
    AsItArchives,
    AsItStarts,
}

const CASES: [(Trouble, Found, &str); 4] = [
    (Trouble::Overflow, Found::AsItArchives, "was full"),
    (Trouble::Overflow, Found::AsItStarts, "was full"),
    (Trouble::Removal, Found::AsItArchives, "was removed"),
    (Trouble::Removal, Found::AsItStarts, "was removed"),
];

impl Trouble {
    fn happen(self, site: &Site<'_>, id: &str, name: &str) {
        match self {
            Self::Overflow => overflow(site, name),
            Self::Removal => remove(site, id, name),
        }
    }
}

/// Overwrites more of the volume than the snapshot has space for.
fn overflow(site: &Site<'_>, name: &str) {
    let mut file = fs::File::create(site.origin.path("other")).unwrap();
    file.write_all(&vec![b'x'; 24 << 20]).unwrap();
    file.sync_all().unwrap();
    let device = format!("/dev/{name}");
    // The kernel gives the snapshot up beside the write, a moment later, and the daemon may have taken it away by then.
    wait_until("the snapshot is full", || {
        let status = site.machine.try_run("dmsetup", &["status", &device]);
        status.map_or(true, |status| status.trim().ends_with("Invalid"))
    });
    fs::remove_file(site.origin.path("other")).unwrap();
}

/// Removes a snapshot as an administrator would who knows no better.
fn remove(site: &Site<'_>, id: &str, name: &str) {
    site.unmount(id);
    site.run("lvremove", &["-q", "--yes", name]);
}

/// Publishes a version that is lost before it is archived.
fn lose(site: &mut Site<'_>, trouble: Trouble, found: Found, why: &str) {
    site.hold_up_archiving();
    let (id, name) = site.publish_hot();
    site.forget(&id);
    trouble.happen(site, &id, &name);
    // Nobody has told the daemon yet.
    let body = serde_json::json!({ "holder": "a reader" });
    let opened = site.world.send("POST", &format!("/versions/{id}/mounts"), &body);
    println!("{}", opened.expect_problem(409, "not_readable")["detail"]);
    site.world.get(&format!("/versions/{id}/database")).expect_problem(409, "not_readable");
    match found {
        Found::AsItArchives => site.let_archiving_go_on(),
        Found::AsItStarts => {
            site.world.kill();
            site.let_archiving_go_on();
            site.restart();
            assert_eq!(site.version(&id)["state"], "lost");
        }
    }
    site.check_that_all_is_well();
    let version = site.version(&id);
    println!("{trouble:?} {found:?}: {}", version["end_reason"]);
    assert!(version["end_reason"].as_str().unwrap().contains(why), "{version:#}");
    assert!(version["ended_at"].is_string() && site.state(&id) == "lost ", "{version:#}");
    let opened = site.world.send("POST", &format!("/versions/{id}/mounts"), &body);
    let detail = opened.expect_problem(409, "not_readable")["detail"].clone();
    assert!(detail.as_str().unwrap().contains(why), "{detail}");
}

#[test]
fn lab_a_version_whose_snapshot_is_full_or_removed_is_lost_and_no_other() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::classic(machine, "128M");
        site.put_state_on_small_disk();
        // The guard would not let it come to this.
        "[guard]\nleast_free = \"1 KiB\"\nladder = [\"alarm\"]".clone_into(&mut site.world.config);
        let small = "backend = \"lvm-classic\"\nsnapshot_size = \"8 MiB\"\n";
        site.restart_with(small);
        site.publish();
        site.settle();
        for (trouble, found, why) in CASES {
            lose(&mut site, trouble, found, why);
        }

        // A version that is archived as well loses nothing with its snapshot.
        site.restart_with(&format!("{small}keep_snapshots = 1"));
        let both = |site: &Site<'_>, id: &str| {
            wait_until("it is archived", || site.state(id) == "ready snapshot+archive")
        };
        for trouble in [Trouble::Overflow, Trouble::Removal] {
            let version = site.publish_kib(64);
            let (id, name) =
                (version["id"].as_str().unwrap(), version["holdings"][0]["name"].as_str().unwrap());
            both(&site, id);
            trouble.happen(&site, id, name);
            site.check_content();
            site.restart();
            site.settle();
            site.check_content();
        }
    });
}
