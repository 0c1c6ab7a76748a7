//! Snapshots are taken, activated, extended and removed; what LVM refuses comes through as what it is; and what
//! is not ours stays.

#![allow(unreachable_pub)]

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Instant;

use asat_core::{Code, Problem, VersionId};
use asat_host::dm::Selector;
use asat_host::dm::target::{Snapshot as Status, Thin};
use asat_host::lvm::names::{self, Record, Which};
use asat_host::lvm::report::Activity;
use asat_host::lvm::snapshots::Error;
use asat_host::lvm::units::Bytes;
use asat_host::lvm::{Call, Installation, Made, Ours, Refusal, Snapshot, Space, Whose, recognise};

use crate::lab::{Lab, in_lab};
use crate::lab_volumes::site::Site;
use crate::lab_volumes::{CUT, ID, intended};

pub const MIB: u64 = 1 << 20;
const CHUNK: Bytes = Bytes(4096);

/// A site where an installation of asat takes snapshots, and what its catalogue would record.
pub struct Keeper<'a> {
    pub site: &'a Site<'a>,
    pub installation: Installation,
}

impl<'a> Keeper<'a> {
    pub fn at(site: &'a Site<'a>) -> Self {
        Self { site, installation: Installation { id: ID.parse().unwrap(), records: [].into() } }
    }

    pub fn own(mib: u64) -> Space {
        Space::Own { size: Bytes(mib * MIB), chunk: CHUNK }
    }

    pub fn intend(&mut self, number: u64, origin: &str) -> VersionId {
        let origin = self.site.volume(origin);
        let record = Record { group: origin.group_uuid, origin: origin.uuid, volume: intended() };
        let version = VersionId { store: "report".parse().unwrap(), number };
        self.installation.records.insert(version.clone(), record);
        version
    }

    pub fn try_take(&mut self, number: u64, origin: &str, space: Space) -> Result<Made, Error> {
        let version = self.intend(number, origin);
        let origin = origin.parse().unwrap();
        let Site { lvm, control, group, .. } = self.site;
        let installation = &self.installation.id;
        let told = &[CUT.to_owned()];
        lvm.take(control, &Snapshot { version: &version, installation, group, origin: &origin, space, told })
    }

    /// Takes a snapshot and records it.
    pub fn take(&mut self, number: u64, origin: &str, space: Space) -> (Made, Ours) {
        let made = self.try_take(number, origin, space).unwrap();
        let record = self.installation.records.get_mut(made.ours.version()).unwrap();
        record.volume = Which::Known(made.ours.uuid());
        let ours = self.find(made.ours.name().as_str()).unwrap();
        assert_eq!(made.ours, ours, "what was made and what is recognised are the same");
        (made, ours)
    }

    /// Finds a volume, if it is ours.
    pub fn find(&self, name: &str) -> Result<Ours, String> {
        match recognise(&self.site.volume(name), &self.installation) {
            Whose::Ours(ours) => Ok(ours),
            Whose::Foreign(why) => Err(why.to_string()),
        }
    }

    pub fn name(&self, number: u64) -> String {
        let version = VersionId { store: "report".parse().unwrap(), number };
        names::name(&version, &self.installation.id, &self.site.group).unwrap().to_string()
    }
}

fn expect_node(made: &Made) {
    let node = std::fs::metadata(&made.node).unwrap();
    let (major, minor) = made.device;
    assert!(node.file_type().is_block_device() && node.rdev() == rustix::fs::makedev(major, minor));
}

fn is_there(site: &Site<'_>, name: &str) -> bool {
    site.lvm.volumes(&site.group).unwrap().iter().any(|volume| volume.name.as_str() == name)
}

#[test]
fn lab_a_classic_snapshot_lives_from_its_making_to_its_removal() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "64m");
        let data = site.formatted("data");
        let mut keeper = Keeper::at(&site);
        let began = Instant::now();
        // Not whole sectors, and far from whole extents.
        let (made, ours) = keeper.take(12, "data", Space::Own { size: Bytes(5 * MIB + 1), chunk: CHUNK });
        println!("taken in {:?}", began.elapsed());
        let volume = site.volume("asat.12.d0e1f2a3.report");
        assert_eq!((made.ours.name().as_str(), made.ours.uuid()), (volume.name.as_str(), volume.uuid));
        assert_eq!((Some(made.device), volume.size), (volume.device, Bytes(8 * MIB)));
        expect_node(&made);
        let tagged = site.lvm.tagged().unwrap();
        assert!(matches!(&tagged[..], [only] if only.uuid == made.ours.uuid()), "{tagged:?}");

        let Site { lvm, control, .. } = &site;
        for (to, has) in [(4, 8), (8, 8), (9, 12), (12, 12), (1000, 68), (1000, 68)] {
            let extended = lvm.extend(control, &ours, Bytes(to * MIB)).unwrap().space;
            assert_eq!(extended, Bytes(has * MIB), "extended to {to} MiB");
        }
        assert_eq!(site.volume(made.ours.name().as_str()).size, Bytes(68 * MIB));
        assert_eq!(lvm.activate(control, &ours).unwrap(), made);

        drop(data);
        let activate = |activate| Call::new("vgchange").option("--activate", activate).operand(&site.group);
        lvm.run(&activate("n")).unwrap();
        let again = lvm.activate(control, &ours).unwrap();
        assert_eq!(again.ours, made.ours);
        expect_node(&again);
        let data = site.mounted(&Path::new("/dev").join(site.of("data")));

        let mounted = site.mounted(&made.node);
        let error = lvm.remove(control, &ours).unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::InUse), "{error}");
        assert_eq!(Problem::from(error).code, Code::InUse);
        drop(mounted);
        lvm.remove(control, &ours).unwrap();
        assert!(!is_there(&site, made.ours.name().as_str()) && lvm.tagged().unwrap().is_empty());
        // Again, for whoever did not hear of it.
        lvm.remove(control, &ours).unwrap();
        let gone = lvm.extend(control, &ours, Bytes(MIB)).unwrap_err();
        assert!(matches!(gone, Error::Unseen { .. }), "{gone}");

        let (_, lost) = keeper.take(13, "data", Keeper::own(4));
        std::fs::write(data.at.join("much"), vec![b'x'; 16 << 20]).unwrap();
        machine.run("sync", &[]);
        site.wait_until("the snapshot is invalid", || {
            let state = control.status(Selector::Uuid(&lost.device_uuid())).unwrap();
            Status::parse(&state.targets[0]).unwrap() == Status::Invalid
        });
        let error = lvm.extend(control, &lost, Bytes(8 * MIB)).unwrap_err();
        assert!(matches!(error, Error::Lost(_)), "{error}");
        lvm.remove(control, &lost).unwrap();
    });
}

#[test]
fn lab_a_thin_snapshot_lives_from_its_making_to_its_removal() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.thin("pool", "128m", "thin", "100m");
        let _thin = site.formatted("thin");
        let mut keeper = Keeper::at(&site);
        let (made, ours) = keeper.take(12, "thin", Space::Pool);
        let volume = site.volume(made.ours.name().as_str());
        assert_eq!((made.ours.uuid(), Some(made.device)), (volume.uuid, volume.device));
        assert!(volume.attributes.skipped, "a boot would activate it");
        assert!(matches!(
            Thin::parse(&site.status(made.ours.name().as_str()).targets[0]),
            Ok(Thin::Mapped { .. })
        ));
        expect_node(&made);

        let Site { lvm, control, .. } = &site;
        let error = lvm.extend(control, &ours, Bytes(MIB)).unwrap_err();
        assert!(matches!(error, Error::NoOwnSpace(_)), "{error}");
        let deactivate = Call::new("lvchange").option("--activate", "n").operand(ours.operand());
        lvm.run(&deactivate).unwrap();
        let wake = Call::new("vgchange").option("--activate", "y").operand(&site.group);
        lvm.run(&wake).unwrap();
        assert_eq!(site.volume(made.ours.name().as_str()).attributes.activity, Activity::Inactive);
        let again = lvm.activate(control, &ours).unwrap();
        assert_eq!(again.ours, made.ours);
        expect_node(&again);

        let mounted = site.mounted(&again.node);
        assert_eq!(lvm.remove(control, &ours).unwrap_err().refusal(), Some(Refusal::InUse));
        drop(mounted);
        // A snapshot of ours that somebody made for himself would go with ours.
        let theirs = Call::new("lvcreate").flag("--yes").flag("--snapshot").option("--size", "8m");
        lvm.run(&theirs.option("--name", "theirs").operand(ours.operand())).unwrap();
        let error = lvm.remove(control, &ours).unwrap_err();
        assert!(matches!(error, Error::HasSnapshots(_)) && is_there(&site, "theirs"), "{error}");
        lvm.run(&Call::new("lvremove").flag("--yes").operand(site.of("theirs"))).unwrap();
        lvm.remove(control, &ours).unwrap();
        lvm.remove(control, &ours).unwrap();
        assert!(!is_there(&site, made.ours.name().as_str()));
    });
}

/// Somebody renames a snapshot, and gives its name to something else: no command touches either.
#[test]
fn lab_a_name_that_changed_hands_is_left_alone() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "64m");
        site.thin("pool", "64m", "thin", "64m");
        let mut keeper = Keeper::at(&site);
        let (classic, _) = keeper.take(12, "data", Keeper::own(8));
        let (thin, _) = keeper.take(13, "thin", Space::Pool);
        let Site { lvm, control, .. } = &site;
        for made in [&classic, &thin] {
            let (name, ours) = (made.ours.name().as_str(), keeper.find(made.ours.name().as_str()).unwrap());
            lvm.run(&Call::new("lvrename").operand(site.of(name)).operand(site.of("kept"))).unwrap();
            let elsewhere = |error: Error| assert!(matches!(error, Error::Elsewhere { .. }), "{error}");
            elsewhere(lvm.remove(control, &ours).unwrap_err());
            site.classic(name, "8m");
            elsewhere(lvm.remove(control, &ours).unwrap_err());
            elsewhere(lvm.extend(control, &ours, Bytes(12 * MIB)).unwrap_err());
            elsewhere(lvm.activate(control, &ours).unwrap_err());
            assert_eq!(site.volume(name).size, Bytes(8 * MIB));
            assert_eq!(site.volume("kept").uuid, made.ours.uuid());
            lvm.run(&Call::new("lvremove").flag("--yes").operand(site.of("kept"))).unwrap();
            // Ours is gone now, and what has its name is still not ours.
            lvm.remove(control, &ours).unwrap();
            assert!(is_there(&site, name) && keeper.find(name).is_err());
        }
    });
}

#[test]
fn lab_a_snapshot_without_room_is_refused_as_such() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "64m");
        site.thin("pool", "32m", "thin", "64m");
        let mut keeper = Keeper::at(&site);
        let full = |error: Error| {
            let refusal = error.refusal();
            println!("{error}");
            assert_eq!(Problem::from(error).code, Code::StorageFull);
            refusal
        };
        let before = site.lvm.volumes(&site.group).unwrap();
        // A name that is taken: what has it stays.
        site.classic(&keeper.name(7), "8m");
        let taken = keeper.try_take(7, "data", Keeper::own(8)).unwrap_err();
        assert_eq!(taken.refusal(), Some(Refusal::AlreadyExists), "{taken}");
        assert!(keeper.find(&keeper.name(7)).is_err());
        site.lvm.run(&Call::new("lvremove").flag("--yes").operand(site.of(&keeper.name(7)))).unwrap();

        let (_, ours) = keeper.take(8, "data", Keeper::own(8));
        let rest =
            Call::new("lvcreate").flag("--yes").option("--extents", "100%FREE").option("--name", "rest");
        site.lvm.run(&rest.operand(&site.group)).unwrap();
        let refused = full(keeper.try_take(9, "data", Keeper::own(8)).unwrap_err());
        assert!(matches!(refused, Some(Refusal::NoRoom { .. })), "{refused:?}");
        let refused = full(site.lvm.extend(&site.control, &ours, Bytes(12 * MIB)).unwrap_err());
        assert!(matches!(refused, Some(Refusal::NoRoom { .. })), "{refused:?}");
        for volume in [ours.operand(), site.of("rest")] {
            site.lvm.run(&Call::new("lvremove").flag("--yes").operand(volume)).unwrap();
        }
        assert_eq!(site.lvm.volumes(&site.group).unwrap(), before, "something was left behind");

        // Each empty thin volume takes a block of the pool's 1,024 metadata blocks.
        site.message("pool", &(100..=850).map(|id| format!("create_thin {id}")).collect::<Vec<_>>());
        println!("{:?}", site.status("pool-tpool").targets);
        let refused = full(keeper.try_take(10, "thin", Space::Pool).unwrap_err());
        assert_eq!(refused, Some(Refusal::PoolFull));
        assert!(!is_there(&site, &keeper.name(10)));
    });
}

#[test]
fn lab_two_hundred_thin_snapshots_are_listed_and_observed() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.thin("pool", "64m", "thin", "64m");
        let mut keeper = Keeper::at(&site);
        let (made, ours) = keeper.take(1, "thin", Space::Pool);
        let Site { lvm, control, .. } = &site;
        lvm.run(&Call::new("lvchange").option("--activate", "n").operand(ours.operand())).unwrap();
        // LVM would take a minute to make the others: they are copied from the first, in the pool and in LVM's
        // records.
        site.message("pool", &(3..=201).map(|id| format!("create_snap {id} 1")).collect::<Vec<_>>());
        let mut original = String::new();
        site.rewrite_records(|text| {
            text.clone_into(&mut original);
            let (before, rest) = text.split_once(&format!("{} {{", made.ours.name())).unwrap();
            let (first, after) = rest.split_once("\n\t\t}\n").unwrap();
            let uuid = made.ours.uuid().to_string();
            let all = (1..=200).map(|number| {
                let copy = first
                    .replace(&uuid, &format!("{}{number:03}", &uuid[..uuid.len() - 3]))
                    .replace("asat.number=1\"", &format!("asat.number={number}\""))
                    .replace("device_id = 2\n", &format!("device_id = {}\n", number + 1));
                format!("{} {{{copy}\n\t\t}}\n", keeper.name(number))
            });
            format!("{before}{}{after}", all.collect::<String>())
        });
        let activate = |activate| {
            let call = Call::new("vgchange").option("--activate", activate).flag("--ignoreactivationskip");
            lvm.run(&call.operand(&site.group)).unwrap();
        };
        let began = Instant::now();
        activate("y");
        println!("200 snapshots were activated in {:?}", began.elapsed());
        let record = keeper.installation.records.pop_first().unwrap().1;
        for number in 1..=200 {
            let version = VersionId { store: "report".parse().unwrap(), number };
            keeper.installation.records.insert(version, Record { volume: intended(), ..record });
        }

        let began = Instant::now();
        let tagged = lvm.tagged().unwrap();
        println!("{} snapshots were listed in {:?}", tagged.len(), began.elapsed());
        let ours: Vec<Ours> = tagged
            .iter()
            .filter_map(|volume| match recognise(volume, &keeper.installation) {
                Whose::Ours(ours) => Some(ours),
                Whose::Foreign(_) => None,
            })
            .collect();
        assert_eq!(ours.len(), 200);
        let devices: Vec<String> = ours.iter().map(Ours::device_uuid).collect();
        let began = Instant::now();
        for device in &devices {
            let state = control.status(Selector::Uuid(device)).unwrap();
            Thin::parse(&state.targets[0]).unwrap();
        }
        println!("{} snapshots were observed in {:?}", devices.len(), began.elapsed());
        // LVM would remove them one by one, too.
        activate("n");
        site.rewrite_records(|_| original);
    });
}
