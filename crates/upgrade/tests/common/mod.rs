//! What the tests share: archives that the program wrote when its format was the fourth, and what they held.
//!
//! They were written by random histories: versions with pages that are new, changed a little, or what they were in an earlier version, of
//! several page sizes, more and fewer; versions given up; and what was left of these merged, or not.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, missing_docs, unreachable_pub)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use asat_archive::fingerprint::Fingerprinter;
use asat_archive::{Archive, Meta};
use asat_core::{Problem, StoreName};
use asat_upgrade::{Outcome, Wanted};

/// Everything below a folder: paths and bytes, and folders without any.
pub type Image = BTreeMap<String, Option<Vec<u8>>>;

/// A folder with one archive, of a store called report.
pub struct Root {
    pub folder: tempfile::TempDir,
    /// What the archive held when it was written.
    pub versions: Vec<Meta>,
}

impl Root {
    /// A copy of one of the archives.
    pub fn with(name: &str) -> Self {
        Self::within(name, tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    /// The same on a certain disk.
    pub fn on(name: &str, disk: &Path) -> Self {
        Self::within(name, tempfile::tempdir_in(disk).unwrap())
    }

    fn within(name: &str, folder: tempfile::TempDir) -> Self {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-4");
        fs::create_dir(folder.path().join("report")).unwrap();
        let lines = fs::read_to_string(kept.join(format!("{name}.jsonl"))).unwrap();
        let meta = |line: &str| {
            let mut fields: serde_json::Value = serde_json::from_str(line).unwrap();
            fields["store"] = "report".into();
            serde_json::from_value(fields).unwrap()
        };
        let root = Self { folder, versions: lines.lines().map(meta).collect() };
        for file in fs::read_dir(kept.join(name)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), root.archive().join(file.file_name())).unwrap();
        }
        root
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn archive(&self) -> PathBuf {
        self.path().join("report")
    }

    pub fn aside(&self) -> PathBuf {
        self.path().join(".report.upgrade")
    }

    pub fn upgrade(&self) -> Result<Outcome, Problem> {
        upgrade(self.path(), false)
    }

    /// The file with a version's pages.
    pub fn file_of(&self, number: u64) -> PathBuf {
        let ends = [format!("-{number}.pack"), format!("/{number}.pack")];
        let mut files = fs::read_dir(self.archive()).unwrap().map(|file| file.unwrap().path());
        files.find(|path| ends.iter().any(|end| path.to_str().unwrap().ends_with(end))).unwrap()
    }
}

pub fn store() -> StoreName {
    "report".parse().unwrap()
}

pub fn upgrade(root: &Path, leave_damaged: bool) -> Result<Outcome, Problem> {
    asat_upgrade::upgrade(root, &store(), &Wanted { leave_damaged, ..Wanted::default() }, &|_| {})
}

/// An archive of today's format holds these versions and no others, all that was said of them, and their pages.
pub fn assert_holds(folder: &Path, versions: &[Meta]) {
    let (archive, opened) = Archive::open(folder).unwrap();
    assert!(opened.foreign.is_empty(), "{opened:?}");
    assert_eq!(archive.live(), versions.iter().map(|meta| meta.number).collect::<Vec<_>>());
    for meta in versions {
        assert_eq!(&archive.describe(meta.number).unwrap(), meta);
        let reader = archive.read(meta.number).unwrap();
        let mut fingerprinter = Fingerprinter::new(meta.page_size, meta.page_count);
        let mut page = vec![0; meta.page_size.as_usize()];
        for number in 1..=meta.page_count {
            reader.read_page(number, &mut page).unwrap();
            fingerprinter.page(&page);
        }
        assert_eq!(fingerprinter.finish(), meta.fingerprint, "version {}", meta.number);
    }
    let report = archive.verify(None, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.findings, report.versions), (vec![], versions.len()));
}

pub fn image_of(root: &Path) -> Image {
    let mut image = Image::new();
    for folder in fs::read_dir(root).unwrap().map(|folder| folder.unwrap()) {
        let name = folder.file_name().into_string().unwrap();
        for file in fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()) {
            let path = format!("{name}/{}", file.file_name().into_string().unwrap());
            image.insert(path, Some(fs::read(file.path()).unwrap()));
        }
        image.insert(name, None);
    }
    image
}

/// Makes a folder what an image says.
pub fn put(root: &Path, image: &Image) {
    for (path, bytes) in image {
        match bytes {
            None => fs::create_dir_all(root.join(path)).unwrap(),
            Some(bytes) => fs::write(root.join(path), bytes).unwrap(),
        }
    }
}

pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
