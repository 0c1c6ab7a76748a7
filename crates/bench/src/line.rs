//! A line to a server, on which requests are counted, and on which each may take a while longer, as to a bucket that is far away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use asat_core::{Code, Problem};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::failed;

/// No head of a request is longer.
const MOST_HEAD_BYTES: usize = 64 << 10;

/// A line, for as long as the program runs.
pub(super) struct Line {
    /// Where it listens.
    pub(super) endpoint: String,
    seen: Arc<Mutex<Seen>>,
}

/// What has gone over the line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    /// Requests.
    pub(super) requests: u64,
    /// Bytes of the bodies of requests.
    pub(super) sent_bytes: u64,
}

#[derive(Default)]
struct Seen {
    used: Used,
    /// Requests that store something: what for, when they began, and when they were answered.
    stored: Vec<(String, Instant, Option<Instant>)>,
}

/// The request that is under way on a connection.
#[derive(Default)]
struct Request {
    head: Vec<u8>,
    /// How much of its body is to come.
    body: u64,
    /// Its place among those that store something, if it is one.
    stores: Option<usize>,
}

impl Line {
    /// Listens on a port of its own, and hands everything on to a server. What a client sends waits for this long, what the server answers
    /// does not.
    pub(super) async fn to(server: &str, delay: Duration) -> Result<Self, Problem> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| failed("listen", error))?;
        let address = listener.local_addr().map_err(|error| failed("listen", error))?;
        let (server, seen) = (server.to_owned(), Arc::<Mutex<Seen>>::default());
        let line = Self { endpoint: format!("http://{address}"), seen: Arc::clone(&seen) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let request = Arc::<Mutex<Request>>::default();
                let (sending, asking) = (Arc::clone(&seen), Arc::clone(&request));
                let send = move |bytes: &[u8]| lock(&asking).take(bytes, &mut lock(&sending));
                tokio::spawn(hand_on(from_client, to_server, delay, send));
                let answering = Arc::clone(&seen);
                let answer = move |_: &[u8]| lock(&request).is_answered(&mut lock(&answering));
                tokio::spawn(hand_on(from_server, to_client, Duration::ZERO, answer));
            }
        });
        Ok(line)
    }

    /// What has gone over it.
    pub(super) fn used(&self) -> Used {
        lock(&self.seen).used
    }

    /// When a request was answered that began after this and stored something whose path has `part`.
    pub(super) fn stored_after(&self, since: Instant, part: &str) -> Option<Instant> {
        let seen = lock(&self.seen);
        let is_it =
            |(path, began, _): &&(String, Instant, Option<Instant>)| *began >= since && path.contains(part);
        seen.stored.iter().filter(is_it).find_map(|(_, _, answered)| *answered)
    }
}

/// Where the server of the bucket listens, without its scheme.
pub(super) fn server() -> Result<String, Problem> {
    let endpoint = std::env::var("AWS_ENDPOINT").unwrap_or_default();
    endpoint.strip_prefix("http://").map(|address| address.trim_end_matches('/').to_owned()).ok_or_else(
        || {
            let detail = "AWS_ENDPOINT names no plain HTTP server whose requests could be looked at";
            Problem::new(Code::Configuration, detail, "write for example AWS_ENDPOINT=http://127.0.0.1:7070")
        },
    )
}

impl Request {
    /// Bytes that a client sends.
    fn take(&mut self, mut bytes: &[u8], seen: &mut Seen) {
        while !bytes.is_empty() {
            let of_body = usize::try_from(self.body).unwrap_or(usize::MAX).min(bytes.len());
            if of_body > 0 {
                self.body -= u64::try_from(of_body).unwrap_or(0);
                bytes = bytes.get(of_body..).unwrap_or_default();
                continue;
            }
            self.head.extend_from_slice(bytes.get(..1).unwrap_or_default());
            bytes = bytes.get(1..).unwrap_or_default();
            if self.head.ends_with(b"\r\n\r\n") || self.head.len() > MOST_HEAD_BYTES {
                self.begin(seen);
            }
        }
    }

    fn begin(&mut self, seen: &mut Seen) {
        let head = String::from_utf8_lossy(&std::mem::take(&mut self.head)).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok()).flatten()
        });
        self.body = length.unwrap_or(0);
        seen.used.requests += 1;
        seen.used.sent_bytes += self.body;
        let mut words = head.split(' ');
        self.stores = None;
        if let (Some("PUT"), Some(path)) = (words.next(), words.next()) {
            self.stores = Some(seen.stored.len());
            seen.stored.push((path.to_owned(), Instant::now(), None));
        }
    }

    /// The server says something. Before all of the body is there that is no answer.
    fn is_answered(&mut self, seen: &mut Seen) {
        if self.body == 0
            && let Some((_, _, answered)) = self.stores.take().and_then(|nth| seen.stored.get_mut(nth))
        {
            *answered = Some(Instant::now());
        }
    }
}

/// Hands everything on until one end closes; `see` has it before.
async fn hand_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
    see: impl Fn(&[u8]) + Send + 'static,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let Some(read) = bytes.get(..count) else { return };
        see(read);
        if to.write_all(read).await.is_err() {
            return;
        }
    }
    // The other end hears of it; one that is gone needs not.
    let _ = to.shutdown().await;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
