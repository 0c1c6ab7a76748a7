//! Where callers over TCP come from, and what the log says of those whose token does not count.

use std::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use asat_core::Problem;
use tokio::net::TcpStream;

use crate::log::Seldom;

/// The address at the other end of a connection; `None` where it is gone already.
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

/// Tells of tokens that do not count, and of none what it is.
#[derive(Default)]
pub(super) struct Refusals(Seldom);

impl Refusals {
    /// Tells of one that was shown, and why it was refused.
    pub(super) fn tell(&self, address: Option<&Address>, problem: &Problem) {
        let Self(seldom) = self;
        let Some(left_out) = seldom.turn(Instant::now()) else { return };
        let (address, code, detail) =
            (address.copied().unwrap_or(Address(None)), problem.code.text().0, &problem.detail);
        tracing::warn!(
            code,
            left_out,
            "a token from {address} was refused, as were {left_out} since the last such line: {detail}"
        );
    }
}
