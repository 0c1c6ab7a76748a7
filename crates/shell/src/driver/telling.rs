//! What is said of what was done.

use std::collections::BTreeMap;

use asat_core::event::{Change, EffectId, Reply};
use asat_core::snapshot::Cost;
use asat_core::version::Publication;
use asat_core::{By, Problem, VersionId};
use tracing::Span;

use super::{Driver, Request};
use crate::{Heard, Ports, caused_by};

/// Of more publications of a version that are recorded together, one line tells, and the audit trail says whose request each was. They may
/// be thousands a second, and a journal that is told too much drops lines.
const MOST_LINES: usize = 16;

impl<L> Driver<L> {
    /// Answers somebody, and says who heard it.
    pub(super) fn answer<P: Ports<Listener = L>>(
        &self,
        ports: &mut P,
        request: Request<L>,
        answer: Result<Reply, Problem>,
    ) -> Heard {
        ports.answer(&self.engine, &request.event, request.listener, answer)
    }

    /// Tells of publications that were recorded; `looked` if their stores were looked into for them. Of those that were
    /// recorded with others, `asked` says who asked for which.
    pub(super) fn tell_published<P: Ports>(
        &self,
        ports: &mut P,
        changes: &[Change],
        looked: bool,
        asked: &BTreeMap<u64, &By>,
    ) {
        let mut versions = BTreeMap::<&VersionId, Vec<&Publication>>::new();
        for change in changes {
            if let Change::Published(publication) = change {
                ports.published(publication, looked);
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
                by.map_or_else(Span::none, |by| caused_by(by)).in_scope(|| tell_one(publication));
            }
        }
    }

    /// What an effect is done for: the request that caused it, and the version that it is about.
    pub(super) fn cause(&self, effect: EffectId) -> (Span, Option<VersionId>) {
        let engine = self.engine.read();
        let intent = engine.register().intent(effect);
        let about = intent.and_then(|intent| intent.effect.version().cloned());
        (intent.map_or_else(Span::none, |intent| caused_by(&intent.by)), about)
    }
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
