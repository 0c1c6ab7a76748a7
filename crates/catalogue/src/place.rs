//! Whether the files of an open catalogue are still where they were.
//!
//! A file that is deleted or replaced under a process that has it open goes on working, and everything in it is gone when that ends.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::create::beside;
use crate::error::Error;

/// The files that a connection has open, by the numbers that the file system gave them. While they are open no other file
/// gets these.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    files: Vec<(PathBuf, (u64, u64))>,
}

impl Place {
    /// Where the files are that a connection has just opened: the database, its log and the index of that.
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        let files = ["", "-wal", "-shm"].map(|suffix| beside(path, suffix));
        let found = files.into_iter().map(|file| {
            let numbers = numbers(&file).map_err(|source| Error::io("look at", &file, source))?;
            Ok((file, numbers))
        });
        Ok(Self { path: path.to_owned(), files: found.collect::<Result<_, Error>>()? })
    }

    /// Refuses where one of them is gone, or another one has its name.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (file, known) in &self.files {
            let what = match numbers(file) {
                Ok(found) if found == *known => continue,
                Ok(_) => "was replaced",
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
                Err(source) => return Err(Error::io("look at", file, source)),
            };
            return Err(Error::Gone { path: self.path.clone(), file: file.clone(), what });
        }
        Ok(())
    }
}

fn numbers(file: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(file).map(|found| (found.dev(), found.ino()))
}
