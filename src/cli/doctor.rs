//! `doctor`: what the doctor found, printed.

use std::fmt::Write as _;
use std::time::Duration;

use asat_core::{Code, Problem};
use serde::de::DeserializeOwned;

use super::args::DoctorArgs;
use super::output::{Failure, Output};
use crate::doctor::{self, Finding, Group, Report};
use crate::text::clean;
use asat_client::{Client, Request};
use asat_wire::{Clock, Health};

/// How long a daemon may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn doctor(args: &DoctorArgs, output: &Output) -> Result<(), Failure> {
    let report = doctor::examine(args.config.as_deref());
    let daemon = report.answering().map(str::to_owned);
    let said = daemon.map(|address| [what_is_harmed(&address), whether_clock_is_doubted(&address)]);
    let report = report.with(said.into_iter().flatten().flatten());
    output.answer(&report, text)?;
    if report.ok {
        return Ok(());
    }
    if report.is_harm_alone() {
        return Err(Failure::DamageFound);
    }
    let detail = format!("asat cannot work here as configured: {} found", problems(&report));
    Err(Problem::new(Code::Configuration, detail, "do what the lines that begin with `problem` say").into())
}

/// What a daemon that runs says is lost or damaged: its catalogue cannot be looked into meanwhile. That it does not answer is
/// found by others.
fn what_is_harmed(address: &str) -> Option<Finding> {
    let health: Health = ask(address, &Request::unversioned("healthz"))?;
    let trouble = health.trouble.filter(|trouble| Code::from_text(&trouble.code) == Some(Code::Damaged))?;
    Some(Finding::harm(&Problem::new(Code::Damaged, trouble.detail, trouble.hint)))
}

/// Whether a daemon that runs doubts the machine's clock.
fn whether_clock_is_doubted(address: &str) -> Option<Finding> {
    let clock: Clock = ask(address, &Request::get(&["clock"]))?;
    clock.doubted.then(|| {
        let Clock { believed_at, clock_at, .. } = clock;
        Finding::clock(format!(
            "the daemon doubts the machine's clock ({clock_at:.0}), and uses {believed_at:.0}"
        ))
    })
}

fn ask<T: DeserializeOwned>(address: &str, request: &Request) -> Option<T> {
    let client = Client::new(&address.parse().ok()?, None, Some(PATIENCE));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(client.ask(request)).ok()
}

fn problems(report: &Report) -> String {
    crate::text::counted(count(report.problems), "problem")
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for finding in &report.findings {
        let heading = heading(finding);
        if heading != last {
            let gap = if last.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{heading}");
            last = heading;
        }
        let _ = writeln!(text, "  {:<7}  {}", finding.level.text(), clean(&finding.what));
        if let Some(advice) = finding.advice.as_deref().filter(|advice| !advice.is_empty()) {
            let _ = writeln!(text, "           hint: {}", clean(advice));
        }
    }
    let warnings = crate::text::counted(count(report.warnings), "warning");
    let _ = writeln!(text, "\n{}, {warnings}", problems(report));
    text
}

fn heading(finding: &Finding) -> String {
    match finding.group {
        Group::Machine => "Machine".to_owned(),
        Group::Configuration => "Configuration".to_owned(),
        Group::Store => format!("Store {}", clean(finding.subject.as_deref().unwrap_or_default())),
        Group::State => "State folder".to_owned(),
        Group::Listen => "Clients".to_owned(),
        Group::Guard => "Guard".to_owned(),
        Group::Remote => "Remote".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn findings_stand_under_their_headings() {
        let finding = |group, subject: Option<&str>, level, what: &str, advice: Option<&str>| Finding {
            group,
            subject: subject.map(str::to_owned),
            check: "x",
            level,
            what: what.to_owned(),
            advice: advice.map(str::to_owned),
        };
        let findings = vec![
            finding(Group::Machine, None, Level::Ok, "it runs", None),
            finding(Group::Store, Some("a"), Level::Ok, "it is there", None),
            finding(Group::Store, Some("a"), Level::Note, "it\u{1b} is small", Some("wait")),
            finding(Group::Store, Some("b"), Level::Problem, "it is a folder", Some("name a file")),
        ];
        let report = Report { ok: false, problems: 1, warnings: 0, findings };
        let expected = "\
Machine
  ok       it runs

Store a
  ok       it is there
  note     it\\u{1b} is small
           hint: wait

Store b
  problem  it is a folder
           hint: name a file

1 problem, 0 warnings
";
        assert_eq!(text(&report), expected);
    }
}
