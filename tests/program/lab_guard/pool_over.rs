//! A thin pool that is full already, or takes no writes any more.

use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::lab::{Machine, in_lab, wait_until};
use crate::lab_guard::pool::{status, with_little_metadata};
use crate::lab_guard::site::{Site, lab};
use crate::lab_store::ground::{Ground, Kind};

#[test]
fn lab_a_pool_that_was_filled_while_the_daemon_was_down_takes_writes_again() {
    in_lab(lab(), |machine| {
        let mut site = Site::thin(machine, 2);
        site.publish(1..=1, true);
        site.archived(1..=1);
        assert!(site.ground.world.stop().success());

        // Somebody else's volume takes all that is left, and wants more.
        machine.run("lvcreate", &["-q", "-V", "1G", "-n", "other", "--thinpool", "vg/pool"]);
        let mut other = machine.command("dd");
        other.args(["if=/dev/zero", "of=/dev/vg/other", "bs=1M", "count=700", "oflag=direct"]);
        let mut other = other.stderr(Stdio::null()).spawn().unwrap();
        wait_until("the pool is full", || status(machine).contains("out_of_data_space"));
        println!("{}", status(machine));

        let since = Instant::now();
        let first = site.ground.world.start();
        wait_until("the pool takes writes", || status(machine).contains(" rw "));
        println!("{:?} after the start: {}", since.elapsed(), status(machine));
        assert!(other.wait().unwrap().success(), "a write that waited has failed");
        println!("whoever waited is done after {:?}: {}", since.elapsed(), status(machine));
        site.publish(2..=2, true);
        site.archived(1..=2);
        site.check_contents();
        site.at_peace();
        println!("alarms: {:?}", site.alarms());
        machine.run("lvremove", &["-q", "--yes", "vg/other"]);
        let log = first + &site.end();
        assert!(log.contains("writes wait for space") && !log.contains("action=\"retire\""), "{log}");
    });
}

/// Each empty volume takes a block of metadata, until there is none.
const FILL: &str = "id=1000
while dmsetup message vg-pool-tpool 0 \"create_thin $id\" 2>/dev/null; do id=$((id + 1)); done";

/// The disk takes no more writes to the metadata, but for its first block: in that the kernel notes that it must be
/// checked.
const BREAK: &str = "modprobe dm-flakey
set -- $(dmsetup table vg-pool_tmeta)
dmsetup suspend --noflush --nolockfs vg-pool_tmeta
{
    echo \"0 8 linear $4 $5\"
    echo \"8 $(($2 - 8)) flakey $4 $(($5 + 8)) 0 600 1 error_writes\"
} | dmsetup load vg-pool_tmeta
dmsetup resume vg-pool_tmeta
# A block that is new is put on record.
dd if=/dev/zero of=\"$0\" bs=64K count=1 conv=fsync
echo \"0 $2 linear $4 $5\" | dmsetup load vg-pool_tmeta
dmsetup suspend --noflush --nolockfs vg-pool_tmeta
dmsetup resume vg-pool_tmeta";

#[test]
fn lab_a_pool_that_takes_no_writes_is_told_of_with_what_to_do() {
    in_lab(lab(), |machine| {
        let (full, check) = ("lvextend --poolmetadatasize", "run lvconvert --repair on the pool");
        check_that_it_is_told(machine, FILL, "its metadata is full", full);
        check_that_it_is_told(machine, BREAK, "its metadata must be checked", check);
    });
}

/// Breaks a pool, which asat may not extend, and looks at what is said.
fn check_that_it_is_told(machine: &Machine, script: &str, trouble: &str, hint: &str) {
    let (group, origin) = with_little_metadata(machine);
    let ground = Ground::on(machine, group, origin, Kind::Thin);
    // It does nothing by itself: a snapshot that is removed while the disk goes breaks the pool in another way.
    let mut site = Site::thin_on(machine, ground, 2, "ladder = [\"alarm\"]");
    site.publish(1..=1, false);
    site.archived(1..=1);
    let new = site.ballast.with_file_name("new");
    let _ = machine.try_run("sh", &["-c", script, new.to_str().unwrap()]);
    println!("{}", status(machine));
    let broken = ["pool-data vg/pool: broken", "pool-metadata vg/pool: broken"].map(str::to_owned);
    wait_until("alarms are on", || broken.iter().all(|key| site.alarms().contains(key)));
    let capacity = site.capacity();
    println!("{:#}", capacity["alarms"]);
    for alarm in
        capacity["alarms"].as_array().unwrap().iter().filter(|alarm| broken.contains(&text(&alarm["key"])))
    {
        assert!(text(&alarm["reason"]).contains(trouble), "{alarm:#}");
        assert!(text(&alarm["hint"]).contains(hint), "{alarm:#}");
    }
    let of_pool = |target: &&Value| text(&target["kind"]).starts_with("pool");
    let levels =
        capacity["targets"].as_array().unwrap().iter().filter(of_pool).map(|target| text(&target["level"]));
    assert_eq!(levels.collect::<Vec<_>>(), ["lost", "lost"], "{capacity:#}");
    // What is in the archive can be read all the same.
    site.check_contents();
    site.end();
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
