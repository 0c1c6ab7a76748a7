//! Where the daemon listens: a socket in the file system, or a host and a port.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// `unix:/run/asat/asat.sock`.
    Unix(PathBuf),
    /// `http://localhost:7878`.
    Tcp {
        /// A name or an address, without the brackets that an IPv6 address has in a URL.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Server {
    /// Where the daemon listens unless it is configured otherwise.
    pub const DEFAULT: &str = "unix:/run/asat/asat.sock";

    /// The value of the `Host` header.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port } => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { .. } => write!(f, "http://{}", self.host()),
        }
    }
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path);
        }
        if let Some(authority) = text.strip_prefix("http://") {
            return tcp(authority.strip_suffix('/').unwrap_or(authority));
        }
        if text.starts_with("https://") {
            return Err(
                "asat does not speak TLS: name the daemon's socket, or http:// to a TLS tunnel".to_owned()
            );
        }
        Err("write it as unix:/run/asat/asat.sock or http://localhost:7878".to_owned())
    }
}

fn unix(path: &str) -> Result<Server, String> {
    // `unix:///run/…` is how some other clients write it.
    let path = path.strip_prefix("//").unwrap_or(path);
    // Of several slashes one is meant; an address that is shown with two would be read as the path behind them.
    let slashes = path.len() - path.trim_start_matches('/').len();
    match path.get(slashes.saturating_sub(1)..).unwrap_or_default() {
        "" | "/" => Err("the path of the socket is missing: unix:/run/asat/asat.sock".to_owned()),
        path => Ok(Server::Unix(PathBuf::from(path))),
    }
}

fn tcp(authority: &str) -> Result<Server, String> {
    let wrong = || "write it as http://HOST:PORT, with nothing after the port".to_owned();
    let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
    let port = match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|b| b.is_ascii_digit()) => number,
        _ => return Err(wrong()),
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let host = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?.to_string(),
        None if !host.is_empty() && host.chars().all(allowed) => host.to_owned(),
        None => return Err(wrong()),
    };
    Ok(Server::Tcp { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_taken() {
        for (text, shown, host) in [
            (Server::DEFAULT, Server::DEFAULT, "localhost"),
            ("unix:///tmp/a.sock", "unix:/tmp/a.sock", "localhost"),
            ("unix:relative.sock", "unix:relative.sock", "localhost"),
            ("unix:////tmp/a.sock", "unix:/tmp/a.sock", "localhost"),
            ("http://localhost:7878", "http://localhost:7878", "localhost:7878"),
            ("http://10.0.0.1:80/", "http://10.0.0.1:80", "10.0.0.1:80"),
            ("http://[::1]:7878", "http://[::1]:7878", "[::1]:7878"),
        ] {
            let server: Server = text.parse().unwrap();
            assert_eq!((server.to_string().as_str(), server.host().as_str()), (shown, host));
        }
    }

    #[test]
    fn addresses_that_are_refused() {
        for text in [
            "",
            "unix:",
            "unix:/",
            "unix://",
            "/run/asat/asat.sock",
            "localhost:7878",
            "http://",
            "http://localhost",
            "http://localhost:",
            "http://localhost:0",
            "http://localhost:+80",
            "http://localhost:65536",
            "http://:80",
            "http://localhost:80/path",
            "http://user@localhost:80",
            "http://[::1:80",
            "http://::1:80",
            "ftp://localhost:80",
        ] {
            assert!(text.parse::<Server>().is_err(), "{text:?}");
        }
        assert!("https://localhost:80".parse::<Server>().unwrap_err().contains("TLS"));
    }
}
