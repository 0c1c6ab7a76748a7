//! A full disk where history is exported to, and where it is imported.

use std::path::Path;
use std::process::Output;

use super::{MIB, PAGE, SmallDisk};

/// What a command says by its exit where the storage is full (`docs/api.md`).
const STORAGE_FULL: i32 = 8;

impl SmallDisk {
    /// Runs the program in the disk's namespace.
    fn asat(&self, arguments: &[&str]) -> Output {
        let mut command = self.enter();
        command.env("ASAT_SERVER", format!("unix:{}", self.world.socket().display()));
        command.arg(env!("CARGO_BIN_EXE_asat")).args(arguments).output().unwrap()
    }

    fn import(&self, folder: &Path) -> Output {
        let config = self.world.write_config();
        self.asat(&["import", folder.to_str().unwrap(), "--config", config.to_str().unwrap()])
    }

    /// Three versions of a MiB or so each.
    fn with_history(&mut self) {
        self.start();
        for _ in 0..3 {
            self.write(1024);
            self.publish_well();
        }
        self.until_told(3);
    }
}

fn assert_full(ran: &Output) {
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(STORAGE_FULL), "{said}");
    assert!(said.contains("space") || said.contains("room"), "{said}");
}

#[test]
fn an_export_that_does_not_fit_leaves_nothing_and_fits_when_there_is_room() {
    let mut disk = SmallDisk::new(16 * MIB);
    disk.with_history();
    let folder = disk.world.path("state/history");
    let export = ["export", "report@1..3", "--to", folder.to_str().unwrap()];
    for free in [0, PAGE, MIB, 3 * MIB] {
        disk.leave_free(free);
        assert_full(&disk.asat(&export));
        let left = std::fs::read_dir(disk.state()).unwrap().map(|entry| entry.unwrap().file_name());
        let of_export =
            |name: &std::ffi::OsString| name.to_str().unwrap().contains("export") || name == "history";
        assert_eq!(left.filter(of_export).count(), 0, "with {free} bytes free");
        assert_eq!(disk.free(), free);
    }
    disk.remove_ballast();
    let ran = disk.asat(&export);
    assert!(ran.status.success(), "{ran:?}");
    for (version, content) in &disk.kept {
        assert!(std::fs::read(disk.state().join(format!("history/{version}.db"))).unwrap() == *content);
    }
    disk.check_settled();
}

#[test]
fn an_import_that_does_not_fit_is_refused_and_goes_on_when_there_is_room() {
    let mut source = SmallDisk::new(16 * MIB);
    source.with_history();
    let folder = source.world.path("history");
    let ran = source.world.asat(&["export", "report@1..3", "--to", folder.to_str().unwrap()]);
    assert!(ran.status.success(), "{ran:?}");

    let mut target = SmallDisk::new(16 * MIB);
    target.kept = source.kept.clone();
    let mut refused = 0;
    // The space ends within the first version, within a later one, and where it is recorded.
    for free in [0, PAGE, 20 * PAGE, MIB / 2, 2 * MIB, 3 * MIB] {
        target.leave_free(free);
        let ran = target.import(&folder);
        refused += u32::from(!ran.status.success());
        if !ran.status.success() {
            assert_full(&ran);
        }
        let unfinished =
            target.files("archive").into_iter().find(|(path, _)| path.extension() == Some("tmp".as_ref()));
        assert_eq!(unfinished, None, "with {free} bytes free");
    }
    assert!(refused > 3, "{refused}");
    target.remove_ballast();
    let ran = target.import(&folder);
    assert!(ran.status.success(), "{ran:?}");
    target.start();
    assert_eq!(target.versions("state=any").len(), 3);
    target.check_settled();
    let publications = |disk: &SmallDisk| {
        disk.versions("").iter().map(|version| version["publications"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(publications(&target), publications(&source), "each is recorded once");
}
