//! What a file has in common in two thin snapshots of one volume, as their pool tells it.
//!
//! A pool gives a block to several of its volumes until one of them writes there: that one gets a block of its own then. So
//! where two snapshots have the same block, they have the same bytes, and so had the volume whenever it was looked at in
//! between. Who writes to a snapshot changes that snapshot's blocks, which are other ones from then on, and are read.
//!
//! The pool's metadata says which blocks these are, and `thin_delta` of the thin-provisioning-tools reads it. It reads a state
//! that the pool keeps for as long as it is told to, while others go on writing. A pool keeps one such state at a time:
//! where somebody else has it kept, nothing is said. It goes on keeping it when whoever asked for it is gone, so it is
//! recorded which one is ours ([`Reservations`]).

mod error;
pub(crate) mod report;
mod reservations;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::Error;
pub use reservations::Reservations;

use super::snapshots::is_node_of;
use super::units::Bytes;
use crate::clones::Unchanged;
use crate::dm::target::{PoolTable, ThinTable};
use crate::dm::{Control, Selector};
use crate::fiemap::{self, Extent};
use crate::program;
use report::Asked;

/// Where the command may be. A search path could be set by somebody else.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];
/// The command.
const TOOL: &str = "thin_delta";
/// Hundreds of thousands of ranges. Where more has changed, reading everything costs little more.
const MOST_REPORT: u64 = 16 << 20;

/// A file in a mounted snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its path, below the snapshot's mount.
    pub file: &'a Path,
    /// The UUID of the snapshot's device.
    pub device: &'a str,
}

/// The command, where it is installed.
#[must_use]
pub fn find_tool() -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(TOOL)).find(|path| path.is_file())
}

/// What a file has in common in two thin snapshots of one pool: everything that is not told is to be read. `None` where the file
/// system cannot tell.
///
/// `turn` is called for as long as the pool takes a message: no command that changes its volumes may run meanwhile.
///
/// # Errors
/// Where the command is missing, or ends otherwise than it should; where the pool's metadata is being read by somebody else;
/// where a file does not lie on the snapshot that is named, or that is no plain thin volume.
pub fn unchanged<T>(
    (control, records): (&Control, &Reservations),
    deadline: Duration,
    sides: [Side<'_>; 2],
    turn: impl Fn() -> T,
) -> Result<Option<Unchanged>, Error> {
    let tool = find_tool().ok_or(Error::NotInstalled(TOOL))?;
    let [one, other] = sides;
    let (one, other) = (Thin::look(control, one)?, Thin::look(control, other)?);
    if one.table.pool != other.table.pool {
        return Err(Error::TwoPools);
    }
    let pool = Pool::look(control, one.table.pool)?;
    let (Some(mine), Some(theirs)) = (one.extents, other.extents) else { return Ok(None) };
    let numbers = [one.table.number, other.table.number];
    let report = pool.keeping((control, records), turn, || pool.ask(&tool, numbers, deadline))?;
    let same = pool.read(&report, numbers)?;
    Ok(Unchanged::on_devices(&mine, &theirs, &same))
}

/// A thin volume, and where a file is on it.
struct Thin {
    table: ThinTable,
    extents: Option<Vec<Extent>>,
}

impl Thin {
    fn look(control: &Control, Side { file, device }: Side<'_>) -> Result<Self, Error> {
        let state = control.table(Selector::Uuid(device))?;
        let [target] = state.targets.as_slice() else { return Err(Error::NotThin(state.name.clone())) };
        let table = ThinTable::parse(target)?;
        let failed = |source| Error::Io { path: file.to_owned(), source };
        let opened = File::open(file).map_err(failed)?;
        let lies_on = opened.metadata().map_err(failed)?.dev();
        if lies_on != rustix::fs::makedev(state.number.0, state.number.1) {
            return Err(Error::Elsewhere { path: file.to_owned(), device: state.name });
        }
        let extents = fiemap::extents(&opened).map_err(|errno| failed(errno.into()))?;
        Ok(Self { table, extents })
    }
}

/// A pool whose metadata can be read.
struct Pool {
    uuid: String,
    /// The node of the device with its metadata.
    metadata: PathBuf,
    block: Bytes,
}

impl Pool {
    fn look(control: &Control, number: (u32, u32)) -> Result<Self, Error> {
        let devices = control.devices()?;
        let name_of = |number: (u32, u32)| {
            let device = devices.iter().find(|device| device.number == number);
            let told = || Error::NoDevice(format!("{}:{}", number.0, number.1));
            device.map(|device| device.name.as_str()).ok_or_else(told)
        };
        let state = control.table(Selector::Name(name_of(number)?))?;
        // Another device may have got its name since.
        // A pool of LVM's has a UUID that can be the name of a file.
        let is_of_lvm = state.uuid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_it = state.number == number && is_of_lvm && !state.uuid.is_empty();
        let target = state.targets.first().filter(|_| is_it);
        let table = PoolTable::parse(target.ok_or_else(|| Error::NoDevice(state.name.clone()))?)?;
        let metadata = Path::new("/dev/mapper").join(name_of(table.metadata)?);
        if !is_node_of(&metadata, table.metadata) {
            return Err(Error::NoDevice(metadata.display().to_string()));
        }
        let block = table.block.to_bytes().ok_or(Error::Report("its blocks have no size"))?;
        Ok(Self { uuid: state.uuid, metadata, block })
    }

    /// Does something while the pool keeps its metadata readable, and has it let go however that ended.
    fn keeping<A, T>(
        &self,
        (control, records): (&Control, &Reservations),
        turn: impl Fn() -> T,
        act: impl FnOnce() -> Result<A, Error>,
    ) -> Result<A, Error> {
        {
            let _turn = turn();
            records.reserve(control, &self.uuid)?;
        }
        let result = act();
        let _turn = turn();
        records.release(control, &self.uuid)?;
        result
    }

    /// Has the command say what two volumes have in common.
    fn ask(&self, tool: &Path, [one, other]: [u64; 2], deadline: Duration) -> Result<Vec<u8>, Error> {
        let (tool, metadata) = (tool.display().to_string(), self.metadata.display().to_string());
        let (one, other) = (one.to_string(), other.to_string());
        let words = [tool.as_str(), "--metadata-snap", "--thin1", &one, "--thin2", &other, &metadata];
        let words = words.map(str::to_owned);
        Ok(program::read(&words, &[("LC_ALL", "C")], deadline, MOST_REPORT)?)
    }

    /// Reads what the command said; answers in bytes of the volumes.
    fn read(&self, report: &[u8], numbers: [u64; 2]) -> Result<Vec<Range<u64>>, Error> {
        let text = str::from_utf8(report).map_err(|_| Error::Report("it is not UTF-8"))?;
        let asked = Asked { numbers, block: self.block.to_sectors().0 };
        let same = report::parse(text, asked).map_err(Error::Report)?;
        let bytes = |blocks: &Range<u64>| {
            Some(blocks.start.checked_mul(self.block.0)?..blocks.end.checked_mul(self.block.0)?)
        };
        let same: Option<Vec<_>> = same.iter().map(bytes).collect();
        same.ok_or(Error::Report("a range in it ends beyond all devices"))
    }
}
