//! What a power cut leaves of a snapshot is recognised and removed, and what only looks like it stays.

use asat_core::VersionId;
use asat_host::dm::Selector;
use asat_host::dm::target::ThinPool;
use asat_host::lvm::names::{self, InstallationId};
use asat_host::lvm::report::{Activity, Kind};
use asat_host::lvm::snapshots::Error;
use asat_host::lvm::{Call, Ours, Snapshot, Space, Whose, recognise};

use crate::lab::{Lab, Machine, in_lab};
use crate::lab_volumes::site::Site;
use crate::lab_volumes::snapshots::Keeper;
use crate::lab_volumes::{CUT, cut_tag};

/// Cuts the power while a snapshot is being made, at the moment in which a device's state is reached.
fn cut_while_making(
    machine: &Machine,
    site: &Site<'_>,
    origin: &str,
    space: Space,
    is_reached: impl Fn() -> bool,
) -> ! {
    let mut keeper = Keeper::at(site);
    let version = keeper.intend(12, origin);
    let (origin, id) = (origin.parse().unwrap(), keeper.installation.id.clone());
    let Site { lvm, control, group, .. } = site;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let told = &[CUT.to_owned()];
            let snapshot =
                Snapshot { version: &version, installation: &id, group, origin: &origin, space, told };
            lvm.take(control, &snapshot).map(|_| ())
        });
        site.wait_closely("the snapshot is half made", is_reached);
        machine.cut_power()
    })
}

/// Prints what LVM finds, and finds which of it is ours.
fn found(keeper: &Keeper<'_>) -> Vec<Ours> {
    let mut all = Vec::new();
    for volume in keeper.site.lvm.tagged().unwrap() {
        let whose = recognise(&volume, &keeper.installation);
        println!("{} {:?} origin {:?}: {whose:?}", volume.name, volume.attributes, volume.origin);
        if let Whose::Ours(ours) = whose {
            all.push(ours);
        }
    }
    all
}

/// Volumes that look like the debris of a snapshot that was intended, each but for one mark.
fn make_look_alikes(keeper: &mut Keeper<'_>, origin: &str) -> Vec<String> {
    let site = keeper.site;
    let tags_of = |version: &VersionId, id: &str| {
        let id: InstallationId = id.parse().unwrap();
        names::tags(version, &id).into_iter().chain([cut_tag()]).collect::<Vec<_>>()
    };
    let id = keeper.installation.id.as_str().to_owned();
    // Its end is the same, and so is the name.
    let other = id.replacen('0', "1", 1);
    let mut make = |number: u64, tags: &dyn Fn(&VersionId) -> Vec<String>, snapshot_of: Option<&str>| {
        let version = keeper.intend(number, origin);
        let name = keeper.name(number);
        let call = Call::new("lvcreate").flag("--yes").option("--size", "8m").option("--name", &name);
        let call = tags(&version).into_iter().fold(call, |call, tag| call.option("--addtag", tag));
        let call = match snapshot_of {
            Some(other) => call.flag("--snapshot").operand(site.of(other)),
            None => call.operand(&site.group),
        };
        site.lvm.run(&call).unwrap();
        name
    };
    vec![
        make(101, &|version| tags_of(version, &other), None),
        make(102, &|_| Vec::new(), None),
        make(103, &|version| tags_of(version, &id)[..3].to_vec(), None),
        make(104, &|_| tags_of(&"report@12".parse().unwrap(), &id), None),
        make(105, &|version| tags_of(version, &id), Some("else")),
    ]
}

fn check_that_only_ours_goes(site: &Site<'_>, keeper: &mut Keeper<'_>, origin: &str) -> Ours {
    site.classic("else", "16m");
    let look_alikes = make_look_alikes(keeper, origin);
    // All marks are right, and nobody can mean it as debris: it is mounted.
    let version = keeper.intend(106, origin);
    let mut call = Call::new("lvcreate").flag("--yes").option("--size", "16m");
    for tag in names::tags(&version, &keeper.installation.id).into_iter().chain([cut_tag()]) {
        call = call.option("--addtag", tag);
    }
    site.lvm.run(&call.option("--name", keeper.name(106)).operand(&site.group)).unwrap();
    let _mounted = site.formatted(&keeper.name(106));

    let all = found(keeper);
    let [ours] = &all[..] else { panic!("{all:?}") };
    assert!(!ours.is_recorded() && ours.version().number == 12);
    let error = site.lvm.activate(&site.control, ours).unwrap_err();
    assert!(matches!(error, Error::HalfMade(_)), "{error}");
    site.lvm.remove(&site.control, ours).unwrap();
    site.lvm.remove(&site.control, ours).unwrap();
    let left = site.lvm.volumes(&site.group).unwrap();
    for name in look_alikes.iter().chain([&keeper.name(106)]) {
        assert!(left.iter().any(|volume| volume.name.as_str() == name), "{name} is gone");
    }
    assert!(!left.iter().any(|volume| volume.uuid == ours.uuid()));
    ours.clone()
}

#[test]
fn lab_what_a_power_cut_leaves_of_a_classic_snapshot_is_removed() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = if machine.boot == 1 { Site::set_up(machine) } else { Site::of_before(machine) };
        let name = Keeper::at(&site).name(12);
        if machine.boot == 1 {
            site.classic("data", "64m");
        }
        // The power may have gone too late, when the snapshot was whole. Then it goes once more.
        let is_whole = machine.boot > 1 && site.volume(&name).attributes.kind == Kind::Snapshot;
        if is_whole {
            machine.run("lvremove", &["-q", "--yes", &site.of(&name)]);
        }
        if machine.boot == 1 || is_whole {
            // LVM activates the new volume, still a plain one, to clear it.
            let half = site.device(&name);
            cut_while_making(machine, &site, "data", Keeper::own(8), || {
                site.control.status(Selector::Name(&half)).is_ok()
            });
        }
        let mut keeper = Keeper::at(&site);
        keeper.intend(12, "data");
        let debris = site.volume(&keeper.name(12));
        assert_eq!((debris.attributes.kind, &debris.origin), (Kind::Plain, &None), "{debris:?}");
        check_that_only_ours_goes(&site, &mut keeper, "data");
        // The version can be cut after all.
        keeper.take(12, "data", Keeper::own(8));
    });
}

#[test]
fn lab_what_a_power_cut_leaves_of_a_thin_snapshot_is_removed() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        if machine.boot == 1 {
            let site = Site::set_up(machine);
            site.thin("pool", "64m", "thin", "64m");
            let pool = || match ThinPool::parse(&site.status("pool-tpool").targets[0]).unwrap() {
                ThinPool::Running(state) => state.transaction,
                ThinPool::Failed => panic!("the pool failed"),
            };
            let before = pool();
            // The origin is suspended once the snapshot is recorded. How far the pool is when the power goes is
            // a matter of microseconds; the test below plays each step.
            let is_reached = || site.status("thin").suspended || pool() != before;
            cut_while_making(machine, &site, "thin", Space::Pool, is_reached);
        }
        let site = Site::of_before(machine);
        let mut keeper = Keeper::at(&site);
        keeper.intend(12, "thin");
        let debris = site.volume(&keeper.name(12));
        assert_eq!((debris.attributes.kind, debris.attributes.activity), (Kind::Thin, Activity::Inactive));
        check_that_only_ours_goes(&site, &mut keeper, "thin");

        keeper.take(12, "thin", Space::Pool);
    });
}

/// The steps in which LVM makes a thin snapshot, each as the last before the power was cut: the volume is
/// recorded together with a message for the pool, the pool makes it, the pool counts the change, the message is
/// taken out of the record.
#[test]
fn lab_a_thin_snapshot_that_stopped_at_any_step_is_removed() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.thin("pool", "64m", "thin", "64m");
        let mut keeper = Keeper::at(&site);
        for (number, is_made, is_counted) in [(1, false, false), (2, true, false), (3, true, true)] {
            let (_, other) = keeper.take(number + 300, "thin", Space::Pool);
            let (made, ours) = keeper.take(number, "thin", Space::Pool);
            deactivate(&site, &ours);
            let count = field(&site, "transaction_id", &site.of("pool"));
            let mut messages = Vec::new();
            if !is_made {
                messages.push(format!("delete {}", field(&site, "thin_id", &ours.operand())));
            }
            if !is_counted {
                messages.push(format!("set_transaction_id {count} {}", count - 1));
            }
            site.message("pool", &messages);
            site.rewrite_records(|text| with_message(text, &format!("create = \"{}\"", made.ours.name())));

            keeper.intend(number, "thin");
            let half = keeper.find(made.ours.name().as_str()).unwrap();
            if is_counted {
                // LVM would put its message for another one beside the one that is left, and send neither.
                site.lvm.remove(&site.control, &other).unwrap();
                site.lvm.remove(&site.control, &half).unwrap();
            } else {
                let another = keeper.try_take(number + 100, "thin", Space::Pool);
                println!("made {is_made}: another one: {:?}", another.map(|made| made.ours.name().clone()));
                site.lvm.remove(&site.control, &half).unwrap();
                site.lvm.remove(&site.control, &other).unwrap();
            }
            machine.check_pool(site.group.as_str(), "pool");
            assert!(!site.status("thin").suspended && !site.status("pool-tpool").suspended);
            let (_, next) = keeper.take(number + 200, "thin", Space::Pool);
            site.lvm.remove(&site.control, &next).unwrap();
            println!("{:?}", site.status("pool-tpool").targets);
        }
    });
}

/// The record of the only pool, with a message that LVM has yet to send.
fn with_message(records: &str, message: &str) -> String {
    let end = "zero_new_blocks = 1\n";
    assert_eq!(records.matches(end).count(), 1, "{records}");
    records.replace(end, &format!("{end}message1 {{\n{message}\n}}\n"))
}

fn field(site: &Site<'_>, field: &str, volume: &str) -> u64 {
    let text = site.machine.run("lvs", &["--noheadings", "--options", field, volume]);
    text.trim().parse().unwrap()
}

/// The steps in which LVM removes a thin snapshot: it is taken out of the records, which hold a message for the
/// pool instead; the pool removes it; the pool counts the change.
///
/// What is removed next goes too. LVM puts its message beside the one that is left, and tells a pool that has counted
/// neither.
#[test]
fn lab_a_removal_that_stopped_at_any_step_is_finished() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.thin("pool", "64m", "thin", "64m");
        let mut keeper = Keeper::at(&site);
        let steps = [(false, false), (true, false), (true, true)];
        let others = [Some(Activity::Active), Some(Activity::Inactive), None];
        for (number, step) in (10..).step_by(10).zip(steps) {
            for (number, other) in (number..).step_by(3).zip(others) {
                println!("done and counted {step:?}, and then another one is removed: {other:?}");
                let other = other.map(|activity| {
                    let (_, other) = keeper.take(number + 1, "thin", Space::Pool);
                    if activity == Activity::Inactive {
                        deactivate(&site, &other);
                    }
                    other
                });
                let removed = stop_removing(&site, &mut keeper, number, step);
                site.lvm.remove(&site.control, &other.unwrap_or(removed)).unwrap();
                let (_, next) = keeper.take(number + 2, "thin", Space::Pool);
                site.lvm.remove(&site.control, &next).unwrap();
                machine.check_pool(site.group.as_str(), "pool");
            }
        }
    });
}

fn deactivate(site: &Site<'_>, ours: &Ours) {
    site.lvm.run(&Call::new("lvchange").option("--activate", "n").operand(ours.operand())).unwrap();
}

/// Takes a snapshot, and leaves what there would be if LVM were stopped while it is removed.
fn stop_removing(
    site: &Site<'_>,
    keeper: &mut Keeper<'_>,
    number: u64,
    (is_done, is_counted): (bool, bool),
) -> Ours {
    let (_, ours) = keeper.take(number, "thin", Space::Pool);
    deactivate(site, &ours);
    let delete = format!("delete {}", field(site, "thin_id", &ours.operand()));
    let count = field(site, "transaction_id", &site.of("pool"));
    let mut messages = Vec::new();
    if !is_counted {
        messages.push(format!("set_transaction_id {count} {}", count - 1));
    }
    if is_done {
        messages.push(delete.clone());
    }
    site.message("pool", &messages);
    site.rewrite_records(|text| {
        let (before, rest) = text.split_once(&format!("{} {{", ours.name())).unwrap();
        let (_, after) = rest.split_once("\n\t\t}\n").unwrap();
        with_message(&format!("{before}{after}"), &delete.replace(' ', " = "))
    });
    ours
}
