//! A machine that stops in the middle: what is in the folder then is opened, with files half-written and removals undone.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use asat_archive::Archive;

use crate::base::Known;
use crate::choices::Dice;
use crate::common::{self, files, put_files};
use crate::scenario::{Found, Harm, assert_holds};

/// A folder's files: names and bytes.
type Image = Vec<(String, Vec<u8>)>;

/// A machine that stops after so many steps.
pub(crate) struct Crash {
    folder: PathBuf,
    after: usize,
    dice: Dice,
    /// What was in the folder as it was synced last.
    durable: Image,
    /// What is left, and what is known of it.
    left: Option<(Image, Known)>,
}

impl Crash {
    pub(crate) fn new(folder: &Path, after: usize, dice: u64) -> Self {
        Self { folder: folder.to_owned(), after, dice: Dice::new(dice), durable: files(folder), left: None }
    }

    /// Sees a step; `known` is what is known then.
    pub(crate) fn see(&mut self, step: &str, known: impl FnOnce() -> Known) {
        if self.left.is_some() {
            return;
        }
        if step == "archive: folder fsynced" {
            self.durable = files(&self.folder);
        }
        if self.after > 0 {
            self.after -= 1;
            return;
        }
        let mut image = self.power_cut();
        for (name, bytes) in &mut image {
            if name.ends_with(".tmp") {
                bytes.truncate(self.dice.below(bytes.len() + 1));
            }
        }
        self.left = Some((image, known()));
    }

    /// Of what was not synced, anything may be undone.
    fn power_cut(&mut self) -> Image {
        let now = files(&self.folder);
        if self.dice.once_in(2) {
            return now;
        }
        let has = |image: &Image, name: &String| image.iter().any(|(other, _)| other == name);
        let is_new = |(name, _): &&(String, Vec<u8>)| !name.ends_with(".tmp") && !has(&self.durable, name);
        if now.iter().any(|file| is_new(&file)) {
            return self.durable.clone();
        }
        let removed: Image = self.durable.iter().filter(|(name, _)| !has(&now, name)).cloned().collect();
        now.into_iter().chain(removed.into_iter().filter(|_| self.dice.once_in(2))).collect()
    }

    /// What is left is whole, and goes on being so.
    pub(crate) fn check(self, harm: Harm) -> Found {
        let Some((image, known)) = self.left.filter(|_| harm == Harm::None) else { return Ok(()) };
        let crashed = |what: String| format!("after a crash: {what}");
        let folder = common::folder();
        put_files(folder.path(), &image);
        let (archive, opened) = Archive::open(folder.path()).map_err(|error| crashed(error.to_string()))?;
        if !opened.foreign.is_empty() {
            return Err(crashed(format!("{:?} are foreign", opened.foreign)));
        }
        assert_holds(&archive, &known).map_err(crashed)?;
        archive.compact(&mut |_| ControlFlow::Continue(())).map_err(|error| crashed(error.to_string()))?;
        assert_holds(&archive, &known).map_err(|what| crashed(format!("{what}, after compaction")))?;
        drop(archive);
        let opened = Archive::open(folder.path()).map_err(|error| crashed(error.to_string()))?.1;
        match opened.removed.is_empty() && opened.foreign.is_empty() {
            true => Ok(()),
            false => Err(crashed(format!("{opened:?} was left"))),
        }
    }
}
