//! What the shell works with in the daemon: the catalogue, the machine with the threads that perform effects, and whoever listens.

use std::sync::Arc;

use asat_catalogue::Catalogue;
use asat_core::clock::{Anchor, Reading};
use asat_core::event::{Change, Effect, Event, Intent, Remark, Reply, Survey};
use asat_core::recorder::Commit;
use asat_core::register::Register;
use asat_core::version::Publication;
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_shell::{Audience, Executor, Heard, Records, SharedEngine};
use jiff::Timestamp;

use crate::daemon::handle::LastFound;
use crate::daemon::host::Host;
use crate::daemon::message::Listener;
use crate::daemon::performers::Performers;
use crate::daemon::{Failures, Notice, Notices};
use crate::metrics::Metrics;

/// The daemon's ports.
pub(super) struct Ports<H: Host> {
    pub(super) host: Arc<H>,
    pub(super) performers: Performers<H>,
    pub(super) catalogue: Catalogue,
    /// Whether anything can be recorded, for others to see.
    pub(super) recording: LastFound,
    /// Why stores could not be published, for others to see.
    pub(super) failures: Failures,
    pub(super) metrics: Arc<Metrics>,
    pub(super) notices: Notices,
}

impl<H: Host> Records for Ports<H> {
    fn record(&mut self, changes: &[Change]) -> Result<(), Problem> {
        let recorded = self.catalogue.record(changes);
        if recorded.is_err() || self.recording.problem().is_some() {
            self.check();
        }
        Ok(recorded?)
    }

    fn commit(&self) -> Commit {
        self.catalogue.newest_commit()
    }

    fn check(&mut self) {
        let problem = self.catalogue.check().err().map(Problem::from);
        if self.recording.set(problem.clone()) {
            match problem {
                Some(problem) => tracing::error!(code = problem.code.text().0, "{problem}"),
                None => tracing::info!("the catalogue is in its place again, and is written again"),
            }
        }
        if let Some(error) = self.catalogue.take_unnamed() {
            let problem = Problem::from(error);
            tracing::error!("the newest commit is durable, and damage to it would not be noticed: {problem}");
        }
    }

    fn written_at(&self) -> Option<Timestamp> {
        self.catalogue.written_at()
    }
}

impl<H: Host> Executor for Ports<H> {
    fn now(&self) -> Timestamp {
        self.host.now()
    }

    fn clocks(&self) -> Reading {
        self.host.clocks()
    }

    fn go_by(&mut self, anchor: &Anchor) {
        self.host.go_by(anchor);
    }

    fn survey(&self, register: &Register) -> Result<Survey, Problem> {
        self.host.survey(register)
    }

    fn archive_bytes(&self, store: &StoreName) -> u64 {
        self.host.archive_bytes(store)
    }

    fn held(&self, versions: &[VersionId], for_space: bool) -> Vec<VersionId> {
        self.host.held(versions, for_space)
    }

    fn begin(&mut self, intent: Intent) -> Result<(), Problem> {
        self.performers.begin(intent).map_err(|error| {
            let detail = format!("the machine gives no thread: {error}");
            Problem::new(Code::Internal, detail, "check the limits of the service")
        })
    }

    fn undo(&mut self, effect: &Effect) -> Result<(), Problem> {
        self.host.undo(effect)
    }
}

impl<H: Host> Audience for Ports<H> {
    type Listener = Listener;

    fn answer(
        &mut self,
        engine: &SharedEngine,
        event: &Event,
        listener: Listener,
        answer: Result<Reply, Problem>,
    ) -> Heard {
        self.failures.note(&engine.read(), event, &answer, self.host.now());
        // A publication of which nothing was recorded is counted, too.
        if let Event::Publish(_) | Event::PublishSet(_) = event {
            match &answer {
                Err(problem) => self.metrics.failed(problem.code),
                Ok(Reply::Known(number)) => {
                    let engine = engine.read();
                    let known = engine.register().publication(*number);
                    known.into_iter().for_each(|known| self.metrics.known(&known.version.store));
                }
                Ok(_) => {}
            }
        }
        listener(answer)
    }

    fn remark(&mut self, Remark { version, text }: &Remark) {
        tracing::info!(version = version.as_ref().map(display), "{text}");
    }

    fn published(&mut self, publication: &Publication, looked: bool) {
        self.metrics.published(publication, looked);
    }

    fn committed(&mut self, changes: Vec<Change>) {
        // Nobody has to listen.
        self.notices.send(Notice::Changed(Arc::new(changes)));
    }
}
