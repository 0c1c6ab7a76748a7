//! More and more readers ask the same versions at once: through copies, and through the tree if there is FUSE.
//!
//! Readers are threads of this process. SQLite spares the connections of one process some locks of a file that several of them have open, so
//! many threads are answered more than as many processes would be.

use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use rusqlite::Connection;
use serde::Serialize;

use super::{Expected, SUM, keeping_for, publish_versions, site_for};
use crate::args::ScaleArgs;
use crate::large::rows_of;
use crate::process::Daemon;
use crate::report::{Report, number};
use crate::site::Site;
use crate::statistics::{float, over};
use crate::workload::{Random, open_copy};
use crate::{Tell, api, differs, failed};

/// The tree below the folder of the benchmark.
const TREE: &str = "tree";
/// So many readers there are before all of them.
const FEW: [u32; 2] = [1, 8];
/// What a reader asks again and again, of another row each time.
const LOOK_UP: &str = "select value from position where id = ?1";

#[derive(Serialize)]
pub(super) struct Figures {
    versions: u32,
    copies: Vec<Rate>,
    /// Absent where versions cannot be read in a tree.
    tree: Option<Vec<Rate>>,
}

/// What so many readers were answered, all together.
#[derive(Serialize)]
struct Rate {
    readers: u32,
    queries: u64,
    per_second: f64,
    /// The daemon's processor time meanwhile, in a hundredth of one processor.
    daemon_percent: f64,
}

/// A daemon with the versions that are read.
struct Shelf<'a> {
    site: &'a Site,
    daemon: &'a Daemon,
    versions: &'a [Expected],
    rows: i64,
    time: Duration,
}

pub(super) async fn measure(
    args: &ScaleArgs,
    dir: Option<&Path>,
    tell: Tell<'_>,
) -> Result<Figures, Problem> {
    let site = site_for(args.readers, dir)?;
    let daemon = site.start()?;
    let versions = publish_versions(&site, args).await?;
    let (rows, time) = (rows_of(args.size), Duration::from_secs(u64::from(args.seconds)));
    let (versions, site) = (versions.as_slice(), &site);
    tell("reading copies");
    let copies = Shelf { site, daemon: &daemon, versions, rows, time }.rates(args.readers).await?;
    daemon.stop()?;
    site.configure(&format!("{}[fuse]\nroot = \"{TREE}\"\n", keeping_for(args.readers)))?;
    let daemon = site.start()?;
    let tree = if is_in_tree(site, versions) {
        tell("reading in the tree");
        Some(Shelf { site, daemon: &daemon, versions, rows, time }.rates(args.readers).await?)
    } else {
        tell("versions are not read in the tree: there is no FUSE here");
        None
    };
    daemon.stop()?;
    Ok(Figures { versions: args.versions, copies, tree })
}

/// Whether all versions are in the tree.
fn is_in_tree(site: &Site, versions: &[Expected]) -> bool {
    versions.iter().all(|version| site.path(TREE).join(&version.id).join("report.db").is_file())
}

impl Shelf<'_> {
    /// Has one reader ask, then more.
    async fn rates(&self, readers: u32) -> Result<Vec<Rate>, Problem> {
        let mut rates = Vec::new();
        for readers in FEW.into_iter().filter(|few| *few < readers).chain([readers]) {
            rates.push(self.rate(readers).await?);
        }
        Ok(rates)
    }

    /// Has so many readers ask for a while. Each has a lease of its own, and opens the path that came with it.
    async fn rate(&self, readers: u32) -> Result<Rate, Problem> {
        let (mut mounts, mut open) = (Vec::new(), Vec::new());
        for (version, _) in self.versions.iter().cycle().zip(0..readers) {
            let mount = api::open(self.site, &version.id).await?;
            open.push(connect(&mount.path, version)?);
            mounts.push(mount);
        }
        self.daemon.until_idle().await?;
        let (since, used) = (Instant::now(), self.daemon.processor_seconds()?);
        let queries = ask(open, self.rows, since + self.time)?;
        let (seconds, used) = (since.elapsed().as_secs_f64(), self.daemon.processor_seconds()? - used);
        for mount in &mounts {
            api::close(self.site, mount).await?;
        }
        let per_second = over(float(queries), seconds);
        Ok(Rate { readers, queries, per_second, daemon_percent: used * 100.0 / seconds })
    }
}

/// Opens a version as a reader would, and sees whether it holds what was published.
fn connect(path: &str, version: &Expected) -> Result<Connection, Problem> {
    let connection = open_copy(&format!("file:{path}"))?;
    let sum = connection.query_row(SUM, [], |row| row.get::<_, i64>(0));
    let sum = sum.map_err(|error| failed("read a version", error))?;
    if sum != version.sum {
        return Err(differs(format!("{} has the sum {sum}, not {}", version.id, version.sum)));
    }
    Ok(connection)
}

/// Has all of them ask at once; answers how many answers there were.
fn ask(open: Vec<Connection>, rows: i64, until: Instant) -> Result<u64, Problem> {
    std::thread::scope(|scope| {
        let ask = |(connection, seed): (Connection, u64)| {
            scope.spawn(move || ask_until(&connection, rows, seed, until))
        };
        let asking: Vec<_> = open.into_iter().zip(1..).map(ask).collect();
        let died = |_| Err(failed("read a version", "a reader ended early"));
        asking.into_iter().map(|asking| asking.join().unwrap_or_else(died)).sum()
    })
}

fn ask_until(connection: &Connection, rows: i64, seed: u64, until: Instant) -> Result<u64, Problem> {
    let cannot = |error: rusqlite::Error| failed("ask a version", error);
    let (mut random, mut answers) = (Random(seed), 0);
    let mut look_up = connection.prepare(LOOK_UP).map_err(cannot)?;
    while Instant::now() < until {
        look_up.query_row([1 + random.below(rows)], |row| row.get::<_, f64>(0)).map_err(cannot)?;
        answers += 1;
    }
    Ok(answers)
}

impl Figures {
    pub(super) fn tell(&self, report: &mut Report) {
        for (what, rates) in [("copies", Some(&self.copies)), ("the tree", self.tree.as_ref())] {
            for rate in rates.into_iter().flatten() {
                let (per_second, percent) = (number(rate.per_second), number(rate.daemon_percent));
                report.line(
                    format!("readers of {what}: {}", rate.readers),
                    format!("{per_second} queries a second, daemon {percent} % of a processor"),
                );
            }
        }
        if self.tree.is_none() {
            report.line("readers of the tree", "not measured: there is no FUSE here");
        }
    }
}
