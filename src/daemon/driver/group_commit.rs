//! Requests that one commit does for: those that publish anew what has not changed.

use asat_core::audit::By;
use asat_core::event::{Event, Publish, Reply};
use asat_core::{GroupCommit, Host};

use super::{Driver, Waiting};
use crate::daemon::message::Message;

/// So many requests are answered with one commit at most.
const MOST_TOGETHER: usize = 256;

impl<H: Host> Driver<H> {
    /// Answers everybody who publishes anew what has not changed and whose requests have come meanwhile: one commit does for
    /// all of them. Answers the message after those, where it was taken already.
    pub(super) fn asked_together(&mut self, first: Waiting) -> Option<Message> {
        let (mut asked, mut next) = (vec![first], None);
        while asked.len() < MOST_TOGETHER && next.is_none() {
            match self.messages.try_recv() {
                Ok(Message::Ask(by, event, reply)) if is_again(&event) => {
                    asked.push(Waiting { by, event, reply });
                }
                Ok(other) => next = Some(other),
                Err(_) => break,
            }
        }
        let requests: Vec<(&By, &Publish)> =
            asked.iter().filter_map(|asked| Some((&asked.by, publish_of(&asked.event)?))).collect();
        let GroupCommit { changes, answers } = self.read().decide_together(self.host.now(), &requests);
        let recorded = self.record(&changes);
        if recorded.is_ok() {
            let by = asked.iter().zip(&answers).filter_map(|(asked, answer)| match answer {
                Some(Ok(Reply::Published(number))) => Some((*number, &asked.by)),
                _ => None,
            });
            self.tell_published(&changes, false, &by.collect());
            self.hand_on(changes);
        }
        for (asked, answer) in asked.into_iter().zip(answers) {
            match (answer, &recorded) {
                (Some(_), Err(problem)) => _ = self.answer(asked, Err(problem.clone())),
                (Some(answer), Ok(())) => _ = self.answer(asked, answer),
                (None, _) => self.asked(asked),
            }
        }
        next
    }
}

/// Whether an event publishes what has not changed, as far as whoever asks has seen.
pub(super) fn is_again(event: &Event) -> bool {
    publish_of(event).is_some_and(|publish| publish.unchanged.is_some())
}

fn publish_of(event: &Event) -> Option<&Publish> {
    match event {
        Event::Publish(publish) => Some(publish),
        _ => None,
    }
}
