//! The claim on the state folder: one daemon at a time.
//!
//! Two daemons on one catalogue would undo each other's work. The first takes an exclusive `flock` on a file
//! in the folder and keeps it until it ends, however it ends: the kernel releases the lock with the process. A program that the
//! daemon was about to start when it was killed has the lock, too, for the moment until it runs: the next daemon waits for that.
//! The file's text is the process id, for people and for the error that the second daemon gets.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use asat_core::{Code, Problem};
use rustix::fs::FlockOperation;

use crate::lvm::InstallationId;

/// The file with the installation's id.
const INSTALLATION: &str = "installation";
/// The file that is locked.
const LOCK: &str = "lock";
/// How long a daemon waits for the lock: the one that has it may be ending.
const PATIENCE: Duration = Duration::from_secs(2);
/// How its second line begins, which says of which folder that was written.
const PLACE: &str = "folder ";

/// The state folder, claimed for as long as this lives.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    _lock: File,
}

impl StateFolder {
    /// Claims the folder, making it with mode 0710 where it is missing: the daemon's group may pass through to the
    /// as-at copies, and look at nothing else.
    ///
    /// # Errors
    /// Where the path is no folder, belongs to somebody else, can be written by others, cannot be written
    /// by this process, or is claimed by another daemon.
    pub fn claim(path: &Path) -> Result<Self, Error> {
        let io = |doing| move |source| Error::Io { doing, path: path.to_owned(), source };
        if let Err(source) = fs::metadata(path) {
            if source.kind() != io::ErrorKind::NotFound {
                return Err(io("look at")(source));
            }
            DirBuilder::new().recursive(true).mode(0o710).create(path).map_err(io("create"))?;
        }
        let path = fs::canonicalize(path).map_err(io("resolve"))?;
        check_folder(&path)?;
        let lock = take_lock(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Keeps daemons from a folder for as long as the answer lives, and changes nothing there; `None` if one has it, or that cannot be
    /// told. A daemon that starts meanwhile waits, but not for long.
    #[must_use]
    pub fn hold_free(path: &Path) -> Option<File> {
        let lock = OpenOptions::new().read(true).custom_flags(no_follow()).open(path.join(LOCK)).ok()?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).ok().map(|()| lock)
    }

    /// The installation that the folder is of, as [`Self::keep`] has written it down. `None` where nothing is written down yet, and in
    /// a copy of the folder, since the installation's snapshots may be another daemon's then.
    ///
    /// # Errors
    /// Where what is written down cannot be read, or is no id.
    pub fn installation(&self) -> Result<Option<InstallationId>, Problem> {
        let (kept, place) = (Self::kept(&self.path)?, self.place()?);
        Ok(kept.filter(|(_, at)| *at == place).map(|(id, _)| id))
    }

    /// The installation that is written down in a folder, which may be another process's. `None` where no daemon has been there yet.
    ///
    /// # Errors
    /// Where what is written down cannot be read, or is no id.
    pub fn written_down(path: &Path) -> Result<Option<InstallationId>, Problem> {
        Ok(Self::kept(path)?.map(|(id, _)| id))
    }

    /// What is written down: of which installation a folder is, and which folder that is.
    fn kept(folder: &Path) -> Result<Option<(InstallationId, String)>, Problem> {
        let path = folder.join(INSTALLATION);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| Error::Io { doing: "read", path: path.clone(), source })?,
        };
        let read = || {
            let (id, place) = text.strip_suffix('\n')?.split_once('\n')?;
            let place = place.strip_prefix(PLACE).filter(|place| !place.contains('\n'))?;
            Some((id.parse().ok()?, place.to_owned()))
        };
        let kept = read().ok_or_else(|| {
            let detail = format!("{} has no installation's id: 32 hexadecimal digits", path.display());
            Problem::new(Code::Damaged, detail, "remove it; `lvs -o lv_name,lv_tags @asat` lists ids")
        })?;
        Ok(Some(kept))
    }

    /// What tells this folder from a copy of it: its inode, and when that was made where the file system knows.
    fn place(&self) -> Result<String, Error> {
        let metadata = fs::metadata(&self.path);
        let metadata =
            metadata.map_err(|source| Error::Io { doing: "look at", path: self.path.clone(), source })?;
        let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        Ok(format!("{} {}", metadata.ino(), made.unwrap_or_default().as_nanos()))
    }

    /// Writes down which installation the folder is of, where that is not written down: where the catalogue is lost, which says it
    /// too, it is known whose the snapshots are. What a copy of the folder says of the one that it was copied from stays.
    ///
    /// # Errors
    /// As [`Self::write_down`].
    pub fn keep(&self, installation: &InstallationId) -> Result<(), Error> {
        let is_kept =
            Self::kept(&self.path).is_ok_and(|kept| kept.is_some_and(|(id, _)| id == *installation));
        if is_kept { Ok(()) } else { self.write_down(installation) }
    }

    /// Writes down that the installation is of this folder and no other, to last.
    ///
    /// # Errors
    /// Where it cannot be written. What was written down before is there still.
    pub fn write_down(&self, installation: &InstallationId) -> Result<(), Error> {
        let place = self.place()?;
        let (path, draft) = (self.path.join(INSTALLATION), self.path.join(format!("{INSTALLATION}.new")));
        let io = |source| Error::Io { doing: "write", path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&draft).and_then(|mut file| {
            writeln!(file, "{}\n{PLACE}{place}", installation.as_str())?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&draft, &path)).map_err(io)?;
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(io)
    }

    /// The folder's path, with every symbolic link resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn check_folder(path: &Path) -> Result<(), Error> {
    let metadata =
        fs::metadata(path).map_err(|source| Error::Io { doing: "look at", path: path.to_owned(), source })?;
    if !metadata.is_dir() {
        return Err(Error::NotAFolder(path.to_owned()));
    }
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own {
        return Err(Error::NotOwned { path: path.to_owned(), owner: metadata.uid(), own });
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(Error::WritableByOthers(path.to_owned()));
    }
    Ok(())
}

fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

fn take_lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let io = |doing| {
        let path = path.clone();
        move |source| Error::Io { doing, path, source }
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_follow());
    let mut lock = options.open(&path).map_err(io("open"))?;
    let patience = Instant::now() + PATIENCE;
    while let Err(errno) = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if errno != rustix::io::Errno::WOULDBLOCK {
            return Err(io("lock")(errno.into()));
        }
        if Instant::now() > patience {
            return Err(Error::Claimed { path: folder.to_owned(), by: read_pid(&lock) });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    lock.set_len(0).map_err(io("write"))?;
    writeln!(lock, "{}", std::process::id()).map_err(io("write"))?;
    Ok(lock)
}

/// Who has written its process id into the lock file. Its writer may be just about to.
fn read_pid(lock: &File) -> Option<u32> {
    let mut text = String::new();
    lock.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Why the state folder could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another daemon has it.
    #[error("the state folder {} is in use by {}", .path.display(), describe(*.by))]
    Claimed {
        /// The folder.
        path: PathBuf,
        /// The other daemon's process id, where it could be read.
        by: Option<u32>,
    },
    /// Something else has that name.
    #[error("the state folder {} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// It belongs to another user.
    #[error("the state folder {} belongs to user {owner}, and this process runs as user {own}", .path.display())]
    NotOwned {
        /// The folder.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
        /// This process's effective user id.
        own: u32,
    },
    /// Others than its owner could change what is in it.
    #[error("the state folder {} can be written by others than its owner", .0.display())]
    WritableByOthers(PathBuf),
    /// The machine refused an operation.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
}

fn describe(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another asat".to_owned(), |pid| format!("another asat (process {pid})"))
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::NotOwned { path, own, .. } => {
                let hint = format!(
                    "run the daemon as the folder's owner, or change its owner: chown {own} {}",
                    path.display()
                );
                return Self::new(Code::Configuration, error.to_string(), hint);
            }
            Error::WritableByOthers(path) => {
                let hint = format!("take the permission away: chmod go-w {}", path.display());
                return Self::new(Code::Configuration, error.to_string(), hint);
            }
            Error::Claimed { .. } => (Code::InUse, "stop the other daemon, or give this one another `state`"),
            Error::NotAFolder(_) => (Code::Configuration, "name a folder as `state`"),
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    (Code::StorageFull, "free space on the disk that holds `state`")
                }
                io::ErrorKind::ReadOnlyFilesystem => (
                    Code::Configuration,
                    "name a folder as `state` in which the daemon may write; under systemd, ReadWritePaths= permits it",
                ),
                _ => (Code::Configuration, "name a local folder as `state` in which the daemon may write"),
            },
        };
        Self::new(code, error.to_string(), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn the_second_claim_is_told_who_has_the_first() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("var/state");
        let first = StateFolder::claim(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o710);
        let problem = Problem::from(StateFolder::claim(&path).unwrap_err());
        assert_eq!(problem.code, Code::InUse);
        assert!(problem.detail.contains(&format!("process {}", std::process::id())), "{problem}");
        drop(first);
        StateFolder::claim(&path).unwrap();
    }

    #[test]
    fn a_lock_that_a_killed_daemons_child_still_has_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "").unwrap();
        let mut child =
            std::process::Command::new("flock").arg(&path).args(["sleep", "0.3"]).spawn().unwrap();
        let other = File::open(&path).unwrap();
        while rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared).is_ok() {
            rustix::fs::flock(&other, FlockOperation::Unlock).unwrap();
        }
        StateFolder::claim(folder.path()).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_stale_or_hostile_lock_file_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lock"), "999999999999 not a pid \u{1b}[31m").unwrap();
        let held = StateFolder::claim(folder.path()).unwrap();
        let text = fs::read_to_string(held.path().join("lock")).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        fs::write(folder.path().join("lock"), "rubbish").unwrap();
        let problem = Problem::from(StateFolder::claim(folder.path()).unwrap_err());
        assert!(problem.detail.ends_with("in use by another asat"), "{problem}");
    }

    #[test]
    fn links_are_resolved_for_the_folder_and_refused_for_the_lock() {
        let parent = tempfile::tempdir().unwrap();
        let real = parent.path().join("real");
        let link = parent.path().join("link");
        symlink(&real, &link).unwrap();
        assert!(StateFolder::claim(&link).is_err(), "a dangling link");
        fs::create_dir(&real).unwrap();
        let held = StateFolder::claim(&link).unwrap();
        assert_eq!(held.path(), fs::canonicalize(&real).unwrap());
        assert!(matches!(StateFolder::claim(&real), Err(Error::Claimed { .. })));
        drop(held);
        fs::remove_file(real.join("lock")).unwrap();
        symlink(parent.path().join("elsewhere"), real.join("lock")).unwrap();
        assert!(matches!(StateFolder::claim(&real), Err(Error::Io { .. })));
    }

    #[test]
    fn it_says_of_which_installation_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let held = StateFolder::claim(folder.path()).unwrap();
        assert_eq!(held.installation(), Ok(None));
        let file = folder.path().join("installation");
        let ids = ["0193aa55c3d47e019f3b2c77d0e1f2a3", "1193aa55c3d47e019f3b2c77d0e1f2a3"];
        for id in ids.map(|id| id.parse().unwrap()) {
            held.keep(&id).unwrap();
            held.keep(&id).unwrap();
            assert_eq!(held.installation(), Ok(Some(id)));
        }
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        for rubbish in ["", "rubbish\n", &ids[0].to_uppercase(), &format!("{}\n{}\n", ids[0], ids[1])] {
            fs::write(&file, rubbish).unwrap();
            let problem = held.installation().unwrap_err();
            assert!(problem.detail.contains(file.to_str().unwrap()), "{problem}");
        }
        let id: InstallationId = ids[0].parse().unwrap();
        held.keep(&id).unwrap();
        assert_eq!(held.installation(), Ok(Some(id.clone())));

        // A copy is told from it, until somebody says that the installation is the copy's.
        let other = tempfile::tempdir().unwrap();
        fs::copy(&file, other.path().join("installation")).unwrap();
        let copy = StateFolder::claim(other.path()).unwrap();
        copy.keep(&id).unwrap();
        assert_eq!(copy.installation(), Ok(None));
        assert_eq!(StateFolder::written_down(other.path()), Ok(Some(id.clone())));
        assert_eq!(StateFolder::written_down(&other.path().join("none")), Ok(None));
        copy.write_down(&id).unwrap();
        assert_eq!(copy.installation(), Ok(Some(id)));
    }

    #[test]
    fn what_is_no_private_folder_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(StateFolder::claim(&file), Err(Error::NotAFolder(_))));
        let open = parent.path().join("open");
        fs::create_dir(&open).unwrap();
        for mode in [0o777, 0o702, 0o770, 0o2720] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let problem = Problem::from(StateFolder::claim(&open).unwrap_err());
            assert!(problem.hint.contains("chmod go-w"), "{mode:o}: {problem}");
        }
        let below_file = Problem::from(StateFolder::claim(&file.join("state")).unwrap_err());
        assert_eq!(below_file.code, Code::Configuration);
        if rustix::process::geteuid().is_root() {
            let other = parent.path().join("other");
            fs::create_dir(&other).unwrap();
            std::os::unix::fs::chown(&other, Some(65534), None).unwrap();
            assert!(matches!(StateFolder::claim(&other), Err(Error::NotOwned { owner: 65534, .. })));
        }
    }
}
