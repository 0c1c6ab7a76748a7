//! Where an archive's files are kept: objects that are known by number, created once, and never changed.
//!
//! Everything else of the archive is built upon these few operations, so that a folder can hold it as well as a bucket.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;

/// A place for objects.
pub(crate) trait Objects: Debug + Send + Sync {
    /// An object that is being written. It has no number yet, and dropped it leaves nothing.
    fn draft(&self) -> Result<Box<dyn Draft>, Error>;
    /// Opens an object. It can be read to its end, whatever is deleted meanwhile.
    fn open(&self, number: u64) -> Result<Arc<dyn Object>, Error>;
    /// The numbers of the objects, in order.
    fn list(&self) -> Result<Vec<u64>, Error>;
    /// Deletes an object. That it is not there any more is no error.
    fn delete(&self, number: u64) -> Result<(), Error>;
    /// Whether all of an object can be read at little cost.
    fn is_near(&self) -> bool {
        true
    }
    /// How many bytes there is room for, if that is limited and known.
    fn room(&self) -> Option<u64>;
    /// How an object is called in messages.
    fn name(&self, number: u64) -> PathBuf;
    /// Where all of them are.
    fn place(&self) -> &Path;
}

/// An object that is being written.
pub(crate) trait Draft: Send {
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error>;
    /// Makes what was appended durable, so that little is left to do when it is given its number.
    fn settle(&mut self) -> Result<(), Error>;
    /// Gives it its number, durably. Fails if an object has that number: it is never replaced. After another error the object may
    /// be there or not.
    fn create(self: Box<Self>, number: u64) -> Result<(), Error>;
}

/// What tells whether an object is as it was when it was looked at before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified: (i64, i64),
}

/// An object that is open for reading, from any number of threads.
pub(crate) trait Object: Debug + Send + Sync {
    /// How it is called in messages.
    fn name(&self) -> &Path;
    /// Its length in bytes.
    fn len(&self) -> u64;
    /// Fills `buffer` with what begins at `offset`. An object that ends before is damaged.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;
    /// Says that this is read soon. It is advice: where it is not taken, nothing else changes.
    fn expect(&self, offset: u64, len: u64);
    /// What tells whether it is as it was; nothing if it was deleted or replaced since it was opened.
    fn stamp(&self) -> Option<Stamp>;
    /// Hears that something which was read is not what was written: what is fetched anew may be.
    fn doubt(&self) {}
}

impl dyn Object {
    /// What is said of it if it is not what was written.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> Error {
        self.doubt();
        Error::damaged(self.name(), what)
    }

    /// Reads a range whose length was compared with the object's.
    pub(crate) fn read_range(&self, range: std::ops::Range<u64>) -> Result<Vec<u8>, Error> {
        let refused = || Error::io("read", self.name(), std::io::ErrorKind::OutOfMemory.into());
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| refused())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| refused())?;
        bytes.resize(len, 0);
        self.read(range.start, &mut bytes)?;
        Ok(bytes)
    }
}
