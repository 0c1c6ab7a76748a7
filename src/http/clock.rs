//! `/clock`: what is believed of the machine's clock, and that a person accepts what it says.

use std::sync::Arc;

use asat_core::event::Event;
use axum::Json;
use axum::extract::State;

use super::extract::Body;
use super::{Answer, Caller, Face};
use asat_wire::{AcceptRequest, Clock, ProblemBody};

/// Says which time asat uses, whether it doubts the machine's clock, and what would end by that.
#[utoipa::path(
    get, path = "/clock", tag = "daemon",
    responses((status = 200, description = "What is believed", body = Clock))
)]
pub(super) async fn clock(State(face): State<Arc<Face>>) -> Json<Clock> {
    Json(face.clock())
}

/// Accepts what the machine's clock says: from then on asat uses it, and what ends by it ends at once. If the clock is not
/// doubted, nothing is done.
#[utoipa::path(
    post, path = "/clock/accept", operation_id = "accept_clock", tag = "daemon", request_body = AcceptRequest,
    responses(
        (status = 200, description = "What is believed now", body = Clock),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "The reason is not allowed", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn accept(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Body(AcceptRequest { reason }): Body<AcceptRequest>,
) -> Answer<Json<Clock>> {
    let event = Event::AcceptClock { reading: asat_host::clock::read(), reason };
    face.handle.ask(caller.by, event).await?;
    Ok(Json(face.clock()))
}

impl Face {
    fn clock(&self) -> Clock {
        let believed = self.machine.believed();
        Clock::new(believed, self.handle.engine().toll(believed.wall))
    }
}
