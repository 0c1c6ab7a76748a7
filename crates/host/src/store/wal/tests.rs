//! A WAL and a wal-index, whole and harmed in every byte.

use super::*;

const SALTS: [u8; 8] = [0, 0, 0, 9, 1, 2, 3, 4];

fn size(bytes: u32) -> PageSize {
    PageSize::new(bytes).unwrap()
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

fn put_native(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
}

/// A WAL with frames of these pages, each with the number of pages that the database has after it.
fn wal(page_size: u32, is_big_endian: bool, frames: &[(u32, u32)]) -> (Vec<u8>, Vec<(u32, u32)>) {
    let mut bytes = vec![0; WAL_HEADER];
    put(&mut bytes, 0, MAGIC + u32::from(is_big_endian));
    put(&mut bytes, 4, VERSION);
    put(&mut bytes, 8, page_size);
    bytes[16..24].copy_from_slice(&SALTS);
    let mut sums = sum((0, 0), &bytes[..24], is_big_endian);
    put(&mut bytes, 24, sums.0);
    put(&mut bytes, 28, sums.1);
    let mut all = vec![sums];
    for (page, count) in frames {
        let mut frame = vec![u8::try_from(page % 251).unwrap(); FRAME_HEADER + page_size as usize];
        put(&mut frame, 0, *page);
        put(&mut frame, 4, *count);
        frame[8..16].copy_from_slice(&SALTS);
        sums = sum(sum(sums, &frame[..8], is_big_endian), &frame[FRAME_HEADER..], is_big_endian);
        put(&mut frame, 16, sums.0);
        put(&mut frame, 20, sums.1);
        bytes.extend(frame);
        all.push(sums);
    }
    (bytes, all)
}

/// A wal-index of such a WAL.
fn index(page_size: u32, is_big_endian: bool, frame: u32, sums: (u32, u32)) -> [u8; INDEX] {
    let mut bytes = [0; INDEX];
    put_native(&mut bytes, 0, VERSION);
    bytes[12] = 1;
    bytes[13] = u8::from(is_big_endian);
    let short = if page_size == 65536 { 1 } else { u16::try_from(page_size).unwrap() };
    bytes[14..16].copy_from_slice(&short.to_ne_bytes());
    put_native(&mut bytes, 16, frame);
    put_native(&mut bytes, 24, sums.0);
    put_native(&mut bytes, 28, sums.1);
    bytes[32..40].copy_from_slice(&SALTS);
    seal(&mut bytes);
    bytes
}

fn seal(bytes: &mut [u8; INDEX]) {
    let sums = add((0, 0), &bytes[..40], u32::from_ne_bytes);
    put_native(bytes, 40, sums.0);
    put_native(bytes, 44, sums.1);
    bytes.copy_within(..COPY, COPY);
}

fn chain(wal: &[u8], index: &Index) -> Option<Chain> {
    Chain::begin(wal[..WAL_HEADER].try_into().unwrap(), index)
}

#[test]
fn frames_are_read_in_both_orders_of_bytes_and_all_sizes_of_pages() {
    for is_big_endian in [false, true] {
        for page_size in [512, 4096, 65536] {
            let frames = [(3, 0), (2, 7), (u32::MAX, 0), (1, u32::MAX)];
            let (bytes, sums) = wal(page_size, is_big_endian, &frames);
            let index = Index::read(&index(page_size, is_big_endian, 4, sums[4]), size(512)).unwrap();
            assert_eq!((index.page_size, index.is_backfilled()), (size(page_size), false));
            assert_eq!(index.length(), bytes.len() as u64);
            let mut chain = chain(&bytes, &index).unwrap();
            let taken = bytes[WAL_HEADER..].chunks(frame_length(index.page_size)).map(|frame| {
                let frame = chain.take(frame).unwrap();
                (frame.page, frame.page_count.unwrap_or(0))
            });
            assert!(taken.eq(frames));
            assert_eq!(chain.place, index.place);
            // From the middle on.
            let mut chain = Chain::after(Place { frame: 2, sums: sums[2], ..index.place }, &index);
            let third = &bytes[usize::try_from(offset_after(index.page_size, 2)).unwrap()..];
            assert!(ends_at(
                third[..FRAME_HEADER].try_into().unwrap(),
                &Place { sums: sums[3], ..index.place }
            ));
            assert_eq!(chain.take(&third[..frame_length(index.page_size)]).unwrap().page, u32::MAX);
        }
    }
}

#[test]
fn a_frame_with_any_byte_changed_does_not_belong_there_and_leaves_the_place() {
    let (bytes, sums) = wal(512, false, &[(3, 0), (2, 7)]);
    let index = Index::read(&index(512, false, 2, sums[2]), size(512)).unwrap();
    let first = &bytes[WAL_HEADER..][..frame_length(size(512))];
    for at in 0..first.len() {
        let mut chain = chain(&bytes, &index).unwrap();
        let (before, mut frame) = (chain.place, first.to_vec());
        frame[at] ^= 0x10;
        assert_eq!((chain.take(&frame), chain.place), (None, before), "{at}");
    }
    for length in 0..first.len() {
        assert_eq!(chain(&bytes, &index).unwrap().take(&first[..length]), None, "{length}");
    }
    // One after another, and no other way round.
    let second = &bytes[WAL_HEADER + first.len()..];
    assert_eq!(chain(&bytes, &index).unwrap().take(second), None);
    // The last number that there is.
    let mut last = chain(&bytes, &index).unwrap();
    last.place.frame = u32::MAX;
    assert_eq!(last.take(first), None);
}

#[test]
fn no_other_wal_begins_a_chain() {
    let (bytes, sums) = wal(512, false, &[]);
    let index = Index::read(&index(512, false, 0, sums[0]), size(512)).unwrap();
    assert!(chain(&bytes, &index).is_some());
    for at in 0..WAL_HEADER {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert!(chain(&bytes, &index).is_none(), "{at}");
    }
    for (page_size, is_big_endian) in [(512, true), (1024, false)] {
        let (bytes, _) = wal(page_size, is_big_endian, &[]);
        assert!(chain(&bytes, &index).is_none(), "{page_size} {is_big_endian}");
    }
}

#[test]
fn a_wal_index_counts_if_both_copies_are_whole() {
    let whole = index(4096, false, 5, (1, 2));
    assert!(Index::read(&whole, size(512)).is_some());
    for at in 0..2 * COPY {
        let mut torn = whole;
        torn[at] ^= 1;
        assert_eq!(Index::read(&torn, size(512)), None, "{at}");
    }
    assert_eq!(Index::read(&[0; INDEX], size(512)), None);
    let sealed = |change: fn(&mut [u8; INDEX])| {
        let mut bytes = whole;
        change(&mut bytes);
        seal(&mut bytes);
        Index::read(&bytes, size(512))
    };
    assert_eq!(sealed(|bytes| bytes[12] = 0), None, "nobody has made it");
    assert_eq!(sealed(|bytes| put_native(bytes, 0, VERSION + 1)), None);
    assert_eq!(sealed(|bytes| bytes[14..16].fill(0)), None, "there are frames");
    assert_eq!(sealed(|bytes| bytes[14..16].copy_from_slice(&513_u16.to_ne_bytes())), None);
    let huge = sealed(|bytes| put_native(bytes, 16, u32::MAX)).unwrap();
    assert_eq!(huge.length(), 32 + 4120 * u64::from(u32::MAX));
    let empty = sealed(|bytes| bytes[14..20].fill(0)).unwrap();
    assert_eq!((empty.page_size, empty.is_backfilled()), (size(512), true));
    let mut moved = whole;
    put_native(&mut moved, 96, 5);
    put_native(&mut moved, 128, 5);
    let moved = Index::read(&moved, size(512)).unwrap();
    assert_eq!((moved.is_backfilled(), moved.attempted), (true, 5));
}
