//! A volume group, or a snapshot in it, that is out of sight as the daemon starts: its versions are lost for as long as
//! that lasts, and those in the archive can be read.

use crate::common::World;
use crate::lab::in_lab;
use crate::lab_bad_volumes::site::{Site, lab};

type Step = fn(&Site<'_>, &str);

/// How a snapshot goes out of sight, how it comes back, and what is said of it.
struct Case {
    hide: Step,
    bring_back: Step,
    why: &'static str,
    /// Whether the store is out of sight too, and what is said of it then.
    store: Option<&'static str>,
}

const CASES: [Case; 3] = [
    Case {
        hide: |site, _| drop(site.run("vgexport", &["-q", "vg"])),
        bring_back: |site, _| drop(site.run("vgimport", &["-q", "vg"])),
        why: "the volume group vg is exported",
        store: Some("store_missing"),
    },
    Case {
        hide: |site, _| filter(site, "r|/dev/ubda|"),
        bring_back: |site, _| filter(site, "a|.*|"),
        why: "the volume group vg is not there",
        store: Some("store_missing"),
    },
    Case {
        hide: |site, name| drop(site.run("lvrename", &["-q", name, "vg/renamed"])),
        bring_back: |site, name| drop(site.run("lvrename", &["-q", "vg/renamed", name])),
        why: "the volume is vg/renamed now, and not ours to touch: its name is none that asat gives",
        store: None,
    },
];

/// Sets which disks LVM sees.
fn filter(site: &Site<'_>, rule: &str) {
    let script =
        "sed -i '/global_filter/d' \"$1\" && echo \"devices {\nglobal_filter=[\\\"$2\\\"]\n}\" >>\"$1\"";
    site.run("sh", &["-c", script, "sh", "/etc/lvm/lvmlocal.conf", rule]);
}

/// Takes the volumes out of use, as before a disk is taken out.
fn deactivate(site: &mut Site<'_>, id: &str) {
    site.close_store();
    site.unmount(id);
    site.run("umount", &[site.folder().to_str().unwrap()]);
    site.run("vgchange", &["-q", "--activate", "n", "vg"]);
}

fn activate(site: &mut Site<'_>) {
    site.run("vgchange", &["-q", "--activate", "y", "vg"]);
    site.run("mount", &[site.device(), site.folder().to_str().unwrap()]);
    site.open_store();
}

fn stop(world: &mut World) {
    assert!(world.stop().success());
}

#[test]
fn lab_a_version_whose_volume_group_is_gone_is_lost_until_it_is_back() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::thin(machine, "160M", "100M");
        // No snapshot stays here for the next one to be compared with: only that which is lost is to be there.
        "[guard]\nladder = [\"alarm\"]".clone_into(&mut site.world.config);
        site.put_state_on_small_disk();
        site.restart();

        let kept = site.publish();
        site.settle();

        for Case { hide, bring_back, why, store } in CASES {
            site.hold_up_archiving();
            let (id, name) = site.publish_hot();

            stop(&mut site.world);
            if store.is_some() {
                deactivate(&mut site, &id);
            }
            hide(&site, &name);
            let log = site.restart();

            let version = site.version(&id);
            println!("{}", version["end_reason"]);
            assert_eq!(site.state(&id), "lost snapshot");
            assert!(version["end_reason"].as_str().unwrap().contains(why), "{version:#}");
            site.world.open(&kept);
            if let Some(code) = store {
                assert!(log.contains("cannot be published"), "{log}");
                let answer = site.ask_to_publish();
                let problem = answer.expect_problem(422, code);
                println!("{}\n    {}", problem["detail"], problem["hint"]);
                assert!(problem["hint"].as_str().unwrap().contains("then restart asat"), "{answer}");
            }
            stop(&mut site.world);
            bring_back(&site, &name);
            if store.is_some() {
                activate(&mut site);
            }
            let log = site.restart();

            assert!(log.contains(&format!("of {id} is there again")), "{log}");
            assert_eq!(site.version(&id)["state"], "ready");
            site.let_archiving_go_on();
            site.check_that_all_is_well();

            assert_eq!(site.state(&id), "ready archive");
        }

        // A publication of a store that has not changed since needs its last version to be there still.
        site.hold_up_archiving();
        let (id, name) = site.publish_hot();
        site.unmount(&id);
        site.run("lvremove", &["-q", "--yes", &name]);
        let answer = site.ask_to_publish();
        assert_eq!((answer.status, &answer.json()["reused"]), (201, &false.into()), "{answer}");
        site.forget(&id);
        site.let_archiving_go_on();
        site.check_that_all_is_well();
        assert_eq!(site.state(&id), "lost ");

        // A group that is only inactive hides nothing: what is needed of it is activated.
        site.hold_up_archiving();
        let (id, _) = site.publish_hot();

        stop(&mut site.world);
        deactivate(&mut site, &id);
        site.let_archiving_go_on();
        site.restart();

        site.settle();

        site.check_content();
        stop(&mut site.world);
        activate(&mut site);
        site.restart();

        site.check_that_all_is_well();
    });
}
