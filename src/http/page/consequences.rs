//! What follows from what is wrong: what is refused until it is over, and what is not.

use std::collections::BTreeMap;

use asat_core::guard::{Action, AlarmKey, AlarmKind, Scope, Step, Target};
use asat_core::snapshot::BackendKind;
use asat_core::{Backing, Problem, StorePolicy};

use crate::daemon::GuardStatus;
use asat_wire::Names;

/// What follows from the alarms that are on, and why publications are refused.
#[derive(Default)]
pub(super) struct Consequences {
    /// What follows from an alarm, by its key as people read it.
    of_alarms: BTreeMap<String, String>,
    /// Why nothing may be published at all.
    nowhere: Option<String>,
    /// Why nothing may be published that is cut by classic snapshots in a group, by the group's identity.
    groups: BTreeMap<String, String>,
}

impl Consequences {
    /// Of what the guard says, and of what keeps everything from being recorded or from being given an instant.
    pub(super) fn new(standing: &GuardStatus, obstacles: impl IntoIterator<Item = Problem>) -> Self {
        let names = Names(&standing.names);
        let alarms = standing.alarms.iter().map(|alarm| {
            let refused = refused_for(&standing.steps, &alarm.key.target).map(|scope| refusal(scope, names));
            (names.told(&alarm.key.to_string()), refused.unwrap_or_else(|| by_kind(&alarm.key)))
        });
        let mut found = Self { of_alarms: alarms.collect(), ..Self::default() };
        for step in &standing.steps {
            let Action::Refuse { scope } = &step.action else { continue };
            match scope {
                Scope::Everywhere => found.nowhere = Some(names.told(&step.reason)),
                Scope::Group(group) => _ = found.groups.insert(group.clone(), names.told(&step.reason)),
                // How full a pool is, is looked at when a snapshot is to be taken in it.
                Scope::Pool(_) => {}
            }
        }
        found.nowhere = obstacles.into_iter().map(|problem| problem.detail).next().or(found.nowhere);
        found
    }

    /// What follows from an alarm, in a sentence.
    pub(super) fn of_alarm(&self, key: &str) -> Option<&str> {
        self.of_alarms.get(key).map(String::as_str)
    }

    /// Why a store cannot be published now; `None` if it can.
    pub(super) fn refusal(&self, policy: &StorePolicy) -> Option<String> {
        let of_backing = match &policy.backing {
            Backing::Unusable(problem) => Some(problem.detail.clone()),
            Backing::Volume(origin) if origin.backend == BackendKind::LvmClassic => {
                self.groups.get(&origin.group).cloned()
            }
            Backing::Volume(_) | Backing::Pages => None,
        };
        self.nowhere.clone().or(of_backing)
    }
}

/// Where publications are refused for the sake of a target.
fn refused_for<'a>(steps: &'a [Step], target: &Target) -> Option<&'a Scope> {
    steps.iter().filter(|step| step.target == *target).find_map(|step| match &step.action {
        Action::Refuse { scope } => Some(scope),
        _ => None,
    })
}

fn refusal(scope: &Scope, names: Names<'_>) -> String {
    match scope {
        Scope::Everywhere => "publications of all stores are refused until it is over".to_owned(),
        Scope::Group(group) => {
            let group = names.told(group);
            format!(
                "publications that need a classic snapshot in the group {group} are refused until it is over"
            )
        }
        Scope::Pool(pool) => {
            format!(
                "publications that need a snapshot in the pool {} are refused until it is over",
                names.told(pool)
            )
        }
    }
}

/// What follows if no publication is refused for its sake.
fn by_kind(AlarmKey { target, kind }: &AlarmKey) -> String {
    let what = match (target, kind) {
        (Target::Folder(_), AlarmKind::Broken) => {
            "nothing is recorded: publications, pins and leases are refused"
        }
        (Target::Clock, _) => {
            "no lease, pin or grace ends by the clock, and retention retires nothing by age"
        }
        (Target::Folder(_), AlarmKind::Stuck) => "what is published there is not seen here",
        (Target::Store(_), AlarmKind::Stuck) => {
            "its newest versions are on this machine alone; it is published as before"
        }
        (Target::Store(_), AlarmKind::Doubted) => {
            "each publication reads all of the store, until the daemon is started again"
        }
        (_, AlarmKind::Lost) => "it can be read no more; stores are published as before",
        (_, AlarmKind::Damaged) => {
            "versions that need it cannot be read in full; stores are published as before"
        }
        _ => "stores are published as before",
    };
    what.to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use asat_core::Code;
    use asat_core::retention::Retention;
    use asat_core::snapshot::Origin;
    use jiff::Timestamp;

    use super::*;
    use crate::daemon::Alarm;

    fn standing(target: Target, kind: AlarmKind, scope: Option<Scope>) -> GuardStatus {
        let refuse = |scope| Step {
            target: target.clone(),
            action: Action::Refuse { scope },
            reason: "gX1aBc has no space left".to_owned(),
        };
        GuardStatus {
            steps: scope.map(refuse).into_iter().collect(),
            alarms: vec![Alarm {
                key: AlarmKey { target, kind },
                reason: String::new(),
                hint: String::new(),
                since: Timestamp::UNIX_EPOCH,
                acknowledged_at: None,
            }],
            names: [("gX1aBc".to_owned(), "vg".to_owned())].into(),
            ..GuardStatus::default()
        }
    }

    fn policy(backing: Backing) -> StorePolicy {
        StorePolicy {
            path: PathBuf::new(),
            retention: Retention::default(),
            backing,
            keep_snapshots: 0,
            unique_labels: false,
            expect: None,
        }
    }

    fn volume(backend: BackendKind, group: &str) -> StorePolicy {
        let (volume, name, fs) = ("v".to_owned(), "vg/data".to_owned(), "ext4".to_owned());
        policy(Backing::Volume(Origin {
            backend,
            group: group.to_owned(),
            volume,
            name,
            fs,
            inside: PathBuf::new(),
        }))
    }

    #[test]
    fn a_group_that_is_short_refuses_what_needs_a_snapshot_in_it_and_nothing_else() {
        let group = || "gX1aBc".to_owned();
        let found = Consequences::new(
            &standing(Target::Group(group()), AlarmKind::Short, Some(Scope::Group(group()))),
            None,
        );
        let said = found.of_alarm("group vg: short").unwrap();
        assert_eq!(
            said,
            "publications that need a classic snapshot in the group vg are refused until it is over"
        );
        let refused = Some("vg has no space left".to_owned());
        assert_eq!(found.refusal(&volume(BackendKind::LvmClassic, "gX1aBc")), refused);
        assert_eq!(found.refusal(&volume(BackendKind::LvmClassic, "other")), None);
        assert_eq!(found.refusal(&volume(BackendKind::LvmThin, "gX1aBc")), None);
        assert_eq!(found.refusal(&policy(Backing::Pages)), None);
    }

    #[test]
    fn a_folder_that_is_full_refuses_everything() {
        let folder = Target::Folder("/var/lib/asat".to_owned());
        let found = Consequences::new(&standing(folder, AlarmKind::Short, Some(Scope::Everywhere)), None);
        let said = found.of_alarm("folder /var/lib/asat: short").unwrap();
        assert_eq!(said, "publications of all stores are refused until it is over");
        assert!(found.refusal(&policy(Backing::Pages)).is_some());
    }

    #[test]
    fn what_keeps_everything_from_being_recorded_is_why_nothing_is_published() {
        let problem = Problem::new(Code::Internal, "the catalogue was deleted", "put it back");
        let found = Consequences::new(&GuardStatus::default(), [problem]);
        assert_eq!(found.refusal(&policy(Backing::Pages)).as_deref(), Some("the catalogue was deleted"));
    }

    #[test]
    fn an_alarm_that_refuses_nothing_says_so_or_what_else_follows() {
        let version = Target::Version("report@3".parse().unwrap());
        let found = Consequences::new(&standing(version, AlarmKind::Lost, None), None);
        let said = "it can be read no more; stores are published as before";
        assert_eq!(found.of_alarm("version report@3: lost"), Some(said));
        let found = Consequences::new(&standing(Target::Clock, AlarmKind::Doubted, None), None);
        assert!(found.of_alarm("clock wall: doubted").unwrap().starts_with("no lease, pin or grace ends"));
        let snapshot = Target::Snapshot("report@3".parse().unwrap());
        let found = Consequences::new(&standing(snapshot, AlarmKind::Stuck, None), None);
        assert_eq!(found.of_alarm("snapshot report@3: stuck"), Some("stores are published as before"));
        assert_eq!((found.of_alarm("other"), found.refusal(&policy(Backing::Pages))), (None, None));
    }
}
