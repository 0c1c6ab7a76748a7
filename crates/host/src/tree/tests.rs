//! The numbers that the kernel is told, and which mounts are ours.

use asat_core::tree::Node;
use proptest::prelude::*;

use super::Error;
use super::inodes::Inodes;
use super::mounted::is_ours;
use super::mounting::{check_empty, others_may};
use crate::volume::mounts;

fn version(number: u8) -> Node {
    Node::Version(format!("report@{}", u64::from(number) + 1).parse().unwrap())
}

proptest! {
    /// Told and forgotten in any order, a place keeps its number for as long as the kernel knows it, no number stands
    /// for two places, and nothing stays that the kernel has forgotten.
    #[test]
    fn numbers_follow_what_the_kernel_knows(steps in proptest::collection::vec((0_u8..6, 0_u64..4), 0..200)) {
        let mut inodes = Inodes::new();
        // What the kernel knows of each place: its number, and how often it was told.
        let mut known = std::collections::BTreeMap::<u8, (u64, u64)>::new();
        let mut given = std::collections::BTreeSet::from([1]);
        for (place, forgotten) in steps {
            if forgotten == 0 {
                let number = inodes.tell(&version(place));
                let entry = known.entry(place).or_insert_with(|| {
                    assert!(given.insert(number), "{number} was given before");
                    (number, 0)
                });
                prop_assert_eq!(entry.0, number);
                entry.1 += 1;
            } else if let Some((number, told)) = known.get_mut(&place) {
                let times = forgotten.min(*told);
                inodes.forget(*number, times);
                *told -= times;
                if *told == 0 {
                    prop_assert_eq!(inodes.node(*number), None);
                    known.remove(&place);
                }
            }
            for (place, (number, _)) in &known {
                prop_assert_eq!(inodes.node(*number), Some(&version(*place)));
            }
            prop_assert_eq!(inodes.len(), known.len() + 1);
        }
    }
}

#[test]
fn the_root_is_never_forgotten() {
    let mut inodes = Inodes::new();
    inodes.forget(1, u64::MAX);
    assert_eq!(inodes.node(1), Some(&Node::Root));
    inodes.forget(99, 1);
    assert_eq!(inodes.node(99), None);
}

#[test]
fn only_a_tree_of_the_same_name_is_ours() {
    let line =
        |fs: &str, source: &str| format!("40 30 0:50 / /srv/versions ro,nosuid - {fs} {source} ro,user_id=0");
    for (fs, source, ours) in [
        ("fuse", "asat-1", true),
        ("fuse.asat", "asat-1", true),
        ("fuse.asat", "asat-2", false),
        ("fuse.sshfs", "host:/", false),
        ("fuseblk", "asat-1", false),
        ("ext4", "asat-1", false),
    ] {
        let mount = &mounts::parse(&line(fs, source))[0];
        assert_eq!(is_ours(mount, "asat-1"), ours, "{fs} {source}");
    }
}

#[test]
fn a_root_is_empty_or_not_there_yet() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a root");
    check_empty(&root).unwrap();
    std::fs::create_dir(&root).unwrap();
    check_empty(&root).unwrap();
    let file = root.join("a file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(check_empty(&root), Err(Error::InTheWay { path, .. }) if path == root));
    assert!(matches!(check_empty(&file), Err(Error::Io { .. })));
}

#[test]
fn others_look_into_what_is_mounted_for_a_user_where_a_line_of_the_rules_says_so() {
    for rules in ["user_allow_other", "mount_max = 10\n user_allow_other\t# for asat\n"] {
        assert!(others_may(rules), "{rules:?}");
    }
    for rules in
        ["", "#user_allow_other", "# see user_allow_other", "user_allow_other = 1", "user_allow_others"]
    {
        assert!(!others_may(rules), "{rules:?}");
    }
}
