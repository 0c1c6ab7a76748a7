//! Writes a pack file: frames as they come, then index, metadata and footer, then durably into place.
//!
//! Until it is in place the file has a temporary name; a packer that is dropped removes it, so that an error,
//! a cancelled copy and a full disk give their space back.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use crate::disk::Folder;
use crate::error::Error;
use crate::fingerprint::{PageHash, hash};
use crate::footer::{FOOTER_LEN, Footer, META_MAX_BYTES, header};
use crate::index::{Encoding, IndexBuilder};
use crate::meta::Meta;
use crate::naming::FileName;

/// Bytes gathered before they are hashed and written.
const BUFFER_BYTES: usize = 1 << 20;

/// A pack file being written.
pub(crate) struct Packer {
    folder: Arc<Folder>,
    temporary: String,
    file: File,
    buffer: Vec<u8>,
    body: blake3::Hasher,
    written: u64,
    index: IndexBuilder,
    /// The layer's number.
    number: u64,
    /// Whether a page is stored as a difference from that of the layer below, or not at all.
    pub(crate) needs_below: bool,
    /// The lowest version that pages are referred to.
    refers_to: Option<u64>,
    in_place: bool,
}

impl Packer {
    /// Creates the file under the temporary name of layer `number`.
    pub(crate) fn create(folder: &Arc<Folder>, number: u64) -> Result<Self, Error> {
        let temporary = FileName::Temporary(number).text();
        let file = folder.create(&temporary)?;
        let mut packer = Self {
            folder: Arc::clone(folder),
            temporary,
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES + (1 << 16)),
            body: blake3::Hasher::new(),
            written: 0,
            index: IndexBuilder::default(),
            number,
            needs_below: false,
            refers_to: None,
            in_place: false,
        };
        packer.append(&header())?;
        Ok(packer)
    }

    /// The folder that the file is in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The number of the layer.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes were appended so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + len_of(&self.buffer)
    }

    /// How many pages it holds so far.
    pub(crate) fn count(&self) -> u64 {
        self.index.count
    }

    /// Whether a page is what an earlier version has.
    pub(crate) fn refers(&self) -> bool {
        self.refers_to.is_some()
    }

    /// Appends the frame of the next page.
    pub(crate) fn frame(
        &mut self,
        page: u32,
        (encoding, frame): (Encoding, &[u8]),
        hash: PageHash,
    ) -> Result<(), Error> {
        let len = u32::try_from(frame.len()).map_err(|_| Error::Misuse("a frame above 4 GiB".to_owned()))?;
        self.index.add(page, len, encoding, hash);
        self.needs_below |= encoding == Encoding::Difference;
        self.append(frame)
    }

    /// Has the next page be what an earlier version has in its place. Nothing is stored.
    pub(crate) fn earlier(&mut self, page: u32, version: u64, hash: PageHash) -> Result<(), Error> {
        let back = self.number.checked_sub(version).and_then(|back| u32::try_from(back).ok());
        let Some(back) = back.filter(|back| *back > 0) else {
            return Err(Error::Misuse(format!("version {} refers to version {version}", self.number)));
        };
        self.index.add_earlier(page, back, hash);
        self.needs_below = true;
        self.refers_to = Some(self.refers_to.map_or(version, |lowest| lowest.min(version)));
        Ok(())
    }

    /// Ends the file, makes it durable and gives it its name; answers its length.
    pub(crate) fn publish(mut self, meta: &Meta, name: FileName) -> Result<u64, Error> {
        let index = std::mem::take(&mut self.index);
        let unfit =
            |error: serde_json::Error| Error::Misuse(format!("metadata that cannot be read back: {error}"));
        let meta = Meta { refers_to: self.refers_to, ..meta.clone() };
        let meta = serde_json::to_vec(&meta).map_err(unfit)?;
        // A note can be nested more deeply than a reader follows.
        serde_json::from_slice::<Meta>(&meta).map_err(unfit)?;
        let (index_len, meta_len) = (len_of(index.bytes()), len_of(&meta));
        if meta_len > META_MAX_BYTES {
            return Err(Error::Misuse(format!("metadata of {meta_len} bytes, above {META_MAX_BYTES}")));
        }
        let index_offset = self.len();
        self.append(index.bytes())?;
        self.append(&meta)?;
        self.flush()?;
        let footer = Footer {
            index_offset,
            index_len,
            meta_len,
            file_len: self.written + FOOTER_LEN,
            entry_count: index.count,
            index_checksum: hash(index.bytes()),
            meta_checksum: hash(&meta),
            body_checksum: self.body.finalize().into(),
        };
        self.buffer.extend(footer.encode());
        self.flush()?;
        self.folder.sync(&self.file, &self.temporary)?;
        let is_new = self.folder.read(&name.text()).is_err();
        self.folder.rename(&self.temporary, &name.text())?;
        self.in_place = true;
        if let Err(error) = self.folder.sync_folder() {
            // Nobody was told of the file, so it must not count after a crash either; unless another one of the name was
            // there, which it replaces with what is needed of that.
            if is_new {
                let _ = self.folder.unlink(&name.text());
            }
            return Err(error);
        }
        Ok(self.written)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let path = || self.folder.path().join(&self.temporary);
        self.file.write_all(&self.buffer).map_err(|source| Error::io("write", &path(), source))?;
        self.body.update(&self.buffer);
        self.written += len_of(&self.buffer);
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        if !self.in_place {
            // Where even this fails, the next opening removes the file.
            let _ = self.folder.unlink(&self.temporary);
        }
    }
}

/// A slice's length as files count.
fn len_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_reported_and_leaves_nothing() {
        let path = tempfile::tempdir().unwrap();
        let folder = Arc::new(Folder::open(path.path()).unwrap());
        let mut packer = Packer::create(&folder, 7).unwrap();
        // The device that is always full stands in for a disk that became so.
        packer.file = File::options().write(true).open("/dev/full").unwrap();
        let page = vec![1; 4096];
        let error =
            (1..1000).find_map(|number| packer.frame(number, (Encoding::Raw, &page), [0; 32]).err()).unwrap();
        assert!(matches!(&error, Error::Full { path, .. } if path.ends_with("7.tmp")), "{error}");
        assert_eq!(folder.list().unwrap().len(), 1);
        drop(packer);
        assert_eq!(folder.list().unwrap().len(), 0);
    }
}
