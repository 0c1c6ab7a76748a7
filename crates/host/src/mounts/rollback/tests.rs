//! What can be told without a device of one's own: headers, memory, and refusals.

use super::*;

fn header(write: u8, read: u8) -> Vec<u8> {
    [MAGIC, &[16, 0, write, read, 0, 64, 32, 32], &[0; 76]].concat()
}

#[test]
fn the_mode_is_read_from_the_header() {
    let mode = |bytes: &[u8]| is_rollback(Path::new("r.db"), bytes);
    assert!(mode(&header(1, 1)).unwrap());
    for (write, read) in [(2, 2), (1, 2), (2, 1)] {
        assert!(!mode(&header(write, read)).unwrap());
    }
    for foreign in [vec![], b"SQLite".to_vec(), vec![0; 512], header(3, 2), header(1, 0), MAGIC.to_vec()] {
        let error = mode(&foreign).unwrap_err();
        assert!(matches!(&error, Error::NotADatabase { path, .. } if path == Path::new("r.db")), "{error}");
    }
}

#[test]
fn blocks_are_aligned_and_as_long_as_asked_for() {
    for length in [512, 4096, 65536] {
        let mut block = Block::new(length);
        assert_eq!(block.bytes().len(), length);
        assert!(block.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
        block.set(ROLLBACK);
        let set: Vec<usize> = (0..length).filter(|at| block.bytes()[*at] != 0).collect();
        assert_eq!(set, [18, 19]);
    }
}

#[test]
fn a_device_that_is_not_the_files_own_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.db");
    std::fs::write(&file, header(2, 2)).unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let error = into_rollback_mode(&file, Path::new("/dev/null")).unwrap_err();
    assert!(matches!(&error, Error::NotTheDevice { path, .. } if path == Path::new("/dev/null")), "{error}");
    let error = into_rollback_mode(&link, Path::new("/dev/null")).unwrap_err();
    assert!(matches!(&error, Error::NotAFile(path) if path == &link), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), header(2, 2));
}
