//! What a clone says of its version.

use std::fs::File;
use std::io::{self, Read as _};

use asat_core::VersionId;
use jiff::Timestamp;

use super::{Error, Folder};
use crate::store::Told;

/// The file beside a clone that says what is known of its version, in lines.
pub(super) const TOLD: &str = "told";
/// More than such a file has.
const MOST_TOLD: u64 = 64 << 10;

impl Folder {
    /// What a version's clone says of it, in lines; nothing of one that was not made to last.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn told(&self, id: &VersionId) -> Result<Option<String>, Error> {
        let path = self.of(id).join(TOLD);
        let mut text = String::new();
        match File::open(&path).and_then(|file| file.take(MOST_TOLD).read_to_string(&mut text)) {
            Ok(_) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Whether what a version's clone says of it is of an earlier instant. One that was not made to last says nothing.
    pub(super) fn is_older(&self, id: &VersionId, at: Timestamp) -> Result<bool, Error> {
        let said = self.told(id)?.and_then(|text| Told::cut_at(text.lines()));
        Ok(said.is_some_and(|cut_at| cut_at < at))
    }
}
