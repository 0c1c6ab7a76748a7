//! Databases as bytes: what a copy must hold, taken without asat.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::clients::client::Python;
use crate::common::{PATIENCE, World};

/// The whole store as one file in rollback mode, at a moment at which nobody commits: a copy of the file and its
/// write-ahead log is checkpointed elsewhere, and the bytes that name the journal mode are those of a copy.
pub fn image(store: &Path, scratch: &Path, python: &mut Python) -> Vec<u8> {
    let wal = beside(store, "-wal");
    fs::copy(store, scratch).unwrap();
    if wal.exists() {
        fs::copy(&wal, beside(scratch, "-wal")).unwrap();
        python.run(scratch, &["PRAGMA wal_checkpoint(truncate)"]);
        python.close(scratch);
    }
    let mut bytes = fs::read(scratch).unwrap();
    fs::remove_file(scratch).unwrap();
    bytes[18..20].fill(1);
    bytes
}

/// Checks that a copy is this image, and says which page is not.
pub fn expect_image(copy: &Path, image: &[u8], what: &str) {
    let found = fs::read(copy).unwrap();
    if found == image {
        return;
    }
    let page_size = match u16::from_be_bytes([image[16], image[17]]) {
        1 => 65536,
        size => usize::from(size),
    };
    let page =
        found.chunks(page_size).zip(image.chunks(page_size)).position(|(found, expected)| found != expected);
    let (found, expected) = (found.len(), image.len());
    panic!(
        "{what}: {found} bytes where there should be {expected}; the first other page is {:?}",
        page.map(|p| p + 1)
    );
}

/// Checks that a version's download is the bytes of its copy, without keeping either in memory.
pub fn expect_download(world: &World, version: &str, copy: &Path) {
    let mut stream = UnixStream::connect(world.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /versions/{version}/database HTTP/1.1\r\nHost: asat\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut download = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(download.by_ref().bytes().next().unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    let mut file = fs::File::open(copy).unwrap();
    let mut left = file.metadata().unwrap().len();
    let (mut sent, mut kept) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    while left > 0 {
        let length = usize::try_from(left.min(1 << 20)).unwrap();
        download.read_exact(&mut sent[..length]).unwrap();
        file.read_exact(&mut kept[..length]).unwrap();
        assert!(
            sent[..length] == kept[..length],
            "{version}: the download differs {left} bytes before its end"
        );
        left -= length as u64;
    }
    assert_eq!(download.read(&mut sent).unwrap(), 0, "{version}: the download is longer than the copy");
}

/// The path of a file beside a database.
pub fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The names in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}
