//! Answers that are sent while they are found out.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use asat_core::{Code, Problem};
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Answer;
use super::work::{Share, Wanted};

/// How many bytes are sent together.
const PIECE: usize = 64 << 10;
/// How many pieces are found before the client has taken them.
const AHEAD: usize = 2;
/// After so many bytes it is looked how long the first of them wait: the clock is not asked for each word.
const LOOK: usize = 4 << 10;
/// What was found waits no longer than this for more.
const DELAY: Duration = Duration::from_millis(200);

/// A part of the answer, its end, or why there is no more of it.
type Piece = Result<Option<Bytes>, Problem>;

/// Answers with what `work` writes, while it does. What fails before anything is written is an answer of its own. Later it is the last line of
/// an answer that is made of lines; of another one the connection is broken, as what was promised cannot be sent. If the client leaves, `work` gets an error as it writes, and `wanted`
/// is dropped.
pub(super) async fn answer(
    kind: &'static str,
    share: Share,
    wanted: Wanted,
    work: impl FnOnce(&mut dyn Write) -> Result<(), Problem> + Send + 'static,
) -> Answer<Response> {
    let (sender, mut pieces) = channel(AHEAD);
    let cause = tracing::Span::current();
    tokio::task::spawn_blocking(move || {
        cause.in_scope(|| {
            let mut out =
                Pieces { sender, piece: Vec::new(), since: Instant::now(), looked: 0, has_sent: false };
            let mut end = work(&mut out).and_then(|()| out.flush().map_err(|error| gone(&error)));
            if let Err(problem) = &end
                && out.has_sent
                && is_of_lines(kind)
            {
                tracing::warn!("an answer ends with a problem: {problem}");
                end = out.tell(problem).map_err(|error| gone(&error));
            }
            // Nobody may be left to be told.
            let _ = out.sender.blocking_send(end.map(|()| None));
        });
    });
    let first = pieces.recv().await.unwrap_or_else(|| Err(broken_off()))?;
    let Some(first) = first else { return Ok(written(kind, Body::empty())) };
    let rest = stream::unfold(Some((pieces, share, wanted)), next);
    Ok(written(kind, Body::from_stream(stream::iter([Ok(first)]).chain(rest))))
}

/// The next piece for the client, and what is left. The share is given back at the end, or if the client has gone.
async fn next(
    left: Option<(Receiver<Piece>, Share, Wanted)>,
) -> Option<(Result<Bytes, Problem>, Option<(Receiver<Piece>, Share, Wanted)>)> {
    let (mut pieces, share, wanted) = left?;
    match pieces.recv().await.unwrap_or_else(|| Err(broken_off())) {
        Ok(Some(piece)) => Some((Ok(piece), Some((pieces, share, wanted)))),
        Ok(None) => None,
        Err(problem) => {
            tracing::warn!("an answer was broken off: {problem}");
            Some((Err(problem), None))
        }
    }
}

fn is_of_lines(kind: &str) -> bool {
    kind == "application/x-ndjson"
}

fn written(kind: &'static str, body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // What a browser shows of it may do nothing but look as it does.
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'")),
    ];
    (headers, body).into_response()
}

fn broken_off() -> Problem {
    Problem::new(Code::Internal, "the work was broken off", "report this as a defect")
}

fn gone(error: &io::Error) -> Problem {
    Problem::new(Code::Internal, format!("the answer cannot be sent: {error}"), "ask again")
}

/// Sends what is written to it.
struct Pieces {
    sender: Sender<Piece>,
    piece: Vec<u8>,
    /// When the piece was begun, and how long it was when that was looked at last.
    since: Instant,
    looked: usize,
    /// Whether something is on its way to the client.
    has_sent: bool,
}

impl Pieces {
    /// Ends the answer with what went wrong.
    fn tell(&mut self, problem: &Problem) -> io::Result<()> {
        let Problem { code, detail, hint } = problem;
        let (code, _) = code.text();
        let line = serde_json::json!({ "op": "problem", "code": code, "detail": detail, "hint": hint });
        // What was not sent of a line is none that can be read.
        let whole = self.piece.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.piece.truncate(whole);
        writeln!(self, "{line}")?;
        self.flush()
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            (self.since, self.looked) = (Instant::now(), 0);
        }
        self.piece.extend_from_slice(bytes);
        let is_time = || self.piece.len() >= self.looked + LOOK && self.since.elapsed() >= DELAY;
        if self.piece.len() >= PIECE || is_time() {
            self.flush()?;
        } else if self.piece.len() >= self.looked + LOOK {
            self.looked = self.piece.len();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        self.has_sent = true;
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        let sent = self.sender.blocking_send(Ok(Some(piece)));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone"))
    }
}
