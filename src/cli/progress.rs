//! Progress: a bar on the terminal while the daemon works.
//!
//! The daemon tells how far it is on its event stream, which a second connection follows. All this is for
//! people who wait: without a terminal, or without that stream, the command does the same and shows less.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::time::Duration;

use asat_core::Problem;
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;

use crate::text::clean;
use asat_client::sse::Parser;
use asat_client::{Client, Request};
use asat_wire::Progress;

/// What is done sooner needs no bar.
const WORTH_A_BAR: Duration = Duration::from_millis(300);
const REDRAW: Duration = Duration::from_millis(120);

const WAITING: &str = "{spinner} {msg}, {elapsed}";
const PAGES: &str = "{spinner} {msg} [{bar:30}] {pos}/{len} pages, {eta} left";
const BYTES: &str = "{msg} [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
const BYTES_SO_FAR: &str = "{msg} {bytes}, {bytes_per_sec}";

/// Makes bars, or none where nobody would see them.
pub(super) struct Bars<'a> {
    client: &'a Client,
    shown: bool,
}

impl<'a> Bars<'a> {
    /// Shows bars where standard error is a terminal and the answer is for people.
    pub(super) fn new(client: &'a Client, json: bool) -> Self {
        Self { client, shown: !json && std::io::stderr().is_terminal() }
    }

    /// Waits for `work`, and meanwhile shows the progress of the versions and stores that `concerns` picks.
    pub(super) async fn during<T>(
        &self,
        what: &str,
        concerns: impl Fn(&str) -> bool,
        work: impl Future<Output = T>,
    ) -> T {
        if !self.shown {
            return work.await;
        }
        let watch = async {
            tokio::time::sleep(WORTH_A_BAR).await;
            let bar = Cleared(spinner(what));
            follow(self.client, &bar.0, concerns).await;
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            result = work => result,
            never = watch => match never {},
        }
    }

    /// Waits for an answer whose progress is not told, and meanwhile shows for how long.
    pub(super) async fn ask<T>(&self, what: &str, request: &Request) -> Result<T, Problem>
    where
        T: DeserializeOwned,
    {
        self.during(what, |_| false, self.client.ask(request)).await
    }

    /// A bar that counts bytes.
    pub(super) fn bytes(&self, what: &str, total: Option<u64>) -> Cleared {
        let bar = if self.shown { ProgressBar::new(total.unwrap_or(0)) } else { ProgressBar::hidden() };
        bar.set_style(style(if total.is_some() { BYTES } else { BYTES_SO_FAR }));
        bar.set_message(clean(what));
        Cleared(bar)
    }
}

/// A bar that leaves no trace, however the work under it ends.
pub(super) struct Cleared(ProgressBar);

impl Cleared {
    /// So much more is done.
    pub(super) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows what the event stream says, as long as it says something.
async fn follow(client: &Client, bar: &ProgressBar, concerns: impl Fn(&str) -> bool) {
    let Ok(mut stream) = client.stream(&Request::get(&["events"])).await else { return };
    let mut parser = Parser::default();
    while let Ok(Some(piece)) = stream.next().await {
        let Ok(events) = parser.push(&piece) else { return };
        for event in events.iter().filter(|event| event.name == "progress") {
            if let Ok(progress) = serde_json::from_str::<Progress>(&event.data)
                && concerns(&progress.subject)
            {
                show(bar, &progress);
            }
        }
    }
}

fn show(bar: &ProgressBar, progress: &Progress) {
    let doing = message(progress);
    if bar.length() != Some(progress.total) || bar.message() != doing {
        bar.set_style(style(match progress.unit.as_str() {
            _ if progress.total == 0 => WAITING,
            "bytes" => BYTES,
            _ => PAGES,
        }));
        bar.set_position(0);
        bar.set_length(progress.total);
        bar.reset_eta();
    }
    bar.set_message(doing);
    bar.set_position(progress.done.min(progress.total));
}

fn message(progress: &Progress) -> String {
    let doing = match progress.phase.as_str() {
        "cut" | "archive" => "reading the pages of",
        "store" => "storing what changed in",
        "sync" => "waiting for the disk to have",
        "copy" => "copying",
        "restore" => "restoring",
        "verify" => "verifying",
        "repair" => "repairing what is kept of",
        other => other,
    };
    clean(&format!("{doing} {}", progress.subject))
}

fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_style(style(WAITING));
    bar.set_message(clean(what));
    bar.enable_steady_tick(REDRAW);
    bar
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants, and a test reads them all.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [WAITING, PAGES, BYTES, BYTES_SO_FAR] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_bar_says_what_is_done() {
        let bar = ProgressBar::hidden();
        let (subject, phase, unit) = ("report@13\u{1b}".into(), "cut".into(), "pages".into());
        let progress = Progress { subject, phase, unit, done: 7, total: 5 };
        show(&bar, &progress);
        assert_eq!((bar.position(), bar.length()), (5, Some(5)));
        assert_eq!(bar.message(), "reading the pages of report@13\\u{1b}");
        // What was read is stored: that begins anew, though there may be as much of it.
        let (subject, unit) = ("report@13".to_owned(), "pages".to_owned());
        show(
            &bar,
            &Progress {
                subject: subject.clone(),
                phase: "store".into(),
                unit: unit.clone(),
                done: 0,
                total: 5,
            },
        );
        assert_eq!((bar.position(), bar.length()), (0, Some(5)));
        assert_eq!(bar.message(), "storing what changed in report@13");
        show(&bar, &Progress { subject, phase: "sync".into(), unit, done: 0, total: 0 });
        assert_eq!(bar.message(), "waiting for the disk to have report@13");
    }
}
