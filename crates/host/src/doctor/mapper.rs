//! The kernel's device-mapper: whether it answers, and which kinds of snapshot it knows.

use std::fs;
use std::path::Path;

use crate::dm::{self, Control};

/// What is known of the device-mapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapper {
    /// What it said to the question for its version.
    pub answer: Answer,
    /// Its module for classic snapshots.
    pub snapshot: Module,
    /// Its module for thin pools.
    pub thin_pool: Module,
}

/// What the device-mapper said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The version of its interface.
    Version(u32, u32, u32),
    /// Its control node is not there.
    Absent,
    /// This process may not ask.
    NotPermitted,
    /// It did not answer, for this reason.
    Failed(String),
}

/// A module of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// It is loaded, or a part of the kernel.
    Loaded,
    /// It can be loaded.
    Installed,
    /// It is not among this kernel's modules.
    NotFound,
}

/// Asks the kernel. Only root may put the question itself; modules can be looked for by everybody.
#[must_use]
pub fn mapper() -> Mapper {
    let answer = match Control::open().and_then(|control| control.version()) {
        Ok((major, minor, patch)) => Answer::Version(major, minor, patch),
        Err(dm::Error::Absent) => Answer::Absent,
        Err(dm::Error::NotPermitted) => Answer::NotPermitted,
        Err(error) => Answer::Failed(error.to_string()),
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = Path::new("/lib/modules").join(release.trim());
    // A list that cannot be read knows no module; a kernel without modules has none.
    let lists = ["modules.builtin", "modules.dep"]
        .map(|list| fs::read_to_string(modules.join(list)).unwrap_or_default());
    let [built_in, loadable] = lists.each_ref().map(String::as_str);
    let module = |name: &str| {
        let loaded = Path::new("/sys/module").join(name.replace('-', "_")).is_dir();
        judge(name, loaded, built_in, loadable)
    };
    Mapper { answer, snapshot: module("dm-snapshot"), thin_pool: module("dm-thin-pool") }
}

fn judge(name: &str, loaded: bool, built_in: &str, loadable: &str) -> Module {
    let file = format!("/{name}.ko");
    let listed = |list: &str| {
        let mut names = list.lines().map(|line| line.split(':').next().unwrap_or_default());
        names.any(|path| path.contains(&file))
    };
    if loaded || listed(built_in) {
        Module::Loaded
    } else if listed(loadable) {
        Module::Installed
    } else {
        Module::NotFound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_where_they_are_listed() {
        let loadable = "kernel/drivers/md/dm-snapshot.ko.xz: kernel/drivers/md/dm-bufio.ko.xz\n\
                        kernel/drivers/md/other.ko: kernel/drivers/md/dm-thin-pool.ko\n";
        assert_eq!(judge("dm-snapshot", false, "", loadable), Module::Installed);
        assert_eq!(judge("dm-snapshot", true, "", ""), Module::Loaded);
        assert_eq!(judge("dm-thin-pool", false, "kernel/md/dm-thin-pool.ko\n", ""), Module::Loaded);
        // What another module depends on is not the module itself.
        assert_eq!(judge("dm-thin-pool", false, "", loadable), Module::NotFound);
    }

    #[test]
    fn this_machine_answers_something() {
        let found = mapper();
        assert!(!matches!(&found.answer, Answer::Failed(why) if why.is_empty()), "{found:?}");
    }
}
