//! What is said of what was done: to the log, and to the counters.

use std::collections::BTreeMap;

use asat_core::Host;
use asat_core::audit::By;
use asat_core::event::{Change, EffectId, Event, Remark, Reply};
use asat_core::guard::GuardEntry;
use asat_core::snapshot::Cost;
use asat_core::version::Publication;
use asat_core::{Problem, VersionId};
use tracing::Span;

use super::{Driver, Waiting};
use crate::daemon::message::Heard;
use crate::log;

/// Of more publications of a version that are recorded together, one line tells, and the audit trail says whose request each was. They may
/// be thousands a second, and a journal that is told too much drops lines.
const MOST_LINES: usize = 16;

impl<H: Host> Driver<H> {
    /// Answers somebody, and says who heard it. A publication of which nothing was recorded is counted.
    pub(super) fn answer(&self, asked: Waiting, answer: Result<Reply, Problem>) -> Heard {
        if let Event::Publish(_) | Event::PublishSet(_) = &*asked.event {
            match &answer {
                Err(problem) => self.metrics.failed(problem.code),
                Ok(Reply::Known(number)) => {
                    let engine = self.read();
                    let known = engine.register().publication(*number);
                    known.into_iter().for_each(|known| self.metrics.known(&known.version.store));
                }
                Ok(_) => {}
            }
        }
        (asked.reply)(answer)
    }

    /// Tells of publications that were recorded; what they cost where they `looked` into the store. Of those that were
    /// recorded with others, `asked` says who asked for which.
    pub(super) fn tell_published(&self, changes: &[Change], looked: bool, asked: &BTreeMap<u64, &By>) {
        let mut versions = BTreeMap::<&VersionId, Vec<&Publication>>::new();
        for change in changes {
            if let Change::Published(publication) = change {
                self.metrics.published(publication, looked);
                versions.entry(&publication.version).or_default().push(publication);
            }
        }
        for (version, publications) in versions {
            let count = publications.len();
            if count > MOST_LINES {
                tracing::info!(%version, count, "published {version} again, {count} times");
                continue;
            }
            for publication in publications {
                let by = asked.get(&publication.number);
                by.map_or_else(Span::none, |by| log::caused_by(by)).in_scope(|| tell_one(publication));
            }
        }
    }

    /// Records what the guard did. It goes on where that cannot be: it keeps what it did last in mind too.
    pub(super) fn log(&mut self, entries: &[GuardEntry]) {
        if let Err(error) = self.catalogue.log_guard(entries) {
            tracing::error!("what the guard did could not be recorded: {}", Problem::from(error));
        }
    }

    /// What an effect is done for: the request that caused it, and the version that it is about.
    pub(super) fn cause(&self, effect: EffectId) -> (Span, Option<VersionId>) {
        let engine = self.read();
        let intent = engine.register().intent(effect);
        let about = intent.and_then(|intent| intent.effect.version().cloned());
        (intent.map_or_else(Span::none, |intent| log::caused_by(&intent.by)), about)
    }
}

/// What an administrator should know.
pub(super) fn tell(Remark { version, text }: &Remark) {
    tracing::info!(version = version.as_ref().map(display), "{text}");
}

/// What an administrator reads of a publication.
fn tell_one(publication: &Publication) {
    let Publication { version, reused, cost, elapsed_us, .. } = publication;
    let Cost { writer_blocked_us, hold, snapshot_us } = cost;
    let (label, hold) = (publication.attributes.label.as_deref(), hold.text());
    let set = publication.of_set.as_ref().map(|of_set| of_set.set.as_str());
    tracing::info!(
        %version, label, set, reused, writer_blocked_us, hold, snapshot_us, elapsed_us, "published {version}"
    );
}
