//! Whether somebody listens where clients would connect.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// What is at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    /// Nothing is there.
    Nothing,
    /// Somebody listens.
    Somebody,
    /// A socket is there, and nobody listens on it any more.
    Stale,
    /// Something that is no socket has the name.
    InTheWay,
    /// This process may not connect.
    NotPermitted,
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// How long an address on this machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at a Unix socket. It connects without waiting and says nothing.
#[must_use]
pub fn socket(path: &Path) -> Listening {
    match fs::symlink_metadata(path) {
        Err(error) => return refused(&error),
        Ok(found) if !found.file_type().is_socket() => return Listening::InTheWay,
        Ok(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    });
    match connected {
        // Somebody with a long queue of callers is somebody.
        Ok(()) | Err(Errno::AGAIN) => Listening::Somebody,
        Err(Errno::CONNREFUSED) => Listening::Stale,
        Err(errno) => refused(&errno.into()),
    }
}

/// Looks at a TCP address.
#[must_use]
pub fn tcp(address: SocketAddr) -> Listening {
    match TcpStream::connect_timeout(&address, PATIENCE) {
        Ok(_) => Listening::Somebody,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Listening::Nothing,
        Err(error) => refused(&error),
    }
}

fn refused(error: &io::Error) -> Listening {
    match error.kind() {
        io::ErrorKind::NotFound => Listening::Nothing,
        io::ErrorKind::PermissionDenied => Listening::NotPermitted,
        _ => Listening::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::{bind, getsockname, listen};

    use super::*;

    #[test]
    fn a_socket_is_looked_at_through_its_life() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asat.sock");
        assert_eq!(socket(&path), Listening::Nothing);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(socket(&path), Listening::Somebody);
        drop(listener);
        assert_eq!(socket(&path), Listening::Stale);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        assert_eq!(socket(&path), Listening::InTheWay);
    }

    #[test]
    fn an_address_answers_or_refuses() {
        // The port stays taken by this socket, so that no other process can answer on it.
        let listener =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = getsockname(&listener).unwrap().try_into().unwrap();
        assert_eq!(tcp(address), Listening::Nothing);
        listen(&listener, 1).unwrap();
        assert_eq!(tcp(address), Listening::Somebody);
    }
}
