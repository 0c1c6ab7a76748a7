//! The mount table as the kernel writes it, and as it never would.

use super::*;

/// As kernel 6.1 writes it, with a bind mount, a blank in a path, and an overlay.
const TABLE: &str = r"21 1 0:17 / / rw,relatime - overlay overlay rw,lowerdir=/,upperdir=/mnt/up,workdir=/mnt/wk
24 21 0:5 / /dev rw,relatime - devtmpfs dev rw,mode=755
32 21 254:0 / /mnt/a\040b rw,relatime shared:1 master:2 - ext4 /dev/mapper/vg-data rw
33 21 254:0 /sub /mnt/bind rw,relatime - ext4 /dev/mapper/vg-data rw
34 33 254:0 /sub/report.db /srv/report.db rw - ext4 /dev/mapper/vg-data rw
35 21 254:9 / /srv/x rw - xfs /dev/mapper/vg-x rw,attr2,logdev=/dev/mapper/vg-log,noquota
36 21 0:31 /@ /srv/b rw - btrfs /dev/mapper/vg-b rw,subvol=/@
";

fn place(path: &str, mount: u64, device: (u32, u32)) -> Place {
    Place { path: path.into(), mount, device }
}

fn found(places: &[Place]) -> Result<u64, Obstacle> {
    locate(&parse(TABLE), places).map(|mount| mount.id).map_err(|(_, why)| why)
}

#[test]
fn the_table_is_read() {
    let mounts = parse(TABLE);
    assert_eq!(mounts.len(), 7);
    assert_eq!(mounts[2].mount_point, Path::new("/mnt/a b"));
    assert_eq!((mounts[2].device, mounts[2].fs.as_str()), ((254, 0), "ext4"));
    assert_eq!(mounts[3].root, Path::new("/sub"));
    assert_eq!(parse_mount_id("pos:\t0\nflags:\t012000000\nmnt_id:\t32\nino:\t7\n"), Some(32));
}

#[test]
fn a_store_is_found_in_its_file_system_through_bind_mounts_too() {
    let mounts = parse(TABLE);
    let inside = |mount: usize, path: &str| mounts[mount].inside(Path::new(path));
    assert_eq!(inside(2, "/mnt/a b/sub/report.db"), Some("/sub/report.db".into()));
    assert_eq!(inside(3, "/mnt/bind/report.db"), Some("/sub/report.db".into()));
    assert_eq!(inside(4, "/srv/report.db"), Some("/sub/report.db".into()));
    assert_eq!(inside(4, "/srv/report.db").unwrap().as_os_str(), "/sub/report.db");
    assert_eq!(inside(3, "/mnt/bindings/report.db"), None);
}

#[test]
fn all_of_a_store_must_be_on_one_mount_with_one_device() {
    let db = place("/mnt/bind/r.db", 33, (254, 0));
    assert_eq!(found(&[db.clone(), place("/mnt/bind", 33, (254, 0))]), Ok(33));
    // The same file system by another way: a snapshot would do, but the sidecars would be looked for
    // elsewhere.
    let elsewhere = place("/mnt/bind", 32, (254, 0));
    assert_eq!(found(&[db.clone(), elsewhere]), Err(Obstacle::SpansMounts("/mnt/bind".into())));
    let other_device = place("/mnt/bind/r.db-wal", 33, (254, 9));
    assert_eq!(found(&[db, other_device]), Err(Obstacle::SpansMounts("/mnt/bind/r.db-wal".into())));
    assert_eq!(found(&[place("/r.db", 21, (0, 17))]), Err(Obstacle::NoDevice("overlay".to_owned())));
    assert_eq!(found(&[place("/srv/b/r.db", 36, (0, 32))]), Err(Obstacle::NoDevice("btrfs".to_owned())));
    let log = Obstacle::SpansDevices("logdev=/dev/mapper/vg-log".to_owned());
    assert_eq!(found(&[place("/srv/x/r.db", 35, (254, 9))]), Err(log));
    assert_eq!(found(&[place("/r.db", 99, (254, 9))]), Err(Obstacle::UnknownMount));
    assert_eq!(found(&[]), Err(Obstacle::UnknownMount));
}

#[test]
fn hostile_lines_are_passed_over() {
    let good = "32 21 254:0 / /mnt/a rw,relatime shared:1 - ext4 /dev/mapper/vg-data rw";
    assert_eq!(parse(good).len(), 1);
    for (old, new) in [
        ("32 ", "-32 "),
        ("32 ", "+32 "),
        ("32 ", "99999999999999999999 "),
        ("254:0", "254"),
        ("254:0", "4294967296:0"),
        ("254:0", "254:0:1"),
        ("/mnt/a", "mnt/a"),
        ("/mnt/a", r"/mnt/\04"),
        ("/mnt/a", r"/mnt/\08a"),
        ("/mnt/a", r"/mnt/\777"),
        ("/mnt/a", r"/mnt/\"),
        (" - ", " "),
        (" - ext4 ", " -  "),
        (" /mnt", "  /mnt"),
    ] {
        assert_eq!(parse(&good.replacen(old, new, 1)), [], "{new}");
    }
    for end in 0..good.len() {
        let _ = parse(&good[..end]);
    }
    for text in ["", "mnt_id:", "mnt_id:\t-1", "mnt_id:\tx", "xmnt_id: 7"] {
        assert_eq!(parse_mount_id(text), None, "{text}");
    }
    // Not UTF-8, and every byte that the kernel escapes.
    let odd = parse(&good.replace("/mnt/a", r"/\377\011\012\134\043"));
    assert_eq!(odd[0].mount_point.as_os_str().as_encoded_bytes(), b"/\xff\t\n\\#");
}
