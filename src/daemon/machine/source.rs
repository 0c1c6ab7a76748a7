//! Where a version's pages can be read: in the archive, or until they are there in its snapshot.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;

use asat_archive::{Fingerprinter, Reader};
use asat_core::event::Copied;
use asat_core::{Code, Fingerprint, PageSize, Problem, VersionId};
use asat_host::store::PageSink;

use super::snapshots::SnapshotVersion;
use super::{Machine, lock};
use crate::daemon::progress::Meter;

/// The bytes of a version, to read at any place.
pub enum VersionBytes {
    /// Out of the archive, every page checked.
    Archive(Box<Reader>),
    /// In the mounted snapshot.
    Snapshot(File),
}

impl VersionBytes {
    /// Fills a buffer with the bytes from one place on.
    ///
    /// # Errors
    /// Where they are damaged, or cannot be read any more.
    pub fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<(), Problem> {
        match self {
            Self::Archive(reader) => {
                reader.read_at(at, buffer)?;
                reader.look_ahead();
                Ok(())
            }
            Self::Snapshot(file) => file.read_exact_at(buffer, at).map_err(|error| {
                let detail = format!("the version cannot be read in its snapshot: {error}");
                Problem::new(Code::Internal, detail, "look at the snapshot's volume, then try again")
            }),
        }
    }
}

/// Where a version's pages can be read.
enum Source {
    Archive(Box<Reader>),
    Snapshot(Box<SnapshotVersion>),
}

impl Machine {
    /// The archive where the version is in it, since it checks every page; else the snapshot.
    fn source(&self, id: &VersionId) -> Result<Source, Problem> {
        let archive = self.archives.of(&id.store)?;
        if !archive.contains(id.number)
            && let Ok(hot) = self.hot(id)
        {
            return Ok(Source::Snapshot(Box::new(hot)));
        }
        Ok(Source::Archive(Box::new(self.archives.read(id)?)))
    }

    /// The bytes of a version, as its copy has them.
    ///
    /// # Errors
    /// Where it cannot be read, or not yet.
    pub fn bytes(&self, id: &VersionId) -> Result<VersionBytes, Problem> {
        let hot = match self.source(id)? {
            Source::Archive(reader) => return Ok(VersionBytes::Archive(reader)),
            Source::Snapshot(hot) => hot,
        };
        let file = self.file_in_snapshot(id, &hot.snapshot)?;
        self.check_whole(id, &hot.snapshot)?;
        if hot.snapshot.with_wal || !is_in_rollback_mode(&file)? {
            let detail =
                format!("{id} is on its way into the archive, and its file needs its WAL until it is there");
            return Err(Problem::new(Code::InUse, detail, "try again in a moment, or open it"));
        }
        Ok(VersionBytes::Snapshot(File::open(&file).map_err(|error| failed("open", &file, &error))?))
    }

    /// Writes a version into an empty file.
    pub(super) fn write_out(&self, id: &VersionId, file: &File, path: &Path) -> Result<(), Problem> {
        let mut meter = Meter::new(id.to_string(), "copy", "bytes", |progress| self.tell(progress));
        match self.source(id)? {
            Source::Archive(reader) => {
                meter.expect(reader.len());
                let meter = Mutex::new(meter);
                let told = |done| lock(&meter).reach(done);
                Ok(reader.write_to_file(file, path, &told)?)
            }
            Source::Snapshot(hot) => {
                meter.expect(hot.content.size_bytes());
                let mut told = |done| meter.reach(done);
                let mut sink = Writing { file, path, done: 0, told: &mut told };
                self.read_hot(id, &hot, &mut sink)
            }
        }
    }

    /// The fingerprint of a version's content.
    pub(super) fn fingerprint(&self, id: &VersionId) -> Result<Option<Fingerprint>, Problem> {
        match self.source(id)? {
            Source::Archive(reader) => Ok(Some(reader.meta().fingerprint)),
            Source::Snapshot(hot) => {
                let mut sink = Fingerprinting::default();
                self.read_hot(id, &hot, &mut sink)?;
                Ok(sink.finish())
            }
        }
    }

    /// Hands out the pages of a version that is in its snapshot.
    pub(super) fn read_hot(
        &self,
        id: &VersionId,
        hot: &SnapshotVersion,
        sink: &mut dyn PageSink,
    ) -> Result<(), Problem> {
        let file = self.file_in_snapshot(id, &hot.snapshot)?;
        let read = self.workers.read_frozen(&file, hot.snapshot.with_wal, &self.stopping, sink);
        // What was read of a snapshot that is full by now may be anything, and that is why it could not be read.
        self.check_whole(id, &hot.snapshot)?;
        Ok(read.map(drop).map_err(|failed| failed.error)?)
    }

    /// Has an intact as-at copy: the file in the mounted snapshot where that is wanted and can be had, or else one in
    /// the cache.
    pub(super) fn make_copy(&self, id: &VersionId, in_snapshot: bool) -> Result<Copied, Problem> {
        if in_snapshot && let Ok(hot) = self.hot(id) {
            match self.show(id, &hot) {
                Ok(Some(copied)) => return Ok(copied),
                Ok(None) => {}
                // The snapshot may be full, or gone; what is in the archive needs none.
                Err(problem) if self.archives.of(&id.store)?.contains(id.number) => {
                    tracing::warn!(version = %id, "{id}: read from the archive, not in its snapshot: {problem}");
                }
                Err(problem) => return Err(problem),
            }
        }
        let path = self.copies.path(id);
        let bytes = match self.source(id)? {
            Source::Archive(reader) => reader.len(),
            Source::Snapshot(hot) => hot.content.size_bytes(),
        };
        let bytes = self.copies.make(id, bytes, |file| self.write_out(id, file, &path))?;
        Ok(Copied { bytes, in_snapshot: false })
    }

    /// Shows the file in the mounted snapshot to readers, where it can be read without anything beside it.
    fn show(&self, id: &VersionId, hot: &SnapshotVersion) -> Result<Option<Copied>, Problem> {
        if hot.snapshot.with_wal || !hot.snapshot.can_be_shown() {
            return Ok(None);
        }
        let file = self.file_in_snapshot(id, &hot.snapshot)?;
        self.check_whole(id, &hot.snapshot)?;
        if !is_in_rollback_mode(&file)? {
            return Ok(None);
        }
        self.backends.of(&hot.snapshot.origin).show(id, &hot.snapshot)?;
        Ok(Some(Copied { bytes: hot.content.size_bytes(), in_snapshot: true }))
    }
}

/// Whether stock clients can open the file without a WAL beside it.
fn is_in_rollback_mode(file: &Path) -> Result<bool, Problem> {
    let mut header = [0; 20];
    let read = File::open(file).and_then(|file| file.read_exact_at(&mut header, 0));
    read.map_err(|error| failed("read", file, &error))?;
    Ok(header.get(18..) == Some(&[1, 1]))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Problem {
    let code =
        if error.kind() == std::io::ErrorKind::StorageFull { Code::StorageFull } else { Code::Internal };
    Problem::new(code, format!("cannot {what} {}: {error}", path.display()), "look at the kernel's log")
}

/// Writes pages into a file.
struct Writing<'a> {
    file: &'a File,
    path: &'a Path,
    done: u64,
    told: &'a mut dyn FnMut(u64),
}

impl PageSink for Writing<'_> {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        Ok(())
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        let mut file = self.file;
        file.write_all(page).map_err(|error| failed("write", self.path, &error))?;
        self.done += page.len() as u64;
        (self.told)(self.done);
        Ok(())
    }
}

/// Takes the fingerprint of a content.
#[derive(Default)]
pub(super) struct Fingerprinting(Option<Fingerprinter>);

impl Fingerprinting {
    pub(super) fn finish(&self) -> Option<Fingerprint> {
        self.0.as_ref().map(Fingerprinter::finish)
    }
}

impl PageSink for Fingerprinting {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        self.0 = Some(Fingerprinter::new(page_size, page_count));
        Ok(())
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        if let Some(fingerprinter) = &mut self.0 {
            fingerprinter.page(page);
        }
        Ok(())
    }
}
