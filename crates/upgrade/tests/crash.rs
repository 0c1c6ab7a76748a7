//! Crashes: the folders as they are at every boundary of an upgrade, as if the machine had stopped there, and again with what was not
//! durable yet undone. And a disk that is full.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use asat_core::{Code, boundary};
use common::{Image, Root, assert_holds, image_of, names, put, upgrade};

/// The folder looked at, and the images taken with the steps at which they were.
type Camera = Option<(PathBuf, Vec<(&'static str, Image)>)>;

thread_local! {
    /// Every boundary is passed on the calling thread.
    static CAMERA: RefCell<Camera> = const { RefCell::new(None) };
}

fn listen() {
    boundary::listen(|step| {
        CAMERA.with_borrow_mut(|camera| {
            if let Some((root, images)) = camera {
                images.push((step, image_of(root)));
            }
        });
    });
}

fn images_of(root: &Path, operation: impl FnOnce()) -> Vec<(&'static str, Image)> {
    listen();
    CAMERA.set(Some((root.to_owned(), Vec::new())));
    operation();
    CAMERA.take().unwrap().1
}

/// The old archive and none of today's, or today's whole: nothing else is ever in the place of the archive.
fn is_old(root: &Path) -> bool {
    let names = names(&root.join("report"));
    let olds = names.iter().filter(|name| name.ends_with(".pack") || name.ends_with(".layer")).count();
    assert!(olds == 0 || olds == names.len(), "{names:?}");
    olds > 0
}

#[test]
fn an_upgrade_that_is_interrupted_anywhere_goes_on_where_it_was() {
    let whole = Root::with("few");
    let before = image_of(whole.path());
    let images = images_of(whole.path(), || _ = whole.upgrade().unwrap());
    let after = image_of(whole.path());
    let (mut olds, mut news) = (0, 0);
    for (nth, (step, image)) in images.iter().enumerate() {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        put(root.path(), image);
        if is_old(root.path()) {
            olds += 1;
            assert!(before.iter().all(|(path, bytes)| image.get(path) == Some(bytes)), "{nth}: {step}");
        } else {
            news += 1;
            assert_holds(&root.path().join("report"), &whole.versions);
        }
        upgrade(root.path(), false).unwrap();
        assert_eq!(names(root.path()), ["report"], "{nth}: {step}");
        assert_holds(&root.path().join("report"), &whole.versions);
        assert!(upgrade(root.path(), false).unwrap().versions.is_none());
    }
    assert!(olds > 50 && news > 20, "{olds} {news}");
    assert!(after.keys().all(|path| path.starts_with("report")));
    // The folders are exchanged once all is there, that is made durable, and only then anything is removed.
    let steps: Vec<&str> =
        images.iter().map(|(step, _)| *step).filter(|step| step.starts_with("upgrade")).collect();
    let first = [
        "upgrade: exchange",
        "upgrade: exchanged",
        "upgrade: fsync folder",
        "upgrade: folder fsynced",
        "upgrade: unlink",
    ];
    assert_eq!(steps[..5], first);
    let last = [
        "upgrade: remove folder",
        "upgrade: folder removed",
        "upgrade: fsync folder",
        "upgrade: folder fsynced",
    ];
    assert_eq!(steps[steps.len() - 4..], last);
}

/// Files that were removed may be there again after a power cut, any of them.
#[test]
fn what_comes_back_of_the_old_archive_is_removed_again() {
    let whole = Root::with("few");
    let old: Image = image_of(whole.path());
    whole.upgrade().unwrap();
    let new = image_of(whole.path());
    let files: Vec<&String> = old.keys().filter(|path| path.contains('/')).collect();
    for seed in 0..40_u32 {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut image = new.clone();
        image.insert(".report.upgrade".to_owned(), None);
        for (nth, path) in (0..).zip(&files) {
            if seed.wrapping_mul(0x9e37_79b9) >> (nth % 32) & 1 == 1 {
                image.insert(path.replace("report/", ".report.upgrade/"), old[*path].clone());
            }
        }
        put(root.path(), &image);
        assert!(upgrade(root.path(), false).unwrap().versions.is_none());
        assert_eq!(image_of(root.path()), new);
    }
}

/// Set in the process that has a small disk of its own: where that is.
const SMALL_DISK: &str = "ASAT_TEST_SMALL_DISK";

#[test]
fn a_full_disk_leaves_the_old_archive_and_what_was_taken_over() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return fill(Path::new(&disk));
    }
    // A disk in memory, which this test mounts for itself alone, and in which it runs once more.
    let disk = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m,mode=0700 none \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .arg(if rustix::process::geteuid().is_root() { "-m" } else { "-rm" })
        .args(["sh", "-c", script, "sh"]);
    command.arg(disk.path()).arg(std::env::current_exe().unwrap()).args(["--exact", "--nocapture"]);
    command.arg("a_full_disk_leaves_the_old_archive_and_what_was_taken_over").env(SMALL_DISK, disk.path());
    let output = command.output().expect("this test needs the program unshare (package util-linux)");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Upgrades where so many pages are free, for every number until that is enough.
fn fill(disk: &Path) {
    for left in 0.. {
        let root = Root::on("few", disk);
        let before = image_of(root.path());
        let space = rustix::fs::statvfs(disk).unwrap();
        let (filler, bytes) = (disk.join("filler"), (space.f_bavail - left) * space.f_frsize);
        fs::write(&filler, vec![1; usize::try_from(bytes).unwrap()]).unwrap();
        let result = root.upgrade();
        fs::remove_file(&filler).unwrap();
        let Err(problem) = result else {
            assert!(left >= 13, "a page for each version, at least: {left}");
            break;
        };
        assert_eq!(problem.code, Code::StorageFull, "{problem}");
        assert!(problem.hint.contains(".report.upgrade"), "{problem}");
        let after = image_of(root.path());
        assert!(before.iter().all(|(path, bytes)| after[path] == *bytes));
        assert_eq!(names(&root.archive()).len(), before.len() - 1);
        root.upgrade().unwrap();
        assert_holds(&root.archive(), &root.versions);
    }
}
