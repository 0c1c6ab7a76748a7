//! Readers that are at work while a version is taken away, and readers in mount namespaces of their own.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use asat_host::mounts::{Error, in_use};

use crate::lab::{Fs, Lab, Machine, in_lab};
use crate::lab_mounts::site::{KINDS, Kind, Site, id, names, read};

/// A program that answers each line with one.
struct Talk {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Talk {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    fn say(&mut self, line: &str) -> String {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    fn end(mut self) {
        self.to = None;
        assert!(self.child.wait().unwrap().success());
    }
}

fn reader(machine: &Machine, path: &Path) -> Talk {
    Talk::start(machine.command("sqlite3").arg(format!("file:{}?mode=ro", path.display())))
}

#[test]
fn lab_who_has_a_hidden_version_open_reads_on_and_holds_its_device() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        for (kind, fs) in [(Kind::Classic, Fs::Ext4), (Kind::Thin, Fs::Xfs)] {
            let site = Site::set_up(machine, kind, fs);
            site.sql("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(4000000)), (1)");
            let snapshot = site.cut("v1");
            site.mount(&id(1), &snapshot).unwrap();
            let path = site.show(&id(1)).unwrap();
            let mut reader = reader(machine, &path);
            assert_eq!(reader.say("SELECT count(*) FROM t;"), "2");
            site.mounts.hide(&id(1)).unwrap();
            assert!(!path.exists() && !path.parent().unwrap().exists());
            // Not all of this can have been read before.
            assert_eq!(reader.say("SELECT sum(length(hex(x))) FROM t;"), "8000002");
            site.mounts.unmount(&id(1)).unwrap();
            assert_eq!(site.mounts.survey().unwrap(), []);
            assert_eq!(reader.say("PRAGMA integrity_check;"), "ok");
            // The mounts are gone, and the file system stays for as long as somebody has a file of it open.
            assert!(in_use(&snapshot.device).unwrap());
            let refused = site.remove(&snapshot).unwrap_err();
            assert!(refused.contains("in use"), "{refused}");
            // Meanwhile the version can be shown again.
            site.mount(&id(1), &snapshot).unwrap();
            assert_eq!(read(machine, &site.show(&id(1)).unwrap(), "SELECT count(*) FROM t"), "2");
            site.mounts.unmount(&id(1)).unwrap();
            reader.end();
            assert!(!in_use(&snapshot.device).unwrap());
            site.remove(&snapshot).unwrap();
        }
    });
}

#[test]
fn lab_a_snapshot_in_which_somebody_works_is_busy() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        for kind in KINDS {
            let site = Site::set_up(machine, kind, Fs::Ext4);
            site.sql("CREATE TABLE t (x)");
            let snapshot = site.cut("v1");
            let inside = site.mount(&id(1), &snapshot).unwrap();
            site.show(&id(1)).unwrap();
            let held = File::open(inside.join("srv/report.db")).unwrap();
            let error = site.mounts.unmount(&id(1)).unwrap_err();
            assert!(matches!(&error, Error::Busy(path) if *path == inside), "{error}");
            let mounted = site.mounts.survey().unwrap();
            assert_eq!(mounted.iter().map(|mounted| mounted.shown).collect::<Vec<_>>(), [false]);
            // Whoever works there only for a moment is waited for.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    drop(held);
                });
                site.mounts.unmount(&id(1)).unwrap();
            });
            assert!(!in_use(&snapshot.device).unwrap());
        }
    });
}

/// As for a service with `PrivateTmp=`: what is mounted on the host reaches it, and what is unmounted leaves it.
#[test]
fn lab_readers_in_other_mount_namespaces_see_versions_come_and_go() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Thin, Fs::Ext4);
        site.sql("CREATE TABLE t (x); INSERT INTO t VALUES (1)");
        let snapshots = [site.cut("v1"), site.cut("v2")];
        let folder = site.root.parent().unwrap();
        machine.run("mount", &["--bind", folder.to_str().unwrap(), folder.to_str().unwrap()]);
        machine.run("mount", &["--make-shared", folder.to_str().unwrap()]);
        site.mount(&id(1), &snapshots[0]).unwrap();
        site.show(&id(1)).unwrap();
        let script = "while read -r line; do sh -c \"$line\" 2>&1 | tail -n 1; done";
        let arguments = ["--mount", "--propagation", "slave", "sh", "-c", script];
        let mut service = Talk::start(machine.command("unshare").args(arguments));
        let paths = [1, 2].map(|number| site.mounts.path(&id(number)));
        let query = |path: &Path, sql: &str| format!("sqlite3 {} '{sql}'", path.display());
        assert_eq!(service.say(&query(&paths[0], "SELECT count(*) FROM t")), "1");
        site.mount(&id(2), &snapshots[1]).unwrap();
        site.show(&id(2)).unwrap();
        assert_eq!(service.say(&query(&paths[1], "SELECT count(*) FROM t")), "1");
        let flags = "ro,nosuid,nodev,noexec,noatime ";
        assert_eq!(service.say(&format!("grep report@ /proc/self/mountinfo | grep -c '{flags}'")), "4");
        assert!(service.say(&query(&paths[1], "DELETE FROM t")).contains("readonly"));
        for (number, snapshot) in [(1, &snapshots[0]), (2, &snapshots[1])] {
            site.mounts.unmount(&id(number)).unwrap();
            assert!(!in_use(&snapshot.device).unwrap(), "another namespace holds version {number}");
        }
        assert_eq!(service.say("grep -c report@ /proc/self/mountinfo"), "0");
        assert_eq!(names(&site.root), [".snapshots"]);
        service.end();
        machine.run("umount", &[folder.to_str().unwrap()]);
    });
}
