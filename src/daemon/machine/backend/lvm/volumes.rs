//! The machine's volumes: snapshots taken, mounted, looked at and removed.
//!
//! LVM may be missing on this machine; whoever needs it then gets that as a problem, and nobody else notices.
//! Commands that change volumes take turns here: LVM would make them wait for one another anyway.

mod kernel;
mod turns;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use asat_core::snapshot::{Origin, Snapshot};
use asat_core::{Code, Problem, StoreName, VersionId, boundary};
use asat_host::dm::target::{OriginTable, Snapshot as State};
use asat_host::dm::{self, Selector};
use asat_host::lvm::delta::Reservations;
use asat_host::lvm::names::{self, InstallationId, Record, Which};
use asat_host::lvm::report::{Name, Uuid};
use asat_host::lvm::snapshots::{self, Made, Space};
use asat_host::lvm::units::Bytes;
use asat_host::lvm::{self, Call, Installation, Lvm, Ours, Refusal, Timing};
use asat_host::mounts::{Log, Mounts};
use asat_host::volume::DeviceUuid;
use jiff::Timestamp;

use super::inventory::{Inventory, Presence, Records};
use crate::config::Config;
use crate::daemon::machine::lock;
pub(super) use kernel::Pool;
use turns::{For, Turns};
pub(in crate::daemon) use turns::{Reserved, Turn};

/// The volumes that asat works on.
pub(in crate::daemon::machine) struct Volumes {
    installation: InstallationId,
    pub(super) mounts: Mounts,
    /// How long a command of LVM may take.
    patience: Duration,
    /// Who counts how long they take.
    timing: Arc<dyn Timing>,
    /// The pools that keep a state of their metadata for this installation.
    reserved: Reservations,
    tools: OnceLock<Tools>,
    turns: Arc<Turns>,
    /// The snapshots that this process has taken, or recognised: whose they are need not be asked of LVM.
    ours: Mutex<BTreeMap<VersionId, Ours>>,
    /// Held while something is mounted, shown or unmounted.
    mounting: Mutex<()>,
}

/// LVM and the device-mapper.
struct Tools {
    lvm: Lvm,
    control: dm::Control,
}

/// Why a snapshot was not taken.
pub(super) struct Untaken {
    pub(super) problem: Problem,
    /// What LVM found wrong, where it did.
    pub(super) refusal: Option<Refusal>,
    /// Whether something may be left of it.
    pub(super) may_be_left: bool,
}

impl From<Problem> for Untaken {
    fn from(problem: Problem) -> Self {
        Self { problem, refusal: None, may_be_left: false }
    }
}

impl From<snapshots::Error> for Untaken {
    fn from(error: snapshots::Error) -> Self {
        let (refusal, may_be_left) = (error.refusal(), error.may_leave_something());
        Self { problem: error.into(), refusal, may_be_left }
    }
}

impl Volumes {
    pub(in crate::daemon::machine) fn new(
        installation: InstallationId,
        config: &Config,
        timing: Arc<dyn Timing>,
    ) -> Self {
        Self {
            installation,
            mounts: Mounts::new(config.mounts.clone()),
            patience: config.lvm_timeout,
            timing,
            reserved: Reservations::new(config.pools()),
            tools: OnceLock::new(),
            turns: Arc::default(),
            ours: Mutex::default(),
            mounting: Mutex::default(),
        }
    }

    /// Whose volumes they are.
    pub(in crate::daemon::machine) fn installation(&self) -> &InstallationId {
        &self.installation
    }

    /// LVM, where it is there.
    pub(in crate::daemon::machine) fn lvm(&self) -> Result<&Lvm, Problem> {
        Ok(&self.tools()?.lvm)
    }

    fn tools(&self) -> Result<&Tools, Problem> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools);
        }
        let lvm = Lvm::find_within(self.patience)?.timed_by(Arc::clone(&self.timing));
        let tools = Tools { lvm, control: dm::Control::open()? };
        Ok(self.tools.get_or_init(|| tools))
    }

    /// Has pools let go what they keep for a daemon that was killed. Nobody asks them yet.
    pub(super) fn let_go_of_pools(&self) -> Result<(), Problem> {
        Ok(self.reserved.let_go(dm::Control::open)?)
    }

    /// Refuses to begin where LVM is not there, or is stuck.
    pub(super) fn check_ready(&self) -> Result<(), Problem> {
        match self.lvm()?.lane().wedged() {
            None => Ok(()),
            Some(wedge) => Err(lvm::Error::Wedged { asked: "lvcreate".to_owned(), wedge }.into()),
        }
    }

    /// A command that does not end, if there is one.
    pub(super) fn wedged(&self) -> Option<Problem> {
        let wedge = match self.lvm() {
            Ok(lvm) => lvm.lane().wedged()?,
            Err(problem) => return Some(problem),
        };
        Some(lvm::Error::Wedged { asked: wedge.command.clone(), wedge }.into())
    }

    /// How a version's snapshot is called, as `group/volume`.
    pub(super) fn name_of(&self, id: &VersionId, origin: &Origin) -> String {
        let group = origin.name.split('/').next().unwrap_or_default();
        let name = group.parse().ok().and_then(|group| names::name(id, &self.installation, &group).ok());
        format!("{group}/{}", name.map_or_else(|| "?".to_owned(), |name| name.to_string()))
    }

    /// Whether the names of a store's snapshots fit, however many there will be.
    pub(in crate::daemon::machine) fn check_names(
        &self,
        store: &StoreName,
        group: &Name,
    ) -> Result<(), Problem> {
        Ok(names::check_store(store, &self.installation, group)?)
    }

    /// Takes a snapshot for a version, whose tags say these lines too; answers also how long LVM took.
    pub(super) fn take(
        &self,
        id: &VersionId,
        origin: &Origin,
        space: Space,
        told: &[String],
    ) -> Result<(Made, Duration), Untaken> {
        let tools = self.tools()?;
        let (group, volume) = split(&origin.name)?;
        let wanted = snapshots::Snapshot {
            version: id,
            installation: &self.installation,
            group: &group,
            origin: &volume,
            space,
            told,
        };
        let _turn = self.turns.take(For::Anything);
        let began = Instant::now();
        let made = tools.lvm.take(&tools.control, &wanted)?;
        lock(&self.ours).insert(id.clone(), made.ours.clone());
        Ok((made, began.elapsed()))
    }

    /// Whether a volume has classic snapshots, be they whose they may. As LVM takes a thin snapshot of such a volume, it
    /// suspends what is below those, and the file system above does not hear of it.
    pub(super) fn has_classic_snapshots(&self, origin: &Origin) -> Result<bool, Problem> {
        let (group, volume) = place(origin)?;
        let device = DeviceUuid { group, volume };
        let state = self.tools()?.control.table(Selector::Uuid(&device.to_string()))?;
        Ok(state.targets.first().is_some_and(|target| OriginTable::parse(target).is_ok()))
    }

    /// Has the file system of a version's snapshot mounted, and says where the store's file is in it.
    pub(super) fn mount(
        &self,
        id: &VersionId,
        snapshot: &Snapshot,
        made: &Made,
        log: Log,
    ) -> Result<PathBuf, Problem> {
        let Origin { fs, inside, .. } = &snapshot.origin;
        let _mounting = lock(&self.mounting);
        self.mounts.mount(id, &made.node, made.device, fs, log)?;
        Ok(self.mounts.checked_file(id, inside)?)
    }

    /// The same for a snapshot that was taken before: it is activated where it is not.
    pub(super) fn mount_again(&self, id: &VersionId, snapshot: &Snapshot) -> Result<PathBuf, Problem> {
        let tools = self.tools()?;
        let ours = match self.look_for(id, record(snapshot)?, &snapshot.name)? {
            Presence::Here(ours, _) => ours,
            Presence::Gone => {
                let detail = format!("the snapshot {} of {id} is not there", snapshot.name);
                return Err(Problem::new(Code::NotReadable, detail, "look at the volumes: lvs -a @asat"));
            }
            Presence::Unseen(why) => return Err(unseen(id, &snapshot.name, &why)),
        };
        let made = {
            let _turn = self.turns.take(For::Anything);
            tools.lvm.activate(&tools.control, &ours)?
        };
        self.mount(id, snapshot, &made, Log::Empty)
    }

    /// Has the store's file in the mounted snapshot shown to readers.
    pub(super) fn show(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
        let _mounting = lock(&self.mounting);
        self.mounts.show(id, &snapshot.origin.inside)?;
        Ok(())
    }

    /// Takes the file away from new readers.
    pub(super) fn hide(&self, id: &VersionId) -> Result<(), Problem> {
        let _mounting = lock(&self.mounting);
        Ok(self.mounts.hide(id)?)
    }

    /// Unmounts and removes a version's snapshot, which is called `name`. That it is gone is no error; that it cannot
    /// be seen is one.
    pub(super) fn remove(&self, id: &VersionId, record: Record, name: &str) -> Result<(), Problem> {
        let unmounted = {
            let _mounting = lock(&self.mounting);
            self.mounts.unmount(id)
        };
        match (unmounted, self.remove_named(id, record, name)) {
            // What is in the way of the mount point is not the snapshot, or LVM would not have removed it.
            (Err(error), Ok(())) => {
                tracing::warn!(version = %id, "{id}: left where it was mounted: {}", Problem::from(error))
            }
            (Err(error), Err(_)) => return Err(error.into()),
            (Ok(()), removed) => removed?,
        }
        Ok(())
    }

    fn remove_named(&self, id: &VersionId, record: Record, name: &str) -> Result<(), Problem> {
        let known = lock(&self.ours).remove(id);
        if known.is_some_and(|ours| self.remove_volume(&ours).is_ok()) {
            return Ok(());
        }
        // Something has happened to it, or nothing is known of it: now LVM is asked what there is.
        match self.look_for(id, record, name)? {
            Presence::Here(ours, _) => {
                // A snapshot that is taken for this version again is another volume.
                lock(&self.ours).remove(id);
                self.remove_volume(&ours)
            }
            Presence::Gone => Ok(()),
            Presence::Unseen(why) => Err(unseen(id, name, &why)),
        }
    }

    fn remove_volume(&self, ours: &Ours) -> Result<(), Problem> {
        let tools = self.tools()?;
        let classic = tools.control.status(Selector::Uuid(&ours.device_uuid()));
        let classic =
            classic.is_ok_and(|state| state.targets.first().is_some_and(|one| State::parse(one).is_ok()));
        let _turn = self.turns.take(if classic { For::Removing } else { For::Anything });
        boundary::pass("volumes: remove");
        tools.lvm.remove(&tools.control, ours)?;
        boundary::pass("volumes: removed");
        Ok(())
    }

    /// Waits until no command changes volumes that would find one suspended; none does as long as writers are held.
    pub(super) fn turn_to_hold(&self) -> Turn<'_> {
        self.turns.take(For::Holding)
    }

    /// Keeps the turn for the guard from one extension to the next.
    pub(super) fn reserve_turn(&self) -> Reserved {
        self.turns.reserve()
    }

    /// Gives a version's classic snapshot this size in bytes, before anybody else's command has its turn. Answers how long
    /// LVM's command ran.
    pub(super) fn extend(&self, id: &VersionId, to: u64) -> Result<Duration, Problem> {
        let known = lock(&self.ours).get(id).cloned();
        let ours = known.ok_or_else(|| {
            let detail = format!("whose the snapshot of {id} is, is not known");
            Problem::new(Code::Internal, detail, "restart asat, so that it looks again")
        })?;
        let tools = self.tools()?;
        let _turn = self.turns.take(For::Extending);
        boundary::pass("volumes: extend");
        let extended = tools.lvm.extend(&tools.control, &ours, Bytes(to))?;
        boundary::pass("volumes: extended");
        Ok(extended.command)
    }

    /// Gives a pool, called `group/volume`, so much data space (`--size`) or metadata space (`--poolmetadatasize`). Answers
    /// how long LVM's command ran.
    pub(super) fn extend_pool(&self, pool: &str, what: &'static str, to: u64) -> Result<Duration, Problem> {
        let (group, volume) = split(pool)?;
        let lvm = self.lvm()?;
        let _turn = self.turns.take(For::Extending);
        let call =
            Call::new("lvextend").option(what, format!("{}s", Bytes(to).to_sectors().0)).without_backup();
        let since = Instant::now();
        lvm.run(&call.operand(format!("{group}/{volume}")))?;
        Ok(since.elapsed())
    }

    /// What LVM lists of the volumes that these records speak of, and of those that look like them.
    pub(super) fn look(&self, records: Records) -> Result<Inventory, Problem> {
        let known = records.values().filter_map(|record| match record.volume {
            Which::Known(uuid) => Some(uuid),
            Which::MadeSince(_) => None,
        });
        let known: Vec<Uuid> = known.collect();
        let lvm = self.lvm()?;
        let (volumes, groups) = (lvm.tagged_or(&known)?, lvm.groups()?);
        let inventory =
            Inventory::new(Installation { id: self.installation.clone(), records }, volumes, groups);
        lock(&self.ours).extend(inventory.ours().map(|ours| (ours.version().clone(), ours.clone())));
        Ok(inventory)
    }

    /// Whether a version's snapshot is there.
    pub(super) fn look_for(&self, id: &VersionId, record: Record, name: &str) -> Result<Presence, Problem> {
        Ok(self.look([(id.clone(), record)].into())?.of(id, name))
    }

    /// Whether a device has the name that this installation gives a version's snapshot, in whichever group.
    pub(super) fn is_named_ours(&self, id: &VersionId, (major, minor): (u32, u32)) -> bool {
        let named = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/dm/name"));
        let ours = "g".parse().ok().and_then(|group: Name| {
            let name = names::name(id, &self.installation, &group).ok()?;
            group.device_name(&name).strip_prefix('g').map(str::to_owned)
        });
        named.is_ok_and(|named| ours.is_some_and(|ours| named.trim_end().ends_with(&ours)))
    }
}

fn unseen(id: &VersionId, name: &str, why: &str) -> Problem {
    let detail = format!("the snapshot {name} of {id} cannot be seen: {why}");
    Problem::new(
        Code::NotReadable,
        detail,
        "look at the groups and volumes (vgs, lvs -a @asat), and restart asat",
    )
}

/// What is recorded of a snapshot, for LVM. Of one whose making did not end well no UUID is known.
pub(super) fn record(snapshot: &Snapshot) -> Result<Record, Problem> {
    let volume = match snapshot.uuid.as_str() {
        "" => Which::MadeSince(snapshot.not_before.unwrap_or(Timestamp::MAX)),
        known => Which::Known(uuid(known)?),
    };
    let (group, origin) = place(&snapshot.origin)?;
    Ok(Record { group, origin, volume })
}

/// What is recorded of a snapshot that was about to be taken at this instant.
pub(super) fn intended(origin: &Origin, at: Timestamp) -> Result<Record, Problem> {
    let (group, origin) = place(origin)?;
    Ok(Record { group, origin, volume: Which::MadeSince(at) })
}

/// The group and the volume that snapshots are taken of.
fn place(origin: &Origin) -> Result<(Uuid, Uuid), Problem> {
    Ok((uuid(&origin.group)?, uuid(&origin.volume)?))
}

fn uuid(text: &str) -> Result<Uuid, Problem> {
    Uuid::from_compact(text).ok_or_else(|| unreadable(text))
}

/// The group and the volume in `group/volume`.
fn split(name: &str) -> Result<(Name, Name), Problem> {
    let parts =
        name.split_once('/').and_then(|(group, volume)| Some((group.parse().ok()?, volume.parse().ok()?)));
    parts.ok_or_else(|| unreadable(name))
}

fn unreadable(text: &str) -> Problem {
    let detail = format!("{text:?}, which is recorded of a volume, can be none of LVM's names");
    Problem::new(Code::Damaged, detail, "restore the catalogue from a backup")
}
