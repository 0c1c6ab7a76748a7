//! Server-sent events: from pieces of a stream to events (HTML Living Standard, section 9.2).
//!
//! Lines may end with LF or CRLF, which is all that HTTP servers send; `id` and `retry` are of no use here.

use asat_core::{Code, Problem};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: String,
}

/// Puts events together from the pieces in which a stream arrives.
#[derive(Default)]
pub struct Parser {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
}

impl Parser {
    /// No event of asat's comes near this; what does is not asat.
    const MAX_BYTES: usize = 1 << 20;

    /// Takes the next piece, and gives the events that it completes.
    ///
    /// # Errors
    /// [`Code::Unreachable`] if an event is longer than any of asat's.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Event>, Problem> {
        let mut events = Vec::new();
        for part in piece.split_inclusive(|&b| b == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                events.extend(self.take_line(line.trim_end_matches(['\n', '\r'])));
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > Self::MAX_BYTES {
                let detail = format!("an event is longer than {} bytes", Self::MAX_BYTES);
                return Err(Problem::new(Code::Unreachable, detail, super::reply::NOT_ASAT));
            }
        }
        Ok(events)
    }

    fn take_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = self.data.take()?;
            let name = if name.is_empty() { "message".to_owned() } else { name };
            return Some(Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\nevent: version\ndata: {\"id\":\"größe@1\"}\n\nid: 7\r\ndata: a\r\ndata:  b\r\n\
                          \r\nevent: lost\n\nretry: 3\ndata\n\nevent: cut off\ndata: never";

    fn expected() -> Vec<Event> {
        [("version", "{\"id\":\"größe@1\"}"), ("message", "a\n b"), ("message", "")]
            .map(|(name, data)| Event { name: name.to_owned(), data: data.to_owned() })
            .to_vec()
    }

    #[test]
    fn events_are_found_however_the_stream_is_cut() {
        for size in 1..=STREAM.len() {
            let mut parser = Parser::default();
            let pieces = STREAM.as_bytes().chunks(size);
            let found: Vec<Event> = pieces.flat_map(|piece| parser.push(piece).unwrap()).collect();
            assert_eq!(found, expected(), "in pieces of {size}");
        }
    }

    #[test]
    fn what_never_ends_is_refused() {
        let mut parser = Parser::default();
        let piece = [b'x'; 4096];
        assert!((0..1000).any(|_| parser.push(&piece).is_err()));
        let mut parser = Parser::default();
        assert!((0..1000).any(|_| parser.push(format!("data: {}\n", "x".repeat(4096)).as_bytes()).is_err()));
    }
}
