//! The service manager's watchdog.

use std::time::{Duration, Instant};

/// The service manager's watchdog: it restarts a daemon whose guard does not look any more.
pub(super) struct Watchdog {
    every: Option<Duration>,
    fed: Instant,
}

impl Watchdog {
    pub(super) fn new() -> Self {
        let asked = sd_notify::watchdog_enabled();
        Self { every: asked.map(|within| within / 3), fed: Instant::now() }
    }

    pub(super) fn feed(&mut self) {
        if self.every.is_some_and(|every| self.fed.elapsed() >= every) {
            self.fed = Instant::now();
            // Without a service manager there is nobody to tell.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }
}
