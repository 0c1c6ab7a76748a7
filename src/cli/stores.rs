//! `stores` and `verify`: what is watched, and whether what is kept is whole.

use std::fmt::Write as _;

use asat_core::{Code, Problem};
use jiff::Timestamp;
use serde::Serialize;

use super::args::VerifyArgs;
use super::output::{Failure, Output};
use super::progress::Bars;
use super::table;
use super::typed::VersionChoice;
use crate::text::{clean, counted, relative, size};
use asat_client::{Client, Request};
use asat_wire::{Store, StoreList, Verification, Version};

pub(super) async fn stores(client: &Client, output: &Output) -> Result<(), Failure> {
    let list: StoreList = client.ask(&Request::get(&["stores"])).await?;
    output.answer(&list, |list| {
        let now = Timestamp::now();
        let watched = list.stores.iter().filter_map(|store| watched(store, now)).collect::<String>();
        table::stores(&list.stores, now) + &watched
    })
}

/// How watch mode stands with a store, in a line of its own.
fn watched(store: &Store, now: Timestamp) -> Option<String> {
    let watch = store.watch.as_ref()?;
    let quoted = |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), clean);
    let mut text = format!("\n{}: watch mode, ", clean(&store.name));
    match &watch.trouble {
        Some(trouble) => {
            let since = relative(trouble.since, now);
            let _ =
                write!(text, "TROUBLE since {since}: {}; {}", clean(&trouble.detail), clean(&trouble.hint));
        }
        None if watch.asked_at.is_none() => text.push_str("not asked yet"),
        None => {
            let _ = write!(text, "marker {}, published {}", quoted(&watch.value), quoted(&watch.published));
        }
    }
    if let Some(why) = &watch.polls {
        let _ = write!(text, "; looked at for changes, since {}", clean(why));
    }
    Some(text)
}

/// The names of all stores.
pub(super) async fn every(client: &Client) -> Result<Vec<String>, Problem> {
    let list: StoreList = client.ask(&Request::get(&["stores"])).await?;
    Ok(list.stores.into_iter().map(|store| store.name).collect())
}

/// A verification and the store that it is of.
#[derive(Serialize)]
struct Verified {
    store: String,
    #[serde(flatten)]
    found: Verification,
}

pub(super) async fn verify(
    args: &VerifyArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let mut whole = true;
    for (store, number) in targets(args, client).await? {
        let request = Request::post(&["stores", &store, "verify"])
            .query("version", number.map(|number| number.to_string()))
            .long();
        let concerns = |subject: &str| subject == store;
        let what = format!("verifying {store}");
        let found: Verification = bars.during(&what, concerns, client.ask(&request)).await?;
        whole &= found.ok && found.findings.is_empty() && found.lost.is_empty();
        output.answer(&Verified { store, found }, text)?;
    }
    if whole { Ok(()) } else { Err(Failure::DamageFound) }
}

/// The stores to verify, each with the number of the only version to look at.
async fn targets(args: &VerifyArgs, client: &Client) -> Result<Vec<(String, Option<u64>)>, Problem> {
    match (&args.store, &args.version) {
        (None, None) => Ok(every(client).await?.into_iter().map(|store| (store, None)).collect()),
        (None, Some(VersionChoice::Number(number))) => {
            let detail = format!("version {number} of which store?");
            Err(Problem::new(Code::Invalid, detail, format!("write it as STORE@{number}")))
        }
        (Some(store), None) => Ok(vec![(store.to_string(), None)]),
        (Some(store), Some(VersionChoice::Number(number))) => Ok(vec![(store.to_string(), Some(*number))]),
        (store, Some(VersionChoice::Named(version))) => {
            if store.as_ref().is_some_and(|store| store != version.store()) {
                let detail = format!("{version} is not a version of the store that is named beside it");
                return Err(Problem::new(Code::Invalid, detail, "leave the store out"));
            }
            let version: Version = client.ask(&Request::get(&["versions", version.text()])).await?;
            Ok(vec![(version.store, Some(version.number))])
        }
    }
}

fn text(verified: &Verified) -> String {
    let Verified { store, found } = verified;
    let looked =
        format!("{}: {}, {} read", clean(store), counted(found.versions, "version"), size(found.bytes));
    let verdict = match (found.findings.is_empty(), found.lost.is_empty()) {
        (true, true) if found.ok => return format!("{looked}, everything as it was written"),
        (true, false) => "what was read is as it was written, and versions are LOST",
        _ if found.findings.iter().all(|finding| finding.repaired) => "damage was found, and is put right",
        _ => "DAMAGED",
    };
    let mut text = format!("{looked}, {verdict}\n");
    for lost in &found.lost {
        let _ = writeln!(text, "  {} is lost: {}", clean(&lost.version), clean(&lost.reason));
    }
    if let Some(lost) = found.lost.first() {
        let _ = writeln!(
            text,
            "    hint: docs/recover.md says how a lost version comes back; to do without it: asat retire {}",
            clean(&lost.version)
        );
    }
    for finding in &found.findings {
        // Most of what is found names its file itself.
        let names_it = finding.what.starts_with(&finding.file);
        let file = if names_it { String::new() } else { format!("{}: ", clean(&finding.file)) };
        let _ = writeln!(text, "  {file}{}", clean(&finding.what));
        if !finding.versions.is_empty() {
            let could = if finding.repaired { "could not" } else { "cannot" };
            let _ = writeln!(text, "    {could} be read in full: {}", clean(&finding.versions.join(", ")));
        }
        if !finding.hint.is_empty() {
            let _ = writeln!(text, "    hint: {}", clean(&finding.hint));
        }
    }
    for repaired in &found.repaired {
        let _ = writeln!(text, "  put right: {}, from {}", clean(&repaired.file), clean(&repaired.from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use asat_wire::{Finding, LostVersion, RepairedFile};

    #[test]
    fn watch_mode_for_people() {
        let now = "2026-11-19T17:10:00Z".parse().unwrap();
        let store = |watch: serde_json::Value| -> Store {
            serde_json::from_value(serde_json::json!({
                "name": "report", "path": "/srv/report.db", "backend": "pages", "configured": true, "versions": 1,
                "newest": null, "newest_cut_at": null, "archive_bytes": 0, "watch": watch,
            }))
            .unwrap()
        };
        assert_eq!(watched(&store(serde_json::Value::Null), now), None);
        let asked = store(
            serde_json::json!({ "value": "42\u{1b}", "published": null, "asked_at": "2026-11-19T17:00:00Z" }),
        );
        assert_eq!(
            watched(&asked, now).as_deref(),
            Some("\nreport: watch mode, marker 42\\u{1b}, published nothing")
        );
        let troubled = store(serde_json::json!({
            "value": null, "published": "41", "polls": "it is far away", "trouble":
            { "code": "marker_failed", "detail": "no such table", "hint": "make it", "since": "2026-11-19T17:00:00Z" },
        }));
        let expected = "\nreport: watch mode, TROUBLE since 10 minutes ago: no such table; make it; looked at for changes, \
                        since it is far away";
        assert_eq!(watched(&troubled, now).as_deref(), Some(expected));
    }

    #[test]
    fn findings_for_people() {
        let found = Verification {
            ok: true,
            versions: 12,
            bytes: 48_672_768,
            findings: Vec::new(),
            repaired: Vec::new(),
            lost: Vec::new(),
        };
        let mut verified = Verified { store: "report".to_owned(), found };
        assert_eq!(text(&verified), "report: 12 versions, 46.4 MiB read, everything as it was written");
        verified.found.ok = false;
        verified.found.lost = vec![LostVersion {
            version: "report@2".to_owned(),
            reason: "no file of the archive has it".to_owned(),
        }];
        let expected = "report: 12 versions, 46.4 MiB read, what was read is as it was written, and versions are LOST\n  \
                        report@2 is lost: no file of the archive has it\n    hint: docs/recover.md says how a lost version comes \
                        back; to do without it: asat retire report@2\n";
        assert_eq!(text(&verified), expected);
        verified.found.lost.clear();
        verified.found.findings.push(Finding {
            file: "report/000000000003.segment".to_owned(),
            what: "its checksum does not match".to_owned(),
            versions: vec!["report@3".to_owned(), "report@4".to_owned()],
            repaired: false,
            hint: "bring the file back".to_owned(),
        });
        let expected = "report: 12 versions, 46.4 MiB read, DAMAGED\n  report/000000000003.segment: its checksum does not match\n    \
                        cannot be read in full: report@3, report@4\n    hint: bring the file back\n";
        assert_eq!(text(&verified), expected);
        verified.found.findings[0].repaired = true;
        let (file, from) = ("report/000000000003.segment".to_owned(), "the store".to_owned());
        verified.found.repaired.push(RepairedFile { file, from });
        let expected = "report: 12 versions, 46.4 MiB read, damage was found, and is put right\n  report/000000000003.segment: its checksum \
                        does not match\n    could not be read in full: report@3, report@4\n    hint: bring the file back\n  \
                        put right: report/000000000003.segment, from the store\n";
        assert_eq!(text(&verified), expected);
    }
}
