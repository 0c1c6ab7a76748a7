//! A snapshot that is far too small, and a writer at full speed: how soon it is extended, and for how long the writer is
//! held.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use asat_core::Problem;

use super::{BALLAST, BETWEEN, MIB, PATIENCE, at_peace};
use crate::args::JournalMode;
use crate::site::Site;
use crate::workload::{Book, Run};
use crate::{Tell, api, differs, failed, tools};
use asat_wire::{Brake, Capacity};

/// Snapshots are made far too small, and only the newest version has one.
const KEEPING: &str = "backend = \"lvm-classic\"\nkeep_snapshots = 1\nsnapshot_size = \"64 MiB\"\n";
/// A flood that no extension follows tells nothing. So many in a row are no chance.
const MOST_IN_VAIN: u32 = 5;

/// What the floods gave.
#[derive(Debug, Default)]
pub(super) struct Extensions {
    /// How many floods there were.
    pub(super) floods: u32,
    /// Of each extension, how long all of it took from when it was begun, in milliseconds.
    pub(super) took_ms: Vec<f64>,
    /// Of each, how much of the time from the look that found it necessary was not LVM's own.
    pub(super) added_ms: Vec<f64>,
    /// How often the writer was held.
    pub(super) holds: u64,
    /// For how long in all, and at the longest.
    pub(super) held_ms: u64,
    pub(super) longest_held_ms: u64,
}

/// Floods one snapshot after the other, until so many extensions were seen.
pub(super) async fn measure(
    site: &Site,
    folder: &Path,
    wanted: u32,
    tell: Tell<'_>,
) -> Result<Extensions, Problem> {
    site.configure(KEEPING)?;
    let ballast = folder.join("ballast");
    make_ballast(&ballast)?;
    let mut book = Book::create(&site.store, JournalMode::Wal)?;
    let (mut extensions, mut in_vain, mut last) = (Extensions::default(), 0, None);
    while extensions.added_ms.len() < usize::try_from(wanted).unwrap_or(usize::MAX) {
        extensions.floods += 1;
        let before = extensions.added_ms.len();
        book.value_anew(&Run::new(extensions.floods, 10))?;
        extensions.add(&flood(site, &ballast, extensions.floods, &mut last).await?)?;
        in_vain = if extensions.added_ms.len() > before { 0 } else { in_vain + 1 };
        if in_vain == MOST_IN_VAIN {
            return Err(failed(
                "measure extensions",
                "the snapshots were not filled: the disk is too slow for that",
            ));
        }
        if extensions.floods % 5 == 0 {
            tell(&format!(
                "{} of {wanted} extensions, in {} floods",
                extensions.added_ms.len(),
                extensions.floods
            ));
        }
    }
    Ok(extensions)
}

/// One flood, with a daemon that has seen no writer yet; answers how the guard stands after it. The `last` version is the
/// one that was flooded before.
async fn flood(
    site: &Site,
    ballast: &Path,
    number: u32,
    last: &mut Option<String>,
) -> Result<Capacity, Problem> {
    let daemon = site.start()?;
    let (published, _) = api::publish(site, &format!("flood {number}")).await?;
    // Nobody is held for a snapshot that may go.
    let id = &published.version.id;
    api::pin(site, id, true).await?;
    // LVM does one thing after another: an extension would wait until the snapshot before is removed.
    if let Some(last) = last.replace(id.clone()) {
        until_dropped(site, &last).await?;
    }
    at_peace(site).await?;
    overwrite(ballast)?;
    let capacity = at_peace(site).await?;
    if capacity.targets.iter().all(|target| target.name != *id) {
        return Err(differs(format!("{id} has lost its snapshot: {:?}", capacity.alarms)));
    }
    api::pin(site, id, false).await?;
    daemon.stop()?;
    Ok(capacity)
}

/// Waits until a version has no snapshot any more.
async fn until_dropped(site: &Site, id: &str) -> Result<(), Problem> {
    let since = Instant::now();
    while api::version(site, id).await?.holdings.iter().any(|holding| holding.kind == "snapshot") {
        if since.elapsed() > PATIENCE {
            return Err(failed("drop a snapshot", format!("{id} still has its own")));
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(())
}

impl Extensions {
    fn add(&mut self, capacity: &Capacity) -> Result<(), Problem> {
        for action in capacity.last_actions.iter().filter(|action| action.action == "extend") {
            let Some(added_ms) = action.added_ms else {
                return Err(failed(
                    "extend a snapshot",
                    action.failure.as_deref().unwrap_or("nobody knows why"),
                ));
            };
            self.added_ms.push(added_ms);
            self.took_ms.push(crate::statistics::float(action.took_ms));
        }
        for &Brake { holds, total_ms, longest_ms, .. } in &capacity.brakes {
            self.holds += holds;
            self.held_ms += total_ms;
            self.longest_held_ms = self.longest_held_ms.max(longest_ms);
        }
        Ok(())
    }
}

fn make_ballast(file: &Path) -> Result<(), Problem> {
    let bytes = vec![7; usize::try_from(BALLAST).unwrap_or_default()];
    let made = fs::write(file, bytes).and_then(|()| File::open(file)?.sync_all());
    made.map_err(|error| failed(&format!("write {}", file.display()), error))
}

/// Writes over the file, past every cache, as fast as the disk takes it.
fn overwrite(file: &Path) -> Result<(), Problem> {
    let (of, count) = (format!("of={}", file.display()), format!("count={}", BALLAST / MIB));
    let words = ["if=/dev/zero", &of, "bs=1M", &count, "conv=notrunc,fsync", "oflag=direct", "status=none"];
    tools::run("dd", &words.map(OsStr::new))?;
    Ok(())
}
