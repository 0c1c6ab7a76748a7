//! Manifests: of which files a store's archive consists in the bucket, and who said so.
//!
//! A manifest is two lines: a JSON object, and what that hashes to. A publisher that creates number n+1 has read number n, and names its hash.

use std::fmt;

use asat_archive::FileId;
use asat_core::StoreName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::encryption::Envelope;
use crate::layout::{self, FORMAT};

/// No manifest is longer: it is read whole, and a hostile length must not fill the memory.
pub(crate) const MOST_BYTES: usize = 4 << 20;
/// No file is as long as this: no sum of places in it is too large for a number.
const TOO_LONG: u64 = 1 << 56;
/// What stands in the place of a manifest that was pruned. Its number is never free again.
pub(crate) const PRUNED: &[u8] = b"pruned\n";

/// Who publishes a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine's name.
    pub host: String,
    /// The process, which is another one after each start: no two write the same manifest.
    pub process: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name that somebody else has written must not do anything to a terminal.
        let host = self.host.chars().filter(|c| !c.is_control()).take(255);
        f.write_str(&host.collect::<String>())
    }
}

/// A file of the archive in the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteFile {
    /// Its number in the archive.
    pub file: u64,
    /// The epoch in which it was stored, which is part of its key.
    pub epoch: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What the first 128 bytes of its footer hash to, as 64 hexadecimal digits.
    pub hash: String,
    /// What it begins with in the bucket, if it is encrypted there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Envelope>,
}

impl RemoteFile {
    pub(crate) fn new(epoch: u64, id: &FileId) -> Self {
        Self { file: id.number, epoch, bytes: id.bytes, hash: layout::hex(&id.hash), age: None }
    }

    /// What file it is.
    #[must_use]
    pub fn id(&self) -> FileId {
        // A manifest with another hash is not read.
        FileId {
            number: self.file,
            bytes: self.bytes,
            hash: layout::from_hex(&self.hash).unwrap_or_default(),
        }
    }

    /// Its key below the repository's place.
    #[must_use]
    pub fn key(&self, store: &StoreName) -> String {
        let digits = self.age.as_ref().map(|envelope| envelope.digits());
        layout::file(store, self.epoch, &self.id(), digits.as_deref())
    }

    /// How long its object is, in bytes.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.age.as_ref().map_or(self.bytes, |envelope| envelope.stored_bytes(self.bytes))
    }
}

/// What a store's archive is in the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of manifests.
    pub format: u64,
    /// The manifest's number: 1 for the first.
    pub number: u64,
    /// The hash of the manifest before; nothing for the first.
    pub previous: Option<String>,
    /// 1, and one more whenever another publisher has taken over, or a file is named again that was not named any more: keys of files have it.
    pub epoch: u64,
    /// Who publishes the store, and has written this.
    pub holder: Holder,
    /// When, by that machine's clock. Nothing depends on it.
    pub written_at: Timestamp,
    /// The store.
    pub store: StoreName,
    /// How many versions can be read.
    pub versions: u64,
    /// The highest number of these.
    pub newest: Option<u64>,
    /// The files, in the order of their numbers. The last one is the archive's newest.
    pub files: Vec<RemoteFile>,
}

impl Manifest {
    /// As it is stored, and its hash.
    pub(crate) fn encode(&self) -> (Vec<u8>, String) {
        // A structure of numbers and strings has no value that JSON does not have.
        let json = serde_json::to_string(self).unwrap_or_default();
        let hash = layout::hash(json.as_bytes());
        (format!("{json}\n{hash}\n").into_bytes(), hash)
    }

    /// Reads what is stored under this number; answers the hash too.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn decode(store: &StoreName, number: u64, bytes: &[u8]) -> Result<(Self, String), Unreadable> {
        let damaged = |what: &str| Unreadable::Damaged(what.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
        let lines = text.strip_suffix('\n').and_then(|text| text.split_once('\n'));
        let (json, hash) = lines.ok_or_else(|| damaged("it does not have two lines"))?;
        if layout::hash(json.as_bytes()) != hash {
            return Err(damaged("its first line does not have the hash in its second"));
        }
        let malformed = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
        let value: serde_json::Value = serde_json::from_str(json).map_err(malformed)?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(FORMAT) => {}
            Some(found) => return Err(Unreadable::Format(found)),
            None => return Err(damaged("it says no format")),
        }
        let manifest: Self = serde_json::from_value(value).map_err(malformed)?;
        let Self { files, epoch, .. } = &manifest;
        let fits = |file: &RemoteFile| {
            let is_readable = file.age.as_ref().is_none_or(|envelope| envelope.fits());
            layout::from_hex(&file.hash).is_some()
                && file.bytes < TOO_LONG
                && file.file > 0
                && (1..=*epoch).contains(&file.epoch)
                && is_readable
        };
        let holds = manifest.number == number
            && manifest.store == *store
            && manifest.previous.is_some() == (number > 1)
            && files.is_sorted_by(|one, next| one.file < next.file)
            && files.iter().all(fits);
        if holds { Ok((manifest, hash.to_owned())) } else { Err(damaged("what it says contradicts itself")) }
    }

    /// Its key below the repository's place.
    #[must_use]
    pub fn key(&self) -> String {
        layout::manifest(&self.store, self.number)
    }

    /// The file under a number.
    pub(crate) fn file(&self, number: u64) -> Option<&RemoteFile> {
        let place = self.files.binary_search_by_key(&number, |file| file.file).ok()?;
        self.files.get(place)
    }

    /// The archive's newest file.
    pub(crate) fn newest_file(&self) -> u64 {
        self.files.last().map_or(0, |file| file.file)
    }

    /// How long all files are together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.stored_bytes()))
    }
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is not what was written.
    Damaged(String),
    /// It is of another format.
    Format(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let file =
            |file| RemoteFile { file, epoch: 2, bytes: 900 + file, hash: layout::hash(&[1]), age: None };
        Manifest {
            format: FORMAT,
            number: 8,
            previous: Some(layout::hash(&[7])),
            epoch: 2,
            holder: Holder { host: "reports".to_owned(), process: "p".to_owned() },
            written_at: Timestamp::UNIX_EPOCH,
            store: "report".parse().unwrap(),
            versions: 3,
            newest: Some(5),
            files: vec![file(3), file(9)],
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_is_written() {
        let (bytes, hash) = manifest().encode();
        assert_eq!(Manifest::decode(&manifest().store, 8, &bytes), Ok((manifest(), hash)));
        assert!(Manifest::decode(&manifest().store, 9, &bytes).is_err(), "another number");
        assert!(Manifest::decode(&"other".parse().unwrap(), 8, &bytes).is_err(), "another store");
        assert!(Manifest::decode(&manifest().store, 8, PRUNED).is_err());
    }

    #[test]
    fn no_flipped_bit_and_no_cut_is_taken_for_a_manifest() {
        let (bytes, _) = manifest().encode();
        for at in 0..bytes.len() {
            assert!(Manifest::decode(&manifest().store, 8, &bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(Manifest::decode(&manifest().store, 8, &flipped).is_err(), "bit {bit} of {at}");
            }
        }
    }

    #[test]
    fn what_contradicts_itself_is_damaged_and_another_format_is_said() {
        let contradictions: [fn(&mut Manifest); 7] = [
            |manifest| manifest.files[0].bytes = 1 << 56,
            |manifest| manifest.files.reverse(),
            |manifest| manifest.files[0].hash.truncate(62),
            |manifest| manifest.files[0].epoch = 3,
            |manifest| manifest.files[0].file = 0,
            |manifest| manifest.files[1].file = 3,
            |manifest| manifest.previous = None,
        ];
        for contradict in contradictions {
            let mut wrong = manifest();
            contradict(&mut wrong);
            let read = Manifest::decode(&wrong.store, 8, &wrong.encode().0);
            assert!(matches!(read, Err(Unreadable::Damaged(_))), "{wrong:?}");
        }
        let newer = Manifest { format: 2, ..manifest() };
        assert_eq!(Manifest::decode(&newer.store, 8, &newer.encode().0), Err(Unreadable::Format(2)));
    }
}
