//! Whether the bucket has what its manifests name.

use std::collections::BTreeMap;

use asat_archive::Checker;

use crate::error::Error;
use crate::layout;
use crate::manifest::RemoteFile;
use crate::repository::History;

/// How much is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Whether each file is there, with its length: one listing.
    Listed,
    /// The same, and every so many per cent of the files are read; each time others, in turn.
    Sample(u8),
    /// Every byte is read.
    Read,
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its key.
    pub key: String,
    /// What is wrong, as a sentence without its subject.
    pub what: String,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The newest manifest's number.
    pub manifest: u64,
    /// How many files it names.
    pub files: usize,
    /// How many of them were read.
    pub read: usize,
    /// How many bytes these had.
    pub bytes: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Verifies the newest manifest of a store, and what it names.
///
/// # Errors
/// If there is no manifest that can be read; what the service answers.
pub fn verify(history: &History, depth: Depth) -> Result<Report, Error> {
    let manifest = history.newest()?.ok_or_else(|| history.missing(1))?;
    let there = history.bucket.list_all(&layout::files(&history.store))?;
    let there: BTreeMap<String, u64> = there.into_iter().map(|entry| (entry.key, entry.bytes)).collect();
    let mut report = Report { manifest: manifest.number, files: manifest.files.len(), ..Report::default() };
    // Each time others are read, whatever has happened since the last time.
    let turn = uuid::Uuid::new_v4().as_u128();
    for (place, file) in manifest.files.iter().enumerate() {
        let key = file.key(&history.store);
        let listed = there.get(&key).copied();
        // A listing may be old.
        let bytes = match listed.filter(|bytes| *bytes == file.stored_bytes()) {
            None => history.bucket.look(&key)?.map(|entry| entry.bytes),
            listed => listed,
        };
        let found = match bytes {
            None => Err("it is missing".to_owned()),
            Some(bytes) if bytes != file.stored_bytes() => {
                Err(format!("it has {bytes} bytes, and {} were stored", file.stored_bytes()))
            }
            Some(_) if depth.reads(place, turn) => {
                report.read += 1;
                report.bytes += file.bytes;
                read(history, file)?
            }
            Some(_) => Ok(()),
        };
        report.findings.extend(found.err().map(|what| Finding { key, what }));
    }
    Ok(report)
}

impl Depth {
    /// Whether the file at this place of the manifest is read.
    fn reads(self, place: usize, turn: u128) -> bool {
        match self {
            Self::Listed => false,
            Self::Read => true,
            Self::Sample(percent) => {
                let hash = blake3::hash(
                    [u128::try_from(place).unwrap_or(0), turn].map(u128::to_le_bytes).as_flattened(),
                );
                hash.as_bytes()
                    .first_chunk()
                    .is_some_and(|bytes| u32::from_le_bytes(*bytes) % 100 < u32::from(percent))
            }
        }
    }
}

/// Reads a file, and says what is wrong with it.
fn read(history: &History, file: &RemoteFile) -> Result<Result<(), String>, Error> {
    let mut checker = Checker::new(file.id());
    // Its length is as it should be, as far as a listing knows.
    let read = history.read_file(file, &mut |piece| {
        checker.update(piece);
        Ok(())
    });
    Ok(match read {
        Ok(true) => checker.check(),
        Ok(false) => Err("it is missing".to_owned()),
        Err(Error::Damaged { what, .. }) => Err(what),
        Err(error) => return Err(error),
    })
}
