//! `audit`: who did what, and whether that is what was written.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use asat_core::{Code, Problem};

use super::args::AuditArgs;
use super::output::{Failure, Output};
use super::table;
use crate::text::clean;
use asat_client::{Client, Request};
use asat_wire::{AuditHead, AuditList, AuditVerdict};

/// Entries asked for at once.
const PAGE: usize = 500;

pub(super) async fn audit(args: &AuditArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    if args.verify || args.noted.is_some() {
        return verify(args, client, output).await;
    }
    let wanted = if args.all { usize::MAX } else { usize::try_from(args.limit).unwrap_or(usize::MAX) };
    let list = list(args, wanted, client).await?;
    output.answer(&list, |list| table::deeds(&list.entries, io::stdout().is_terminal()))?;
    if list.entries.is_empty() {
        output.remark("nothing of that kind was done");
    } else if list.next_cursor.is_some() {
        output.remark("there are older ones: see more with --limit or --all");
    }
    Ok(())
}

async fn verify(args: &AuditArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let request = Request::get(&["audit"])
        .query("limit", Some("1"))
        .query("verify", Some("true"))
        .query("noted", args.noted.map(|place| place.to_string()));
    let list: AuditList = client.ask(&request.long()).await?;
    let Some(verdict) = &list.verdict else {
        let detail = format!("{} does not say whether its audit trail is what was written", client.server());
        let hint = "use a client and a daemon of the same version";
        return Err(Problem::new(Code::Internal, detail, hint).into());
    };
    let answer = serde_json::json!({ "head": list.head, "verdict": verdict });
    output.answer(&answer, |_| text(verdict, &list.head))?;
    if verdict.ok { Ok(()) } else { Err(Failure::DamageFound) }
}

fn text(verdict: &AuditVerdict, head: &AuditHead) -> String {
    let mut text = match (verdict.ok, verdict.broken_at) {
        (true, _) => {
            let entries = if verdict.sound == 1 { "entry" } else { "entries" };
            format!("the audit trail is what was written: {} {entries}\n", verdict.sound)
        }
        (false, at) => {
            let at = at.map_or_else(String::new, |number| format!(" at entry {number}"));
            let what = clean(verdict.what.as_deref().unwrap_or("it is not what was written"));
            format!("the audit trail is broken{at}: {what}\n")
        }
    };
    let _ = writeln!(text, "it ends with {}", clean(&head.place));
    if verdict.ok {
        text.push_str("note that down elsewhere, and hold it against the trail later with --noted\n");
    }
    text
}

/// Follows the cursors until enough entries are there, or no more.
async fn list(args: &AuditArgs, wanted: usize, client: &Client) -> Result<AuditList, Problem> {
    let mut list: AuditList = client.ask(&page(args, wanted.min(PAGE), None)).await?;
    list.entries.truncate(wanted);
    while let Some(cursor) = list.next_cursor.clone().filter(|_| list.entries.len() < wanted) {
        let missing = wanted - list.entries.len();
        let mut page: AuditList = client.ask(&page(args, missing.min(PAGE), Some(&cursor))).await?;
        page.entries.truncate(missing);
        if page.entries.is_empty() || page.next_cursor.as_ref() == Some(&cursor) {
            let detail = format!("{} sends the same page again and again", client.server());
            let hint = "use a client and a daemon of the same version";
            return Err(Problem::new(Code::Internal, detail, hint));
        }
        list.entries.append(&mut page.entries);
        list.next_cursor = page.next_cursor;
    }
    Ok(list)
}

fn page(args: &AuditArgs, limit: usize, cursor: Option<&str>) -> Request {
    Request::get(&["audit"])
        .query("store", args.store.as_ref().map(|store| store.as_str()))
        .query("version", args.version.as_ref().map(|version| version.text()))
        .query("actor", args.actor.as_deref())
        .query("action", args.action.as_deref())
        .query("from", args.from.map(|at| at.to_string()))
        .query("to", args.to.map(|at| at.to_string()))
        .query("limit", Some(limit.to_string()))
        .query("cursor", cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_where_the_trail_ends_and_where_it_breaks() {
        let head = AuditHead { number: 37, chain: "ab".repeat(32), place: format!("37:{}", "ab".repeat(32)) };
        let sound = AuditVerdict { ok: true, sound: 37, broken_at: None, what: None };
        let said = text(&sound, &head);
        assert!(
            said.starts_with("the audit trail is what was written: 37 entries\nit ends with 37:abab"),
            "{said}"
        );
        let what = Some("entry 12 is gone\u{1b}[2J".to_owned());
        let broken = AuditVerdict { ok: false, sound: 11, broken_at: Some(12), what };
        let said = text(&broken, &head);
        assert!(
            said.starts_with("the audit trail is broken at entry 12: entry 12 is gone\\u{1b}[2J\n"),
            "{said}"
        );
        assert!(!said.contains("note that down"), "{said}");
    }
}
