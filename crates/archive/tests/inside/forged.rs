//! Files with sound checksums that no archive writes.

use std::path::Path;
use std::sync::Arc;

use asat_core::PageSize;

use super::common::{Content, cut, folder, open, read};
use crate::builder::Builder;
use crate::codec::Encoder;
use crate::fingerprint::Fingerprinter;
use crate::folder::Folder;
use crate::index::VersionRef;
use crate::manifest::{Cut, Description, Manifest, Meta};
use crate::objects::Objects;

/// A version each of whose pages lies in a band of its own.
fn in_bands(folder: &Path, content: &Content) {
    let objects: Arc<dyn Objects> = Arc::new(Folder::open(folder).unwrap().0);
    let page_size = PageSize::new(512).unwrap();
    let mut builder = Builder::new(&objects, page_size, 1).unwrap();
    let mut encoder = Encoder::new(512, None).unwrap();
    let mut fingerprinter = Fingerprinter::new(page_size, content.count());
    for (number, page) in (1..).zip(&content.pages) {
        builder.begin_band();
        builder.add_whole((number, 1), page, &mut encoder).unwrap();
        fingerprinter.page(page);
    }
    let Cut { store, cut_at, wal, note, .. } = cut();
    let (number, page_count, fingerprint) = (1, content.count(), fingerprinter.finish());
    let meta = Meta { store, number, page_size, page_count, fingerprint, wal, cut_at, note };
    let version = VersionRef { number, page_count, bytes: 0, is_whole: true, stands_alone: true };
    let sealed = builder.seal(vec![(version, Description::of(&meta).unwrap())]).unwrap();
    let mut manifest = Manifest { number: 1, ..Manifest::default() };
    manifest.insert(sealed.segment(1).unwrap());
    sealed.publish(&manifest).unwrap();
}

/// Each block would be looked for in sixty thousand bands: it took seconds to read one page.
#[test]
fn more_bands_than_a_segment_has_are_damage() {
    for (count, is_sound) in [(2, true), (8, true), (9, false), (60_000, false)] {
        let (folder, content) = (folder(), Content::new(512, 1..=count));
        in_bands(folder.path(), &content);
        let archive = open(folder.path());
        match read(&archive, 1) {
            Ok(bytes) => assert!(is_sound && bytes == content.bytes(), "{count} bands"),
            Err(error) => {
                let is_named = error.to_string().contains("its directory is malformed");
                assert!(!is_sound && error.is_loss() && is_named, "{count} bands: {error}");
                assert_eq!(archive.unread().len(), 1);
            }
        }
    }
}
