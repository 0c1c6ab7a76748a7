//! What files take on the disk: blocks that several of them share count once.

use std::fs::{self, DirEntry, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use asat_core::Problem;
use asat_host::fiemap;

use crate::failed;

/// What is kept below a folder takes so many bytes more than the store alone. What is kept may be inside the folder of the store, and the
/// store's own files lie there directly.
pub(super) fn kept_bytes(kept: &Path, store_folder: &Path) -> Result<u64, Problem> {
    let (mut all, mut of_store) = (Blocks::default(), Blocks::default());
    all.add_below(kept)?;
    for entry in entries(store_folder)? {
        of_store.add(&entry)?;
    }
    let shared: u64 = all.shared.iter().map(|range| range.end - range.start).sum();
    let with_store = covered([&all.shared[..], &of_store.shared].concat());
    Ok(all.bytes.saturating_sub(shared) + with_store.saturating_sub(covered(of_store.shared)))
}

/// What some files take.
#[derive(Debug, Default)]
struct Blocks {
    /// As each of them says for itself.
    bytes: u64,
    /// The bytes of the disk that are other files' too.
    shared: Vec<Range<u64>>,
}

impl Blocks {
    fn add_below(&mut self, folder: &Path) -> Result<(), Problem> {
        for entry in entries(folder)? {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.add_below(&entry.path())?;
            } else {
                self.add(&entry)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, entry: &DirEntry) -> Result<(), Problem> {
        let path = entry.path();
        let cannot = |error| failed(&format!("look at {}", path.display()), error);
        let metadata = entry.metadata().map_err(cannot)?;
        if metadata.is_file() {
            self.bytes += metadata.blocks() * 512;
            let shared = File::open(&path).and_then(|file| Ok(fiemap::shared(&file)?));
            self.shared.extend(shared.map_err(cannot)?);
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>, Problem> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect);
    entries.map_err(|error| failed(&format!("look at {}", folder.display()), error))
}

/// How many bytes lie in one of these ranges at least.
fn covered(mut ranges: Vec<Range<u64>>) -> u64 {
    ranges.sort_by_key(|range| range.start);
    let mut end = 0;
    let mut bytes = 0;
    for range in ranges {
        bytes += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_lie_in_several_ranges_count_once() {
        assert_eq!(covered(vec![]), 0);
        assert_eq!(covered(vec![5..9, 0..2, 1..3, 6..7, 9..10]), 8);
        assert_eq!(covered(vec![0..10, 2..3, 4..12]), 12);
    }

    #[test]
    fn files_that_share_nothing_take_what_they_take() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, store) = (folder.path().join("store/kept/1"), folder.path().join("store"));
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("a"), [7; 10_000]).unwrap();
        fs::write(kept.join("../b"), [7; 5_000]).unwrap();
        fs::write(store.join("report.db"), [7; 50_000]).unwrap();
        let bytes = kept_bytes(&store.join("kept"), &store).unwrap();
        assert!((15_000..50_000).contains(&bytes), "{bytes}");
        assert!(kept_bytes(&store.join("missing"), &store).is_err());
    }
}
