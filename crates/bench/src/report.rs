//! The report of a benchmark: figures for people and for programs, beside what asat promises.

use asat_core::Problem;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::Value;

use super::failed;
use super::setting::Setting;
use super::statistics::Spread;

/// What a benchmark measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    bench: String,
    setting: Setting,
    figures: Value,
    targets: Vec<Target>,
    #[serde(skip)]
    lines: Vec<[String; 2]>,
}

/// A promise, and what was measured.
#[derive(Debug, Serialize)]
struct Target {
    what: String,
    #[serde(flatten)]
    bound: Bound,
    measured: f64,
    met: bool,
}

/// What is promised.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Report {
    /// The report of one benchmark with all its figures.
    pub(super) fn new(bench: &str, setting: Setting, figures: &impl Serialize) -> Result<Self, Problem> {
        let figures = serde_json::to_value(figures).map_err(|error| failed("write the figures", error))?;
        Ok(Self { bench: bench.to_owned(), setting, figures, targets: Vec::new(), lines: Vec::new() })
    }

    /// Shows a figure to people.
    pub(super) fn line(&mut self, what: impl Into<String>, value: impl Into<String>) {
        self.lines.push([what.into(), value.into()]);
    }

    /// Holds a figure against what is promised.
    pub(super) fn target(&mut self, what: &str, at_most: f64, measured: f64) {
        let (bound, met) = (Bound::AtMost(at_most), measured <= at_most);
        self.targets.push(Target { what: what.to_owned(), bound, measured, met });
    }

    /// The same where more is better.
    pub(super) fn target_at_least(&mut self, what: &str, at_least: f64, measured: f64) {
        let (bound, met) = (Bound::AtLeast(at_least), measured >= at_least);
        self.targets.push(Target { what: what.to_owned(), bound, measured, met });
    }

    /// The report for people.
    pub(crate) fn text(&self) -> String {
        let figures = table(["FIGURE", "MEASURED"], self.lines.iter().cloned());
        let targets = self.targets.iter().map(|target| {
            let Target { what, bound, measured, met } = target;
            let bound = match bound {
                Bound::AtMost(most) => format!("at most {most}"),
                Bound::AtLeast(least) => format!("at least {least}"),
            };
            [what.clone(), bound, number(*measured), if *met { "met" } else { "MISSED" }.to_owned()]
        });
        let targets = table(["TARGET", "BOUND", "MEASURED", ""], targets);
        format!("asat-bench {}\n{}\n\n{figures}\n\n{targets}\n", self.bench, self.setting.text())
    }
}

fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    rows.for_each(|row| {
        table.add_row(row);
    });
    for (nth, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if N > 2 && (nth == 1 || nth == 2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A number with as many digits as are worth reading.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Milliseconds and how they are spread.
pub(super) fn ms(spread: &Spread) -> String {
    let Spread { median, p95, max, .. } = spread;
    format!("median {} ms, p95 {}, max {}", number(*median), number(*p95), number(*max))
}

/// Bytes in millions, as disks are sold.
pub(super) fn mb(bytes: u64) -> String {
    format!("{} MB", number(super::statistics::float(bytes) / 1e6))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_report_for_people_and_programs() {
        let figures = serde_json::json!({ "x": 1 });
        let mut report = Report::new("large", Setting::of(Path::new("/")), &figures).unwrap();
        report.line("writer", "1.01");
        report.target("slow-down", 1.05, 1.013);
        report.target_at_least("answers", 20_000.0, 7.0);
        let text = report.text();
        for line in [
            "writer  1.01",
            "slow-down    at most 1.05     1.013  met",
            "answers    at least 20000     7.000  MISSED",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["figures"]["x"], &json["targets"][1]["met"]), (&1.into(), &false.into()));
    }
}
