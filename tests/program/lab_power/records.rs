//! What was acknowledged, written down where a power cut cannot take it back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};

/// How much of the disk one record takes.
const RECORD: usize = 512;

/// The records, one after another on a disk without a file system. A record is on the disk when the call returns: what
/// was acknowledged may be missing in it if the power went just then, and nothing is in it that was not.
pub struct Records {
    disk: File,
    all: Mutex<Vec<Value>>,
}

/// What the records say of the versions.
#[derive(Default)]
pub struct Promised {
    /// The acknowledged versions, and between which transactions the last one in them lies.
    pub versions: BTreeMap<String, RangeInclusive<u64>>,
    /// Those that somebody asked to have retired.
    pub retiring: BTreeSet<String>,
    /// Those of which that was acknowledged.
    pub retired: BTreeSet<String>,
}

impl Records {
    pub fn open(disk: &Path) -> Self {
        let synchronous = i32::try_from(rustix::fs::OFlags::SYNC.bits()).unwrap();
        let disk = OpenOptions::new().read(true).write(true).custom_flags(synchronous).open(disk).unwrap();
        let mut all = Vec::new();
        let mut bytes = [0; RECORD];
        while let Ok(()) = disk.read_exact_at(&mut bytes, (all.len() * RECORD) as u64)
            && bytes[0] != 0
        {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap();
            all.push(serde_json::from_slice(&bytes[..end]).unwrap());
        }
        Self { disk, all: Mutex::new(all) }
    }

    fn add(&self, record: Value) {
        let mut all = self.all.lock().unwrap();
        let mut bytes = record.to_string().into_bytes();
        bytes.truncate(RECORD - 1);
        bytes.resize(RECORD, 0);
        self.disk.write_all_at(&bytes, (all.len() * RECORD) as u64).unwrap();
        all.push(record);
    }

    pub fn published(&self, version: &str, since: u64, until: u64) {
        self.add(json!({ "published": version, "since": since, "until": until }));
    }

    pub fn retiring(&self, version: &str) {
        self.add(json!({ "retiring": version }));
    }

    pub fn retired(&self, version: &str) {
        self.add(json!({ "retired": version }));
    }

    /// A version that was looked at, and is as it must be.
    pub fn audited(&self, version: &str) {
        self.add(json!({ "audited": version }));
    }

    /// Something that must not happen, and that the end of this boot would hide.
    pub fn trouble(&self, what: &str) {
        let what: String = what.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(380).collect();
        self.add(json!({ "trouble": what }));
    }

    /// Something to tell at the end.
    pub fn note(&self, what: &str) {
        self.add(json!({ "note": what }));
    }

    pub fn texts(&self, key: &str) -> Vec<String> {
        let all = self.all.lock().unwrap();
        all.iter().filter_map(|record| record[key].as_str().map(str::to_owned)).collect()
    }

    pub fn promised(&self) -> Promised {
        let all = self.all.lock().unwrap();
        let number = |record: &Value, key: &str| record[key].as_u64().unwrap();
        let range = |record: &Value| number(record, "since")..=number(record, "until");
        let name = |record: &Value| record["published"].as_str().map(str::to_owned);
        let versions = all.iter().filter_map(|record| Some((name(record)?, range(record)))).collect();
        drop(all);
        let set = |key| self.texts(key).into_iter().collect();
        Promised { versions, retiring: set("retiring"), retired: set("retired") }
    }
}
