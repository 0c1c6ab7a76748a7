//! Reading ahead: which ranges the system is asked to read early, if somebody reads in order.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::common::{Content, folder, write};
use crate::archive::Archive;
use crate::error::Error;
use crate::folder::Folder;
use crate::objects::{Draft, Object, Objects, Stamp};

/// What was said to be read soon: offsets and lengths.
type Told = Arc<Mutex<Vec<(u64, u64)>>>;

/// A folder that notes what it is told.
#[derive(Debug)]
struct Noting {
    folder: Arc<Folder>,
    told: Told,
}

#[derive(Debug)]
struct NotingObject {
    object: Arc<dyn Object>,
    told: Told,
}

impl Objects for Noting {
    fn draft(&self) -> Result<Box<dyn Draft>, Error> {
        self.folder.draft()
    }

    fn open(&self, number: u64) -> Result<Arc<dyn Object>, Error> {
        Ok(Arc::new(NotingObject { object: self.folder.open(number)?, told: Arc::clone(&self.told) }))
    }

    fn list(&self) -> Result<Vec<u64>, Error> {
        self.folder.list()
    }

    fn delete(&self, number: u64) -> Result<(), Error> {
        self.folder.delete(number)
    }

    fn room(&self) -> Option<u64> {
        self.folder.room()
    }

    fn name(&self, number: u64) -> PathBuf {
        self.folder.name(number)
    }

    fn place(&self) -> &Path {
        self.folder.place()
    }
}

impl Object for NotingObject {
    fn name(&self) -> &Path {
        self.object.name()
    }

    fn len(&self) -> u64 {
        self.object.len()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.object.read(offset, buffer)
    }

    fn expect(&self, offset: u64, len: u64) {
        self.told.lock().unwrap().push((offset, len));
        self.object.expect(offset, len);
    }

    fn stamp(&self) -> Option<Stamp> {
        self.object.stamp()
    }
}

#[test]
fn whoever_reads_a_short_version_again_is_read_ahead_of_again() {
    let (place, told) = (folder(), Told::default());
    let noting = Noting { folder: Folder::open(place.path()).unwrap().0, told: Arc::clone(&told) };
    let archive = Archive::over(Arc::new(noting)).unwrap().0;
    let content = Content::new(4096, 1..129);
    write(&archive, 1, &content).unwrap();
    let (reader, bytes) = (archive.read(1).unwrap(), content.bytes());
    let pass = || {
        let mut piece = vec![0; 16 * 4096];
        for (at, expected) in (0..).step_by(piece.len()).zip(bytes.chunks(16 * 4096)) {
            assert_eq!(reader.read_at(at, &mut piece).unwrap(), expected.len());
            assert_eq!(piece, expected);
            reader.look_ahead();
        }
        std::mem::take(&mut *told.lock().unwrap())
    };
    // The first one has also read the index.
    pass();
    let (second, third) = (pass(), pass());
    assert_eq!(second.len(), 1, "all frames lie together: {second:?}");
    assert_eq!(second, third);
}
