//! What was measured on volumes, and the report of it.

use asat_core::Problem;
use serde::Serialize;

use super::{Opening, Three};
use crate::args::ValuationArgs;
use crate::report::{Report, mb, ms, number};
use crate::setting::Setting;
use crate::statistics::{Paired, Spread, float, over};
use crate::valuation::TOLD;
use crate::workload::Totals;
use asat_wire::Published;

/// What the runs gave.
#[derive(Default)]
pub(super) struct Measured {
    /// Milliseconds of each run's transaction.
    pub(super) runs: Vec<Three<f64>>,
    /// The answers, and how many milliseconds the client waited for each.
    pub(super) published: Vec<(Published, f64)>,
    /// From each publication until its version was archived and its snapshot dropped.
    pub(super) settled_ms: Vec<f64>,
    pub(super) plain_lvcreate_ms: Vec<f64>,
    /// Bytes that were written to each disk.
    pub(super) device_bytes: Three<u64>,
    pub(super) plain_kept_bytes: u64,
    /// Of each version, when it was published.
    pub(super) totals: Vec<(String, Totals)>,
}

#[derive(Serialize)]
pub(super) struct Figures {
    publications: u32,
    rows: u32,
    journal_mode: &'static str,
    backend: &'static str,
    back_to_back: bool,
    keep_snapshots: u32,
    /// Milliseconds of a run's transaction on the store that nobody versions, and on the one that asat publishes.
    asat: Paired,
    /// The same, and on the one with plain snapshots.
    plain: Paired,
    writer_around: Vec<Around>,
    asat_device_bytes: u64,
    plain_device_bytes: u64,
    unversioned_device_bytes: u64,
    asat_device_bytes_ratio: f64,
    plain_device_bytes_ratio: f64,
    /// As the client saw it.
    publish_ms: Spread,
    /// As the daemon said.
    publish_elapsed_ms: Spread,
    /// The part of a publication that was LVM's.
    lvcreate_ms: Spread,
    /// The rest of it.
    own_ms: Spread,
    plain_lvcreate_ms: Spread,
    /// Absent where the runs did not wait.
    settled_ms: Option<Spread>,
    writer_blocked_ms: Spread,
    /// How many publications kept commits waiting.
    writer_blocked_times: usize,
    kept_bytes: u64,
    plain_kept_bytes: u64,
    peak_rss_bytes: u64,
    openings: Vec<Opening>,
}

/// The writer's slow-downs around one publication.
#[derive(Serialize)]
struct Around {
    publication: usize,
    asat: f64,
    plain: f64,
}

impl Figures {
    /// Sums up what was measured.
    pub(super) fn new(
        args: &ValuationArgs,
        measured: &Measured,
        kept_bytes: u64,
        peak_rss_bytes: u64,
        openings: Vec<Opening>,
    ) -> Self {
        let pairs = |with: fn(&Three<f64>) -> f64| -> Vec<(f64, f64)> {
            measured.runs.iter().map(|run| (run.none, with(run))).collect()
        };
        let (asat, plain) = (pairs(|run| run.asat), pairs(|run| run.plain));
        let around = |publication| Around {
            publication,
            asat: Paired::around(&asat, publication),
            plain: Paired::around(&plain, publication),
        };
        // The last is told even where it is not among those.
        let mut told: Vec<usize> = TOLD.into_iter().filter(|&nth| nth < measured.runs.len()).collect();
        told.push(measured.runs.len());
        let published = &measured.published;
        let each = |pick: fn(&Published) -> f64| -> Vec<f64> {
            published.iter().map(|(published, _)| pick(published)).collect()
        };
        let waited_ms: Vec<f64> = published.iter().map(|(_, waited_ms)| *waited_ms).collect();
        let blocked_ms = each(|published| published.writer_blocked_ms);
        let bytes = &measured.device_bytes;
        let settled_ms = &measured.settled_ms;
        Self {
            publications: args.iterations,
            rows: args.rows,
            journal_mode: args.journal_mode.text(),
            backend: args.backend.text(),
            back_to_back: args.volumes.back_to_back,
            keep_snapshots: args.volumes.keep_snapshots,
            asat: Paired::of(&asat),
            plain: Paired::of(&plain),
            writer_around: told.into_iter().map(around).collect(),
            asat_device_bytes: bytes.asat,
            plain_device_bytes: bytes.plain,
            unversioned_device_bytes: bytes.none,
            asat_device_bytes_ratio: over(float(bytes.asat), float(bytes.none)),
            plain_device_bytes_ratio: over(float(bytes.plain), float(bytes.none)),
            publish_ms: Spread::of(&waited_ms),
            publish_elapsed_ms: Spread::of(&each(|published| published.elapsed_ms)),
            lvcreate_ms: Spread::of(&each(|published| published.snapshot_ms)),
            own_ms: Spread::of(&each(|published| published.elapsed_ms - published.snapshot_ms)),
            plain_lvcreate_ms: Spread::of(&measured.plain_lvcreate_ms),
            settled_ms: (!settled_ms.is_empty()).then(|| Spread::of(settled_ms)),
            writer_blocked_times: blocked_ms.iter().filter(|&&blocked_ms| blocked_ms > 0.0).count(),
            writer_blocked_ms: Spread::of(&blocked_ms),
            kept_bytes,
            plain_kept_bytes: measured.plain_kept_bytes,
            peak_rss_bytes,
            openings,
        }
    }

    /// The report, measured in this setting.
    pub(super) fn report(&self, setting: Setting) -> Result<Report, Problem> {
        let mut report = Report::new("valuation", setting, self)?;
        self.tell_workload(&mut report);
        self.tell_writer(&mut report);
        self.tell_publications(&mut report);
        if let Some(last) = self.writer_around.last() {
            report.target(&format!("writer slow-down at publication {}", last.publication), 1.1, last.asat);
        }
        report.target(
            "bytes written to the disk, to the unversioned store's",
            1.6,
            self.asat_device_bytes_ratio,
        );
        report.target("publish without lvcreate, median ms", 30.0, self.own_ms.median);
        Ok(report)
    }

    fn tell_workload(&self, report: &mut Report) {
        let Self { publications, rows, journal_mode, backend, keep_snapshots, .. } = self;
        let runs = format!("{publications} publications, {rows} inserts and updates each, {journal_mode}");
        report.line("workload", runs);
        let pace = if self.back_to_back { "back to back" } else { "each run after the last one's archive" };
        report.line("backend", format!("{backend}, keeping {keep_snapshots} snapshots, {pace}"));
    }

    fn tell_writer(&self, report: &mut Report) {
        let both = |asat, plain| format!("asat {}, plain snapshots {}", number(asat), number(plain));
        let (asat, plain) = (&self.asat, &self.plain);
        report.line("writer slow-down, all runs", both(asat.ratio_of_sums, plain.ratio_of_sums));
        report.line("  median of the runs", both(asat.ratio.median, plain.ratio.median));
        for Around { publication, asat, plain } in &self.writer_around {
            report.line(format!("  around publication {publication}"), both(*asat, *plain));
        }
        report.line("run, unversioned", ms(&asat.without_ms));
        report.line("run with asat", ms(&asat.with_ms));
        report.line("run with plain snapshots", ms(&plain.with_ms));
        let ratios = both(self.asat_device_bytes_ratio, self.plain_device_bytes_ratio);
        report.line("bytes written to the disk, to the unversioned store's", ratios);
        let (asat, plain) = (mb(self.asat_device_bytes), mb(self.plain_device_bytes));
        let none = mb(self.unversioned_device_bytes);
        report.line("  in all", format!("asat {asat}, plain snapshots {plain}, unversioned {none}"));
    }

    fn tell_publications(&self, report: &mut Report) {
        let last = |spread: &Spread| format!("{}, last {}", ms(spread), number(spread.last));
        report.line("publish, for the client", last(&self.publish_ms));
        report.line("publish, for the daemon", last(&self.publish_elapsed_ms));
        report.line("  of which lvcreate", last(&self.lvcreate_ms));
        report.line("  without lvcreate", last(&self.own_ms));
        report.line("lvcreate of a plain snapshot", last(&self.plain_lvcreate_ms));
        if let Some(settled_ms) = &self.settled_ms {
            report.line("archived and let go, after that", last(settled_ms));
        }
        let Spread { median, max, .. } = &self.writer_blocked_ms;
        let (times, all) = (self.writer_blocked_times, self.publications);
        let blocked = format!("median {} ms, max {}", number(*median), number(*max));
        report.line("writer blocked", format!("{blocked}; in {times} of {all} publications"));
        report.line("kept in the archive", mb(self.kept_bytes));
        report.line("kept by plain snapshots", mb(self.plain_kept_bytes));
        report.line("peak memory of the daemon", mb(self.peak_rss_bytes));
        for opening in &self.openings {
            report.line(format!("{} ({})", opening.version, mb(opening.size_bytes)), opening.text());
        }
    }
}
