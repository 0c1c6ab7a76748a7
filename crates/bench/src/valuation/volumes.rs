//! The workload of 2014 on volumes: one run on three stores, each on a disk of its own, so that the disks' own
//! counters tell apart what each costs.
//!
//! After every run one store is published by asat, one gets a plain LVM snapshot that is kept for good, and one gets
//! nothing. The three take turns in being first.

mod figures;
mod plain;
mod settle;
mod sizes;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Instant;

use asat_core::{Code, Problem};
use asat_host::lvm::Lvm;

use super::opening::{self, Opening};
use crate::args::{Backend, Disks, ValuationArgs};
use crate::disk::Disk;
use crate::ground::{Ground, Kind, Shape, check_root};
use crate::report::Report;
use crate::setting::Setting;
use crate::site::Site;
use crate::workload::{Book, Run, Totals};
use crate::{Tell, api, differs};
use figures::{Figures, Measured};
use plain::Snapshots;
use settle::Pending;
use sizes::Sizes;

/// The file of each store, on its volume.
const STORE: &str = "report.db";

/// What there is of each contender.
#[derive(Debug, Default, PartialEq, Eq)]
struct Three<T> {
    /// Published by asat.
    asat: T,
    /// With a plain snapshot after each run.
    plain: T,
    /// Never versioned.
    none: T,
}

#[derive(Clone, Copy)]
enum Contender {
    Asat,
    Plain,
    None,
}

pub(super) async fn run(
    (args, kind, disks): (&ValuationArgs, Kind, &Disks),
    dir: Option<&Path>,
    tell: Tell<'_>,
) -> Result<Report, Problem> {
    check_root()?;
    let sizes = Sizes::of(args, kind);
    let disks = look_at(disks, &sizes)?;
    let lvm = Lvm::find()?;
    let (backend, keep) = (args.backend.text(), args.volumes.keep_snapshots);
    let keeping = format!("backend = \"{backend}\"\nkeep_snapshots = {keep}\n");
    // What comes first here is dropped last: the volumes are unmounted before the folder goes.
    let site = Site::with_store_at(dir, &format!("asat/{STORE}"), &keeping)?;
    tell("making three volumes");
    let grounds = make_grounds(disks, &site, (&lvm, kind, &sizes), tell).await?;
    let create = |ground: &Ground<'_>| Book::create(&ground.folder.join(STORE), args.journal_mode);
    let books =
        Three { asat: create(&grounds.asat)?, plain: create(&grounds.plain)?, none: create(&grounds.none)? };
    let snapshots = Snapshots { kind, bytes: sizes.snapshot_bytes };
    let daemon = site.start()?;
    let measured = measure(args, &site, (&grounds, books, &snapshots), tell).await?;
    tell("opening versions");
    let openings = opening::measure(&measured.totals, &site).await?;
    let (_, kept_bytes, _) = api::until_compact(&site, Instant::now()).await?;
    let peak_rss_bytes = daemon.peak_rss_bytes()?;
    let setting = Setting::of(&grounds.asat.folder);
    daemon.stop()?;
    tell("removing the volumes");
    let Three { asat, plain, none } = grounds;
    for ground in [asat, plain, none] {
        ground.remove()?;
    }
    Figures::new(args, &measured, kept_bytes, peak_rss_bytes, openings).report(setting)
}

/// Looks whether every disk is empty and large enough, before any of them is written to.
fn look_at(disks: &Disks, sizes: &Sizes) -> Result<Three<Disk>, Problem> {
    let look = |path: &Path, needed| {
        Disk::empty(path)?.at_least(needed, "name a larger disk, or choose fewer --iterations or --rows")
    };
    let three = Three {
        asat: look(&disks.asat, sizes.disk_bytes.asat)?,
        plain: look(&disks.plain, sizes.disk_bytes.plain)?,
        none: look(&disks.none, sizes.disk_bytes.none)?,
    };
    let (asat, plain, none) = (three.asat.number, three.plain.number, three.none.number);
    if asat == plain || plain == none || none == asat {
        let what = "two of the three disks are the same device";
        return Err(Problem::new(Code::Configuration, what, "name three different ones"));
    }
    Ok(three)
}

async fn make_grounds<'a>(
    disks: Three<Disk>,
    site: &Site,
    (lvm, kind, sizes): (&Lvm, Kind, &Sizes),
    tell: Tell<'a>,
) -> Result<Three<Ground<'a>>, Problem> {
    let make = async |disk, name: &str, spare_bytes| {
        let group = site.group(name);
        let shape = Shape { kind, volume_bytes: sizes.volume_bytes, spare_bytes };
        let ground = Ground::make(disk, (lvm, &group), &shape, site.path(name), tell)?;
        // Somebody may have asked to stop meanwhile: the first pause hears of it, and the second one obeys.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        Ok::<_, Problem>(ground)
    };
    Ok(Three {
        asat: make(disks.asat, "asat", sizes.spare_bytes).await?,
        plain: make(disks.plain, "plain", 0).await?,
        none: make(disks.none, "none", 0).await?,
    })
}

/// The runs. The stores are closed at the end, so that their volumes can be unmounted.
async fn measure(
    args: &ValuationArgs,
    site: &Site,
    (grounds, mut books, snapshots): (&Three<Ground<'_>>, Three<Book>, &Snapshots),
    tell: Tell<'_>,
) -> Result<Measured, Problem> {
    let before = written(grounds)?;
    let (mut measured, mut pending) = (Measured::default(), Pending::default());
    for number in 1..=args.iterations {
        let run = Run::new(number, args.rows);
        measured.runs.push(take_turns(&mut books, &run, number)?);
        let (published, waited_ms) = api::publish(site, &format!("run {number}")).await?;
        let version = published.version.id.clone();
        pending.add(&version);
        measured.published.push((published, waited_ms));
        measured.plain_lvcreate_ms.push(snapshots.take(&grounds.plain, number)?);
        if !args.volumes.back_to_back {
            measured.settled_ms.push(pending.settle(site, staying(args)).await?);
        }
        measured.totals.push((version, same_totals(&books)?));
        if number % 10 == 0 {
            tell(&format!("{number} of {} publications", args.iterations));
        }
    }
    pending.settle(site, staying(args)).await?;
    let after = written(grounds)?;
    measured.device_bytes = Three {
        asat: after.asat.saturating_sub(before.asat),
        plain: after.plain.saturating_sub(before.plain),
        none: after.none.saturating_sub(before.none),
    };
    snapshots.check(&grounds.plain, args.iterations)?;
    // A thin pool holds the store too, as the one without snapshots does.
    let without = snapshots.taken_bytes(&grounds.none)?;
    measured.plain_kept_bytes = snapshots.taken_bytes(&grounds.plain)?.saturating_sub(without);
    Ok(measured)
}

/// How many snapshots stay: with thin ones one does in any case, for the next version to be compared with.
fn staying(args: &ValuationArgs) -> u32 {
    let keep = args.volumes.keep_snapshots;
    if args.backend == Backend::LvmThin { keep.max(1) } else { keep }
}

/// Commits a run on each of the stores; answers the milliseconds of each.
fn take_turns(books: &mut Three<Book>, run: &Run, number: u32) -> Result<Three<f64>, Problem> {
    let mut took_ms = Three { asat: 0.0, plain: 0.0, none: 0.0 };
    let mut order = [Contender::Asat, Contender::Plain, Contender::None];
    order.rotate_left(usize::try_from(number % 3).unwrap_or(0));
    for contender in order {
        match contender {
            Contender::Asat => took_ms.asat = books.asat.value_anew(run)?,
            Contender::Plain => took_ms.plain = books.plain.value_anew(run)?,
            Contender::None => took_ms.none = books.none.value_anew(run)?,
        }
    }
    Ok(took_ms)
}

/// Reads all three stores, which leaves their caches alike, and compares what they say.
fn same_totals(books: &Three<Book>) -> Result<Totals, Problem> {
    let (asat, plain, none) = (books.asat.totals()?, books.plain.totals()?, books.none.totals()?);
    if asat == plain && plain == none {
        return Ok(asat);
    }
    Err(differs(format!("the same runs gave {asat:?}, {plain:?} and {none:?}")))
}

fn written(grounds: &Three<Ground<'_>>) -> Result<Three<u64>, Problem> {
    Ok(Three {
        asat: grounds.asat.written_bytes()?,
        plain: grounds.plain.written_bytes()?,
        none: grounds.none.written_bytes()?,
    })
}

/// Refuses options that the backend makes no use of.
pub(super) fn check_options(args: &ValuationArgs) -> Result<(), Problem> {
    let volumes = &args.volumes;
    let wrong = |what: &str| Err(Problem::new(Code::Configuration, what, "see asat-bench valuation --help"));
    match super::kind(args.backend) {
        None if volumes.disks.is_some() || volumes.back_to_back || volumes.keep_snapshots > 0 => wrong(
            "--disks, --back-to-back and --keep-snapshots are for the backends lvm-classic, lvm-thin and auto",
        ),
        Some(_) if args.while_writing => wrong("--while-writing is for the backend pages"),
        Some(_) if volumes.disks.is_none() => wrong("the backends on volumes need --disks A,B,C"),
        _ => Ok(()),
    }
}
