//! `stores` and `verify`: what is watched, and whether what is kept is whole.

use std::fmt::Write as _;

use asat_core::{Code, Problem};
use jiff::Timestamp;
use serde::Serialize;

use super::args::VerifyArgs;
use super::output::{Failure, Output};
use super::progress::Bars;
use super::table;
use super::text::{clean, counted, size};
use super::typed::VersionChoice;
use crate::client::{Client, Request};
use crate::wire::{StoreList, Verification, Version};

pub(super) async fn stores(client: &Client, output: &Output) -> Result<(), Failure> {
    let list: StoreList = client.ask(&Request::get(&["stores"])).await?;
    output.answer(&list, |list| table::stores(&list.stores, Timestamp::now()))
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
        whole &= found.ok && found.findings.is_empty();
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
    if found.ok && found.findings.is_empty() {
        return format!("{looked}, everything as it was written");
    }
    let mut text = format!("{looked}, DAMAGED\n");
    for finding in &found.findings {
        let _ = writeln!(text, "  {}: {}", clean(&finding.file), clean(&finding.what));
        if !finding.versions.is_empty() {
            let _ = writeln!(text, "    cannot be read in full: {}", clean(&finding.versions.join(", ")));
        }
        if !finding.hint.is_empty() {
            let _ = writeln!(text, "    hint: {}", clean(&finding.hint));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Finding;

    #[test]
    fn findings_for_people() {
        let found = Verification { ok: true, versions: 12, bytes: 48_672_768, findings: Vec::new() };
        let mut verified = Verified { store: "report".to_owned(), found };
        assert_eq!(text(&verified), "report: 12 versions, 46.4 MiB read, everything as it was written");
        verified.found.ok = false;
        verified.found.findings.push(Finding {
            file: "report/3.pack".to_owned(),
            what: "its checksum does not match".to_owned(),
            versions: vec!["report@3".to_owned(), "report@4".to_owned()],
            hint: "bring the file back".to_owned(),
        });
        let expected = "report: 12 versions, 46.4 MiB read, DAMAGED\n  report/3.pack: its checksum does not match\n    \
                        cannot be read in full: report@3, report@4\n    hint: bring the file back\n";
        assert_eq!(text(&verified), expected);
    }
}
