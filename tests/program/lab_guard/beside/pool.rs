//! A thin pool that would fill, its data or its metadata, as snapshots and floods take turns.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::lab::{Fs, Machine, Volume, VolumeGroup, in_lab};
use crate::lab_guard::ballast::{FLOOD_MIB, Flood, flood, make_ballast, scatter};
use crate::lab_guard::pool::{in_use, modes, status, with_little_metadata};
use crate::lab_guard::seen::check_holds;
use crate::lab_guard::site::Site;
use crate::lab_store::ground::{Ground, Kind};

use super::{Dmeventd, roomy, with_dmeventd};

/// What fills a pool: a snapshot is taken, then a file is written over, which needs new blocks, and so on.
struct Load {
    /// Makes the pool `vg/pool`, and a volume in it.
    pool: fn(&Machine) -> (VolumeGroup<'_>, Volume),
    /// The size of the file.
    mib: usize,
    write: fn(&Path) -> Flood,
    /// So many rounds take more than the pool has at first.
    rounds: usize,
    /// Where the pool's status says how much is in use of what would fill.
    word: usize,
}

/// Each round takes 100 MiB, of which the pool has 640.
const DATA: Load =
    Load { pool: |machine| with_data(machine, "640M"), mib: FLOOD_MIB, write: flood, rounds: 6, word: 5 };

/// Each round takes more than such a pool has left when it is 70 % full, and than it gets at a time.
const MORE_DATA: Load = Load { pool: |machine| with_data(machine, "256M"), rounds: 4, ..DATA };

/// Each round takes about 42 blocks of metadata, of which there are 512.
const METADATA: Load = Load { pool: with_little_metadata, mib: 500, write: scatter, rounds: 10, word: 4 };

/// What it came to, for whoever takes snapshots and writes.
#[derive(Debug, Default)]
struct Seen {
    /// How many snapshots were refused at first, and how many for as long as anybody asked.
    refused: usize,
    never_taken: usize,
    /// From asking for a snapshot the first time until it was there.
    longest_snapshot: Duration,
    failed_writes: usize,
    longest_write: Duration,
    /// The modes that the kernel has put the pool in.
    modes: Vec<String>,
    status: String,
    /// How many blocks there were at first of what would fill, and how many are in use at last.
    first: u64,
    used: u64,
}

/// How long somebody asks for a snapshot that is refused, and how often.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);

impl Load {
    fn make<'a>(&self, machine: &'a Machine) -> (VolumeGroup<'a>, Volume) {
        let (group, origin) = (self.pool)(machine);
        make_ballast(&origin.path("ballast"), self.mib);
        (group, origin)
    }

    fn with_dmeventd(&self, machine: &Machine) -> Seen {
        let dmeventd = Dmeventd::configured(machine);
        let (_group, origin) = self.make(machine);
        dmeventd.check_that_it_watches("vg/pool");
        self.run(machine, &origin.path("ballast"), |n| {
            let name = format!("snap{n}");
            machine.try_run("lvcreate", &["-q", "-s", "-kn", "-n", &name, "vg/data"]).map(|_| ())
        })
    }

    fn with_asat(&self, machine: &Machine) -> Seen {
        let (group, origin) = self.make(machine);
        let ground = Ground::on(machine, group, origin, Kind::Thin);
        let mut site = Site::thin_on(machine, ground, self.rounds, "pools = [\"vg/pool\"]");
        // No publication may be refused: that fails the test at once.
        let seen = self.run(machine, &site.ballast, |n| {
            site.publish(n..=n, true);
            Ok(())
        });
        let versions = site.ground.settled(self.rounds);
        assert_eq!(versions.iter().filter(|version| version["state"] == "ready").count(), self.rounds);
        site.check_contents();
        let log = site.end();
        check_holds(&log);
        assert!(!log.contains("action=\"retire\""), "{log}");
        seen
    }

    /// Writes in turns with whoever takes the snapshots.
    fn run(
        &self,
        machine: &Machine,
        ballast: &Path,
        mut snapshot: impl FnMut(usize) -> Result<(), String>,
    ) -> Seen {
        machine.run("dmesg", &["--clear"]);
        let (_, first) = in_use(&status(machine), self.word);
        let mut seen = Seen { first, ..Seen::default() };
        for n in 1..=self.rounds {
            seen.ask_for(|| snapshot(n));
            let flood = (self.write)(ballast);
            seen.failed_writes += flood.failed;
            seen.longest_write = seen.longest_write.max(flood.longest);
            println!("{n}: written in {:?}: {}", flood.took, status(machine));
        }
        let status = status(machine);
        Seen { modes: modes(machine), used: in_use(&status, self.word).0, status, ..seen }
    }

    /// Under this load no write fails, and the pool stays whole.
    fn check(&self, machine: &Machine) -> Seen {
        let asat = self.with_asat(machine);
        println!("asat: {asat:?}");
        assert!(asat.used > asat.first, "the load is too small to tell anything: {asat:?}");
        assert_eq!(asat.failed_writes, 0, "{asat:?}");
        assert!(asat.status.contains(" rw ") && !asat.status.contains("needs_check"), "{asat:?}");
        asat
    }
}

impl Seen {
    /// Asks for a snapshot until it is there.
    fn ask_for(&mut self, mut snapshot: impl FnMut() -> Result<(), String>) {
        let since = Instant::now();
        let mut answer = snapshot();
        if let Err(why) = &answer {
            println!("{why}");
            self.refused += 1;
        }
        while answer.is_err() && since.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
            answer = snapshot();
        }
        self.never_taken += usize::from(answer.is_err());
        self.longest_snapshot = self.longest_snapshot.max(since.elapsed());
    }
}

fn with_data<'a>(machine: &'a Machine, size: &str) -> (VolumeGroup<'a>, Volume) {
    let group = machine.volume_group("vg", &[0]);
    group.thin_pool("pool", size);
    let origin = group.thin_origin("pool", "data", "192M", Fs::Ext4);
    (group, origin)
}

#[test]
fn lab_a_pool_that_would_fill_grows_in_time() {
    in_lab(roomy(), |machine| {
        let asat = DATA.check(machine);
        assert!(asat.modes.is_empty(), "{asat:?}");
    });
}

#[test]
fn lab_whoever_fills_a_pool_faster_than_lvm_extends_it_waits_for_that_and_no_write_fails() {
    in_lab(roomy(), |machine| {
        let asat = MORE_DATA.check(machine);
        // The kernel itself has writes wait for data space, so nobody is held for that.
        let waits = |mode: &String| ["out-of-data-space (queue IO)", "write"].contains(&mode.as_str());
        assert!(asat.modes.iter().all(waits), "{asat:?}");
    });
}

#[test]
fn lab_a_pool_whose_metadata_would_fill_gets_more_in_time() {
    in_lab(roomy(), |machine| {
        let asat = METADATA.check(machine);
        assert!(asat.modes.is_empty(), "{asat:?}");
    });
}

#[test]
#[ignore = "for a table of docs/benchmarks.md"]
fn lab_bench_pools_beside_dmeventd() {
    in_lab(with_dmeventd(), |machine| {
        for load in [DATA, MORE_DATA, METADATA] {
            println!("dmeventd: {:?}", load.with_dmeventd(machine));
            println!("asat: {:?}", load.check(machine));
        }
    });
}
