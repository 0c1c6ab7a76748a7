//! `restore`: a store is brought back to a version, once the person who asks has said so twice.

use std::io::{self, IsTerminal as _, Write as _};

use asat_core::{Code, Problem};

use super::args::RestoreArgs;
use super::output::{Failure, Output};
use super::progress::Bars;
use super::typed::belongs;
use crate::client::{Client, Request};
use crate::text::clean;
use crate::wire::{RestoreRequest, Restored};

pub(super) async fn restore(
    args: &RestoreArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    if !args.yes {
        confirm(args).await?;
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
    output.answer(&restored, text)
}

/// Asks the person at the terminal.
async fn confirm(args: &RestoreArgs) -> Result<(), Problem> {
    let refused = |detail: String| Problem::new(Code::Invalid, detail, "say --yes where it is meant");
    if !io::stdin().is_terminal() {
        let detail = format!("restoring {} changes the store, and nobody can be asked", args.version);
        return Err(refused(detail));
    }
    // Nobody is there to read the question where it cannot be printed; then no answer comes either.
    let store = args.version.store();
    let _ = write!(io::stderr(), "bring {store} back to {}? What it is now is kept. [y/N] ", args.version);
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    match answer.await {
        Ok(Ok(line)) if ["y", "yes"].contains(&line.trim().to_lowercase().as_str()) => Ok(()),
        _ => Err(refused(format!("{} was not restored", args.version))),
    }
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
