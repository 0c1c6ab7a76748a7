//! Sizes that a header forges.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::hostile_owner::{assert_others_are_served, publish, world};

/// Where a database's header has the size of a page, the number of pages, and the two counters by which that number counts.
const PAGE_SIZE: u64 = 16;
const CHANGES: u64 = 24;
const PAGES: u64 = 28;
const VALID_FOR: u64 = 92;

/// Says in a store's header that it has so many pages of 4096 bytes, and has the file be as long.
fn forge(file: &File, pages: u32, length: u64) {
    file.set_len(length).unwrap();
    file.write_all_at(&4096_u16.to_be_bytes(), PAGE_SIZE).unwrap();
    file.write_all_at(&pages.to_be_bytes(), PAGES).unwrap();
    let mut changes = [0; 4];
    file.read_exact_at(&mut changes, CHANGES).unwrap();
    file.write_all_at(&changes, VALID_FOR).unwrap();
}

#[test]
fn a_forged_number_of_pages_is_refused_whatever_the_length_of_the_file() {
    let mut world = world();
    world.start();
    let store = File::options().read(true).write(true).open(world.store()).unwrap();
    // As long as a file may be here, which is almost all holes.
    let longest =
        (30..=44).rev().map(|bits| 1_u64 << bits).find(|&length| store.set_len(length).is_ok()).unwrap();
    let most = u32::try_from((longest / 4096).min(u64::from(u32::MAX - 1))).unwrap();
    for (pages, length) in
        [(most, longest), (u32::MAX - 1, 4096), (u32::MAX, longest), (0x7fff_ffff, 1 << 20)]
    {
        forge(&store, pages, length);
        let answer = publish(&world.socket());
        assert_eq!(answer.status, 422, "{pages} pages in {length} bytes: {answer}");
        assert_others_are_served(&world);
    }
}
