//! Whether anything can be recorded.

use asat_core::{Host, Problem};

use super::Driver;

impl<H: Host> Driver<H> {
    /// Lets everybody know whether the catalogue is still there to be written.
    pub(super) fn tell_whether_recorded(&mut self) {
        let problem = self.catalogue.check().err().map(Problem::from);
        if self.recording.set(problem.clone()) {
            match problem {
                Some(problem) => tracing::error!(code = problem.code.text().0, "{problem}"),
                None => tracing::info!("the catalogue is where it was, and is written again"),
            }
        }
        if let Some(error) = self.catalogue.take_unnamed() {
            let problem = Problem::from(error);
            tracing::error!("the newest commit is durable, and damage to it would not be noticed: {problem}");
        }
    }
}
