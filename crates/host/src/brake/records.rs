//! Which devices the brake may hold, written down where it outlives the daemon and ends with the machine's next start.
//!
//! Where the daemon and the brake's process are killed at once, [`let_go`](super::let_go) must find what they left
//! suspended. The origin of a classic snapshot shows by that, but the snapshot may be gone by then, and a thin volume that
//! was held for its pool's sake shows by nothing. So each device is written down before it is held for the first time: an
//! empty file with its UUID as the name, so that there is nothing in it to be half-written.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::volume::DeviceUuid;
use crate::volume::stack::parse_uuid;

/// Where the daemon writes them down. It is the same whatever the configuration says, for that may be broken by the time
/// at which somebody reads them; and it is in memory, as all of `/run`, so that no volume is needed for it.
pub const RECORDS: &str = "/run/asat/braked";

/// Writes down that a device may be held from now on.
///
/// # Errors
/// Where the folder or the file in it cannot be made.
pub fn write_down(records: &Path, device: &DeviceUuid) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(records)?;
    File::create(records.join(device.to_string())).map(drop)
}

/// The devices that are written down; none where nobody has written. What is no UUID of a volume's is passed over.
pub(super) fn written_down(records: &Path) -> io::Result<Vec<DeviceUuid>> {
    let entries = match fs::read_dir(records) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut devices = Vec::new();
    for entry in entries {
        devices.extend(entry?.file_name().to_str().and_then(|name| parse_uuid(name).ok()));
    }
    Ok(devices)
}

/// Strikes out a device that nobody holds any more.
pub(super) fn strike_out(records: &Path, device: &DeviceUuid) -> io::Result<()> {
    match fs::remove_file(records.join(device.to_string())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "LVM-hPWtuHVkLxnQ5DLc1oqoYVDBbJEKJOLkeCMUGcdb3nFSliWJg8PRXLcbK2M9scQA";

    #[test]
    fn what_is_written_down_is_read_back_until_it_is_struck_out() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("run/braked");
        let device = parse_uuid(UUID).unwrap();
        assert_eq!(written_down(&records).unwrap(), []);
        strike_out(&records, &device).unwrap();
        write_down(&records, &device).unwrap();
        write_down(&records, &device).unwrap();
        for other in ["LVM-", "x", "LVM-é", &format!("{UUID}-cow"), &UUID[..67]] {
            File::create(records.join(other)).unwrap();
        }
        assert_eq!(written_down(&records).unwrap(), [device]);
        strike_out(&records, &device).unwrap();
        assert_eq!(written_down(&records).unwrap(), []);
        File::create(folder.path().join("file")).unwrap();
        assert!(written_down(&folder.path().join("file")).is_err());
        assert!(write_down(&folder.path().join("file"), &device).is_err());
    }
}
