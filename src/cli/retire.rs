//! `retire` and `unretire`: a version is given up, once the person who asks has said so twice, and is brought back.

use asat_core::Problem;
use jiff::Timestamp;
use serde::Serialize;

use super::args::{RetireArgs, UnretireArgs};
use super::confirm::confirm;
use super::output::{Failure, Output};
use crate::text::{both, clean, counted, size};
use asat_client::{Client, Request};
use asat_wire::{ArchiveStats, Version};

pub(super) async fn retire(args: &RetireArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    if args.dry_run {
        let version = plan(args, args.version.text(), client).await?;
        let gives_back_bytes = gives_back(&version, client).await;
        let newest = if is_newest(&version, client).await { "; it is the newest of its store" } else { "" };
        return output.answer(&WouldRetire { version, gives_back_bytes }, |would| {
            let back = given_back(would.gives_back_bytes);
            format!("nothing was done; {}{newest}{back}", retired(&would.version, "would be"))
        });
    }
    // What is asked about is what is retired, wherever a name leads by then.
    let id = match args.yes {
        true => args.version.text().to_owned(),
        false => asked(args, client).await?,
    };
    let request = terms(args, Request::delete(&["versions", &id])).long();
    let version: Version = client.ask(&request).await?;
    output.done(&version, |version| retired(version, "is"))
}

/// What would become of a version, and what that gives back.
#[derive(Serialize)]
struct WouldRetire {
    #[serde(flatten)]
    version: Version,
    /// How much comes back at least when its pages are deleted; nothing if that is not known.
    gives_back_bytes: Option<u64>,
}

/// What only this version needs.
async fn gives_back(version: &Version, client: &Client) -> Option<u64> {
    // That it cannot be told is no reason not to retire it.
    let request = Request::get(&["stores", &version.store, "archive"]).long();
    let stats: ArchiveStats = client.ask(&request).await.ok()?;
    stats.versions.iter().find(|kept| kept.id == version.id).map(|kept| kept.only_bytes)
}

fn given_back(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!("; its pages give back at least {}", size(bytes)))
}

/// What giving a version up would make of it.
async fn plan(args: &RetireArgs, version: &str, client: &Client) -> Result<Version, Problem> {
    client.ask(&terms(args, Request::get(&["versions", version, "retirement"]))).await
}

/// How a version is given up, or would be.
fn terms(args: &RetireArgs, request: Request) -> Request {
    request.query("reason", args.reason.as_deref()).query("now", args.now.then_some("true"))
}

/// Asks the person at the terminal; answers which version was meant.
async fn asked(args: &RetireArgs, client: &Client) -> Result<String, Problem> {
    let path = ["versions", args.version.text()];
    let version: Version = client.ask(&Request::get(&path)).await?;
    // What was retired before changes nothing, unless its grace is ended.
    if version.state != "ready" && !(args.now && version.purge_after.is_some()) {
        return Ok(version.id);
    }
    let would = plan(args, &version.id, client).await?;
    let id = clean(&version.id);
    let about = about(&version, is_newest(&version, client).await);
    let back = given_back(gives_back(&version, client).await);
    let question = format!("{about}{}{back}. Retire it?", until(&would));
    confirm(&question, &format!("{id} would be given up"), &format!("{id} was not retired")).await?;
    Ok(version.id)
}

/// Whether a version is what its store's name with `@latest` stands for.
async fn is_newest(version: &Version, client: &Client) -> bool {
    let newest =
        client.ask::<Version>(&Request::get(&["versions", &format!("{}@latest", version.store)])).await;
    newest.is_ok_and(|newest| newest.id == version.id)
}

/// What somebody should know of a version that is about to go.
fn about(version: &Version, is_newest: bool) -> String {
    let cut = version.cut_at.map(|at| format!(" was cut {}", both(at, Timestamp::now()))).unwrap_or_default();
    let count = u64::try_from(version.publication_count).unwrap_or(u64::MAX);
    let newest = if is_newest { ", and is the newest of its store" } else { "" };
    format!("{}{cut}, has {}{newest}; ", clean(&version.id), counted(count, "publication"))
}

fn until(version: &Version) -> String {
    match version.purge_after {
        Some(at) => format!("it can be brought back until {}", both(at, Timestamp::now())),
        None => "its pages are deleted at once, and nothing brings it back".to_owned(),
    }
}

fn retired(version: &Version, is: &str) -> String {
    let id = clean(&version.id);
    match (version.state.as_str(), version.purge_after) {
        (_, Some(at)) => {
            let at = both(at, Timestamp::now());
            format!("{id} {is} retired; until {at} it can be brought back: asat unretire {id}")
        }
        ("retiring", None) => format!("{id} {is} given up, and its pages are deleted"),
        (state, None) => format!("{id} {is} {}", clean(state)),
    }
}

pub(super) async fn unretire(args: &UnretireArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let path = ["versions", args.version.text()];
    let was_retired = client.ask::<Version>(&Request::get(&path)).await?.state != "ready";
    let request = Request::post(&[&path[..], &["unretire"]].concat());
    let version: Version = client.ask(&request.query("reason", args.reason.as_deref())).await?;
    output.done(&version, |version| {
        let id = clean(&version.id);
        match was_retired {
            true => format!("{id} can be read again; tags and pins that it had before do not come back"),
            false => format!("{id} was not retired"),
        }
    })
}
