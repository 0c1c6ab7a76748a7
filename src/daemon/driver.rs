//! The driver's thread: it hears messages, and has the shell do what follows from them.

mod ports;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use asat_catalogue::{About, Catalogue};
use asat_core::guard::GuardEntry;
use asat_core::{Engine, Problem};
use asat_shell::{Request, SharedEngine, is_republication};

use super::failures::Failures;
use super::handle::{Handle, LastFound};
use super::host::Host;
use super::message::{Listener, Message};
use super::notices::Notices;
use super::performers::Performers;
use crate::metrics::Metrics;
use ports::Ports;

/// So many requests are answered with one commit at most.
const MOST_TOGETHER: usize = 256;

/// The driver with all that it drives. [`Driver::run`] is its thread.
pub(super) struct Driver<H: Host> {
    shell: asat_shell::Driver<Listener>,
    ports: Ports<H>,
    messages: Receiver<Message>,
}

impl<H: Host> Driver<H> {
    /// A driver that has made catalogue and machine agree, and the way to it.
    ///
    /// # Errors
    /// If the machine cannot be looked at or the catalogue cannot commit.
    pub(super) fn start(
        host: Arc<H>,
        engine: Engine,
        catalogue: Catalogue,
        metrics: Arc<Metrics>,
        notices: Notices,
    ) -> Result<(Self, Handle), Problem> {
        let (sender, messages) = channel();
        let path = catalogue.path().to_owned();
        let (recording, failures) = (LastFound::default(), Failures::default());
        let mut ports = Ports {
            performers: Performers::new(Arc::clone(&host), sender.clone()),
            host,
            catalogue,
            recording: recording.clone(),
            failures: failures.clone(),
            metrics: Arc::clone(&metrics),
            notices: notices.clone(),
        };
        let engine = Arc::new(SharedEngine::new(engine));
        let shell = asat_shell::Driver::start(&mut ports, Arc::clone(&engine))?;
        let handle = Handle::new(sender, engine, &path, metrics, notices, (recording, failures));
        Ok((Self { shell, ports, messages }, handle))
    }

    /// Works until it is told to stop, then waits for the effects under way.
    pub(super) fn run(mut self) {
        self.shell.tidy(&mut self.ports);
        let mut next = None;
        loop {
            let wait = self.shell.until_next_tick(&self.ports);
            if wait.is_zero() {
                self.shell.tick(&mut self.ports);
                continue;
            }
            match next.take().map_or_else(|| self.messages.recv_timeout(wait), Ok) {
                Ok(Message::Ask(request)) if is_republication(&request.event) => {
                    next = self.ask_together(request);
                }
                Ok(Message::Ask(request)) => self.shell.ask(&mut self.ports, request),
                Ok(Message::ReadLog(version, limit, reply)) => {
                    let about = version.as_ref().map_or(About::Anything, About::Version);
                    drop(reply.send(self.ports.catalogue.guard_log(about, limit).map_err(Problem::from)));
                }
                Ok(Message::Configure(policy, reply)) => {
                    drop(reply.send(self.shell.configure(&mut self.ports, *policy)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(message) => self.take_in(message),
            }
        }
        self.wind_up();
    }

    /// Effects under way end on their own or because the host was told to stop; what they did is recorded.
    fn wind_up(&mut self) {
        self.shell.close();
        let next = |driver: &Self| match driver.shell.under_way().is_empty() {
            true => driver.messages.try_recv().ok(),
            false => driver.messages.recv().ok(),
        };
        while let Some(message) = next(self) {
            // Whoever asks now hears that the daemon stops, since nobody answers.
            self.take_in(message);
        }
        self.ports.performers.end();
        // SQLite deletes the log of a sound catalogue as it is closed. If it is not sound, the thread that looks at it says so.
        let _ = self.ports.catalogue.end_check();
    }

    /// Takes in what was done, which may be told of after the end, too.
    fn take_in(&mut self, message: Message) {
        match message {
            Message::Finished(effect, outcome) => {
                self.ports.performers.over(effect);
                self.shell.finished(&mut self.ports, effect, outcome);
            }
            Message::Abandoned(effect) => self.shell.abandoned(effect),
            Message::Log(entries) => self.log(&entries),
            Message::Ask(..) | Message::ReadLog(..) | Message::Configure(..) | Message::Stop => {}
        }
    }

    /// Has everybody answered who publishes anew what has not changed and whose requests have come meanwhile. Answers the message after
    /// those, if it was taken already.
    fn ask_together(&mut self, first: Request<Listener>) -> Option<Message> {
        let (mut requests, mut next) = (vec![first], None);
        while requests.len() < MOST_TOGETHER && next.is_none() {
            match self.messages.try_recv() {
                Ok(Message::Ask(request)) if is_republication(&request.event) => requests.push(request),
                Ok(other) => next = Some(other),
                Err(_) => break,
            }
        }
        self.shell.ask_together(&mut self.ports, requests);
        next
    }

    /// Records what the guard did. It goes on if that cannot be: it keeps what it did last in mind too.
    fn log(&mut self, entries: &[GuardEntry]) {
        if let Err(error) = self.ports.catalogue.log_guard(entries) {
            tracing::error!("what the guard did could not be recorded: {}", Problem::from(error));
        }
    }
}

#[cfg(test)]
mod tests;
