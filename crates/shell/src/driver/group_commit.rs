//! Requests that one commit does for: those that publish anew what has not changed.

use asat_core::By;
use asat_core::GroupCommit;
use asat_core::event::{Event, Publish, Reply};

use super::{Driver, Request};
use crate::Ports;

impl<L> Driver<L> {
    /// Answers all who publish anew what has not changed with one commit. Those for which that does not do are asked alone.
    pub fn ask_together<P: Ports<Listener = L>>(&mut self, ports: &mut P, requests: Vec<Request<L>>) {
        self.record_late(ports);
        let asked: Vec<(&By, &Publish)> =
            requests.iter().filter_map(|asked| Some((&asked.by, publish_of(&asked.event)?))).collect();
        let now = ports.now();
        let GroupCommit { changes, answers } = self.engine.read().decide_together(now, &asked);
        let recorded = self.record(ports, &changes);
        if recorded.is_ok() {
            let by = requests.iter().zip(&answers).filter_map(|(asked, answer)| match answer {
                Some(Ok(Reply::Published(number))) => Some((*number, &asked.by)),
                _ => None,
            });
            self.tell_published(ports, &changes, false, &by.collect());
            self.hand_on(ports, changes);
        }
        for (request, answer) in requests.into_iter().zip(answers) {
            match (answer, &recorded) {
                (Some(_), Err(problem)) => _ = self.answer(ports, request, Err(problem.clone())),
                (Some(answer), Ok(())) => _ = self.answer(ports, request, answer),
                (None, _) => self.asked(ports, request),
            }
        }
    }
}

/// Whether an event publishes what has not changed, as far as whoever asks has seen: [`Driver::ask_together`] takes such ones.
#[must_use]
pub fn is_republication(event: &Event) -> bool {
    publish_of(event).is_some_and(|publish| publish.unchanged.is_some())
}

fn publish_of(event: &Event) -> Option<&Publish> {
    match event {
        Event::Publish(publish) => Some(publish),
        _ => None,
    }
}
