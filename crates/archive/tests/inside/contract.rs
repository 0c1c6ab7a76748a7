//! What every place for objects must do. The archive relies on all of this, and on nothing else.

use std::path::Path;
use std::sync::Arc;

use super::common::{Content, files, folder, put_files, write};
use crate::archive::Archive;
use crate::error::Error;
use crate::folder::Folder;
use crate::objects::{Draft, Objects};

type Opener = fn(&Path) -> Result<Arc<dyn Objects>, Error>;

/// All kinds of places there are. Each begins empty, in a folder of its own.
const KINDS: [Opener; 1] = [open_folder];

fn open_folder(path: &Path) -> Result<Arc<dyn Objects>, Error> {
    Ok(Arc::new(Folder::open(path)?.0))
}

/// Does something with each kind of place.
fn each(test: impl Fn(&Path, Opener)) {
    for open in KINDS {
        let folder = folder();
        test(folder.path(), open);
    }
}

fn draft(objects: &dyn Objects, pieces: &[&[u8]]) -> Box<dyn Draft> {
    let mut draft = objects.draft().unwrap();
    pieces.iter().for_each(|piece| draft.append(piece).unwrap());
    draft
}

fn create(objects: &dyn Objects, number: u64, bytes: &[u8]) -> Result<(), Error> {
    draft(objects, &[bytes]).create(number)
}

fn content(objects: &dyn Objects, number: u64) -> Vec<u8> {
    let object = objects.open(number).unwrap();
    object.read_range(0..object.len()).unwrap()
}

#[test]
fn what_was_appended_is_there_whole_also_after_a_start() {
    each(|place, open| {
        let objects = open(place).unwrap();
        let long = vec![7; 3 << 20];
        let mut settled = draft(&*objects, &[b"one", b"", b"two", &long]);
        settled.settle().unwrap();
        settled.append(b"three").unwrap();
        settled.create(1).unwrap();
        create(&*objects, 2, b"").unwrap();
        drop(objects);
        let objects = open(place).unwrap();
        assert!(content(&*objects, 1) == [b"onetwo", long.as_slice(), b"three"].concat());
        assert_eq!(objects.open(2).unwrap().len(), 0);
        let object = objects.open(1).unwrap();
        let mut part = [0; 4];
        object.expect(2, 4);
        object.read(2, &mut part).unwrap();
        assert_eq!(&part, b"etwo");
        assert!(objects.name(1) != objects.name(2) && object.name() == objects.name(1));
    });
}

#[test]
fn creating_never_replaces() {
    each(|place, open| {
        let objects = open(place).unwrap();
        create(&*objects, 3, b"first").unwrap();
        let refused = create(&*objects, 3, b"second").unwrap_err();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        assert_eq!(content(&*objects, 3), b"first");
        assert_eq!(files(place).len(), 1, "the draft is left");
        objects.delete(3).unwrap();
        create(&*objects, 3, b"third").unwrap();
        assert_eq!(content(&*objects, 3), b"third");
    });
}

#[test]
fn of_many_who_create_one_number_one_does() {
    each(|place, open| {
        let objects = open(place).unwrap();
        for number in 1..=20 {
            let created: Vec<u8> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|nth: u8| {
                        let objects = &*objects;
                        scope.spawn(move || create(objects, number, &[nth]).is_ok().then_some(nth))
                    })
                    .collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(content(&*objects, number), created, "one, and that one");
        }
    });
}

#[test]
fn a_draft_leaves_nothing() {
    each(|place, open| {
        let objects = open(place).unwrap();
        drop(draft(&*objects, &[b"dropped"]));
        assert_eq!((objects.list().unwrap(), files(place)), (vec![], vec![]));
        // Nobody is there to drop this one when the machine stops.
        let left = draft(&*objects, &[b"left"]);
        let image = files(place);
        assert_eq!(objects.list().unwrap(), [0; 0]);
        drop((left, objects));
        put_files(place, &image);
        let objects = open(place).unwrap();
        assert_eq!((objects.list().unwrap(), files(place)), (vec![], vec![]));
    });
}

#[test]
fn what_is_open_can_be_read_after_it_was_deleted() {
    each(|place, open| {
        let objects = open(place).unwrap();
        create(&*objects, 1, b"content").unwrap();
        let object = objects.open(1).unwrap();
        let stamp = object.stamp();
        assert!(stamp.is_some() && stamp == objects.open(1).unwrap().stamp());
        objects.delete(1).unwrap();
        assert_eq!(object.read_range(0..object.len()).unwrap(), b"content");
        assert_eq!(object.stamp(), None);
        assert_eq!(objects.list().unwrap(), [0; 0]);
        // Another one of its number is another one.
        create(&*objects, 1, b"CONTENT").unwrap();
        assert_eq!(object.stamp(), None);
        assert_eq!(object.read_range(0..object.len()).unwrap(), b"content");
    });
}

#[test]
fn a_listing_is_in_the_order_of_numbers() {
    each(|place, open| {
        let objects = open(place).unwrap();
        let numbers = [10, 9, 1_000_000_000_000, 100, 1, 999_999_999_999, 1 << 62];
        numbers.iter().for_each(|number| create(&*objects, *number, &number.to_le_bytes()).unwrap());
        let listed = objects.list().unwrap();
        assert_eq!(listed, [1, 9, 10, 100, 999_999_999_999, 1_000_000_000_000, 1 << 62]);
        listed.iter().for_each(|number| assert_eq!(content(&*objects, *number), number.to_le_bytes()));
    });
}

#[test]
fn deleting_what_is_gone_is_no_error_and_opening_it_says_that_it_is_lost() {
    each(|place, open| {
        let objects = open(place).unwrap();
        create(&*objects, 1, b"content").unwrap();
        (0..2).for_each(|_| objects.delete(1).unwrap());
        objects.delete(2).unwrap();
        let error = objects.open(1).err().unwrap();
        assert!(error.is_loss(), "{error}");
    });
}

#[test]
fn reading_beyond_the_end_is_damage() {
    each(|place, open| {
        let objects = open(place).unwrap();
        create(&*objects, 1, b"content").unwrap();
        let object = objects.open(1).unwrap();
        for range in [0..8, 7..8, 100..101] {
            let error = object.read_range(range).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
        }
        object.read(7, &mut []).unwrap();
    });
}

#[test]
fn nobody_else_can_open_a_place() {
    each(|place, open| {
        let objects = open(place).unwrap();
        create(&*objects, 1, b"content").unwrap();
        let under_way = draft(&*objects, &[b"draft"]);
        let refused = open(place).err().unwrap();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        under_way.create(2).unwrap();
        let object = objects.open(1).unwrap();
        drop(objects);
        let again = open(place).unwrap();
        assert_eq!(again.list().unwrap(), [1, 2]);
        assert_eq!(object.read_range(0..7).unwrap(), b"content");
    });
}

/// What is only so of a folder: anybody may put files into it.
#[test]
fn a_folder_with_files_of_strange_names_leaves_these_alone_and_names_them() {
    let folder = folder();
    let mut strange = vec![
        "000000000000.segment",
        "+00000000001.segment",
        "00000000001.segment",
        "0000000000001.segment",
        "000000000001.segment.bak",
        "000000000001.SEGMENT",
        "000000000001",
        ".segment",
        "-1.segment",
        "18446744073709551615.segment",
        "99999999999999999999.segment",
        "1.tmp",
        "+0000000000000000001.tmp",
        "99999999999999999999.tmp",
        ".tmp",
        "a\nb",
        "Kündigung.pdf",
    ];
    strange.iter().for_each(|name| std::fs::write(folder.path().join(name), name).unwrap());
    std::fs::write(folder.path().join("00000000000000000001.tmp"), "half").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    std::fs::create_dir(folder.path().join("00000000000000000002.tmp")).unwrap();
    let folders = ["folder", "00000000000000000002.tmp"];
    strange.extend(folders);
    strange.sort_unstable();
    let (objects, found) = Folder::open(folder.path()).unwrap();
    assert_eq!(found.foreign, strange);
    assert_eq!(found.removed, ["00000000000000000001.tmp"]);
    create(&objects, 1, b"content").unwrap();
    assert_eq!(objects.list().unwrap(), [1]);
    objects.delete(1).unwrap();
    drop(objects);
    for name in strange.iter().filter(|name| !folders.contains(name)) {
        assert_eq!(std::fs::read_to_string(folder.path().join(name)).unwrap(), *name);
    }
}

/// What has an object's name and is no file is named: something may have been there that counts.
#[test]
fn what_has_the_name_of_an_object_and_is_no_file_is_named_and_left_alone() {
    let folder = folder();
    let (name, path) = ("000000000007.segment", folder.path().join("000000000007.segment"));
    write(&Archive::open(folder.path()).unwrap().0, 1, &Content::new(512, 1..5)).unwrap();
    let sound = std::fs::read(folder.path().join("000000000001.segment")).unwrap();
    std::fs::create_dir(&path).unwrap();
    let archive = Archive::open(folder.path()).unwrap().0;
    let unread: Vec<String> = archive.unread().iter().map(ToString::to_string).collect();
    assert!(archive.live() == [1] && unread.len() == 1 && unread[0].contains(name), "{unread:?}");
    // What is written then comes above it.
    write(&archive, 2, &Content::new(512, 2..5)).unwrap();
    assert!(folder.path().join("000000000008.segment").exists() && path.is_dir());
    drop(archive);
    assert_eq!(Archive::open(folder.path()).unwrap().0.live(), [1, 2]);
    std::fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink(folder.path().join("000000000001.segment"), &path).unwrap();
    std::fs::remove_file(folder.path().join("000000000008.segment")).unwrap();
    let error = Archive::open(folder.path()).err().unwrap();
    assert!(error.to_string().contains(name) && !error.is_loss(), "{error}");
    assert!(std::fs::read(&path).unwrap() == sound);
}

/// And nothing but the lock says who is at work in it, where that holds.
#[test]
fn drafts_of_two_who_have_one_folder_open_are_two_files() {
    let folder = folder();
    let names: std::collections::BTreeSet<String> = (0..3)
        .map(|_| {
            let (objects, _) = Folder::open(folder.path()).unwrap();
            let _draft = objects.draft().unwrap();
            files(folder.path()).remove(0).0
        })
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}
