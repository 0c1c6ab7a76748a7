//! `/page/versions/{id}`: one version: what it is, what it changed, and how to go on in a tool made for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use asat_core::register::{Headline, History, Register};
use asat_core::version::State as VersionState;
use asat_core::{Problem, StoreName, VersionId};
use asat_rows::{Comparison, Format, Selection};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::super::access::{Caller, SignedIn};
use super::super::extract::Segments;
use super::super::work::{Wanted, blocking};
use super::super::{Answer, Face};
use super::Frame;
use super::leases::Leases;
use super::plots::{self, Plot};
use super::timeline::{Item, Published};
use crate::config::Role;
use crate::daemon::Comparisons;
use crate::text::rows;
use asat_wire::{Diff, DiffLine, Side, TableDiff};

/// What the page's script sends when it asks for the page again.
const REFRESH: &str = "asat-refresh";
/// Of so many tables the first rows are shown, and of each so many.
const MOST_TABLES: usize = 10;
const MOST_ROWS: u64 = 5;
/// So many publications are shown.
const MOST_PUBLISHED: usize = 50;
/// Of so many versions it is drawn what they changed, and of so many tables.
const DRAWN: usize = 30;
const DRAWN_TABLES: usize = 4;

#[derive(Template)]
#[template(path = "version.html")]
struct Page {
    frame: Frame,
    may_publish: bool,
    may_administer: bool,
    item: Item,
    leases: Leases,
    full: String,
    before: Option<String>,
    after: Option<String>,
    published: Vec<Published>,
    /// How many older publications are not shown.
    older: usize,
    changes: Changes,
    plots: Vec<Plot>,
    tools: Vec<(&'static str, String)>,
}

/// What a version changed.
#[derive(Default)]
struct Changes {
    tables: Vec<Table>,
    /// Tables that are only counted.
    more: usize,
    /// Why it is not known, or that nothing changed.
    said: Option<String>,
}

/// What changed in a table.
struct Table {
    name: String,
    counts: [u64; 3],
    remark: String,
    rows: Vec<Line>,
    has_more: bool,
}

/// A row that changed.
struct Line {
    op: String,
    sign: &'static str,
    text: String,
}

pub(super) async fn show(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Extension(signed_in): Extension<SignedIn>,
    headers: HeaderMap,
    Segments(wanted): Segments<String>,
) -> Answer<Response> {
    let id = face.version_id(&wanted)?;
    let now = face.machine.believed().time;
    let version = face.version(&id.to_string())?;
    let (before, after, newest) = {
        let engine = face.handle.engine();
        let history = engine.register().history(&id.store)?;
        (near(history, &id, true), near(history, &id, false), newest(history))
    };
    // What it changed stays as it is: a page that is asked for again, to see what is new, has that already.
    let changes = match headers.contains_key(REFRESH) {
        true => Changes::default(),
        false => changes(&face, &caller, before.as_ref(), &id).await,
    };
    let (comparisons, store) = (Arc::clone(&face.comparisons), id.store.clone());
    let plots = face.work.run(move || Ok(drawn(&comparisons, &store, &newest))).await?;
    let (at, full) =
        (version.cut_at.unwrap_or(now), version.cut_at.map(crate::text::absolute).unwrap_or_default());
    let tools = tools(&id, before.as_ref(), version.path.as_deref());
    let page = Page {
        may_publish: caller.role >= Role::Publish && face.machine.follows().config().is_none(),
        may_administer: caller.role >= Role::Admin,
        leases: Leases::of_version(&face, &caller, &id, now),
        frame: Frame::of(&caller, signed_in),
        older: version.publication_count.saturating_sub(version.publications.len().min(MOST_PUBLISHED)),
        published: version
            .publications
            .iter()
            .rev()
            .take(MOST_PUBLISHED)
            .map(|publication| Published::new(publication, now))
            .collect(),
        item: Item::new(version, at, now),
        full,
        before: before.map(|id| id.to_string()),
        after: after.map(|id| id.to_string()),
        changes,
        plots,
        tools,
    };
    Ok(super::answer(StatusCode::OK, &page))
}

fn is_readable(version: &Headline) -> bool {
    version.state == VersionState::Ready && version.is_archived
}

/// The next version that can be read, before one or after it.
fn near(history: &History, id: &VersionId, is_before: bool) -> Option<VersionId> {
    let mut headlines = history.versions.headlines().filter(|headline| is_readable(headline));
    let found = match is_before {
        true => headlines.rev().find(|headline| headline.number < id.number),
        false => headlines.find(|headline| headline.number > id.number),
    };
    found.map(|headline| VersionId { store: id.store.clone(), number: headline.number })
}

/// The newest versions that can be read, newest first.
fn newest(history: &History) -> Vec<VersionId> {
    let readable = history.versions.headlines().rev().filter(|headline| is_readable(headline));
    let id = |headline: &Headline| VersionId { store: history.store.name.clone(), number: headline.number };
    readable.take(DRAWN + 1).map(id).collect()
}

/// What a version changed since the one before.
async fn changes(face: &Arc<Face>, caller: &Caller, before: Option<&VersionId>, id: &VersionId) -> Changes {
    let said = |text: String| Changes { said: Some(text), ..Changes::default() };
    let Some(before) = before.cloned() else {
        return said("It is the first version that is kept.".to_owned());
    };
    if !face.handle.is_archived(id).unwrap_or(false) {
        return said("It is not in the archive yet, or cannot be read any more.".to_owned());
    }
    let share = match face.work.comparisons.take(caller) {
        Ok(share) => share,
        Err(problem) => return said(format!("It is not known now: {problem}.")),
    };
    let (comparisons, to, wanted) = (Arc::clone(&face.comparisons), id.clone(), Wanted::default());
    let given_up = wanted.given_up();
    let found = blocking(move || {
        let _share = share;
        let diff = comparisons.diff(&before, &to, &given_up)?;
        Changes::read(&comparisons, &before, &to, diff, &given_up)
    })
    .await;
    found.unwrap_or_else(|problem| said(format!("It cannot be compared with the version before: {problem}.")))
}

impl Changes {
    fn read(
        comparisons: &Comparisons,
        from: &VersionId,
        to: &VersionId,
        diff: Diff,
        given_up: &Arc<AtomicBool>,
    ) -> Result<Self, Problem> {
        let tables: Vec<TableDiff> = diff.tables.into_iter().filter(|table| table.kind == "table").collect();
        if tables.is_empty() {
            return Ok(Self { said: Some("No row of any table is another.".to_owned()), ..Self::default() });
        }
        let more = tables.len().saturating_sub(MOST_TABLES);
        let shown = comparisons.compare(from, to, given_up, |comparison| {
            Ok(tables.into_iter().take(MOST_TABLES).map(|table| Table::read(comparison, table)).collect())
        })?;
        Ok(Self { tables: shown, more, said: None })
    }
}

impl Table {
    fn read(comparison: &Comparison<'_>, table: TableDiff) -> Self {
        let mut out = Vec::new();
        let selection =
            Selection { table: Some(table.table.clone()), limit: Some(MOST_ROWS), ..Selection::default() };
        let written =
            asat_rows::write(comparison, &selection, Format::JsonLines, &|_| String::new(), &mut out);
        let lines = out.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let mut remark = table.schema.as_ref().map(|schema| schema.change.clone()).unwrap_or_default();
        if let Some(problem) = written.as_ref().err().map(ToString::to_string).or(table.problem) {
            remark.push_str(if remark.is_empty() { "" } else { "; " });
            remark.push_str(&problem);
        }
        Self {
            name: table.table,
            counts: [table.inserted, table.deleted, table.updated],
            remark,
            rows: lines.filter_map(|line: DiffLine| Line::of(&line)).collect(),
            has_more: written.is_ok_and(|written| written.more),
        }
    }
}

impl Line {
    fn of(line: &DiffLine) -> Option<Self> {
        let sign = match line.op.as_str() {
            "insert" => "+",
            "delete" => "−",
            "update" => "~",
            _ => return None,
        };
        let row = |side: &Option<Side>| side.as_ref().and_then(Side::row).cloned();
        let (before, after) = (row(&line.before), row(&line.after));
        let key = line.key.clone().unwrap_or_default();
        let text = rows::change(&key, &line.changed, before.as_ref(), after.as_ref());
        Some(Self { op: line.op.clone(), sign, text })
    }
}

/// How many rows each version has changed in the tables that changed most, as far as that is known.
fn drawn(comparisons: &Comparisons, store: &StoreName, newest: &[VersionId]) -> Vec<Plot> {
    let mut tables: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    let pairs: Vec<_> = newest.iter().zip(newest.iter().skip(1)).collect();
    for (new, old) in pairs.into_iter().rev() {
        let Some(diff) = comparisons.known_diff(old, new) else { continue };
        for table in diff.tables.into_iter().filter(|table| table.kind == "table") {
            let rows = table.inserted + table.deleted + table.updated;
            tables.entry(table.table).or_default().push((new.to_string(), rows));
        }
    }
    let mut tables: Vec<_> = tables.into_iter().collect();
    tables.sort_by_key(|(_, values)| std::cmp::Reverse(values.iter().map(|(_, rows)| rows).sum::<u64>()));
    tables
        .into_iter()
        .take(DRAWN_TABLES)
        .map(|(table, values)| plots::changed(store, &table, values))
        .collect()
}

/// Commands that a reader may type next.
fn tools(id: &VersionId, before: Option<&VersionId>, path: Option<&str>) -> Vec<(&'static str, String)> {
    let mut tools = Vec::new();
    match path {
        Some(path) => {
            let quoted = format!("'{}'", path.replace('\'', "'\\''"));
            tools.push(("In the SQLite shell", format!("sqlite3 -readonly {quoted}")));
            tools.push(("In Datasette", format!("datasette serve --immutable {quoted}")));
            tools.push(("In DB Browser", format!("sqlitebrowser --read-only {quoted}")));
        }
        None => tools.push(("Open it, and see its path", format!("asat open {id}"))),
    }
    tools.push((
        "Run a command on it, which is open as long as that runs",
        format!("asat exec {id} -- sqlite3 -readonly {{}}"),
    ));
    if let Some(before) = before {
        tools.push(("All rows that changed", format!("asat diff {before} {id} --rows")));
    }
    tools.push(("The life of one row", format!("asat history {} TABLE KEY", id.store)));
    tools.push((
        "A query over this and other moments",
        format!("asat sql \"select count(*) from \\\"{id}\\\".TABLE\""),
    ));
    tools
}

/// A version, behind the one before it that can be read.
pub(super) fn before(register: &Register, id: &VersionId) -> Option<(VersionId, VersionId)> {
    Some((near(register.history(&id.store).ok()?, id, true)?, id.clone()))
}

/// What a version changed, in a line, if that is known.
pub(super) fn known(comparisons: &Comparisons, before: &VersionId, id: &VersionId) -> Option<String> {
    let diff = comparisons.known_diff(before, id)?;
    let tables = diff.tables.iter().filter(|table| table.kind == "table");
    let words: Vec<String> = tables
        .map(|table| {
            let counts = [("+", table.inserted), ("−", table.deleted), ("~", table.updated)];
            let counts = counts.into_iter().filter(|(_, count)| *count > 0);
            let counts: Vec<String> = counts.map(|(sign, count)| format!("{sign}{count}")).collect();
            let schema =
                table.schema.as_ref().map(|schema| format!(" {}", schema.change)).unwrap_or_default();
            format!("{}{schema} {}", table.table, counts.join(" ")).trim_end().to_owned()
        })
        .collect();
    Some(match words.as_slice() {
        [] => "no rows changed".to_owned(),
        words if words.len() > 6 => {
            format!("{} and {} more tables", words.get(..5)?.join(", "), words.len() - 5)
        }
        words => words.join(", "),
    })
}
