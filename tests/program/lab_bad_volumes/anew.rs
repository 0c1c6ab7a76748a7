//! The catalogue is lost while versions are in their snapshots alone: they are known again by the tags of those, and nobody else's
//! snapshots are touched.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::lab::{in_lab, wait_until};
use crate::lab_bad_volumes::site::{Site, lab};

/// Another installation's, on the same volume.
const OTHER: &str = "00000000000000000000000000000000";

/// Removes files of the state folder, as a disk does that has lost them.
fn lose(site: &Site<'_>, files: &[&str]) {
    for file in files {
        let _ = fs::remove_file(site.world.path("state").join(file));
    }
}

fn lose_catalogue(site: &Site<'_>) {
    lose(site, &["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"]);
}

fn command(site: &Site<'_>, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command.args(["rebuild-catalogue", "--json", "--config"]).arg(site.world.path("asat.toml")).args(more);
    command.envs(site.world.env.iter().cloned()).stdin(Stdio::null());
    command
}

/// Kills the command at each boundary, one after another, until it comes to its end.
fn kill_everywhere(site: &Site<'_>) {
    let killed = (1..).find(|boundary: &u32| {
        let mut command = command(site, &["--replace"]);
        command.env("ASAT_CRASH_AT", boundary.to_string()).output().unwrap().status.success()
    });
    assert!(killed > Some(3), "it is killed somewhere");
}

/// Has the catalogue made anew; answers the versions that it has, and what was said.
fn rebuild(site: &Site<'_>, more: &[&str]) -> (Vec<String>, String) {
    let output = command(site, more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rebuilt: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let texts = |name: &str| -> Vec<String> {
        rebuilt[name].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let said = texts("remarks").join("\n");
    println!("{said}");
    (texts("versions"), said)
}

/// A version in its snapshot alone, and a daemon that was killed.
fn publish_and_kill(site: &mut Site<'_>) -> (String, String) {
    site.hold_up_archiving();
    let hot = site.publish_hot();
    site.world.kill();
    site.let_archiving_go_on();
    hot
}

/// A snapshot that is another installation's.
fn make_strangers(site: &mut Site<'_>) {
    let tags = ["asat", &format!("asat.installation={OTHER}"), "asat.store=report", "asat.number=7"];
    let tags: Vec<&str> = tags.iter().flat_map(|tag| ["--addtag", tag]).collect();
    let make = ["-q", "--snapshot", "-n", "asat.7.00000000.report"];
    site.run("lvcreate", &[&make[..], &tags, &["vg/data"]].concat());
    site.strangers = site.snapshots();
}

/// What there is of the stranger.
fn marks(site: &Site<'_>) -> String {
    site.run(
        "lvs",
        &[
            "--noheadings",
            "-o",
            "lv_name,lv_uuid,lv_size,lv_tags,lv_time",
            "--select",
            "lv_name=asat.7.00000000.report",
        ],
    )
}

#[test]
fn lab_versions_that_are_in_their_snapshots_alone_outlive_the_catalogue() {
    in_lab(lab(1, "640M"), |machine| {
        let mut site = Site::thin(machine, "200M", "100M");
        site.put_state_on_small_disk();
        make_strangers(&mut site);
        let before = marks(&site);
        for backend in ["lvm-classic", "lvm-thin"] {
            site.restart_with(&format!("backend = \"{backend}\""));
            site.publish();
            site.settle();
            let (id, name) = publish_and_kill(&mut site);
            lose_catalogue(&site);
            let (versions, said) = rebuild(&site, &[]);
            assert!(versions.contains(&id), "{versions:?}");
            let told = format!("{id} was found in its snapshot {name}, and is adopted");
            assert!(said.contains(&told), "{said}");
            // Typed again, it comes to the same, wherever it was killed before.
            if backend == "lvm-classic" {
                kill_everywhere(&site);
            }
            assert_eq!(rebuild(&site, &["--replace"]).0, versions);
            site.hold_up_archiving();
            site.world.start_under_contract();
            assert_eq!(site.state(&id), "ready snapshot");
            site.check_content();
            site.let_archiving_go_on();
            site.check_that_all_is_well();
            assert!(site.world.stop().success());
        }
        assert_eq!(marks(&site), before);
        starts_without(&mut site);
        takes_over_what_is_named(&mut site);
        leaves_alone_what_is_broken(&mut site);
        assert_eq!(marks(&site), before);
    });
}

#[test]
fn lab_a_store_that_is_cut_or_lies_otherwise_by_now_keeps_its_versions_and_their_numbers() {
    in_lab(lab(1, "640M"), |machine| {
        let mut site = Site::classic(machine, "100M");
        site.put_state_on_small_disk();
        site.restart();
        site.publish();
        site.settle();
        is_cut_by_pages_meanwhile(&mut site);
        is_moved_meanwhile(&mut site);
    });
}

/// Its snapshots are looked for all the same, and taken over as soon as it is cut by snapshots again.
fn is_cut_by_pages_meanwhile(site: &mut Site<'_>) {
    let (id, name) = publish_and_kill(site);
    lose_catalogue(site);
    let log = site.restart_with("backend = \"pages\"");
    let lost =
        format!("{id} is lost: its snapshot {name} cannot be read: store report is cut by no snapshots");
    assert!(log.contains(&lost), "{log}");
    let later = site.publish();
    assert_ne!(later, id);
    let log = site.restart_with("backend = \"lvm-classic\"");
    assert!(log.contains(&format!("{name} holds {id}, and is its snapshot again")), "{log}");
    site.check_content();
    // A later version is in the archive, which takes them in their order: it stays in its snapshot until it is given up.
    assert_eq!(site.state(&id), "ready snapshot");
    assert_eq!(site.world.request("DELETE", &format!("/versions/{id}"), &[], b"").status, 200);
    site.forget(&id);
    site.check_that_all_is_well();
}

/// What was cut before lies in its snapshot where it lay then.
fn is_moved_meanwhile(site: &mut Site<'_>) {
    let (id, name) = publish_and_kill(site);
    lose_catalogue(site);
    site.close_store();
    let (from, to) = (site.folder(), site.folder().join("moved"));
    fs::create_dir(&to).unwrap();
    for file in ["report.db", "report.db-wal", "report.db-shm"] {
        if from.join(file).exists() {
            fs::rename(from.join(file), to.join(file)).unwrap();
        }
    }
    let link = site.world.path("store");
    fs::remove_file(&link).unwrap();
    symlink(&to, &link).unwrap();
    site.open_store();
    let (versions, said) = rebuild(site, &[]);
    assert!(versions.contains(&id) && said.contains(&name), "{versions:?} {said}");
    site.world.start_under_contract();
    site.check_that_all_is_well();
}

/// A start without a catalogue takes its snapshots over as it does the archive.
fn starts_without(site: &mut Site<'_>) {
    site.restart();
    let (id, name) = publish_and_kill(site);
    lose_catalogue(site);
    let log = site.world.start_under_contract();
    assert!(log.contains(&format!("{id} was found in its snapshot {name}")), "{log}");
    assert!(log.contains(&format!("the installation {OTHER}")), "{log}");
    site.check_content();
    site.check_that_all_is_well();
}

/// With the state folder's own word of whose it is lost as well, nothing is taken over that is not named.
fn takes_over_what_is_named(site: &mut Site<'_>) {
    let (_, installation) = site.installation();
    let (id, name) = publish_and_kill(site);
    lose_catalogue(site);
    lose(site, &["installation"]);
    let tags = site.volumes();
    let log = site.world.start_under_contract();
    let hint = format!("asat rebuild-catalogue --replace --installation {installation}");
    assert!(log.contains(&hint), "{log}");
    assert!(site.world.stop().success());
    let (versions, said) = rebuild(site, &["--replace"]);
    assert!(!versions.contains(&id), "{versions:?}");
    // The one that the next was to be compared with may be there, or have gone.
    let told = [1, 2].map(|count| format!("the installation {installation} made {count} snapshot"));
    assert!(said.contains(&hint) && told.iter().any(|told| said.contains(told)), "{said}");
    assert_eq!(site.volumes(), tags, "nothing was touched");
    let (versions, said) = rebuild(site, &["--replace", "--installation", &installation]);
    assert!(versions.contains(&id) && said.contains(&name), "{versions:?} {said}");
    site.world.start_under_contract();
    site.check_content();
    assert_eq!(site.installation().1, installation);
    site.check_that_all_is_well();
}

/// A snapshot whose tags are not those that it was given, or that does not hold what they say, is no version.
fn leaves_alone_what_is_broken(site: &mut Site<'_>) {
    for change in ["a tag is gone", "a mark is gone", "another file is there"] {
        let (id, name) = publish_and_kill(site);
        lose_catalogue(site);
        let listed = site.run("lvs", &["--noheadings", "-o", "lv_tags", &name]);
        let tag =
            |start: &str| listed.trim().split(',').find(|tag| tag.starts_with(start)).unwrap().to_owned();
        let why = match change {
            "a tag is gone" => {
                site.run("lvchange", &["-q", "--deltag", &tag("asat.cut="), &name]);
                "it does not say once what its cut is"
            }
            "a mark is gone" => {
                site.run("lvchange", &["-q", "--deltag", "asat.store=report", &name]);
                "its tags are not exactly those that asat gives: asat.store="
            }
            _ => {
                let witness = tag("asat.witness=");
                let other = witness.replacen("file/", "file/1", 1);
                site.run("lvchange", &["-q", "--deltag", &witness, "--addtag", &other, &name]);
                "it does not hold what was to be published (it is another file)"
            }
        };
        let tags = site.volumes();
        let (versions, said) = rebuild(site, &[]);
        assert!(!versions.contains(&id), "{versions:?}");
        assert!(said.contains(&format!("{name} was taken for {id}, and is left alone: {why}")), "{said}");
        assert_eq!(site.volumes(), tags);
        site.world.start_under_contract();
        assert_eq!(site.state(&id), "failed ");
        site.forget(&id);
        let next = site.publish();
        assert_ne!(next, id);
        wait_until("it is archived", || site.state(&next).contains("archive"));
        site.check_content();
        // As an administrator does who knows that it is of no use.
        if site.machine.try_run("umount", &[&site.mounted_at(&id)]).is_err() {
            println!("{id} was mounted nowhere");
        }
        site.run("lvremove", &["-q", "--yes", &name]);
        site.restart();
        site.check_that_all_is_well();
    }
}
