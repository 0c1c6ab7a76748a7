//! `/stores/{name}/retention`: what would be retired, why, and what it gives back, before it does.

use std::sync::Arc;

use asat_core::retention::{LabelRule, Pattern, Retention, Rule};
use asat_core::{Code, Problem, StoreName, VersionId};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Parameters, Segments};
use super::{Answer, Face};
use asat_wire::{ProblemBody, RetentionLabel, RetentionPlan, RetentionRules, RetentionVerdict};

/// By which rules is planned.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PlanParameters {
    /// Other rules than the configured ones: a `RetentionRules`, as JSON. They are not applied.
    #[param(example = "{\"keep\":\"the last 10\"}")]
    rules: Option<String>,
}

/// Says what a store's retention retires now, or would by other rules, why, and what that gives back. Nothing is changed.
#[utoipa::path(
    get, path = "/stores/{name}/retention", operation_id = "retention", tag = "stores",
    params(("name" = String, Path, description = "The store"), PlanParameters),
    responses(
        (status = 200, description = "The plan", body = RetentionPlan),
        (status = 400, description = "The name or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 422, description = "A rule cannot be understood", body = ProblemBody),
        (status = 500, description = "The archive cannot be read", body = ProblemBody),
        (status = 503, description = "The daemon may open no more files", body = ProblemBody),
    )
)]
pub(super) async fn plan(
    State(face): State<Arc<Face>>,
    Segments(name): Segments<String>,
    Parameters(PlanParameters { rules: other }): Parameters<PlanParameters>,
) -> Answer<Json<RetentionPlan>> {
    let store = extract::store(&name)?;
    let rules = match other {
        Some(text) => read(&rules_in(&text)?)?,
        None => configured(&face, &store),
    };
    Ok(Json(planned(&face, store, rules).await?))
}

fn configured(face: &Face, store: &StoreName) -> Retention {
    let engine = face.handle.engine();
    engine.policy().stores.get(store).map(|policy| policy.retention.clone()).unwrap_or_default()
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

fn rules_in(text: &str) -> Result<RetentionRules, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let detail = format!("rules: {}", extract::shorten(&error.to_string(), 300));
        Problem::new(
            Code::Invalid,
            detail,
            "write them as JSON: GET /v1/openapi.json describes RetentionRules",
        )
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
