//! A block device that a benchmark may overwrite: looked at before anything is written, and asked afterwards how
//! much was written.
//!
//! To look changes nothing. A device is refused where it is not certain that nobody wants what is on it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};
use asat_host::volume::mounts;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;

use super::{failed, tools};

/// The kernel counts in sectors of this size, whatever the disk's own is.
const SECTOR: u64 = 512;
/// Where the number of written sectors stands in a disk's `stat`
/// (<https://www.kernel.org/doc/html/latest/block/stat.html>).
const SECTORS_WRITTEN: usize = 6;

/// An empty disk or partition.
#[derive(Debug)]
pub(super) struct Disk {
    /// Its path, without links.
    pub(super) path: PathBuf,
    /// Its device number, major and minor.
    pub(super) number: (u32, u32),
    /// Its size.
    pub(super) bytes: u64,
}

impl Disk {
    /// Looks at a device.
    ///
    /// # Errors
    /// Where it is no disk or partition, is in use, or is not empty, with what was found.
    pub(super) fn empty(path: &Path) -> Result<Self, Problem> {
        let named = path.display();
        let path = fs::canonicalize(path).map_err(|error| refuse(format!("{named}: {error}")))?;
        let metadata = fs::metadata(&path).map_err(|error| refuse(format!("{named}: {error}")))?;
        if !metadata.file_type().is_block_device() {
            return Err(refuse(format!("{named} is not a block device")));
        }
        let device = metadata.rdev();
        let number = (rustix::fs::major(device), rustix::fs::minor(device));
        if sys(number).join("dm").exists() {
            return Err(refuse(format!("{named} is neither a disk nor a partition, but made of others")));
        }
        let disk = Self { bytes: size(number)?, number, path };
        disk.check_unused()?;
        disk.check_blank()?;
        Ok(disk)
    }

    /// The disk, where it has so many bytes; else the hint says what to do.
    pub(super) fn at_least(self, needed: u64, hint: &str) -> Result<Self, Problem> {
        if self.bytes >= needed {
            return Ok(self);
        }
        let what = format!("{} has {} bytes, and this run needs {needed}", self.path.display(), self.bytes);
        Err(Problem::new(Code::Configuration, what, hint))
    }

    /// How many bytes were written to it since the machine began to count.
    pub(super) fn written_bytes(&self) -> Result<u64, Problem> {
        let text = read(&sys(self.number).join("stat"))?;
        let sectors = text.split_ascii_whitespace().nth(SECTORS_WRITTEN).and_then(|word| word.parse().ok());
        let bytes = sectors.and_then(|sectors: u64| sectors.checked_mul(SECTOR));
        bytes.ok_or_else(|| failed(&format!("count what is written to {}", self.path.display()), text.trim()))
    }

    /// Nobody has it mounted, and no other device, swap or file system is built on it.
    fn check_unused(&self) -> Result<(), Problem> {
        let named = self.path.display();
        let table = mounts::parse(&read(Path::new("/proc/self/mountinfo"))?);
        if let Some(mount) = table.iter().find(|mount| mount.device == self.number) {
            return Err(refuse(format!("{named} is mounted at {}", mount.mount_point.display())));
        }
        // The kernel itself says whether somebody holds it or a part of it (open(2), O_EXCL).
        match rustix::fs::open(&self.path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
            Ok(_) => Ok(()),
            Err(Errno::BUSY) => Err(refuse(format!("{named} is in use"))),
            Err(error) => Err(failed(&format!("look at {named}"), error)),
        }
    }

    fn check_blank(&self) -> Result<(), Problem> {
        let options = ["--no-act", "--json", "--"].map(OsStr::new);
        let [no_act, json, end] = options;
        let text = tools::run("wipefs", &[no_act, json, end, self.path.as_os_str()])?;
        let found = signatures(&text)?;
        if found.is_empty() {
            return Ok(());
        }
        Err(refuse(format!("{} is not empty: it carries {}", self.path.display(), found.join(", "))))
    }
}

/// What the kernel says of a block device.
fn sys((major, minor): (u32, u32)) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

fn size(number: (u32, u32)) -> Result<u64, Problem> {
    let text = read(&sys(number).join("size"))?;
    let sectors = text.trim().parse::<u64>().map_err(|error| failed("read a disk's size", error))?;
    Ok(sectors.saturating_mul(SECTOR))
}

fn read(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(|error| failed(&format!("read {}", path.display()), error))
}

/// The kinds of the signatures that wipefs lists. Where it finds none it may print nothing at all.
fn signatures(text: &str) -> Result<Vec<String>, Problem> {
    #[derive(Deserialize)]
    struct List {
        signatures: Vec<Signature>,
    }
    #[derive(Deserialize)]
    struct Signature {
        #[serde(rename = "type")]
        kind: String,
    }
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let list: List =
        serde_json::from_str(text).map_err(|error| failed("read the answer of wipefs", error))?;
    Ok(list.signatures.into_iter().map(|signature| signature.kind).collect())
}

fn refuse(what: String) -> Problem {
    let hint =
        "name three empty disks or partitions; `wipefs --all DEVICE` empties one, and its content is lost";
    Problem::new(Code::Configuration, what, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (path, why) in [
            (file.path(), "is not a block device"),
            (Path::new("/dev/null"), "is not a block device"),
            (Path::new("/"), "is not a block device"),
            (Path::new("/dev/no-such-disk"), "No such file"),
        ] {
            let problem = Disk::empty(path).unwrap_err();
            assert_eq!(problem.code, Code::Configuration);
            assert!(problem.detail.contains(why), "{problem:?}");
        }
    }

    #[test]
    fn signatures_are_read_as_wipefs_writes_them() {
        let text = r#"{"signatures": [
            {"device":"sdb", "offset":"0x218", "type":"LVM2_member", "uuid":"x", "label":null},
            {"device":"sdb", "offset":"0x1fe", "type":"dos"}]}"#;
        assert_eq!(signatures(text).unwrap(), ["LVM2_member", "dos"]);
        assert_eq!(signatures(r#"{"signatures": []}"#).unwrap(), [""; 0]);
        assert_eq!(signatures("\n").unwrap(), [""; 0]);
        assert!(signatures("sdb: ext4").is_err(), "what is not understood cannot stand for an empty disk");
    }
}
