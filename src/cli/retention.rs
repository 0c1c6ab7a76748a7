//! `retention plan`: what would be retired, why, and what it gives back.

use std::fmt::Write as _;

use asat_core::{Code, Problem, StoreName};

use super::args::{PlanArgs, RetentionArgs, RetentionCommand};
use super::output::{Failure, Output};
use super::progress::Bars;
use super::{stores, table};
use crate::config::Config;
use crate::text::{clean, counted, size};
use asat_client::{Client, Request};
use asat_wire::{RetentionPlan, RetentionRules, RetentionVerdict};

pub(super) async fn retention(
    args: &RetentionArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let RetentionCommand::Plan(args) = &args.command;
    let other = args.config.as_deref().map(Config::load).transpose()?;
    for store in names(args, other.as_ref(), client).await? {
        let rules = other.as_ref().map(|config| rules_in(config, &store)).transpose()?;
        let request = Request::get(&["stores", &store, "retention"]).query("rules", rules);
        let plan: RetentionPlan = bars.ask(&format!("planning for {store}"), &request.long()).await?;
        output.answer(&plan, |plan| text(plan, args.all))?;
    }
    Ok(())
}

/// The stores to plan for: the one that is named, all of the other configuration, or all that the daemon has.
async fn names(args: &PlanArgs, other: Option<&Config>, client: &Client) -> Result<Vec<String>, Problem> {
    match (&args.store, other) {
        (Some(store), _) => Ok(vec![store.to_string()]),
        (None, Some(config)) => Ok(config.stores.keys().map(StoreName::to_string).collect()),
        (None, None) => stores::every(client).await,
    }
}

/// The rules of a configuration for a store, as JSON.
fn rules_in(config: &Config, store: &str) -> Result<String, Problem> {
    let found = config.stores.iter().find(|(name, _)| name.as_str() == store);
    let (_, found) = found.ok_or_else(|| {
        let detail = format!("the configuration has no store {store}");
        Problem::new(Code::UnknownStore, detail, "name one that it has, or leave the store out")
    })?;
    serde_json::to_string(&RetentionRules::from(&found.retention)).map_err(|error| {
        let detail = format!("the rules cannot be written as JSON: {error}");
        Problem::new(Code::Internal, detail, "report this as a defect")
    })
}

fn text(plan: &RetentionPlan, all: bool) -> String {
    let going = plan.versions.iter().filter(|version| !version.keep);
    let total = u64::try_from(plan.versions.len()).unwrap_or(u64::MAX);
    let mut text = format!(
        "{}: {}\n{} of {} would be retired, and give back at least {} of {}\n",
        clean(&plan.store),
        rules(&plan.rules),
        going.clone().count(),
        counted(total, "version"),
        size(plan.frees_bytes),
        size(plan.archive_bytes),
    );
    if plan.over_bytes > 0 {
        let over = size(plan.over_bytes);
        let _ = writeln!(text, "the archive stays {over} above its budget: nothing else may be given up");
    }
    if plan.giving_back {
        text.push_str(
            "the space of versions that were retired before is still being given back: look again later\n",
        );
    }
    if plan.waiting.versions > 0 {
        let versions = counted(u64::try_from(plan.waiting.versions).unwrap_or(u64::MAX), "version");
        let bytes = size(plan.waiting.bytes);
        let _ = writeln!(
            text,
            "{versions} given up before, with {bytes}, can be brought back until the grace is over"
        );
    }
    let shown: Vec<&RetentionVerdict> = if all { plan.versions.iter().collect() } else { going.collect() };
    if !shown.is_empty() {
        text.push_str(&table::verdicts(&shown));
    }
    text
}

/// The rules as a sentence.
fn rules(rules: &RetentionRules) -> String {
    let mut words = vec![rules.keep.as_deref().map_or_else(|| "all forever".to_owned(), clean)];
    words.extend(
        rules.labels.iter().map(|label| format!("label {:?}: {}", label.pattern, clean(&label.keep))),
    );
    words.extend(rules.at_most_bytes.map(|bytes| format!("never more than {}", size(bytes))));
    words.extend((rules.at_least > 1).then(|| format!("never fewer than {}", rules.at_least)));
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use asat_wire::RetentionLabel;

    #[test]
    fn a_plan_for_people() {
        let verdict = |id: &str, keep, why: &str, frees_bytes| RetentionVerdict {
            id: id.to_owned(),
            keep,
            why: why.to_owned(),
            frees_bytes,
        };
        let mut plan = RetentionPlan {
            store: "report".to_owned(),
            rules: RetentionRules {
                keep: Some("all for 14 days, then daily for 3 months".to_owned()),
                at_most_bytes: Some(1 << 30),
                at_least: 10,
                labels: vec![RetentionLabel { pattern: "x*".to_owned(), keep: "all forever".to_owned() }],
            },
            archive_bytes: 4096,
            frees_bytes: 1536,
            over_bytes: 2048,
            giving_back: true,
            waiting: asat_wire::Waiting::default(),
            versions: vec![
                verdict("report@1", false, "it is older than \"daily for 3 months\" reaches", 1536),
                verdict("report@2", true, "it is the newest version", 0),
            ],
        };
        let lines = |text: String| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        let expected = [
            "report: all for 14 days, then daily for 3 months; label \"x*\": all forever; never more than 1.0 GiB; \
             never fewer than 10",
            "1 of 2 versions would be retired, and give back at least 1.5 KiB of 4.0 KiB",
            "the archive stays 2.0 KiB above its budget: nothing else may be given up",
            "the space of versions that were retired before is still being given back: look again later",
            "VERSION   VERDICT  GIVES BACK  WHY",
            "report@1  retired  1.5 KiB     it is older than \"daily for 3 months\" reaches",
            "report@2  stays                it is the newest version",
        ];
        assert_eq!(lines(text(&plan, true)), expected);
        assert_eq!(lines(text(&plan, false)), expected[..6]);
        plan.versions.clear();
        (plan.over_bytes, plan.giving_back, plan.rules) = (0, false, RetentionRules::default());
        let head = "report: all forever\n0 of 0 versions would be retired, and give back at least 1.5 KiB of 4.0 KiB\n";
        assert_eq!(text(&plan, false), head);
    }
}
