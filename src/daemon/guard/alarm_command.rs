//! The command that is started for alarms, by a thread of its own: it may take its time, and the guard may not.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use asat_host::program;

use super::alarms::{AlarmState, Due};
use asat_wire::Names;

/// How long the command may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// The most alarms that wait for the command. Every one of them is also in the log, and is shown.
const MOST_WAITING: usize = 256;

/// Starts the command for one alarm after the other. Dropped, it starts no more; one that runs is not waited for.
pub(super) struct AlarmCommand {
    shared: Arc<Shared>,
}

/// Where the guard leaves what is to be told, and the thread finds it.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<AlarmReport>,
    closed: bool,
}

/// What is told of one alarm, in the words that people know.
#[derive(Clone, Debug)]
struct AlarmReport {
    key: String,
    state: AlarmState,
    reason: String,
    hint: String,
}

impl AlarmCommand {
    /// Starts its thread; `None` where there is no command.
    ///
    /// # Errors
    /// Where the machine gives no thread.
    pub(super) fn start(command: &[String]) -> io::Result<Option<Self>> {
        if command.is_empty() {
            return Ok(None);
        }
        let alarm_command = Self { shared: Arc::default() };
        let (shared, command) = (Arc::clone(&alarm_command.shared), command.to_vec());
        thread::Builder::new().name("alarm-command".to_owned()).spawn(move || shared.serve(&command))?;
        Ok(Some(alarm_command))
    }

    /// Leaves what is to be told, and does not wait. Of an alarm that still waits, the newest is told.
    pub(super) fn tell(&self, due: &[Due], names: &BTreeMap<String, String>) {
        let names = Names(names);
        let mut queue = self.shared.lock();
        for Due { alarm, state } in due {
            let key = names.told(&alarm.key.to_string());
            let (reason, hint) = (names.told(&alarm.reason), names.told(&alarm.hint));
            queue.leave(AlarmReport { key, state: *state, reason, hint });
        }
        drop(queue);
        self.shared.changed.notify_one();
    }
}

impl Drop for AlarmCommand {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Queue {
    fn leave(&mut self, new: AlarmReport) {
        let Some(old) = self.waiting.iter_mut().find(|old| old.key == new.key) else {
            if self.waiting.len() < MOST_WAITING {
                self.waiting.push_back(new);
            } else {
                tracing::error!(
                    alarm = new.key,
                    "too many alarms wait for their command: this one is not told"
                );
            }
            return;
        };
        // Of a beginning that nobody was told of yet, a repetition is no news.
        let begins = old.state == AlarmState::On && new.state == AlarmState::Repeated;
        *old = AlarmReport { state: if begins { AlarmState::On } else { new.state }, ..new };
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next alarm to tell of; `None` at the end.
    fn next(&self) -> Option<AlarmReport> {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
        let mut queue = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        if queue.closed { None } else { queue.waiting.pop_front() }
    }

    fn serve(&self, command: &[String]) {
        while let Some(AlarmReport { key, state, reason, hint }) = self.next() {
            let environment = [
                ("ASAT_ALARM_KEY", key.as_str()),
                ("ASAT_ALARM_STATE", state.text()),
                ("ASAT_ALARM_REASON", &reason),
                ("ASAT_ALARM_HINT", &hint),
            ];
            match program::run(command, &environment, DEADLINE) {
                Ok(()) => {
                    tracing::info!(alarm = key, state = state.text(), "the alarm command has the message")
                }
                Err(error) => {
                    tracing::error!(alarm = key, state = state.text(), "the alarm command: {error}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{Receiver, channel};

    use asat_core::guard::{AlarmKey, AlarmKind, Target};
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::daemon::Alarm;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn due(group: &str, state: AlarmState, reason: &str) -> Due {
        let alarm = Alarm {
            key: AlarmKey { target: Target::Group(group.to_owned()), kind: AlarmKind::Short },
            reason: reason.to_owned(),
            hint: "add a disk".to_owned(),
            since: jiff::Timestamp::UNIX_EPOCH,
            acknowledged_at: None,
        };
        Due { alarm, state }
    }

    fn fifo(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    /// What each run of the command says, as it says it.
    fn heard(path: &Path) -> Receiver<String> {
        let (sender, said) = channel();
        let path = path.to_owned();
        thread::spawn(move || while sender.send(std::fs::read_to_string(&path).unwrap()).is_ok() {});
        said
    }

    /// Each run says what it was given, and ends when it is let go. One that finds another at work says so.
    const SCRIPT: &str = "cd \"$0\"; mkdir busy || echo overlap > said; \
        echo \"$ASAT_ALARM_KEY|$ASAT_ALARM_STATE|$ASAT_ALARM_REASON|$ASAT_ALARM_HINT\" > said; \
        read -r _ < go; rmdir busy 2> /dev/null";

    #[test]
    fn one_runs_at_a_time_and_the_newest_state_of_each_alarm_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fifo(&path("said"));
        fifo(&path("go"));
        let said = heard(&path("said"));
        let command = ["/bin/sh", "-c", SCRIPT, folder.path().to_str().unwrap()].map(str::to_owned);
        let alarm_command = AlarmCommand::start(&command).unwrap().unwrap();
        let names: BTreeMap<String, String> = [("gX1".to_owned(), "vg".to_owned())].into();

        alarm_command.tell(&[due("gX1", AlarmState::On, "gX1 is short")], &names);
        let next = || said.recv_timeout(PATIENCE).unwrap();
        assert_eq!(next(), "group vg: short|on|vg is short|add a disk\n");
        // It runs. What comes meanwhile waits, the newest of each.
        alarm_command.tell(&[due("gX1", AlarmState::Repeated, "still")], &names);
        alarm_command.tell(&[due("b", AlarmState::On, "first"), due("c", AlarmState::On, "c")], &names);
        alarm_command
            .tell(&[due("gX1", AlarmState::Over, "was"), due("b", AlarmState::Repeated, "second")], &names);
        for expected in [
            "group vg: short|over|was|add a disk\n",
            "group b: short|on|second|add a disk\n",
            "group c: short|on|c|add a disk\n",
        ] {
            std::fs::write(path("go"), "\n").unwrap();
            assert_eq!(next(), expected);
        }
        std::fs::write(path("go"), "\n").unwrap();
    }

    #[test]
    fn without_a_command_there_is_nobody_to_tell_and_too_many_do_not_wait() {
        assert!(AlarmCommand::start(&[]).unwrap().is_none());
        let mut queue = Queue::default();
        for number in 0..2 * MOST_WAITING {
            let (key, reason, hint) = (number.to_string(), String::new(), String::new());
            queue.leave(AlarmReport { key, state: AlarmState::On, reason, hint });
        }
        assert_eq!(queue.waiting.len(), MOST_WAITING);
    }
}
