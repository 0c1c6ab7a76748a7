//! The lab itself: what comes out of a guest is what happened in it, and nothing of it stays.
//!
//! These tests need guests. Where the lab has loop devices, they are left out.

use std::fs;
use std::io::Write as _;
use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::lab::{Fs, Lab, Ran, Status, WHERE, in_lab, needs, wait_until};

fn shell(lab: &Lab, script: &str) -> Ran {
    lab.run(&["sh", "-c", script])
}

/// The folders below `/proc` of all processes of which this holds.
fn processes(is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    all.filter(|process| is_wanted(process)).collect()
}

/// The processes that were started with one of these folders.
fn processes_with(folders: &str) -> Vec<PathBuf> {
    processes(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        folders.split(':').any(|folder| line.contains(folder))
    })
}

/// The group that a process is in, if it still runs.
fn group_of(process: &Path) -> Option<String> {
    // Its name comes before, in parentheses, and then its state and its parent.
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    Some(stat.rsplit(") ").next()?.split(' ').nth(2)?.to_owned())
}

#[test]
fn lab_output_and_exit_status_come_out_unchanged() {
    let lab = Lab::new().disks(0, "1M").env("WORD", "it's \"quoted\" $HOME");
    // Every byte, more of them than any buffer on the way has, and no line end at the end.
    let script = r#"printf '%s\n' "$WORD"
        head -c 256 /dev/zero | LC_ALL=C awk 'BEGIN { for (i = 0; i < 256; i++) printf "%c", i }'
        yes 0123456789abcdef | head -c 3000000
        printf end >&2
        exit 43"#;
    let ran = shell(&lab, script);
    assert_eq!(ran.status, Status::Exit(43), "{}", ran.console);
    let mut expected = b"it's \"quoted\" $HOME\n".to_vec();
    expected.extend(0..=255u8);
    expected.extend(b"0123456789abcdef\n".iter().cycle().take(3_000_000));
    expected.extend(b"end");
    assert!(ran.output == expected, "{} bytes instead of {}", ran.output.len(), expected.len());
}

#[test]
fn lab_a_program_that_hangs_is_ended_at_the_deadline_with_its_whole_guest() {
    let lab = Lab::new().disks(1, "16M").deadline(Duration::from_secs(20));
    let folders = lab.folder_names();
    let ran = shell(&lab, "echo begun; sleep 1000 & sleep 1000");
    assert_eq!((ran.status, ran.text().as_str()), (Status::Deadline, "begun\n"), "{ran}");
    assert!(ran.elapsed < Duration::from_secs(200), "{:?}", ran.elapsed);
    assert_eq!(processes_with(&folders), Vec::<PathBuf>::new());
    // The disks are free at once, for the next boot of the same lab.
    let lab = lab.deadline(Duration::from_secs(60));
    assert_eq!(shell(&lab, "head -c 99999999 /dev/ubda | wc -c").expect_success(), "16777216\n");
    drop(lab);
    assert!(folders.split(':').all(|folder| !Path::new(folder).exists()), "{folders}");
}

#[test]
fn lab_what_was_synced_before_a_power_cut_is_there_at_the_next_boot() {
    in_lab(Lab::new().disks(1, "512M"), |machine| {
        if machine.boot == 1 {
            let group = machine.volume_group("vg", &[0]);
            let origin = group.origin("data", "128M", Fs::Ext4);
            let mut file = fs::File::create(origin.path("synced")).unwrap();
            file.write_all(b"this has reached the disk").unwrap();
            file.sync_all().unwrap();
            fs::File::open(origin.folder.as_ref().unwrap()).unwrap().sync_all().unwrap();
            fs::write(origin.path("unsynced"), b"this is only in the guest's memory").unwrap();
            machine.cut_power();
        }
        let group = machine.volume_group_of_before("vg");
        let mut origin = group.volume("data", Fs::Ext4);
        group.mount(&mut origin);
        assert_eq!(fs::read(origin.path("synced")).unwrap(), b"this has reached the disk");
        assert!(!origin.path("unsynced").exists(), "the guest ended in peace");
    });
}

#[test]
fn lab_shows_hidden_folders_whichever_lies_in_the_other() {
    // As a clone below the temporary folder, with what was built in it.
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("target/debug");
    fs::create_dir_all(&inner).unwrap();
    let (sources, built) = (outer.path().join("sources"), inner.join("built"));
    fs::write(&sources, "the sources").unwrap();
    fs::write(&built, "what was built").unwrap();
    let script = format!("cat '{}' '{}'", sources.display(), built.display());
    for order in [[outer.path(), &inner], [&inner, outer.path()]] {
        let lab = order.into_iter().fold(Lab::new(), Lab::sees);
        let ran = shell(&lab, &script);
        assert_eq!(ran.text(), "the sourceswhat was built", "{order:?}: {ran}");
    }
}

#[test]
fn lab_two_guests_at_once_do_not_meet() {
    let boots = ["one", "two"].map(|name| {
        std::thread::spawn(move || {
            let lab = Lab::new().disks(1, "16M");
            let script =
                format!("echo {name} > /dev/ubda; echo {name} > /etc/whose; sleep 1; cat /etc/whose");
            let first = shell(&lab, &script).expect_success();
            first + &shell(&lab, "head -c 4 /dev/ubda; ls /etc/whose").text()
        })
    });
    let said = boots.map(|boot| boot.join().unwrap());
    let missing = "ls: cannot access '/etc/whose': No such file or directory\n";
    assert_eq!(said, ["one", "two"].map(|name| format!("{name}\n{name}\n{missing}")));
    assert!(!Path::new("/etc/whose").exists(), "a guest has written to this machine");
}

#[test]
fn lab_a_check_that_fails_inside_fails_outside_with_what_it_said() {
    let check = || in_lab(Lab::new().disks(0, "1M"), |_| panic!("for this reason"));
    let why = catch_unwind(check).unwrap_err();
    if std::env::var(WHERE).is_ok() {
        resume_unwind(why);
    }
    let why = why.downcast_ref::<String>().unwrap();
    assert!(why.contains("failed inside") && why.contains("for this reason"), "{why}");
}

#[test]
fn lab_a_guest_that_dies_is_told_from_one_that_ends() {
    let ran = shell(&Lab::new().disks(0, "1M"), "echo c > /proc/sysrq-trigger; sleep 1000");
    assert_eq!(ran.status, Status::Died, "{ran}");
    assert!(ran.console.contains("panic"), "{ran}");
}

#[test]
fn lab_under_systemd_has_udev_and_dmeventd() {
    in_lab(Lab::new().systemd(true), |machine| {
        let group = machine.volume_group("vg", &[0]);
        group.thin_pool("pool", "256M");
        let origin = group.thin_origin("pool", "data", "128M", Fs::Ext4);
        machine.run("udevadm", &["settle"]);
        let id = machine.run("blkid", &["-s", "UUID", "-o", "value", origin.device.to_str().unwrap()]);
        let link = Path::new("/dev/disk/by-uuid").join(id.trim());
        assert_eq!(link.canonicalize().unwrap(), origin.device.canonicalize().unwrap());
        let monitored = machine.run("lvs", &["--noheadings", "-o", "seg_monitor", "vg/pool"]);
        assert_eq!(monitored.trim(), "monitored");
    });
}

#[test]
fn lab_ends_and_leaves_nothing_when_its_test_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["lab_guests::lab_that_hangs", "--exact", "--ignored"]).env("TMPDIR", folder.path());
    let mut test = test.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let named = folder.path().to_str().unwrap();
    let leads = |process: &PathBuf| group_of(process).is_some_and(|group| process.ends_with(group));
    let mut group = None;
    wait_until("a guest has begun", || {
        group = processes_with(named).into_iter().find(leads).as_deref().and_then(group_of);
        group.is_some()
    });
    let guest = || processes(|process| group_of(process) == group);
    // There is a watcher, and the kernel may have two helpers; then come the programs inside.
    wait_until("programs run inside", || guest().len() > 4);
    test.kill().unwrap();
    test.wait().unwrap();
    wait_until("the guest is gone", || guest().is_empty() && processes_with(named).is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "files of the guest are left");
}

/// Only for the test above.
#[test]
#[ignore = "it hangs until it is killed"]
fn lab_that_hangs() {
    shell(&Lab::new(), "sleep 1000");
}

#[test]
fn lab_with_loop_devices_checks_the_same_and_leaves_nothing() {
    let binary = std::env::current_exe().unwrap();
    let lab = Lab::new().disks(0, "1M").memory("1500M").env("BINARY", binary.to_str().unwrap());
    let script = format!(
        "left() {{ losetup --all; vgs; ls /tmp /dev/shm; grep asat /proc/mounts; }}
        modprobe loop; left > /run/before
        {WHERE}=loop \"$BINARY\" lab_devices::lab_snapshots --color=never || exit
        left > /run/after; diff /run/before /run/after"
    );
    let said = shell(&lab, &script).expect_success();
    assert!(said.contains("test result: ok. 2 passed"), "{said}");
}

#[test]
fn lab_names_what_is_missing_and_how_to_install_it() {
    let why = needs::complaint(&needs::GUEST, "/nowhere:/not/here").unwrap();
    assert!(why.contains("linux.uml, taskset, insmod, ip missing"), "{why}");
    assert!(
        why.ends_with("apt-get install --no-install-recommends user-mode-linux util-linux kmod iproute2"),
        "{why}"
    );
    assert_eq!(needs::complaint(&[("sh", "dash")], needs::PATH), None);
}
