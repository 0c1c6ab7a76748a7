//! How a store is cut, judged: what the daemon would choose, and why not otherwise.

use asat_core::sizing;
use asat_core::snapshot::BackendKind;
use asat_host::clones::{MANY_PIECES, is_tested};
use asat_host::doctor::{Footing, PathKind, Pool, Volume};

use super::facts::Store;
use super::finding::{Finding, Group, Level};
use super::site::bytes;

/// From here on LVM refuses new snapshots in a pool, for the room in its metadata.
const FULL_METADATA: u64 = 75;
/// From here on a pool had better be extended.
const FULL_DATA: u64 = 80;

const MEND: &str = "write backend \"pages\", or mend what is in the way";

/// What is to be said of a store's backend. Of a store that is not there, nothing can be.
pub(super) fn judge(store: &Store) -> Vec<Finding> {
    if store.file == PathKind::Missing {
        return Vec::new();
    }
    match (&store.footing, store.backend) {
        (_, Some(BackendKind::Pages)) => vec![said(Level::Ok, "cut by pages, as the configuration says")],
        (_, Some(BackendKind::Reflink)) => cloned(store, "as the configuration says").unwrap_or_else(|why| {
            let what = format!("to be cut by reflink, which cannot be: {why}");
            vec![said(Level::Problem, what).advise(MEND)]
        }),
        (Footing::Volume(volume), wanted) => on_volume(store, volume, wanted),
        (Footing::Plain(why) | Footing::Unknown(why), None) => without_volume(store, why),
        (Footing::Plain(why) | Footing::Unknown(why), Some(wanted)) => {
            let what = format!("to be cut by {}, which cannot be: {why}", wanted.text());
            vec![said(Level::Problem, what).advise(MEND)]
        }
    }
}

/// Whether the daemon would read its pages, and neither clone it nor take a snapshot of its volume.
pub(super) fn is_by_pages(store: &Store) -> bool {
    let is_long =
        matches!(store.file, PathKind::There { bytes, .. } if bytes >= BackendKind::LEAST_FOR_CLONES);
    let is_tested = store.place.as_ref().is_ok_and(|place| is_tested(&place.fs));
    let is_cloned = is_long && is_tested && store.cloning.is_ok();
    match store.backend {
        Some(backend) => backend == BackendKind::Pages,
        None => !matches!(store.footing, Footing::Volume(_)) && !is_cloned,
    }
}

/// What is to be said where no snapshot can be taken of a volume, and nobody has chosen.
fn without_volume(store: &Store, why: &str) -> Vec<Finding> {
    let plain = format!("cut by pages; no snapshot can be taken, because {why}");
    match store.file {
        PathKind::There { bytes: length, .. } if length >= BackendKind::LEAST_FOR_CLONES => {
            let because = format!(
                "since reading its {} takes long, and no snapshot can be taken: {why}",
                bytes(length)
            );
            let tested = match &store.place {
                Ok(place) if !is_tested(&place.fs) => {
                    Err(format!("they are chosen on XFS and btrfs only, and not on {}", place.fs))
                }
                _ => Ok(()),
            };
            tested.and_then(|()| cloned(store, &because)).unwrap_or_else(|no_clones| {
                vec![said(Level::Note, format!("{plain}; and no clones: {no_clones}"))]
            })
        }
        _ => vec![said(Level::Note, plain)],
    }
}

/// What is to be said of a store that is cut by clones, or why it cannot be.
fn cloned(store: &Store, because: &str) -> Result<Vec<Finding>, String> {
    let pieces = store.cloning.clone()?;
    let how = said(Level::Ok, format!("cut by reflink, {because}"));
    Ok(std::iter::once(how).chain(pieces.map(in_pieces)).chain(room_for_clones(store)).collect())
}

/// Says where the file system may run full by clones: what is written over while there is one takes new space, up to all that
/// the store has.
fn room_for_clones(store: &Store) -> Option<Finding> {
    let (Ok(place), PathKind::There { bytes: length, .. }) = (&store.place, &store.file) else { return None };
    let what = format!("{} are free for what is written while there is a clone", bytes(place.free));
    if place.free >= *length {
        return Some(finding("room-for-clones", Level::Ok, what));
    }
    let what = format!("{what}, which may be as much as {}", bytes(*length));
    let advice = "free space there: without it, programs that write to the store hear that the disk is full";
    Some(finding("room-for-clones", Level::Warning, what).advise(advice))
}

/// Says where cloning is slow: nobody can read or write a file while it is cloned, and that takes the file system some
/// work for each piece.
fn in_pieces(pieces: u32) -> Finding {
    let plural = if pieces == 1 { "" } else { "s" };
    let what = format!("the file lies in {pieces} piece{plural}");
    if pieces < MANY_PIECES {
        return finding("pieces", Level::Ok, what);
    }
    let what = format!(
        "{what}; from {MANY_PIECES} on cloning takes half a second and more, in which nobody can read or write the store"
    );
    finding("pieces", Level::Warning, what).advise(
        "put its pieces together while it is quiet (xfs_fsr, or btrfs filesystem defragment), or write backend \"pages\"",
    )
}

fn on_volume(store: &Store, volume: &Volume, wanted: Option<BackendKind>) -> Vec<Finding> {
    let Volume { name, group_free, pool } = volume;
    if wanted == Some(BackendKind::LvmThin) && pool.is_none() {
        let what = format!("to be cut by lvm-thin, and the store lies on the plain volume {name}");
        return vec![said(Level::Problem, what).advise("write backend \"lvm-classic\" or \"auto\"")];
    }
    if store.beside_state {
        let level = if wanted.is_some() { Level::Problem } else { Level::Warning };
        let what = format!("no snapshot can be taken of {name}: the state folder lies on it too");
        return vec![said(level, what).advise("put `state` on another volume, or write backend \"pages\"")];
    }
    let by = wanted.unwrap_or_else(|| BackendKind::best(pool.is_some(), *group_free, store.keep_snapshots));
    let kind = if pool.is_some() { "thin" } else { "plain" };
    let how = format!("cut by {}: snapshots of the {kind} volume {name}", by.text());
    let mut findings = match pool {
        Some(pool) if by == BackendKind::LvmThin && wanted.is_none() && store.keep_snapshots == 0 => {
            vec![said(Level::Note, how).advise(better_than_thin(name)), room_in_pool(pool)]
        }
        Some(pool) if by == BackendKind::LvmThin => vec![said(Level::Ok, how), room_in_pool(pool)],
        _ => vec![said(Level::Ok, how), room_in_group(volume)],
    };
    findings.extend(store.beside_needed.map(|needed| brake(name, needed)));
    findings
}

/// A store whose writers are never held, since that would hold up whatever makes room for them.
fn brake(volume: &str, needed: &str) -> Finding {
    let what = format!(
        "{needed} lies on {volume}, as the store does, and LVM needs it to make room: writers are never held there"
    );
    finding("brake", Level::Warning, what).advise(
        "put the store on a volume of its own, or a fast writer may fill a snapshot before it is extended",
    )
}

/// What would do better than a thin snapshot that goes again soon, and what it takes.
fn better_than_thin(volume: &str) -> String {
    let group = volume.split('/').next().unwrap_or_default();
    let least = bytes(sizing::FLOOR);
    format!(
        "classic snapshots would write less to the disk; they need at least {least} free in the group {group}"
    )
}

fn room_in_group(volume: &Volume) -> Finding {
    let group = volume.name.split('/').next().unwrap_or_default();
    let what = format!("{} are free in the group {group} for classic snapshots", bytes(volume.group_free));
    if volume.group_free >= sizing::FLOOR {
        return finding("room-for-snapshots", Level::Ok, what);
    }
    let advice =
        format!("a snapshot takes at least {}: add a physical volume (vgextend)", bytes(sizing::FLOOR));
    finding("room-for-snapshots", Level::Warning, what).advise(advice)
}

fn room_in_pool(pool: &Pool) -> Finding {
    let Pool { name, used } = pool;
    let Some((data, metadata)) = used else {
        return finding(
            "room-for-snapshots",
            Level::Note,
            format!("how full the pool {name} is, LVM does not say"),
        );
    };
    let what = format!("the pool {name} has used {data} % of its data and {metadata} % of its metadata");
    if *metadata >= FULL_METADATA {
        let advice = format!(
            "LVM takes no snapshots from {FULL_METADATA} % on: lvextend --poolmetadatasize +1G {name}"
        );
        return finding("room-for-snapshots", Level::Problem, what).advise(advice);
    }
    if *data >= FULL_DATA {
        let advice = format!("a full pool stops each program that writes to it: lvextend --size +10G {name}");
        return finding("room-for-snapshots", Level::Warning, what).advise(advice);
    }
    finding("room-for-snapshots", Level::Ok, what)
}

fn said(level: Level, what: impl Into<String>) -> Finding {
    finding("backend", level, what)
}

fn finding(check: &'static str, level: Level, what: impl Into<String>) -> Finding {
    Finding::new(Group::Store, check, level, what)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use asat_host::doctor::{Kind, Place};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn store(
        footing: Footing,
        backend: Option<BackendKind>,
        keep_snapshots: usize,
        beside_state: bool,
    ) -> Store {
        let file = PathKind::There { kind: Kind::File, bytes: 1, owner: 0, mode: 0o644, links: 1 };
        let (name, path) = ("report".to_owned(), PathBuf::from("/srv/r.db"));
        let place = Err("not asked".to_owned());
        let cloning = Err("its file system has no reflinks".to_owned());
        Store {
            sharing: None,
            name,
            path,
            file,
            place,
            footing,
            cloning,
            backend,
            keep_snapshots,
            watched: None,
            tracked: None,
            beside_state,
            beside_needed: None,
        }
    }

    fn volume(group_free: u64, used: Option<(u64, u64)>) -> Footing {
        let pool = used.map(|used| Pool { name: "vg/pool".to_owned(), used: Some(used) });
        Footing::Volume(Volume { name: "vg/data".to_owned(), group_free, pool })
    }

    fn on_pool(group_free: u64) -> Footing {
        volume(group_free, Some((1, 1)))
    }

    fn plain() -> Footing {
        Footing::Plain("its device is a plain disk or partition".to_owned())
    }

    #[test]
    fn what_would_be_chosen() {
        let (thin, classic, pages) =
            (Some(BackendKind::LvmThin), Some(BackendKind::LvmClassic), Some(BackendKind::Pages));
        let cases = [
            (plain(), None, 0, false, Level::Note, "cut by pages; no snapshot can be taken"),
            (plain(), pages, 0, false, Level::Ok, "cut by pages, as the configuration says"),
            (plain(), thin, 0, false, Level::Problem, "to be cut by lvm-thin, which cannot be"),
            (
                volume(GIB, None),
                None,
                0,
                false,
                Level::Ok,
                "cut by lvm-classic: snapshots of the plain volume",
            ),
            (
                volume(GIB, None),
                None,
                2,
                false,
                Level::Ok,
                "cut by lvm-classic: snapshots of the plain volume",
            ),
            (
                on_pool(GIB),
                None,
                0,
                false,
                Level::Ok,
                "cut by lvm-classic: snapshots of the thin volume vg/data",
            ),
            (
                on_pool(GIB),
                None,
                2,
                false,
                Level::Ok,
                "cut by lvm-thin: snapshots of the thin volume vg/data",
            ),
            (
                on_pool(0),
                None,
                0,
                false,
                Level::Note,
                "cut by lvm-thin: snapshots of the thin volume vg/data",
            ),
            (
                on_pool(GIB),
                thin,
                0,
                false,
                Level::Ok,
                "cut by lvm-thin: snapshots of the thin volume vg/data",
            ),
            (
                on_pool(0),
                classic,
                0,
                false,
                Level::Ok,
                "cut by lvm-classic: snapshots of the thin volume vg/data",
            ),
            (volume(GIB, None), thin, 0, false, Level::Problem, "lies on the plain volume vg/data"),
            (volume(GIB, None), None, 0, true, Level::Warning, "the state folder lies on it too"),
            (volume(GIB, None), classic, 0, true, Level::Problem, "the state folder lies on it too"),
            (volume(GIB, None), pages, 0, true, Level::Ok, "cut by pages, as the configuration says"),
        ];
        for (footing, backend, keep_snapshots, beside_state, level, words) in cases {
            let found = judge(&store(footing, backend, keep_snapshots, beside_state)).remove(0);
            assert!(found.level == level && found.what.contains(words), "{words}: {found:?}");
        }
    }

    #[test]
    fn a_store_beside_what_lvm_needs() {
        let mut store = store(volume(GIB, None), None, 0, false);
        assert!(judge(&store).iter().all(|found| found.level == Level::Ok));
        store.beside_needed = Some("/etc/lvm");
        let found = judge(&store).pop().unwrap();
        assert!(
            found.level == Level::Warning && found.what.contains("/etc/lvm lies on vg/data"),
            "{found:?}"
        );
    }

    #[test]
    fn what_can_be_cloned() {
        let (able, unable) = (Ok(Some(3)), Err("its file system has no reflinks".to_owned()));
        let (large, small) = (BackendKind::LEAST_FOR_CLONES, BackendKind::LEAST_FOR_CLONES - 1);
        let cases = [
            (
                Some(BackendKind::Reflink),
                small,
                able.clone(),
                Level::Ok,
                "cut by reflink, as the configuration says",
            ),
            (
                Some(BackendKind::Reflink),
                large,
                unable.clone(),
                Level::Problem,
                "which cannot be: its file system has",
            ),
            (None, large, able.clone(), Level::Ok, "cut by reflink, since reading its 1.0 GiB takes long"),
            (None, small, able, Level::Note, "cut by pages; no snapshot can be taken"),
            (None, large, unable, Level::Note, "and no clones: its file system has no reflinks"),
        ];
        for (backend, bytes, cloning, level, words) in cases {
            let file = PathKind::There { kind: Kind::File, bytes, owner: 0, mode: 0o644, links: 1 };
            let found = judge(&Store { file, cloning, ..store(plain(), backend, 0, false) }).remove(0);
            assert!(found.level == level && found.what.contains(words), "{words}: {found:?}");
        }
    }

    #[test]
    fn clones_are_taken_unasked_only_where_they_are_tested() {
        for (fs, words) in [
            ("xfs", "cut by reflink"),
            ("btrfs", "cut by reflink"),
            ("ocfs2", "and no clones: they are chosen on XFS and btrfs only"),
        ] {
            let place =
                Place { fs: fs.to_owned(), mount_point: PathBuf::from("/srv"), device: (8, 1), free: GIB };
            let file = PathKind::There { kind: Kind::File, bytes: GIB, owner: 0, mode: 0o644, links: 1 };
            let able = Store { file, place: Ok(place), cloning: Ok(None), ..store(plain(), None, 0, false) };
            assert!(judge(&able)[0].what.contains(words), "{fs}: {:?}", judge(&able));
            let asked = Store { backend: Some(BackendKind::Reflink), ..able };
            assert!(judge(&asked)[0].what.contains("cut by reflink"), "{fs}: {:?}", judge(&asked));
        }
    }

    #[test]
    fn many_pieces_are_warned_of() {
        for (pieces, level) in [(1, Level::Ok), (MANY_PIECES - 1, Level::Ok), (MANY_PIECES, Level::Warning)] {
            let store = store(plain(), Some(BackendKind::Reflink), 0, false);
            let found = judge(&Store { cloning: Ok(Some(pieces)), ..store }).remove(1);
            assert_eq!((found.check, found.level), ("pieces", level), "{pieces}");
        }
    }

    #[test]
    fn room_for_what_is_written_beside_a_clone() {
        for (free, level) in [(GIB, Level::Ok), (GIB - 1, Level::Warning)] {
            let place =
                Place { fs: "xfs".to_owned(), mount_point: PathBuf::from("/srv"), device: (8, 1), free };
            let file = PathKind::There { kind: Kind::File, bytes: GIB, owner: 0, mode: 0o644, links: 1 };
            let store = store(plain(), Some(BackendKind::Reflink), 0, false);
            let found = judge(&Store { file, place: Ok(place), cloning: Ok(None), ..store }).remove(1);
            assert_eq!((found.check, found.level), ("room-for-clones", level), "{free}");
        }
    }

    #[test]
    fn room_for_snapshots() {
        let cases = [
            (volume(1 << 30, None), Level::Ok),
            (volume(1 << 20, None), Level::Warning),
            (volume(1 << 30, Some((80, 75))), Level::Ok),
            (volume(0, Some((10, 10))), Level::Ok),
            (volume(0, Some((80, 10))), Level::Warning),
            (volume(0, Some((10, 75))), Level::Problem),
        ];
        for (footing, level) in cases {
            let found = judge(&store(footing.clone(), None, 0, false)).remove(1);
            assert_eq!((found.check, found.level), ("room-for-snapshots", level), "{footing:?}");
        }
    }
}
