//! A listener on `GET /events`, as a program that follows the daemon would have it.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::Value;

use super::{PATIENCE, World};

/// An open stream of server-sent events.
pub struct Events {
    reader: BufReader<UnixStream>,
    pub head: String,
}

/// One event: its name and its JSON object.
pub type Event = (String, Value);

impl World {
    /// Listens from now on: whatever happens after this returns is heard.
    pub fn listen(&self) -> Events {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        std::io::Write::write_all(
            &mut stream,
            b"GET /events HTTP/1.1\r\nHost: asat\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
        let mut events = Events { reader: BufReader::new(stream), head: String::new() };
        loop {
            let line = events.line().expect("the daemon answers");
            if line.is_empty() {
                return events;
            }
            events.head += &line;
            events.head += "\n";
        }
    }
}

impl Events {
    /// The next event; `None` where the daemon has ended the stream. Comments, which keep the connection alive, are none.
    pub fn next(&mut self) -> Option<Event> {
        let (mut name, mut data) = (String::new(), String::new());
        let patience = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < patience, "no event came for {PATIENCE:?}");
            let line = self.line()?;
            if let Some(text) = line.strip_prefix("event:") {
                text.trim().clone_into(&mut name);
            } else if let Some(text) = line.strip_prefix("data:") {
                data += text.trim();
            } else if line.is_empty() && !data.is_empty() {
                return Some((name, serde_json::from_str(&data).unwrap()));
            }
            // Lines of chunk lengths stand between the events.
        }
    }

    /// Waits for an event; answers all that came until then, it being the last.
    pub fn until(&mut self, wanted: impl Fn(&str, &Value) -> bool) -> Vec<Event> {
        let mut seen = Vec::new();
        while let Some((name, data)) = self.next() {
            let found = wanted(&name, &data);
            seen.push((name, data));
            if found {
                return seen;
            }
        }
        panic!("the daemon ended the stream: {seen:?}");
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }
}
