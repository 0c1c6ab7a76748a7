//! Where callers over TCP come from, and what the log says of those whose token does not count.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use asat_core::{Code, Problem};
use tokio::net::TcpStream;

use crate::log::Seldom;

/// The address at the other end of a connection; `None` if it is gone already.
#[derive(Clone, Copy)]
pub struct Address(Option<SocketAddr>);

impl Address {
    /// Whence somebody has connected.
    #[must_use]
    pub fn of(stream: &TcpStream) -> Self {
        Self(stream.peer_addr().ok())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Some(address)) => address.fmt(f),
            Self(None) => f.write_str("an unknown address"),
        }
    }
}

/// The other end of a connection, as far as it matters whether two are of the same.
pub trait Source {
    /// The caller or the address, for people.
    fn source(&self) -> String;
}

impl Source for Address {
    /// The port is another one each time.
    fn source(&self) -> String {
        match self {
            Self(Some(address)) => address.ip().to_canonical().to_string(),
            Self(None) => self.to_string(),
        }
    }
}

/// Tells of tokens that do not count, and of none what it is.
pub(super) struct Refusals(Arc<Seldom>);

impl Default for Refusals {
    fn default() -> Self {
        Self(Seldom::new(|source, left_out| {
            let code = Code::Unauthenticated.text().0;
            tracing::warn!(code, left_out, "{left_out} more tokens from {source} were refused");
        }))
    }
}

impl Refusals {
    /// Tells of one that was shown, and why it was refused.
    pub(super) fn tell(&self, address: Option<&Address>, problem: &Problem) {
        let Self(seldom) = self;
        let address = address.copied().unwrap_or(Address(None));
        if seldom.may_tell(&address.source()) {
            tracing::warn!(
                code = problem.code.text().0,
                "a token from {address} was refused: {}",
                problem.detail
            );
        }
    }
}
