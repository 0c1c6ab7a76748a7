//! The machine, judged for any configuration.
//!
//! The backend `pages` needs neither the device-mapper nor LVM, so nothing about those is worse than a note.

use asat_host::doctor::{Answer, Mapper, Module, Settings, Tools};

use super::facts::Machine;
use super::finding::{Finding, Group, Level};

/// An archive keeps one file open for each segment that was read, and clients keep some.
const FEW_FILES: u64 = 4096;

pub(super) fn judge(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![device_mapper(&machine.mapper.answer), snapshots(&machine.mapper)];
    findings.push(tools(&machine.tools));
    if let Tools::Usable { settings, thin_delta, .. } = &machine.tools {
        findings.push(monitor(settings.as_ref()));
        findings.push(changes(*thin_delta));
    }
    findings.push(open_files(machine.open_files));
    findings
}

fn finding(check: &'static str, level: Level, what: impl Into<String>) -> Finding {
    Finding::new(Group::Machine, check, level, what)
}

fn device_mapper(answer: &Answer) -> Finding {
    let finding = |level, what: String| finding("device-mapper", level, what);
    match answer {
        Answer::Version(4, minor, patch) => {
            finding(Level::Ok, format!("the device-mapper answers, version 4.{minor}.{patch}"))
        }
        Answer::Version(major, minor, patch) => finding(
            Level::Note,
            format!("the device-mapper has version {major}.{minor}.{patch}, and asat knows 4.x"),
        ),
        Answer::Absent => finding(
            Level::Note,
            "this kernel has no device-mapper loaded; the backend pages needs none".to_owned(),
        ),
        Answer::NotPermitted => finding(Level::Note, "only root may ask the device-mapper".to_owned())
            .advise("run `asat doctor` as root to see more"),
        Answer::Failed(why) => finding(Level::Note, format!("the device-mapper does not answer: {why}")),
    }
}

fn snapshots(mapper: &Mapper) -> Finding {
    let state = |module| match module {
        Module::Loaded => "loaded",
        Module::Installed => "installed, not loaded",
        Module::NotFound => "not found",
    };
    let both = mapper.snapshot != Module::NotFound && mapper.thin_pool != Module::NotFound;
    let what = format!(
        "the kernel's modules for snapshots: dm-snapshot is {}, dm-thin-pool is {}",
        state(mapper.snapshot),
        state(mapper.thin_pool)
    );
    finding("snapshot-modules", if both { Level::Ok } else { Level::Note }, what)
}

fn tools(tools: &Tools) -> Finding {
    match tools {
        Tools::Usable { version, .. } => {
            finding("lvm", Level::Ok, format!("LVM {version} is installed, and recent enough for asat"))
        }
        Tools::Missing => finding("lvm", Level::Note, "LVM is not installed; the backend pages needs none"),
        Tools::Unusable(why) => finding("lvm", Level::Note, format!("LVM cannot be used: {why}")),
    }
}

/// Without the command nothing is wrong, and everything is read.
fn changes(thin_delta: bool) -> Finding {
    let finding = |level, what| finding("thin-delta", level, what);
    if thin_delta {
        return finding(Level::Ok, "thin_delta is installed: thin pools can tell what has changed");
    }
    finding(Level::Note, "thin_delta is not installed: a store on a thin volume is read whole at each publication")
        .advise("install thin-provisioning-tools (or device-mapper-persistent-data), where a store is on a thin volume")
}

/// LVM's monitor extends volumes by itself, and unmounts whatever is on a snapshot that overflowed. It would be at
/// odds with asat, which therefore takes its snapshots unmonitored.
fn monitor(settings: Result<&Settings, &String>) -> Finding {
    let finding = |level, what: String| finding("lvm-monitor", level, what);
    let settings = match settings {
        Ok(settings) => settings,
        Err(why) => {
            return finding(Level::Note, format!("the settings of LVM's monitor are not known: {why}"));
        }
    };
    let Settings { snapshot_threshold, pool_threshold, monitoring } = *settings;
    let kinds = [("classic snapshots", snapshot_threshold), ("thin pools", pool_threshold)];
    let extended = kinds.into_iter().filter(|(_, threshold)| *threshold < 100);
    let extended: Vec<String> =
        extended.map(|(kind, threshold)| format!("{kind} that are {threshold} % full")).collect();
    if extended.is_empty() || !monitoring {
        return finding(Level::Ok, "LVM's monitor extends no volume by itself".to_owned());
    }
    let what = format!("LVM's monitor extends {}", extended.join(" and "));
    finding(Level::Note, what).advise(
        "asat keeps its own snapshots out of the monitor's sight; what else it does here is for you to say \
         (activation/snapshot_autoextend_threshold and activation/thin_pool_autoextend_threshold in lvm.conf)",
    )
}

fn open_files(limit: Option<u64>) -> Finding {
    match limit {
        Some(limit) if limit < FEW_FILES => finding(
            "open-files",
            Level::Warning,
            format!("a process started from here may open {limit} files"),
        )
        .advise(format!(
            "a long history needs more: raise the hard limit to {FEW_FILES} or higher \
                     (LimitNOFILE= in the daemon's unit)"
        )),
        Some(limit) => {
            finding("open-files", Level::Ok, format!("a process started from here may open {limit} files"))
        }
        None => finding("open-files", Level::Ok, "the number of open files is not limited"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(answer: Answer, tools: Tools, open_files: Option<u64>) -> Vec<(&'static str, Level, String)> {
        let mapper = Mapper { answer, snapshot: Module::Loaded, thin_pool: Module::NotFound };
        let findings = judge(&Machine { user: 0, open_files, mapper, tools });
        findings.into_iter().map(|finding| (finding.check, finding.level, finding.what)).collect()
    }

    #[test]
    fn a_machine_without_volumes_is_noted_and_no_more() {
        let found = machine(Answer::Absent, Tools::Missing, None);
        let levels: Vec<_> = found.iter().map(|(check, level, _)| (*check, *level)).collect();
        let expected = [
            ("device-mapper", Level::Note),
            ("snapshot-modules", Level::Note),
            ("lvm", Level::Note),
            ("open-files", Level::Ok),
        ];
        assert_eq!(levels, expected);
    }

    #[test]
    fn a_monitor_that_extends_is_named_with_its_thresholds() {
        let settings = |monitoring| {
            let settings = Settings { snapshot_threshold: 70, pool_threshold: 100, monitoring };
            let tools = Tools::Usable {
                version: "2.03.16".to_owned(),
                settings: Ok(settings),
                thin_delta: monitoring,
            };
            machine(Answer::Version(4, 47, 0), tools, Some(1024))
        };
        let found = settings(true);
        assert_eq!(found[0].2, "the device-mapper answers, version 4.47.0");
        assert_eq!((found[3].0, found[3].1), ("lvm-monitor", Level::Note));
        assert!(found[3].2.contains("classic snapshots that are 70 % full"), "{}", found[3].2);
        assert_eq!((found[4].0, found[4].1), ("thin-delta", Level::Ok));
        assert_eq!(found[5].1, Level::Warning);
        let found = settings(false);
        assert_eq!((found[3].1, found[4].1), (Level::Ok, Level::Note));
    }

    #[test]
    fn settings_that_cannot_be_read_are_a_note() {
        let tools = Tools::Usable {
            version: "2.03.16".to_owned(),
            settings: Err("for a reason".to_owned()),
            thin_delta: true,
        };
        let found = machine(Answer::NotPermitted, tools, None);
        assert!(found[3].1 == Level::Note && found[3].2.ends_with("for a reason"), "{found:?}");
    }
}
