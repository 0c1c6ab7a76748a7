//! Opening versions: how soon the first answer comes, how fast a scan is, and whether what is read is what was
//! published.

use std::fs;
use std::time::Instant;

use asat_core::Problem;
use serde::Serialize;

use crate::report::number;
use crate::site::Site;
use crate::statistics::{Paired, ms_since};
use crate::workload::{Totals, look_up, open_copy, totals};
use crate::{api, differs, failed};
use asat_wire::Mount;

/// How often each scan is repeated.
const SCANS: u32 = 11;

/// A version that was opened.
#[derive(Serialize)]
pub(super) struct Opening {
    pub(super) version: String,
    pub(super) size_bytes: u64,
    /// Until the daemon had answered.
    pub(super) open_ms: f64,
    /// Until the first query was answered, from the same start.
    pub(super) first_answer_ms: f64,
    /// The warm scan of a plain file with the same content, and that of the copy.
    pub(super) scan: Paired,
}

impl Opening {
    pub(super) fn text(&self) -> String {
        let Self { open_ms, first_answer_ms, scan, .. } = self;
        format!(
            "opened in {} ms, first answer after {} ms; warm scan {} ms, {} of a plain file's",
            number(*open_ms),
            number(*first_answer_ms),
            number(scan.with_ms.median),
            number(scan.ratio_of_sums),
        )
    }
}

/// Opens the first version, the one in the middle and the last.
pub(super) async fn measure(published: &[(String, Totals)], site: &Site) -> Result<Vec<Opening>, Problem> {
    let mut chosen = vec![0, published.len() / 2, published.len().saturating_sub(1)];
    chosen.dedup();
    let mut openings = Vec::new();
    for (version, expected) in chosen.into_iter().filter_map(|nth| published.get(nth)) {
        let since = Instant::now();
        let mount = api::open(site, version).await?;
        let open_ms = ms_since(since);
        look_up(&open_copy(&mount.uri)?)?;
        let first_answer_ms = ms_since(since);
        let (size_bytes, scan) = scan(&mount, expected, site)?;
        openings.push(Opening { version: version.clone(), size_bytes, open_ms, first_answer_ms, scan });
    }
    Ok(openings)
}

/// Scans the copy and a plain file with the same content in turns, and compares what they say.
fn scan(mount: &Mount, expected: &Totals, site: &Site) -> Result<(u64, Paired), Problem> {
    let plain = site.path("plain.db");
    let bytes = fs::copy(&mount.path, &plain).map_err(|error| failed("copy a version", error))?;
    let connections = [open_copy(&format!("file:{}", plain.display()))?, open_copy(&mount.uri)?];
    let timed = |connection| {
        let since = Instant::now();
        let found = totals(connection)?;
        let took_ms = ms_since(since);
        if found == *expected {
            return Ok(took_ms);
        }
        Err(differs(format!("{} has {found:?}, and was published with {expected:?}", mount.version)))
    };
    let [plain_connection, copy] = &connections;
    // Once without a clock, so that both are warm.
    timed(plain_connection)?;
    timed(copy)?;
    let mut pairs = Vec::new();
    for nth in 0..SCANS {
        pairs.push(if nth % 2 == 0 {
            (timed(plain_connection)?, timed(copy)?)
        } else {
            let with = timed(copy)?;
            (timed(plain_connection)?, with)
        });
    }
    Ok((bytes, Paired::of(&pairs)))
}
