//! Volumes that look like asat's and are not, and things that lie where asat mounts: all of them are left alone.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::World;
use crate::lab::{in_lab, wait_until};
use crate::lab_bad_volumes::site::{Site, lab};

/// Somebody makes a plain volume with this name and these tags.
fn make(site: &mut Site<'_>, name: &str, tags: &[String]) {
    let tags = tags.iter().flat_map(|tag| ["--addtag", tag]);
    let arguments: Vec<&str> = ["-q", "-L", "4M", "-n", name].into_iter().chain(tags).chain(["vg"]).collect();
    site.run("lvcreate", &arguments);
    site.strangers = site.snapshots();
}

/// The tags that asat gives to the snapshot of a version.
fn tags(id: &str, number: u64) -> Vec<String> {
    let [installation, number] = [format!("asat.installation={id}"), format!("asat.number={number}")];
    vec!["asat".to_owned(), installation, "asat.store=report".to_owned(), number]
}

/// What of the volumes nobody may change.
fn marks(site: &Site<'_>) -> String {
    site.run(
        "lvs",
        &["--noheadings", "--options", "lv_name,lv_uuid,lv_size,lv_tags", "--select", "lv_name!=data"],
    )
}

#[test]
fn lab_volumes_that_look_like_asats_are_left_alone() {
    in_lab(lab(1, "512M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        site.restart();
        site.publish();
        site.settle();
        let (short, id) = site.installation();
        let other = id.replacen(&id[..1], if id.starts_with('f') { "0" } else { "f" }, 1);

        // Somebody has the name of the next snapshot, without asat's tags or with all of them.
        for tags in [Vec::new(), tags(&id, 2)] {
            make(&mut site, &format!("asat.2.{short}.report"), &tags);
            site.write(64);
            site.refused(500, "internal", &["already exists in volume group", "rename it (lvrename)"]);
            site.refused(500, "internal", &["already exists in volume group"]);
            let name = format!("vg/asat.2.{short}.report");
            site.run("lvrename", &["-q", &name, &format!("kept{}", tags.len())]);
            site.strangers = site.snapshots();
        }
        let both = site.publish();
        site.settle();

        make(&mut site, &format!("asat.12.{short}.report"), &[]);
        make(&mut site, &format!("asat.13.{short}.report"), &tags(&other, 13));
        make(&mut site, &format!("asat.14.{short}.report"), &tags(&id, 14));
        make(&mut site, &format!("asat.16.{}.report", "0".repeat(8)), &tags(&other, 16));
        make(&mut site, "somebody", &["asat".to_owned()]);
        // A snapshot that the catalogue knows is replaced by a volume with its name and tags.
        site.restart_with("backend = \"lvm-classic\"\nkeep_snapshots = 1");
        let replaced = site.publish();
        // No version gets a number that a volume of this installation bears.
        assert_eq!((both.as_str(), replaced.as_str()), ("report@2", "report@15"));
        wait_until("it is archived", || site.state(&replaced) == "ready snapshot+archive");
        assert!(site.world.stop().success());
        let name = format!("vg/asat.15.{short}.report");
        site.unmount(&replaced);
        site.run("lvremove", &["-q", "--yes", &name]);
        make(&mut site, &format!("asat.15.{short}.report"), &tags(&id, 15));

        let before = marks(&site);
        let log = site.restart_with("backend = \"lvm-classic\"");
        let told = [
            format!(
                "vg/asat.14.{short}.report was taken for report@14, and is left alone: the catalogue does not know of it"
            ),
            format!(
                "vg/asat.15.{short}.report was taken for report@15, and is left alone: its UUID is not the recorded one"
            ),
            "vg/somebody has asat's tag and is left alone: its name is none that asat gives".to_owned(),
        ];
        for line in told {
            assert!(log.contains(&line), "{line:?} is not in {log}");
        }
        for untold in ["asat.12.", "asat.13.", "asat.16."] {
            assert!(!log.contains(untold), "{untold}: {log}");
        }
        site.check_that_all_is_well();
        site.restart();
        site.check_that_all_is_well();
        assert_eq!(marks(&site), before);
    });
}

/// What lies where a snapshot is to be mounted, and what is said of it.
fn put_in_the_way(site: &Site<'_>, what: &str) -> String {
    let (root, at) = (site.world.path("mnt"), site.mounted_at("report@2"));
    match what {
        "a file for a root" => {
            fs::remove_dir_all(&root).unwrap();
            fs::write(&root, "mine").unwrap();
            return format!("{} is in the way of a version: it is no folder", root.display());
        }
        "a file" => fs::write(&at, "mine").unwrap(),
        "a link" => symlink(machine_folder(site), &at).unwrap(),
        "a folder that is not empty" => {
            fs::create_dir_all(format!("{at}/mine")).unwrap();
            return format!("{at}/mine is in the way of a version: it was not made by asat");
        }
        "a mount" => {
            fs::create_dir(&at).unwrap();
            site.run("mount", &["-t", "tmpfs", "mine", &at]);
            return format!("{at} is in the way of a version");
        }
        other => unreachable!("{other}"),
    }
    format!("{at} is in the way of a version: it is no folder of this process's user")
}

fn machine_folder(site: &Site<'_>) -> std::path::PathBuf {
    site.machine.folder("elsewhere")
}

#[test]
fn lab_what_lies_where_snapshots_are_mounted_is_left_alone() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        site.restart();
        site.publish();
        site.settle();
        let at = site.mounted_at("report@2");
        let list = |path: &str| site_listing(machine, path);
        for what in ["a file", "a link", "a folder that is not empty", "a mount", "a file for a root"] {
            let said = put_in_the_way(&site, what);
            let before = list(&at);
            site.write(64);
            site.refused(500, "internal", &[&said, "unmount it or move it elsewhere"]);
            assert_eq!(list(&at), before, "{what}");
            match what {
                "a mount" => drop(site.run("umount", &[&at])),
                "a file for a root" => fs::remove_file(site.world.path("mnt")).unwrap(),
                _ => {}
            }
            site.run("rm", &["-rf", &at]);
        }
        site.check_that_all_is_well();

        // Another installation that mounts below the same folder leaves alone what is mounted there.
        site.restart_with("backend = \"lvm-classic\"\nkeep_snapshots = 1");
        let id = site.publish();
        let shown = site.world.open(&id);
        let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
        let before = mounts();
        assert!(before.contains(&format!("/mnt/.snapshots/{id} ")), "{before}");
        let mut other = World::new();
        drop(other.sqlite());
        symlink(site.world.path("mnt"), other.path("mnt")).unwrap();
        let log = other.start();
        assert!(log.contains("left alone what is mounted there") && log.contains(&id), "{log}");
        assert!(other.stop().success());
        assert_eq!(mounts(), before);
        assert!(shown.exists());
        site.restart();
        site.check_content();
    });
}

fn site_listing(machine: &crate::lab::Machine, path: &str) -> String {
    machine.try_run("ls", &["-lRd", path]).unwrap_or_default()
        + &machine.try_run("ls", &["-lRH", path]).unwrap_or_default()
}
