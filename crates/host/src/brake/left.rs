//! What a brake has left suspended, found without it and resumed.
//!
//! The kernel does not record who suspended a device, and LVM suspends too while it works, an origin most of all. To
//! resume a device under a command of LVM would not damage anything: while such a command has an origin suspended, it
//! has the parts suspended that a write would go on to, and the write waits there. But it is not asat's to do, so three
//! things must agree.
//!
//! - The device is one that the brake could have held: a logical volume that is written down as such ([`super::records`]),
//!   or that is the origin of a classic snapshot with a name as asat gives it, should nothing have been written.
//! - It is suspended at every one of [`LOOKS`] looks, over some 200 ms. LVM has an origin suspended for tens of
//!   milliseconds, so what lasts that long is left over, or waits for somebody.
//! - Nobody calls this but where no brake of the daemon can hold anything and the daemon runs no command of LVM: before
//!   it has begun, and after it has ended. A brake lets go as its daemon ends, long before the last look.
//!
//! A command of somebody else can still have an origin suspended for longer than that, on a disk that is very slow.
//! Then the origin is resumed early, and that command does what it would have done anyway. The other mistake, to
//! leave a device suspended, would stop every writer of it until the machine is restarted.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::Error;
use super::records::{strike_out, written_down};
use crate::dm::target::{OriginTable, SnapshotTable};
use crate::dm::{self, Control, DeviceState, Selector};
use crate::lvm::names;
use crate::volume::DeviceUuid;
use crate::volume::stack::parse_uuid;

/// How often a device must be seen suspended.
const LOOKS: u32 = 20;
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Resumes what a brake has left suspended, and answers the names of these devices. Only for where no brake can be at
/// work: as the daemon starts, and when it has stopped. It waits 200 ms where there may be something to resume, and
/// nothing else is done to any device. What was written down in `records` is struck out.
///
/// # Errors
/// Where the device-mapper cannot be asked; where it refuses to resume a device, after the others were tried; where
/// `records` cannot be read or changed, after what could be found without was resumed.
pub fn let_go(control: &Control, records: &Path) -> Result<Vec<String>, Error> {
    let (written, unread) = match written_down(records) {
        Ok(written) => (written, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let resumed = resume_left(control, &written)?;
    let struck = written.iter().try_for_each(|device| strike_out(records, device));
    match unread.map_or(struck, Err) {
        Ok(()) => Ok(resumed),
        Err(source) => Err(Error::Records { folder: records.to_owned(), source }),
    }
}

/// Resumes what is suspended and stays so; answers the names.
fn resume_left(control: &Control, written: &[DeviceUuid]) -> Result<Vec<String>, dm::Error> {
    let mut left = stuck(&tables(control)?, written);
    for _ in 1..LOOKS {
        if left.is_empty() {
            return Ok(Vec::new());
        }
        thread::sleep(PAUSE);
        let mut still = Vec::new();
        for (name, uuid) in left {
            match control.is_suspended(&uuid) {
                Ok(true) => still.push((name, uuid)),
                Ok(false) | Err(dm::Error::NoSuchDevice(_)) => {}
                Err(error) => return Err(error),
            }
        }
        left = still;
    }
    let (mut resumed, mut failed) = (Vec::new(), None);
    for (name, uuid) in left {
        match control.resume(&uuid) {
            Ok(()) => resumed.push(name),
            Err(dm::Error::NoSuchDevice(_)) => {}
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(resumed), Err)
}

/// Every device with its table. This does not wait for a device that is suspended, as LVM's own reports may.
fn tables(control: &Control) -> Result<Vec<DeviceState>, dm::Error> {
    let mut tables = Vec::new();
    for device in control.devices()? {
        match control.table(Selector::Name(&device.name)) {
            Ok(state) => tables.push(state),
            Err(dm::Error::NoSuchDevice(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tables)
}

/// The names and UUIDs of devices that are suspended and that a brake could have suspended.
fn stuck(devices: &[DeviceState], written: &[DeviceUuid]) -> Vec<(String, String)> {
    let ours = devices.iter().filter(|device| names::is_device_name(&device.name));
    let ours = ours.filter(|device| parse_uuid(&device.uuid).is_ok()).filter_map(|device| only(device));
    let contents: Vec<_> =
        ours.filter_map(|target| SnapshotTable::parse(target).ok()).map(|table| table.origin).collect();
    let is_origin_of_ours = |device: &DeviceState| {
        let table = only(device).and_then(|target| OriginTable::parse(target).ok());
        table.is_some_and(|table| contents.contains(&table.content))
    };
    let suspended = devices.iter().filter(|device| device.suspended);
    let held = suspended.filter(|device| {
        parse_uuid(&device.uuid).is_ok_and(|uuid| written.contains(&uuid) || is_origin_of_ours(device))
    });
    held.map(|device| (device.name.clone(), device.uuid.clone())).collect()
}

/// The target of a device that has one.
fn only(device: &DeviceState) -> Option<&crate::dm::Target> {
    match &device.targets[..] {
        [target] => Some(target),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::Target;
    use crate::lvm::units::Sectors;

    fn device(name: &str, part: &str, suspended: bool, kind: &str, table: &str) -> DeviceState {
        let target =
            Target { start: Sectors(0), length: Sectors(8), kind: kind.to_owned(), text: table.to_owned() };
        let uuid = format!("LVM-hPWtuHVkLxnQ5DLc1oqoYVDBbJEKJOLkeCMUGcdb3nFSliWJg8PRXLcbK2M9scQA{part}");
        DeviceState {
            name: name.to_owned(),
            uuid,
            number: (254, 0),
            suspended,
            read_only: false,
            open_count: 1,
            event: 0,
            targets: vec![target],
        }
    }

    /// What LVM has of a volume with a snapshot of asat's: the origin, its content, the snapshot and its space.
    fn family(suspended: bool) -> Vec<DeviceState> {
        vec![
            device("vg-data", "", suspended, "snapshot-origin", "254:1"),
            device("vg-data-real", "-real", false, "linear", "98:0 2048"),
            device("vg-asat.12.d0e1f2a3.report", "", false, "snapshot", "254:1 254:2 P 8"),
            device("vg-asat.12.d0e1f2a3.report-cow", "-cow", false, "linear", "98:0 4096"),
        ]
    }

    #[test]
    fn an_origin_of_ours_that_is_suspended_is_found() {
        assert_eq!(stuck(&family(false), &[]), []);
        let found = stuck(&family(true), &[]);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["vg-data"]);
    }

    #[test]
    fn a_volume_that_is_written_down_is_found_whatever_it_is() {
        let mut all = family(true);
        let written = [parse_uuid(&all[0].uuid).unwrap()];
        all.truncate(1);
        assert_eq!(stuck(&all, &[]), []);
        for kind in ["snapshot-origin", "thin", "linear"] {
            kind.clone_into(&mut all[0].targets[0].kind);
            let found = stuck(&all, &written);
            assert_eq!(
                found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
                ["vg-data"],
                "{kind}"
            );
        }
        all[0].suspended = false;
        assert_eq!(stuck(&all, &written), []);
        // A part of the volume has a UUID that begins in the same way.
        assert_eq!(stuck(&[device("vg-data-real", "-real", true, "linear", "98:0 2048")], &written), []);
    }

    /// Each is one change away from what is found above.
    #[test]
    fn nothing_else_that_is_suspended_is_found() {
        type Change = fn(&mut Vec<DeviceState>);
        let changes: [(&str, Change); 9] = [
            ("a snapshot of somebody else", |all| "vg-backup".clone_into(&mut all[2].name)),
            ("a part of the snapshot alone", |all| drop(all.remove(2))),
            ("a snapshot of another origin", |all| "254:9 254:2 P 8".clone_into(&mut all[2].targets[0].text)),
            ("a thin snapshot", |all| "thin".clone_into(&mut all[2].targets[0].kind)),
            ("a snapshot that LVM did not make", |all| "x".clone_into(&mut all[2].uuid)),
            ("an origin that LVM did not make", |all| "CRYPT-1".clone_into(&mut all[0].uuid)),
            ("no origin", |all| "linear".clone_into(&mut all[0].targets[0].kind)),
            ("an origin of two parts", |all| {
                let target = all[0].targets[0].clone();
                all[0].targets.push(target);
            }),
            ("no table yet", |all| all[0].targets.clear()),
        ];
        for (what, change) in changes {
            let mut all = family(true);
            change(&mut all);
            assert_eq!(stuck(&all, &[]), [], "{what}");
        }
        for part in 1..4 {
            let mut all = family(false);
            all[part].suspended = true;
            assert_eq!(stuck(&all, &[]), [], "{} alone", all[part].name);
        }
    }
}
