//! The identity of a copy's file: enough to notice that it is another file, or that somebody has changed it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What `stat` says of a file that changes whenever the file does. The time of the last change of the inode
/// cannot be set by anybody, so setting the time of the last write back does not hide a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    len: u64,
    inode: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// The identity of the file that has this name. A symbolic link is not followed: it has one of its own.
    pub(super) fn of_path(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// The identity of an open file.
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::of(&metadata))
    }

    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            inode: metadata.ino(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The file's length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The identity as it is recorded.
    pub(crate) fn text(&self) -> String {
        let Self { len, inode, written, changed } = self;
        format!("1 {len} {inode} {} {} {} {}\n", written.0, written.1, changed.0, changed.1)
    }

    /// Reads a recorded identity. `None` where there is none, and where it is not one that [`Self::text`]
    /// wrote: the copy is made again then.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let mut text = String::new();
        File::open(path).ok()?.take(256).read_to_string(&mut text).ok()?;
        Self::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        if words.next()? != "1" {
            return None;
        }
        let len = words.next()?.parse().ok()?;
        let inode = words.next()?.parse().ok()?;
        let mut time = || Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
        let identity = Self { len, inode, written: time()?, changed: time()? };
        (identity.text() == text).then_some(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        let identity =
            Identity { len: u64::MAX, inode: 7, written: (-1, 999_999_999), changed: (i64::MAX, 0) };
        let text = identity.text();
        assert_eq!(Identity::parse(&text), Some(identity));
        for end in 0..text.len() {
            assert_eq!(Identity::parse(&text[..end]), None, "{:?}", &text[..end]);
        }
        for hostile in
            ["1 2 3 4 5 6\n", "2 1 2 3 4 5 6\n", "1 01 2 3 4 5 6\n", "1 -1 2 3 4 5 6\n", "1 1 2 3 4 5 6 7\n"]
        {
            assert_eq!(Identity::parse(hostile), None, "{hostile:?}");
        }
    }
}
