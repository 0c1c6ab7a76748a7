//! How many leases may be open: a lease holds its version against retention, so there is a bound for each caller and one for all.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Draft, Engine};
use crate::event::Effect;
use crate::version::LeaseId;
use crate::{By, Code, Problem};

/// How many leases may be open at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBounds {
    /// Of all callers together.
    pub in_all: usize,
    /// Of one caller.
    pub per_caller: usize,
}

/// Many enough for a report server, and few enough to be looked through.
impl Default for LeaseBounds {
    fn default() -> Self {
        Self { in_all: 1000, per_caller: 100 }
    }
}

/// Which leases count against the bounds. Those of the tree of versions do not: asat takes one for each version that is open
/// there, whoever reads it, and ends it soon after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseUse {
    /// How many there are of all callers, those included that are granted as soon as a copy is made.
    pub in_all: usize,
    /// How many each caller has, by its name in the audit trail. A lease that is older than the trail is nobody's here.
    pub callers: BTreeMap<String, usize>,
}

impl Engine {
    /// How many leases are open or about to be.
    #[must_use]
    pub fn lease_use(&self, now: Timestamp) -> LeaseUse {
        let granted = self.register.leases().filter(|lease| lease.expires_at > now);
        let granted = granted.map(|lease| (&lease.id, lease.actor.as_deref()));
        let wanted = self.register.intents().filter_map(|intent| match &intent.effect {
            Effect::MakeCopy { lease, .. } => Some((lease, Some(intent.by.actor.as_str()))),
            _ => None,
        });
        // A copy may be made again for a lease that is granted.
        let leases: BTreeMap<&LeaseId, Option<&str>> = granted.chain(wanted).collect();
        let own = By::asat().actor;
        let mut used = LeaseUse::default();
        for actor in leases.into_values().filter(|actor| *actor != Some(own.as_str())) {
            used.in_all += 1;
            if let Some(actor) = actor {
                *used.callers.entry(actor.to_owned()).or_default() += 1;
            }
        }
        used
    }

    /// Refuses one lease more than may be open. Whoever has one can renew it all the same.
    pub(super) fn check_lease_bounds(&self, draft: &Draft<'_>, lease: &LeaseId) -> Result<(), Problem> {
        let (LeaseBounds { in_all, per_caller }, actor) = (self.policy.leases, &draft.by.actor);
        if *actor == By::asat().actor || self.register.lease(lease).is_some() {
            return Ok(());
        }
        let used = self.lease_use(draft.now);
        let own = used.callers.get(actor).copied().unwrap_or(0);
        if own >= per_caller {
            let detail = format!("{actor} may have {per_caller} leases open at once, and has {own}");
            let hint =
                "close leases that are not needed, see `asat leases`; or raise copies.max_leases_per_caller";
            return Err(Problem::new(Code::TooManyLeases, detail, hint));
        }
        if used.in_all >= in_all {
            let detail = format!("{} leases are open, and {in_all} may be", used.in_all);
            let hint = "wait until one ends, or have some closed or revoked, see `asat leases`; or raise copies.max_leases";
            return Err(Problem::new(Code::TooManyLeases, detail, hint));
        }
        Ok(())
    }
}
