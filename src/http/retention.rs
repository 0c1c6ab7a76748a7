//! `/stores/{name}/retention`: what would go, why, and what it gives back, before it does.

use std::sync::Arc;

use asat_core::retention::{LabelRule, Pattern, Retention, Rule};
use asat_core::{Code, Problem, StoreName, VersionId};
use axum::Json;
use axum::extract::State;

use super::extract::{self, Body, Segments};
use super::{Answer, Face};
use asat_wire::{ProblemBody, RetentionLabel, RetentionPlan, RetentionRules, RetentionVerdict};

/// Says what a store's retention lets go now, why, and what that gives back. Nothing is changed.
#[utoipa::path(
    get, path = "/stores/{name}/retention", operation_id = "retention", tag = "stores",
    params(("name" = String, Path, description = "The store")),
    responses(
        (status = 200, description = "The plan", body = RetentionPlan),
        (status = 400, description = "The name cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 500, description = "The archive cannot be read", body = ProblemBody),
        (status = 503, description = "The daemon may open no more files", body = ProblemBody),
    )
)]
pub(super) async fn plan(
    State(face): State<Arc<Face>>,
    Segments(name): Segments<String>,
) -> Answer<Json<RetentionPlan>> {
    let store = extract::store(&name)?;
    let rules = face.handle.engine().policy().stores.get(&store).map(|policy| policy.retention.clone());
    Ok(Json(planned(&face, store, rules.unwrap_or_default()).await?))
}

/// Says what other rules than the configured ones would let go now. Nothing is changed, and the rules are not applied.
#[utoipa::path(
    post, path = "/stores/{name}/retention", operation_id = "retention_by_other_rules", tag = "stores",
    request_body = RetentionRules,
    params(("name" = String, Path, description = "The store")),
    responses(
        (status = 200, description = "The plan", body = RetentionPlan),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A rule cannot be understood", body = ProblemBody),
        (status = 500, description = "The archive cannot be read", body = ProblemBody),
        (status = 503, description = "The daemon may open no more files", body = ProblemBody),
    )
)]
pub(super) async fn plan_by(
    State(face): State<Arc<Face>>,
    Segments(name): Segments<String>,
    Body(rules): Body<RetentionRules>,
) -> Answer<Json<RetentionPlan>> {
    let store = extract::store(&name)?;
    Ok(Json(planned(&face, store, read(&rules)?).await?))
}

async fn planned(face: &Face, store: StoreName, rules: Retention) -> Result<RetentionPlan, Problem> {
    face.handle.engine().register().history(&store)?;
    let (machine, weighed) = (Arc::clone(&face.machine), store.clone());
    let weight = face.work.run(move || machine.weigh(&weighed)).await?;
    let engine = face.handle.engine();
    let plan = engine.retention_plan(&store, &rules, Some(&weight), face.machine.believed().time)?;
    let giving_back = engine.is_giving_back(&store);
    let waiting = engine.waiting(Some(&store)).into();
    drop(engine);
    let verdict = |verdict: asat_core::retention::Verdict| RetentionVerdict {
        id: VersionId { store: store.clone(), number: verdict.number }.to_string(),
        keep: verdict.keep,
        why: verdict.why,
        frees_bytes: verdict.frees_bytes,
    };
    Ok(RetentionPlan {
        store: store.to_string(),
        rules: RetentionRules::from(&rules),
        archive_bytes: weight.bytes,
        frees_bytes: plan.frees_bytes,
        over_bytes: plan.over_bytes,
        giving_back,
        waiting,
        versions: plan.verdicts.into_iter().map(verdict).collect(),
    })
}

/// More rules by label than anybody writes, each of which is asked for every version.
const MOST_LABELS: usize = 100;

fn read(rules: &RetentionRules) -> Result<Retention, Problem> {
    if rules.labels.len() > MOST_LABELS {
        let detail = format!("labels has {} rules, and at most {MOST_LABELS} are taken", rules.labels.len());
        return Err(Problem::new(Code::Invalid, detail, "join patterns with * and ?"));
    }
    let label = |(nth, label): (usize, &RetentionLabel)| {
        let keep = rule(&format!("labels[{nth}].keep"), &label.keep)?;
        Ok(LabelRule { pattern: Pattern::new(&label.pattern), keep })
    };
    Ok(Retention {
        keep: rules.keep.as_deref().map(|words| rule("keep", words)).transpose()?,
        at_most: rules.at_most_bytes,
        at_least: rules.at_least,
        labels: rules.labels.iter().enumerate().map(label).collect::<Result<_, Problem>>()?,
    })
}

fn rule(field: &str, words: &str) -> Result<Rule, Problem> {
    words.parse().map_err(|error| {
        let hint = "write for example \"all for 14 days, then month ends for 7 years\"";
        Problem::new(Code::Invalid, format!("{field}: {error}"), hint)
    })
}
