//! `why`: what the guard did for a version or with it.

use std::fmt::Write as _;

use asat_core::guard::Span;
use jiff::Timestamp;

use super::args::WhyArgs;
use super::output::{Failure, Output};
use crate::text::{absolute, both, clean};
use asat_client::{Client, Request};
use asat_wire::{PastAction, Version, Why};

pub(super) async fn why(args: &WhyArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let request =
        Request::get(&["versions", args.version.text(), "why"]).query("limit", Some(args.limit.to_string()));
    let why: Why = client.ask(&request).await?;
    output.answer(&why, |why| text(why, Timestamp::now()))?;
    if why.actions.len() >= usize::try_from(args.limit).unwrap_or(usize::MAX) {
        output.remark("there may be older actions: see more with --limit");
    }
    Ok(())
}

fn text(why: &Why, now: Timestamp) -> String {
    let mut text = format!("{}\n", state(&why.version, now));
    if why.actions.is_empty() {
        text.push_str("the guard has done nothing for it\n");
    }
    why.actions.iter().for_each(|action| text.push_str(&done(action)));
    text
}

/// How a version stands, and how it ended where it did.
fn state(version: &Version, now: Timestamp) -> String {
    let mut text = format!("{} is {}", clean(&version.id), clean(&version.state));
    if let Some(at) = version.ended_at {
        let _ = write!(text, " since {}", both(at, now));
    }
    if let Some(reason) = &version.end_reason {
        let _ = write!(text, ": {}", clean(reason));
    }
    text
}

/// An action of the guard, what came of it, and why it was taken.
pub(super) fn done(action: &PastAction) -> String {
    let (word, target) = (clean(&action.action), clean(&action.target));
    // The version is the target itself as often as not.
    let own = |version: &String| !action.target.ends_with(version.as_str());
    let version = action.version.as_ref().filter(|version| own(version));
    let object = version.map_or(target.clone(), |version| format!("{} for {target}", clean(version)));
    let mut text = format!(
        "  {}  {word} {object}: {} in {}",
        absolute(action.at),
        clean(&action.outcome),
        Span(action.took_ms)
    );
    if let Some(failure) = &action.failure {
        let _ = write!(text, ": {}", clean(failure));
    }
    let _ = write!(text, "\n    {}\n", clean(&action.reason));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_was_given_up_says_why() {
        let why: Why = serde_json::from_value(serde_json::json!({
            "version": {
                "id": "report@12", "store": "report", "number": 12, "state": "retired", "cut_at": null,
                "fingerprint": null, "size_bytes": null, "page_size": null, "holdings": [], "publications": [], "publication_count": 0,
                "pin": null, "leases": 0, "path": null, "ended_at": "2026-11-19T17:00:00Z",
                "end_reason": "the pool was full",
            },
            "actions": [
                {"at": "2026-11-19T16:59:59Z", "action": "retire", "target": "pool-data vg/pool",
                 "version": "report@12", "reason": "no\u{1b} space", "outcome": "done", "failure": null,
                 "took_ms": 31},
                {"at": "2026-11-19T16:59:50Z", "action": "extend", "target": "snapshot report@12",
                 "version": "report@12", "reason": "low", "outcome": "failed", "failure": "no extents",
                 "took_ms": 1412},
            ],
        }))
        .unwrap();
        let now = "2026-11-19T19:00:00Z".parse().unwrap();
        let expected = "\
report@12 is retired since 2026-11-19 17:00:00 UTC (2 hours ago): the pool was full
  2026-11-19 16:59:59 UTC  retire report@12 for pool-data vg/pool: done in 31 ms
    no\\u{1b} space
  2026-11-19 16:59:50 UTC  extend snapshot report@12: failed in 1.4 s: no extents
    low
";
        assert_eq!(text(&why, now), expected);
        let nothing = Why { actions: Vec::new(), ..why };
        assert!(text(&nothing, now).ends_with("\nthe guard has done nothing for it\n"));
    }
}
