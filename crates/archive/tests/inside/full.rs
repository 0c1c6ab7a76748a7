//! A disk that is full, whatever is tried at the moment: nothing is lost, it is said clearly, and it works when there is room.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::common::{self, Content, Model, assert_holds, files, page, read, write};
use crate::archive::Archive;
use crate::error::Error;
use crate::folder::Folder;
use crate::objects::{Draft, Object, Objects};

/// A folder on a disk that has room for so many steps more.
#[derive(Debug)]
struct Tight {
    folder: Arc<Folder>,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Room {
    steps: AtomicUsize,
    /// Whether what fails last is done nevertheless: the folder itself could not be synced.
    is_done: AtomicBool,
    /// So many files may be opened.
    opens: AtomicUsize,
    /// So many bytes are said to be free.
    free: AtomicU64,
}

impl Room {
    fn take(&self, doing: &'static str, path: &Path) -> Result<(), Error> {
        take(&self.steps, || Error::io(doing, path, io::ErrorKind::StorageFull.into()))
    }
}

fn take(left: &AtomicUsize, refused: impl FnOnce() -> Error) -> Result<(), Error> {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    taken.map(drop).map_err(|_| refused())
}

struct TightDraft {
    draft: Box<dyn Draft>,
    place: PathBuf,
    room: Arc<Room>,
}

impl Draft for TightDraft {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.room.take("write", &self.place).inspect_err(|_| {
            // A part of it finds room.
            self.draft.append(&bytes[..bytes.len() / 2]).unwrap();
        })?;
        self.draft.append(bytes)
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.room.take("sync", &self.place)?;
        self.draft.settle()
    }

    fn create(self: Box<Self>, number: u64) -> Result<(), Error> {
        let has_room = self.room.take("rename", &self.place);
        if has_room.is_ok() || self.room.is_done.load(Ordering::Relaxed) {
            self.draft.create(number)?;
        }
        has_room
    }
}

impl Objects for Tight {
    fn draft(&self) -> Result<Box<dyn Draft>, Error> {
        self.room.take("create", self.place())?;
        let (draft, place) = (self.folder.draft()?, self.place().to_owned());
        Ok(Box::new(TightDraft { draft, place, room: Arc::clone(&self.room) }))
    }

    fn open(&self, number: u64) -> Result<Arc<dyn Object>, Error> {
        const EMFILE: i32 = 24;
        take(&self.room.opens, || {
            Error::io("open", &self.name(number), io::Error::from_raw_os_error(EMFILE))
        })?;
        self.folder.open(number)
    }

    fn list(&self) -> Result<Vec<u64>, Error> {
        self.folder.list()
    }

    fn delete(&self, number: u64) -> Result<(), Error> {
        self.folder.delete(number)
    }

    fn room(&self) -> Option<u64> {
        Some(self.room.free.load(Ordering::Relaxed))
    }

    fn name(&self, number: u64) -> PathBuf {
        self.folder.name(number)
    }

    fn place(&self) -> &Path {
        self.folder.place()
    }
}

/// Something that is done to an archive, and to what it holds.
struct Change {
    name: &'static str,
    run: fn(&Archive) -> Result<(), Error>,
    model: fn(&mut Model),
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn content(number: u64) -> Content {
    let mut content = Content::new(512, (1..20).map(|seed| 21 * seed + 3));
    (1..=number).for_each(|number| {
        let nth = usize::try_from(number).unwrap();
        content.pages[nth] = page(512, 3 * (100 + number));
        content.pages[nth + 1] = page(512, 3 * (200 + number));
        content.edit(0, nth * 10, 7);
    });
    content
}

const CHANGES: [Change; 5] = [
    Change {
        name: "publish",
        run: |archive| write(archive, 11, &content(11)).map(drop),
        model: |model| _ = model.insert(11, content(11)),
    },
    Change {
        name: "give up",
        run: |archive| archive.retire(6).map(drop),
        model: |model| _ = model.remove(&6),
    },
    Change {
        name: "give up the newest",
        run: |archive| archive.retire(10).map(drop),
        model: |model| _ = model.remove(&10),
    },
    Change {
        name: "compact",
        run: |archive| archive.compact(&mut |_| ControlFlow::Continue(())).map(drop),
        model: |_| {},
    },
    Change {
        name: "write anew",
        run: |archive| {
            let pages = content(5).pages;
            let rebuilt = common::rebuild(archive, 5, |rebuild| {
                pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
            });
            rebuilt.map(drop).map_err(|problem| {
                assert_eq!(problem.code, asat_core::Code::StorageFull, "{problem}");
                Error::io("write", archive.folder(), io::ErrorKind::StorageFull.into())
            })
        },
        model: |_| {},
    },
];

fn tight(folder: &Path) -> (Archive, Arc<Room>) {
    let (steps, opens) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(usize::MAX));
    let room = Room { steps, is_done: AtomicBool::new(false), opens, free: AtomicU64::new(u64::MAX) };
    let room = Arc::new(room);
    let objects = Tight { folder: Folder::open(folder).unwrap().0, room: Arc::clone(&room) };
    (Archive::over(Arc::new(objects)).unwrap().0, room)
}

/// Ten versions, of which three were given up; and room for so many steps.
fn begin(folder: &Path) -> (Archive, Arc<Room>, Model) {
    let (archive, room) = tight(folder);
    let mut model = Model::new();
    for number in 1..=10 {
        write(&archive, number, &content(number)).unwrap();
        model.insert(number, content(number));
    }
    for number in [2, 3, 7] {
        archive.retire(number).unwrap();
        model.remove(&number);
    }
    (archive, room, model)
}

/// The disk is full from this step on; answers whether the change needed no more.
fn try_with(change: &Change, steps: usize, is_done: bool) -> bool {
    let folder = common::folder();
    let (archive, room, before) = begin(folder.path());
    let mut after = before.clone();
    (change.model)(&mut after);
    let readers: Vec<_> = before.keys().map(|number| (*number, archive.read(*number).unwrap())).collect();
    room.is_done.store(is_done, Ordering::Relaxed);
    room.steps.store(steps, Ordering::Relaxed);
    let result = (change.run)(&archive);
    let has_run = room.steps.load(Ordering::Relaxed) > 0;
    let at = format!("{change:?}, full after {steps} steps: {result:?}");
    match &result {
        Ok(()) => {}
        Err(error) => {
            assert!(matches!(error, Error::Full { .. }), "{at}");
            assert!(error.to_string().starts_with("no room to ") && !error.hint().is_empty(), "{at}");
        }
    }
    // It is as it was, or done; that is the same after a start.
    let holds = |archive: &Archive| {
        let is_after = result.is_ok() || archive.live() == after.keys().copied().collect::<Vec<_>>();
        assert_holds(archive, if is_after { &after } else { &before });
        is_after
    };
    let is_after = holds(&archive);
    for (number, reader) in readers {
        let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
        reader.read_at(0, &mut bytes).unwrap();
        assert!(bytes == before[&number].bytes(), "{at}: version {number}");
    }
    let is_left = files(folder.path()).into_iter().find(|(name, _)| !name.ends_with(".segment"));
    assert!(is_left.is_none(), "{at}: {is_left:?}");
    let image = files(folder.path());
    let other = common::folder();
    common::put_files(other.path(), &image);
    assert_eq!(holds(&common::open(other.path())), is_after, "{at}");
    // With room, it goes on.
    room.steps.store(usize::MAX, Ordering::Relaxed);
    if !is_after || change.name == "compact" {
        (change.run)(&archive).unwrap();
    }
    assert_holds(&archive, &after);
    write(&archive, 12, &content(12)).unwrap();
    assert!(read(&archive, 12).unwrap() == content(12).bytes(), "{at}");
    common::compact(&archive);
    after.insert(12, content(12));
    assert_holds(&archive, &after);
    has_run
}

#[test]
fn a_disk_that_is_full_at_any_step_costs_nothing() {
    for change in &CHANGES {
        for is_done in [false, true] {
            let steps = (0..).find(|steps| try_with(change, *steps, is_done)).unwrap();
            // A draft, its header, the manifest, its footer, and the number that it gets.
            assert!(steps >= 5, "{change:?} takes {steps} steps");
        }
    }
}

#[test]
fn with_as_many_files_open_as_may_be_a_change_is_made_or_refused() {
    for (change, reopened) in CHANGES.iter().flat_map(|change| [(change, false), (change, true)]) {
        for opens in 0..30 {
            let folder = common::folder();
            let (mut archive, mut room, before) = begin(folder.path());
            if reopened {
                drop(archive);
                (archive, room) = tight(folder.path());
            }
            let mut after = before.clone();
            (change.model)(&mut after);
            room.opens.store(opens, Ordering::Relaxed);
            let result = match change.name {
                "write anew" => {
                    let pages = content(5).pages;
                    let read = |rebuild: &mut crate::Rebuild| {
                        pages.iter().try_for_each(|page| Ok(rebuild.page(page)?))
                    };
                    let rebuilt = common::rebuild(&archive, 5, read);
                    rebuilt.map(drop).map_err(|problem| Error::Misuse(problem.to_string()))
                }
                _ => (change.run)(&archive),
            };
            room.opens.store(usize::MAX, Ordering::Relaxed);
            let at = format!("{change:?}, {opens} opens, reopened: {reopened}: {result:?}");
            let expected = if result.is_ok() { &after } else { &before };
            assert_eq!(archive.live(), expected.keys().copied().collect::<Vec<_>>(), "{at}");
            assert_holds(&archive, expected);
        }
    }
}

/// What the version above shows is looked at, or nothing is put below it.
#[test]
fn nothing_is_put_back_below_a_version_that_cannot_be_opened_now() {
    for opens in 0..12 {
        let folder = common::folder();
        let (archive, _) = tight(folder.path());
        let mut model = Model::new();
        for number in [1, 3, 4] {
            write(&archive, number, &content(number)).unwrap();
            model.insert(number, content(number));
        }
        drop(archive);
        let mut second = content(1);
        second.pages[15] = page(512, 333);
        let mut fingerprinter = crate::Fingerprinter::new(second.page_size(), second.count());
        second.pages.iter().for_each(|page| _ = fingerprinter.page(page));
        let (archive, room) = tight(folder.path());
        let described = archive.describe(1).unwrap();
        let meta = crate::Meta { number: 2, fingerprint: fingerprinter.finish(), ..described };
        room.opens.store(opens, Ordering::Relaxed);
        let read =
            |rebuild: &mut crate::Rebuild| second.pages.iter().try_for_each(|page| Ok(rebuild.page(page)?));
        let is_back = archive.put_back(meta, false, read).is_ok();
        room.opens.store(usize::MAX, Ordering::Relaxed);
        model.extend(is_back.then(|| (2, second.clone())));
        assert_holds(&archive, &model);
    }
}

#[test]
fn a_merge_takes_no_more_than_half_of_what_is_free() {
    let folder = common::folder();
    let (archive, room, mut model) = begin(folder.path());
    for number in 11..=17 {
        write(&archive, number, &content(number)).unwrap();
        model.insert(number, content(number));
    }
    let compact = || archive.compact(&mut |_| ControlFlow::Continue(()));
    let before = files(folder.path());
    room.free.store(0, Ordering::Relaxed);
    let refused = compact().unwrap_err();
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert!(refused.to_string().contains("of the free"), "{refused}");
    assert!(files(folder.path()) == before, "nothing has changed");
    assert!(archive.is_worth_compacting(), "it is tried again");
    room.free.store(2 * archive.bytes(), Ordering::Relaxed);
    compact().unwrap();
    assert!(!archive.is_worth_compacting());
    assert_holds(&archive, &model);
}
