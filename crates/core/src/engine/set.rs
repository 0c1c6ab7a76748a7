//! Publishing a set of stores: all of one instant, and all or none.
//!
//! One effect cuts all of them, and one decision records what came of it. So nobody ever sees a part of a set, whatever fails
//! and whenever the daemon ends: an intent that is open at the start has no versions.

use super::idempotency::Of;
use super::publish::{Certification, begin_version, fail_cut, publish_as};
use super::{Draft, Engine};
use crate::event::{Answer, Cut, CutFailure, Effect, Intent, Kept, PublishSet, Reply, SetCut, SetMember};
use crate::line::check_line;
use crate::version::{Attributes, SetPublication, Version};
use crate::{Code, Problem, SetName, watch};

impl Engine {
    pub(super) fn publish_set(&self, draft: &mut Draft<'_>, request: &PublishSet) -> Result<Answer, Problem> {
        let PublishSet { set, attributes, key } = request;
        attributes.check()?;
        check_line("Idempotency-Key", key.as_deref(), 255)?;
        let stores = self.policy.sets.get(set).ok_or_else(|| self.unknown_set(set))?;
        if let Some(answer) = self.answer_again(Of::Set(set), attributes, key.as_deref())? {
            return Ok(answer);
        }
        // After the intent, too: what is older is taken for another's.
        let (mut members, mut after) = (Vec::new(), Some(draft.now));
        for store in stores {
            let history = self.register.history(store)?;
            self.check_label(draft, history, attributes)?;
            let origin = self.origin_of(history)?;
            after = after.max(history.last_cut());
            let anew = self.is_cut_anew(store);
            members.push(SetMember { version: begin_version(draft, history), origin, anew });
        }
        let (set, attributes, key) = (set.clone(), attributes.clone(), key.clone());
        Ok(Answer::After(draft.intend(Effect::CutSet { set, members, attributes, key, after })))
    }

    fn unknown_set(&self, set: &SetName) -> Problem {
        let known: Vec<&str> = self.policy.sets.keys().map(SetName::as_str).take(20).collect();
        let hint = match known.as_slice() {
            [] => "add a [[set]] to the configuration, and reload it".to_owned(),
            known => format!("the sets are: {}", known.join(", ")),
        };
        Problem::new(Code::UnknownSet, format!("there is no set {set}"), hint)
    }

    pub(super) fn finish_set(
        &self,
        draft: &mut Draft<'_>,
        intent: &Intent,
        result: &Result<SetCut, Problem>,
    ) -> Result<Answer, Problem> {
        let Effect::CutSet { set, members, attributes, .. } = &intent.effect else {
            return Ok(Answer::Now(Ok(Reply::Done)));
        };
        let (said, unsaid) = match result {
            Ok(cut) => (cut.cuts.as_slice(), failure(unsaid(), true)),
            // Nothing was cut of any store.
            Err(problem) => (&[][..], failure(problem.clone(), false)),
        };
        let unsaid = Err(unsaid);
        let mut cuts = Vec::new();
        for (member, cut) in members.iter().zip(said.iter().chain(std::iter::repeat(&unsaid))) {
            cuts.push((&self.register.entry(&member.version)?.version, cut));
        }
        match (result, self.why_not(draft, attributes, &cuts)) {
            (Ok(SetCut { cut_at, .. }), None) => {
                let of_set = SetPublication { set: set.clone(), cut_at: *cut_at };
                self.publish_all(draft, intent, &of_set, &cuts)
            }
            (_, why) => self.take_back(draft, intent, &cuts, why.unwrap_or_else(self::unsaid)),
        }
    }

    /// Why the set cannot be published, where it cannot.
    fn why_not(&self, draft: &Draft<'_>, said: &Attributes, cuts: &[Member<'_>]) -> Option<Problem> {
        cuts.iter().find_map(|(version, cut)| {
            let cut = match cut {
                Ok(cut) => cut,
                Err(failure) => return Some(failure.problem.clone()),
            };
            let id = match cut.kept {
                Kept::SameAs(number) => self.reused(&version.id, number),
                Kept::Snapshot { .. } | Kept::Stored { .. } => Ok(version.id.clone()),
            };
            let said = watch::as_found(said, &cut.checks);
            id.map_or_else(Some, |id| self.label_refused(draft, &id, &said))
        })
    }

    fn publish_all(
        &self,
        draft: &mut Draft<'_>,
        intent: &Intent,
        of_set: &SetPublication,
        cuts: &[Member<'_>],
    ) -> Result<Answer, Problem> {
        let certification = Certification::intended(intent).ok_or_else(unsaid)?;
        let mut first = None;
        for (version, cut) in cuts {
            let Ok(cut) = cut else { continue };
            let (id, reused) = self.settle(draft, version, &cut.kept)?;
            let found = (cut.cost, cut.checks.as_slice());
            let number = publish_as(draft, certification, id, reused, found, Some(of_set.clone()));
            first = first.or(Some(number));
        }
        self.move_on(draft);
        first.map(|number| Answer::Now(Ok(Reply::Published(number)))).ok_or_else(unsaid)
    }

    /// Ends every version of a set that is not published, whatever came of its own cut.
    fn take_back(
        &self,
        draft: &mut Draft<'_>,
        intent: &Intent,
        cuts: &[Member<'_>],
        why: Problem,
    ) -> Result<Answer, Problem> {
        let reason = format!("its set was not published: {why}");
        let mut room = None;
        for (version, cut) in cuts {
            match cut {
                Ok(Cut { kept, .. }) => {
                    fail_cut(draft, version, &undone(kept, why.clone()), &reason);
                }
                Err(failure) => {
                    fail_cut(draft, version, failure, &failure.problem.to_string());
                    room = room.or_else(|| self.room_for(draft, &intent.effect, &version.id, failure));
                }
            }
        }
        self.move_on(draft);
        room.map(Answer::Again).ok_or(why)
    }
}

/// A version of a set that was cut, and what came of that.
type Member<'a> = (&'a Version, &'a Result<Cut, CutFailure>);

/// What is left of a cut that was well, where another one of the set was not.
fn undone(kept: &Kept, why: Problem) -> CutFailure {
    match kept {
        Kept::SameAs(_) => failure(why, false),
        Kept::Stored { .. } => failure(why, true),
        Kept::Snapshot { snapshot, .. } => CutFailure { left: Some(snapshot.clone()), ..failure(why, true) },
    }
}

fn failure(problem: Problem, begun: bool) -> CutFailure {
    CutFailure { problem, begun, left: None, lacks: None }
}

fn unsaid() -> Problem {
    let detail = "a store of the set was cut, and nothing is said of what came of it";
    Problem::new(Code::Internal, detail, "report this as a defect")
}
