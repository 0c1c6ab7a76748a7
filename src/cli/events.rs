//! `events`: what happens, a line each: the event, and its fields as pairs.

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

/// The event and what it says, as `name=value` pairs.
fn text(line: &Line) -> String {
    let mut pairs = String::new();
    push_pairs(&mut pairs, "", &line.data);
    format!("{:<12}{}", clean(&line.event), clean(&pairs))
}

/// Adds a value as pairs. The name of a nested one has the names around it before it; what is empty is left out.
fn push_pairs(pairs: &mut String, name: &str, value: &Value) {
    let text = match value {
        Value::Null => return,
        Value::Object(members) => {
            for (member, value) in members {
                let dot = if name.is_empty() { "" } else { "." };
                push_pairs(pairs, &format!("{name}{dot}{member}"), value);
            }
            return;
        }
        Value::Array(values) if values.is_empty() => return,
        // A text without blanks needs no quotes.
        Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '=', '\n']) => text.clone(),
        _ => value.to_string(),
    };
    let is = if name.is_empty() { "" } else { "=" };
    pairs.push(' ');
    pairs.extend([name, is, &text]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_one_line() {
        let line = |data: &str| text(&Line::new(Event { name: "version".into(), data: data.into() }));
        assert_eq!(
            line(
                "{\"id\": \"report@12\", \"by\": {\"name\": \"Ann Lee\", \"note\": null}, \"n\": [1, 2], \"tags\": []}"
            ),
            "version      by.name=\"Ann Lee\" id=report@12 n=[1,2]"
        );
        assert_eq!(line("not JSON\n\u{1b}"), "version      \"not JSON\\n\\u001b\"");
    }
}
