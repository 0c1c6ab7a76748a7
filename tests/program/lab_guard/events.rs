//! Events of the device-mapper wake a guard that would not look for most of a minute.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::lab::{Fs, Machine, in_lab, wait_until};
use crate::lab_guard::ballast::FLOOD_MIB;
use crate::lab_guard::seen::{dm_status, is_lost};
use crate::lab_guard::site::{FIRST, Site, lab};
use crate::lab_store::ground::{Ground, Kind, snapshot_of};

/// Nobody is expected to write fast, so the next look may be a minute away.
const SELDOM: &str =
    "longest_tick = \"60s\"\nfull_rate = \"512 KiB/s\"\nleast_rate = \"1 KiB/s\"\nhalf_life = \"1s\"";
/// Those of the guest alone, which ends with the test.
const SETTINGS: &str = "/etc/lvm/lvmlocal.conf";
/// Far less than the time to the next look, and far more than it takes on a machine that is busy.
const SOON: Duration = Duration::from_secs(10);

fn looks(site: &Site<'_>) -> u64 {
    site.capacity()["looks"]["full"].as_u64().unwrap()
}

/// Waits until the next look is most of a minute away, and nothing happens any more that would bring it nearer.
fn settled(site: &Site<'_>) -> u64 {
    let mut last = (looks(site), Instant::now());
    wait_until("the guard lets its time pass", || {
        let capacity = site.capacity();
        let now = capacity["looks"]["full"].as_u64().unwrap();
        if now != last.0 || capacity["tick_ms"].as_u64().unwrap() < 30_000 {
            last = (now, Instant::now());
        }
        // What a publication leaves to do is begun within that time.
        last.1.elapsed() > Duration::from_secs(3)
    });
    last.0
}

/// Fills a snapshot by writing to itself, which no counter of its origin shows.
fn fill(machine: &Machine, snapshot: &str) {
    let of = format!("of=/dev/{snapshot}");
    // It fails as the snapshot overflows.
    let written =
        machine.try_run("dd", &["if=/dev/zero", &of, "bs=1M", "count=128", "oflag=direct", "conv=notrunc"]);
    assert!(written.is_err(), "{written:?}");
    wait_until("the snapshot is lost", || {
        dm_status(machine, snapshot).is_some_and(|status| is_lost(&status))
    });
}

#[test]
fn lab_a_snapshot_that_became_invalid_is_seen_at_once() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic_with(machine, 2, SELDOM);
        assert!(FIRST.contains("64 MiB"), "less than is written to it");
        site.publish(1..=1, true);
        let version = site.ground.settled(2).remove(0);
        settled(&site);
        fill(machine, &snapshot_of(&version).unwrap());
        let since = Instant::now();
        wait_until("it is seen", || {
            site.ground.versions().iter().all(|version| snapshot_of(version).is_none())
        });
        println!("seen, and dropped, after {:?}", since.elapsed());
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
        site.end();
    });
}

#[test]
fn lab_a_pool_that_reaches_its_low_water_mark_is_looked_at_at_once() {
    in_lab(lab(), |machine| {
        // LVM itself sets the mark, from a threshold that it would extend the pool at if its monitor were asked to.
        let mut settings = OpenOptions::new().append(true).open(SETTINGS).unwrap();
        settings.write_all(b"activation/thin_pool_autoextend_threshold=70\n").unwrap();
        let ground = Ground::make(machine, Kind::Thin, Fs::Ext4);
        let mut site = Site::thin_on(machine, ground, 8, &format!("{SELDOM}\nladder = [\"alarm\"]"));
        let table = machine.run("dmsetup", &["table", "vg-pool-tpool"]);
        println!("{table}");
        // `0 LENGTH thin-pool METADATA DATA BLOCK LOW-WATER ...`, in sectors and blocks; the mark is what is free at 70 %.
        let word = |nth| table.split_whitespace().nth(nth).unwrap().parse::<u64>().unwrap();
        let (low_water, total) = (word(6), word(1) / word(5));
        assert!(low_water.abs_diff(total * 3 / 10) <= 1, "{low_water} of {total}");
        let used = || {
            let status = dm_status(machine, "mapper/vg-pool-tpool").unwrap();
            let data = status.split(' ').nth(5).unwrap().split_once('/').unwrap().0.to_owned();
            data.parse::<u64>().unwrap()
        };
        // Each flood takes blocks of its own, since a snapshot has the old ones.
        let flood_blocks = u64::try_from(FLOOD_MIB).unwrap() * 16;
        let mut n = 0;
        while used() + flood_blocks < total - low_water {
            n += 1;
            site.publish(n..=n, true);
            let before = settled(&site);
            site.flood();
            assert_eq!(looks(&site), before, "nothing was told of the flood itself");
        }
        site.publish(n + 1..=n + 1, true);
        let before = settled(&site);
        site.flood();
        let since = Instant::now();
        wait_until("it is looked at", || looks(&site) > before);
        println!("looked at {:?} after the flood; {} of {total} blocks are used", since.elapsed(), used());
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
        site.end();
    });
}
