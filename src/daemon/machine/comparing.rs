//! Versions of which the rows are read and compared, out of the archive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use asat_archive::Reader;
use asat_core::{Code, PageSize, Problem, VersionId};
use asat_rows::{Pages, SourceError};

use super::Machine;

/// The pages of a version, as its rows are read from them. Every page is checked.
pub struct VersionPages {
    id: VersionId,
    reader: Reader,
    /// Ends the reading.
    given_up: Arc<AtomicBool>,
}

impl Machine {
    /// Opens the pages of an archived version. As soon as `given_up` is true, no more of them is read.
    ///
    /// # Errors
    /// If it is not in the archive, or cannot be read.
    pub fn pages(&self, id: &VersionId, given_up: &Arc<AtomicBool>) -> Result<VersionPages, Problem> {
        let reader = self.read_archived(id)?;
        Ok(VersionPages { id: id.clone(), reader, given_up: Arc::clone(given_up) })
    }
}

impl VersionPages {
    /// The version.
    #[must_use]
    pub fn id(&self) -> &VersionId {
        &self.id
    }

    /// The pages that may differ from those of another version: all of them if that is one of another store.
    ///
    /// # Errors
    /// If what the archive knows of its pages is damaged.
    pub fn differing_from(&self, other: &Self) -> Result<Vec<u32>, Problem> {
        if self.id.store == other.id.store {
            return Ok(self.reader.differing_from(&other.reader)?);
        }
        Ok((1..=self.page_count().min(other.page_count())).collect())
    }

    /// The version at which a page became what it is.
    ///
    /// # Errors
    /// If what the archive knows of its pages is damaged.
    pub fn since(&self, page: u32) -> Result<u64, Problem> {
        Ok(self.reader.since(page)?)
    }
}

impl Pages for VersionPages {
    fn page_size(&self) -> PageSize {
        self.reader.meta().page_size
    }

    fn page_count(&self) -> u32 {
        self.reader.meta().page_count
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), SourceError> {
        if self.given_up.load(Ordering::Relaxed) {
            let hint = "ask again";
            return Err(Problem::new(Code::Stopping, "nobody waits for the answer any more", hint).into());
        }
        Ok(self.reader.read_page(number, page)?)
    }
}
