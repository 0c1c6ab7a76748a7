//! Files that could not be read for a while: what was done meanwhile neither changes what they have nor is changed by it.

use std::path::{Path, PathBuf};

use crate::common::{
    self, Content, Model, assert_contents, assert_holds, compact, open, page, verify, write,
};
use asat_archive::{Archive, Retired};

fn raw(seed: u64) -> Vec<u8> {
    page(512, 21 * seed + 3)
}

/// Five versions; in each of them some pages are others that cannot be compressed. The sixth differs from the fifth in one.
fn history(archive: &Archive) -> Model {
    let (mut content, mut model) = (Content::new(512, (1..=60).map(|seed| 21 * seed + 3)), Model::new());
    for number in 1..=5_u64 {
        write(archive, number, &content).unwrap();
        model.insert(number, content.clone());
        (0..20).for_each(|nth| content.pages[nth] = raw(1000 * number + u64::try_from(nth).unwrap()));
    }
    let mut content = model[&5].clone();
    content.pages[50] = raw(99_999);
    write(archive, 6, &content).unwrap();
    model.insert(6, content);
    model
}

fn newest_file(folder: &Path) -> PathBuf {
    folder.join(&common::files(folder).last().unwrap().0)
}

/// Makes the newest file unreadable; answers what it was.
fn damage(path: &Path) -> Vec<u8> {
    let good = std::fs::read(path).unwrap();
    let mut bytes = good.clone();
    let end = bytes.len();
    bytes[end - 177] ^= 1;
    std::fs::write(path, bytes).unwrap();
    good
}

/// The sixth version cannot be read, `meanwhile` happens, and it can be read again.
fn with_the_sixth_unread(meanwhile: impl Fn(&Archive, &mut Model)) {
    let folder = common::folder();
    let mut model = history(&open(folder.path()));
    let path = newest_file(folder.path());
    let good = damage(&path);
    let sixth = model.remove(&6).unwrap();
    let archive = open(folder.path());
    assert_contents(&archive, &model);
    meanwhile(&archive, &mut model);
    assert_contents(&archive, &model);
    drop(archive);
    std::fs::write(&path, good).unwrap();
    model.insert(6, sixth);
    let archive = open(folder.path());
    assert_contents(&archive, &model);
    compact(&archive);
    assert_holds(&archive, &model);
}

fn publish(archive: &Archive, model: &mut Model, number: u64) {
    let mut content = model[model.keys().last().unwrap()].clone();
    content.pages[30] = raw(number + 500);
    write(archive, number, &content).unwrap();
    model.insert(number, content);
}

fn retire(archive: &Archive, model: &mut Model, number: u64) {
    assert!(matches!(archive.retire(number).unwrap(), Retired::Retired { .. }));
    model.remove(&number);
}

#[test]
fn what_a_file_lies_upon_that_cannot_be_read_is_kept() {
    with_the_sixth_unread(|archive, model| {
        publish(archive, model, 7);
        retire(archive, model, 5);
        compact(archive);
    });
    with_the_sixth_unread(|archive, model| {
        retire(archive, model, 5);
        compact(archive);
        publish(archive, model, 7);
    });
}

#[test]
fn giving_up_the_newest_version_does_not_give_up_what_cannot_be_read() {
    with_the_sixth_unread(|archive, model| {
        publish(archive, model, 7);
        retire(archive, model, 7);
    });
    with_the_sixth_unread(|archive, model| {
        publish(archive, model, 9);
        publish(archive, model, 10);
        retire(archive, model, 9);
        retire(archive, model, 10);
        publish(archive, model, 11);
    });
    // What was written above lies in one segment with what is below.
    for first in [7, 9] {
        with_the_sixth_unread(|archive, model| {
            (first..first + 5).for_each(|number| publish(archive, model, number));
            compact(archive);
            (first..first + 5).rev().for_each(|number| retire(archive, model, number));
            publish(archive, model, 20);
        });
    }
}

#[test]
fn giving_up_the_newest_version_again_and_again_leaves_no_more_behind() {
    let folder = common::folder();
    let archive = open(folder.path());
    let mut model = history(&archive);
    (7..=10).for_each(|number| publish(&archive, &mut model, number));
    compact(&archive);
    retire(&archive, &mut model, 10);
    let mut lengths = Vec::new();
    for number in 11..40 {
        publish(&archive, &mut model, number);
        retire(&archive, &mut model, number);
        lengths.push(std::fs::metadata(newest_file(folder.path())).unwrap().len());
    }
    let (first, last) = (lengths[0], *lengths.last().unwrap());
    assert!(last < first + 50, "{first} bytes, then {last}");
    assert_holds(&archive, &model);
}

/// Also if the newest file cannot be read: no file then says that a version is there, or has a page of one.
#[test]
fn nothing_is_left_of_a_store_that_is_given_up() {
    for (count, is_compacted, order) in [
        (1, false, [1].as_slice()),
        (2, false, &[2, 1]),
        (2, false, &[1, 2]),
        (6, false, &[6, 2, 5, 1, 3, 4]),
        (6, true, &[1, 2, 3, 4, 5, 6]),
        (9, true, &[9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ] {
        let folder = common::folder();
        let archive = open(folder.path());
        let mut content = Content::new(512, (1..=20).map(|seed| 21 * seed + 3));
        for number in 1..=count {
            content.pages[3] = raw(1000 + number);
            write(&archive, number, &content).unwrap();
        }
        if is_compacted {
            compact(&archive);
        }
        order.iter().for_each(|number| _ = archive.retire(*number).unwrap());
        drop(archive);
        for (name, bytes) in common::files(folder.path()) {
            // Where frames end: a manifest alone has none.
            let frames_end = bytes[bytes.len() - 172..][..8].try_into().unwrap();
            assert_eq!(u64::from_le_bytes(frames_end), 12, "{name} of {count} versions: {order:?}");
        }
        damage(&newest_file(folder.path()));
        let archive = open(folder.path());
        assert!(archive.live().is_empty(), "{count} versions: {order:?}");
    }
}

/// Publishes three versions, gives these up, and looks what the next three take.
fn assert_that_versions_stay_small(folder: &Path, model: &mut Model, given_up: &[u64]) {
    let archive = open(folder);
    for number in 7..=9 {
        publish(&archive, model, number);
    }
    for number in given_up {
        let _ = archive.retire(*number).unwrap();
        model.remove(number);
    }
    compact(&archive);
    assert_contents(&archive, model);
    for number in 10..=12 {
        publish(&archive, model, number);
        let took = archive.stored_bytes(number).unwrap();
        assert!(took < 10 * 512, "version {number} took {took} bytes");
    }
}

#[test]
fn versions_stay_small_after_one_that_stood_alone_was_given_up() {
    let folder = common::folder();
    let mut model = history(&open(folder.path()));
    damage(&newest_file(folder.path()));
    model.remove(&6);
    assert_that_versions_stay_small(folder.path(), &mut model, &[1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn versions_stay_small_though_an_old_file_is_lost() {
    let folder = common::folder();
    let mut model = history(&open(folder.path()));
    std::fs::remove_file(folder.path().join("000000000003.segment")).unwrap();
    model.remove(&3);
    assert_that_versions_stay_small(folder.path(), &mut model, &[1, 2, 4, 5, 6, 7, 8]);
}

/// Else each of a thousand versions is read whole when the next daemon starts, and again before the file is let go.
#[test]
fn what_was_looked_at_together_is_not_read_again_one_by_one() {
    for verified in [false, true] {
        let folder = common::folder();
        let archive = open(folder.path());
        let mut content = Content::new(512, (1..=60).map(|seed| 21 * seed + 3));
        // Whatever the second one has, the third one and those after it have not.
        for number in 1..=9 {
            (0..60)
                .filter(|nth| if number < 4 { *nth < 20 } else { *nth == 30 })
                .for_each(|nth| content.pages[nth] = raw(number * 100 + nth as u64));
            write(&archive, number, &content).unwrap();
        }
        archive.retire(2).unwrap();
        drop(archive);
        std::fs::remove_file(folder.path().join("000000000002.segment")).unwrap();
        let archive = open(folder.path());
        if verified {
            verify(&archive, None);
        } else {
            assert!(archive.unreadable().unwrap().is_empty());
        }
        // A reader of pages meets damage from now on.
        for name in ["000000000001.segment", "000000000003.segment"] {
            let mut bytes = std::fs::read(folder.path().join(name)).unwrap();
            bytes[12..12 + 20 * 512].fill(0);
            let file = std::fs::File::options().write(true).open(folder.path().join(name)).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        }
        assert_eq!(archive.live(), [1, 3, 4, 5, 6, 7, 8, 9]);
        for number in archive.live() {
            assert!(archive.read(number).is_ok(), "version {number}, verified: {verified}");
        }
    }
}

#[test]
fn a_version_is_lost_until_it_is_put_back_and_no_later_one_is() {
    let folder = common::folder();
    let mut model = history(&open(folder.path()));
    let files = common::files(folder.path());
    files.iter().rev().take(2).for_each(|(name, _)| _ = damage(&folder.path().join(name)));
    let (fifth, sixth) = (model.remove(&5).unwrap(), model.remove(&6).unwrap());
    let archive = open(folder.path());
    let lost = |archive: &Archive| archive.lost().into_keys().collect::<Vec<_>>();
    assert_eq!(lost(&archive), [5, 6]);
    publish(&archive, &mut model, 7);
    publish(&archive, &mut model, 8);
    assert_eq!(lost(&archive), [5, 6]);
    drop(archive);
    let archive = open(folder.path());
    assert_eq!(lost(&archive), [5, 6]);
    for (number, content, left) in [(6, sixth, &[5][..]), (5, fifth, &[])] {
        let mut fingerprinter = asat_archive::Fingerprinter::new(content.page_size(), content.count());
        content.pages.iter().for_each(|page| _ = fingerprinter.page(page));
        let described = archive.describe(7).unwrap();
        let meta = asat_archive::Meta { number, fingerprint: fingerprinter.finish(), ..described };
        let pages = |rebuild: &mut asat_archive::Rebuild| {
            content.pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
        };
        archive.put_back(meta, false, pages).unwrap().unwrap();
        model.insert(number, content.clone());
        assert_eq!(lost(&archive), left);
        assert_contents(&archive, &model);
    }
}

#[test]
fn what_lies_upon_a_lost_file_is_kept_once_and_not_merged_for_ever() {
    for given_up in 3..=6 {
        let folder = common::folder();
        let archive = open(folder.path());
        let (mut content, mut model) = (Content::new(512, (1..=200).map(|seed| 21 * seed + 3)), Model::new());
        write(&archive, 1, &content).unwrap();
        for number in 2..=7_u64 {
            for nth in 0..20 {
                content.edit(nth, 10 + usize::try_from(number).unwrap(), 7);
            }
            write(&archive, number, &content).unwrap();
            model.insert(number, content.clone());
        }
        archive.retire(1).unwrap();
        drop(archive);
        // The file in which the second version is, upon which the others lie.
        let second = common::files(folder.path()).into_iter().nth(1).unwrap().0;
        std::fs::remove_file(folder.path().join(second)).unwrap();
        let archive = open(folder.path());
        archive.retire(given_up).unwrap();
        let mut merges = 0;
        let mut pace = |_| {
            merges += 1;
            assert!(merges < 1000, "given up: {given_up}");
            std::ops::ControlFlow::Continue(())
        };
        archive.compact(&mut pace).unwrap();
        let before = common::files(folder.path());
        archive.compact(&mut pace).unwrap();
        assert!(common::files(folder.path()) == before, "given up: {given_up}");
        // A compaction after a restart changes nothing either.
        drop(archive);
        let archive = open(folder.path());
        archive.compact(&mut pace).unwrap();
        assert!(common::files(folder.path()) == before, "given up: {given_up}");
    }
}
