//! Statistics: what each version takes, and what of it no other version needs.

use crate::common::{self, Content, compact, open, page, write};
use asat_archive::{Retired, VersionStats};

/// A page that cannot be compressed, and about what its entry in the index takes.
const RAW: u64 = 512 + 13;

#[test]
fn what_only_one_version_needs_is_what_comes_back_with_it() {
    let folder = common::folder();
    let archive = open(folder.path());
    // Seeds that are multiples of 3, and not of 7, give pages that cannot be compressed.
    let mut content = Content::new(512, [3, 6, 9, 12]);
    write(&archive, 1, &content).unwrap();
    content.pages[0] = page(512, 15);
    write(&archive, 2, &content).unwrap();
    content.pages[0] = page(512, 18);
    content.edit(1, 100, 7);
    write(&archive, 3, &content).unwrap();
    content.pages.truncate(3);
    content.edit(1, 200, 7);
    write(&archive, 4, &content).unwrap();

    let stats = archive.stats().unwrap();
    assert_eq!((stats.bytes, stats.segments), (archive.bytes(), 4));
    let only: Vec<u64> = stats.versions.iter().map(|version| version.only_bytes).collect();
    // Version 1's first page; version 2's; nothing of version 3, whose pages version 4 shows or is laid upon; and the
    // difference that is version 4's own.
    assert_eq!(only[..3], [RAW, RAW, 0]);
    assert!(only[3] > 13 && only[3] < RAW, "{only:?}");
    let own: Vec<u64> = stats.versions.iter().map(|version| version.bytes).collect();
    assert_eq!(own, [1, 2, 3, 4].map(|number| archive.stored_bytes(number).unwrap()));

    // What versions share comes back with the last of them; the page that all have stays with any.
    let weight = archive.weigh().unwrap();
    assert_eq!(weight.bytes, stats.bytes);
    let needed = |first, last| {
        let parts = weight.parts.iter().filter(|part| first <= part.first && part.last <= last);
        parts.map(|part| part.bytes).sum::<u64>()
    };
    assert_eq!([needed(1, 1), needed(1, 2), needed(1, 3)], [RAW, 2 * RAW, 3 * RAW]);
    assert_eq!(needed(4, 4), only[3]);
    assert!(needed(1, 4) < stats.bytes, "there is more around it");

    // The last page of the first three is seen by all of them; with version 2 retired its first page is nobody's.
    archive.retire(2).unwrap();
    let stats = archive.stats().unwrap();
    assert_eq!((stats.bytes, stats.versions.len()), (archive.bytes(), 3));
    assert_eq!(stats.versions[0].only_bytes, RAW);
    let compacted = compact(&archive);
    assert!(compacted.freed_bytes >= only[1], "{compacted:?}");
    assert_eq!(archive.stats().unwrap().bytes, archive.bytes());
    assert_eq!(open(common::folder().path()).stats().unwrap(), asat_archive::Stats::default());
}

/// A manifest gets shorter where ranges of versions that were given up become one. That gives bytes back, and none of the pages.
#[test]
fn a_version_given_up_between_others_is_worth_compacting_though_the_manifest_got_shorter() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, [3, 6, 9, 12]);
    for number in 1..=7 {
        write(&archive, number, &content).unwrap();
        content.pages[0] = page(512, 15 + 3 * number);
    }
    let mut has_given_back = false;
    for number in [2, 4, 6, 5, 3] {
        let Retired::Retired { freed_bytes, worth_compacting } = archive.retire(number).unwrap() else {
            panic!("version {number} is there")
        };
        assert!(worth_compacting, "version {number}, {freed_bytes} bytes");
        has_given_back |= freed_bytes > 0;
    }
    assert!(has_given_back && compact(&archive).freed_bytes > 0);
    // Of the newest one nothing is left that a compaction could give back.
    assert!(matches!(archive.retire(7), Ok(Retired::Retired { worth_compacting: false, .. })));
}

#[test]
fn what_is_damaged_is_named_and_counts_again_when_it_was_put_back() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut content = Content::new(512, [3, 6, 9, 12]);
    for number in 1..=4 {
        write(&archive, number, &content).unwrap();
        content.pages[0] = page(512, 15 + 3 * number);
    }
    let sound = archive.stats().unwrap();
    drop(archive);
    let path = folder.path().join("000000000002.segment");
    let good = std::fs::read(&path).unwrap();
    let place = |nth: usize| {
        let at = good.len() - 172 + 8 * nth;
        usize::try_from(u64::from_le_bytes(good[at..at + 8].try_into().unwrap())).unwrap()
    };
    // Frames end at the first, and a block comes then; at the second one the directory begins.
    for (place, what) in [(good.len() - 30, "footer"), (place(1) + 3, "directory"), (place(0) + 3, "index")] {
        let archive = open(folder.path());
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        match archive.stats() {
            Ok(stats) => {
                assert_eq!((stats.bytes, stats.segments, what == "index"), (sound.bytes, 4, false), "{what}");
                let others = sound.versions.iter().filter(|version| version.number != 2);
                // What is needed of it is not known, so of the others no more is said to come back with them.
                let is_no_more = |(now, sound): (&VersionStats, &VersionStats)| {
                    (now.number, now.bytes) == (sound.number, sound.bytes)
                        && now.only_bytes <= sound.only_bytes
                };
                assert!(stats.versions.iter().zip(others).all(is_no_more), "{what}: {stats:?}, {sound:?}");
                assert_eq!(stats.versions.len(), 3);
            }
            Err(error) => {
                let names = error.to_string().contains("000000000002.segment");
                assert!(what == "index" && error.is_loss() && names, "{what}: {error}");
            }
        }
        std::fs::write(&path, &good).unwrap();
        assert_eq!(archive.stats().unwrap(), sound, "{what}");
    }
}
