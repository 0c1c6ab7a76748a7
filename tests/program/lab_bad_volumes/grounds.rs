//! Grounds on which no snapshot can be taken: a store that is to be cut by snapshots says why it cannot be published,
//! and one that is to be cut as the machine offers is cut by its pages.

use std::path::Path;
use std::process::Command;

use crate::common::Running;
use crate::lab::{in_lab, wait_until};
use crate::lab_bad_volumes::site::{Site, lab};

const EXPLICIT: &str = "backend = \"lvm-classic\"";
const AUTO: &str = "backend = \"auto\"";

/// A daemon that has to take snapshots starts, and refuses to publish with the reason; one that may do as it likes
/// publishes the pages and says in its log why.
fn check(site: &mut Site<'_>, why: &str, remedy: &str) {
    let log = site.restart_with(EXPLICIT);
    assert!(log.contains("cannot be published") && log.contains(why), "{log}");
    let answer = site.ask_to_publish();
    let problem = answer.expect_problem(500, "configuration");
    println!("{}\n    {}", problem["detail"], problem["hint"]);
    for (field, part) in [("detail", why), ("hint", remedy), ("hint", "then restart asat")] {
        assert!(problem[field].as_str().unwrap().contains(part), "{part:?} is not in {answer}");
    }
    site.check_content();
    let log = site.restart_with(AUTO);
    assert!(log.contains("cut by pages") && log.contains(why), "{log}");
    let version = site.publish_kib(64);
    assert_eq!(version["holdings"][0]["kind"], "archive", "{version:#}");
    site.check_content();
}

/// Has the store of the world's configuration lie elsewhere.
fn move_store_to(site: &mut Site<'_>, folder: &Path) {
    site.close_store();
    let link = site.world.path("store");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(folder, link).unwrap();
    site.open_store();
}

#[test]
fn lab_grounds_without_snapshots_are_refused_or_cut_by_pages() {
    in_lab(lab(2, "320M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        let kept = {
            site.restart();
            site.publish()
        };
        site.settle();

        // LVM goes while the daemon runs, and is not there when it starts.
        site.run("mv", &["/usr/sbin/lvm", "/usr/sbin/lvm.away"]);
        site.write(64);
        let problem = site.ask_to_publish().expect_problem(500, "configuration");
        println!("{}\n    {}", problem["detail"], problem["hint"]);
        assert!(problem["hint"].as_str().unwrap().contains("install the package lvm2"));
        check(&mut site, "lvm is not installed", "install the package lvm2");
        site.run("mv", &["/usr/sbin/lvm.away", "/usr/sbin/lvm"]);

        // Another file system on a volume, a disk without LVM, and no disk at all.
        let own = site.folder();
        site.run("lvcreate", &["-q", "-L", "32M", "-n", "old", "vg"]);
        let disk = machine.disks[1].to_str().unwrap();
        for (mkfs, kind, device, why) in [
            (
                "mkfs.ext3",
                "ext3",
                "/dev/vg/old",
                "snapshots of the file system ext3 are not supported: ext4 and xfs are",
            ),
            ("mkfs.ext4", "ext4", disk, "its device is a plain disk or partition"),
            ("true", "tmpfs", "tmpfs", "the file system tmpfs lies on no block device of its own"),
        ] {
            let folder = machine.mount_point();
            let at = folder.to_str().unwrap();
            site.run(mkfs, &["-q", device]);
            site.run("mount", &["-t", kind, device, at]);
            move_store_to(&mut site, &folder);
            check(&mut site, why, "write backend \"pages\"");
            assert!(site.world.stop().success());
            move_store_to(&mut site, &own);
            site.run("umount", &[at]);
        }

        // With the state on the store's volume both would be lost at once.
        site.run("mv", &[site.world.path("state").to_str().unwrap(), own.join("state").to_str().unwrap()]);
        std::os::unix::fs::symlink(own.join("state"), site.world.path("state")).unwrap();
        EXPLICIT.clone_into(&mut site.world.store_config);
        let mut refused = site.world.spawn();
        let log = refused.rest_of_log();
        assert_eq!(refused.exit().code(), Some(78), "{log}");
        println!("{log}");
        assert!(
            log.contains("lies on vg/data, as store report does") && log.contains("put it on another volume"),
            "{log}"
        );
        let log = site.restart_with(AUTO);
        assert!(log.contains("WARN") && log.contains("lies on vg/data, as store report does"), "{log}");
        let version = site.publish_kib(64);
        assert_eq!(version["holdings"][0]["kind"], "archive", "{version:#}");
        site.check_content();
        assert!(site.world.stop().success());
        std::fs::remove_file(site.world.path("state")).unwrap();
        site.run("mv", &[own.join("state").to_str().unwrap(), site.world.path("state").to_str().unwrap()]);

        site.restart_with(EXPLICIT);
        site.check_that_all_is_well();
        assert_eq!(site.state(&kept), "ready archive");
    });
}

/// The daemon of a user who is nobody.
fn as_nobody(site: &Site<'_>) -> Running {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        env!("CARGO_BIN_EXE_asat"),
        "serve",
        "--config",
    ]);
    command.arg(site.world.write_config());
    Running::spawn(command)
}

#[test]
fn lab_an_ordinary_user_is_told_what_is_not_permitted() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        // Another installation, root's, mounts below the same folder, where nobody else may look.
        std::fs::create_dir(site.world.path("mnt")).unwrap();
        site.run("chown", &["-R", "65534:65534", site.world.folder.path().to_str().unwrap()]);
        site.run("chown", &["-R", "65534:65534", site.folder().to_str().unwrap()]);
        site.run("chmod", &["0755", site.folder().parent().unwrap().to_str().unwrap()]);
        site.run("chown", &["0:0", site.world.path("mnt").to_str().unwrap()]);
        site.run("chmod", &["0700", site.world.path("mnt").to_str().unwrap()]);
        for (config, refused) in [(EXPLICIT, true), (AUTO, false)] {
            config.clone_into(&mut site.world.store_config);
            let mut daemon = as_nobody(&site);
            let log = daemon.wait_for("ready").unwrap_or_else(|log| panic!("{log}"));
            println!("{log}");
            assert!(log.contains("this process may not use /dev/mapper/control"), "{log}");
            site.world.daemon = Some(daemon);
            if refused {
                let problem = site.ask_to_publish().expect_problem(500, "configuration");
                println!("{}\n    {}", problem["detail"], problem["hint"]);
                assert!(problem["hint"].as_str().unwrap().starts_with("run the daemon as root, or choose"));
            } else {
                assert!(log.contains("cut by pages"), "{log}");
                let version = site.publish_kib(64);
                assert_eq!(version["holdings"][0]["kind"], "archive", "{version:#}");
            }
            assert!(site.world.stop().success());
        }
        // Root goes on with what nobody has begun.
        site.run("chown", &["-R", "0:0", site.world.path("state").to_str().unwrap()]);
        site.restart_with(EXPLICIT);
        site.check_that_all_is_well();
        wait_until("nothing is left", || site.snapshots().is_empty());
    });
}
