//! Retention: the plan, and that it is carried out.

use jiff::Timestamp;

use super::{Draft, Engine};
use crate::event::{Answer, Effect, Remark, Reply};
use crate::guard::Size;
use crate::register::{Entry, History};
use crate::retention::{Candidate, Plan, Retention, Weight};
use crate::version::State;
use crate::{Problem, StoreName};

impl Engine {
    /// What is to be done about each of a store's readable versions by these rules. Without the weight of the archive,
    /// nothing is said of space. A tick, and the look at an archive that is too large, do what this says.
    ///
    /// # Errors
    /// [`crate::Code::UnknownStore`].
    pub fn retention_plan(
        &self,
        store: &StoreName,
        rules: &Retention,
        weight: Option<&Weight>,
        now: Timestamp,
    ) -> Result<Plan, Problem> {
        let history = self.register.history(store)?;
        Ok(rules.plan(&self.candidates(history, now), weight, now))
    }

    /// Whether versions of a store are on their way out, or what they took is: until that is over, its archive takes more
    /// than it will.
    #[must_use]
    pub fn is_giving_back(&self, store: &StoreName) -> bool {
        self.register.intents().any(|intent| match &intent.effect {
            Effect::Retire { version } => version.store == *store,
            Effect::Compact { store: other } => other == store,
            _ => false,
        })
    }

    /// Gives up what no age rule keeps.
    pub(super) fn retain(&self, draft: &mut Draft<'_>) {
        for (name, store) in &self.policy.stores {
            let (rules, keep) = (&store.retention, &store.retention.keep);
            if keep.as_ref().is_some_and(|rule| !rule.keeps_everything())
                && let Ok(history) = self.register.history(name)
            {
                let plan = rules.plan(&self.candidates(history, draft.now), None, draft.now);
                self.carry_out(draft, history, &plan, true);
            }
        }
    }

    /// Has an archive weighed that takes more than its budget. What is on its way out is waited for: it may be enough.
    pub(super) fn sized(
        &self,
        draft: &mut Draft<'_>,
        store: &StoreName,
        bytes: u64,
    ) -> Result<Answer, Problem> {
        let budget = self.policy.stores.get(store).and_then(|policy| policy.retention.at_most);
        let weighs = |effect: &Effect| matches!(effect, Effect::Weigh { store: other } if other == store);
        let is_weighed = self.register.intents().any(|intent| weighs(&intent.effect));
        if budget.is_none_or(|most| bytes <= most) || is_weighed || self.is_giving_back(store) {
            return Ok(Answer::Now(Ok(Reply::Done)));
        }
        let over = bytes.saturating_sub(budget.unwrap_or(bytes));
        if self.end_graces_for_space(
            draft,
            store,
            over,
            "its grace was ended, as the archive is above its at_most",
        ) {
            return Ok(Answer::Now(Ok(Reply::Done)));
        }
        Ok(Answer::After(draft.intend(Effect::Weigh { store: store.clone() })))
    }

    /// Gives up what the size budget asks for, and says where that is not enough.
    pub(super) fn finish_weigh(
        &self,
        draft: &mut Draft<'_>,
        store: &StoreName,
        result: &Result<Weight, Problem>,
    ) -> Result<Answer, Problem> {
        let weight = result.as_ref().map_err(Problem::clone)?;
        let history = self.register.history(store)?;
        if let Some(policy) = self.policy.stores.get(store) {
            let candidates = self.candidates(history, draft.now);
            let plan = policy.retention.plan(&candidates, Some(weight), draft.now);
            if plan.over_bytes > 0 {
                let text = format!(
                    "the archive of {store} stays {} above its at_most: nothing else may be given up; see \
                     `asat retention plan {store}`",
                    Size(plan.over_bytes)
                );
                draft.remarks.push(Remark { version: None, text });
            }
            self.carry_out(draft, history, &plan, false);
        }
        self.move_on(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Where space is needed, pages that stay for a while would not give it.
    fn carry_out(&self, draft: &mut Draft<'_>, history: &History, plan: &Plan, with_grace: bool) {
        for verdict in plan.given_up() {
            if let Some(entry) = history.versions.get(verdict.number) {
                let reason = format!("given up by retention: {}", verdict.why);
                match with_grace {
                    true => _ = self.give_up_with_grace(draft, &entry.version, reason),
                    false => _ = self.let_go(draft, &entry.version, reason),
                }
            }
        }
    }

    /// The readable versions as retention sees them.
    fn candidates<'a>(&'a self, history: &'a History, now: Timestamp) -> Vec<Candidate<'a>> {
        let readable = history.versions.headlines().filter(|headline| headline.state == State::Ready);
        let entries = readable.filter_map(|headline| history.versions.get(headline.number));
        entries.map(|entry| self.candidate(entry, now)).collect()
    }

    fn candidate<'a>(&'a self, entry: &'a Entry, now: Timestamp) -> Candidate<'a> {
        let publications = || entry.publications.iter();
        let attributes = || publications().map(|publication| &publication.attributes);
        Candidate {
            number: entry.version.id.number,
            published_at: publications()
                .map(|said| said.at)
                .max()
                .unwrap_or_else(|| entry.version.listed_at()),
            business_date: attributes().filter_map(|said| said.business_date).next_back(),
            labels: attributes().filter_map(|said| said.label.as_deref()).collect(),
            held: self.hold_on(&entry.version, now).map(|problem| problem.detail),
            bytes: entry.version.archived_bytes(),
        }
    }
}
