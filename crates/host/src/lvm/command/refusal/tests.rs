//! The texts are those of lvm2 2.03.16, unless another version is named.

use super::*;

fn check(status: i32, errors: &str, expected: Refusal) {
    assert_eq!(refusal(status, errors), expected, "{errors}");
}

fn no_room(needed: u64, available: u64) -> Refusal {
    Refusal::NoRoom { needed: Some(Extents(needed)), available: Some(Extents(available)) }
}

#[test]
fn objects_that_are_not_there() {
    check(5, "  Failed to find logical volume \"vg/nope\"\n", Refusal::NoSuchVolume);
    check(5, "  Snapshot origin LV nope not found in Volume group vg.\n", Refusal::NoSuchVolume);
    check(5, "  Logical volume s2 not found in volume group vg.\n", Refusal::NoSuchVolume);
    check(5, "  Volume group \"nope\" not found\n  Cannot process volume group nope\n", Refusal::NoSuchGroup);
    check(5, "  Logical Volume \"data\" already exists in volume group \"vg\"\n", Refusal::AlreadyExists);
}

#[test]
fn too_little_room() {
    let pool = "  WARNING: Thin pool vg/pool is out of data space.
  Cannot create new thin volume, free space in thin pool vg/pool reached threshold.
";
    check(5, pool, Refusal::PoolFull);
    check(5, "  Insufficient free space: 4064 extents needed, but only 407 available\n", no_room(4064, 407));
    check(
        5,
        "  Volume group \"vg\" has insufficient free space (252 extents): 100000 required.\n",
        no_room(100_000, 252),
    );
    check(
        5,
        "  Insufficient suitable allocatable extents for logical volume x: 7 more required\n",
        Refusal::NoRoom { needed: None, available: None },
    );
    let silly = "  Insufficient free space: 99999999999999999999999 extents needed, but only available\n";
    check(5, silly, Refusal::NoRoom { needed: None, available: None });
}

#[test]
fn a_metadata_area_that_is_full() {
    check(
        5,
        "  VG vg 1036 metadata on /dev/sda (521596 bytes) exceeds maximum metadata size (521472 bytes)
  Failed to write VG vg.\n",
        Refusal::MetadataFull,
    );
    check(5, "  VG metadata too large for circular buffer\n", Refusal::MetadataFull);
}

#[test]
fn volumes_in_use_or_in_the_wrong_state() {
    check(5, "  Logical volume vg/asat_1 contains a filesystem in use.\n", Refusal::InUse);
    check(5, "  Logical volume vg/s2 in use.\n", Refusal::InUse);
    check(
        5,
        "  Snapshot origin volumes can be resized only while inactive: try lvchange -an.\n",
        Refusal::MustBeInactive,
    );
    check(5, "  Snapshots of snapshots are not supported.\n", Refusal::NotSupported);
    check(5, "  New size (28 extents) matches existing size (28 extents).\n", Refusal::SameSize);
}

#[test]
fn a_command_that_stopped_half_way_is_told_apart_from_all_others() {
    let text = "  Name \"vg-aaa-cow\" too long.
  Failed to set device name for vg-aaa-cow
  Failed to suspend logical volume vg/data.
  Aborting. Manual intervention required.
  WARNING: This metadata update is NOT backed up.
";
    check(5, text, Refusal::HalfDone);
    let also = format!("  Insufficient free space: 1 extents needed, but only 0 available\n{text}");
    check(5, &also, Refusal::HalfDone);
    let removal = "  device-mapper: suspend ioctl on  (254:3) failed: Invalid argument
  Unable to suspend vg-theirs (254:3)
  Failed to refresh data without snapshot.
  Releasing activation in critical section.
  libdevmapper exiting with 5 device(s) still suspended.
";
    check(5, removal, Refusal::HalfDone);
}

#[test]
fn locks_and_permissions() {
    let locked = "  /run/lock/lvm/V_vg: flock failed: Resource temporarily unavailable
  Can't get lock for vg.
  Cannot process volume group vg
";
    check(5, locked, Refusal::Locked);
    let nobody = "  WARNING: Running as a non-root user. Functionality may be unavailable.
  /dev/mapper/control: open failed: Permission denied
  Failure to communicate with kernel device-mapper driver.
  Incompatible libdevmapper 1.02.185 (2022-05-18) and kernel driver (unknown version).
  /run/lock/lvm/V_vg:aux: open failed: Permission denied
  Can't get lock for vg.
  Cannot process volume group vg
";
    check(5, nobody, Refusal::NotPermitted);
    let create = "  /dev/mapper/control: open failed: Permission denied
  Incompatible libdevmapper 1.02.185 (2022-05-18) and kernel driver (unknown version).
  striped: Required device-mapper target(s) not detected in your kernel.
  Run `lvcreate --help' for more information.
";
    check(3, create, Refusal::NotPermitted);
}

#[test]
fn command_lines_that_are_not_taken() {
    for text in [
        "  Logical volume name \"a b\" is invalid.\n  Run `lvcreate --help' for more information.\n",
        "  Names starting \"snapshot\" are reserved. Please choose a different LV name.\n",
        "  Names including \"_tmeta\" are reserved. Please choose a different LV name.\n",
        "  Invalid argument for --addtag: bad tag\n  Error during parsing of command line.\n",
        "lvcreate: unrecognized option '--bogus'\n  Error during parsing of command line.\n",
        "",
    ] {
        check(3, text, Refusal::BadArgument);
    }
}

#[test]
fn unknown_words_are_no_particular_reason() {
    for text in ["", "  Something new.\n", "\u{1b}[31m", "  Volume group \"vg\" is exported\n"] {
        check(5, text, Refusal::Other);
    }
    let warning = "  WARNING: Thin pool reached threshold. Manual intervention required.\n  Something new.\n";
    check(5, warning, Refusal::Other);
    check(-1, "", Refusal::Other);
}
