//! What somebody else has put where versions belong is named, and left as it is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use asat_host::mounts::{Error, Log};

use crate::lab::{Fs, Lab, in_lab};
use crate::lab_mounts::site::{INSIDE, Kind, Site, id, names, numbers};

fn in_the_way(error: Error) -> std::path::PathBuf {
    match error {
        Error::InTheWay { path, .. } => path,
        other => panic!("{other}"),
    }
}

#[test]
fn lab_what_somebody_else_made_is_named_and_left_alone() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Thin, Fs::Ext4);
        site.sql("CREATE TABLE t (x)");
        let (snapshot, other) = (site.cut("v1"), site.cut("v2"));
        // The first mount makes the folders.
        site.mount(&id(1), &snapshot).unwrap();
        let inside = |number| site.mounts.inside(&id(number));
        let shown = |number| site.mounts.path(&id(number));
        let elsewhere = machine.folder("elsewhere");

        fs::create_dir(inside(2)).unwrap();
        fs::write(inside(2).join("notes"), "somebody's").unwrap();
        assert_eq!(in_the_way(site.mount(&id(2), &other).unwrap_err()), inside(2).join("notes"));
        symlink(&elsewhere, inside(3)).unwrap();
        assert_eq!(in_the_way(site.mount(&id(3), &other).unwrap_err()), inside(3));
        fs::create_dir(inside(4)).unwrap();
        machine.run("mount", &["-t", "tmpfs", "none", inside(4).to_str().unwrap()]);
        fs::write(inside(4).join("notes"), "somebody's").unwrap();
        for error in [site.mount(&id(4), &other).unwrap_err(), site.mounts.unmount(&id(4)).unwrap_err()] {
            assert_eq!(in_the_way(error), inside(4));
        }
        // Another version's snapshot is as foreign.
        assert_eq!(in_the_way(site.mount(&id(1), &other).unwrap_err()), inside(1));

        fs::create_dir(shown(1).parent().unwrap()).unwrap();
        fs::write(shown(1), "somebody's").unwrap();
        assert_eq!(in_the_way(site.show(&id(1)).unwrap_err()), shown(1));
        site.mounts.hide(&id(1)).unwrap();
        assert_eq!(fs::read(shown(1)).unwrap(), b"somebody's");
        machine.run("mount", &["--bind", "/etc/passwd", shown(1).to_str().unwrap()]);
        for error in [site.show(&id(1)).unwrap_err(), site.mounts.hide(&id(1)).unwrap_err()] {
            assert_eq!(in_the_way(error), shown(1));
        }

        let found: Vec<_> =
            site.mounts.survey().unwrap().into_iter().map(|found| (found.id, found.shown)).collect();
        assert_eq!(found, [(id(1), false)]);
        machine.run("umount", &[shown(1).to_str().unwrap()]);
        assert_eq!(fs::read(shown(1)).unwrap(), b"somebody's");
        assert_eq!(fs::read(inside(4).join("notes")).unwrap(), b"somebody's");
        assert_eq!(names(&inside(2)), ["notes"]);
        machine.run("umount", &[inside(4).to_str().unwrap()]);
        site.mounts.unmount(&id(1)).unwrap();
        assert_eq!(names(&site.root.join(".snapshots")), ["report@2", "report@3", "report@4"]);
    });
}

#[test]
fn lab_only_the_snapshots_own_file_is_shown() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Thin, Fs::Ext4);
        site.sql("CREATE TABLE t (x)");
        symlink("/etc", site.origin.path("trap")).unwrap();
        symlink("report.db", site.origin.path("srv/link.db")).unwrap();
        let snapshot = site.cut("v1");
        let show = |inside: &str| site.mounts.show(&id(1), Path::new(inside)).unwrap_err();
        assert!(matches!(show(INSIDE), Error::NotMounted(_)));
        let wrong = site
            .mounts
            .mount(&id(1), &site.origin.device, numbers(&snapshot), "ext4", Log::Empty)
            .unwrap_err();
        assert!(matches!(&wrong, Error::NotTheDevice { path, .. } if *path == site.origin.device), "{wrong}");
        assert!(site.mounts.mount(&id(1), &snapshot.device, numbers(&snapshot), "xfs", Log::Empty).is_err());
        assert_eq!(names(&site.root.join(".snapshots")), Vec::<String>::new());
        site.mount(&id(1), &snapshot).unwrap();
        // A link could lead root anywhere.
        for trap in ["/trap/passwd", "/srv/link.db", "/srv", "/../../etc/passwd"] {
            let error = show(trap);
            assert!(matches!(&error, Error::NotAFile(path) if path == Path::new(trap)), "{error}");
        }
        for missing in ["/srv/other.db", "/srv/report.db/x"] {
            let error = show(missing);
            assert!(matches!(&error, Error::NoSuchFile(path) if path == Path::new(missing)), "{error}");
        }
        assert_eq!(names(&site.root), [".snapshots"]);
    });
}
