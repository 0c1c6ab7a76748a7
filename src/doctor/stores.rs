//! A store, judged: its file and its file system.

use asat_host::doctor::{Kind, PathKind, Place, Sharing};
use asat_host::store::HOW_TO_SHARE;

use super::backend;
use super::facts::{Store, Trackable};
use super::finding::{Finding, Group, Level};
use super::site::bytes;

/// File systems of other machines, whose locks SQLite cannot rely on.
pub(super) const REMOTE: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"];
/// File systems whose content goes with the machine's next start.
pub(super) const FLEETING: [&str; 2] = ["tmpfs", "ramfs"];

pub(super) fn judge(store: &Store) -> Vec<Finding> {
    let places = [Some(file(store)), sharing(store), file_system(store.place.as_ref())];
    let findings = places.into_iter().chain([watch(store), track(store)]);
    let findings = findings.flatten().chain(backend::judge(store));
    findings.map(|finding| finding.about(&store.name)).collect()
}

fn finding(check: &'static str, level: Level, what: impl Into<String>) -> Finding {
    Finding::new(Group::Store, check, level, what)
}

fn file(store: &Store) -> Finding {
    let path = store.path.display();
    let finding = |level, what: String| finding("file", level, what);
    match &store.file {
        PathKind::There { kind: Kind::File, bytes: 0, .. } => finding(
            Level::Note,
            format!("{path} is an empty file: nothing has been written to the store yet"),
        ),
        PathKind::There { kind: Kind::File, links: links @ 2.., .. } => {
            finding(Level::Problem, format!("{path} has {links} names (hard links), and is not published"))
                .advise(
                    "name the file that the application opens as the store's `path`, and remove the other names (find \
                     -samefile) or make them symbolic links: SQLite finds the WAL by the name",
                )
        }
        PathKind::There { kind: Kind::File, bytes: length, .. } => {
            finding(Level::Ok, format!("{path} is a file of {}", bytes(*length)))
        }
        PathKind::There { kind, .. } => {
            let what = if *kind == Kind::Folder { "a folder" } else { "a device, a socket or a pipe" };
            finding(Level::Problem, format!("{path} is {what}"))
                .advise("name the database's file as the store's `path`")
        }
        PathKind::Missing => finding(Level::Warning, format!("there is no file at {path}"))
            .advise("look at the store's `path`; until the file is there, nothing can be published"),
        PathKind::Hidden(why) => finding(Level::Problem, format!("{path} cannot be looked at: {why}"))
            .advise("let the daemon's user pass through the folders above the file"),
    }
}

/// Whether the daemon and the application lock each other out.
fn sharing(store: &Store) -> Option<Finding> {
    let finding = |level, what: String| Some(finding("sharing", level, what));
    let share = |found: Option<Finding>| found.map(|found| found.advise(HOW_TO_SHARE));
    match store.sharing.as_ref()? {
        Sharing::Shared => {
            finding(Level::Ok, "the daemon and the application can both write beside it".to_owned())
        }
        Sharing::Unreadable { user } => {
            let what = format!(
                "by its owner, group and mode {user} may not read it: unless an access list or a group of the service lets \
                 that user read it, it cannot be published"
            );
            finding(Level::Warning, what).map(|found| {
                found.advise("give that user the right to read it, see docs/install.md, and try it: asat publish")
            })
        }
        Sharing::ReadOnly { wal: false } => {
            finding(Level::Note, "the daemon may only read it, so nothing can be restored into it".to_owned())
        }
        Sharing::ReadOnly { wal: true } => share(finding(
            Level::Warning,
            "it is in WAL mode and the daemon may not write beside it: it can be published only while its application is \
             connected, and neither restored nor published in a set"
                .to_owned(),
        )),
        Sharing::LocksOut { wal: true, why } => share(finding(
            Level::Problem,
            format!("the daemon refuses to open it, as that would lock its application out: {why}"),
        )),
        Sharing::LocksOut { wal: false, why } => share(finding(
            Level::Warning,
            format!("the daemon refuses to restore it, or to publish it in a set or in WAL mode: {why}"),
        )),
        Sharing::Locked { path, user } => {
            let what = format!("{user} cannot write {}", path.display());
            finding(Level::Problem, what).map(|found| {
                found.advise(
                    "stop the daemon and the application, give the file the store's owner, group and permissions (`chown \
                     --reference`, `chmod --reference`), and see docs/install.md",
                )
            })
        }
        Sharing::Unknown(why) => finding(Level::Note, format!("asat cannot find out who may write beside it: {why}")),
    }
}

fn file_system(place: Result<&Place, &String>) -> Option<Finding> {
    let finding = |level, what| Some(finding("file-system", level, what));
    let place = match place {
        Ok(place) => place,
        Err(why) => return finding(Level::Note, why.clone()),
    };
    let Place { fs, mount_point, .. } = place;
    let on = format!("the store is on {fs}, mounted at {}", mount_point.display());
    if REMOTE.contains(&fs.as_str()) {
        let advice =
            "move the store to a disk of this machine: SQLite cannot rely on locks of other machines";
        return finding(Level::Warning, on).map(|finding| finding.advise(advice));
    }
    if FLEETING.contains(&fs.as_str()) {
        return finding(Level::Note, format!("{on}; it is deleted when the machine is restarted"));
    }
    finding(Level::Ok, on)
}

/// Whether watch mode hears of commits.
fn watch(store: &Store) -> Option<Finding> {
    let finding = |level, what: &str| finding("watch", level, what);
    Some(match store.watched? {
        true => finding(Level::Ok, "in watch mode; the kernel reports changes to it"),
        false => finding(
            Level::Note,
            "in watch mode, on a file system of which the kernel does not tell all changes: its files are looked at every \
             `poll`",
        ),
    })
}

/// Whether a store can be tracked that is to be. Nothing is said of one that cannot be read, or whose pages are not read.
fn track(store: &Store) -> Option<Finding> {
    let Trackable { is_in_wal_mode, is_local } = store.tracked.filter(|_| backend::is_by_pages(store))?;
    let (why, advice) = match &store.sharing {
        Some(Sharing::Unreadable { .. } | Sharing::Locked { .. }) => return None,
        _ if !is_in_wal_mode => (
            "it is not in WAL mode",
            "put it into WAL mode (`PRAGMA journal_mode = wal`), or leave `track` out",
        ),
        _ if !is_local => ("other machines may write to its file system", "leave `track` out"),
        Some(Sharing::ReadOnly { .. } | Sharing::LocksOut { .. }) => {
            ("the daemon may not write beside it", HOW_TO_SHARE)
        }
        _ => {
            return Some(finding(
                "track",
                Level::Ok,
                "its WAL is followed: a publication reads what has changed",
            ));
        }
    };
    let what = format!("it is not tracked, and each publication reads all of it: {why}");
    Some(finding("track", Level::Warning, what).advise(advice))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use asat_core::snapshot::BackendKind;
    use asat_host::doctor::Footing;

    use super::*;

    fn store(file: PathKind, fs: &str, footing: Footing) -> Vec<Finding> {
        judge(&facts(file, fs, footing))
    }

    fn facts(file: PathKind, fs: &str, footing: Footing) -> Store {
        let place =
            Place { fs: fs.to_owned(), mount_point: PathBuf::from("/srv"), device: (254, 0), free: 1 << 30 };
        let path = PathBuf::from("/srv/r.db");
        let (name, beside_state) = ("report".to_owned(), false);
        Store {
            name,
            path,
            file,
            sharing: None,
            place: Ok(place),
            footing,
            cloning: Err("it was not tried".to_owned()),
            backend: None,
            keep_snapshots: 0,
            watched: Some(fs == "ext4"),
            tracked: None,
            beside_state,
            beside_needed: None,
        }
    }

    #[test]
    fn who_locks_whom_out_is_a_problem() {
        let judged = |sharing| {
            let mut found = store(entry(Kind::File, 1), "ext4", plain());
            assert!(found.iter().all(|finding| finding.check != "sharing"), "unknown here");
            let mut facts = facts(entry(Kind::File, 1), "ext4", plain());
            facts.sharing = Some(sharing);
            found = judge(&facts);
            let finding = found.into_iter().find(|finding| finding.check == "sharing").unwrap();
            (finding.level, finding.advice.is_some())
        };
        let why = || "they are not in that group".to_owned();
        for (sharing, expected) in [
            (Sharing::Shared, (Level::Ok, false)),
            (Sharing::ReadOnly { wal: false }, (Level::Note, false)),
            (Sharing::ReadOnly { wal: true }, (Level::Warning, true)),
            (Sharing::LocksOut { wal: true, why: why() }, (Level::Problem, true)),
            (Sharing::LocksOut { wal: false, why: why() }, (Level::Warning, true)),
            (Sharing::Locked { path: PathBuf::from("/srv/r.db-wal"), user: why() }, (Level::Problem, true)),
            (Sharing::Unknown(why()), (Level::Note, false)),
        ] {
            assert_eq!(judged(sharing.clone()), expected, "{sharing:?}");
        }
    }

    #[test]
    fn a_store_that_cannot_be_tracked_is_a_warning() {
        let judged = |tracked: Option<(bool, bool)>, sharing, backend| {
            let tracked = tracked.map(|(is_in_wal_mode, is_local)| Trackable { is_in_wal_mode, is_local });
            let facts = Store { tracked, sharing, backend, ..facts(entry(Kind::File, 1), "ext4", plain()) };
            let found = judge(&facts).into_iter().find(|finding| finding.check == "track")?;
            Some((found.level, found.what.rsplit(": ").next().unwrap().to_owned()))
        };
        let warning = |why: &str| Some((Level::Warning, why.to_owned()));
        assert_eq!(judged(None, None, None), None);
        assert_eq!(judged(Some((true, true)), None, None).unwrap().0, Level::Ok);
        assert_eq!(judged(Some((false, true)), None, None), warning("it is not in WAL mode"));
        let remote = warning("other machines may write to its file system");
        assert_eq!(judged(Some((true, false)), None, None), remote);
        let read_only = Some(Sharing::ReadOnly { wal: true });
        assert_eq!(
            judged(Some((true, true)), read_only, None),
            warning("the daemon may not write beside it")
        );
        let unreadable = Some(Sharing::Unreadable { user: "asat".to_owned() });
        assert_eq!(judged(Some((true, true)), unreadable, None), None);
        assert_eq!(judged(Some((false, true)), None, Some(BackendKind::Reflink)), None);
    }

    fn entry(kind: Kind, bytes: u64) -> PathKind {
        PathKind::There { kind, bytes, owner: 0, mode: 0o644, links: 1 }
    }

    fn plain() -> Footing {
        Footing::Plain("its device is a plain disk or partition".to_owned())
    }

    #[test]
    fn a_store_on_a_plain_disk() {
        let found = store(entry(Kind::File, 48_672_768), "ext4", plain());
        assert!(found.iter().all(|finding| finding.subject.as_deref() == Some("report")));
        let said: Vec<_> = found.iter().map(|finding| (finding.level, finding.what.as_str())).collect();
        let expected = [
            (Level::Ok, "/srv/r.db is a file of 46.4 MiB"),
            (Level::Ok, "the store is on ext4, mounted at /srv"),
            (Level::Ok, "in watch mode; the kernel reports changes to it"),
            (
                Level::Note,
                "cut by pages; no snapshot can be taken, because its device is a plain disk or partition",
            ),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_no_store_is_a_problem_and_what_is_not_there_yet_is_none() {
        let level = |file| store(file, "ext4", plain()).remove(0).level;
        assert_eq!(level(entry(Kind::Folder, 4096)), Level::Problem);
        assert_eq!(level(entry(Kind::Other, 0)), Level::Problem);
        assert_eq!(level(PathKind::Hidden("Permission denied".to_owned())), Level::Problem);
        assert_eq!(level(PathKind::Missing), Level::Warning);
        assert_eq!(level(entry(Kind::File, 0)), Level::Note);
        let linked = PathKind::There { kind: Kind::File, bytes: 4096, owner: 0, mode: 0o644, links: 2 };
        assert_eq!(level(linked), Level::Problem);
        assert_eq!(store(PathKind::Missing, "ext4", plain()).len(), 3, "nothing is said of its ground");
    }

    #[test]
    fn file_systems_that_lose_locks_or_content() {
        let level = |fs| store(entry(Kind::File, 1), fs, plain()).remove(1).level;
        let watched = |fs| store(entry(Kind::File, 1), fs, plain()).remove(2);
        assert_eq!((watched("nfs4").level, watched("ext4").level), (Level::Note, Level::Ok));
        assert!(watched("nfs4").what.contains("looked at every `poll`"));
        assert_eq!((level("nfs4"), level("tmpfs"), level("btrfs")), (Level::Warning, Level::Note, Level::Ok));
    }
}
