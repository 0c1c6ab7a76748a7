//! The machine's clock on the wire.

use asat_core::Toll;
use asat_core::clock::Believed;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::instant;

/// What asat believes of the machine's clock.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Clock {
    /// The time that asat uses.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "instant")]
    pub believed_at: Timestamp,
    /// What the machine's clock says.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "instant")]
    pub clock_at: Timestamp,
    /// Whether the clock is doubted, so that nothing ends by it.
    pub doubted: bool,
    /// What ends if the clock is believed.
    pub would_end: WouldEnd,
}

/// What ends at a time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct WouldEnd {
    /// Versions that the rules of their stores give up for their age; until their grace is over they can be brought back.
    pub versions: usize,
    /// Versions that were given up before and whose grace is over; their pages go for good.
    pub graces: usize,
    /// Leases.
    pub leases: usize,
    /// Pins.
    pub pins: usize,
}

/// Accepts what the machine's clock says.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptRequest {
    /// Why; it stands in the audit trail.
    #[schema(min_length = 1, max_length = 500, example = "the machine was off for a month")]
    pub reason: Option<String>,
}

impl Clock {
    /// What is believed, as it is written.
    #[must_use]
    pub fn new(believed: Believed, toll: Toll) -> Self {
        let Believed { time, wall, doubted } = believed;
        Self { believed_at: time, clock_at: wall, doubted, would_end: WouldEnd::from(toll) }
    }
}

impl From<Toll> for WouldEnd {
    fn from(Toll { versions, graces, leases, pins }: Toll) -> Self {
        Self { versions, graces, leases, pins }
    }
}
