//! Crash images: the folder as it is at every boundary of an operation, as if the machine had stopped there, and again
//! with every removal undone that was not yet durable.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use asat_core::boundary;

use super::files;

/// A folder's files: names and bytes.
pub type Image = Vec<(String, Vec<u8>)>;

thread_local! {
    /// The folder looked at, the image last made durable, and the images taken. Every boundary is passed on
    /// the calling thread, so tests that run side by side do not see each other's.
    static CAMERA: RefCell<Option<(PathBuf, Image, Vec<Image>)>> = const { RefCell::new(None) };
    /// The boundaries passed, where a test wants to know.
    static ORDER: RefCell<Option<Vec<&'static str>>> = const { RefCell::new(None) };
}

fn take_images(step: &'static str) {
    ORDER.with_borrow_mut(|order| order.iter_mut().for_each(|order| order.push(step)));
    CAMERA.with_borrow_mut(|camera| {
        let Some((folder, durable, images)) = camera else { return };
        let now = files(folder);
        if step == "archive: fsync folder" {
            images.extend(undone(durable, &now));
        }
        if step == "archive: folder fsynced" {
            *durable = now.clone();
        }
        images.push(now);
    });
}

/// What a power cut may leave of changes to the folder that were not yet synced.
fn undone(durable: &Image, now: &Image) -> Vec<Image> {
    let has = |image: &Image, name: &String| image.iter().any(|(other, _)| other == name);
    let added = now.iter().any(|(name, _)| !has(durable, name));
    let removed: Vec<_> = durable.iter().filter(|(name, _)| !has(now, name)).take(8).cloned().collect();
    if added {
        // A rename: it happened, or it did not.
        return vec![durable.clone()];
    }
    let subset = |bits: usize| removed.iter().enumerate().filter(move |(nth, _)| bits >> nth & 1 == 1);
    (1..1 << removed.len())
        .map(|bits| now.iter().cloned().chain(subset(bits).map(|(_, file)| file.clone())).collect())
        .collect()
}

/// Runs an operation and answers every image that a crash during it may leave.
pub fn images_of(folder: &Path, operation: impl FnOnce()) -> Vec<Image> {
    boundary::listen(take_images);
    CAMERA.set(Some((folder.to_owned(), files(folder), Vec::new())));
    operation();
    CAMERA.take().unwrap().2
}

/// Runs an operation and answers the boundaries that it passes.
pub fn steps_of(operation: impl FnOnce()) -> Vec<&'static str> {
    boundary::listen(take_images);
    ORDER.set(Some(Vec::new()));
    operation();
    ORDER.take().unwrap()
}
