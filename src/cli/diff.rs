//! `diff`: what changed between two versions.

use std::io::{self, IsTerminal as _};

use asat_core::{Code, Problem, StoreName, VersionId};

use super::args::{DiffArgs, DiffFormat};
use super::find::{self, Moment};
use super::lines::Lines;
use super::marks::{Mark, is_coloured};
use super::output::{Failure, Output, Pieces};
use super::pager::Pager;
use super::progress::Bars;
use super::table;
use super::typed::Wanted;
use crate::text::{clean, counted, rows};
use asat_client::{Client, Request, Stream};
use asat_wire::{Diff, DiffLine, Fields, SchemaChange, Side, TableDiff, Version, VersionList};

const COMPARING: &str = "comparing";

pub(super) async fn diff(
    args: &DiffArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let (from, to) = sides(args, client).await?;
    let sides = (from.as_str(), to.as_str());
    // Rows are not counted by other columns than the key.
    let has_rows = args.rows || !args.by.is_empty();
    let mut differ = false;
    let printed = match args.format {
        None if has_rows && output.is_json() => {
            lines_as_they_are(args, sides, client, output, &mut differ).await
        }
        None if has_rows => rows_for_people(args, sides, (client, bars), output, &mut differ).await,
        None | Some(DiffFormat::Summary) => summary(args, sides, bars, output, &mut differ).await,
        Some(DiffFormat::Jsonl) => lines_as_they_are(args, sides, client, output, &mut differ).await,
        Some(format) => formatted(args, sides, format, (client, bars), output, &mut differ).await,
    };
    match printed {
        // A reader who has seen enough of what differs knows that it does.
        Ok(()) | Err(Failure::OutputClosed) if differ => Err(Failure::Differ),
        printed => printed,
    }
}

/// The names of the two versions.
async fn sides(args: &DiffArgs, client: &Client) -> Result<(String, String), Failure> {
    let mut sides = Vec::new();
    let store = store(args)?;
    for at in &args.as_of {
        sides.push(find::at(Moment::At(*at), store, client).await?.id);
    }
    let named = args.versions.iter().filter_map(|wanted| match wanted {
        Wanted::Version(version) => Some(version.text()),
        Wanted::Store(_) => None,
    });
    let named: Vec<&str> = named.collect();
    if let ([then], [named]) = (sides.as_slice(), named.as_slice()) {
        return older_first(then, named, client).await;
    }
    for wanted in named {
        // What `latest` or a tag means today may be another version tomorrow.
        sides.push(match wanted.parse::<VersionId>() {
            Ok(_) => wanted.to_owned(),
            Err(_) => client.ask::<Version>(&Request::get(&["versions", wanted])).await?.id,
        });
    }
    match sides.as_slice() {
        [from, to] => Ok((from.clone(), to.clone())),
        [only] => before(only, client).await,
        _ => {
            let hint =
                "write asat diff report@11 report@12, or one version to compare it with the one before";
            let detail = format!("{} versions are named, and two are compared", sides.len());
            Err(Problem::new(Code::Invalid, detail, hint).into())
        }
    }
}

/// A version found by a time, and one that is named: what changed is told from the older one to the newer.
async fn older_first(then: &str, named: &str, client: &Client) -> Result<(String, String), Failure> {
    let [then, named] = [then, named].map(|id| Request::get(&["versions", id]));
    let (then, named): (Version, Version) = (client.ask(&then).await?, client.ask(&named).await?);
    let is_later = then.number > named.number;
    Ok(if is_later { (named.id, then.id) } else { (then.id, named.id) })
}

/// The store of --as-of.
fn store(args: &DiffArgs) -> Result<Option<&StoreName>, Problem> {
    let mut stores = args.versions.iter().filter_map(|wanted| match wanted {
        Wanted::Store(store) => Some(store),
        Wanted::Version(_) => None,
    });
    match (stores.next(), stores.next()) {
        (Some(store), None) if args.as_of.is_empty() => {
            let detail = format!("no versions of {store} are named to be compared");
            let hint = format!("write {store}@latest, or {store} with --as-of TIME twice");
            Err(Problem::new(Code::Invalid, detail, hint))
        }
        (Some(_), Some(_)) => {
            let hint = "write asat diff report@11 report@12, or report --as-of TIME --as-of TIME";
            Err(Problem::new(Code::Invalid, "two stores are named, and versions of one are compared", hint))
        }
        (store, _) => Ok(store),
    }
}

/// A version, behind the one before it.
async fn before(wanted: &str, client: &Client) -> Result<(String, String), Failure> {
    let version: Version = client.ask(&Request::get(&["versions", wanted])).await?;
    let list: VersionList = client
        .ask(
            &Request::get(&["versions"])
                .query("store", Some(&version.store))
                .query("state", Some("ready"))
                .query("to", version.cut_at.map(|at| at.to_string()))
                .query("limit", Some("2")),
        )
        .await?;
    match list.versions.iter().find(|other| other.number < version.number) {
        Some(before) => Ok((before.id.clone(), version.id)),
        None => {
            let detail = format!("there is no version before {} that can be read", version.id);
            Err(Problem::new(Code::BeforeFirst, detail, "name two versions: asat diff report@11 report@12")
                .into())
        }
    }
}

fn request(args: &DiffArgs, (from, to): (&str, &str), format: Option<&str>) -> Request {
    Request::get(&["versions", from, "diff", to])
        .query("format", format)
        .query("table", args.table.as_deref())
        .query("by", (!args.by.is_empty()).then(|| args.by.join(",")))
        .query("all", args.all.then_some("true"))
        .query("limit", args.limit.map(|limit| limit.to_string()))
        .long()
}

async fn summary(
    args: &DiffArgs,
    sides: (&str, &str),
    bars: &Bars<'_>,
    output: &Output,
    differ: &mut bool,
) -> Result<(), Failure> {
    let diff: Diff = bars.ask(COMPARING, &request(args, sides, None)).await?;
    *differ = !diff.tables.is_empty();
    output.answer(&diff, told)
}

fn told(diff: &Diff) -> String {
    let from = diff.from.as_deref().map(clean).unwrap_or_default();
    let between = format!("{from} -> {}", clean(&diff.to));
    if diff.tables.is_empty() {
        return format!("{between}: nothing differs");
    }
    format!("{between}\n{}", table::diffs(&diff.tables))
}

/// What a summary says of a table's definition, and of how its rows were compared.
pub(super) fn remarks(table: &TableDiff) -> String {
    let mut remarks = Vec::new();
    if let Some(SchemaChange { change, columns_added, columns_dropped, .. }) = &table.schema {
        remarks.push(match &table.renamed_from {
            Some(before) => format!("renamed from {before}"),
            None => change.clone(),
        });
        let columns = |word: &str, columns: &[String]| {
            (!columns.is_empty()).then(|| format!("{word} {}", columns.join(", ")))
        };
        remarks.extend(columns("with", columns_added));
        remarks.extend(columns("without", columns_dropped));
    }
    match table.compared.as_str() {
        "all_pages" if table.schema.is_none() => remarks.push("all rows were read".to_owned()),
        "replaced" => remarks.push("its key is another, so all rows count".to_owned()),
        _ => {}
    }
    remarks.extend(table.problem.clone());
    clean(&remarks.join("; "))
}

/// The rows' stream as it comes.
async fn lines_as_they_are(
    args: &DiffArgs,
    sides: (&str, &str),
    client: &Client,
    output: &Output,
    differ: &mut bool,
) -> Result<(), Failure> {
    let mut lines = Differences::new(client.stream(&request(args, sides, Some("jsonl"))).await?);
    let mut pieces = Pieces::new(output);
    let printed = print(&mut lines, &mut pieces, differ).await;
    // What came before something went wrong was asked for, too.
    pieces.flush()?;
    printed
}

/// Prints the lines, and notes if anything differs.
async fn print(lines: &mut Differences, pieces: &mut Pieces<'_>, differ: &mut bool) -> Result<(), Failure> {
    while let Some((text, line)) = lines.next().await? {
        *differ |= line.op != "end";
        pieces.add(&text)?;
        if lines.lines.must_wait() {
            pieces.flush()?;
        }
    }
    Ok(())
}

async fn rows_for_people(
    args: &DiffArgs,
    sides: (&str, &str),
    (client, bars): (&Client, &Bars<'_>),
    output: &Output,
    differ: &mut bool,
) -> Result<(), Failure> {
    let request = request(args, sides, Some("jsonl"));
    let mut lines = Differences::new(bars.during(COMPARING, |_| false, client.stream(&request)).await?);
    let coloured = is_coloured();
    let mut pager = Pager::open(output);
    let mut table = None;
    while let Some((_, line)) = lines.next().await? {
        if line.op == "end" {
            if line.next_cursor.is_some() {
                let rows = counted(line.rows.unwrap_or_default(), "row");
                pager.line(&format!("… and more: {rows} shown; --limit shows others"))?;
            }
            continue;
        }
        if !*differ {
            *differ = true;
            pager.line(&Mark::Deleted.line(&clean(sides.0), coloured))?;
            pager.line(&Mark::Inserted.line(&clean(sides.1), coloured))?;
        }
        if table != line.table {
            let name = line.table.as_deref().map(clean).unwrap_or_default();
            pager.line(&Mark::Heading.line(&name, coloured))?;
            table.clone_from(&line.table);
        }
        for text in line_for_people(&line, coloured) {
            pager.line(&text)?;
        }
    }
    Ok(())
}

/// A row that a line has, if it has one.
fn row(side: &Option<Side>) -> Option<&Fields> {
    side.as_ref().and_then(Side::row)
}

fn line_for_people(line: &DiffLine, coloured: bool) -> Vec<String> {
    if line.op == "schema" {
        let sql = |side: &Option<Side>| match side {
            Some(Side::Sql(sql)) => sql.lines().map(clean).collect(),
            _ => Vec::new(),
        };
        let before = sql(&line.before).into_iter().map(|sql| Mark::Deleted.line(&sql, coloured));
        let after = sql(&line.after).into_iter().map(|sql| Mark::Inserted.line(&sql, coloured));
        return before.chain(after).collect();
    }
    let key = line.key.clone().unwrap_or_default();
    let text = rows::change(&key, &line.changed, row(&line.before), row(&line.after));
    vec![Mark::of(&line.op).line(&text, coloured)]
}

/// What another program reads, as the daemon writes it.
async fn formatted(
    args: &DiffArgs,
    sides: (&str, &str),
    format: DiffFormat,
    (client, bars): (&Client, &Bars<'_>),
    output: &Output,
    differ: &mut bool,
) -> Result<(), Failure> {
    let name = match format {
        DiffFormat::Sql => "sql",
        DiffFormat::Csv => "csv",
        DiffFormat::Changeset => "changeset",
        DiffFormat::Html => "html",
        DiffFormat::Summary | DiffFormat::Jsonl => "jsonl",
    };
    if format == DiffFormat::Changeset && io::stdout().is_terminal() {
        let hint = "redirect it: asat diff … --format changeset > changes";
        return Err(Problem::new(Code::Invalid, "a changeset is no text for a terminal", hint).into());
    }
    // A page says something even if nothing differs.
    let summary: Diff = bars.ask(COMPARING, &request(args, sides, None)).await?;
    *differ = !summary.tables.is_empty();
    let mut stream = client.stream(&request(args, sides, Some(name))).await?;
    while let Some(piece) = stream.next().await? {
        // A script also changes what the summary leaves out, such as indexes.
        *differ |= format == DiffFormat::Sql && !piece.is_empty();
        output.foreign(&piece)?;
    }
    Ok(())
}

/// The lines of what differs, of which the last one says that there are no more.
struct Differences {
    lines: Lines,
    has_ended: bool,
}

impl Differences {
    fn new(stream: Stream) -> Self {
        Self { lines: Lines::new(stream), has_ended: false }
    }

    async fn next(&mut self) -> Result<Option<(String, DiffLine)>, Problem> {
        match self.lines.next::<DiffLine>().await? {
            Some((text, line)) => {
                self.has_ended |= line.op == "end";
                Ok(Some((text, line)))
            }
            None if self.has_ended => Ok(None),
            None => {
                let hint = "read the daemon's log, which says why";
                Err(Problem::new(Code::Unreachable, "the daemon broke the answer off", hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_for_people() {
        let table = |name: &str| TableDiff {
            table: name.to_owned(),
            renamed_from: None,
            kind: "table".to_owned(),
            schema: None,
            compared: "changed_pages".to_owned(),
            inserted: 12,
            deleted: 0,
            updated: 340,
            problem: None,
        };
        let altered = SchemaChange {
            change: "altered".to_owned(),
            before: None,
            after: None,
            columns_added: vec!["note".to_owned()],
            columns_dropped: Vec::new(),
        };
        let with_note = TableDiff { schema: Some(altered), ..table("sale") };
        let mut diff = Diff {
            from: Some("report@11".to_owned()),
            to: "report@12".to_owned(),
            tables: vec![table("valuation"), with_note],
            problem: None,
        };
        let expected = "\
report@11 -> report@12
TABLE      INSERTED  DELETED  UPDATED
valuation  12        0        340
sale       12        0        340      altered; with note";
        assert_eq!(told(&diff), expected);
        diff.tables.clear();
        assert_eq!(told(&diff), "report@11 -> report@12: nothing differs");
    }

    #[test]
    fn a_changed_definition_is_shown_line_by_line() {
        let line: DiffLine = serde_json::from_value(serde_json::json!({
            "table": "t", "op": "schema", "change": "altered", "before": "CREATE TABLE t(\n a)", "after": "CREATE TABLE t(a, b)",
        }))
        .unwrap();
        let expected = ["- CREATE TABLE t(", "-  a)", "+ CREATE TABLE t(a, b)"];
        assert_eq!(line_for_people(&line, false), expected);
    }
}
