//! The same on btrfs. The guests' kernel does not have it, and so the checks run under this machine's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::lab::WHERE;
use crate::lab_reflink::site::FS;

/// Why this machine's kernel cannot be used for it, where that is so.
fn obstacle() -> Option<&'static str> {
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    if !known.lines().any(|line| line.trim() == "btrfs") {
        return Some("its kernel has no btrfs (sudo modprobe btrfs)");
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("its kernel has no loop devices (sudo modprobe loop)");
    }
    (!rustix::process::geteuid().is_root()).then_some("this is not root, and cannot mount")
}

#[test]
fn all_of_this_holds_on_btrfs_too() {
    if std::env::var(WHERE).is_ok() {
        return;
    }
    if let Some(why) = obstacle() {
        return println!("not tested on btrfs on this machine: {why}");
    }
    let checks = Command::new(std::env::current_exe().unwrap())
        .args(["lab_reflink::", "--test-threads=1"])
        .envs([(WHERE, "loop"), (FS, "btrfs")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checks.stdout).into_owned();
    assert!(checks.status.success(), "{said}{}", String::from_utf8_lossy(&checks.stderr));
    assert!(!said.contains(" 0 passed"), "{said}");
}
