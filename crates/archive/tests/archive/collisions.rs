//! Pages that somebody made so that a weak hash cannot tell them apart are told apart.

use crate::common::{self, Content, Model, assert_holds, files, open, write};
use asat_archive::{Archive, Kept};
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

#[test]
fn archives_of_other_formats_are_refused_by_name_and_left_alone() {
    let folder = common::folder();
    write(&open(folder.path()), 1, &Content::new(512, 1..5)).unwrap();
    let name = "000000000001.segment";
    let sound = std::fs::read(folder.path().join(name)).unwrap();
    let (written, end) = (sound[8], sound.len());
    let refused = |what: &str| {
        let before = files(folder.path());
        let error = Archive::open(folder.path()).err().unwrap().to_string();
        assert!(error.contains(what), "{error}");
        assert_eq!(files(folder.path()), before);
    };
    for format in (1..=written + 1).filter(|format| *format != written) {
        let mut bytes = sound.clone();
        (bytes[8], bytes[end - 12]) = (format, format);
        std::fs::write(folder.path().join(name), bytes).unwrap();
        refused(&format!("{name} has format version {format}"));
    }
    std::fs::write(folder.path().join(name), &sound).unwrap();
    assert_eq!(open(folder.path()).live(), [1]);
    // Each version had a file of its own once, and had left a file when it was given up.
    for older in ["7.pack", "2-7.pack", "3.layer"] {
        std::fs::write(folder.path().join(older), "asat").unwrap();
        refused(&format!("{older} has format version 4"));
        std::fs::remove_file(folder.path().join(older)).unwrap();
    }
    assert_eq!(open(folder.path()).live(), [1]);
}
