//! Connections: reaching the daemon, exchanging one request for one answer, and saying why that failed.

use std::io::{self, ErrorKind};
use std::time::Duration;

use asat_core::{Code, Problem};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::address::Server;
use super::reply::NOT_ASAT;

/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// What is known about a request that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Sending it again would end the same way.
    Refused,
    /// The connection ended before the answer: it may have been carried out.
    Dropped,
    /// Nobody waited any longer: it may yet be carried out.
    Silent,
}

/// Why no answer came.
#[derive(Debug)]
pub(crate) struct Lost {
    /// For whoever asked.
    pub(crate) problem: Problem,
    /// For whoever may ask again.
    pub(crate) fate: Fate,
}

impl From<Problem> for Lost {
    fn from(problem: Problem) -> Self {
        Self { problem, fate: Fate::Refused }
    }
}

/// Sends a request on a connection of its own, and waits for the head of the answer.
pub(crate) async fn exchange(
    server: &Server,
    message: hyper::Request<Full<Bytes>>,
    patience: Option<Duration>,
) -> Result<hyper::Response<Incoming>, Lost> {
    match server {
        Server::Unix(path) => {
            let stream = connected(server, UnixStream::connect(path), patience).await?;
            exchange_on(server, stream, message).await
        }
        Server::Tcp { host, port } => {
            let connecting = TcpStream::connect((host.as_str(), *port));
            let stream = connected(server, connecting, patience).await?;
            exchange_on(server, stream, message).await
        }
    }
}

async fn connected<S>(
    server: &Server,
    connecting: impl Future<Output = io::Result<S>>,
    patience: Option<Duration>,
) -> Result<S, Problem> {
    let patience = patience.map_or(CONNECT, |limit| limit.min(CONNECT));
    let (why, denied) = match tokio::time::timeout(patience, connecting).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(error)) => (error.to_string(), error.kind() == ErrorKind::PermissionDenied),
        Err(_) => (format!("no connection within {} s", patience.as_secs()), false),
    };
    let hint = if denied {
        "you may not write to its socket: join the group that it belongs to, see ls -l on it and listen.unix_mode"
    } else {
        "start it with systemctl start asat, or asat serve; --server or ASAT_SERVER says where it listens"
    };
    let detail = format!("cannot reach the daemon at {server}: {why}");
    Err(Problem::new(Code::Unreachable, detail, hint))
}

async fn exchange_on<S>(
    server: &Server,
    stream: S,
    message: hyper::Request<Full<Bytes>>,
) -> Result<hyper::Response<Incoming>, Lost>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| unanswered(server, &error))?;
    tokio::spawn(async move {
        // An error of the connection reaches whoever waits for the answer.
        let _ = connection.await;
    });
    sender.send_request(message).await.map_err(|error| unanswered(server, &error))
}

fn unanswered(server: &Server, error: &hyper::Error) -> Lost {
    if error.is_parse() {
        let detail = format!("what answers at {server} does not speak HTTP: {error}");
        return Problem::new(Code::Unreachable, detail, NOT_ASAT).into();
    }
    broken(server, &format!("no answer came: {error}"))
}

/// The connection ended in the middle.
pub(crate) fn broken(server: &Server, why: &str) -> Lost {
    let detail = format!("the connection to {server} broke off: {why}");
    let hint = "try again, and look into the daemon's log";
    Lost { problem: Problem::new(Code::Unreachable, detail, hint), fate: Fate::Dropped }
}
