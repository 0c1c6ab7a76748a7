//! What tells whether a snapshot contains the state that was to be kept.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::store::error::Error;
use crate::store::signature::{SECONDS, TICKS};
use crate::store::transaction::Transaction;

/// How many bytes at the start of the file are compared: those of SQLite's header.
const HEADER: usize = 100;
/// Where the header has the journal mode, and what it is in the rollback modes.
const MODE: std::ops::Range<usize> = 18..20;
const ROLLBACK: [u8; 2] = [1, 1];

/// What the store's file was like, to be found again in a snapshot of its volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    inode: u64,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    /// The file alone is the state. A write moves at least one of its times; and nobody can set the second one.
    File {
        length: u64,
        modified: Instant,
        changed: Instant,
        #[serde(with = "digits")]
        header: [u8; HEADER],
    },
    /// The state is in the file and in this many frames of the WAL. Checkpoints may write the file.
    WithLog { page_size: u32, frames: u32 },
}

/// A time of a file: seconds and nanoseconds.
type Instant = (i64, i64);

impl Witness {
    /// Looks at the file that is read, which nobody can write meanwhile.
    pub(super) fn of_file(reader: &Transaction) -> Result<Self, Error> {
        let failed = |error: rusqlite::Error| Error::from_sqlite("read", &reader.file.path, &error);
        let sql = "SELECT data FROM sqlite_dbpage WHERE pgno = 1";
        let page: Vec<u8> = reader.connection().query_row(sql, [], |row| row.get(0)).map_err(failed)?;
        let header = page.first_chunk().copied().unwrap_or([0; HEADER]);
        Ok(Self::new(&reader.file.metadata()?, header))
    }

    /// The state is in this many frames of the WAL too.
    pub(super) fn with_log(reader: &Transaction, frames: u32) -> Result<Self, Error> {
        let page_size = reader.content.page_size.bytes();
        Ok(Self { inode: reader.file.metadata()?.ino(), kind: Kind::WithLog { page_size, frames } })
    }

    fn new(metadata: &Metadata, header: [u8; HEADER]) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let kind = Kind::File { length: metadata.len(), modified, changed, header };
        Self { inode: metadata.ino(), kind }
    }

    /// The witness in one word, which is to be found again later, and in a snapshot that may have been set to rollback mode since.
    #[must_use]
    pub fn written(&self) -> String {
        let inode = self.inode;
        match &self.kind {
            Kind::File { length, modified, changed, header } => {
                let mut header = *header;
                header[MODE].copy_from_slice(&ROLLBACK);
                let digits = in_digits(&header);
                let [modified, changed] =
                    [modified, changed].map(|(seconds, nanoseconds)| format!("{seconds}.{nanoseconds}"));
                format!("file/{inode}/{length}/{modified}/{changed}/{digits}")
            }
            Kind::WithLog { page_size, frames } => format!("log/{inode}/{page_size}/{frames}"),
        }
    }

    /// Reads a word of [`Self::written`]; nothing where it is none.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        let parts: Vec<&str> = word.split('/').collect();
        let (inode, kind) = match *parts.as_slice() {
            ["file", inode, length, modified, changed, header] => {
                let length = length.parse().ok()?;
                let (modified, changed) = (instant(modified)?, instant(changed)?);
                (inode, Kind::File { length, modified, changed, header: bytes(header)? })
            }
            ["log", inode, page_size, frames] => {
                (inode, Kind::WithLog { page_size: page_size.parse().ok()?, frames: frames.parse().ok()? })
            }
            _ => return None,
        };
        let witness = Self { inode: inode.parse().ok()?, kind };
        // What it says has one spelling.
        (witness.written() == word).then_some(witness)
    }

    /// Whether the header is that of a file in a rollback mode. Whoever sets the file in a snapshot to that changes those bytes
    /// alone, and none of its times.
    fn says_rollback(&self) -> bool {
        matches!(&self.kind, Kind::File { header, .. } if header[MODE] == ROLLBACK)
    }

    /// Whether the state is in the WAL too.
    pub(in crate::store) fn with_wal(&self) -> bool {
        matches!(self.kind, Kind::WithLog { .. })
    }

    /// How long it takes until a write moves the file's times for certain; nothing where they lie in the future, so that
    /// this cannot be said.
    pub(super) fn unsettled(&self) -> Option<Duration> {
        let Kind::File { changed: (seconds, nanoseconds), .. } = self.kind else { return None };
        let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let grain = if nanoseconds == 0 { SECONDS } else { TICKS };
        Some(grain.saturating_sub(now.checked_sub(changed)?))
    }

    /// What tells the file in the mounted snapshot from the state, in words; nothing where it is exactly that. If there is
    /// something, somebody wrote to the store, or touched its file, before the snapshot was taken.
    ///
    /// # Errors
    /// Where the snapshot cannot be read.
    pub fn difference(&self, file_in_snapshot: &Path) -> Result<Option<String>, Error> {
        let failed = |source| Error::from_io("read", file_in_snapshot, source);
        // No locks are lost by closing this: nobody uses the snapshot's file through SQLite yet.
        let file = match File::open(file_in_snapshot) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some("the file is not there".to_owned()));
            }
            file => file.map_err(failed)?,
        };
        let metadata = file.metadata().map_err(failed)?;
        self.compare(&metadata, &file, file_in_snapshot)
    }

    /// The same for a clone: `source` is what the store's file was like just after it was cloned.
    ///
    /// # Errors
    /// Where the clone cannot be read.
    pub fn difference_of_clone(&self, source: &Metadata, clone: &Path) -> Result<Option<String>, Error> {
        // The clone is another file than the store, and has none of its locks.
        let file = File::open(clone).map_err(|source| Error::from_io("read", clone, source))?;
        self.compare(source, &file, clone)
    }

    /// What tells a file from the state; `metadata` is that of the store's file, or of what is its file in a snapshot.
    fn compare(&self, metadata: &Metadata, file: &File, path: &Path) -> Result<Option<String>, Error> {
        let failed = |source| Error::from_io("read", path, source);
        if self.inode != metadata.ino() {
            return Ok(Some("it is another file".to_owned()));
        }
        match self.kind {
            Kind::File { .. } if metadata.len() < HEADER as u64 => Ok(Some("it has no header".to_owned())),
            Kind::File { .. } => {
                let mut header = [0; HEADER];
                file.read_exact_at(&mut header, 0).map_err(failed)?;
                if self.says_rollback() {
                    header[MODE].copy_from_slice(&ROLLBACK);
                }
                let there = Self::new(metadata, header);
                let differs =
                    || there.kind.against(&self.kind).unwrap_or_else(|| "the header differs".to_owned());
                Ok((*self != there).then(differs))
            }
            Kind::WithLog { page_size, frames } => {
                let mut wal = path.as_os_str().to_owned();
                wal.push("-wal");
                let same = ends_after(Path::new(&wal), page_size, frames)?;
                Ok((!same).then(|| format!("the WAL does not end with frame {frames}")))
            }
        }
    }
}

impl Kind {
    /// What differs between a file and this one, in words.
    fn against(&self, meant: &Self) -> Option<String> {
        let parts = [self.parts(), meant.parts()];
        let [found, meant] = parts;
        let differing = found.into_iter().zip(meant).filter(|(found, meant)| found != meant);
        let told: Vec<String> =
            differing.map(|(found, meant)| format!("{found} instead of {meant}")).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// What is compared, each part in words.
    fn parts(&self) -> Vec<String> {
        let Self::File { length, modified, changed, header } = self else { return Vec::new() };
        let at = |(seconds, nanoseconds): &Instant| format!("at {seconds}.{nanoseconds:09}");
        // The file change counter: <https://www.sqlite.org/fileformat.html#file_change_counter>.
        let counter =
            header.get(24..28).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
        vec![
            format!("{length} bytes"),
            format!("modified {}", at(modified)),
            format!("changed {}", at(changed)),
            format!("header {counter}"),
        ]
    }
}

/// A file's time as it is written.
fn instant(text: &str) -> Option<Instant> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    Some((seconds.parse().ok()?, nanoseconds.parse().ok()?))
}

/// A header as it is written, in hexadecimal digits.
/// The header's bytes as a text, where a witness is told to another process.
mod digits {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::{HEADER, bytes, in_digits};

    pub(super) fn serialize<S: Serializer>(header: &[u8; HEADER], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&in_digits(header))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<[u8; HEADER], D::Error> {
        bytes(&String::deserialize(from)?).ok_or_else(|| D::Error::custom("not the bytes of a header"))
    }
}

fn in_digits(header: &[u8; HEADER]) -> String {
    header.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<[u8; HEADER]> {
    let pairs =
        digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// Whether the WAL's last committed frame is that of this number. A writer that died between its last frame and the
/// wal-index leaves more than that: a commit that nobody has seen, and that the next writer overwrites.
fn ends_after(wal: &Path, page_size: u32, frames: u32) -> Result<bool, Error> {
    let failed = |source| Error::from_io("read", wal, source);
    let file = match File::open(wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(failed)?,
    };
    let length = file.metadata().map_err(failed)?.len();
    let mut start = [0; 32];
    if length < 32 {
        return Ok(false);
    }
    file.read_exact_at(&mut start, 0).map_err(failed)?;
    let salts = start.get(16..24);
    // In a frame's head: the page's number, the size of the database after a commit or zero, and the WAL's salts.
    let commits = |number: u64| {
        let mut head = [0; 24];
        file.read_exact_at(&mut head, 32 + (number - 1) * (u64::from(page_size) + 24)).map_err(failed)?;
        Ok(head.get(8..16) == salts && head.get(4..8) != Some(&[0; 4]))
    };
    let whole = (length - 32) / (u64::from(page_size) + 24);
    let frames = u64::from(frames);
    if frames == 0 || frames > whole || !commits(frames)? {
        return Ok(false);
    }
    for number in frames + 1..=whole {
        if commits(number)? {
            return Ok(false);
        }
    }
    Ok(true)
}
