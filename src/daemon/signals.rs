//! What a service manager, or a person, tells the daemon by signals.

use asat_core::Problem;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failed;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// To stop.
    Stop,
    /// To read the configuration again.
    Reload,
}

/// The signals that the daemon heeds.
pub(super) struct Signals {
    hangup: Signal,
    term: Signal,
    int: Signal,
}

/// SIGHUP, which ends the daemon no more from then on. It may come before the daemon is ready, and is heeded then.
///
/// # Errors
/// Where the system refuses.
pub(super) fn hangup() -> Result<Signal, Problem> {
    listen(SignalKind::hangup(), "SIGHUP")
}

impl Signals {
    /// Listens for SIGTERM and SIGINT too. Before that they end the daemon at once, as a crash would.
    ///
    /// # Errors
    /// Where the system refuses.
    pub(super) fn listen(hangup: Signal) -> Result<Self, Problem> {
        let term = listen(SignalKind::terminate(), "SIGTERM")?;
        Ok(Self { hangup, term, int: listen(SignalKind::interrupt(), "SIGINT")? })
    }

    /// Waits for the next signal. Several reloads that are asked for meanwhile are one.
    pub(super) async fn next(&mut self) -> Wanted {
        tokio::select! {
            biased;
            _ = self.term.recv() => tracing::info!("stopping on SIGTERM"),
            _ = self.int.recv() => tracing::info!("stopping on SIGINT"),
            _ = self.hangup.recv() => return Wanted::Reload,
        }
        Wanted::Stop
    }
}

fn listen(kind: SignalKind, name: &str) -> Result<Signal, Problem> {
    signal(kind).map_err(|error| failed(&format!("listen for {name}"), &error))
}
