//! The one place that speaks to the device-mapper, and the only unsafe code of this crate.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;

use rustix::io::Errno;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use super::error::Error;
use super::wire::{self, Device, HEADER, Selector, State};

/// Commands of `linux/dm-ioctl.h`, by their numbers. None of them changes a device.
#[derive(Clone, Copy)]
enum Command {
    Version = 0,
    ListDevices = 2,
    TableStatus = 12,
}

/// Enough for every device but those with very many targets.
const FIRST_SIZE: usize = 16 << 10;
/// More than the tables of 100,000 devices need; the kernel makes a copy of the buffer for each question.
const MOST_SIZE: usize = 16 << 20;

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
    pub fn status(&self, device: Selector<'_>) -> Result<State, Error> {
        let answer = self.ask(Command::TableStatus, "ask the state of", wire::NO_FLUSH, Some(device))?;
        wire::state(&answer).ok_or_else(|| unreadable(Some(device)))
    }

    /// What a device is made of: the same with the table of each target instead of its state.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn table(&self, device: Selector<'_>) -> Result<State, Error> {
        let flags = wire::NO_FLUSH | wire::STATUS_TABLE;
        let answer = self.ask(Command::TableStatus, "ask the table of", flags, Some(device))?;
        wire::state(&answer).ok_or_else(|| unreadable(Some(device)))
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
            let question = Question { command, buffer: &mut buffer };
            // SAFETY: the node is the device-mapper's control node, and these commands are its own;
            // `Question` says what the kernel reads and writes.
            match unsafe { ioctl::ioctl(&self.node, question) } {
                Ok(()) if !wire::is_too_small(&buffer) => return Ok(buffer),
                Ok(()) if size < MOST_SIZE => size *= 2,
                Ok(()) => return Err(unreadable(device)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(errno, doing, device)),
            }
        }
    }
}

/// A question on its way: a header and a buffer in one.
struct Question<'a> {
    command: Command,
    buffer: &'a mut [u8],
}

// SAFETY: `wire::question` made the buffer, at least a header long, and wrote its length into the header.
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

fn unreadable(device: Option<Selector<'_>>) -> Error {
    Error::Unreadable { object: name(device), what: "its parts do not fit together" }
}

fn name(device: Option<Selector<'_>>) -> String {
    device.map_or_else(|| "devices".to_owned(), |device| device.text().to_owned())
}
