//! The HTTP client: one connection a request, over a socket in the file system or TCP.
//!
//! A connection costs microseconds beside what the daemon does, and having none to keep means having none to
//! find dead. A request that carries an idempotency key is sent once more where the connection was dropped
//! before the answer came.

mod address;
mod connection;
mod reply;
mod request;
pub mod sse;
mod token;

use std::time::Duration;

use asat_core::{Code, Problem};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use serde::de::DeserializeOwned;

pub use address::Server;
use connection::{Fate, Lost};
use reply::{NOT_ASAT, Reply};
pub use request::Request;
pub use token::Token;

/// How long to wait for an answer that should come at once.
const SHORT: Duration = Duration::from_secs(30);
/// How long a daemon that dropped a connection has to come back.
const BEFORE_RETRY: Duration = Duration::from_millis(300);
/// More than any answer to a question holds; copies and events are streamed and not bounded by it.
const MAX_ANSWER: usize = 64 << 20;

/// Asks the daemon.
pub struct Client {
    server: Server,
    token: Option<Token>,
    timeout: Option<Duration>,
}

impl Client {
    /// Talks to `server`, presenting a token if there is one. Without a limit, what should be answered at once is waited for
    /// for half a minute, and what takes long without end.
    #[must_use]
    pub fn new(server: &Server, token: Option<Token>, timeout: Option<Duration>) -> Self {
        Self { server: server.clone(), token, timeout }
    }

    /// Where the daemon is.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Asks, and gives the value that is answered.
    ///
    /// # Errors
    /// What the daemon says, or why it could not be asked.
    pub async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Problem> {
        self.reply(request).await?.value(&self.server.to_string())
    }

    /// Asks for something that has no answer but that it was done.
    ///
    /// # Errors
    /// What the daemon says, or why it could not be asked.
    pub async fn order(&self, request: &Request) -> Result<(), Problem> {
        self.reply(request).await?.done(&self.server.to_string())
    }

    /// Asks for an answer that is read piece by piece.
    ///
    /// # Errors
    /// What the daemon says, or why it could not be asked.
    pub async fn stream(&self, request: &Request) -> Result<Stream, Problem> {
        let opening = async {
            let response = self.send(request).await?;
            if response.status().is_success() {
                return Ok(Ok(response));
            }
            Ok(Err(self.read(response).await?.problem(&self.server.to_string())))
        };
        let response = self.in_time(request, opening).await.map_err(|lost| lost.problem)??;
        let length = response.body().size_hint().exact();
        Ok(Stream { body: response.into_body(), length, server: self.server.clone(), patience: self.timeout })
    }

    async fn reply(&self, request: &Request) -> Result<Reply, Problem> {
        let mut attempt = self.reply_once(request).await;
        if request.key.is_some() && matches!(&attempt, Err(lost) if lost.fate == Fate::Dropped) {
            tokio::time::sleep(BEFORE_RETRY).await;
            attempt = self.reply_once(request).await.map_err(|lost| Lost { fate: Fate::Dropped, ..lost });
        }
        attempt.map_err(|Lost { problem, fate }| match (&request.key, fate) {
            (Some(key), Fate::Dropped | Fate::Silent) => {
                let hint =
                    format!("it may have been done; repeat it with --key {key}, which does it once only");
                Problem { hint, ..problem }
            }
            _ => problem,
        })
    }

    async fn reply_once(&self, request: &Request) -> Result<Reply, Lost> {
        let exchange = async { self.read(self.send(request).await?).await };
        self.in_time(request, exchange).await
    }

    async fn in_time<T>(
        &self,
        request: &Request,
        work: impl Future<Output = Result<T, Lost>>,
    ) -> Result<T, Lost> {
        let patience = self.timeout.or((!request.long).then_some(SHORT));
        within(patience, work).await.unwrap_or_else(|limit| {
            let detail = format!("no answer from {} within {} s", self.server, limit.as_secs());
            let hint = "it may have been done all the same; wait longer with --timeout";
            Err(Lost { problem: Problem::new(Code::Unreachable, detail, hint), fate: Fate::Silent })
        })
    }

    async fn send(&self, request: &Request) -> Result<hyper::Response<Incoming>, Lost> {
        let message = self.message(request)?;
        connection::exchange(&self.server, message, self.timeout).await
    }

    fn message(&self, request: &Request) -> Result<hyper::Request<Full<Bytes>>, Problem> {
        let mut message = hyper::Request::builder()
            .method(request.method.clone())
            .uri(&request.target)
            .header(HOST, self.server.host())
            .header(USER_AGENT, concat!("asat/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json, */*;q=0.5");
        if let Some(token) = &self.token {
            message = message.header(AUTHORIZATION, token.header());
        }
        if let Some(key) = &request.key {
            message = message.header("Idempotency-Key", key);
        }
        if request.body.is_some() {
            message = message.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(request.body.clone().unwrap_or_default()));
        message.body(body).map_err(|error| {
            let detail = format!("the request cannot be sent: {error}");
            Problem::new(Code::Invalid, detail, "shorten its arguments")
        })
    }

    async fn read(&self, response: hyper::Response<Incoming>) -> Result<Reply, Lost> {
        let status = response.status();
        match Limited::new(response.into_body(), MAX_ANSWER).collect().await {
            Ok(body) => Ok(Reply { status, body: body.to_bytes().to_vec() }),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                let detail = format!("{} sent more than {MAX_ANSWER} bytes", self.server);
                Err(Problem::new(Code::Unreachable, detail, NOT_ASAT).into())
            }
            Err(error) => Err(connection::broken(&self.server, &error.to_string())),
        }
    }
}

/// An answer that is read piece by piece.
pub struct Stream {
    body: Incoming,
    /// How long it is, where that was said.
    pub length: Option<u64>,
    server: Server,
    patience: Option<Duration>,
}

impl Stream {
    /// The next piece; none at the end.
    ///
    /// # Errors
    /// [`Code::Unreachable`] if the connection broke, or nothing came for as long as the client waits.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let frame = match within(self.patience, self.body.frame()).await {
                Ok(frame) => frame,
                Err(limit) => {
                    let why = format!("nothing came for {} s", limit.as_secs());
                    return Err(connection::broken(&self.server, &why).problem);
                }
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(connection::broken(&self.server, &error.to_string()).problem),
                // Trailers are of no use here.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Waits for something, for a limited time where there is a limit; gives the limit where it passed.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Result<T, Duration> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.map_err(|_| limit),
        None => Ok(work.await),
    }
}
