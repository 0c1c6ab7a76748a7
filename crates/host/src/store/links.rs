//! Following a store's path, and no link of somebody who could not read the file that it leads to.
//!
//! Whoever may write to a folder on the path can put a link in the place of the store, or of a folder. The daemon may read
//! more than that user, as root does, and would publish what the link leads to, or overwrite it in a restore. So a link is followed
//! only if it is root's, this process's own user's, or of the owner of the file that it leads to.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whose links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Also those of the owner of the file.
    Owner,
    /// Those of root and of this process's user alone: for where the tree is a stranger's, as in a snapshot.
    Own,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The path without links.
    pub(crate) path: PathBuf,
    /// A handle on the file, which gives neither its content nor its locks.
    pub(crate) handle: File,
    /// A handle on the folder that the file is in.
    pub(crate) folder: File,
    /// A link that is not to be followed.
    pub(crate) foreign: Option<Foreign>,
}

/// A link of one user's that leads to a file of another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Where the link is.
    pub(crate) link: PathBuf,
    /// Whose it is.
    pub(crate) user: u32,
    /// Whose the file is.
    pub(crate) owner: u32,
}

/// Follows a path, folder by folder, with a handle on each.
pub(crate) fn follow(path: &Path, trust: Trust) -> io::Result<Followed> {
    let path = std::path::absolute(path)?;
    let root = || openat(CWD, "/", HANDLE | OFlags::DIRECTORY, Mode::empty()).map(File::from);
    let mut ahead = steps(&path);
    let mut behind: Vec<(OsString, File)> = vec![(OsString::from("/"), root()?)];
    let mut links = Vec::new();
    while let Some(step) = ahead.pop_front() {
        match step {
            Step::Root => behind.truncate(1),
            Step::Up if behind.len() > 1 => drop(behind.pop()),
            Step::Up => {}
            Step::Down(name) => {
                let Some((_, folder)) = behind.last() else { return Err(Errno::NOENT.into()) };
                let handle = look_in(folder, &name)?;
                let metadata = handle.metadata()?;
                if !metadata.is_symlink() {
                    behind.push((name, handle));
                    continue;
                }
                if links.len() == MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                links.push((path_of(&behind).join(name), metadata.uid()));
                let target = readlinkat(&handle, c"", Vec::new())?.into_bytes();
                let target = steps(Path::new(&OsString::from_vec(target)));
                target.into_iter().rev().for_each(|step| ahead.push_front(step));
            }
        }
    }
    let path = path_of(&behind);
    let (Some((_, handle)), Some((_, folder))) = (behind.pop(), behind.pop()) else {
        return Err(Errno::ISDIR.into());
    };
    let owner = handle.metadata()?.uid();
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = |user: u32| ![0, own].contains(&user) && (trust == Trust::Own || user != owner);
    let foreign = links.into_iter().find(|(_, user)| is_foreign(*user));
    let foreign = foreign.map(|(link, user)| Foreign { link, user, owner });
    Ok(Followed { path, handle, folder, foreign })
}

/// A handle on what has a name in a folder, be it a link.
pub(crate) fn look_in(folder: &File, name: &OsStr) -> io::Result<File> {
    Ok(File::from(openat(folder, name, HANDLE, Mode::empty())?))
}

/// Where a path leads, if no link on it is a stranger's.
pub(crate) fn follow_trusted(path: &Path) -> io::Result<Followed> {
    let followed = follow(path, Trust::Owner)?;
    match followed.foreign {
        Some(Foreign { link, .. }) => {
            let what = format!("{} is a symbolic link to another user's file", link.display());
            Err(io::Error::other(what))
        }
        None => Ok(followed),
    }
}

/// A step on a path.
enum Step {
    Root,
    Up,
    Down(OsString),
}

fn steps(path: &Path) -> VecDeque<Step> {
    let step = |component: Component<'_>| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

fn path_of(behind: &[(OsString, File)]) -> PathBuf {
    behind.iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_path_is_followed_as_the_kernel_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "x").unwrap();
        symlink("../b/./file", at("a/b/relative")).unwrap();
        symlink(at("a/b"), at("absolute")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink("/../../../etc", at("up")).unwrap();
        for name in ["a/b/file", "a/b/relative", "absolute/relative", "absolute/../b/file", "up", "a//b/."] {
            let followed = follow(&at(name), Trust::Own).unwrap();
            assert_eq!(followed.path, fs::canonicalize(at(name)).unwrap(), "{name}");
            let expected = fs::metadata(at(name)).unwrap();
            assert_eq!(followed.handle.metadata().unwrap().ino(), expected.ino(), "{name}");
            assert_eq!(followed.foreign, None, "{name}");
        }
        for name in ["none", "a/b/file/below", "loop"] {
            let error = follow(&at(name), Trust::Owner).unwrap_err();
            let expected = fs::canonicalize(at(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), expected.raw_os_error(), "{name}");
        }
    }

    #[test]
    fn links_of_others_are_told() {
        assert!(rustix::process::geteuid().is_root(), "this test gives files to other users: run it as root");
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (file, link) = (at("file"), at("link"));
        fs::write(&file, "x").unwrap();
        symlink(&file, &link).unwrap();
        for (user, owner, trust, is_foreign) in [
            (0, 2, Trust::Owner, false),
            (0, 2, Trust::Own, false),
            (1, 1, Trust::Owner, false),
            (1, 1, Trust::Own, true),
            (1, 2, Trust::Owner, true),
            (1, 0, Trust::Owner, true),
        ] {
            lchown(&link, Some(user), None).unwrap();
            lchown(&file, Some(owner), None).unwrap();
            let foreign = follow(&link, trust).unwrap().foreign;
            let expected = is_foreign.then(|| Foreign { link: link.clone(), user, owner });
            assert_eq!(foreign, expected, "{user} {owner} {trust:?}");
        }
    }
}
