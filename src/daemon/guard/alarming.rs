//! The guard's last rung: an alarm is shown, logged, told to those who listen, and told by the configured command.

use std::collections::BTreeMap;
use std::io;

use asat_core::guard::Step;
use asat_host::program;
use jiff::Timestamp;

use super::alarm_command::AlarmCommand;
use super::alarms::{AlarmState, Alarms};
use crate::config::AlarmConfig;
use crate::daemon::{Handle, Notice};
use asat_wire::Names;

/// Tells of alarms, wherever somebody may look or listen.
pub(super) struct Alarming {
    handle: Handle,
    config: AlarmConfig,
    alarms: Alarms,
    /// None where no command is configured.
    alarm_command: Option<AlarmCommand>,
}

impl Alarming {
    /// No alarms yet. A command that cannot be run is told of at once, not when it is needed; it may come to be there, so
    /// nothing else follows from it.
    ///
    /// # Errors
    /// Where the machine gives no thread for the command.
    pub(super) fn start(handle: Handle, config: &AlarmConfig) -> io::Result<Self> {
        let alarm_command = alarm_command(config)?;
        Ok(Self { handle, config: config.clone(), alarms: Alarms::new(config.repeat), alarm_command })
    }

    /// Tells of alarms as this configuration says. What waits for a command that is not configured any more is not told by it.
    pub(super) fn configure(&mut self, config: AlarmConfig) {
        self.alarms.repeat_after(config.repeat);
        if config.command != self.config.command {
            match alarm_command(&config) {
                Ok(alarm_command) => self.alarm_command = alarm_command,
                Err(error) => {
                    return tracing::error!("the alarm command before stays in use: {error}");
                }
            }
        }
        self.config = config;
    }

    /// Takes in what a plan says; `at_ms` is the clock of the plan's observation. It waits for nobody.
    pub(super) fn tell(&mut self, now: Timestamp, at_ms: u64, steps: &[Step]) {
        let (mut due, mut names) = (Vec::new(), BTreeMap::new());
        self.handle.change_standing(|standing| {
            due = self.alarms.update(now, at_ms, steps, &mut standing.alarms);
            if !due.is_empty() {
                names.clone_from(&standing.names);
            }
        });
        for told in &due {
            let (alarm, state) = (&told.alarm, told.state);
            let known = Names(&names);
            let (key, reason) = (known.told(&alarm.key.to_string()), known.told(&alarm.reason));
            match state {
                AlarmState::On | AlarmState::Repeated => {
                    tracing::error!(
                        alarm = key,
                        state = state.text(),
                        "{reason} ({})",
                        known.told(&alarm.hint)
                    );
                }
                AlarmState::Over => tracing::info!(alarm = key, state = state.text(), "the alarm is over"),
            }
            self.handle.notify(Notice::Alarm(Box::new(alarm.clone()), state == AlarmState::Over));
        }
        if let Some(alarm_command) = self.alarm_command.as_ref().filter(|_| !due.is_empty()) {
            alarm_command.tell(&due, &names);
        }
    }
}

fn alarm_command(config: &AlarmConfig) -> io::Result<Option<AlarmCommand>> {
    if let Some(Err(error)) = (!config.command.is_empty()).then(|| program::check(&config.command)) {
        tracing::error!("guard.alarm_command will get no alarms: {error}; correct it, or what it names");
    }
    AlarmCommand::start(&config.command)
}
