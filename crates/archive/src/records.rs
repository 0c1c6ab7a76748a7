//! What is recorded of a store beside its versions: texts under keys, whose meaning the archive does not know.
//!
//! Each change is a file with what has changed. It takes in what the files before it say if they are not much longer, so there are few, and
//! each text is written again only a few times as often as all of them become twice as long.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use asat_core::boundary;
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::builder::Sealed;
use crate::error::{Error, unless_refused};
use crate::fingerprint::hash;
use crate::layout::{HEADER_LEN, len_of};
use crate::lock::lock;
use crate::objects::{Object, Objects};
use crate::segment::Ends;
use crate::state::State;

/// Files up to this length are taken into the next one in any case.
const SHORT_BYTES: u64 = 64 << 10;
/// Longer ones if they are not more than so many times as long as what comes after them: a reader of a bucket asks for each file.
const FACTOR: u64 = 4;
/// All that is recorded is no longer: a hostile length must not fill the memory.
pub(crate) const MOST_BYTES: u64 = 128 << 20;
/// They are alike, so a low level makes them nearly as short as a high one, and they may be many.
const LEVEL: i32 = 3;

/// Texts by their keys. A key without a text is deleted.
pub type Changes = BTreeMap<String, Option<String>>;

/// A file with records, as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordsRef {
    /// The number of the file.
    pub(crate) file: u64,
    /// How long the records in it are. They follow its header.
    pub(crate) bytes: u64,
    /// The first bytes of what they hash to.
    pub(crate) identity: u64,
}

impl Archive {
    /// What is recorded.
    ///
    /// # Errors
    /// If a file with records is lost or damaged; or if the machine refuses.
    pub fn records(&self) -> Result<BTreeMap<String, String>, Error> {
        let archive = &*self.inner;
        loop {
            let state = archive.state();
            match state.read_records() {
                // It may have been deleted because another state has followed.
                Err(error) if error.is_loss() && !Arc::ptr_eq(&state, &archive.state()) => {}
                read => return read.map(without_deleted),
            }
        }
    }

    /// What is recorded in those files that can be read.
    ///
    /// # Errors
    /// If the machine refuses.
    pub fn readable_records(&self) -> Result<BTreeMap<String, String>, Error> {
        let state = self.inner.state();
        let (mut all, mut left) = (Changes::new(), MOST_BYTES);
        for records in &state.manifest.records {
            all.extend(unless_refused(records.read(&*state.objects, &mut left))?.unwrap_or_default());
        }
        Ok(without_deleted(all))
    }

    /// The number of the newest file with records; 0 if there is none. It changes whenever what is recorded does.
    #[must_use]
    pub fn newest_records(&self) -> u64 {
        self.inner.state().manifest.records.last().map_or(0, |records| records.file)
    }

    /// Whether the file of this number has records.
    #[must_use]
    pub fn is_of_records(&self, file: u64) -> bool {
        self.inner.state().manifest.records.iter().any(|records| records.file == file)
    }

    /// Records changes. When this returns, they are durable.
    ///
    /// # Errors
    /// If the machine refuses, or the disk is full. They are recorded then, or nothing is.
    pub fn record(&self, changes: Changes) -> Result<(), Error> {
        if changes.is_empty() { Ok(()) } else { self.write_records(changes, false) }
    }

    /// Records these values, and nothing else: what was recorded before is forgotten, even if it cannot be read.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn record_anew(&self, values: BTreeMap<String, String>) -> Result<(), Error> {
        self.write_records(values.into_iter().map(|(key, value)| (key, Some(value))).collect(), true)
    }

    fn write_records(&self, changes: Changes, is_all: bool) -> Result<(), Error> {
        let archive = &*self.inner;
        let _alone = lock(&archive.recording);
        boundary::step("archive: record");
        let state = archive.state();
        let mut kept = if is_all { 0 } else { state.manifest.records.len() };
        let mut all = changes;
        if !is_all {
            let (first, mut before) = state.take_in_records(&all)?;
            before.append(&mut all);
            (kept, all) = (first, before);
        }
        if kept == 0 {
            // There is nothing left that a deletion could be about.
            all.retain(|_, value| value.is_some());
        }
        let sealed = match all.is_empty() {
            true => Sealed::empty(&*archive.objects)?,
            false => Sealed::records(&*archive.objects, &encode(&all)?)?,
        };
        let written = sealed.written_records();
        let committed = archive.commit(sealed, |_, manifest| {
            manifest.records.truncate(kept);
            let file = manifest.number;
            manifest.records.extend(written.map(|(bytes, identity)| RecordsRef { file, bytes, identity }));
            true
        });
        committed.map(drop)
    }
}

impl State {
    /// What the files with records say; the newest text of each key.
    fn read_records(&self) -> Result<Changes, Error> {
        let (mut all, mut left) = (Changes::new(), MOST_BYTES);
        for records in &self.manifest.records {
            all.extend(records.read(&*self.objects, &mut left)?);
        }
        Ok(all)
    }

    /// What the last files say, as long as each can be read and is not more than four times as long as what comes after it, and which one is the
    /// first of these. So each file that stays is much longer than all after it together, and there are few.
    fn take_in_records(&self, changes: &Changes) -> Result<(usize, Changes), Error> {
        let (mut bytes, mut left) = (len_of(&encode(changes)?), MOST_BYTES);
        let (mut first, mut taken) = (self.manifest.records.len(), Changes::new());
        for records in self.manifest.records.iter().rev() {
            if records.bytes > SHORT_BYTES.max(bytes.saturating_mul(FACTOR)) {
                break;
            }
            let Ok(mut before) = unless_refused(records.read(&*self.objects, &mut left))? else { break };
            bytes = bytes.saturating_add(records.bytes);
            before.append(&mut taken);
            (first, taken) = (first - 1, before);
        }
        Ok((first, taken))
    }
}

impl RecordsRef {
    /// Reads what the file says, if it is no longer than what is left to read; that is less by so much then.
    pub(crate) fn read(&self, objects: &dyn Objects, left: &mut u64) -> Result<Changes, Error> {
        let object = objects.open(self.file)?;
        let written = self.written(&*object)?;
        let decoded = decode(&written, *left);
        let (changes, bytes) =
            decoded.map_err(|what| object.damaged(format!("its records cannot be read: {what}")))?;
        *left = left.saturating_sub(bytes);
        Ok(changes)
    }

    /// Whether what the file says is what was written.
    pub(crate) fn check(&self, objects: &dyn Objects) -> Result<(), Error> {
        self.read(objects, &mut MOST_BYTES.clone()).map(drop)
    }

    /// Whether a file that is open is this one.
    pub(crate) fn is(&self, ends: &Ends) -> Result<bool, Error> {
        Ok(unless_refused(self.written(ends.object()))?.is_ok())
    }

    /// The records as they are written.
    fn written(&self, object: &(dyn Object + 'static)) -> Result<Vec<u8>, Error> {
        let end = HEADER_LEN.saturating_add(self.bytes);
        if end > object.len() || self.bytes > MOST_BYTES {
            return Err(object.damaged(format!("it has no {} bytes of records", self.bytes)));
        }
        let written = object.read_range(HEADER_LEN..end)?;
        if identity(&written) == self.identity {
            Ok(written)
        } else {
            Err(object.damaged("its records do not match their checksum"))
        }
    }
}

/// The texts of the keys that are not deleted.
fn without_deleted(all: Changes) -> BTreeMap<String, String> {
    all.into_iter().filter_map(|(key, text)| Some((key, text?))).collect()
}

/// What tells records from others of the same length.
pub(crate) fn identity(written: &[u8]) -> u64 {
    hash(written).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

pub(crate) fn encode(changes: &Changes) -> Result<Vec<u8>, Error> {
    let unfit = |what: String| Error::Misuse(format!("records that cannot be written: {what}"));
    let json = serde_json::to_vec(changes).map_err(|error| unfit(error.to_string()))?;
    if len_of(&json) > MOST_BYTES {
        return Err(unfit(format!("they take {} bytes, above {MOST_BYTES}", json.len())));
    }
    zstd::bulk::compress(&json, LEVEL).map_err(|error| unfit(error.to_string()))
}

/// Reads records of so many bytes at most, and answers how many they are.
pub(crate) fn decode(written: &[u8], most: u64) -> Result<(Changes, u64), String> {
    let decoder = zstd::stream::read::Decoder::new(written).map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    decoder.take(most + 1).read_to_end(&mut json).map_err(|error| error.to_string())?;
    let bytes = len_of(&json);
    if bytes > most {
        return Err(format!("all together are longer than {MOST_BYTES} bytes"));
    }
    Ok((serde_json::from_slice(&json).map_err(|error| error.to_string())?, bytes))
}
