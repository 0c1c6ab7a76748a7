//! One daemon with a single open lease, and one with many: what one more, all of them as a list, and giving one back take.

use std::path::Path;
use std::time::Instant;

use asat_core::Problem;
use serde::Serialize;

use super::{Idle, InTurns, publish_versions, site_for};
use crate::args::ScaleArgs;
use crate::process::Daemon;
use crate::report::Report;
use crate::site::Site;
use crate::statistics::ms_since;
use crate::turns::in_turns;
use crate::{Tell, api, failed};

/// So often a lease is taken and given back, with few and with many.
const TURNS: u32 = 200;

#[derive(Serialize)]
pub(super) struct Figures {
    leases: u32,
    versions: u32,
    /// One more on a version that is open already.
    take: InTurns,
    /// All of them, of which there are more to send and to read.
    list: InTurns,
    give_back: InTurns,
    idle: Idle,
}

/// A daemon whose versions are leased.
struct Leased {
    site: Site,
    leases: u32,
}

/// Milliseconds.
struct Taken {
    take_ms: f64,
    list_ms: f64,
    give_back_ms: f64,
}

impl Leased {
    /// Publishes the versions, and takes so many leases on them, each on another one in turn.
    async fn make(leases: u32, args: &ScaleArgs, dir: Option<&Path>) -> Result<(Self, Daemon), Problem> {
        let site = site_for(leases, dir)?;
        let daemon = site.start()?;
        let versions = publish_versions(&site, args).await?;
        for (version, _) in versions.iter().cycle().zip(0..leases) {
            api::open(&site, &version.id).await?;
        }
        daemon.until_idle().await?;
        Ok((Self { site, leases }, daemon))
    }

    /// Takes one more lease, lists all, and gives it back.
    async fn take(&self) -> Result<Taken, Problem> {
        let since = Instant::now();
        let mount = api::open(&self.site, "report@1").await?;
        let take_ms = ms_since(since);
        let since = Instant::now();
        let list = api::leases(&self.site).await?;
        let list_ms = ms_since(since);
        if u32::try_from(list.leases.len()) != Ok(self.leases + 1) {
            let what = format!("{} of {} leases were listed", list.leases.len(), self.leases + 1);
            return Err(failed("go on", what));
        }
        let since = Instant::now();
        api::close(&self.site, &mount).await?;
        Ok(Taken { take_ms, list_ms, give_back_ms: ms_since(since) })
    }
}

pub(super) async fn measure(
    args: &ScaleArgs,
    dir: Option<&Path>,
    tell: Tell<'_>,
) -> Result<Figures, Problem> {
    tell(&format!("taking {} leases", args.leases));
    let (mut one, of_one) = Leased::make(1, args, dir).await?;
    let (mut many, of_many) = Leased::make(args.leases, args, dir).await?;
    tell("taking one more, and giving it back");
    let pairs = in_turns(&mut one, &mut many, TURNS, async |leased: &mut Leased, _| leased.take().await);
    let pairs = pairs.await?;
    let each = |pick: fn(&Taken) -> f64| {
        InTurns::of(&pairs.iter().map(|(one, many)| (pick(one), pick(many))).collect::<Vec<_>>())
    };
    tell(&format!("nothing is asked and nothing written for {} s", args.seconds));
    let idle = Idle::measure(&of_one, &of_many, args.seconds).await?;
    of_one.stop()?;
    of_many.stop()?;
    Ok(Figures {
        leases: args.leases,
        versions: args.versions,
        take: each(|taken| taken.take_ms),
        list: each(|taken| taken.list_ms),
        give_back: each(|taken| taken.give_back_ms),
        idle,
    })
}

impl Figures {
    pub(super) fn tell(&self, report: &mut Report) {
        let names = ["1 lease", &format!("{} leases", self.leases)];
        self.take.tell(report, "taking one more", names);
        self.list.tell(report, "listing all", names);
        self.give_back.tell(report, "giving one back", names);
        self.idle.tell(report, names);
        let [few, many] = names;
        let what = format!("taking one more with {many}, to with {few}");
        report.target(&what, 1.3, self.take.ratio.median);
    }
}
