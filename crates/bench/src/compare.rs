//! `asat-bench compare`: asat beside what people take instead, on the same work in one run.
//!
//! Each peer has a store of its own. In each round every store gets the same transaction, and every peer keeps the moment after it; who
//! comes first changes from round to round. In the end each peer has to give some of the moments back, which are compared with what they were.

mod blocks;
mod commands;
mod document;
mod peers;
mod sharing;

use std::collections::BTreeMap;
use std::path::Path;

use asat_core::Problem;
use serde::Serialize;

use super::args::CompareArgs;
use super::report::{Report, mb, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, ratios};
use super::workload::{Run, Totals, look_up, open_copy, totals};
use super::{Tell, differs, failed};
use peers::{Missing, Peer};
use sharing::FileSystem;
pub(crate) use sharing::Kind;

#[derive(Serialize)]
struct Figures {
    publications: u32,
    rows: u32,
    #[serde(flatten)]
    here: Compared,
    /// The same on file systems whose files can share blocks.
    sharing: Vec<Compared>,
}

/// A comparison on one file system.
#[derive(Serialize)]
struct Compared {
    file_system: String,
    store_bytes: u64,
    peers: Vec<PeerFigures>,
    /// Programs that are not here, or do not work here, and why.
    missing: Vec<Missing>,
}

#[derive(Serialize)]
struct PeerFigures {
    name: String,
    version: String,
    /// What is run to keep a moment.
    command: String,
    /// The writer's time, to that on a store of which nothing is kept; of each round.
    writer: Spread,
    /// Until the moment is kept.
    kept_after_ms: Spread,
    kept_bytes: u64,
    /// From asking for an old moment until the first query over it is answered.
    first_answer_ms: Spread,
    /// Processor time for each moment, of commands and of processes that stay.
    processor_ms_each: f64,
    /// The most memory of any of its processes.
    peak_bytes: u64,
}

pub(super) async fn run(args: &CompareArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    let setting = Setting::of(site.folder());
    let here = compare(args, peers::all(args, dir)?, setting.file_system().to_owned(), tell).await?;
    let mut sharing = Vec::new();
    for &kind in &args.also_on {
        tell(&format!("on {}", kind.name()));
        sharing.push(compare_on(kind, args, dir, tell).await?);
    }
    let figures = Figures { publications: args.publications, rows: args.rows, here, sharing };
    if let Some(folder) = &args.document {
        document::write(folder, &figures, &setting)?;
    }
    report(setting, &figures)
}

/// Compares on a file system that is made for it, if one can be made here.
async fn compare_on(
    kind: Kind,
    args: &CompareArgs,
    dir: Option<&Path>,
    tell: Tell<'_>,
) -> Result<Compared, Problem> {
    let name = kind.name().to_owned();
    let made = match FileSystem::make(kind, dir, tell) {
        Ok(made) => made,
        Err(Problem { detail: why, .. }) => {
            let missing = vec![Missing { name: kind.name(), why }];
            return Ok(Compared { file_system: name, store_bytes: 0, peers: Vec::new(), missing });
        }
    };
    compare(args, peers::sharing(kind, &made.folder())?, name, tell).await
}

/// Has all peers keep every moment, in turns, and give some of them back.
async fn compare(
    args: &CompareArgs,
    (mut peers, missing): (Vec<Peer>, Vec<Missing>),
    file_system: String,
    tell: Tell<'_>,
) -> Result<Compared, Problem> {
    let moments = moments(args.publications);
    let mut expected: BTreeMap<u32, Totals> = BTreeMap::new();
    tell(&format!("{} rounds of {} peers", args.publications, peers.len() - 1));
    let count = peers.len();
    for nth in 1..=args.publications {
        let run = Run::new(nth, args.rows);
        for place in 0..count {
            let turn = (place + usize::try_from(nth).unwrap_or(0)) % count;
            let Some(peer) = peers.get_mut(turn) else { continue };
            peer.write(&run)?;
            peer.keep(nth).await?;
        }
        if let (true, Some(nobody)) = (moments.contains(&nth), peers.first()) {
            expected.insert(nth, nobody.totals()?);
        }
    }
    let store_bytes = peers.first().map_or(Ok(0), Peer::store_bytes)?;
    let mut peers = peers.into_iter();
    let Some(nobody) = peers.next() else { return Err(failed("compare", "there is nobody")) };
    let mut compared = Compared { file_system, store_bytes, peers: Vec::new(), missing };
    for mut peer in peers {
        tell(&format!("old moments of {}", peer.name));
        match open_all(&mut peer, &expected).await {
            Ok(first) => compared.peers.push(figures_of(peer, &nobody, &first).await?),
            Err(problem) if peer.name == peers::ASAT => return Err(problem),
            Err(Problem { detail: why, .. }) => compared.missing.push(Missing { name: peer.name, why }),
        }
    }
    Ok(compared)
}

/// The moments that are opened: the first, the last, and three between them.
fn moments(publications: u32) -> Vec<u32> {
    let mut moments: Vec<u32> = [0, 1, 2, 3, 4].map(|part| (publications * part / 4).max(1)).to_vec();
    moments.dedup();
    moments
}

/// Opens the moments one after another; answers after how many milliseconds a query over each was answered.
async fn open_all(peer: &mut Peer, expected: &BTreeMap<u32, Totals>) -> Result<Vec<f64>, Problem> {
    let mut first = Vec::new();
    for (nth, expected) in expected {
        let opened = peer.open(*nth).await?;
        let copy = open_copy(&opened.uri)?;
        look_up(&copy)?;
        first.push(super::statistics::ms_since(opened.since));
        if totals(&copy)? != *expected {
            return Err(differs(format!("{} gives back another moment than {nth}", peer.name)));
        }
        drop(copy);
        peer.close(opened).await?;
    }
    Ok(first)
}

async fn figures_of(peer: Peer, nobody: &Peer, first: &[f64]) -> Result<PeerFigures, Problem> {
    let pairs: Vec<(f64, f64)> = nobody.wrote_ms.iter().copied().zip(peer.wrote_ms.iter().copied()).collect();
    let kept = super::statistics::float(u64::try_from(peer.kept_ms.len()).unwrap_or(1));
    let (name, version, command) = (peer.name.to_owned(), peer.version.clone(), peer.command.clone());
    let (writer, kept_after_ms) = (Spread::of(&ratios(&pairs)), Spread::of(&peer.kept_ms));
    let ended = peer.end().await?;
    Ok(PeerFigures {
        name,
        version,
        command,
        writer,
        kept_after_ms,
        kept_bytes: ended.kept_bytes,
        first_answer_ms: Spread::of(first),
        processor_ms_each: ended.processor_ms / kept,
        peak_bytes: ended.peak_bytes,
    })
}

fn report(setting: Setting, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("compare", setting, figures)?;
    lines(&mut report, figures, &figures.here);
    let mut peers = figures.here.peers.iter();
    let Some(asat) = peers.next() else { return Ok(report) };
    report.target("the writer's time, to a store of which nothing is kept", 1.02, asat.writer.median);
    let least =
        |of: fn(&PeerFigures) -> f64| peers.clone().map(of).min_by(f64::total_cmp).unwrap_or(f64::MAX);
    let bytes = |peer: &PeerFigures| super::statistics::float(peer.kept_bytes);
    report.target("kept, to the peer that keeps least", 1.0, bytes(asat) / least(bytes));
    let backup = peers.clone().find(|peer| peer.name == peers::BACKUP);
    if let Some(backup) = backup {
        report.target(
            "kept after, to SQLite's backup",
            1.0,
            asat.kept_after_ms.median / backup.kept_after_ms.median,
        );
    }
    let answer = |peer: &PeerFigures| peer.first_answer_ms.median;
    report.target("first answer over an old moment, to the fastest peer", 1.0, answer(asat) / least(answer));
    figures.sharing.iter().for_each(|compared| lines(&mut report, figures, compared));
    Ok(report)
}

fn lines(report: &mut Report, figures: &Figures, compared: &Compared) {
    report.line(
        format!("moments on {}, the store in the end", compared.file_system),
        format!("{}, {}", figures.publications, mb(compared.store_bytes)),
    );
    for peer in &compared.peers {
        let said = format!(
            "writer {}, kept after {} ms, {}, first answer {} ms, {} ms of a processor, {} of memory",
            number(peer.writer.median),
            number(peer.kept_after_ms.median),
            mb(peer.kept_bytes),
            number(peer.first_answer_ms.median),
            number(peer.processor_ms_each),
            mb(peer.peak_bytes)
        );
        report.line(format!("{} ({})", peer.name, peer.version), said);
    }
    for Missing { name, why } in &compared.missing {
        report.line(*name, format!("not here: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moments_are_spread_over_all_rounds() {
        assert_eq!(moments(95), [1, 23, 47, 71, 95]);
        assert_eq!(moments(2), [1, 2]);
        assert_eq!(moments(1), [1]);
    }
}
