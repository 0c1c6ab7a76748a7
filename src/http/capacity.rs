//! `/capacity` and `/versions/{id}/why`: how the guard stands, what it did, and its alarms.

use std::sync::Arc;
use std::time::Duration;

use asat_core::Code;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Body, Parameters, Segments};
use super::problem::Failure;
use super::{Answer, Face};
use crate::daemon::{self, GuardStatus};
use asat_wire::{
    AcknowledgeRequest, Alarm, Brake, Capacity, CapacityTarget, LeaseBounds, Looks, Names, PastAction,
    PlannedAction, Precedence, ProblemBody, Trouble, Waiting, Why,
};

/// Says how everything that can run out of space stands, and what the guard does about it.
#[utoipa::path(
    get, path = "/capacity", tag = "daemon",
    responses((status = 200, description = "How it stands", body = Capacity))
)]
pub(super) async fn capacity(State(face): State<Arc<Face>>) -> Json<Capacity> {
    Json(face.capacity())
}

impl Face {
    /// How it stands at this moment, as it is written.
    pub(super) fn capacity(&self) -> Capacity {
        let engine = self.handle.engine();
        let leases = LeaseBounds::new(&engine, self.machine.believed().time);
        let waiting = engine.waiting(None).into();
        drop(engine);
        Capacity { leases, waiting, ..written(&self.handle.standing()) }
    }
}

/// How it stands, as it is written.
fn written(standing: &GuardStatus) -> Capacity {
    let names = Names(&standing.names);
    Capacity {
        looked_at: standing.looked_at,
        tick_ms: standing.tick_ms,
        looks: Looks {
            full: standing.looks.full,
            glances: standing.looks.glances,
            spent_ms: ms(standing.looks.spent),
        },
        targets: standing.assessments.iter().map(|one| CapacityTarget::new(one, names)).collect(),
        plan: standing.steps.iter().map(|step| PlannedAction::new(step, names)).collect(),
        last_actions: standing.done.iter().map(|done| past(done, names)).collect(),
        brakes: standing.brakes.iter().map(|(origin, braked)| brake(origin, braked, names)).collect(),
        precedence: Precedence {
            ladder: standing.ladder.iter().map(|rung| rung.text().to_owned()).collect(),
            says: standing.precedence.to_owned(),
        },
        leases: LeaseBounds::default(),
        waiting: Waiting::default(),
        alarms: standing.alarms.iter().map(|one| alarm(one, names)).collect(),
        trouble: standing.trouble.as_ref().map(|problem| Trouble::new(problem, names)),
    }
}

/// What the guard did, as it is written.
fn past(done: &daemon::Done, names: Names<'_>) -> PastAction {
    PastAction { added_ms: done.added.map(ms), ..PastAction::new(&done.entry, names) }
}

/// For how long writers were held, as it is written.
fn brake(origin: &str, braked: &daemon::Braked, names: Names<'_>) -> Brake {
    let whole_ms = |time: Duration| u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    Brake {
        origin: names.told(origin),
        held_now: braked.now,
        holds: braked.holds,
        total_ms: whole_ms(braked.total),
        longest_ms: whole_ms(braked.longest),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// An alarm as it is written.
pub(super) fn alarm(alarm: &daemon::Alarm, names: Names<'_>) -> Alarm {
    Alarm {
        key: names.told(&alarm.key.to_string()),
        reason: names.told(&alarm.reason),
        hint: names.told(&alarm.hint),
        since: alarm.since,
        acknowledged_at: alarm.acknowledged_at,
    }
}

/// Says that somebody knows of an alarm: it is shown until it is over, and not repeated. Once more is the same.
#[utoipa::path(
    post, path = "/capacity/alarms/acknowledge", tag = "daemon", request_body = AcknowledgeRequest,
    responses(
        (status = 200, description = "The alarm", body = Alarm),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such alarm is on", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed", body = ProblemBody),
    )
)]
pub(super) async fn acknowledge(
    State(face): State<Arc<Face>>,
    Body(AcknowledgeRequest { key }): Body<AcknowledgeRequest>,
) -> Answer<Json<Alarm>> {
    let Some(found) = face.handle.acknowledge(&key) else {
        let key: String = key.chars().take(200).collect();
        let hint = "asat capacity (GET /v1/capacity) lists the alarms that are on, each with its key";
        return Err(Failure::new(Code::NotFound, format!("no alarm with the key {key:?} is on"), hint));
    };
    Ok(Json(alarm(&found, Names(&face.handle.standing().names))))
}

/// How much to tell.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WhyParameters {
    /// How many actions at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// Says what the guard did for a version or with it, newest first, and how the version ended, if it did.
#[utoipa::path(
    get, path = "/versions/{id}/why", tag = "versions",
    params(("id" = String, Path, description = "`report@12` or `report@latest`"), WhyParameters),
    responses(
        (status = 200, description = "The version and what was done", body = Why),
        (status = 400, description = "No version's name, or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 422, description = "A parameter is not allowed", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
    )
)]
pub(super) async fn why(
    State(face): State<Arc<Face>>,
    Segments(id): Segments<String>,
    Parameters(WhyParameters { limit }): Parameters<WhyParameters>,
) -> Answer<Json<Why>> {
    let limit = limit.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(Failure::new(Code::Invalid, format!("limit is {limit}"), "write a limit from 1 to 1000"));
    }
    let id = face.version_id(&id)?;
    let entries = face.handle.guard_log(Some(id.clone()), limit).await?;
    let version = face.version(&id.to_string())?;
    let standing = face.handle.standing();
    let names = Names(&standing.names);
    Ok(Json(Why { version, actions: entries.iter().map(|entry| PastAction::new(entry, names)).collect() }))
}

#[cfg(test)]
mod tests {
    use asat_core::Problem;
    use asat_core::guard::{AlarmKey, AlarmKind, Rung, Target};

    use super::*;

    #[test]
    fn a_standing_is_written_with_names_for_identities() {
        let since = "2026-11-19T17:00:00.000000Z".parse().unwrap();
        let standing = GuardStatus {
            looked_at: Some(since),
            tick_ms: 250,
            looks: daemon::Looks { full: 3, glances: 40, spent: Duration::from_micros(2500) },
            alarms: vec![daemon::Alarm {
                key: AlarmKey { target: Target::Group("gX1aBc".to_owned()), kind: AlarmKind::Short },
                reason: "gX1aBc has no space".to_owned(),
                hint: "add a disk to gX1aBc".to_owned(),
                since,
                acknowledged_at: None,
            }],
            brakes: [("oZ9", Duration::from_micros(2_000_001)), ("gX1aBc", Duration::ZERO)]
                .map(|(origin, held)| {
                    let mut braked = daemon::Braked::default();
                    [held, Duration::from_millis(200)].into_iter().for_each(|held| braked.add(held));
                    (origin.to_owned(), braked)
                })
                .into(),
            ladder: vec![Rung::Extend, Rung::Alarm],
            precedence: "retention",
            trouble: Some(Problem::new(Code::LvmStuck, "`lvextend` does not end", "look")),
            names: [("gX1aBc".to_owned(), "vg".to_owned())].into(),
            ..GuardStatus::default()
        };
        let expected = serde_json::json!({
            "looked_at": "2026-11-19T17:00:00.000000Z", "tick_ms": 250,
            "looks": { "full": 3, "glances": 40, "spent_ms": 2.5 }, "targets": [], "plan": [], "last_actions": [],
            "brakes": [
                { "origin": "vg", "held_now": false, "holds": 2, "total_ms": 200, "longest_ms": 200 },
                { "origin": "oZ9", "held_now": false, "holds": 2, "total_ms": 2201, "longest_ms": 2001 },
            ],
            "precedence": { "ladder": ["extend", "alarm"], "says": "retention" },
            "leases": { "open": 0, "most": 0, "most_per_caller": 0, "callers": [] },
            "waiting": { "versions": 0, "bytes": 0, "next_purge_at": null },
            "alarms": [{
                "key": "group vg: short", "reason": "vg has no space", "hint": "add a disk to vg",
                "since": "2026-11-19T17:00:00.000000Z", "acknowledged_at": null,
            }],
            "trouble": { "code": "lvm_stuck", "detail": "`lvextend` does not end", "hint": "look" },
        });
        assert_eq!(serde_json::to_value(written(&standing)).unwrap(), expected);
    }
}
