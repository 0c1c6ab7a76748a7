//! A reader of archives that knows `docs/archive-format.md` and nothing else: it shares no line with the library, so where
//! both agree, the document is enough to get at what is kept.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Content, Model, compact, files, open, page, write};
use proptest::prelude::*;
use serde_json::Value;
use zstd::zstd_safe::DCtx;

/// A layer, as far as its file says.
struct Layer {
    is_live: bool,
    meta: Value,
    file: Vec<u8>,
    /// By page: where its frame begins and ends, or how many numbers before it is to be found, how it is encoded, and its hash.
    entries: BTreeMap<u32, (usize, usize, u8, [u8; 32])>,
}

/// Takes a little-endian number of these bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn leb128(bytes: &[u8], at: &mut usize) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

impl Layer {
    fn read(name: &str, file: Vec<u8>) -> (u64, Self) {
        let (range, kind) = name.split_once('.').unwrap();
        let highest = range.rsplit('-').next().unwrap().parse().unwrap();
        let footer = file.len() - 180;
        let field = |offset, len| number(&file, footer + offset, len);
        let sum = |offset| blake3::Hash::from_slice(&file[footer + offset..][..32]).unwrap();
        let size = |offset| usize::try_from(field(offset, 8)).unwrap();
        let (index, index_len, meta_len) = (size(0), size(8), size(16));
        let (meta, version) = (index + index_len, number(&file, 8, 4));
        assert_eq!((&file[..8], &file[footer + 172..]), (&b"asatpack"[..], &b"asat-end"[..]));
        assert!(version == 4 && field(168, 4) == version);
        assert_eq!((size(24), meta + meta_len), (file.len(), footer));
        assert_eq!(sum(40), blake3::hash(&file[index..meta]), "the index");
        assert_eq!(sum(72), blake3::hash(&file[meta..footer]), "the metadata");
        assert_eq!(sum(104), blake3::hash(&file[..footer]), "all before the footer");
        assert_eq!(sum(136), blake3::hash(&file[footer..footer + 136]), "the footer");
        let (mut at, mut page, mut frame, mut entries) = (index, 0, 12, BTreeMap::new());
        while at < meta {
            page += u32::try_from(leb128(&file, &mut at)).unwrap();
            let coded = leb128(&file, &mut at);
            let (value, encoding) = (coded / 4, u8::try_from(coded % 4).unwrap());
            // A page of an earlier version has no bytes here: the number says how far back that is.
            let (begin, end) = if encoding == 3 { (value, frame) } else { (frame, frame + value) };
            entries.insert(page, (begin, end, encoding, *file[at..].first_chunk().unwrap()));
            (at, frame) = (at + 32, end);
        }
        assert_eq!((entries.len(), frame), (size(32), index));
        let meta = serde_json::from_slice(&file[meta..footer]).unwrap();
        (highest, Self { is_live: kind == "pack", meta, file, entries })
    }
}

/// The bytes of a page of a version, and the hash that the newest layer with it has.
fn find(layers: &BTreeMap<u64, Layer>, version: u64, page: u32, page_size: usize) -> (Vec<u8>, [u8; 32]) {
    let (mut differences, mut hash, mut at) = (Vec::new(), None, version);
    let mut found = loop {
        let layer = &layers[&at];
        let mut next = layer.meta["parent"].as_u64();
        if let Some(&(begin, end, encoding, of_it)) = layer.entries.get(&page) {
            hash = hash.or(Some(of_it));
            match encoding {
                0 => break layer.file[begin..end].to_vec(),
                1 => break zstd::bulk::decompress(&layer.file[begin..end], page_size).unwrap(),
                2 => differences.push(&layer.file[begin..end]),
                3 => next = Some(at - begin as u64),
                other => panic!("encoding {other}"),
            }
        }
        let next = next.unwrap_or_else(|| panic!("page {page} is nowhere"));
        at = *layers.range(..=next).next_back().unwrap().0;
    };
    for difference in differences.into_iter().rev() {
        let mut page = vec![0; page_size];
        let len = DCtx::create().decompress_using_dict(&mut page[..], difference, &found).unwrap();
        assert_eq!(len, page_size);
        found = page;
    }
    (found, hash.unwrap())
}

/// All live versions in a folder.
fn read(folder: &Path) -> Model {
    let layers: BTreeMap<u64, Layer> =
        files(folder).into_iter().map(|(name, bytes)| Layer::read(&name, bytes)).collect();
    let live = layers.iter().filter(|(_, layer)| layer.is_live);
    live.map(|(&version, Layer { meta, .. })| {
        let field = |name: &str| u32::try_from(meta[name].as_u64().unwrap()).unwrap();
        let (page_size, page_count) = (field("page_size"), field("page_count"));
        let mut hashed = [page_size.to_le_bytes(), page_count.to_le_bytes()].concat();
        let pages = (1..=page_count).map(|page| {
            let (bytes, hash) = find(&layers, version, page, page_size as usize);
            assert_eq!(hash, *blake3::hash(&bytes).as_bytes(), "page {page} of version {version}");
            hashed.extend(hash);
            bytes
        });
        let content = Content { page_size, pages: pages.collect() };
        let fingerprint = format!("blake3:{}", blake3::hash(&hashed));
        assert_eq!(meta["fingerprint"], fingerprint, "version {version}");
        (version, content)
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Versions that change a little or much, grow and shrink, have pages again that earlier ones had, and of which some are
    /// given up and folded.
    #[test]
    fn every_live_version_is_found_by_the_book(
        versions in prop::collection::vec(
            (prop::collection::vec((0..20_usize, 0..500_usize, any::<u8>()), 0..8), 1..20_usize, 0..60_u64, any::<bool>()),
            1..40,
        ),
        compacted in any::<bool>(),
    ) {
        let folder = common::folder();
        let archive = open(folder.path());
        let (mut content, mut model, mut given_up) = (Content::new(512, 1..9), Model::new(), Vec::new());
        for (number, (edits, len, back, kept)) in (1..).zip(versions) {
            for (nth, offset, value) in edits {
                let nth = nth % content.pages.len();
                content.edit(nth, offset, value);
            }
            if let Some(earlier) = model.get(&back) {
                let earlier: &Content = earlier;
                content.pages.iter_mut().zip(&earlier.pages).step_by(2).for_each(|(page, was)| page.clone_from(was));
            }
            content.pages.truncate(len.max(2));
            content.pages.push(page(512, 100 + number));
            write(&archive, number, &content).unwrap();
            model.insert(number, content.clone());
            if !kept {
                given_up.push(number);
            }
        }
        for number in given_up {
            archive.retire(number).unwrap();
            model.remove(&number);
        }
        if compacted {
            compact(&archive);
        }
        prop_assert_eq!(read(folder.path()), model);
    }
}
