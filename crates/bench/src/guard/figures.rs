//! What was measured of the guard, and the report of it.

use asat_core::Problem;
use serde::Serialize;

use super::flood::Extensions;
use super::idle::{Both, Idle};
use crate::args::GuardArgs;
use crate::report::{Report, ms, number};
use crate::setting::Setting;
use crate::statistics::{Spread, float};

#[derive(Serialize)]
pub(super) struct Figures {
    thin: bool,
    snapshots: u32,
    /// Of the first and of the last tenth of the publications that made them.
    first_publish_ms: Spread,
    last_publish_ms: Spread,
    idle: Idle,
    idle_at_the_shortest_tick: Idle,
    /// Of classic snapshots.
    #[serde(flatten)]
    extended: Option<Extended>,
}

/// What was measured beside a writer at full speed.
#[derive(Serialize)]
struct Extended {
    floods: u32,
    extensions: usize,
    /// Milliseconds from the beginning of each extension to its end.
    extension_ms: Spread,
    /// Milliseconds from the look that found it necessary to the kernel's new size, without those of LVM's command.
    added_ms: Spread,
    holds: u64,
    held_ms: u64,
    longest_held_ms: u64,
}

impl Figures {
    /// Sums up what was measured.
    pub(super) fn new(args: &GuardArgs, extensions: Option<&Extensions>, idle: Both) -> Self {
        let Both { usual, shortest, published: (first_publish_ms, last_publish_ms) } = idle;
        Self {
            thin: args.thin,
            snapshots: args.snapshots,
            first_publish_ms,
            last_publish_ms,
            idle: usual,
            idle_at_the_shortest_tick: shortest,
            extended: extensions.map(Extended::new),
        }
    }

    /// The report, measured in this setting.
    pub(super) fn report(&self, setting: Setting) -> Result<Report, Problem> {
        let mut report = Report::new("guard", setting, self)?;
        let kind = if self.thin { "thin" } else { "classic" };
        report.line(format!("{kind} snapshots"), self.snapshots.to_string());
        report.line("  publish, the first tenth", ms(&self.first_publish_ms));
        report.line("  publish, the last tenth", ms(&self.last_publish_ms));
        report.line("the idle guard, nothing written", String::new());
        tell_idle(&mut report, &self.idle);
        tell_idle(&mut report, &self.idle_at_the_shortest_tick);
        report.target("idle guard, % of one core", 0.5, self.idle.processor_percent);
        report.target("the same at the shortest tick", 0.5, self.idle_at_the_shortest_tick.processor_percent);
        if let Some(extended) = &self.extended {
            extended.tell(&mut report);
        }
        Ok(report)
    }
}

impl Extended {
    fn new(extensions: &Extensions) -> Self {
        Self {
            floods: extensions.floods,
            extensions: extensions.added_ms.len(),
            extension_ms: Spread::of(&extensions.took_ms),
            added_ms: Spread::of(&extensions.added_ms),
            holds: extensions.holds,
            held_ms: extensions.held_ms,
            longest_held_ms: extensions.longest_held_ms,
        }
    }

    fn tell(&self, report: &mut Report) {
        report.line(
            "extensions while a writer is at full speed",
            format!("{}, in {} floods", self.extensions, self.floods),
        );
        report.line("  each", ms(&self.extension_ms));
        report.line("  from the look to the new size, without LVM's command", ms(&self.added_ms));
        let held = format!(
            "{} times, {} ms in all, {} at the longest",
            self.holds, self.held_ms, self.longest_held_ms
        );
        report.line("the writer was held", held);
        report.target("added to an extension, median ms", 50.0, self.added_ms.median);
        report.target("added to an extension, longest ms", 50.0, self.added_ms.max);
        report.target("longest hold, ms", 2000.0, float(self.longest_held_ms));
    }
}

fn tell_idle(report: &mut Report, idle: &Idle) {
    let Idle { tick_ms, looks, glances, looking_percent, processor_percent, look_us, .. } = idle;
    let cost =
        format!("{} % of one core, {} % in looks", number(*processor_percent), number(*looking_percent));
    report.line(format!("  with ticks of {tick_ms} ms"), cost);
    report.line("", format!("{looks} looks and {glances} glances, {} us each", number(*look_us)));
}
