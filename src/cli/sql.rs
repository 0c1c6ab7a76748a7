//! `sql`: one query over as many versions as one likes.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};

use asat_core::{Code, Problem};
use comfy_table::{Table, presets};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::args::{SqlArgs, SqlFormat};
use super::lines::Lines;
use super::output::{Failure, Output, Pieces};
use crate::text::{clean, rows, size};
use asat_client::{Client, Request};
use asat_wire::{QueryLine, QueryRequest};

/// A table for people has no more rows than this: its columns are as wide as the longest value.
const MOST_IN_TABLE: usize = 10_000;
/// More than any query that the daemon takes.
const MOST_QUERY: u64 = 16 << 20;

pub(super) async fn sql(args: &SqlArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let body = QueryRequest {
        sql: text(args, output).await?,
        limit: args.limit,
        timeout_seconds: args.time.map(|time| time.as_secs().max(1)),
    };
    let request = Request::post(&["query"]).json(&body)?.long();
    let lines = Lines::new(client.stream(&request).await?);
    let mut printer = Printer::new(args.format(output), output);
    let printed = print(lines, &mut printer).await;
    // What came before something went wrong was asked for, too.
    printer.pieces.flush()?;
    if let Some(rows) = printed? {
        output.remark(&format!("there are more than {rows} rows; --limit asks for more"));
    }
    Ok(())
}

/// Prints the answer; answers how many rows it has if there are more.
async fn print(mut lines: Lines, printer: &mut Printer<'_>) -> Result<Option<u64>, Failure> {
    loop {
        let Some((_, line)) = lines.next::<QueryLine>().await? else {
            let hint = "read the daemon's log, which says why";
            return Err(Problem::new(Code::Unreachable, "the daemon broke the answer off", hint).into());
        };
        match line {
            QueryLine::Columns { columns } => printer.begin(columns)?,
            QueryLine::Row(row) => printer.row(row)?,
            QueryLine::Problem { detail, hint, .. } => {
                return Err(Problem::new(Code::Internal, detail, hint).into());
            }
            QueryLine::End { rows, more, .. } => {
                printer.end()?;
                return Ok(more.then_some(rows));
            }
        }
        // A slow query's rows are shown as they come.
        if lines.must_wait() {
            printer.pieces.flush()?;
        }
    }
}

/// The query: an argument, a file, or what comes on standard input.
async fn text(args: &SqlArgs, output: &Output) -> Result<String, Problem> {
    let (source, file) = match (&args.query, &args.file) {
        (_, Some(file)) => (file.display().to_string(), Some(file.clone())),
        (Some(query), None) if query != "-" => return Ok(query.clone()),
        _ => ("standard input".to_owned(), None),
    };
    if file.is_none() && io::stdin().is_terminal() {
        output.remark("type the query, and then Ctrl-D on a line of its own");
    }
    // Signals are heard meanwhile: a pipe or a terminal may never give anything.
    let read = tokio::task::spawn_blocking(|| match file {
        Some(file) => read_bounded(File::open(file)?),
        None => read_bounded(io::stdin()),
    });
    let read = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    read.map_err(|error| {
        let hint = "name a file of text with the query";
        Problem::new(Code::Invalid, format!("cannot read the query from {source}: {error}"), hint)
    })
}

fn read_bounded(from: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    let read = from.take(MOST_QUERY + 1).read_to_string(&mut text)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > MOST_QUERY {
        return Err(io::Error::other(format!("it is longer than {}", size(MOST_QUERY))));
    }
    Ok(text)
}

impl SqlArgs {
    /// A table for people, JSON if that is wanted of every command, and else comma-separated values.
    fn format(&self, output: &Output) -> SqlFormat {
        self.format.unwrap_or(match (output.is_json(), io::stdout().is_terminal()) {
            (true, _) => SqlFormat::Jsonl,
            (false, true) => SqlFormat::Table,
            (false, false) => SqlFormat::Csv,
        })
    }
}

/// Prints rows in a format.
struct Printer<'o> {
    format: SqlFormat,
    pieces: Pieces<'o>,
    columns: Vec<String>,
    /// The rows that were not printed yet, since the widths of columns depend on all of them.
    held: Vec<Vec<Value>>,
    has_row: bool,
}

impl<'o> Printer<'o> {
    fn new(format: SqlFormat, output: &'o Output) -> Self {
        Self { format, pieces: Pieces::new(output), columns: Vec::new(), held: Vec::new(), has_row: false }
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.pieces.add(line)?;
        self.pieces.add("\n")
    }

    fn begin(&mut self, columns: Vec<String>) -> Result<(), Failure> {
        self.columns = columns;
        match self.format {
            SqlFormat::Csv => self.line(&csv(self.columns.iter().map(Into::into))),
            SqlFormat::Markdown => {
                let names = self.columns.iter().map(|name| escaped(&clean(name)));
                self.line(&format!("| {} |", names.collect::<Vec<_>>().join(" | ")))?;
                self.line(&format!("|{}", " --- |".repeat(self.columns.len())))
            }
            SqlFormat::Json => self.pieces.add("["),
            SqlFormat::Jsonl | SqlFormat::Table => Ok(()),
        }
    }

    fn row(&mut self, row: Vec<Value>) -> Result<(), Failure> {
        match self.format {
            SqlFormat::Csv => self.line(&csv(row.iter().map(plain)))?,
            SqlFormat::Markdown => {
                let cells = row.iter().map(|value| escaped(&cell(value)));
                self.line(&format!("| {} |", cells.collect::<Vec<_>>().join(" | ")))?;
            }
            SqlFormat::Json => {
                let before = if self.has_row { ",\n" } else { "" };
                let object = self.object(&row)?;
                self.pieces.add(before)?;
                self.pieces.add(&object)?;
            }
            SqlFormat::Jsonl => {
                let object = self.object(&row)?;
                self.line(&object)?;
            }
            SqlFormat::Table => {
                self.held.push(row);
                if self.held.len() == MOST_IN_TABLE {
                    self.print_held()?;
                }
            }
        }
        self.has_row = true;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        match self.format {
            SqlFormat::Json => self.pieces.add("]\n"),
            SqlFormat::Table if !self.has_row || !self.held.is_empty() => self.print_held(),
            _ => Ok(()),
        }
    }

    /// A row as an object. Of columns with the same name, the last one counts, as for most who read JSON.
    fn object(&self, row: &[Value]) -> Result<String, Problem> {
        serde_json::to_string(&Object(&self.columns, row))
            .map_err(|error| Problem::new(Code::Internal, format!("cannot write a row as JSON: {error}"), ""))
    }

    fn print_held(&mut self) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY).set_header(self.columns.iter().map(|name| clean(name)));
        for row in self.held.drain(..) {
            table.add_row(row.iter().map(cell));
        }
        self.line(&table.trim_fmt())
    }
}

/// Values by their columns.
struct Object<'a>(&'a [String], &'a [Value]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1))
    }
}

/// A value for people: NULL is not an empty text.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text),
        other => rows::value(other),
    }
}

/// A value for a spreadsheet: NULL is an empty field.
fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "".into(),
        Value::String(text) => text.into(),
        Value::Object(_) => match value.get("hex").and_then(Value::as_str) {
            Some(hex) => format!("x'{hex}'").into(),
            None => rows::value(value).into(),
        },
        other => other.to_string().into(),
    }
}

/// Fields as RFC 4180 has them.
fn csv<'a>(fields: impl Iterator<Item = Cow<'a, str>>) -> String {
    let quoted = |text: Cow<'a, str>| match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text,
    };
    fields.map(quoted).collect::<Vec<_>>().join(",")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_in_each_format() {
        let row =
            [json!(null), json!(""), json!("a,\"b\""), json!({"hex": "00ff"}), json!(2.5), json!("x|y")];
        assert_eq!(csv(row.iter().map(plain)), ",,\"a,\"\"b\"\"\",x'00ff',2.5,x|y");
        let cells: Vec<String> = row.iter().map(cell).collect();
        assert_eq!(cells, ["NULL", "", "a,\"b\"", "x'00ff'", "2.5", "x|y"]);
        assert_eq!(escaped("x|y\\"), "x\\|y\\\\");
    }
}
