//! What the tests share: contents, and a plain model to compare the archive with.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, missing_docs, unreachable_pub)]

pub mod camera;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use asat_archive::{Archive, Compacted, Cut, Error, Fingerprinter, Kept, Rebuild, Report};
use asat_core::{PageSize, Problem};

/// A version's content: the page size and the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub page_size: u32,
    pub pages: Vec<Vec<u8>>,
}

pub type Model = BTreeMap<u64, Content>;

impl Content {
    pub fn new(page_size: u32, seeds: impl IntoIterator<Item = u64>) -> Self {
        let pages = seeds.into_iter().map(|seed| page(page_size, seed)).collect();
        Self { page_size, pages }
    }

    pub fn page_size(&self) -> PageSize {
        PageSize::new(self.page_size).unwrap()
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.pages.len()).unwrap()
    }

    /// Changes a few bytes of a page.
    pub fn edit(&mut self, nth: usize, offset: usize, value: u8) {
        for byte in self.pages[nth].iter_mut().skip(offset).take(9) {
            *byte = byte.wrapping_add(value).rotate_left(1);
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.pages.concat()
    }
}

/// A page that no other seed gives: every third cannot be compressed, every seventh is the lock-byte page's
/// zeros but for the seed.
pub fn page(page_size: u32, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes: Vec<u8> = (0..page_size)
        .map(|nth| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match seed {
                _ if seed.is_multiple_of(7) => 0,
                _ if seed.is_multiple_of(3) => state.to_le_bytes()[3],
                _ => (nth / 16).to_le_bytes()[0] ^ seed.to_le_bytes()[0],
            }
        })
        .collect();
    if seed > 0 {
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
    }
    bytes
}

/// A page like those of a table: rows that have much in common with those of other pages.
pub fn rows(seed: u64) -> Vec<u8> {
    let name = |row: u64| (row.pow(3) % 9973 % 200).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let row = |row: u64| format!("{row},account {:016x},EUR|", name(row));
    (seed * 100..).flat_map(|nth| row(nth).into_bytes()).take(4096).collect()
}

/// Versions of so many pages that their merged segment has a dictionary. Each changes nearly all.
pub fn with_dictionary(folder: &Path) -> Model {
    let archive = open(folder);
    let mut model = Model::new();
    for number in 1..=8 {
        let pages =
            (0..130).map(|nth| if nth < 125 { rows(130 * number + nth) } else { rows(nth) }).collect();
        let content = Content { page_size: 4096, pages };
        write(&archive, number, &content).unwrap();
        model.insert(number, content);
    }
    // So few pages that there are enough segments to be merged.
    let mut content = model[&8].clone();
    for number in 9..=11 {
        content.edit(129, 10, 77);
        write(&archive, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    compact(&archive);
    model
}

pub fn open(folder: &Path) -> Archive {
    Archive::open(folder).unwrap().0
}

pub fn cut() -> Cut {
    Cut {
        store: "report".parse().unwrap(),
        cut_at: "2026-11-19T17:00:03.123456Z".parse().unwrap(),
        wal: true,
        note: serde_json::json!({ "label": "close" }),
        even_if_unchanged: false,
    }
}

pub fn write(archive: &Archive, number: u64, content: &Content) -> Result<Kept, Error> {
    let mut writer = archive.begin(number, content.page_size(), content.count())?;
    for (number, page) in (1..).zip(&content.pages) {
        writer.page(number, page)?;
    }
    writer.finish(cut())
}

/// Writes a live version anew.
pub fn rebuild(
    archive: &Archive,
    number: u64,
    read: impl FnOnce(&mut Rebuild) -> Result<(), Problem>,
) -> Result<Option<PathBuf>, Problem> {
    archive.put_back(archive.describe(number)?, true, read)
}

pub fn read(archive: &Archive, number: u64) -> Result<Vec<u8>, Error> {
    let reader = archive.read(number)?;
    let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
    reader.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// How many cases are tried: so many, unless `PROPTEST_CASES` says otherwise.
pub fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|asked| asked.parse().ok()).unwrap_or(usual)
}

/// A pace that stops nothing.
pub fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Compacts without a pause.
pub fn compact(archive: &Archive) -> Compacted {
    archive.compact(&mut go_on).unwrap()
}

pub fn verify(archive: &Archive, number: Option<u64>) -> Report {
    archive.verify(number, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

/// The archive shows exactly what the model holds.
pub fn assert_contents(archive: &Archive, model: &Model) {
    assert_eq!(archive.live(), model.keys().copied().collect::<Vec<_>>());
    for (&number, content) in model {
        assert_eq!(read(archive, number).unwrap(), content.bytes(), "version {number}");
    }
}

/// The archive holds exactly what the model holds.
pub fn assert_holds(archive: &Archive, model: &Model) {
    assert_eq!(archive.live(), model.keys().copied().collect::<Vec<_>>());
    for (&number, content) in model {
        assert_eq!(read(archive, number).unwrap(), content.bytes(), "version {number}");
        let meta = archive.describe(number).unwrap();
        let mut fingerprinter = Fingerprinter::new(content.page_size(), content.count());
        content.pages.iter().for_each(|page| _ = fingerprinter.page(page));
        assert_eq!((meta.number, meta.fingerprint), (number, fingerprinter.finish()));
        assert_eq!(archive.read(number).unwrap().len(), content.bytes().len() as u64);
    }
    let others =
        model.iter().zip(model.iter().skip(1)).chain(model.iter().next().zip(model.iter().next_back()));
    for (older, newer) in others.filter(|((_, older), (_, newer))| older.page_size == newer.page_size) {
        assert_names_what_differs(archive, older, newer);
    }
    let report = verify(archive, None);
    assert_eq!((report.findings, report.versions), (vec![], model.len()));
    // Besides segments there are two files at most, with manifests.
    let on_disk: u64 = files(archive.folder()).iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert!(archive.bytes() <= on_disk, "{on_disk}");
}

/// Pages that are not named as differing between two versions are the same in both, whichever is asked.
fn assert_names_what_differs(archive: &Archive, older: (&u64, &Content), newer: (&u64, &Content)) {
    let [one, other] = [older.0, newer.0].map(|number| archive.read(*number).unwrap());
    let named = other.differing_from(&one).unwrap();
    assert_eq!(named, one.differing_from(&other).unwrap());
    assert!(named.is_sorted_by(|page, next| page < next), "{named:?}");
    assert!(named.last().is_none_or(|last| *last <= older.1.count().min(newer.1.count())), "{named:?}");
    for (number, (before, after)) in (1..).zip(older.1.pages.iter().zip(&newer.1.pages)) {
        let what = format!("page {number} of versions {} and {}", older.0, newer.0);
        assert!(before == after || named.contains(&number), "{what}");
    }
}

/// Everything in a folder.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

pub fn put_files(folder: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// A folder of the test's own, in memory where the machine has such a place: the tests sync a great deal.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Whether a file is not the newest one, and that does not name it. It is there in case that the newest is damaged.
pub fn is_spare(name: &str, files: &[(String, Vec<u8>)]) -> bool {
    let (newest, bytes) = &files[files.len() - 1];
    let number: u64 = name.strip_suffix(".segment").unwrap().parse().unwrap();
    name != newest && !String::from_utf8_lossy(bytes).contains(&format!("\"file\":{number},"))
}
