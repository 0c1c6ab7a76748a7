//! The machine's clock: what is believed of it is recorded, and a person may accept what it says.

use jiff::{SignedDuration, Timestamp};

use super::{Draft, Engine};
use crate::audit::{Action, Deed};
use crate::clock::{self, Anchor, Believed, Reading};
use crate::event::{Answer, Change, Remark, Reply, Survey};
use crate::line::check_line;
use crate::register::History;
use crate::version::{End, Lease, Version};
use crate::{Code, Problem};

/// What ends at the next tick if it is a certain time then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// The versions that the rules of their stores give up for their age.
    pub versions: usize,
    /// The versions that were given up before, and whose grace is over: nothing brings them back.
    pub graces: usize,
    /// The leases.
    pub leases: usize,
    /// The pins.
    pub pins: usize,
}

impl Engine {
    /// What is believed of what the machine's clocks say.
    #[must_use]
    pub fn believed(&self, reading: &Reading) -> Believed {
        clock::believed(self.register.clock(), &self.policy.clock, reading)
    }

    /// What is to be recorded of the clock before it is looked at first, if nothing of it is recorded although something else is: a
    /// clock that is far ahead of all that is kept is not believed. The newest instant counts that is not in the future: of the
    /// records, of what a start has found, or when the catalogue was written last by an asat that recorded nothing of the clock.
    #[must_use]
    pub fn witnessed(
        &self,
        survey: &Survey,
        written_at: Option<Timestamp>,
        reading: &Reading,
    ) -> Option<Anchor> {
        if self.register.clock().is_some() {
            return None;
        }
        let archived = survey.archived.iter().filter_map(|archived| archived.described.as_ref().ok());
        let archived = archived.map(|described| described.content.cut_at);
        let found = survey.found.iter().filter_map(|found| found.described.as_ref()?.as_ref().ok());
        let found = found.map(|described| described.content.cut_at).chain(archived);
        let headlines = self.register.stores().flat_map(|history| history.versions.headlines());
        let cut = headlines.filter(|headline| headline.is_dated).map(|headline| headline.listed_at);
        let published = self.register.publications().map(|publication| publication.at);
        // A catalogue without records was only created, perhaps by a start of just now.
        let written_at = written_at.filter(|_| self.register.publications().next().is_some());
        let instants = found.chain(cut).chain(published).chain(written_at);
        let newest = instants.filter(|instant| *instant <= reading.wall).max()?;
        Some(clock::witnessed(newest, reading))
    }

    /// What would end if it were this time. What a lease or a pin that ends keeps now is counted as well.
    #[must_use]
    pub fn toll(&self, at: Timestamp) -> Toll {
        let stores = self.policy.stores.iter().filter_map(|(name, policy)| {
            let plan = self.retention_plan(name, &policy.retention, None, at).ok()?;
            Some(plan.given_up().count())
        });
        let expired = |version: &&Version| version.pin.as_ref().is_some_and(|pin| !pin.counts(at));
        Toll {
            versions: stores.sum(),
            graces: self.register.graces().take_while(|(until, _)| *until <= at).count(),
            leases: self.register.leases().filter(|lease| lease.expires_at <= at).count(),
            // One with a pin is never at rest.
            pins: self.register.stores().flat_map(History::moving).filter(expired).count(),
        }
    }

    /// Refuses what would be given an instant for good while nobody knows which time it is. In the boot in which the clock was
    /// believed, the time that has passed is known exactly, and nothing is refused.
    pub(super) fn check_clock(&self) -> Result<(), Problem> {
        match self.register.clock().and_then(Anchor::uncertainty) {
            None => Ok(()),
            Some(why) => {
                let detail = format!("nothing is published without a true instant: {why}");
                Err(Problem::new(Code::ClockDoubted, detail, clock::hint(&self.policy.clock)))
            }
        }
    }

    /// Records what is believed now and then, when a doubt begins or ends, and when the clock is accepted by itself.
    pub(super) fn look_at_clock(&self, draft: &mut Draft<'_>, reading: &Reading) -> Result<Answer, Problem> {
        let before = self.believed(reading);
        if let Some(anchor) = clock::renewed(self.register.clock(), &self.policy.clock, reading) {
            if before.doubted && self.agrees(reading) {
                self.postpone(draft, before.ahead());
                draft.changes.push(Change::Clock(anchor));
            } else if before.doubted && anchor.doubt.is_none() {
                let reason = "it has gone on for clock.accept_after";
                self.accept(draft, &before, anchor, Some(reason));
            } else {
                draft.changes.push(Change::Clock(anchor));
            }
        }
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Whether the clock says what it may say after what was believed.
    fn agrees(&self, reading: &Reading) -> bool {
        self.register.clock().is_some_and(|anchor| anchor.agrees(&self.policy.clock, reading))
    }

    /// Has leases and graces end later by what the believed time leaps at the end of a doubt after another boot. Those that began
    /// since the boot last as long as they were given for; of those from before nobody knows better how much of them is over.
    fn postpone(&self, draft: &mut Draft<'_>, leap: SignedDuration) {
        if !leap.is_positive() {
            return;
        }
        let later = |time: Timestamp| time.checked_add(leap).unwrap_or(Timestamp::MAX);
        let leases = self.register.leases().cloned();
        draft.changes.extend(
            leases.map(|lease| Change::Lease(Lease { expires_at: later(lease.expires_at), ..lease })),
        );
        for (until, version) in self.in_grace(None) {
            let end =
                version.end.clone().map(|end| Box::new(End { purge_after: Some(later(until)), ..*end }));
            draft.put(Version { end, ..version.clone() });
        }
    }

    /// Believes the machine's clock because a person says so. A clock that is believed anyway needs nobody's word.
    pub(super) fn accept_clock(
        &self,
        draft: &mut Draft<'_>,
        reading: &Reading,
        reason: Option<&str>,
    ) -> Result<Answer, Problem> {
        check_line("reason", reason, 500)?;
        if self.agrees(reading) {
            return self.look_at_clock(draft, reading);
        }
        let before = self.believed(reading);
        if before.doubted {
            self.accept(draft, &before, clock::accepted(reading), reason);
        }
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    fn accept(&self, draft: &mut Draft<'_>, before: &Believed, anchor: Anchor, reason: Option<&str>) {
        let text = format!(
            "{} accepts the machine's clock: it is {:.0}, and not {:.0}",
            draft.by.actor, before.wall, before.time
        );
        draft.remarks.push(Remark { version: None, text });
        // The trail speaks of versions. Those of every store may go by it, and it stands at the newest of each.
        let newest = self.register.stores().filter_map(|history| history.versions.values().next_back());
        for entry in newest {
            let deed = Deed::new(draft.now, draft.by.clone(), Action::Accept, entry.version.id.clone())
                .with("clock", format!("{:.6}", before.wall))
                .with("believed", format!("{:.6}", before.time))
                .with_some("reason", reason);
            draft.note(deed);
        }
        draft.changes.push(Change::Clock(anchor));
    }
}
