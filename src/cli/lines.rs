//! An answer that is a JSON value on each line.

use asat_core::{Code, Problem};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use asat_client::Stream;

/// The last line of an answer that went wrong after its beginning.
#[derive(Deserialize)]
struct ProblemLine {
    op: String,
    code: String,
    detail: String,
    hint: String,
}

/// The lines of a stream.
pub(super) struct Lines {
    stream: Stream,
    /// What came and is not read yet, and where in it the next line begins.
    rest: Vec<u8>,
    at: usize,
    /// How much of it has no end of a line: a long one is not looked through again for each piece.
    looked: usize,
}

impl Lines {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, rest: Vec::new(), at: 0, looked: 0 }
    }

    /// Whether the next line must be waited for.
    pub(super) fn must_wait(&self) -> bool {
        !self.rest.get(self.at..).unwrap_or_default().contains(&b'\n')
    }

    /// The next line, as it came and as it is meant. What is no whole line at the end is left out: whoever reads knows which line is
    /// the last one.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<(String, T)>, Problem> {
        loop {
            let left = self.rest.get(self.at..).unwrap_or_default();
            let ahead = left.get(self.looked..).unwrap_or_default();
            if let Some(end) = ahead.iter().position(|&byte| byte == b'\n') {
                let end = std::mem::take(&mut self.looked) + end;
                let text = String::from_utf8_lossy(left.get(..=end).unwrap_or_default()).into_owned();
                self.at += end + 1;
                // A row may hold these words, too, and is no problem.
                if text.contains("\"op\":\"problem\"")
                    && let Ok(ProblemLine { op, code, detail, hint }) = serde_json::from_str(&text)
                    && op == "problem"
                {
                    return Err(Problem::new(Code::from_text(&code).unwrap_or(Code::Internal), detail, hint));
                }
                let line = serde_json::from_str(&text).map_err(|error| {
                    let detail =
                        format!("the daemon sent a line that this client does not understand: {error}");
                    Problem::new(Code::Internal, detail, "use a client and a daemon of the same version")
                })?;
                return Ok(Some((text, line)));
            }
            self.looked = left.len();
            self.rest.drain(..std::mem::take(&mut self.at));
            match self.stream.next().await? {
                Some(piece) => self.rest.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }
}
