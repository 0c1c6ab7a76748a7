//! The one place that speaks to the device-mapper, by unsafe code.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use super::error::Error;
use super::wire::{self, Device, DeviceState, HEADER, Selector};
use crate::volume::stack::parse_uuid;

/// Commands of `linux/dm-ioctl.h`, by their numbers.
#[derive(Clone, Copy)]
enum Command {
    Version = 0,
    ListDevices = 2,
    /// One of two that change something: it suspends with [`wire::SUSPENDED`], and resumes without.
    Suspend = 6,
    DeviceStatus = 7,
    TableStatus = 12,
    /// The other one.
    TargetMessage = 14,
    /// From now on, and no earlier, an event makes the node readable.
    ArmPoll = 16,
}

/// Enough for every device but those with very many targets.
const FIRST_SIZE: usize = 16 << 10;
/// More than the tables of 100,000 devices need; the kernel makes a copy of the buffer for each question.
const MOST_SIZE: usize = 16 << 20;
/// How a writer is held: its file system is not brought in order, and what waits is not written first.
const HELD: u32 = wire::SUSPENDED | wire::SKIP_LOCKFS | wire::NO_FLUSH;

/// The open control node. Questions may be asked from several threads at once.
#[derive(Debug)]
pub struct Control {
    node: File,
}

impl Control {
    /// Opens `/dev/mapper/control`, and looks whether the kernel speaks the same interface.
    ///
    /// # Errors
    /// Where there is no device-mapper, where this process may not use it, and where it is another one.
    pub fn open() -> Result<Self, Error> {
        let node = OpenOptions::new().read(true).write(true).open("/dev/mapper/control");
        let node = node.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Absent,
            io::ErrorKind::PermissionDenied => Error::NotPermitted,
            _ if source.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Error::Absent,
            _ => Error::Io { doing: "open", object: "/dev/mapper/control".to_owned(), source },
        })?;
        let control = Self { node };
        match control.version()? {
            (4, ..) => Ok(control),
            (major, ..) => Err(Error::Version(major)),
        }
    }

    /// The version of the kernel's interface.
    ///
    /// # Errors
    /// Where the kernel refuses to answer.
    pub fn version(&self) -> Result<(u32, u32, u32), Error> {
        let answer = self.ask(Command::Version, "ask the version of", 0, None)?;
        wire::version(&answer).ok_or_else(|| unreadable(None))
    }

    /// Every device there is.
    ///
    /// # Errors
    /// Where the kernel refuses to answer, or the answer cannot be read.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        let answer = self.ask(Command::ListDevices, "list", 0, None)?;
        wire::devices(&answer).ok_or_else(|| unreadable(None))
    }

    /// The state of a device and of its targets. It does not wait for a pool's metadata to be committed.
    ///
    /// # Errors
    /// Where there is no such device, the kernel refuses to answer, or the answer cannot be read.
    pub fn status(&self, device: Selector<'_>) -> Result<DeviceState, Error> {
        let answer = self.ask(Command::TableStatus, "ask the state of", wire::NO_FLUSH, Some(device))?;
        wire::state(&answer).ok_or_else(|| unreadable(Some(device)))
    }

    /// What a device is made of: the same with the table of each target instead of its state.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn table(&self, device: Selector<'_>) -> Result<DeviceState, Error> {
        let flags = wire::NO_FLUSH | wire::STATUS_TABLE;
        let answer = self.ask(Command::TableStatus, "ask the table of", flags, Some(device))?;
        wire::state(&answer).ok_or_else(|| unreadable(Some(device)))
    }

    /// Suspends the device of a volume: whoever writes to it waits from now on, until it is resumed. What is under way is
    /// waited for; file systems are not brought in order, and what waits is not written first. Most often that takes
    /// well under 50 ms.
    ///
    /// The device is meant by the UUID that LVM gave it, since another may take its name at any moment.
    ///
    /// # Errors
    /// With [`Error::NotAVolume`] for any other UUID; with [`Error::Suspended`] where somebody else has suspended it,
    /// who will want to resume it; where a signal ended the wait, and where the kernel refuses. It is not suspended
    /// after an error, or not by this.
    pub fn suspend(&self, uuid: &str) -> Result<(), Error> {
        if self.is_suspended(uuid)? {
            return Err(Error::Suspended(uuid.to_owned()));
        }
        match self.order(Command::Suspend, HELD, uuid) {
            Ok(_) => Ok(()),
            // Somebody else began to at the same moment, and was first: the kernel suspends nothing twice.
            Err(Errno::INVAL) => Err(Error::Suspended(uuid.to_owned())),
            Err(errno) => Err(refused(errno, "suspend", Some(Selector::Uuid(uuid)))),
        }
    }

    /// Resumes the device of a volume. One that is not suspended is left alone: to resume it would put the table in
    /// place that LVM may just have prepared for it.
    ///
    /// # Errors
    /// Where there is no such device, and where the kernel refuses.
    pub fn resume(&self, uuid: &str) -> Result<(), Error> {
        expect_volume(uuid)?;
        self.resume_within_memory(uuid).map_err(|errno| refused(errno, "resume", Some(Selector::Uuid(uuid))))
    }

    /// The same for whoever must not ask for memory while the device is suspended, not even for the text of an error.
    pub(crate) fn resume_within_memory(&self, uuid: &str) -> rustix::io::Result<()> {
        let looked = self.order(Command::DeviceStatus, 0, uuid)?;
        if wire::is_suspended(&looked) {
            self.order(Command::Suspend, 0, uuid)?;
        }
        Ok(())
    }

    /// Suspends a device that somebody has resumed, as [`Self::suspend`] does, for whoever must not ask for memory.
    pub(crate) fn suspend_again_within_memory(&self, uuid: &str) -> rustix::io::Result<()> {
        let looked = self.order(Command::DeviceStatus, 0, uuid)?;
        if !wire::is_suspended(&looked) {
            self.order(Command::Suspend, HELD, uuid)?;
        }
        Ok(())
    }

    /// Has a thin pool give up one of its volumes, by the number that it has there. One that is not there is no error, and
    /// one that is active is not given up.
    ///
    /// The pool's device is meant by its UUID, which [`pool_uuid`](crate::lvm::names::pool_uuid) knows. Whose the volume is, the
    /// pool does not know: only LVM's records say that.
    ///
    /// # Errors
    /// Where there is no such device, and where the kernel refuses.
    pub fn delete_thin(&self, pool_uuid: &str, number: u64) -> Result<(), Error> {
        let pool = Selector::Uuid(pool_uuid);
        let mut message = wire::message(pool, &format!("delete {number}"))?;
        match self.put(Command::TargetMessage, &mut message) {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            Err(errno) => Err(refused(errno, "have a volume given up by", Some(pool))),
        }
    }

    /// Has a thin pool write its metadata out and keep it readable as it is now, until it is told otherwise. A pool keeps one
    /// such state at a time: the answer is `false` where there is one already, whose keeper is another one.
    ///
    /// # Errors
    /// Where there is no such device, and where the kernel refuses.
    pub fn reserve_metadata(&self, pool_uuid: &str) -> Result<bool, Error> {
        let pool = Selector::Uuid(pool_uuid);
        let mut message = wire::message(pool, "reserve_metadata_snap")?;
        match self.put(Command::TargetMessage, &mut message) {
            Ok(()) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(errno) => Err(refused(errno, "have a state of its metadata kept by", Some(pool))),
        }
    }

    /// Has a thin pool keep that state no longer.
    ///
    /// # Errors
    /// Where there is no such device, none was kept, and where the kernel refuses.
    pub fn release_metadata(&self, pool_uuid: &str) -> Result<(), Error> {
        let pool = Selector::Uuid(pool_uuid);
        let mut message = wire::message(pool, "release_metadata_snap")?;
        let told = self.put(Command::TargetMessage, &mut message);
        told.map_err(|errno| refused(errno, "have its metadata released by", Some(pool)))
    }

    /// Whether the device of a volume is suspended, by whomever. This does not wait, whatever its state is.
    ///
    /// # Errors
    /// With [`Error::NotAVolume`] for a UUID that LVM gives no volume; where there is no such device, and where the
    /// kernel refuses to answer.
    pub fn is_suspended(&self, uuid: &str) -> Result<bool, Error> {
        expect_volume(uuid)?;
        match self.order(Command::DeviceStatus, 0, uuid) {
            Ok(answer) => Ok(wire::is_suspended(&answer)),
            Err(errno) => Err(refused(errno, "ask the state of", Some(Selector::Uuid(uuid)))),
        }
    }

    /// Has whoever polls the node hear of what happens from now on, and of nothing that happened before.
    pub(super) fn arm(&self) -> Result<(), Error> {
        let mut header = [0; HEADER];
        if !wire::fill(&mut header, 0, None) {
            return Err(unreadable(None));
        }
        self.put(Command::ArmPoll, &mut header).map_err(|errno| refused(errno, "tell of events of", None))
    }

    /// Gives a command whose answer is a header and no more, which needs no memory but the stack's. A signal ends it.
    fn order(&self, command: Command, flags: u32, uuid: &str) -> rustix::io::Result<[u8; HEADER]> {
        let mut header = [0; HEADER];
        if !wire::fill(&mut header, flags, Some(Selector::Uuid(uuid))) {
            return Err(Errno::INVAL);
        }
        self.put(command, &mut header)?;
        Ok(header)
    }

    /// Asks, with a larger buffer each time the answer did not fit.
    fn ask(
        &self,
        command: Command,
        doing: &'static str,
        flags: u32,
        device: Option<Selector<'_>>,
    ) -> Result<Vec<u8>, Error> {
        let mut size = FIRST_SIZE;
        loop {
            let mut buffer = wire::question(size, flags, device)?;
            match self.put(command, &mut buffer) {
                Ok(()) if !wire::is_too_small(&buffer) => return Ok(buffer),
                Ok(()) if size < MOST_SIZE => size *= 2,
                Ok(()) => return Err(unreadable(device)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(errno, doing, device)),
            }
        }
    }

    /// Hands a question to the kernel, which answers in the same buffer.
    fn put(&self, command: Command, buffer: &mut [u8]) -> rustix::io::Result<()> {
        let question = Question { command, buffer };
        // SAFETY: the node is the device-mapper's control node, and these commands are its own; `Question` says what
        // the kernel reads and writes.
        unsafe { ioctl::ioctl(&self.node, question) }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.node.as_fd()
    }
}

/// A question on its way: a header and a buffer in one.
struct Question<'a> {
    command: Command,
    buffer: &'a mut [u8],
}

// SAFETY: `wire::fill` made the buffer's header, and wrote into it the buffer's length, at least a header's.
// The kernel reads the header and writes at most that many bytes from the same address, while `buffer` is
// borrowed mutably; any bytes are valid in it. The opcode is `_IOWR(0xfd, command, struct dm_ioctl)`.
unsafe impl Ioctl for Question<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ioctl::opcode::read_write::<[u8; HEADER]>(0xfd, self.command as u8)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.buffer.as_mut_ptr().cast()
    }

    // SAFETY: the pointer is not used.
    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

fn refused(errno: Errno, doing: &'static str, device: Option<Selector<'_>>) -> Error {
    match errno {
        Errno::NXIO if device.is_some() => Error::NoSuchDevice(name(device)),
        Errno::ACCESS | Errno::PERM => Error::NotPermitted,
        _ => Error::Io { doing, object: name(device), source: errno.into() },
    }
}

/// Only whole volumes are suspended and resumed: their UUIDs are `LVM-` and two of 32 characters.
fn expect_volume(uuid: &str) -> Result<(), Error> {
    match parse_uuid(uuid) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::NotAVolume(uuid.chars().filter(|c| !c.is_control()).take(160).collect())),
    }
}

fn unreadable(device: Option<Selector<'_>>) -> Error {
    Error::Unreadable { object: name(device), what: "its parts do not fit together" }
}

fn name(device: Option<Selector<'_>>) -> String {
    device.map_or_else(|| "devices".to_owned(), |device| device.text().to_owned())
}
