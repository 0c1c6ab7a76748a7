//! A page for a browser: a table for each table that differs, with what changed marked. It needs nothing but itself.

use std::io::Write;

use crate::comparison::TableChange;
use crate::differences::Difference;
use crate::error::Error;
use crate::row::Row;
use crate::value::Value;
use crate::written::{Writer, Written};

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>What changed</title><style>\
:root{color-scheme:light dark;--ground:#fff;--ink:#1b2422;--rule:#d9dfdb;--in:#e2f3e6;--out:#fbe6e4;--mark:#fbf0d9}\
@media(prefers-color-scheme:dark){:root{--ground:#101615;--ink:#e4ebe8;--rule:#2c3936;--in:#16321f;--out:#3a1f1d;--mark:#4a3a14}}\
body{margin:1.5rem;background:var(--ground);color:var(--ink);font:1rem/1.4 system-ui,sans-serif}\
.scrolls{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}th,td{border:1px solid var(--rule);padding:.2rem .5rem;\
text-align:start;vertical-align:top;max-width:40ch;overflow-wrap:anywhere}.insert,.after{background:var(--in)}\
.delete,.before{background:var(--out)}mark{background:var(--mark);color:inherit;font-weight:600}i{opacity:.6}pre{white-space:pre-wrap}\
</style></head><body><h1>What changed</h1>\n";
/// So much of a text or a blob is shown.
const SHOWN: usize = 200;

/// Writes the page.
pub(super) struct Page<'o> {
    out: &'o mut dyn Write,
    has_begun: bool,
    is_in_table: bool,
}

impl<'o> Page<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, has_begun: false, is_in_table: false }
    }

    fn put(&mut self, text: &str) -> Result<(), Error> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    fn begin(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.has_begun, true) { Ok(()) } else { self.put(HEAD) }
    }

    fn end_table(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_in_table) { self.put("</tbody></table></div>\n") } else { Ok(()) }
    }

    fn line(
        &mut self,
        table: &TableChange,
        op: &str,
        row: &Row<'_>,
        is_old: bool,
        marked: &[usize],
    ) -> Result<(), Error> {
        self.put(&format!("<tr class=\"{op}\"><th scope=\"row\">{op}</th>"))?;
        for (nth, column) in table.columns.iter().enumerate() {
            let place = if is_old { column.old } else { column.new };
            let text =
                place.map_or(Ok(String::new()), |place| row.value(place).map(|value| shown(&value)))?;
            let text = if marked.contains(&nth) { format!("<mark>{text}</mark>") } else { text };
            self.put(&format!("<td>{text}</td>"))?;
        }
        self.put("</tr>\n")
    }
}

impl Writer for Page<'_> {
    fn table(&mut self, table: &TableChange) -> Result<(), Error> {
        self.begin()?;
        self.end_table()?;
        self.put(&format!("<h2>{}</h2>\n", escaped(&table.name)))?;
        if table.is_schema_changed() {
            self.put(&format!("<p>The table was {}.</p>\n", table.schema_change()))?;
            for side in [&table.old, &table.new].into_iter().flatten() {
                self.put(&format!("<pre>{}</pre>\n", escaped(&side.sql)))?;
            }
        }
        if table.may_differ() {
            let names: Vec<String> = table
                .columns
                .iter()
                .map(|column| format!("<th scope=\"col\">{}</th>", escaped(&column.name)))
                .collect();
            self.is_in_table = true;
            let names = names.concat();
            self.put(&format!(
                "<div class=\"scrolls\"><table><thead><tr><th></th>{names}</tr></thead><tbody>\n"
            ))?;
        }
        Ok(())
    }

    fn row(&mut self, table: &TableChange, difference: &Difference<'_>) -> Result<(), Error> {
        match difference {
            Difference::Inserted(row) => self.line(table, "insert", row, false, &[]),
            Difference::Deleted(row) => self.line(table, "delete", row, true, &[]),
            Difference::Updated { old, new, columns } => {
                self.line(table, "before", old, true, columns)?;
                self.line(table, "after", new, false, columns)
            }
        }
    }

    fn end(&mut self, written: Written, _: Option<String>) -> Result<(), Error> {
        let has_any = self.has_begun;
        self.begin()?;
        self.end_table()?;
        let text = match (has_any, written.more) {
            (false, _) => "<p>Nothing differs.</p>\n",
            (true, true) => "<p>More rows differ than were asked for.</p>\n",
            (true, false) => "",
        };
        self.put(&format!("{text}</body></html>\n"))
    }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "<i>NULL</i>".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => match text.plain() {
            Some(plain) => shortened(&plain),
            None => format!("<i>text of {} bytes</i>", text.stored.len()),
        },
        Value::Blob(bytes) => format!("<i>blob of {} bytes</i>", bytes.len()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", escaped(text.get(..end).unwrap_or_default())),
        None => escaped(text),
    }
}

/// A text of which nothing is taken for HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
