//! Callers that take next to no time themselves: each sends a finished request on a connection that stays, and reads no more
//! of the answer than where it ends.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use serde::Serialize;

use crate::failed;
use crate::statistics::{Spread, ms_since, over};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// No answer is longer.
const LONGEST: usize = 1 << 20;

/// What callers were answered.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Load {
    pub(super) answers: u64,
    pub(super) per_second: f64,
    pub(super) waited_ms: Spread,
}

/// A request as it is sent.
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn get(path: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\nhost: asat\r\n\r\n").into_bytes())
    }

    pub(super) fn post(path: &str, body: &str) -> Self {
        let head = format!("POST {path} HTTP/1.1\r\nhost: asat\r\ncontent-type: application/json\r\n");
        Self(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
    }
}

/// Callers, and for how long they ask.
#[derive(Clone, Copy)]
pub(super) struct Callers {
    pub(super) count: u32,
    pub(super) time: Duration,
    /// The time from one question of a caller to the next, whether it was answered before or not: a late answer counts as
    /// late for those after it, too. Without it, each asks as soon as it is answered.
    pub(super) pace: Option<Duration>,
}

/// Lets so many callers ask one thing after another for a while.
pub(super) fn call(
    socket: &Path,
    callers: Callers,
    request: impl Fn(u32, u64) -> Request + Sync,
) -> Result<Load, Problem> {
    let cannot = |error: io::Error| failed("ask the daemon", error);
    let connect = |nth| Ok((nth, Caller::connect(socket)?));
    let connected = (0..callers.count).map(connect).collect::<io::Result<Vec<_>>>().map_err(cannot)?;
    let since = Instant::now();
    let waited = std::thread::scope(|scope| {
        let request = &request;
        let ask = |(nth, caller): (u32, Caller)| {
            scope.spawn(move || caller.ask_until(since, nth, callers, |n| request(nth, n)))
        };
        let asking: Vec<_> = connected.into_iter().map(ask).collect();
        let join = |asking: std::thread::ScopedJoinHandle<'_, io::Result<Vec<f64>>>| {
            asking.join().unwrap_or_else(|_| Err(io::Error::other("a caller ended early")))
        };
        asking.into_iter().map(join).collect::<io::Result<Vec<_>>>()
    });
    let (waited, took_ms) = (waited.map_err(cannot)?.concat(), ms_since(since));
    let answers = u32::try_from(waited.len()).unwrap_or(u32::MAX);
    let per_second = over(f64::from(answers) * 1e3, took_ms);
    Ok(Load { answers: u64::from(answers), per_second, waited_ms: Spread::of(&waited) })
}

/// One connection.
pub(super) struct Caller {
    stream: UnixStream,
    answer: Vec<u8>,
}

impl Caller {
    pub(super) fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, answer: vec![0; LONGEST] })
    }

    /// Asks until the time is over; answers how many milliseconds each answer took. Callers with a pace do not all ask at the
    /// same time.
    fn ask_until(
        mut self,
        begin: Instant,
        number: u32,
        callers: Callers,
        request: impl Fn(u64) -> Request,
    ) -> io::Result<Vec<f64>> {
        let Callers { count, time, pace } = callers;
        let mut due = begin + pace.unwrap_or_default() * number / count.max(1);
        let mut waited_ms = Vec::new();
        for nth in 0.. {
            let request = request(nth);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let since = pace.map_or_else(Instant::now, |_| due);
            if since >= begin + time {
                break;
            }
            self.ask(&request)?;
            waited_ms.push(ms_since(since));
            due += pace.unwrap_or_default();
        }
        Ok(waited_ms)
    }

    /// Asks once.
    pub(super) fn ask(&mut self, request: &Request) -> io::Result<()> {
        self.stream.write_all(&request.0)?;
        self.read_answer()
    }

    fn read_answer(&mut self) -> io::Result<()> {
        let mut have = 0;
        loop {
            let room = self.answer.get_mut(have..).unwrap_or_default();
            let read = match self.stream.read(room) {
                // A process that was stopped and goes on has its wait broken off.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Err(io::Error::other("the daemon closed the connection, or its answer is too long"));
            }
            have += read;
            let answer = self.answer.get(..have).unwrap_or_default();
            if let Some(len) = length(answer)? {
                match len.checked_sub(have) {
                    Some(0) => return Ok(()),
                    Some(_) => {}
                    None => return Err(io::Error::other("the answer is longer than it says")),
                }
            }
        }
    }
}

/// How long an answer is, head and body, once its head is there. Fails where it says anything but 200 or 201.
fn length(answer: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = String::from_utf8_lossy(answer.get(..head).unwrap_or_default()).to_ascii_lowercase();
    if !text.starts_with("http/1.1 20") {
        return Err(io::Error::other(String::from_utf8_lossy(answer).into_owned()));
    }
    let body = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let body: Option<usize> = body.and_then(|body| body.trim().parse().ok());
    let body = body.ok_or_else(|| io::Error::other("the answer does not say how long it is"))?;
    Ok(Some(head + 4 + body))
}
