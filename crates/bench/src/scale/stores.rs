//! One daemon with a single store, and one with many of the same size: what a publication, a start and doing nothing take.

use std::iter::once;
use std::path::Path;

use asat_core::Problem;
use bytesize::ByteSize;
use rusqlite::Connection;
use serde::Serialize;

use super::{CHANGED, Idle, InTurns};
use crate::args::ScaleArgs;
use crate::large::{change, fill, rows_of};
use crate::process::Daemon;
use crate::report::Report;
use crate::site::Site;
use crate::turns::in_turns;
use crate::{Tell, api, failed};

/// So often the daemon of each is started.
const STARTS: u32 = 7;

#[derive(Serialize)]
pub(super) struct Figures {
    stores: u32,
    /// The same store is published again and again.
    publish: InTurns,
    /// Another one of the stores is published each time, and the single one as often. The daemon keeps a few of the processes that read
    /// stores, so each of many stores needs a new one.
    publish_another: InTurns,
    /// From the start of the daemon until it is ready.
    ready: InTurns,
    idle: Idle,
}

/// The stores of a daemon.
struct Stores {
    site: Site,
    open: Vec<Store>,
    rows: i64,
}

/// A store that a program has open.
struct Store {
    name: String,
    connection: Connection,
    changes: u32,
}

impl Stores {
    async fn make(count: u32, size: ByteSize, dir: Option<&Path>) -> Result<Self, Problem> {
        let (site, rows) = (Site::make(dir)?, rows_of(size));
        let names = once("report".to_owned()).chain((2..=count).map(|nth| format!("store{nth}")));
        let (mut open, mut keeping) = (Vec::new(), "backend = \"pages\"\n".to_owned());
        for (nth, name) in names.enumerate() {
            let path = format!("store/{name}.db");
            if nth > 0 {
                let store = format!("[[store]]\nname = \"{name}\"\npath = \"{path}\"\nbackend = \"pages\"\n");
                keeping.push_str(&store);
            }
            let connection = fill(&site.path(&path), rows).await?;
            open.push(Store { name, connection, changes: 0 });
        }
        site.configure(&keeping)?;
        Ok(Self { site, open, rows })
    }

    /// Starts a daemon, and publishes each store for the first time.
    async fn begin(&mut self) -> Result<Daemon, Problem> {
        let daemon = self.site.start()?;
        for nth in 0..self.open.len() {
            self.publish(nth).await?;
        }
        Ok(daemon)
    }

    /// Changes a store, of which the first follows the last, and publishes it; answers after how many milliseconds.
    async fn publish(&mut self, nth: usize) -> Result<f64, Problem> {
        let nth = nth % self.open.len().max(1);
        let store = self.open.get_mut(nth).ok_or_else(|| failed("publish a store", "there is none"))?;
        store.changes += 1;
        change(&mut store.connection, store.changes, self.rows, CHANGED)?;
        let label = format!("change {}", store.changes);
        Ok(api::publish_one(&self.site, &store.name, &label).await?.1)
    }

    /// Starts a daemon and ends it; answers after how many milliseconds it was ready.
    async fn ready_ms(&self) -> Result<f64, Problem> {
        let daemon = self.site.start()?;
        daemon.until_idle().await?;
        let ready_ms = daemon.ready_ms;
        daemon.stop()?;
        Ok(ready_ms)
    }
}

pub(super) async fn measure(
    args: &ScaleArgs,
    dir: Option<&Path>,
    tell: Tell<'_>,
) -> Result<Figures, Problem> {
    tell(&format!("making {} stores", args.stores));
    let mut one = Stores::make(1, args.size, dir).await?;
    let mut many = Stores::make(args.stores, args.size, dir).await?;
    let (of_one, of_many) = (one.begin().await?, many.begin().await?);
    // A daemon compares the rows of what was published afterwards, and would take the processors from the other one's publication.
    let rest = async || {
        of_one.until_idle().await?;
        of_many.until_idle().await
    };
    tell("publishing one store, beside one of many");
    let publish = in_turns(&mut one, &mut many, args.rounds, async |stores: &mut Stores, _| {
        rest().await?;
        stores.publish(0).await
    });
    let publish = InTurns::of(&publish.await?);
    let another = in_turns(&mut one, &mut many, args.rounds, async |stores: &mut Stores, round| {
        rest().await?;
        stores.publish(usize::try_from(round).unwrap_or(0)).await
    });
    let publish_another = InTurns::of(&another.await?);
    rest().await?;
    of_one.stop()?;
    of_many.stop()?;
    tell("starting both");
    // A trial of few rounds is short.
    let starts = args.rounds.min(STARTS);
    let ready = in_turns(&mut one, &mut many, starts, async |stores: &mut Stores, _| stores.ready_ms().await);
    let ready = InTurns::of(&ready.await?);
    let idle = idle(&one, &many, args, tell).await?;
    Ok(Figures { stores: args.stores, publish, publish_another, ready, idle })
}

/// Starts both anew, as after a boot, so that their memory is not that of the work before, and leaves them alone.
async fn idle(one: &Stores, many: &Stores, args: &ScaleArgs, tell: Tell<'_>) -> Result<Idle, Problem> {
    let (of_one, of_many) = (one.site.start()?, many.site.start()?);
    tell(&format!("nothing is asked and nothing written for {} s", args.seconds));
    let idle = Idle::measure(&of_one, &of_many, args.seconds).await?;
    of_one.stop()?;
    of_many.stop()?;
    Ok(idle)
}

impl Figures {
    pub(super) fn tell(&self, report: &mut Report) {
        let names = ["1 store", &format!("{} stores", self.stores)];
        self.publish.tell(report, "publishing one", names);
        self.publish_another.tell(report, "publishing another one each time", names);
        self.ready.tell(report, "start until ready", names);
        self.idle.tell(report, names);
        let [_, many] = names;
        report.target(&format!("publishing one of {many}, to one alone"), 1.1, self.publish.ratio.median);
    }
}
