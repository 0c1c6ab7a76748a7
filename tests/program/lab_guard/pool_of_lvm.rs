//! A thin pool as LVM makes it, with all that asat has by default.

use serde_json::Value;

use crate::lab::{Fs, Lab, in_lab, wait_until};
use crate::lab_guard::ballast::make_ballast;
use crate::lab_guard::pool::{in_use, status};
use crate::lab_guard::site::Site;
use crate::lab_store::ground::{Ground, Kind};

const KEEP: usize = 3;
/// What is in the store's volume at first, a tenth of the pool.
const CONTENT_MIB: usize = 540;
/// Each empty volume takes a block of metadata, until nineteen of twenty are taken.
const FILL: &str = "id=1000
until dmsetup status vg-pool-tpool | awk '{ split($5, used, \"/\"); exit used[1] < used[2] * 0.95 }'; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        dmsetup message vg-pool-tpool 0 \"create_thin $id\" || exit
        id=$((id + 1))
    done
done";

#[test]
fn lab_a_default_pool_is_quiet_and_keeps_what_it_is_told_to_keep_until_it_is_really_near_its_end() {
    in_lab(Lab::new().disk_sizes(&["6G", "256M"]), |machine| {
        let group = machine.volume_group("vg", &[0]);
        let pool = ["-q", "--yes", "--type", "thin-pool", "-L", "5G", "-n", "pool", "vg"];
        machine.run("lvcreate", &pool);
        let origin = group.thin_origin("pool", "data", "1G", Fs::Ext4);
        make_ballast(&origin.path("ballast"), CONTENT_MIB);
        let (_, blocks) = in_use(&status(machine), 4);
        assert_eq!(blocks * 4096, 8 << 20, "LVM gives such a pool 8 MiB of metadata");

        let ground = Ground::on(machine, group, origin, Kind::Thin);
        let mut site = Site::thin_on(machine, ground, KEEP, "");
        site.publish(1..=KEEP + 1, false);
        site.ground.settled(KEEP);
        site.at_peace();
        println!("{}", status(machine));
        let is_quiet = || {
            assert_eq!(site.alarms(), Vec::<String>::new());
            assert_eq!(site.state(1), "ready archive");
            for number in 2..=KEEP + 1 {
                assert_eq!(site.state(number), "ready snapshot+archive", "version {number}");
            }
        };
        is_quiet();
        // A writer of this speed would fill the metadata within seconds, and the data, if there were more to write.
        let looks =
            || site.capacity()["looks"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
        let before = looks();
        (0..5).for_each(|_| _ = site.flood());
        wait_until("the guard has seen it", || looks() > before + 2);
        is_quiet();
        println!("{}", status(machine));

        machine.run("sh", &["-c", FILL]);
        println!("{}", status(machine));
        let is_short = || site.alarms().iter().any(|key| key.contains("pool-metadata"));
        wait_until("it is said that the pool is short of metadata", is_short);
        let (used, all) = in_use(&status(machine), 4);
        assert!(used < all, "it is said before it is full");
        site.check_contents();
        let log = site.end();
        assert!(!log.contains("action=\"brake\""), "{log}");
    });
}
