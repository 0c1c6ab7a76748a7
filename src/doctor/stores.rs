//! A store, judged: its file, its file system, and by what it is kept.

use asat_host::doctor::{Entry, Footing, Kind, Place};

use super::facts::Store;
use super::finding::{Finding, Group, Level};
use super::site::bytes;

/// File systems of other machines, whose locks SQLite cannot rely on.
pub(super) const REMOTE: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"];
/// File systems whose content goes with the machine's next start.
pub(super) const FLEETING: [&str; 2] = ["tmpfs", "ramfs"];

pub(super) fn judge(store: &Store) -> Vec<Finding> {
    let findings = [Some(file(store)), file_system(store.place.as_ref()), backend(store)];
    findings.into_iter().flatten().map(|finding| finding.about(&store.name)).collect()
}

fn finding(check: &'static str, level: Level, what: impl Into<String>) -> Finding {
    Finding::new(Group::Store, check, level, what)
}

fn file(store: &Store) -> Finding {
    let path = store.path.display();
    let finding = |level, what: String| finding("file", level, what);
    match &store.file {
        Entry::There { kind: Kind::File, bytes: 0, .. } => finding(
            Level::Note,
            format!("{path} is an empty file: nothing has been written to the store yet"),
        ),
        Entry::There { kind: Kind::File, bytes: length, .. } => {
            finding(Level::Ok, format!("{path} is a file of {}", bytes(*length)))
        }
        Entry::There { kind, .. } => {
            let what = if *kind == Kind::Folder { "a folder" } else { "a device, a socket or a pipe" };
            finding(Level::Problem, format!("{path} is {what}"))
                .advise("name the database's file as the store's `path`")
        }
        Entry::Missing => finding(Level::Warning, format!("there is no file at {path}"))
            .advise("look at the store's `path`; until the file is there, nothing can be published"),
        Entry::Hidden(why) => finding(Level::Problem, format!("{path} cannot be looked at: {why}"))
            .advise("let the daemon's user pass through the folders above the file"),
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
        return finding(Level::Note, format!("{on}; it goes when the machine is restarted"));
    }
    finding(Level::Ok, on)
}

/// By what the store is kept. This version has one backend, so that what else would be possible is no more
/// than a note.
fn backend(store: &Store) -> Option<Finding> {
    let finding = |what| Some(finding("backend", Level::Note, what));
    let kept = "the store is kept by pages, the only backend of this version";
    match &store.footing {
        _ if store.file == Entry::Missing => None,
        Footing::Volume(volume) => {
            let (kind, pool) = match &volume.pool {
                Some(pool) => ("thin", format!(" in the pool {pool}")),
                None => ("classic", String::new()),
            };
            finding(format!(
                "{kept}; it stands on the logical volume {}{pool}, of which {kind} snapshots could be taken",
                volume.name
            ))
        }
        Footing::Plain(why) => finding(format!("{kept}; no volume could be cut under it, because {why}")),
        Footing::Unknown(why) => finding(format!("{kept}; what it stands on is not known: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use asat_host::doctor::Volume;

    use super::*;

    fn store(file: Entry, fs: &str, footing: Footing) -> Vec<Finding> {
        let place =
            Place { fs: fs.to_owned(), mount_point: PathBuf::from("/srv"), device: (254, 0), free: 1 << 30 };
        let path = PathBuf::from("/srv/r.db");
        judge(&Store { name: "report".to_owned(), path, file, place: Ok(place), footing })
    }

    fn entry(kind: Kind, bytes: u64) -> Entry {
        Entry::There { kind, bytes, owner: 0, mode: 0o644 }
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
            (
                Level::Note,
                "the store is kept by pages, the only backend of this version; no volume could be cut under it, \
                 because its device is a plain disk or partition",
            ),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn volumes_are_named_with_their_pools() {
        let volume = |pool: Option<&str>| {
            let volume = Volume { name: "vg/data".to_owned(), pool: pool.map(str::to_owned) };
            store(entry(Kind::File, 1), "xfs", Footing::Volume(volume)).remove(2).what
        };
        assert!(
            volume(None).ends_with("the logical volume vg/data, of which classic snapshots could be taken")
        );
        assert!(
            volume(Some("vg/pool"))
                .ends_with("vg/data in the pool vg/pool, of which thin snapshots could be taken")
        );
    }

    #[test]
    fn what_is_no_store_is_a_problem_and_what_is_not_there_yet_is_none() {
        let level = |file| store(file, "ext4", plain()).remove(0).level;
        assert_eq!(level(entry(Kind::Folder, 4096)), Level::Problem);
        assert_eq!(level(entry(Kind::Other, 0)), Level::Problem);
        assert_eq!(level(Entry::Hidden("Permission denied".to_owned())), Level::Problem);
        assert_eq!(level(Entry::Missing), Level::Warning);
        assert_eq!(level(entry(Kind::File, 0)), Level::Note);
        assert_eq!(store(Entry::Missing, "ext4", plain()).len(), 2, "nothing is said of its ground");
    }

    #[test]
    fn file_systems_that_lose_locks_or_content() {
        let level = |fs| store(entry(Kind::File, 1), fs, plain()).remove(1).level;
        assert_eq!((level("nfs4"), level("tmpfs"), level("btrfs")), (Level::Warning, Level::Note, Level::Ok));
    }
}
