//! What the doctor says.

use asat_core::Problem;
use serde::Serialize;

/// What is looked at where something is lost or damaged.
const HARM: &str = "kept";

/// All findings of one examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether no problem was found.
    pub ok: bool,
    /// How many problems were found.
    pub problems: usize,
    /// How many warnings there are.
    pub warnings: usize,
    /// The findings, group by group.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it belongs to.
    pub group: Group,
    /// The store, file or address that it is about, where the group has several.
    pub subject: Option<String>,
    /// What was looked at; the same word in every version.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found, in a sentence.
    pub what: String,
    /// What to do, where there is something to do.
    pub advice: Option<String>,
}

/// What a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// The machine, whatever the configuration is.
    Machine,
    /// The configuration as a file.
    Configuration,
    /// A store.
    Store,
    /// The state folder.
    State,
    /// Where clients connect.
    Listen,
    /// The guard.
    Guard,
    /// The repository in object storage.
    Remote,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing is wrong.
    Note,
    /// asat works, and something may go wrong later.
    Warning,
    /// asat will not work as configured.
    Problem,
}

impl Report {
    /// The same with more findings.
    #[must_use]
    pub fn with(self, more: impl IntoIterator<Item = Finding>) -> Self {
        Self::new(self.findings.into_iter().chain(more).collect())
    }

    /// Where somebody listens, as clients name it.
    #[must_use]
    pub fn answering(&self) -> Option<&str> {
        let listens = |finding: &&Finding| finding.group == Group::Listen && finding.level == Level::Ok;
        self.findings.iter().find(listens).and_then(|finding| finding.subject.as_deref())
    }

    /// Whether what is wrong is that something is lost or damaged, and nothing else.
    #[must_use]
    pub fn is_harm_alone(&self) -> bool {
        let mut problems = self.findings.iter().filter(|finding| finding.level == Level::Problem);
        !self.ok && problems.all(|finding| finding.check == HARM)
    }

    pub(super) fn new(findings: Vec<Finding>) -> Self {
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
        Self { ok: problems == 0, problems, warnings, findings }
    }
}

impl Finding {
    /// A finding without advice.
    pub(super) fn new(group: Group, check: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { group, subject: None, check, level, what: what.into(), advice: None }
    }

    /// That something is lost or damaged of what is kept.
    #[must_use]
    pub fn harm(problem: &Problem) -> Self {
        Self::new(Group::State, HARM, Level::Problem, problem.detail.clone()).advise(problem.hint.clone())
    }

    /// That the machine's clock is doubted.
    #[must_use]
    pub fn clock(what: String) -> Self {
        let advice = "set the clock right; if it is right, type: asat clock accept";
        Self::new(Group::Machine, "clock", Level::Warning, what).advise(advice)
    }

    /// Adds what it is about.
    pub(super) fn about(mut self, subject: impl ToString) -> Self {
        self.subject = Some(subject.to_string());
        self
    }

    /// Adds what to do.
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl Level {
    /// The word for it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}
