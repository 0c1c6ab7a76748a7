//! Somebody writes rows so that their pages collide in a hash whose constants are public.

use std::fs;

use rusqlite::Connection;
use serde_json::json;
use twox_hash::XxHash3_128;

use crate::api::world;

/// Where in a page XXH3 takes the first word of its second and its third stripe, and what it lays upon it (bytes 8 and 16 of the secret
/// that is published with it). With that in the lower half of a word, the upper half is only added up: the same sum in
/// both gives the same hash.
const STRIPES: [(usize, u32); 2] = [(64, 0x2c81_017c), (128, 0xe96d_d4de)];
/// Where the blob says in which page it lies.
const MARKED: usize = 6000;

/// A blob of several pages in which both words say this number, so that all numbers collide. They are in the page that has the mark, which
/// begins so many bytes after the blob does.
fn blob(number: u32, page: usize) -> Vec<u8> {
    let mut blob = vec![0x5a; 20_000];
    blob[MARKED..MARKED + 8].copy_from_slice(b"it-is-me");
    for ((at, lower), upper) in STRIPES.into_iter().zip([number, u32::MAX - number]) {
        blob[page + at..page + at + 4].copy_from_slice(&lower.to_le_bytes());
        blob[page + at + 4..page + at + 8].copy_from_slice(&upper.to_le_bytes());
    }
    blob
}

#[test]
fn a_blob_that_was_made_to_collide_is_published_as_what_it_is() {
    let world = world();
    let store = Connection::open(world.store()).unwrap();
    store.execute_batch("pragma journal_mode = wal; create table blobs (b blob)").unwrap();
    store.execute("insert into blobs values (?1)", [blob(0, MARKED + 1000)]).unwrap();
    store.execute_batch("pragma wal_checkpoint(truncate)").unwrap();
    // Where a page of the file begins within the blob: an overflow page has the number of the next one before its part of that.
    let bytes = fs::read(world.store()).unwrap();
    let at = bytes.windows(8).position(|found| found == b"it-is-me").unwrap();
    let page = MARKED + 4096 - at % 4096 - 4;
    let write = |number| {
        assert_eq!(store.execute("update blobs set b = ?1", [blob(number, page)]).unwrap(), 1);
        store.execute_batch("pragma wal_checkpoint(truncate)").unwrap();
        fs::read(world.store()).unwrap()
    };
    let publish = |label: &str| world.send("POST", "/snapshots", &json!({ "label": label })).json();
    let before = write(1);
    let first = publish("before");
    let after = write(1_000_000_007);
    let pages = before.chunks(4096).zip(after.chunks(4096));
    let differ: Vec<_> = pages.filter(|(before, after)| before != after).collect();
    let [(one, other)] = differ[..] else { panic!("{} pages differ", differ.len()) };
    assert_eq!(XxHash3_128::oneshot(one), XxHash3_128::oneshot(other), "they do not collide");

    let second = publish("after");
    assert_eq!(second["reused"], false, "{second}");
    let ids = [&first, &second].map(|published| published["version"]["id"].as_str().unwrap().to_owned());
    assert_ne!(ids[0], ids[1]);
    for (id, written) in ids.iter().zip([before, after]) {
        let version = world.settled(id);
        let print = version["fingerprint"].as_str().unwrap();
        assert!(print.starts_with("blake3:") && print.len() == 71, "{version}");
        let answer = world.get(&format!("/versions/{id}/database"));
        assert_eq!(answer.header("etag"), Some(format!("\"{print}\"").as_str()));
        // What is served says rollback mode.
        assert!(answer.body[4096..] == written[4096..], "{id}");
    }
}
