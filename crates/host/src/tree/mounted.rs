//! What is mounted: which trees are ours, whether anybody answers there, and how they get away again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::Error;
use crate::volume::mounts::{self, Mount};

pub(super) const TABLE: &str = "/proc/self/mountinfo";
/// What mounts for a user that may not. It comes with the package `fuse3`.
pub(super) const HELPER: &str = "fusermount3";

/// How long whoever looks into a tree waits until it counts as dead.
const PATIENCE: Duration = Duration::from_secs(2);

/// Takes away every tree of this name whose process is gone, wherever it is: a former configuration may have had another root.
/// Answers their places.
///
/// # Errors
/// Where the mounts cannot be listed, or one cannot be taken away.
pub fn clean(name: &str) -> Result<Vec<PathBuf>, Error> {
    let mut cleaned = Vec::new();
    for Mount { id, mount_point, .. } in mounted()?.into_iter().filter(|mount| is_ours(mount, name)) {
        // What is mounted over it is not ours to take away.
        let is_seen = top(&mount_point)?.is_some_and(|top| top.id == id);
        if is_seen && ask(&mount_point)? == Answer::Nobody {
            detach(&mount_point)?;
            cleaned.push(mount_point);
        }
    }
    Ok(cleaned)
}

/// Refuses a tree into which nobody can look.
pub(super) fn check_answered(root: &Path) -> Result<(), Error> {
    let what = match ask(root)? {
        Answer::Some => return Ok(()),
        Answer::Nobody => "its process is gone, or its connection to the kernel was ended".to_owned(),
        Answer::Late => format!("there is no answer within {} seconds", PATIENCE.as_secs()),
    };
    Err(Error::Dead { path: root.to_owned(), what })
}

/// What comes of looking into a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is answered, be it that only others may look.
    Some,
    /// There is nobody to answer.
    Nobody,
    /// There is somebody, who does not.
    Late,
}

fn ask(root: &Path) -> Result<Answer, Error> {
    let (sender, answer) = channel();
    let asked = root.to_owned();
    // Whoever asks a process that was stopped waits until that goes on, and cannot be ended.
    let asking = Builder::new().name("asking".to_owned()).spawn(move || sender.send(statvfs(&asked).err()));
    drop(asking.map_err(Error::io("look into", root))?);
    Ok(match answer.recv_timeout(PATIENCE) {
        Ok(Some(Errno::NOTCONN)) => Answer::Nobody,
        Ok(_) => Answer::Some,
        Err(_) => Answer::Late,
    })
}

/// What is seen at a path, where anything is mounted there.
pub(super) fn top(path: &Path) -> Result<Option<Mount>, Error> {
    Ok(mounted_at(path)?.pop())
}

/// What is mounted at a path: of several, the one that hides the others comes last.
pub(super) fn mounted_at(path: &Path) -> Result<Vec<Mount>, Error> {
    let mut mounts = mounted()?;
    mounts.retain(|mount| mount.mount_point == path);
    Ok(mounts)
}

fn mounted() -> Result<Vec<Mount>, Error> {
    let table = fs::read(TABLE).map_err(Error::io("read", Path::new(TABLE)))?;
    Ok(mounts::parse(&String::from_utf8_lossy(&table)))
}

/// Whether a mount is a tree of this name.
pub(super) fn is_ours(mount: &Mount, name: &str) -> bool {
    (mount.fs == "fuse" || mount.fs.starts_with("fuse.")) && mount.source == name
}

/// Takes away what is mounted at a path. Who has a file of it open keeps that.
pub(super) fn detach(path: &Path) -> Result<(), Error> {
    match unmount(path, UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => detach_with_help(path),
        Err(error) => Err(Error::io("unmount", path)(error.into())),
    }
}

fn detach_with_help(path: &Path) -> Result<(), Error> {
    let failed = Error::io("unmount", path);
    let mut helper = Command::new(HELPER);
    let said = helper.args(["-u", "-z", "--"]).arg(path).stdin(Stdio::null()).output();
    match said {
        Ok(said) if said.status.success() => Ok(()),
        Ok(said) => Err(failed(io::Error::other(String::from_utf8_lossy(&said.stderr).trim().to_owned()))),
        Err(error) => Err(failed(error)),
    }
}
