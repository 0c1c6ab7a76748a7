//! An `lvextend` that fails, or hangs and succeeds late: it is told of, it holds nobody, and the guard goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Machine, in_lab, wait_until};
use crate::lab_brake::writer::Writer;
use crate::lab_guard::seen::{check_holds, is_lost};
use crate::lab_guard::site::{Site, lab};

/// Says what `lvextend` does from now on; as ever, where it is not there.
const MODE: &str = "/run/lvextend";
/// Stands before LVM, whose other commands link to it.
const PROGRAM: &str = "#!/bin/sh
name=${0##*/}
[ \"$name\" = lvm ] || set -- \"$name\" \"$@\"
if [ \"$1\" = lvextend ] && [ -e /run/lvextend ]; then
    if [ \"$(/bin/cat /run/lvextend)\" = fails ]; then
        echo 'no extent is good enough today' >&2
        exit 5
    fi
    while [ -e /run/lvextend ]; do /bin/sleep 0.1; done
fi
exec /usr/lib/lab/lvm \"$@\"
";

/// Two versions, pinned, whose snapshots are small, and an `lvextend` of this mode from now on.
fn on_a_bad_day<'a>(machine: &'a Machine, mode: &str) -> Site<'a> {
    fs::create_dir("/usr/lib/lab").unwrap();
    machine.run("mv", &["/usr/sbin/lvm", "/usr/lib/lab/lvm"]);
    fs::write("/usr/sbin/lvm", PROGRAM).unwrap();
    fs::set_permissions("/usr/sbin/lvm", fs::Permissions::from_mode(0o755)).unwrap();
    let site = Site::classic_with(machine, 2, "[lvm]\ntimeout = \"6s\"");
    site.publish(1..=2, true);
    site.archived(1..=2);
    site.at_peace();
    fs::write(MODE, mode).unwrap();
    site
}

fn alarm(site: &Site<'_>, key: &str) -> Option<Value> {
    let capacity = site.capacity();
    capacity["alarms"].as_array().unwrap().iter().find(|alarm| alarm["key"] == key).cloned()
}

/// It works again: what was told is over, and nothing is lost in a flood.
fn check_that_it_goes_on(mut site: Site<'_>, writer: Writer) {
    fs::remove_file(MODE).unwrap();
    wait_until("the guard goes on", || {
        let capacity = site.capacity();
        capacity["trouble"].is_null() && capacity["plan"] == serde_json::json!([])
    });
    wait_until("the alarms are over", || site.alarms().is_empty());
    println!("a write took {:?} at the longest", writer.longest());
    writer.stop();
    println!("then a flood took {:?}", site.flood());
    for (version, status) in site.states() {
        assert!(status.as_ref().is_some_and(|status| !is_lost(status)), "{status:?} {version:#}");
    }
    site.check_contents();
    check_holds(&site.end());
}

#[test]
fn lab_an_extension_that_fails_is_told_of_and_tried_again() {
    in_lab(lab(), |machine| {
        let site = on_a_bad_day(machine, "fails");
        let writer = Writer::at_pace(&site.ballast, 20, u64::MAX, Duration::from_millis(200));
        wait_until("an alarm is on", || alarm(&site, "snapshot report@1: stuck").is_some());
        let alarm = alarm(&site, "snapshot report@1: stuck").unwrap();
        println!("{alarm:#}");
        assert!(alarm["reason"].as_str().unwrap().contains("no extent is good enough today"), "{alarm:#}");
        check_that_it_goes_on(site, writer);
    });
}

#[test]
fn lab_an_extension_that_hangs_is_named_and_holds_nobody_and_may_succeed_late() {
    in_lab(lab(), |machine| {
        let site = on_a_bad_day(machine, "hangs");
        let writer = Writer::at_pace(&site.ballast, 20, u64::MAX, Duration::from_millis(200));
        wait_until("it is named", || !site.capacity()["trouble"].is_null());
        let (trouble, health) =
            (site.capacity()["trouble"].clone(), site.ground.world.get("/healthz").json());
        println!("{trouble:#}\n{health:#}");
        assert!(trouble["code"] == "lvm_stuck", "{trouble:#}");
        assert!(trouble["detail"].as_str().unwrap().contains("`lvextend "), "{trouble:#}");
        assert!(health["status"] == "degraded" && health["trouble"] == trouble, "{health:#}");
        wait_until("an alarm is on", || site.alarms().iter().any(|key| key.ends_with(": stuck")));
        println!("{:#}", site.capacity()["alarms"]);
        check_that_it_goes_on(site, writer);
    });
}
