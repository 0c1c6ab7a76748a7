//! `ls`, `show` and `as-of`: what is kept.

use std::fmt::Write as _;

use asat_core::version::{State, plain};
use asat_core::{Code, NameError, Problem, StoreName};
use jiff::Timestamp;

use super::args::{AsOfArgs, LsArgs, OneVersion};
use super::find::{self, Moment};
use super::output::{Failure, Output};
use super::table;
use super::when::day_ends;
use crate::text::{absolute, both, clean, counted, size};
use asat_client::{Client, Request};
use asat_wire::{OfSet, Pin, Publication, Version, VersionList};

/// Versions asked for at once.
const PAGE: usize = 100;

pub(super) async fn ls(args: &LsArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let wanted = if args.all { usize::MAX } else { usize::try_from(args.limit).unwrap_or(usize::MAX) };
    let list = list(args, wanted, client).await?;
    output.answer(&list, |list| table::versions(&list.versions, Timestamp::now()))?;
    if list.versions.is_empty() {
        output.remark(&nothing_listed(args, client).await?);
    } else if list.next_cursor.is_some() {
        output.remark("there are older ones: see more with --limit or --all");
    }
    Ok(())
}

/// Why a list is empty: nothing was published yet, or nothing is as it was asked for.
async fn nothing_listed(args: &LsArgs, client: &Client) -> Result<String, Problem> {
    let unfiltered = args.label.is_none()
        && args.certified_by.is_none()
        && args.business_date.is_none()
        && args.note.is_none()
        && args.attribute.is_none()
        && args.set.is_none()
        && args.set_cut_at.is_none()
        && args.from.is_none()
        && args.to.is_none()
        && args.state.is_empty();
    if !unfiltered {
        return Ok("no version matches".to_owned());
    }
    let any = Request::get(&["versions"]).query("store", args.store.as_ref().map(|store| store.as_str()));
    let any: VersionList = client.ask(&any.query("state", Some("any")).query("limit", Some("1"))).await?;
    Ok(match (&args.store, any.versions.is_empty()) {
        (Some(store), true) => format!("store {store} has no versions yet: asat publish {store} makes one"),
        (None, true) => "there are no versions yet: asat publish makes one".to_owned(),
        (Some(store), false) => {
            format!(
                "store {store} has no version that can be opened: asat ls {store} --state any lists what became of them"
            )
        }
        (None, false) => {
            "there is no version that can be opened: asat ls --state any lists what became of them".to_owned()
        }
    })
}

/// Every version of a store that was acknowledged once, oldest first.
pub(super) async fn kept_or_given_up(store: &StoreName, client: &Client) -> Result<Vec<Version>, Problem> {
    let state = [State::Ready, State::Lost, State::Retiring, State::Retired]
        .map(|state| state.text().to_owned())
        .into();
    let args = LsArgs {
        store: Some(store.clone()),
        label: None,
        certified_by: None,
        business_date: None,
        note: None,
        attribute: None,
        set: None,
        set_cut_at: None,
        from: None,
        to: None,
        state,
        limit: 0,
        all: true,
    };
    let mut versions = list(&args, usize::MAX, client).await?.versions;
    versions.reverse();
    Ok(versions)
}

/// Follows the cursors until enough versions are there, or no more.
async fn list(args: &LsArgs, wanted: usize, client: &Client) -> Result<VersionList, Problem> {
    let mut list = VersionList { versions: Vec::new(), next_cursor: None };
    loop {
        let missing = wanted.saturating_sub(list.versions.len());
        let mut page: VersionList =
            client.ask(&page(args, missing.min(PAGE), list.next_cursor.as_deref())).await?;
        page.versions.truncate(missing);
        let came = page.versions.len();
        let goes_on = page.next_cursor.is_some() && page.next_cursor != list.next_cursor && came > 0;
        if page.next_cursor.is_some() && !goes_on {
            let detail = format!("{} sends the same page of versions again and again", client.server());
            return Err(Problem::new(
                Code::Internal,
                detail,
                "use a client and a daemon of the same version",
            ));
        }
        list.versions.append(&mut page.versions);
        list.next_cursor = page.next_cursor;
        if !goes_on || came == missing {
            return Ok(list);
        }
    }
}

fn page(args: &LsArgs, limit: usize, cursor: Option<&str>) -> Request {
    let states = (!args.state.is_empty()).then(|| args.state.join(","));
    Request::get(&["versions"])
        .query("store", args.store.as_ref().map(|store| store.as_str()))
        .query("label", args.label.as_deref())
        .query("certified_by", args.certified_by.as_deref())
        .query("business_date", args.business_date.map(|date| date.to_string()))
        .query("note", args.note.clone())
        .query("attribute", args.attribute.as_ref().map(|(name, value)| format!("{name}:{value}")))
        .query("set", args.set.as_ref().map(|set| set.as_str()))
        .query("set_cut_at", args.set_cut_at.map(|at| at.to_string()))
        .query("from", args.from.map(|at| at.to_string()))
        .query("to", args.to.map(|at| at.to_string()))
        .query("state", states)
        .query("limit", Some(limit.to_string()))
        .query("cursor", cursor)
}

pub(super) async fn show(args: &OneVersion, client: &Client, output: &Output) -> Result<(), Failure> {
    let version: Version = client.ask(&Request::get(&["versions", args.version.text()])).await?;
    output.answer(&version, |version| describe(version, Timestamp::now()))
}

pub(super) async fn as_of(args: &AsOfArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let (moment, store, at) = match (args.business_date, args.time.as_deref()) {
        // What would be the time is the store then.
        (Some(day), store) => {
            let store = store.map(str::parse).transpose().map_err(not_a_store)?;
            (Moment::BusinessDay(day), store, format!("business day {day}"))
        }
        (None, time) => {
            let time = time.unwrap_or("now");
            let at = day_ends(time).map_err(|hint| match &args.store {
                Some(store) if day_ends(store.as_str()).is_ok() => {
                    no_time(time, format!("the time comes first: asat as-of {store} {}", clean(time)))
                }
                _ => no_time(time, hint),
            })?;
            (Moment::At(at), args.store.clone(), absolute(at))
        }
    };
    let version = find::at(moment, store.as_ref(), client).await?;
    output.answer(&version, |version| format!("As of {at}:\n{}", describe(version, Timestamp::now())))
}

fn not_a_store(error: NameError) -> Problem {
    Problem::new(Code::Invalid, error.to_string(), "write asat as-of --business-date 2026-11-19 STORE")
}

fn no_time(text: &str, hint: String) -> Problem {
    // What begins so is taken for a time, as -7d is one.
    if text.starts_with("--") {
        let detail = format!("asat as-of has no option {}", clean(text));
        return Problem::new(Code::Invalid, detail, "asat as-of --help lists those that it has");
    }
    Problem::new(Code::Invalid, format!("{:?} is no time", clean(text)), hint)
}

/// Everything about a version.
fn describe(version: &Version, now: Timestamp) -> String {
    let mut text = format!("{}\n", clean(&version.id));
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "  {name:<12} {value}");
        }
    };
    line("state", Some(clean(&version.state)));
    let reason = version.end_reason.as_deref().map_or_else(String::new, |why| format!(": {}", clean(why)));
    line("ended", version.ended_at.map(|at| format!("{}{reason}", both(at, now))));
    line("pages until", version.purge_after.map(|at| both(at, now)));
    line("cut", version.cut_at.map(|at| both(at, now)));
    let pages = version.page_size.map_or_else(String::new, |bytes| format!(", in pages of {bytes} bytes"));
    line("size", version.size_bytes.map(|bytes| format!("{}{pages}", size(bytes))));
    line("kept", Some(held(version)));
    line("bucket", version.remote.as_deref().map(clean));
    line("fingerprint", version.fingerprint.as_deref().map(clean));
    line("pinned", version.pin.as_ref().map(|pin| pinned(pin, now)));
    line("tags", Some(clean(&version.tags.join(", "))).filter(|tags| !tags.is_empty()));
    line("leases", (version.leases > 0).then(|| version.leases.to_string()));
    line("open at", version.path.as_deref().map(clean));
    let _ = writeln!(text, "{}, the newest first", counted_publications(version));
    for publication in version.publications.iter().rev() {
        text.push_str(&published(publication, now));
    }
    if version.publication_count > version.publications.len() {
        let _ = writeln!(text, "  older ones: GET /v1/versions/{}/publications", clean(&version.id));
    }
    text
}

/// What holds a version's pages.
fn held(version: &Version) -> String {
    let each = version.holdings.iter().map(|holding| match &holding.name {
        Some(name) => format!("in the snapshot {}", clean(name)),
        None => format!("{} in the {}", size(holding.bytes), clean(&holding.kind)),
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { "nowhere".to_owned() } else { each.join(", ") }
}

fn counted_publications(version: &Version) -> String {
    counted(u64::try_from(version.publication_count).unwrap_or(u64::MAX), "publication")
}

/// Why, by whom and until when a version is pinned.
pub(super) fn pinned(pin: &Pin, now: Timestamp) -> String {
    let mut text = clean(&pin.reason);
    if let Some(owner) = &pin.owner {
        let _ = write!(text, ", by {}", clean(owner));
    }
    if let Some(end) = pin.expires_at {
        let word = if end <= now { "expired" } else { "until" };
        let _ = write!(text, ", {word} {}", both(end, now));
    }
    text
}

fn published(publication: &Publication, now: Timestamp) -> String {
    let mut text = format!("  {}", both(publication.at, now));
    let said = [
        ("", &publication.label),
        ("certified by ", &publication.certified_by),
        ("for ", &publication.business_date),
    ];
    for (word, value) in said {
        if let Some(value) = value {
            let _ = write!(text, ", {word}{}", clean(value));
        }
    }
    text.push('\n');
    for (name, value) in &publication.attributes {
        let _ = writeln!(text, "    {}: {}", clean(name), clean(&plain(value)));
    }
    if let Some(OfSet { name, cut_at }) = &publication.set {
        let _ = writeln!(text, "    with the set {} as of {cut_at:.6}", clean(name));
    }
    for line in publication.note.iter().flat_map(|note| note.lines()) {
        let _ = writeln!(text, "    {}", clean(&line.replace('\t', " ")));
    }
    for check in &publication.checks {
        let word = if check.passed { "met" } else { "not met" };
        let _ = writeln!(text, "    check {} {word}: {}", clean(&check.name), clean(&check.found));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_in_full() {
        let version: Version = serde_json::from_value(serde_json::json!({
            "id": "report@12", "store": "report", "number": 12, "state": "ready",
            "cut_at": "2026-11-19T17:00:03.123456Z", "fingerprint": "00ff", "size_bytes": 48_672_768,
            "page_size": 4096, "holdings": [
                {"kind": "snapshot", "backend": "lvm-thin", "name": "vg/asat.12", "bytes": 0},
                {"kind": "archive", "bytes": 812_344},
            ],
            "publication_count": 2, "publications": [
                {"at": "2026-11-19T17:00:00Z", "label": "close", "certified_by": "ops",
                 "business_date": "2026-11-19", "note": "two\nlines\u{1b}",
                 "attributes": {"batch": 41, "run": "x\u{1b}"},
                 "set": {"name": "month-end", "cut_at": "2026-11-19T17:00:03.123456Z"},
                 "checks": [{"name": "rows", "passed": true, "found": "1204", "took_ms": 0.4}]},
                {"at": "2026-11-19T18:00:00Z", "label": null, "certified_by": null,
                 "business_date": null, "note": null},
            ],
            "pin": {"reason": "audit", "owner": "anna", "expires_at": "2026-11-22T20:00:00Z", "hot": false},
            "tags": ["month-end", "q4"], "leases": 1, "path": "/copies/report.db", "ended_at": null, "end_reason": null,
        }))
        .unwrap();
        let expected = "\
report@12
  state        ready
  cut          2026-11-19 17:00:03 UTC (2 hours ago)
  size         46.4 MiB, in pages of 4096 bytes
  kept         in the snapshot vg/asat.12, 793.3 KiB in the archive
  fingerprint  00ff
  pinned       audit, by anna, until 2026-11-22 20:00:00 UTC (in 3 days)
  tags         month-end, q4
  leases       1
  open at      /copies/report.db
2 publications, the newest first
  2026-11-19 18:00:00 UTC (2 hours ago)
  2026-11-19 17:00:00 UTC (3 hours ago), close, certified by ops, for 2026-11-19
    batch: 41
    run: x\\u{1b}
    with the set month-end as of 2026-11-19T17:00:03.123456Z
    two
    lines\\u{1b}
    check rows met: 1204
";
        assert_eq!(describe(&version, "2026-11-19T20:00:00Z".parse().unwrap()), expected);
    }
}
