//! `events`: what happens, a line each.

use asat_core::{Code, Problem};
use serde::Serialize;
use serde_json::Value;

use super::output::{Failure, Output};
use crate::text::clean;
use asat_client::sse::{Event, Parser};
use asat_client::{Client, Request};

/// An event as JSON.
#[derive(Serialize)]
struct Line {
    event: String,
    data: Value,
}

pub(super) async fn events(client: &Client, output: &Output) -> Result<(), Failure> {
    let mut stream = client.stream(&Request::get(&["events"]).long()).await?;
    let mut parser = Parser::default();
    while let Some(piece) = stream.next().await? {
        for event in parser.push(&piece)? {
            output.print(&Line::new(event), text)?;
        }
    }
    Err(ended(client).into())
}

/// The daemon went away while somebody listened.
pub(super) fn ended(client: &Client) -> Problem {
    let detail = format!("{} ended the stream of events", client.server());
    Problem::new(Code::Unreachable, detail, "it may be restarting: try again")
}

impl Line {
    fn new(event: Event) -> Self {
        let data = serde_json::from_str(&event.data).unwrap_or(Value::String(event.data));
        Self { event: event.name, data }
    }
}

fn text(line: &Line) -> String {
    format!("{:<12} {}", clean(&line.event), clean(&line.data.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_one_line() {
        let line = |data: &str| text(&Line::new(Event { name: "version".into(), data: data.into() }));
        assert_eq!(line("{\"id\": \"report@12\"}"), "version      {\"id\":\"report@12\"}");
        assert_eq!(line("not JSON\n\u{1b}"), "version      \"not JSON\\n\\u001b\"");
    }
}
