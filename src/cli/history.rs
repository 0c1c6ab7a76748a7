//! `history`: the life of one row, version by version.

use asat_core::Problem;
use jiff::Timestamp;

use super::args::{HistoryArgs, SqlArgs};
use super::marks::{Mark, is_coloured};
use super::output::{Failure, Output};
use super::progress::Bars;
use crate::text::{both, clean, rows};
use asat_client::{Client, Request};
use asat_wire::{RowChange, RowHistory};

/// So many changes are asked for at a time.
const PAGE: usize = 1000;
const READING: &str = "reading versions";

pub(super) async fn history(
    args: &HistoryArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let Some(key) = &args.key else { return of_all_rows(args, client, output).await };
    let wanted = if args.all { usize::MAX } else { usize::try_from(args.limit).unwrap_or(usize::MAX) };
    let history = read(args, key, wanted, bars).await?;
    output.answer(&history, |history| told(history, Timestamp::now()))
}

/// Each state of each row of the table.
async fn of_all_rows(args: &HistoryArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (store, table) = (quoted(&format!("{}@..", args.store)), quoted(&format!("history_{}", args.table)));
    let query = format!("select * from {store}.{table} order by valid_from, rowid");
    let limit = (!args.all).then_some(u64::from(args.limit));
    let asked = SqlArgs { query: Some(query), file: None, format: None, limit, time: None };
    super::sql::sql(&asked, client, output).await
}

/// Follows the cursors until enough changes are there, or no more.
async fn read(args: &HistoryArgs, key: &str, wanted: usize, bars: &Bars<'_>) -> Result<RowHistory, Problem> {
    let path = ["stores", args.store.as_str(), "tables", &args.table, "rows", key, "history"];
    let page = |cursor: Option<&str>, missing: usize| {
        Request::get(&path)
            .query("column", args.column.as_deref())
            .query("limit", Some(missing.min(PAGE).to_string()))
            .query("cursor", cursor)
            .long()
    };
    let mut history: RowHistory = bars.ask(READING, &page(None, wanted)).await?;
    while history.changes.len() < wanted
        && let Some(cursor) = history.next_cursor.take()
    {
        let missing = wanted - history.changes.len();
        let more: RowHistory = bars.ask(READING, &page(Some(&cursor), missing)).await?;
        history.changes.extend(more.changes);
        history.next_cursor = more.next_cursor;
    }
    Ok(history)
}

fn told(history: &RowHistory, now: Timestamp) -> String {
    let (key, store, table) = (rows::fields(&history.key), clean(&history.store), clean(&history.table));
    if history.changes.is_empty() {
        // What its columns are called is known of a row that was there.
        let key = if key.is_empty() { "this key".to_owned() } else { key };
        return format!("no version of {store} that is kept has had a row with {key} in {table}\n");
    }
    let mut text = format!("{key} of {store}.{table}\n");
    for change in &history.changes {
        text.push_str(&heading(change, now));
        let of_row =
            rows::change(&history.key, &change.changed, change.before.as_ref(), change.after.as_ref());
        text.push_str(&format!("  {}\n", Mark::of(&change.op).line(&of_row, is_coloured())));
    }
    if history.next_cursor.is_some() {
        text.push_str("… and more: --all or a greater --limit shows them\n");
    }
    text
}

/// In which version a row changed, when, and who vouched for it.
fn heading(change: &RowChange, now: Timestamp) -> String {
    let mut text = clean(&change.version);
    if let Some(at) = change.cut_at {
        text.push_str(&format!("  {}", both(at, now)));
    }
    let said =
        [("", &change.label), ("certified by ", &change.certified_by), ("for ", &change.business_date)];
    for (word, value) in said {
        if let Some(value) = value {
            text.push_str(&format!(", {word}{}", clean(value)));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_life_of_a_row() {
        let history: RowHistory = serde_json::from_value(json!({
            "store": "report", "table": "valuation", "key": {"id": 7},
            "changes": [
                {"version": "report@12", "since": "report@11", "op": "update", "cut_at": "2026-11-19T17:00:00Z", "label": "close",
                 "certified_by": "ops", "business_date": "2026-11-19", "changed": ["price"],
                 "before": {"id": 7, "price": 3}, "after": {"id": 7, "price": 4}},
                {"version": "report@1", "since": null, "op": "insert", "cut_at": "2026-10-19T17:00:00Z",
                 "after": {"id": 7, "price": 3}},
            ],
            "next_cursor": null,
        }))
        .unwrap();
        let expected = "\
id=7 of report.valuation
report@12  2026-11-19 17:00:00 UTC (1 hour ago), close, certified by ops, for 2026-11-19
  ~ id=7  price: 3 -> 4
report@1  2026-10-19 17:00:00 UTC
  + id=7 price=3
";
        assert_eq!(told(&history, "2026-11-19T18:00:00Z".parse().unwrap()), expected);
    }
}
