//! `restore`: a store is brought back to a version, once the person who asks has said so twice.

use super::args::RestoreArgs;
use super::confirm::confirm;
use super::output::{Failure, Output};
use super::progress::Bars;
use super::typed::belongs;
use crate::text::clean;
use asat_client::{Client, Request};
use asat_wire::{RestoreRequest, Restored};

pub(super) async fn restore(
    args: &RestoreArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    if !args.yes {
        let (version, store) = (&args.version, args.version.store());
        let change = format!("restoring {version} changes the store");
        let question = format!("bring {store} back to {version}? What it is now is kept.");
        confirm(&question, &change, &format!("{version} was not restored")).await?;
    }
    let body = RestoreRequest {
        version: args.version.to_string(),
        certified_by: args.certified_by.clone(),
        note: args.note.clone(),
    };
    let store = args.version.store();
    let request = Request::post(&["stores", store.as_str(), "restore"]).json(&body)?.long();
    let restored: Restored =
        bars.during("restoring", |version| belongs(version, store), client.ask(&request)).await?;
    output.done(&restored, text)
}

fn text(done: &Restored) -> String {
    let Restored { restored, before, writer_blocked_ms } = done;
    let (id, kept) = (clean(&restored.id), clean(&before.version.id));
    if restored.id == before.version.id {
        return format!("{} is as it was at {id} already", clean(&restored.store));
    }
    let store = clean(&restored.store);
    format!(
        "{store} is as it was at {id}, writers held {writer_blocked_ms:.1} ms; what it was before is kept as {kept}"
    )
}
