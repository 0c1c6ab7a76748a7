//! `GET /metrics`: how the daemon does, for Prometheus and whatever reads its format.
//!
//! What stands is read from the register and from the guard's last look at the moment of asking; what has happened is read
//! from the counters. Labels have few values: names of stores and volumes, templates of routes, and words of asat's own. A
//! version is never one, as there is no end of them.

mod counted;
mod guard;
mod process;
mod stores;

use std::sync::Arc;

use asat_core::clock::Believed;
use asat_core::{Code, Problem};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::{Answer, Face};
use crate::metrics::{self, Family};

/// By how much the machine's clock is out.
fn clock(believed: &Believed) -> Family {
    let mut ahead = Family::gauge(
        "asat_clock_ahead_seconds",
        "By how much the machine's clock is ahead of the time that asat uses; 0 if it is believed.",
    );
    ahead.add_real([], believed.ahead().as_secs_f64());
    ahead
}

/// Tells how the daemon does, in Prometheus' text format; `docs/operate.md` says what each metric means.
#[utoipa::path(
    get, path = "/metrics", tag = "daemon",
    responses((status = 200, description = "The metrics", content_type = "text/plain; version=0.0.4; charset=utf-8", body = String))
)]
pub(super) async fn metrics(State(face): State<Arc<Face>>) -> Answer<impl IntoResponse> {
    let mut families: Vec<Family> = process::families();
    families.push(clock(&face.machine.believed()));
    families.extend(stores::families(&face));
    families.extend(counted::families(face.handle.metrics()));
    families.push(counted::worker_failures(face.machine.worker_failures()));
    families.extend(guard::families(&face.handle.standing()));
    let written = metrics::write(families).map_err(|error| {
        let detail = format!("the metrics cannot be written: {error}");
        Problem::new(Code::Internal, detail, "report this as a defect")
    })?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], written))
}
