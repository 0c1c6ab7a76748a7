//! Waiting until asat has archived a version and dropped its snapshot.

use std::time::{Duration, Instant};

use asat_core::Problem;

use crate::site::Site;
use crate::statistics::ms_since;
use crate::{api, failed};
use asat_wire::Version;

/// How long a version may take to be archived.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait between two looks. Nothing is measured meanwhile but this wait.
const BETWEEN: Duration = Duration::from_millis(10);

/// The versions whose snapshots may still be there.
#[derive(Default)]
pub(super) struct Pending {
    versions: Vec<String>,
}

impl Pending {
    /// Takes note of a version that was published.
    pub(super) fn add(&mut self, version: &str) {
        self.versions.push(version.to_owned());
    }

    /// Waits until all versions are archived and at most `keep` of them have a snapshot; answers for how many
    /// milliseconds.
    pub(super) async fn settle(&mut self, site: &Site, keep: u32) -> Result<f64, Problem> {
        let (since, keep) = (Instant::now(), usize::try_from(keep).unwrap_or(usize::MAX));
        loop {
            let (mut hot, mut waiting) = (Vec::new(), None);
            for id in std::mem::take(&mut self.versions) {
                let version = api::version(site, &id).await?;
                if !is_archived(&version) {
                    waiting = Some(id.clone());
                }
                if !is_archived(&version) || has_snapshot(&version) {
                    hot.push(id);
                }
            }
            let settled = waiting.is_none() && hot.len() <= keep;
            self.versions = hot;
            if settled {
                return Ok(ms_since(since));
            }
            if since.elapsed() > PATIENCE {
                let what = waiting.map_or_else(
                    || format!("these have snapshots: {}", self.versions.join(", ")),
                    |id| format!("{id} is not archived"),
                );
                return Err(failed(&format!("wait longer than {} s", PATIENCE.as_secs()), what));
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }
}

/// Whether all its pages are in the archive.
fn is_archived(version: &Version) -> bool {
    version.holdings.iter().any(|holding| holding.kind == "archive")
}

/// Whether anything else holds it too.
fn has_snapshot(version: &Version) -> bool {
    version.holdings.iter().any(|holding| holding.kind != "archive")
}
