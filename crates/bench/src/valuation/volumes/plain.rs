//! Plain LVM snapshots: one after each run, by `lvcreate` and nothing else, all of them kept.

use std::time::Instant;

use asat_core::Problem;
use asat_host::lvm::Call;
use asat_host::lvm::report::{Activity, Health, Kind as Sort};

use crate::failed;
use crate::ground::{Ground, Kind};
use crate::statistics::ms_since;

/// What the snapshots' names begin with.
const NAME: &str = "cut";

/// How the snapshots are taken.
pub(super) struct Snapshots {
    pub(super) kind: Kind,
    /// The space of each classic one.
    pub(super) bytes: u64,
}

impl Snapshots {
    /// Takes one; answers how many milliseconds that took.
    pub(super) fn take(&self, ground: &Ground<'_>, number: u32) -> Result<f64, Problem> {
        let mut call = Call::new("lvcreate").flag("--yes").flag("--snapshot");
        if self.kind == Kind::Classic {
            // The smallest chunk, which is the one that copies least for a database's pages.
            call = call.option("--size", format!("{}b", self.bytes)).option("--chunksize", "4k");
        }
        let since = Instant::now();
        ground.run(&call.option("--name", format!("{NAME}{number}")).operand(ground.volume()))?;
        Ok(ms_since(since))
    }

    /// Looks whether all of them still hold what they held.
    pub(super) fn check(&self, ground: &Ground<'_>, count: u32) -> Result<(), Problem> {
        let volumes = ground.volumes()?;
        let ours = volumes.iter().filter(|volume| volume.name.as_str().starts_with(NAME));
        let whole = ours.map(|volume| volume.attributes).filter(|attributes| {
            attributes.activity != Activity::InvalidSnapshot && attributes.health == Health::Good
        });
        let found = whole.count();
        if u32::try_from(found) == Ok(count) {
            return Ok(());
        }
        let what = format!("{found} of {count} are still whole, and a lost one costs its writer nothing");
        Err(failed("compare with plain snapshots", what))
    }

    /// About how many bytes all classic snapshots of a group take, or its thin pool.
    pub(super) fn taken_bytes(&self, ground: &Ground<'_>) -> Result<u64, Problem> {
        let counts = match self.kind {
            Kind::Classic => Sort::Snapshot,
            Kind::Thin => Sort::ThinPool,
        };
        let volumes = ground.volumes()?;
        let taken = volumes.iter().filter(|volume| volume.attributes.kind == counts).map(|volume| {
            let hundredths = volume.data_percent.map_or(0, |percent| u64::from(percent.0));
            volume.size.0 / 10_000 * hundredths
        });
        Ok(taken.sum())
    }
}
