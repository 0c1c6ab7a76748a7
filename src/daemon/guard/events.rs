//! Events of the device-mapper: they wake the guard before its next look is due.
//!
//! It does not rely on them: the kernel tells of a classic snapshot when that is lost already, and of a pool when it is
//! too late to be calm about it. They shorten the time until that is seen, and until somebody knows.

use std::io::{self, PipeWriter};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use asat_core::Problem;
use asat_host::dm::Events;

use super::Word;

/// The shortest time between two of them that are told. A pool short of metadata sends dozens in a second.
const BETWEEN: Duration = Duration::from_millis(100);

/// A thread that waits for events. It ends with this.
pub(super) struct Hearing {
    /// Closed when this goes, which ends the wait.
    _end: PipeWriter,
}

impl Hearing {
    /// Begins to tell the guard of events, where the kernel tells of any.
    ///
    /// # Errors
    /// Where the machine gives no thread or no pipe.
    pub(super) fn start(words: Sender<Word>) -> io::Result<Option<Self>> {
        let events = match Events::open() {
            Ok(events) => events,
            Err(error) => {
                tracing::info!("the guard looks at its own times only: {error}");
                return Ok(None);
            }
        };
        let (ended, end) = io::pipe()?;
        let hear = move || loop {
            match events.wait(&ended) {
                Ok(true) if words.send(Word::Happened).is_ok() => thread::sleep(BETWEEN),
                Ok(_) => return,
                Err(error) => {
                    return tracing::error!(
                        "the guard looks at its own times only: {}",
                        Problem::from(error)
                    );
                }
            }
        };
        thread::Builder::new().name("guard-events".to_owned()).spawn(hear)?;
        Ok(Some(Self { _end: end }))
    }
}
