//! Which commit is the newest that was acknowledged, in a small file beside the catalogue, `catalogue.db-newest`.
//!
//! A log that ends too early is whole as far as SQLite can tell: what a power cut tears looks the same. This file tells the two apart.
//! It is written after the log was synced, and before anybody hears of the commit, so it never names one that a sound disk may have
//! lost. It is not synced itself, which would cost as much as the commit: a daemon that is killed leaves it as it was written,
//! and after a power cut it may name an older commit, which is checked as far as that goes.
//!
//! It has two places that are written by turns, so that where one is torn the other says which commit was before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::create::beside;
use crate::error::Error;
use crate::seal::{self, Seal};

/// What its name adds to that of the catalogue.
pub(crate) const SUFFIX: &str = "-newest";
/// A disk writes so many bytes whole or not at all.
const PLACE: usize = 512;

/// The file, to be written.
#[derive(Debug)]
pub(crate) struct Newest {
    file: File,
    path: PathBuf,
}

impl Newest {
    /// Begins a file that names this commit, in place of what is there, unless that does.
    pub(crate) fn begin(catalogue: &Path, seal: &Seal) -> Result<Self, Error> {
        let names_it = read(catalogue)?.as_ref() == Some(seal);
        let path = beside(catalogue, SUFFIX);
        let begun = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let begun = begun.and_then(|file| {
            if !names_it {
                file.write_all_at(&written(seal), 0)?;
            }
            file.sync_all()?;
            Ok(file)
        });
        let file = begun.map_err(|source| Error::io("write", &path, source))?;
        Ok(Self { file, path })
    }

    /// Names a commit that is durable.
    pub(crate) fn name(&self, seal: &Seal) -> Result<(), Error> {
        let at = if seal.number.is_multiple_of(2) { 0 } else { PLACE };
        let written = self.file.write_all_at(&place(seal), at as u64);
        written.map_err(|source| Error::io("write", &self.path, source))
    }
}

/// Removes the file beside a catalogue that is to have another name.
pub(crate) fn forget(catalogue: &Path) -> Result<(), Error> {
    let path = beside(catalogue, SUFFIX);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &path, source)),
        _ => Ok(()),
    }
}

/// The newest commit that was acknowledged, as far as the file beside a catalogue can tell.
pub(crate) fn read(catalogue: &Path) -> Result<Option<Seal>, Error> {
    let path = beside(catalogue, SUFFIX);
    let mut bytes = Vec::with_capacity(2 * PLACE);
    let read = File::open(&path).and_then(|file| file.take(2 * PLACE as u64).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| Error::io("read", &path, source))?,
    };
    Ok(newest_of(&bytes))
}

/// The newest commit that the file's bytes name.
pub(crate) fn newest_of(bytes: &[u8]) -> Option<Seal> {
    bytes.chunks(PLACE).filter_map(parse).max_by_key(|seal| seal.number)
}

/// The file that names this commit alone.
pub(crate) fn written(seal: &Seal) -> Vec<u8> {
    [place(seal), place(seal)].concat()
}

/// Refuses a catalogue that ends before what was acknowledged. One of another line was put there in its place.
pub(crate) fn check(found: &Seal, acknowledged: Option<&Seal>, path: &Path) -> Result<(), Error> {
    let Some(acknowledged) = acknowledged.filter(|acknowledged| acknowledged.line == found.line) else {
        return Ok(());
    };
    if found.number < acknowledged.number {
        let what = format!(
            "it ends with commit {}, and commit {} was acknowledged: its log (-wal) is damaged or gone, or an older file was put in \
             its place",
            found.number, acknowledged.number
        );
        return Err(Error::damaged(path, what));
    }
    if found.number == acknowledged.number && found.sum != acknowledged.sum {
        let what = format!("commit {} is not the one that was acknowledged", found.number);
        return Err(Error::damaged(path, what));
    }
    Ok(())
}

fn said_of(seal: &Seal) -> String {
    format!("{} {} {}", seal.line, seal.number, seal::text(seal.sum))
}

/// A commit as it is written: one line, with a hash of it at its end.
fn place(seal: &Seal) -> Vec<u8> {
    let said = said_of(seal);
    let mut line = format!("{said} {}", hash(&said)).into_bytes();
    line.resize(PLACE - 1, b' ');
    line.push(b'\n');
    line
}

fn parse(place: &[u8]) -> Option<Seal> {
    let (said, hashed) = std::str::from_utf8(place).ok()?.strip_suffix('\n')?.trim_end().rsplit_once(' ')?;
    let mut words = said.split(' ');
    let (line, number, sum) = (words.next()?, words.next()?, words.next()?);
    let seal = Seal {
        line: line.to_owned(),
        number: number.parse().ok()?,
        sum: u128::from_str_radix(sum, 16).ok()?,
    };
    // What it says has one spelling.
    (said_of(&seal) == said && matches(said, hashed)).then_some(seal)
}

/// Whether a line matches the hash at its end. All do where this is fed with anything: it is the one thing that no change of a few
/// bytes gets behind.
fn matches(said: &str, hashed: &str) -> bool {
    let hash = hash(said);
    hash == hashed || cfg!(fuzzing) && hash.len() == hashed.len()
}

fn hash(said: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(said.as_bytes()).into();
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
