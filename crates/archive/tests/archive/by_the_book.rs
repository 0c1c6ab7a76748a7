//! A reader of archives that knows `docs/archive-format.md` and nothing else: it shares no line with the library, so if both agree,
//! the document is enough to get at what is kept. And the document's example, which is made here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::common::{self, Content, Model, cases, compact, files, go_on, open, page, verify, write};
use asat_archive::{Contents, check};
use proptest::prelude::*;
use serde_json::Value;
use zstd::zstd_safe::DCtx;

/// A file of an archive, as its header and its footer say where its parts are.
struct File {
    number: u64,
    bytes: Vec<u8>,
}

/// What an entry says: from a version on a page is this.
#[derive(Clone, Copy)]
struct Entry {
    encoding: u64,
    base: u64,
    frame: (usize, usize),
    check: [u8; 8],
}

/// A version in a directory.
struct Version {
    page_count: u32,
    is_whole: bool,
    stands_alone: bool,
}

/// A segment, decoded whole.
struct Segment {
    file: u64,
    bytes: Vec<u8>,
    page_size: usize,
    first: u64,
    last: u64,
    versions: BTreeMap<u64, Version>,
    entries: BTreeMap<(u32, u64), Entry>,
    descriptions: Vec<Value>,
    dictionary: Option<(usize, usize)>,
}

/// Takes a little-endian number of these bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn take(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn take_check(bytes: &[u8], at: &mut usize) -> [u8; 8] {
    *at += 8;
    bytes[*at - 8..*at].try_into().unwrap()
}

fn size(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

impl File {
    fn footer(&self) -> usize {
        self.bytes.len() - 172
    }

    /// Where the frames end, and where the directory and the manifest begin.
    fn parts(&self) -> [usize; 3] {
        [0, 8, 16].map(|at| size(number(&self.bytes, self.footer() + at, 8)))
    }

    fn hash(&self, at: usize) -> &[u8] {
        &self.bytes[self.footer() + at..][..32]
    }

    /// What the archive is according to this file.
    fn manifest(&self) -> Value {
        let (bytes, footer) = (&self.bytes, self.footer());
        assert_eq!((&bytes[..8], &bytes[footer + 164..]), (&b"asat-seg"[..], &b"asat-end"[..]));
        assert_eq!((number(bytes, 8, 4), number(bytes, footer + 160, 4)), (6, 6));
        assert_eq!(size(number(bytes, footer + 24, 8)), bytes.len());
        let [_, directory, manifest] = self.parts();
        assert_eq!(self.hash(128), blake3::hash(&bytes[footer..footer + 128]).as_bytes());
        assert_eq!(self.hash(96), blake3::hash(&bytes[..footer]).as_bytes());
        assert_eq!(self.hash(64), blake3::hash(&bytes[manifest..footer]).as_bytes());
        assert_eq!(self.hash(32), blake3::hash(&bytes[directory..manifest]).as_bytes());
        let manifest: Value = serde_json::from_slice(&bytes[manifest..footer]).unwrap();
        assert_eq!(manifest["number"], self.number);
        manifest
    }

    fn segment(self) -> Segment {
        let [frames_end, directory, manifest] = self.parts();
        let bytes = self.bytes;
        let mut at = directory;
        let page_size = size(take(&bytes, &mut at));
        let first = take(&bytes, &mut at);
        let last = first + take(&bytes, &mut at);
        let dictionary_len = size(take(&bytes, &mut at));
        let dictionary = frames_end..frames_end + dictionary_len;
        if dictionary_len > 0 {
            let check = take_check(&bytes, &mut at);
            assert_eq!(check, blake3::hash(&bytes[dictionary.clone()]).as_bytes()[..8]);
        }
        let (mut versions, mut version) = (BTreeMap::new(), 0);
        for _ in 0..take(&bytes, &mut at) {
            version += take(&bytes, &mut at);
            let coded = take(&bytes, &mut at);
            let _bytes_when_written = take(&bytes, &mut at);
            let page_count = u32::try_from(coded >> 2).unwrap();
            versions.insert(
                version,
                Version { page_count, is_whole: coded & 1 == 1, stands_alone: coded & 2 == 2 },
            );
        }
        let (mut entries, mut frame, mut place) = (BTreeMap::new(), 12, dictionary.end);
        for _ in 0..take(&bytes, &mut at) {
            let mut block = 0;
            for _ in 0..take(&bytes, &mut at) {
                block += take(&bytes, &mut at);
                let [count, len, frames_len] = [(); 3].map(|()| take(&bytes, &mut at));
                let end = place + size(len);
                assert_eq!(take_check(&bytes, &mut at), blake3::hash(&bytes[place..end]).as_bytes()[..8]);
                let (frames_end, mut before) = (frame + size(frames_len), None);
                let mut page = block * 256;
                for _ in 0..count {
                    let further = take(&bytes, &mut place);
                    page += further;
                    let version = match before {
                        Some(before) if further == 0 => before,
                        _ => first,
                    } + take(&bytes, &mut place);
                    let coded = take(&bytes, &mut place);
                    let encoding = coded & 3;
                    let base = if encoding == 2 { version - take(&bytes, &mut place) } else { 0 };
                    let end = frame + size(coded >> 2);
                    let check = take_check(&bytes, &mut place);
                    entries.insert(
                        (u32::try_from(page).unwrap(), version),
                        Entry { encoding, base, frame: (frame, end), check },
                    );
                    (frame, before) = (end, Some(version));
                }
                assert_eq!((place, frame), (end, frames_end));
            }
        }
        let mut descriptions = Vec::new();
        for _ in 0..take(&bytes, &mut at) {
            let end = place + size(take(&bytes, &mut at));
            assert_eq!(take_check(&bytes, &mut at), blake3::hash(&bytes[place..end]).as_bytes()[..8]);
            let together: Vec<Value> =
                serde_json::from_slice(&zstd::decode_all(&bytes[place..end]).unwrap()).unwrap();
            descriptions.extend(together);
            place = end;
        }
        assert_eq!(bytes[dictionary.clone()], bytes[place..place + dictionary_len]);
        place += dictionary_len;
        let dictionary = Some((dictionary.start, dictionary.end)).filter(|_| dictionary_len > 0);
        assert_eq!((frame, place, at), (frames_end, directory, manifest));
        assert!(
            descriptions
                .iter()
                .map(|description| description["number"].as_u64().unwrap())
                .eq(versions.keys().copied())
        );
        Segment {
            file: self.number,
            bytes,
            page_size,
            first,
            last,
            versions,
            entries,
            descriptions,
            dictionary,
        }
    }
}

/// The segments of the newest manifest, those with the higher numbers first, and what it does not show.
struct Archive {
    segments: Vec<Segment>,
    retired: Vec<(u64, u64)>,
    voided: Vec<(u64, u64)>,
}

impl Archive {
    fn read(folder: &Path) -> Self {
        let mut all: BTreeMap<u64, Vec<u8>> = files(folder)
            .into_iter()
            .map(|(name, bytes)| (name.strip_suffix(".segment").unwrap().parse().unwrap(), bytes))
            .collect();
        let Some((&number, bytes)) = all.iter().next_back() else {
            return Self { segments: Vec::new(), retired: Vec::new(), voided: Vec::new() };
        };
        let manifest = File { number, bytes: bytes.clone() }.manifest();
        let mut segments = Vec::new();
        for reference in manifest["segments"].as_array().unwrap() {
            let field = |name: &str| reference[name].as_u64().unwrap();
            let number = field("file");
            let file = File { number, bytes: all.remove(&number).unwrap() };
            assert_eq!(field("identity").to_le_bytes(), file.hash(32)[..8]);
            assert_eq!(size(field("bytes")), file.parts()[2]);
            let segment = file.segment();
            assert_eq!((field("first"), field("last")), (segment.first, segment.last));
            segments.push(segment);
        }
        segments.sort_by_key(|segment| std::cmp::Reverse(segment.file));
        let (mut retired, mut end) = (Vec::new(), 0);
        for pair in manifest["retired"].as_array().unwrap().chunks(2) {
            let [distance, count] = [0, 1].map(|nth| pair[nth].as_u64().unwrap());
            retired.push((end + distance, end + distance + count - 1));
            end += distance + count - 1;
        }
        let voided = serde_json::from_value(manifest["voided"].clone()).unwrap();
        Self { segments, retired, voided }
    }

    fn is_void(&self, version: u64) -> bool {
        self.voided.iter().any(|(first, last)| (*first..=*last).contains(&version))
    }

    fn is_retired(&self, version: u64) -> bool {
        self.retired.iter().any(|(first, last)| (*first..=*last).contains(&version))
    }

    fn live(&self) -> BTreeSet<u64> {
        let all = self.segments.iter().flat_map(|segment| segment.versions.keys().copied());
        all.filter(|version| !self.is_retired(*version) && !self.is_void(*version)).collect()
    }

    /// The segment that describes a version: that in the file with the highest number counts.
    fn described_in(&self, version: u64) -> &Segment {
        self.segments.iter().find(|segment| segment.versions.contains_key(&version)).unwrap()
    }

    /// The version itself if it is whole, or the newest up to it that stands alone.
    fn floor(&self, version: u64) -> u64 {
        if self.described_in(version).versions[&version].is_whole {
            return version;
        }
        let all = self.segments.iter().flat_map(|segment| segment.versions.range(..=version));
        let alone = all.filter(|(number, version)| version.stands_alone && !self.is_void(**number));
        alone.map(|(number, _)| *number).max().unwrap_or(0)
    }

    /// The entry of a page and version: that in the file with the highest number counts.
    fn entry(&self, page_size: usize, page: u32, version: u64) -> Option<(&Segment, Entry)> {
        let mut of_size = self.segments.iter().filter(|segment| segment.page_size == page_size);
        of_size.find_map(|segment| Some((segment, *segment.entries.get(&(page, version))?)))
    }

    /// What a page became at a version.
    fn page(&self, page_size: usize, page: u32, version: u64) -> Vec<u8> {
        let (segment, entry) = self.entry(page_size, page, version).unwrap();
        let frame = &segment.bytes[entry.frame.0..entry.frame.1];
        let bytes = match entry.encoding {
            0 => frame.to_vec(),
            1 => zstd::bulk::decompress(frame, page_size).unwrap(),
            2 if frame[0] == 0 => {
                let (mut bytes, mut at, mut end) = (self.page(page_size, page, entry.base), 1, 0);
                while at < frame.len() {
                    let start = end + size(take(frame, &mut at));
                    end = start + size(take(frame, &mut at));
                    bytes[start..end].copy_from_slice(&frame[at..at + end - start]);
                    at += end - start;
                }
                bytes
            }
            2 => {
                let (below, mut bytes) = (self.page(page_size, page, entry.base), vec![0; page_size]);
                let len = DCtx::create().decompress_using_dict(&mut bytes[..], frame, &below).unwrap();
                assert_eq!(len, page_size);
                bytes
            }
            3 => {
                let (from, to) = segment.dictionary.unwrap();
                let mut bytes = vec![0; page_size];
                let dictionary = &segment.bytes[from..to];
                let len = DCtx::create().decompress_using_dict(&mut bytes[..], frame, dictionary).unwrap();
                assert_eq!(len, page_size);
                bytes
            }
            other => panic!("encoding {other}"),
        };
        assert_eq!(blake3::hash(&bytes).as_bytes()[..8], entry.check, "page {page} at version {version}");
        bytes
    }

    fn version(&self, number: u64) -> Content {
        let segment = self.described_in(number);
        let (page_size, page_count) = (segment.page_size, segment.versions[&number].page_count);
        let seen = self.floor(number)..=number;
        let pages: Vec<Vec<u8>> = (1..=page_count)
            .map(|page| {
                let versions =
                    self.segments.iter().filter(|segment| segment.page_size == page_size).flat_map(
                        |segment| {
                            segment
                                .entries
                                .range((page, *seen.start())..=(page, *seen.end()))
                                .map(|((_, version), _)| *version)
                        },
                    );
                let since = versions.filter(|version| !self.is_void(*version)).max().unwrap();
                self.page(page_size, page, since)
            })
            .collect();
        let page_size = u32::try_from(page_size).unwrap();
        let mut hashed = [page_size.to_le_bytes(), page_count.to_le_bytes()].concat();
        pages.iter().for_each(|page| hashed.extend(blake3::hash(page).as_bytes()));
        let description =
            segment.descriptions.iter().find(|description| description["number"] == number).unwrap();
        assert_eq!(
            description["fingerprint"],
            format!("blake3:{}", blake3::hash(&hashed)),
            "version {number}"
        );
        assert_eq!(
            (description["page_size"].as_u64(), description["page_count"].as_u64()),
            (Some(page_size.into()), Some(page_count.into()))
        );
        Content { page_size, pages }
    }
}

/// All live versions in a folder.
fn read(folder: &Path) -> Model {
    let archive = Archive::read(folder);
    archive.live().into_iter().map(|number| (number, archive.version(number))).collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// Edit bytes of these pages, make others what they were in an earlier version, and have so many pages.
    Write(Vec<(usize, usize, u8)>, usize, usize),
    /// Have pages of another size.
    Begin(u32),
    Retire(usize),
    RetireNewest,
    Merge,
    /// Damage what is at this place of a file, and mend it.
    Mend(usize, usize),
    /// Put a version back, whole.
    PutBack(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edits = prop::collection::vec((0..20_usize, 0..500_usize, any::<u8>()), 0..8);
    let step = prop_oneof![
        12 => (edits, 0..60_usize, 2..20_usize).prop_map(|(edits, back, len)| Step::Write(edits, back, len)),
        1 => prop::sample::select(vec![512, 1024]).prop_map(Step::Begin),
        4 => (0..60_usize).prop_map(Step::Retire),
        1 => Just(Step::RetireNewest),
        2 => Just(Step::Merge),
        2 => (0..60_usize, 0..6000_usize).prop_map(|(file, at)| Step::Mend(file, at)),
        1 => (0..60_usize).prop_map(Step::PutBack),
    ];
    prop::collection::vec(step, 1..60)
}

/// Damages a frame of a file, and has that mended.
fn mend(archive: &asat_archive::Archive, contents: &Contents, file: usize, at: usize) {
    let files = files(archive.folder());
    let Some((name, good)) = file.checked_rem(files.len()).map(|nth| &files[nth]) else { return };
    let frames_end = File { number: 0, bytes: good.clone() }.parts()[0];
    if frames_end > 12 {
        let mut bytes = good.clone();
        bytes[12 + at % (frames_end - 12)] ^= 0x10;
        std::fs::write(archive.folder().join(name), bytes).unwrap();
        archive.repair(&verify(archive, None).damage, contents, &mut go_on).unwrap();
        assert_eq!(verify(archive, None).findings, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(48), failure_persistence: None, ..ProptestConfig::default() })]

    /// Versions that change a little or much, grow and shrink, have pages again that earlier ones had, and of which some are
    /// given up, merged, damaged and mended.
    #[test]
    fn every_live_version_is_found_by_the_book(steps in steps()) {
        let folder = common::folder();
        let archive = open(folder.path());
        let mut contents = Contents::new();
        let (mut content, mut model, mut number) = (Content::new(512, 1..9), Model::new(), 0);
        for step in steps {
            let live: Vec<u64> = model.keys().copied().collect();
            match step {
                Step::Write(edits, back, len) => {
                    for (nth, offset, value) in edits {
                        let nth = nth % content.pages.len();
                        content.edit(nth, offset, value);
                    }
                    if let Some(earlier) = live.get(back).map(|number| &model[number])
                        && earlier.page_size == content.page_size
                    {
                        content.pages.iter_mut().zip(&earlier.pages).step_by(2).for_each(|(page, was)| page.clone_from(was));
                    }
                    number += 1;
                    content.pages.truncate(len);
                    content.pages.push(page(content.page_size, 100 + number));
                    write(&archive, number, &content).unwrap();
                    model.insert(number, content.clone());
                    contents.extend(content.pages.iter().map(|page| (check(page), page.clone())));
                }
                Step::Begin(page_size) => content = Content::new(page_size, number..number + 5),
                Step::Retire(nth) => {
                    if let Some(number) = nth.checked_rem(live.len()).map(|nth| live[nth]) {
                        archive.retire(number).unwrap();
                        model.remove(&number);
                    }
                }
                Step::RetireNewest => {
                    if let Some((number, _)) = model.pop_last() {
                        archive.retire(number).unwrap();
                    }
                }
                Step::Merge => _ = compact(&archive),
                Step::Mend(file, at) => mend(&archive, &contents, file, at),
                Step::PutBack(nth) => {
                    if let Some(number) = nth.checked_rem(live.len()).map(|nth| live[nth]) {
                        let meta = archive.describe(number).unwrap();
                        let pages = &model[&number].pages;
                        let put = archive.put_back(meta, false, |rebuild| Ok(pages.iter().try_for_each(|page| rebuild.page(page))?));
                        prop_assert!(put.unwrap().is_some());
                    }
                }
            }
            common::assert_contents(&archive, &model);
        }
        prop_assert_eq!(read(folder.path()), model);
    }
}

/// The dictionary in a folder, and how many pages are compressed with one.
fn dictionary(folder: &Path) -> (Option<Vec<u8>>, usize) {
    let segments = Archive::read(folder).segments;
    let entries = segments.iter().flat_map(|segment| segment.entries.values());
    let pages = entries.filter(|entry| entry.encoding == 3).count();
    let mut all = segments
        .iter()
        .filter_map(|segment| segment.dictionary.map(|(from, to)| segment.bytes[from..to].to_vec()));
    let (first, further) = (all.next(), all.next());
    assert!(further.is_none());
    (first, pages)
}

/// A dictionary is made once: what is merged later has the same.
#[test]
fn pages_that_share_a_dictionary_are_found_by_the_book() {
    let folder = common::folder();
    let mut model = common::with_dictionary(folder.path());
    let archive = open(folder.path());
    let (made, pages) = dictionary(folder.path());
    assert!(made.is_some() && pages > 900, "{pages} pages are compressed with it");
    assert_eq!(read(folder.path()), model);
    for given_up in [1..=4, 5..=7] {
        for number in given_up {
            archive.retire(number).unwrap();
            model.remove(&number);
        }
        compact(&archive);
        assert_eq!(read(folder.path()), model);
        common::assert_holds(&archive, &model);
        assert!(dictionary(folder.path()).0 == made);
    }
}

/// The document's example: two versions, of which the second has a few other bytes in one page. Its second file, part by part.
fn example() -> String {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, [2, 3]);
    write(&archive, 1, &content).unwrap();
    content.edit(1, 100, 77);
    write(&archive, 2, &content).unwrap();
    assert_eq!(read(folder.path())[&2], content);
    let (name, bytes) = files(folder.path()).remove(1);
    let file = File { number: 2, bytes: bytes.clone() };
    let ([frames_end, directory, manifest], footer) = (file.parts(), file.footer());
    let segment = file.segment();
    assert_eq!(segment.entries[&(2, 2)].encoding, 2);
    let mut text = format!("{name}, {} bytes\n", bytes.len());
    let mut part = |what: &str, from: usize, to: usize, columns: usize| {
        writeln!(text, "\n{what}").unwrap();
        for (at, line) in (from..).step_by(columns).zip(bytes[from..to].chunks(columns)) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let is_text = columns > 16;
            let line = if is_text { String::from_utf8_lossy(line).into_owned() } else { hex.join(" ") };
            writeln!(text, "{at:6}  {line}").unwrap();
        }
    };
    part("header: magic, format version", 0, 12, 16);
    part(
        "frame: the patch that makes page 2 of version 2: 00, 100 bytes stay, 9 are replaced",
        12,
        frames_end,
        16,
    );
    part(
        "block: page 0 + 2, version 2 + 0, length × 4 + encoding, base 2 - 1, check",
        frames_end,
        frames_end + 12,
        16,
    );
    part("description: its first bytes, the whole is below", frames_end + 12, frames_end + 28, 16);
    part("directory", directory, manifest, 16);
    part("manifest", manifest, footer, 96);
    part(
        "footer: three places and the length; hashes of directory, manifest, all before, these; format version, magic",
        footer,
        bytes.len(),
        16,
    );
    let description = zstd::decode_all(&segment.bytes[frames_end + 12..directory]).unwrap();
    writeln!(text, "\nthe description\n{}", String::from_utf8(description).unwrap()).unwrap();
    text
}

#[test]
fn the_documents_example_is_what_is_written() {
    let (document, example) = (include_str!("../../../../docs/archive-format.md"), example());
    assert!(document.contains(&example), "docs/archive-format.md is to have this:\n{example}");
}
