//! What has been wrong for a while, as it is written.

use asat_core::Problem;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What keeps a store from being published, or watch mode or the bucket from its work, as long as it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastingTrouble {
    /// The stable name of the kind of problem.
    #[schema(example = "marker_failed")]
    pub code: String,
    /// What happened.
    pub detail: String,
    /// What to do next.
    pub hint: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub since: Timestamp,
}

impl LastingTrouble {
    /// A problem that has lasted since then.
    #[must_use]
    pub fn new((problem, since): (Problem, Timestamp)) -> Self {
        let Problem { code, detail, hint } = problem;
        Self { code: code.text().0.to_owned(), detail, hint, since }
    }
}
