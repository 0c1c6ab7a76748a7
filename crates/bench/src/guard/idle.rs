//! What the guard costs while nothing is written.

use std::time::{Duration, Instant};

use asat_core::Problem;
use serde::Serialize;

use super::at_peace;
use crate::args::GuardArgs;
use crate::ground::Ground;
use crate::process::Daemon;
use crate::site::Site;
use crate::statistics::{Spread, float, over};
use crate::workload::{Book, Run};
use crate::{Tell, api, failed};

/// What comes after a start and after the last publication is over by then: the store's log, the archive, the file
/// system's own writes.
const REST: Duration = Duration::from_secs(15);

/// What it cost to look for a while.
#[derive(Debug, Serialize)]
pub(super) struct Idle {
    /// The time to the next look, as the guard said at the end, in milliseconds.
    pub(super) tick_ms: u64,
    pub(super) seconds: f64,
    pub(super) looks: u64,
    pub(super) glances: u64,
    /// The time of all looks, in a hundredth of one core. It may contain time in which others had the core.
    pub(super) looking_percent: f64,
    /// The daemon's processor time, with that of the commands that it ran, in a hundredth of one core.
    pub(super) processor_percent: f64,
    /// The time of one look or glance, in microseconds.
    pub(super) look_us: f64,
}

/// Both measurements.
pub(super) struct Both {
    /// As it is by default.
    pub(super) usual: Idle,
    /// With the shortest ticks, which are those beside snapshots with little headroom.
    pub(super) shortest: Idle,
    /// Of the first and of the last tenth of the publications, in milliseconds.
    pub(super) published: (Spread, Spread),
}

pub(super) async fn measure(
    site: &Site,
    ground: &Ground<'_>,
    args: &GuardArgs,
    tell: Tell<'_>,
) -> Result<Both, Problem> {
    let backend = if args.thin { "lvm-thin" } else { "lvm-classic" };
    let keeping = format!("backend = \"{backend}\"\nkeep_snapshots = {}\n", args.snapshots);
    site.configure(&keeping)?;
    let daemon = site.start()?;
    let published = publish(site, args.snapshots, tell).await?;
    let usual = rest(site, (&daemon, ground), args, tell).await?;
    daemon.stop()?;
    site.configure(&format!("{keeping}[guard]\nlongest_tick = \"20ms\"\n"))?;
    let daemon = site.start()?;
    let shortest = rest(site, (&daemon, ground), args, tell).await?;
    daemon.stop()?;
    Ok(Both { usual, shortest, published })
}

/// Publishes so many versions, each different from the one before it; answers how long the first and the last tenth took.
async fn publish(site: &Site, snapshots: u32, tell: Tell<'_>) -> Result<(Spread, Spread), Problem> {
    let (mut book, mut took_ms) = (Book::open(&site.store)?, Vec::new());
    for number in 1..=snapshots {
        book.value_anew(&Run::new(number, 10))?;
        took_ms.push(api::publish(site, &format!("snapshot {number}")).await?.1);
        if number % 10 == 0 {
            tell(&format!("{number} of {snapshots} snapshots"));
        }
    }
    let tenth = took_ms.len().div_ceil(10);
    let last = took_ms.len() - tenth;
    let spread = |part: Option<&[f64]>| Spread::of(part.unwrap_or_default());
    Ok((spread(took_ms.get(..tenth)), spread(took_ms.get(last..))))
}

/// Lets the guard alone for a while.
async fn rest(
    site: &Site,
    (daemon, ground): (&Daemon, &Ground<'_>),
    args: &GuardArgs,
    tell: Tell<'_>,
) -> Result<Idle, Problem> {
    tokio::time::sleep(REST).await;
    let before = at_peace(site).await?;
    let snapshots = ground.volumes()?.iter().filter(|volume| volume.origin.is_some()).count();
    if u32::try_from(snapshots) != Ok(args.snapshots) {
        return Err(failed("measure an idle guard", format!("there are {snapshots} snapshots")));
    }
    tell(&format!("nothing is written for {} s", args.seconds));
    let (since, used) = (Instant::now(), daemon.processor_seconds()?);
    tokio::time::sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let (seconds, used) = (since.elapsed().as_secs_f64(), daemon.processor_seconds()? - used);
    let after = api::capacity(site).await?;
    let (looks, glances) = (after.looks.full - before.looks.full, after.looks.glances - before.looks.glances);
    let spent_ms = after.looks.spent_ms - before.looks.spent_ms;
    Ok(Idle {
        tick_ms: after.tick_ms,
        seconds,
        looks,
        glances,
        looking_percent: spent_ms / 10.0 / seconds,
        processor_percent: used * 100.0 / seconds,
        look_us: over(spent_ms * 1000.0, float(looks + glances)),
    })
}
