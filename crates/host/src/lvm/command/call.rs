//! A command that is to be run: built so that no value can become an option.

use std::fmt;
use std::time::Duration;

/// A command with its options and operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    name: &'static str,
    options: Vec<String>,
    /// Settings of LVM's that are others for this command, in one option, as LVM takes one alone.
    settings: Vec<&'static str>,
    operands: Vec<String>,
    deadline: Option<Duration>,
}

impl Call {
    /// Begins a call of one of LVM's commands, such as `lvcreate`.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, options: Vec::new(), settings: Vec::new(), operands: Vec::new(), deadline: None }
    }

    /// Adds an option without a value.
    #[must_use]
    pub fn flag(mut self, name: &'static str) -> Self {
        self.options.push(name.to_owned());
        self
    }

    /// Adds an option with a value. The name must be the long one: the value is joined to it with `=`, and so
    /// cannot be taken for an option, whatever it begins with.
    #[must_use]
    pub fn option(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        debug_assert!(name.starts_with("--"), "{name} cannot be joined to its value");
        self.options.push(format!("{name}={value}"));
        self
    }

    /// Gives one of LVM's settings another value (lvm.conf(5)), as `activation/monitoring=0`.
    #[must_use]
    pub fn setting(mut self, setting: &'static str) -> Self {
        self.settings.push(setting);
        self
    }

    /// Has LVM write no backup of the group's metadata (vgcfgbackup(8)): for what runs while writers are held, maybe those of the volume that
    /// the backups lie on. Each command would write one, also those that only report, if the last one is older than the group. Snapshots come
    /// and go, besides: backups of each would push out those that the administrator wants.
    #[must_use]
    pub fn without_backup(self) -> Self {
        self.setting("backup/backup=0").setting("backup/archive=0")
    }

    /// Adds what the command is to work on: a group, or `group/volume`.
    #[must_use]
    pub fn operand(mut self, operand: impl fmt::Display) -> Self {
        self.operands.push(operand.to_string());
        self
    }

    /// Gives the command another deadline than the usual one.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How long the command may take, where it has a time of its own.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The command's name, such as `lvcreate`.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The words after the binary's own name.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec![self.name.to_owned()];
        words.extend(self.options.iter().cloned());
        if !self.settings.is_empty() {
            words.push(format!("--config={}", self.settings.join(" ")));
        }
        if !self.operands.is_empty() {
            words.push("--".to_owned());
            words.extend(self.operands.iter().cloned());
        }
        words
    }
}

/// For people, in errors and in the log. It is never given to a shell. What a volume is tagged with is left out: there may be
/// words of a caller's among it.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words();
        let shown: Vec<String> = words.into_iter().filter(|word| !word.starts_with("--addtag=")).collect();
        f.write_str(&shown.join(" "))
    }
}
