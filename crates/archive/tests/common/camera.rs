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

/// What a power cut may leave of changes to the folder that were not yet synced: of what was added and removed, any part.
fn undone(durable: &Image, now: &Image) -> Vec<Image> {
    let has = |image: &Image, name: &String| image.iter().any(|(other, _)| other == name);
    let added: Vec<_> = now.iter().filter(|(name, _)| !has(durable, name)).cloned().collect();
    let removed: Vec<_> = durable.iter().filter(|(name, _)| !has(now, name)).cloned().collect();
    let stays: Vec<_> = now.iter().filter(|(name, _)| has(durable, name)).cloned().collect();
    let changed: Vec<_> = added.into_iter().chain(removed).take(8).collect();
    let subset = |bits: usize| changed.iter().enumerate().filter(move |(nth, _)| bits >> nth & 1 == 1);
    (0..1 << changed.len())
        .map(|bits| stays.iter().cloned().chain(subset(bits).map(|(_, file)| file.clone())).collect())
        .collect()
}

/// Runs an operation and answers every image that a crash during it may leave.
pub fn images_of(folder: &Path, operation: impl FnOnce()) -> Vec<Image> {
    boundary::listen(take_images);
    CAMERA.set(Some((folder.to_owned(), files(folder), Vec::new())));
    operation();
    let (folder, durable, mut images) = CAMERA.take().unwrap();
    images.extend(undone(&durable, &files(&folder)));
    // What the operation leaves when nothing happens to it.
    images.push(files(&folder));
    images
}

/// Runs an operation and answers the boundaries that it passes.
pub fn steps_of(operation: impl FnOnce()) -> Vec<&'static str> {
    boundary::listen(take_images);
    ORDER.set(Some(Vec::new()));
    operation();
    ORDER.take().unwrap()
}
