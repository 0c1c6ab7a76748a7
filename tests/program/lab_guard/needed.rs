//! LVM's own files: on the disk that they are on, and on the store's volume. The brake must not hold up its own help.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::lab::{Machine, in_lab};
use crate::lab_guard::seen::check_holds;
use crate::lab_guard::site::{CALM, Site, lab};

const LVM: &str = "/etc/lvm";

/// Has LVM write backups of a group's metadata after each change, as Debian does.
fn with_backups() {
    let settings = Path::new(LVM).join("lvmlocal.conf");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("backup=0 archive=0", "backup=1 archive=1")).unwrap();
}

/// The backups, with the times of their last changes.
fn backups() -> BTreeMap<PathBuf, SystemTime> {
    let folders = ["archive", "backup"].map(|name| fs::read_dir(Path::new(LVM).join(name)));
    let entries = folders.into_iter().flatten().flatten().map(Result::unwrap);
    entries.map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap())).collect()
}

/// Puts LVM's files on the volume that this folder is on, until the value goes.
struct Beside<'a>(&'a Machine);

impl<'a> Beside<'a> {
    fn new(machine: &'a Machine, folder: &Path) -> Self {
        let folder = folder.join("lvm");
        machine.run("cp", &["-a", LVM, folder.to_str().unwrap()]);
        machine.run("mount", &["--bind", folder.to_str().unwrap(), LVM]);
        Self(machine)
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        let unmounted = self.0.try_run("umount", &[LVM]);
        // A panic while another one unwinds would end the whole run.
        assert!(unmounted.is_ok() || std::thread::panicking(), "{unmounted:?}");
    }
}

fn doctor(site: &Site<'_>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asat"));
    command.arg("doctor").arg("--config").arg(site.ground.world.write_config());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn lab_writers_are_held_without_a_backup_by_lvm_and_never_if_its_files_are_on_their_volume() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic_with(machine, 1, CALM);
        with_backups();
        machine.run("vgcfgbackup", &["vg"]);
        site.publish(1..=1, true);
        site.archived(1..=1);
        site.at_peace();
        let before = backups();
        assert!(!before.is_empty(), "LVM writes backups");
        site.flood();
        let log = site.end();
        assert!(log.contains("action=\"brake\"") && log.contains("action=\"extend\""), "{log}");
        check_holds(&log);
        assert_eq!(backups(), before, "what runs while writers are held writes none");
        assert!(!doctor(&site).contains(LVM));

        let beside = Beside::new(machine, site.ballast.parent().unwrap());
        let said = "LVM needs it to make room: writers are never held there";
        let told = doctor(&site);
        assert!(told.contains(said) && told.contains(LVM), "{told}");
        let log = site.ground.world.start();
        assert!(log.contains("WARN") && log.contains("/etc/lvm does, which LVM needs to make room"), "{log}");
        site.publish(2..=2, true);
        site.archived(1..=2);
        site.at_peace();
        let flood = site.flood();
        println!("the writer was done after {flood:?}");
        site.check_contents();
        let log = site.end();
        assert!(log.contains("action=\"extend\"") && !log.contains("action=\"brake\""), "{log}");
        drop(beside);
    });
}
