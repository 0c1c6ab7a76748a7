//! By when a store is expected to be published, as it is written.

use asat_core::{Code, Problem};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// By when a store is expected to be published, and whether it is late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Expected {
    /// What the configuration says of it.
    #[schema(example = "every business day by 18:00")]
    pub every: String,
    /// When it was last published; absent if it never was.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub published_at: Option<Timestamp>,
    /// When it has to be published after that; absent if it was never published.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub due_at: Option<Timestamp>,
    /// Since when it is late; absent if it is not. A store that was never published is late since it was added.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub late_since: Option<Timestamp>,
}

impl Expected {
    /// That the store of this name is late, as a problem; `None` if it is not.
    #[must_use]
    pub fn problem(&self, store: &str) -> Option<Problem> {
        let since = self.late_since?.strftime("%Y-%m-%d %H:%M UTC");
        let detail = match self.published_at {
            Some(_) => format!("{store} is expected {}, and is late since {since}", self.every),
            None => format!("{store} is expected {}, and was never published", self.every),
        };
        let hint =
            format!("publish it (asat publish {store}), or find out what keeps its publisher from that");
        Some(Problem::new(Code::Late, detail, hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_late_is_a_problem_and_one_that_is_not_is_none() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut expected = Expected {
            every: "every business day by 18:00".to_owned(),
            published_at: Some(at("2026-11-19T17:00:00Z")),
            due_at: Some(at("2026-11-20T18:00:00Z")),
            late_since: None,
        };
        assert_eq!(expected.problem("report"), None);
        expected.late_since = expected.due_at;
        let problem = expected.problem("report").unwrap();
        let detail = "report is expected every business day by 18:00, and is late since 2026-11-20 18:00 UTC";
        assert_eq!((problem.code, problem.detail.as_str()), (Code::Late, detail));
        expected.published_at = None;
        let problem = expected.problem("report").unwrap();
        assert_eq!(problem.detail, "report is expected every business day by 18:00, and was never published");
    }
}
