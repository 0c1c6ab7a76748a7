//! The Unix socket on which clients come in.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, io};

use asat_core::{Code, Problem};
use listenfd::ListenFd;

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something else has that name.
    #[error("{} is there and is no socket", .0.display())]
    InTheWay(PathBuf),
    /// Somebody listens there.
    #[error("another program listens on unix:{}", .0.display())]
    Taken(PathBuf),
    /// The machine refused.
    #[error("cannot listen on unix:{}: {source}", .path.display())]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// What the service manager handed over is nothing that clients can connect to.
    #[error(
        "socket {number} of those that the service manager handed over is neither a Unix nor a TCP stream: {source}"
    )]
    Odd {
        /// Which one, from 1.
        number: usize,
        /// What is wrong with it.
        source: io::Error,
    },
}

/// The sockets that a service manager listened on before the daemon ran, and handed over.
#[derive(Debug, Default)]
pub struct Handed {
    /// Unix sockets.
    pub unix: Vec<UnixListener>,
    /// TCP sockets.
    pub tcp: Vec<TcpListener>,
}

/// Takes what was handed over (`LISTEN_FDS`), so that no program that the daemon starts inherits it. It is called before there
/// are other threads, since the environment says so no more afterwards.
///
/// # Errors
/// Where something else was handed over.
pub fn handed_over() -> Result<Handed, Error> {
    let (mut all, mut handed) = (ListenFd::from_env(), Handed::default());
    for index in 0..all.len() {
        if let Ok(unix) = all.take_unix_listener(index) {
            handed.unix.extend(unix);
            continue;
        }
        let tcp = all.take_tcp_listener(index);
        handed.tcp.extend(tcp.map_err(|source| Error::Odd { number: index + 1, source })?);
    }
    Ok(handed)
}

/// The path of a socket, where it has one.
#[must_use]
pub fn path(listener: &UnixListener) -> Option<PathBuf> {
    listener.local_addr().ok()?.as_pathname().map(Path::to_owned)
}

/// Listens on a socket of the given mode, in place of one that a killed daemon left. The folder is made where
/// it is missing.
///
/// # Errors
/// Where somebody listens there, something else is there, or the machine refuses.
pub fn listen(path: &Path, mode: u32) -> Result<UnixListener, Error> {
    let failed = |source| Error::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(Error::InTheWay(path.to_owned()));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(Error::Taken(path.to_owned()));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

/// Removes the socket, so that whoever looks for it knows that nobody listens.
///
/// # Errors
/// Where the machine refuses. That it is gone already is no error.
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match error {
            Error::InTheWay(_) => (Code::Configuration, "move it away, or change listen.unix"),
            // The next start may find it free.
            Error::Taken(_) => (Code::InUse, "stop it, or change listen.unix"),
            Error::Io { .. } => (Code::Configuration, "check [listen] in the configuration"),
            Error::Odd { .. } => (Code::Configuration, "write only ListenStream= in the socket unit"),
        };
        Self::new(code, error.to_string(), hint)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_socket_that_nobody_listens_on_is_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/asat.sock");
        drop(listen(&folder.path().join("deep/other.sock"), 0o600).unwrap());
        // A socket that was listened on could have been inherited by a process that another test is just starting.
        mknodat(CWD, &path, FileType::Socket, Mode::RUSR, 0).unwrap();
        let listener = listen(&path, 0o640).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(matches!(listen(&path, 0o640), Err(Error::Taken(_))));
        drop(listener);
        remove(&path).unwrap();
        remove(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        assert!(matches!(listen(&path, 0o640), Err(Error::InTheWay(_))));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
