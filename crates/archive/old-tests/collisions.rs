//! Pages that somebody made so that a weak hash cannot tell them apart are told apart.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use asat_archive::Kept;
use common::{Content, Model, assert_holds, files, open, verify, write};
use twox_hash::XxHash3_128;

/// What XXH3 mixes with the second and the third stripe's first word, where nobody gives it a secret of his own: bytes 8 and 16 of
/// the secret that is published with it.
const SECRET: [u64; 2] = [0x1cad_21f7_2c81_017c, 0xdb97_9083_e96d_d4de];

/// A page that all numbers give the same XXH3-128. A word of 8 bytes adds the product of its two halves, each after the secret is
/// laid upon it, to one sum, and itself to the next one. With the secret in its lower half the product is zero, so the
/// upper half is free; and what is added to that in one stripe is taken away in another.
fn colliding(number: u32) -> Vec<u8> {
    let mut page = vec![0x5a; 4096];
    for (stripe, secret, upper) in [(1, SECRET[0], number), (2, SECRET[1], u32::MAX - number)] {
        let word = secret & u64::from(u32::MAX) | u64::from(upper) << 32;
        page[64 * stripe..64 * stripe + 8].copy_from_slice(&word.to_le_bytes());
    }
    page
}

#[test]
fn pages_that_collide_in_a_weak_hash_are_other_pages() {
    let pages = [colliding(1), colliding(1_000_000_007)];
    assert_ne!(pages[0], pages[1]);
    assert_eq!(XxHash3_128::oneshot(&pages[0]), XxHash3_128::oneshot(&pages[1]), "they do not collide");

    let folder = common::folder();
    let (archive, mut model) = (open(folder.path()), Model::new());
    // Among others, and alone; changed, and changed back.
    for (number, nth) in [(1, 0), (2, 1), (3, 0)] {
        let mut content = Content::new(4096, 1..40);
        content.pages[17].clone_from(&pages[nth]);
        let kept = write(&archive, number, &content).unwrap();
        assert!(
            matches!(kept, Kept::Stored { pages_changed, .. } if number == 1 || pages_changed == 1),
            "{kept:?}"
        );
        model.insert(number, content);
    }
    assert_holds(&archive, &model);
    assert_eq!(archive.describe(1).unwrap().fingerprint, archive.describe(3).unwrap().fingerprint);
    assert_ne!(archive.describe(1).unwrap().fingerprint, archive.describe(2).unwrap().fingerprint);
}

/// A file of these format versions tells pages apart by that hash.
#[test]
fn archives_of_older_formats_are_refused_by_name_and_left_alone() {
    for format in 1..=3 {
        let folder = common::folder();
        write(&open(folder.path()), 1, &Content::new(512, 1..5)).unwrap();
        let path = folder.path().join("1.pack");
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len();
        (bytes[8], bytes[end - 12]) = (format, format);
        std::fs::write(&path, bytes).unwrap();
        let before = files(folder.path());
        let archive = open(folder.path());
        let refused = |error: asat_archive::Error| {
            let what = error.to_string();
            assert!(what.contains("1.pack has format version") && what.contains("reads 4 alone"), "{what}");
        };
        refused(archive.read(1).err().unwrap());
        refused(write(&archive, 2, &Content::new(512, 1..6)).unwrap_err());
        refused(archive.retire(1).unwrap_err());
        let report = verify(&archive, None);
        assert!(
            report.findings[0].what.contains("has format version") && report.damage.is_empty(),
            "{report:?}"
        );
        assert_eq!(files(folder.path()), before);
    }
}
