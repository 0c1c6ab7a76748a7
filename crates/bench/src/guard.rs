//! `asat-bench guard`: what the guard costs while nothing is written, and how soon it extends a snapshot that a writer
//! fills at full speed.
//!
//! Both on one volume with classic snapshots, or the second alone on one with thin snapshots. First, again and again, a daemon that has seen nothing yet takes a snapshot
//! that is far too small, and a file beside the store is overwritten as fast as the disk takes it. Then there are many
//! snapshots, and nothing is written, with the usual ticks and with the shortest.

mod figures;
mod flood;
mod idle;

use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use asat_host::lvm::Lvm;

use super::args::{GuardArgs, JournalMode};
use super::disk::Disk;
use super::ground::{Ground, Kind, Shape, check_root};
use super::report::Report;
use super::setting::Setting;
use super::site::Site;
use super::workload::Book;
use super::{Tell, api, failed};
use asat_wire::Capacity;
use figures::Figures;

const MIB: u64 = 1 << 20;
/// The store's volume.
const VOLUME: u64 = 256 * MIB;
/// A snapshot of it that cannot overflow, rounded up.
const SNAPSHOT: u64 = VOLUME + 8 * MIB;
/// What the changes between two thin snapshots take, rounded up.
const THIN_SNAPSHOT: u64 = 4 * MIB;
/// The file that is overwritten: more than a snapshot's first space.
const BALLAST: u64 = 160 * MIB;
/// How long the guard may take to be at peace.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two questions to it.
const BETWEEN: Duration = Duration::from_millis(50);

pub(super) async fn run(args: &GuardArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    check_root()?;
    let (kind, snapshot) = if args.thin { (Kind::Thin, THIN_SNAPSHOT) } else { (Kind::Classic, SNAPSHOT) };
    let needed = VOLUME + kind.overhead_bytes() + (u64::from(args.snapshots) + 4) * snapshot;
    let disk =
        Disk::empty(&args.disk)?.at_least(needed, "name a larger disk, or choose fewer --snapshots")?;
    let lvm = Lvm::find()?;
    // What comes first here is dropped last: the volume is unmounted before the folder goes.
    let site = Site::with_store_at(dir, "volume/report.db", "")?;
    tell("making a volume");
    let shape = Shape { kind, volume_bytes: VOLUME, spare_bytes: 0 };
    let ground = Ground::make(disk, (&lvm, &site.group("guard")), &shape, site.path("volume"), tell)?;
    let extensions = if args.thin {
        Book::create(&site.store, JournalMode::Wal)?;
        None
    } else {
        Some(flood::measure(&site, &ground.folder, args.extensions, tell).await?)
    };
    let idle = idle::measure(&site, &ground, args, tell).await?;
    let setting = Setting::of(&ground.folder);
    tell("removing the volume");
    ground.remove()?;
    Figures::new(args, extensions.as_ref(), idle).report(setting)
}

/// Waits until everything is safe and nothing is planned; answers how it stands then.
async fn at_peace(site: &Site) -> Result<Capacity, Problem> {
    let since = Instant::now();
    loop {
        let capacity = api::capacity(site).await?;
        let safe = capacity.targets.iter().all(|target| target.level == "safe");
        if safe && capacity.plan.is_empty() && capacity.looked_at.is_some() {
            return Ok(capacity);
        }
        if since.elapsed() > PATIENCE {
            let what = serde_json::to_string(&capacity).unwrap_or_default();
            return Err(failed(&format!("wait longer than {} s for the guard", PATIENCE.as_secs()), what));
        }
        tokio::time::sleep(BETWEEN).await;
    }
}
