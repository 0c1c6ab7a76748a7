//! Snapshots of versions, as LVM makes, activates, extends and removes them.
//!
//! Nothing is removed but what was made here, or what [`recognise`](super::recognise) found to be ours. A snapshot that could not be
//! made is not cleaned up here either: what is left of it has our name and tags, and is recognised and removed
//! like any other.
//!
//! A command of LVM takes tens to hundreds of milliseconds, so each of these runs one and no more; what is to be
//! known beside it is asked of the kernel. Only where a command has done nothing is a second one run, to say why, and before a
//! thin snapshot is removed, to know its number in its pool.

mod device;
mod error;
mod pooled;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use asat_core::VersionId;

pub(in crate::lvm) use device::is_node_of;
pub use error::Error;

use super::command::{self, Call, Lvm, Refusal};
use super::names::{self, InstallationId, Ours};
use super::report::{LogicalVolume, Name, Uuid};
use super::units::Bytes;
use crate::dm;

/// How often a command is run at most if it gives up in the middle.
pub const ATTEMPTS: usize = 10;

/// What a snapshot is to be.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The version that it is to hold.
    pub version: &'a VersionId,
    /// Who makes it.
    pub installation: &'a InstallationId,
    /// The group.
    pub group: &'a Name,
    /// The volume that it is to be a snapshot of.
    pub origin: &'a Name,
    /// Where what is overwritten goes.
    pub space: Space,
    /// What its tags are to say of the version besides, in lines `name=value`.
    pub told: &'a [String],
}

/// Where a snapshot keeps what its origin overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// In space of its own: a classic snapshot.
    Own {
        /// How much; LVM rounds it up to whole extents, and takes no more than the snapshot can ever need.
        size: Bytes,
        /// How much is copied at once: a power of two from 4 KiB to 512 KiB.
        chunk: Bytes,
    },
    /// In the pool of its origin, which must be a thin volume.
    Pool,
}

/// A snapshot that is there and active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The volume.
    pub ours: Ours,
    /// Its device, major and minor. It may be another one after the next activation.
    pub device: (u32, u32),
    /// Its device's node. It is there.
    pub node: PathBuf,
}

/// A snapshot's space after an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// How much there is, as the kernel says.
    pub space: Bytes,
    /// How long LVM's command ran; no time where there was enough space already.
    pub command: Duration,
}

impl Lvm {
    /// Takes a snapshot, and activates it. The origin is suspended for a moment by LVM, and its file system is
    /// in order in the snapshot. A thin snapshot is marked to be skipped when the group is activated: a boot
    /// must not activate hundreds.
    ///
    /// # Errors
    /// Where LVM refuses, most of all with [`Refusal::NoRoom`] and [`Refusal::PoolFull`]; something may be left
    /// behind then. With [`Error::Unseen`] where the snapshot was made but cannot be used.
    pub fn take(&self, control: &dm::Control, snapshot: &Snapshot<'_>) -> Result<Made, Error> {
        let &Snapshot { version, installation, group, origin, space, told } = snapshot;
        let name = names::name(version, installation, group)?;
        // LVM's own monitor would extend what asat extends, and unmount what has overflowed.
        let mut call = Call::new("lvcreate").flag("--yes").flag("--snapshot").option("--monitor", "n");
        call = call.option("--name", &name);
        let told = told.iter().map(|line| names::tagged(line));
        for tag in names::tags(version, installation).into_iter().chain(told) {
            call = call.option("--addtag", tag);
        }
        call = match space {
            Space::Own { size, chunk } => {
                call.option("--size", in_sectors(size)).option("--chunksize", in_sectors(chunk))
            }
            Space::Pool => call
                .option("--setactivationskip", "y")
                .flag("--ignoreactivationskip")
                .option("--activate", "y"),
        };
        self.run(&call.operand(format!("{group}/{origin}")))?;
        device::made(control, (version, installation), group, name)
    }

    /// Removes a snapshot. One that is gone already is no error; one that is mounted or open is left alone.
    ///
    /// # Errors
    /// Where LVM refuses, most of all with [`Refusal::InUse`]; with [`Error::Pool`] and
    /// [`Error::Kept`] where the kernel does; with [`Error::HasSnapshots`] where somebody has made snapshots of
    /// it; with [`Error::Elsewhere`] where somebody has renamed it; and with [`Refusal::NoSuchGroup`] where its group
    /// is not to be seen, for nobody can say then whether it is gone.
    pub fn remove(&self, control: &dm::Control, ours: &Ours) -> Result<(), Error> {
        let pooled = self.pooled(control, ours)?;
        let call = removal(ours).operand(ours.operand());
        let said = if ours.is_recorded() {
            self.run_until_done(&call)
        } else {
            match self.run(&call) {
                // LVM would first finish what it was doing to the pool when the power was cut. Where the pool has
                // done that already, it can never be done again, and until the volume is gone LVM does nothing
                // else to the pool either. Told twice to use force, LVM passes over the failure.
                Err(error) if error.refusal() == Some(Refusal::HalfDone) => self
                    .run_until_done(&removal(ours).flag("--force").flag("--force").operand(ours.operand())),
                said => said,
            }
        };
        match said {
            Ok(said) if said.contains(&format!("\"{}\" successfully removed", ours.name())) => {
                pooled.map_or(Ok(()), |pooled| pooled.expect_gone(control, ours))
            }
            // Nothing had this UUID under this name, or it has snapshots.
            Ok(_) => self.expect_gone(ours),
            Err(error) if error.refusal() == Some(Refusal::NoSuchVolume) => self.expect_gone(ours),
            Err(error) if error.refusal() == Some(Refusal::NoSuchGroup) => {
                self.expect_gone(ours).and(Err(error.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Activates a snapshot that is not active, as after a boot. Where it is active already, this only answers
    /// where. LVM activates a classic one with its origin and all other snapshots of that, or not at all.
    ///
    /// # Errors
    /// Where LVM refuses; with [`Error::HalfMade`] where nothing shows that it was ever finished; with
    /// [`Error::Unseen`] where there is no device after that, as where another volume has taken its name.
    pub fn activate(&self, control: &dm::Control, ours: &Ours) -> Result<Made, Error> {
        if !ours.is_recorded() {
            return Err(Error::HalfMade(ours.operand()));
        }
        match device::activated(control, ours) {
            Err(Error::Unseen { source: dm::Error::NoSuchDevice(_), .. }) => {}
            found => return found,
        }
        // LVM asks whether the origin may be activated too.
        let call = Call::new("lvchange").flag("--yes").option("--activate", "y").without_backup();
        let call =
            call.flag("--ignoreactivationskip").option("--monitor", "n").option("--select", ours.selection());
        self.run(&call.operand(ours.operand()))?;
        device::activated(control, ours)
    }

    /// Extends a classic snapshot's space, where it is smaller, and answers how much it has now. LVM rounds up
    /// to whole extents, and stops at the most that the snapshot can ever need.
    ///
    /// # Errors
    /// Where LVM refuses, most of all with [`Refusal::NoRoom`]; with [`Error::Lost`] where the snapshot
    /// overflowed before its new space was there: LVM extends that too, and ends well.
    pub fn extend(&self, control: &dm::Control, ours: &Ours, to: Bytes) -> Result<Extended, Error> {
        // This command selects by name alone, so the kernel is asked first whose name it is.
        let before = device::own_space(control, ours)?;
        if before >= to {
            return Ok(Extended { space: before, command: Duration::ZERO });
        }
        // LVM would have its monitor watch every snapshot of the origin, which would extend what asat extends, and would
        // wait for udev to look at every device again. Both take longer than all the rest, and neither is needed.
        let call =
            Call::new("lvextend").flag("--noudevsync").setting("activation/monitoring=0").without_backup();
        let call = call.option("--size", in_sectors(to)).operand(ours.operand());
        let since = Instant::now();
        // Where the origin's writers came to be held just as LVM suspended it for itself, the kernel refuses that, and LVM
        // takes back what it began. Told again, it finds the origin suspended, and goes on.
        let mut said = self.run_until_done(&call);
        let mut space = device::own_space(control, ours)?;
        let is_recorded =
            said.as_ref().map_or_else(|error| error.refusal() == Some(Refusal::SameSize), |_| true);
        if space < to && is_recorded {
            // The origin's writers came to be let go while LVM worked. It found nothing suspended then and resumed nothing, so the
            // space that it had given waits in the kernel to be used.
            let refresh = Call::new("lvchange").flag("--refresh").option("--monitor", "n").without_backup();
            said = self.run_until_done(&refresh.operand(ours.operand()));
            space = device::own_space(control, ours)?;
        }
        said?;
        Ok(Extended { space, command: since.elapsed() })
    }

    /// Retries a command if LVM gave up in the middle. Newer kernels do not let it suspend a device whose file system
    /// is just being mounted or unmounted, and it suspends all classic snapshots of an origin as it changes one. If it removes
    /// the last snapshot of an origin whose writers are held, it makes that a volume like any other, then finds its devices in an
    /// order that it did not expect, and removes that volume when it is run again.
    fn run_until_done(&self, call: &Call) -> Result<String, command::Error> {
        let mut said = self.run(call);
        for _ in 1..ATTEMPTS {
            match &said {
                Err(error) if error.refusal() == Some(Refusal::HalfDone) => said = self.run(call),
                _ => break,
            }
        }
        said
    }

    /// Every volume with asat's tag, in every group that can be seen: ours, and those of other installations.
    ///
    /// # Errors
    /// Where the command fails, or its report cannot be read.
    pub fn tagged(&self) -> Result<Vec<LogicalVolume>, Error> {
        Ok(self.selected(&format!("lv_tags={}", names::TAG))?)
    }

    /// The same, and besides the volumes with these UUIDs, whatever they are called and tagged by now.
    ///
    /// # Errors
    /// As [`Self::tagged`].
    pub fn tagged_or(&self, uuids: &[Uuid]) -> Result<Vec<LogicalVolume>, Error> {
        let mut selection = format!("lv_tags={}", names::TAG);
        for uuid in uuids {
            let _ = write!(selection, " || lv_uuid={uuid}");
        }
        Ok(self.selected(&selection)?)
    }

    fn expect_gone(&self, ours: &Ours) -> Result<(), Error> {
        match self.selected(&ours.selection())?.first() {
            None => Ok(()),
            Some(LogicalVolume { group, name, .. }) if group == ours.group() && name == ours.name() => {
                Err(Error::HasSnapshots(ours.operand()))
            }
            Some(LogicalVolume { group, name, .. }) => {
                Err(Error::Elsewhere { volume: ours.operand(), now: format!("{group}/{name}") })
            }
        }
    }
}

/// The command that removes a snapshot, without its operand. LVM takes a consent for one to the removal of
/// whatever depends on the volume too, and that is not ours; so an origin (`o` or `O` in `lv_attr`) is not selected.
fn removal(ours: &Ours) -> Call {
    let selection = format!("{} && lv_attr!~\"^[oO]\"", ours.tagged_selection());
    // LVM would wait for udev to look at the origin, and udev for its writers to be let go where they are held.
    let call = Call::new("lvremove").flag("--yes").flag("--noudevsync").without_backup();
    call.option("--select", selection)
}

/// A size as LVM takes it, rounded up to the kernel's sectors, of which LVM takes no parts.
fn in_sectors(size: Bytes) -> String {
    format!("{}s", size.to_sectors().0)
}
