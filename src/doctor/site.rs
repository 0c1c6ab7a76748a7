//! What a configuration names beside the stores, judged: itself, the state folder, and where clients connect.

use asat_core::{Code, Problem};
use asat_host::doctor::{Kind, Listening, PathKind, Place};
use asat_remote::Protection;
use bytesize::ByteSize;

use super::DEFAULT_CONFIG;
use super::facts::{Configuration, Listener, Site, StateFacts};
use super::finding::{Finding, Group, Level};
use super::protection;
use super::stores::{FLEETING, REMOTE};

/// A size for people.
pub(super) fn bytes(count: u64) -> String {
    ByteSize::b(count).display().iec().to_string()
}

pub(super) fn configuration(configuration: &Configuration) -> Finding {
    let finding = |level, what: String| Finding::new(Group::Configuration, "read", level, what);
    match configuration {
        Configuration::Read { file, follows: true, .. } => {
            finding(Level::Ok, format!("{} is in order, and names a bucket to follow", file.display()))
        }
        Configuration::Read { file, stores: 0, .. } => {
            finding(Level::Warning, format!("{} is in order, and names no store", file.display()))
                .advise("add a [[store]] with `name` and `path`")
        }
        Configuration::Read { file, stores, .. } => {
            let names = crate::text::counted(u64::try_from(*stores).unwrap_or(u64::MAX), "store");
            finding(Level::Ok, format!("{} is in order, and names {names}", file.display()))
        }
        Configuration::None => {
            finding(Level::Note, format!("there is no {DEFAULT_CONFIG}; only the machine was looked at"))
                .advise("name a configuration with --config FILE")
        }
        Configuration::Wrong(problem) => {
            finding(Level::Problem, problem.detail.clone()).advise(problem.hint.clone())
        }
    }
}

pub(super) fn state(site: &Site, user: u32) -> Vec<Finding> {
    let mut findings = vec![folder(&site.state, user)];
    findings.extend(catalogue(&site.state));
    let harms = site.state.catalogue.iter().flatten();
    findings.extend(harms.map(|harm| Finding::harm(&harm.problem())));
    match &site.state.place {
        Err(why) => findings.push(about_state("file-system", Level::Warning, why.clone())),
        Ok(place) => {
            findings.push(file_system(place));
            findings.extend(apart(site));
            findings.extend(room_for_versions(site, place.free));
            findings.push(room_for_copies(&site.state, place.free));
            findings.extend(room_for_cache(&site.state, place.free));
        }
    }
    findings
}

fn about_state(check: &'static str, level: Level, what: impl Into<String>) -> Finding {
    Finding::new(Group::State, check, level, what)
}

/// The folder itself. The daemon refuses one that is not its own; whose the daemon will be is not known here.
fn folder(state: &StateFacts, user: u32) -> Finding {
    let path = state.path.display();
    let finding = |level, what: String| about_state("folder", level, what);
    match &state.folder {
        PathKind::There { kind: Kind::Folder, mode, .. } if mode & 0o022 != 0 => {
            finding(Level::Problem, format!("{path} can be written by others than its owner"))
                .advise(format!("take the permission away: chmod go-w {path}"))
        }
        PathKind::There { kind: Kind::Folder, owner, mode, .. } => {
            let what = format!("{path} belongs to user {owner}, with mode {mode:04o}");
            if *owner == user {
                finding(Level::Ok, what)
            } else {
                finding(Level::Note, what)
                    .advise(format!("run the daemon as user {owner}: no other may use it"))
            }
        }
        PathKind::There { .. } => {
            finding(Level::Problem, format!("{path} is not a folder")).advise("name a folder as `state`")
        }
        PathKind::Missing => {
            finding(Level::Note, format!("{path} is not there; the daemon makes it as it starts"))
        }
        PathKind::Hidden(why) => finding(Level::Problem, format!("{path} cannot be looked at: {why}"))
            .advise("run `asat doctor` as the daemon's user, and let that user reach the folder"),
    }
}

/// The catalogue, as far as it can be looked into: whoever asks may not be the daemon's user.
fn catalogue(state: &StateFacts) -> Option<Finding> {
    let finding = |level, what: &str| about_state("catalogue", level, what);
    match &state.catalogue {
        Ok(_) if !state.begun => None,
        Ok(_) => {
            Some(finding(Level::Ok, "nothing is wrong with its catalogue, as far as that shows from beside"))
        }
        Err(problem) => {
            let level = if problem.code == Code::Internal { Level::Warning } else { Level::Problem };
            Some(finding(level, &problem.detail).advise(problem.hint.clone()))
        }
    }
}

fn file_system(place: &Place) -> Finding {
    let Place { fs, mount_point, free, .. } = place;
    let what = format!("it is on {fs}, mounted at {}, with {} free", mount_point.display(), bytes(*free));
    let finding = |level| about_state("file-system", level, what.clone());
    if REMOTE.contains(&fs.as_str()) {
        finding(Level::Warning).advise("name a folder on a disk of this machine as `state`")
    } else if FLEETING.contains(&fs.as_str()) {
        finding(Level::Warning)
            .advise("choose another folder: this one is deleted when the machine is restarted")
    } else {
        finding(Level::Ok)
    }
}

/// What is kept should outlive the store, and not take its room.
fn apart(site: &Site) -> Option<Finding> {
    let beside = site.beside_state();
    if site.stores.is_empty() {
        return None;
    }
    if beside.is_empty() {
        return Some(about_state("apart", Level::Ok, "no store shares its file system"));
    }
    let plural = if beside.len() == 1 { "store" } else { "stores" };
    let names: Vec<&str> = beside.into_iter().collect();
    let what = format!("it shares its file system with the {plural} {}", names.join(", "));
    Some(about_state("apart", Level::Warning, what).advise(
        "put `state` on another volume: what is kept should survive the loss of the store, and never fill its disk",
    ))
}

/// The first version of a store takes about as much as the store, at worst.
fn room_for_versions(site: &Site, free: u64) -> Option<Finding> {
    let needed = site.store_bytes();
    if site.state.begun || free >= needed {
        return None;
    }
    let what = format!("the first versions may take {}, and {} are free", bytes(needed), bytes(free));
    let advice = "free space, or put `state` on a larger volume";
    Some(about_state("room-for-versions", Level::Warning, what).advise(advice))
}

fn room_for_copies(state: &StateFacts, free: u64) -> Finding {
    let max = state.max_copy_bytes;
    let finding = |level, what: String| about_state("room-for-copies", level, what);
    if free.saturating_add(state.copy_bytes.unwrap_or(0)) >= max {
        return finding(
            Level::Ok,
            format!("there is room for the {} that as-at copies may take", bytes(max)),
        );
    }
    let taken = match state.copy_bytes {
        Some(taken) => format!("they take {} now", bytes(taken)),
        None => "how much they take now is not known".to_owned(),
    };
    let what = format!("as-at copies may take {}, {taken}, and {} are free", bytes(max), bytes(free));
    finding(Level::Warning, what).advise("lower copies.max_size, or free space")
}

/// The cache begins with nothing at each start.
fn room_for_cache(state: &StateFacts, free: u64) -> Option<Finding> {
    let max = state.max_cache_bytes.filter(|max| *max > free)?;
    let what = format!("the cache of the bucket may take {}, and {} are free", bytes(max), bytes(free));
    Some(about_state("room-for-cache", Level::Warning, what).advise("lower follow.cache, or free space"))
}

pub(super) fn listener(listener: &Listener) -> Finding {
    let Listener { address, unix, found } = listener;
    let check = if *unix { "socket" } else { "tcp" };
    let finding = |level, what: String| Finding::new(Group::Listen, check, level, what).about(address);
    match found {
        Listening::Somebody => finding(Level::Ok, format!("somebody listens on {address}")),
        Listening::Nothing => {
            finding(Level::Note, format!("nobody listens on {address}: no daemon runs there"))
        }
        Listening::Stale => {
            finding(Level::Note, format!("{address} was left behind, and nobody listens on it"))
                .advise("start the daemon, which replaces it")
        }
        Listening::InTheWay => finding(Level::Problem, format!("{address} is there, and is no socket"))
            .advise("move it away, or change listen.unix"),
        Listening::NotPermitted => finding(Level::Note, format!("this user may not connect to {address}"))
            .advise("add the user to the socket's group, or run `asat doctor` as root"),
        Listening::Unknown(why) => finding(Level::Warning, format!("{address} does not answer: {why}"))
            .advise("check [listen] in the configuration"),
    }
}

pub(super) fn alarm_command((program, usable): &(String, Result<(), String>)) -> Finding {
    let finding = |level, what: String| Finding::new(Group::Guard, "alarm-command", level, what);
    match usable {
        Ok(()) => finding(Level::Ok, format!("asat passes alarms to {program}, which can be run")),
        Err(why) => finding(Level::Problem, format!("asat could not pass on alarms: {why}"))
            .advise("correct guard.alarm_command, or make what it names an executable file"),
    }
}

pub(super) fn remote((url, usable): &(String, Result<Protection, Problem>)) -> Vec<Finding> {
    let finding = |level, what: String| Finding::new(Group::Remote, "repository", level, what);
    match usable {
        Err(problem) => vec![finding(Level::Problem, problem.detail.clone()).advise(problem.hint.clone())],
        Ok(protection) => vec![
            finding(Level::Ok, format!("{url} has a repository, and keeps two publishers apart")),
            protection::judge(url, protection),
        ],
    }
}

pub(super) fn follow((url, usable): &(String, Result<usize, Problem>)) -> Finding {
    let finding = |level, what: String| Finding::new(Group::Remote, "follow", level, what);
    match usable {
        Ok(0) => finding(Level::Warning, format!("{url} can be read, and has no store yet")),
        Ok(stores) => finding(
            Level::Ok,
            format!(
                "{url} can be read, and has {}",
                crate::text::counted(u64::try_from(*stores).unwrap_or(u64::MAX), "store")
            ),
        ),
        Err(problem) => finding(Level::Problem, problem.detail.clone()).advise(problem.hint.clone()),
    }
}

#[cfg(test)]
mod tests;
