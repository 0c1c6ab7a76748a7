//! A store: where it is, and whose.

use std::path::{Path, PathBuf};

/// A store that is to be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is.
    pub path: PathBuf,
    /// The number of the user whose file it has to be, if that matters.
    pub owner: Option<u32>,
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Target {
    fn from(path: &P) -> Self {
        Self { path: path.as_ref().to_owned(), owner: None }
    }
}
