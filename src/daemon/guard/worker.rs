//! The worker: runs what takes long, one command after another. Beside it somebody asks LVM how much is free.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Instant;

use asat_core::guard::{Action, Outcome, Step};
use asat_core::snapshot::Snapshot;
use asat_core::{Code, VersionId};
use asat_shell::{Ended, Told};

use super::{Word, outcome};
use crate::daemon::machine::Machine;

/// What LVM alone knows.
enum Question {
    /// How much room there is.
    Room,
    /// The same, after something may have given room back, which is told of when that is known: nothing could be planned
    /// with it before, and a writer who is held for its sake would be let go.
    RoomAfter(Ended),
    /// Whether a snapshot that the kernel has no device of is gone for good.
    IsRemoved(VersionId, Box<Snapshot>),
}

/// The way to the worker. It ends with this.
pub(super) struct Worker {
    steps: SyncSender<(Step, Instant)>,
    questions: Sender<Question>,
    words: Sender<Word>,
}

impl Worker {
    pub(super) fn start(machine: Arc<Machine>, words: Sender<Word>) -> std::io::Result<Self> {
        // One is begun at a time: after it there is a new plan.
        let (steps, queue) = sync_channel(0);
        let (questions, asked) = channel();
        let told = words.clone();
        let (asker, answers) = (Arc::clone(&machine), words.clone());
        let work = move || work(&machine, &queue, &words);
        thread::Builder::new().name("guard-worker".to_owned()).spawn(work)?;
        let ask = move || ask(&asker, &asked, &answers);
        thread::Builder::new().name("guard-room".to_owned()).spawn(ask)?;
        Ok(Self { steps, questions, words: told })
    }

    /// Hands over an extension that a look found necessary; false where the worker is busy.
    pub(super) fn extend(&self, step: &Step, looked: Instant) -> bool {
        match self.steps.try_send((step.clone(), looked)) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => false,
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!("the guard's worker has died; restart the daemon");
                false
            }
        }
    }

    /// The way to tell the guard what came of something that may have given room back.
    pub(super) fn after_room(&self) -> impl FnOnce(Ended) + Send + use<> {
        let (questions, words) = (self.questions.clone(), self.words.clone());
        move |ended| {
            // What failed has given nothing back. A guard that is gone does not want to know.
            let _ = match ended.outcome {
                Outcome::Failed(_) => words.send(Word::Told(Told::Ended(ended))).is_ok(),
                _ => questions.send(Question::RoomAfter(ended)).is_ok(),
            };
        }
    }

    /// Has LVM asked how much room there is.
    pub(super) fn ask_room(&self) {
        // An asker that is gone answers nothing, and what was said last stands.
        let _ = self.questions.send(Question::Room);
    }

    /// Has LVM asked whether a snapshot is gone for good.
    pub(super) fn ask_whether_removed(&self, id: &VersionId, snapshot: &Snapshot) {
        let _ = self.questions.send(Question::IsRemoved(id.clone(), Box::new(snapshot.clone())));
    }
}

fn work(machine: &Machine, queue: &Receiver<(Step, Instant)>, words: &Sender<Word>) {
    for (step, looked) in queue {
        let Action::Extend { target, to } = &step.action else { continue };
        let since = Instant::now();
        let extended = machine.volumes().extend(target, *to);
        let added = extended.as_ref().ok().map(|command| looked.elapsed().saturating_sub(*command));
        let short = extended.as_ref().is_err_and(|problem| problem.code == Code::StorageFull);
        // Somebody has taken what was free: what is left is known before anything else is planned.
        if short && words.send(Word::Told(Told::Room(machine.volumes().room()))).is_err() {
            return;
        }
        let (outcome, took) = (outcome(extended.map(|_| ())), Some(since.elapsed()));
        if words.send(Word::Told(Told::Ended(Ended { step, outcome, took, added }))).is_err() {
            return;
        }
    }
}

/// Asks when somebody wants to know.
fn ask(machine: &Machine, asked: &Receiver<Question>, words: &Sender<Word>) {
    while let Ok(question) = asked.recv() {
        let questions: Vec<Question> = [question].into_iter().chain(asked.try_iter()).collect();
        // However often this was asked until now, there is one answer.
        let room =
            questions.iter().any(|question| matches!(question, Question::Room | Question::RoomAfter(_)));
        let others = questions.into_iter().filter_map(|question| match question {
            Question::RoomAfter(ended) => Some(Told::Ended(ended)),
            Question::IsRemoved(id, snapshot) if machine.is_removed(&id, &snapshot) => {
                Some(Told::Removed(id))
            }
            _ => None,
        });
        let room = room.then(|| Told::Room(machine.volumes().room()));
        for told in room.into_iter().chain(others) {
            if words.send(Word::Told(told)).is_err() {
                return;
            }
        }
    }
}
