//! The rooms that stand under backends on volumes, on a real device-mapper: LVM's commands and reports, names,
//! states, the ground of a store, and what `asat doctor` makes of it.

mod changes;
mod debris;
mod delta;
mod doctor;
mod grounds;
mod held;
pub mod site;
mod sizes;
mod snapshots;

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use asat_core::VersionId;
use asat_host::dm::target::{PoolMode, Snapshot, SnapshotTable, Thin, ThinPool};
use asat_host::dm::{self, Selector};
use asat_host::lvm::names::{self, InstallationId, Record, Which};
use asat_host::lvm::report::{Activity, Name};
use asat_host::lvm::{Call, Installation, Refusal, Whose, recognise};

use crate::lab::{Lab, in_lab};
use site::Site;

const ID: &str = "0193aa55c3d47e019f3b2c77d0e1f2a3";
/// What a snapshot says of the instant at which it is taken.
const CUT: &str = "cut=2026-11-19T17:00:03.000456Z";

/// The same as a tag.
fn cut_tag() -> String {
    format!("asat.{CUT}")
}

/// What is recorded of a snapshot that is about to be taken then.
fn intended() -> Which {
    Which::MadeSince("2026-11-19T17:00:03Z".parse().unwrap())
}

#[test]
fn lab_a_classic_snapshot_is_made_recognised_filled_lost_and_removed() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "64m");
        let version: VersionId = "re_port-x@12".parse().unwrap();
        let id: InstallationId = ID.parse().unwrap();
        let name = names::name(&version, &id, &site.group).unwrap();
        let mut call = Call::new("lvcreate").flag("--yes").flag("--snapshot");
        call = call.option("--size", "8388608b").option("--chunksize", "4096b").option("--name", &name);
        for tag in names::tags(&version, &id).into_iter().chain([cut_tag()]) {
            call = call.option("--addtag", tag);
        }
        site.lvm.run(&call.operand(site.of("data"))).unwrap();
        let (origin, snapshot) = (site.volume("data"), site.volume(name.as_str()));
        let record = Record { group: origin.group_uuid, origin: origin.uuid, volume: intended() };
        let mut installation = Installation { id, records: [(version.clone(), record)].into() };
        let Whose::Ours(made) = recognise(&snapshot, &installation) else {
            panic!("not ours before its UUID is recorded")
        };
        assert!(!made.is_recorded());
        installation.records.get_mut(&version).unwrap().volume = Which::Known(made.uuid());
        let Whose::Ours(ours) = recognise(&snapshot, &installation) else { panic!("not ours") };
        assert!(matches!(recognise(&origin, &installation), Whose::Foreign(_)));

        let by_uuid = format!("LVM-{}{}", origin.group_uuid.compact(), snapshot.uuid.compact());
        let by_uuid = Selector::Uuid(&by_uuid);
        let state = site.control.status(by_uuid).unwrap();
        assert_eq!(Some(state.number), snapshot.device);
        assert_eq!(state.name, site.device("asat.12.d0e1f2a3.re+port-x"));
        let Snapshot::Valid { used, total, .. } = Snapshot::parse(&state.targets[0]).unwrap() else {
            panic!()
        };
        assert!(used < total && total.to_bytes() == Some(snapshot.size), "{used} of {total}");
        let table = site.control.table(by_uuid).unwrap();
        assert_eq!(SnapshotTable::parse(&table.targets[0]).unwrap().chunk.0, 8);

        site.write("data", 20).unwrap();
        // The kernel gives the snapshot up beside the write, a moment later.
        site.wait_until("the snapshot is invalid", || {
            let state = site.control.status(by_uuid).unwrap();
            Snapshot::parse(&state.targets[0]).unwrap() == Snapshot::Invalid
        });
        // LVM says that it extends what is lost, so the state must be read again.
        let extend = Call::new("lvextend").option("--size", "+8m").operand(ours.operand());
        println!("lvextend of an invalid snapshot: {:?}", site.lvm.run(&extend).map(|_| "ends well"));
        assert_eq!(site.volume(name.as_str()).attributes.activity, Activity::InvalidSnapshot);

        let remove = |selection: &str| {
            let call = Call::new("lvremove").flag("--yes").option("--select", selection);
            site.lvm.run(&call.operand(ours.operand()))
        };
        remove(&format!("lv_uuid={}", origin.uuid)).unwrap();
        site.volume(name.as_str());
        remove(&ours.selection()).unwrap();
        assert_eq!(remove(&ours.selection()).unwrap_err().refusal(), Some(Refusal::NoSuchVolume));
        let gone = site.control.status(by_uuid).unwrap_err();
        assert!(matches!(gone, dm::Error::NoSuchDevice(_)), "{gone}");
    });
}

#[test]
fn lab_a_pool_is_filled_to_its_end_and_extended() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.thin("pool", "64m", "thin", "100m");
        let snapshot = Call::new("lvcreate").flag("--snapshot").option("--setactivationskip", "n");
        site.lvm.run(&snapshot.option("--name", "ts").operand(site.of("thin"))).unwrap();
        let errors = Call::new("lvchange").option("--errorwhenfull", "y").operand(site.of("pool"));
        site.lvm.run(&errors).unwrap();
        let pool = || match ThinPool::parse(&site.status("pool-tpool").targets[0]).unwrap() {
            ThinPool::Running(state) => state,
            ThinPool::Failed => panic!("the pool failed"),
        };
        let empty = pool();
        assert_eq!((empty.mode, empty.data.used, empty.error_if_no_space), (PoolMode::ReadWrite, 0, true));
        site.write("thin", 10).unwrap();
        assert_eq!(pool().data.used, 160);
        site.write("thin", 100).unwrap_err();
        assert_eq!(pool().mode, PoolMode::OutOfDataSpace);
        let mapped = Thin::parse(&site.status("thin").targets[0]).unwrap();
        assert!(matches!(mapped, Thin::Mapped { highest: Some(_), .. }), "{mapped:?}");
        let late = Call::new("lvcreate").flag("--snapshot").option("--name", "late").operand(site.of("thin"));
        assert_eq!(site.lvm.run(&late).unwrap_err().refusal(), Some(Refusal::PoolFull));
        site.lvm.run(&Call::new("lvextend").option("--size", "+64m").operand(site.of("pool"))).unwrap();
        assert_eq!(pool().mode, PoolMode::ReadWrite);
    });
}

#[test]
fn lab_what_lvm_refuses_is_understood() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "8m");
        let refusal = |call: Call| site.lvm.run(&call).unwrap_err().refusal().unwrap();
        let none: Name = "nope".parse().unwrap();
        assert_eq!(site.lvm.group(&none).unwrap_err().refusal(), Some(Refusal::NoSuchGroup));
        assert_eq!(refusal(Call::new("lvs").operand(site.of("nope"))), Refusal::NoSuchVolume);
        let create = |name: &str, size: &str| {
            let call = Call::new("lvcreate").flag("--yes").option("--name", name).option("--size", size);
            call.operand(&site.group)
        };
        let large = refusal(create("x", "100g"));
        assert!(matches!(large, Refusal::NoRoom { needed: Some(_), available: Some(_) }), "{large:?}");
        assert_eq!(refusal(create("data", "4m")), Refusal::AlreadyExists);
        assert_eq!(refusal(create("x_tmeta", "4m")), Refusal::BadArgument);
        let group = site.lvm.group(&site.group).unwrap();
        assert!(site.lvm.groups().unwrap().contains(&group));
        let volumes = site.lvm.physical_volumes().unwrap();
        assert!(volumes.len() >= 2, "{volumes:?}");
    });
}

/// Somebody else holds LVM's lock: the call returns at its deadline, and the lane heals when the lock is free.
#[test]
fn lab_a_lock_that_somebody_holds_is_not_waited_for_beyond_the_deadline() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "8m");
        let lock = format!("/run/lock/lvm/V_{}", site.group);
        // The lock is held once this has said so.
        let script = "echo held; exec sleep 2";
        let mut holder = machine.command("flock");
        let mut holder = holder.args([&lock, "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let change = Call::new("lvchange").option("--addtag", "x").operand(site.of("data"));
        let began = Instant::now();
        let error = site.lvm.run(&change.within(Duration::from_millis(700))).unwrap_err();
        println!("after {:?}: {error}", began.elapsed());
        assert!(site.lvm.run(&Call::new("vgs")).unwrap_err().to_string().contains("was not run"));
        holder.wait().unwrap();
        site.wait_until("the lane is free", || site.lvm.lane().wedged().is_none());
        assert!(site.volume("data").tags.contains("x"), "the command was left to do its work");
    });
}

#[test]
fn lab_the_kernel_answers_for_long_tables_and_while_writers_wait() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        // More targets than the first buffer holds.
        let table: String = (0..2000).map(|at| format!("{at} 1 error\n")).collect();
        let file = machine.folder("tables").join("long");
        std::fs::write(&file, table).unwrap();
        let long = site.device("long");
        let quietly = ["--noudevsync", "--noudevrules", &long];
        machine.run("dmsetup", &[&["create"][..], &quietly, &[file.to_str().unwrap()]].concat());
        let state = site.status("long");
        assert_eq!((state.targets.len(), state.targets[1999].start.0), (2000, 1999));
        machine.run("dmsetup", &[&["remove"][..], &quietly].concat());

        site.classic("data", "8m");
        machine.run("dmsetup", &["suspend", &site.device("data")]);
        assert!(site.status("data").suspended);
        machine.run("dmsetup", &["resume", &site.device("data")]);
        assert!(!site.status("data").suspended);
    });
}
