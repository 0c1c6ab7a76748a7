//! A full disk under the state folder is an answer, never a loss: what was acknowledged stays whole, what failed
//! gives its space back, and when there is room again everything goes on.
//!
//! The state folder is a small disk in memory (tmpfs), mounted in a namespace of its own in which the daemon runs.
//! Nothing of it is seen outside, and it is gone with the test, however that ends.

mod moving;
mod small_blocks;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Answer, PATIENCE, Running, World, tree};
use crate::crash::bank::{self, Dice, content};
use serde_json::{Value, json};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A world whose state folder is a disk of its own.
struct SmallDisk {
    world: World,
    /// Keeps the namespace and with it the disk, until its standard input ends.
    keeper: Child,
    as_root: bool,
    dice: Dice,
    /// The content of every acknowledged version.
    kept: BTreeMap<String, Vec<u8>>,
}

impl SmallDisk {
    fn new(bytes: u64) -> Self {
        let mut world = World::new();
        drop(bank::open(&world, "wal", 0));
        world.env = vec![("ASAT_LOG".to_owned(), "info".to_owned())];
        std::fs::DirBuilder::new().mode(0o700).create(world.path("state")).unwrap();
        let as_root = rustix::process::geteuid().is_root();
        let script = "mount -t tmpfs -o size=$1,mode=0700 none \"$2\" && echo mounted && exec cat";
        let mut command = Command::new("unshare");
        command.arg(if as_root { "-m" } else { "-rm" }).args(["sh", "-c", script, "sh", &bytes.to_string()]);
        command.arg(world.path("state")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().expect("this test needs the program unshare (package util-linux)");
        let mut said = String::new();
        BufReader::new(keeper.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(
            said, "mounted\n",
            "this test mounts a tmpfs in a mount namespace of its own: it needs root, or user namespaces \
             (sysctl kernel.unprivileged_userns_clone=1, or a container with CAP_SYS_ADMIN)"
        );
        Self { world, keeper, as_root, dice: Dice(507), kept: BTreeMap::new() }
    }

    /// What runs a program in the disk's namespace.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        let namespaces = PathBuf::from(format!("/proc/{}/ns", self.keeper.id()));
        if !self.as_root {
            command
                .arg(format!("--user={}", namespaces.join("user").display()))
                .arg("--preserve-credentials");
        }
        command.arg(format!("--mount={}", namespaces.join("mnt").display()));
        command
    }

    /// Starts the daemon in the disk's namespace; its log where it does not become ready.
    fn try_start(&mut self) -> Result<(), String> {
        let mut command = self.enter();
        command.arg(env!("CARGO_BIN_EXE_asat")).arg("serve").arg("--config").arg(self.world.write_config());
        let mut running = Running::spawn(command);
        if let Err(log) = running.wait_for("ready") {
            assert!(!running.exit().success(), "{log}");
            return Err(log);
        }
        self.world.daemon = Some(running);
        Ok(())
    }

    fn start(&mut self) {
        self.try_start().unwrap_or_else(|log| panic!("the daemon did not become ready:\n{log}"));
    }

    /// The state folder, seen from outside the namespace.
    fn state(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper.id()));
        root.join(self.world.path("state").strip_prefix("/").unwrap())
    }

    fn free(&self) -> u64 {
        let space = rustix::fs::statvfs(self.state()).unwrap();
        space.f_bfree * space.f_frsize
    }

    /// Has exactly so much of the disk free. The daemon may be giving space back meanwhile.
    fn leave_free(&self, bytes: u64) {
        let ballast = File::options().create(true).append(true).open(self.ballast()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while let free = self.free()
            && free != bytes
        {
            assert!(Instant::now() < deadline, "{free} bytes are free, and not {bytes}");
            let length = ballast.metadata().unwrap().len();
            if free < bytes {
                ballast.set_len(length.saturating_sub(bytes - free)).unwrap();
            } else {
                let all = rustix::fs::FallocateFlags::empty();
                // Where the daemon was faster, there is less to take than there was.
                let _ = rustix::fs::fallocate(&ballast, all, 0, length + (free - bytes));
            }
        }
    }

    fn ballast(&self) -> PathBuf {
        self.state().join("ballast")
    }

    fn remove_ballast(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    /// A commit that changes so many KiB of the store, to bytes that do not compress.
    fn write(&mut self, kib: u64) {
        let mut store = self.world.sqlite();
        bank::commit(&mut store, &mut self.dice);
        let fill = "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1)
                    insert into filler select randomblob(65536) from n";
        store.execute("delete from filler", ()).unwrap();
        if kib > 0 {
            store.execute(fill, [(kib / 64) as i64]).unwrap();
        }
    }

    /// Publishes; remembers the content where it was acknowledged.
    fn publish(&mut self) -> Answer {
        let key = self.dice.below(i64::MAX).to_string();
        self.publish_as(&key)
    }

    /// The same under an idempotency key.
    fn publish_as(&mut self, key: &str) -> Answer {
        let now = content(&self.world.store());
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        let answer = self.world.request("POST", "/snapshots", &headers, b"{}");
        if answer.status == 201 {
            let version = answer.json()["version"]["id"].as_str().unwrap().to_owned();
            self.kept.insert(version, now);
        } else {
            let hint = answer.expect_problem(507, "storage_full")["hint"].as_str().unwrap().to_owned();
            assert!(hint.contains("free") || hint.contains("space") || hint.contains("room"), "{hint}");
        }
        answer
    }

    fn publish_well(&mut self) {
        let answer = self.publish();
        assert_eq!(answer.status, 201, "{answer}");
    }

    /// Waits until the pages of a version that was given up are gone, which the answer does not wait for.
    fn until_free(&self, bytes: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.free() < bytes {
            assert!(Instant::now() < deadline, "{} bytes are free", self.free());
            std::thread::yield_now();
        }
    }

    /// Waits until the daemon's readers of changes were told of a version, so that they write nothing more.
    fn until_told(&self, number: i64) {
        let path = self.state().join("summaries.db");
        // Of a copy, as a lock could be in the daemon's way. What cannot be read is read again.
        let copy = self.world.path("summaries-now.db");
        let told = || {
            std::fs::copy(&path, &copy).unwrap();
            let file = rusqlite::Connection::open(&copy)?;
            file.query_row("SELECT min(number) FROM told", [], |row| row.get::<_, i64>(0))
        };
        let deadline = Instant::now() + PATIENCE;
        let is_writing = || path.with_extension("db-journal").metadata().unwrap().len() > 0;
        while !told().is_ok_and(|told| told >= number) || is_writing() {
            assert!(Instant::now() < deadline, "nobody was told of {number}: {:?}", told());
            std::thread::yield_now();
        }
    }

    fn publish_unchanged(&mut self) {
        let answer = self.world.send("POST", "/snapshots", &json!({}));
        assert_eq!(answer.status, 200, "{answer}");
    }

    fn retire(&mut self, version: &str) -> Answer {
        let answer = self.world.request("DELETE", &format!("/versions/{version}"), &[], b"");
        if answer.status == 200 {
            self.kept.remove(version);
        } else {
            answer.expect_problem(507, "storage_full");
        }
        answer
    }

    fn versions(&self, query: &str) -> Vec<Value> {
        self.world.get(&format!("/versions?limit=1000&{query}")).json()["versions"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Everything that was acknowledged is listed and whole, and nothing else can be read.
    fn check(&self) {
        let listed = self.versions("state=any");
        for version in &listed {
            let id = version["id"].as_str().unwrap();
            let found = self.world.get(&format!("/versions/{id}/database"));
            match self.kept.get(id) {
                Some(content) => {
                    assert!(found.status == 200 && found.body == *content, "{id} is not what it was")
                }
                None => {
                    assert!([409, 410].contains(&found.status), "{id} can be read, and was not acknowledged")
                }
            }
        }
        let ids: Vec<&str> = listed.iter().map(|version| version["id"].as_str().unwrap()).collect();
        assert!(
            self.kept.keys().all(|id| ids.contains(&id.as_str())),
            "{ids:?} lacks some of what was acknowledged"
        );
    }

    /// Everything is recorded, nothing is half-made, and the archive is whole.
    fn check_settled(&self) {
        self.check();
        assert_eq!(self.versions("state=cutting,retiring,lost"), [] as [Value; 0]);
        let verified = self.world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], true, "{verified}");
    }

    /// The files of the archive, and the copies that are in place or in the making.
    fn files(&self, folder: &str) -> Vec<(PathBuf, u64)> {
        let folder = self.state().join(folder);
        if folder.exists() { tree(&folder) } else { Vec::new() }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.world.daemon.take().map(|mut running| (running.child.kill(), running.child.wait())));
        // Its input ends, so it ends; and with it the namespace and the disk.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

#[test]
fn a_publication_that_does_not_fit_fails_whole_and_room_lets_the_next_one_through() {
    // What later versions need of the file of one that is given up is written once more before that goes: with so many pages more than
    // the versions take there is room for it or not.
    for (pages, given_up) in [(61, 1), (41, 2)] {
        fill_and_give_up(&mut SmallDisk::new(3 * MIB + pages * PAGE), given_up);
    }
}

/// Publishes until the disk is full, and gives up so many of the oldest versions. Of the first one's file the others need most of what
/// is not filler, and nearly nothing of the second one's.
fn fill_and_give_up(disk: &mut SmallDisk, given_up: usize) {
    disk.start();
    let (mut free, mut files);
    loop {
        disk.write(512);
        (free, files) = (disk.free(), disk.files("archive"));
        let published = disk.publish();
        if published.status == 507 {
            break;
        }
        assert!(disk.kept.len() < 10, "3 MiB do not hold ten times half a MiB");
    }
    assert!(disk.kept.len() > 2);
    assert_eq!(disk.files("archive"), files, "the failed version has left something");
    assert!(disk.free() + 16 * PAGE >= free, "only its record may take space: {} of {free}", disk.free());
    let failed = disk.versions("state=failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0]["end_reason"].as_str().unwrap().contains("space"), "{failed:?}");
    disk.check_settled();
    // Versions that are read for what differs between them keep their space until that is known.
    disk.until_told(disk.kept.len() as i64);

    // A version that is given up makes room for one of the same size.
    let before = disk.free();
    let oldest: Vec<String> = disk.kept.keys().take(given_up).cloned().collect();
    oldest.iter().for_each(|version| assert_eq!(disk.retire(version).status, 200));
    disk.until_free(before + given_up as u64 * MIB / 4);
    disk.publish_well();
    disk.check_settled();
    assert!(disk.world.stop().success());
    disk.start();
    disk.check_settled();
}

#[test]
fn a_copy_that_does_not_fit_is_refused_and_made_when_there_is_room() {
    let mut disk = SmallDisk::new(4 * MIB);
    disk.start();
    disk.write(1024);
    disk.publish_well();
    let open = json!({ "holder": "reader" });
    // Room for half of it, and for nothing.
    for free in [512 * 1024, 0] {
        disk.leave_free(free);
        let answer = disk.world.send("POST", "/versions/report@1/mounts", &open);
        answer.expect_problem(507, "storage_full");
        assert_eq!(disk.files("copies").iter().map(|(_, bytes)| bytes).sum::<u64>(), 0);
        assert!(disk.free() + 16 * PAGE >= free, "{} of {free} are free", disk.free());
        disk.check();
    }
    disk.remove_ballast();
    let answer = disk.world.send("POST", "/versions/report@1/mounts", &open);
    assert_eq!(answer.status, 201, "{answer}");
    let path = Path::new(answer.json()["path"].as_str().unwrap()).to_owned();
    let outside = disk.state().join(path.strip_prefix(disk.world.path("state")).unwrap());
    assert!(std::fs::read(outside).unwrap() == disk.kept["report@1"]);
    disk.check_settled();
}

/// How many pages are free, one more each time, so that the space ends at the intent, at the effect, and when
/// the outcome is to be recorded.
const LEVELS: std::ops::Range<u64> = 0..40;

/// However the disk stands, an answer is due at once. The periodic work, which records what could not be
/// recorded before, comes once a minute: nobody may have to wait for that.
const AT_ONCE: Duration = Duration::from_secs(20);

#[test]
fn wherever_the_space_ends_a_publication_is_whole_or_refused() {
    let mut disk = SmallDisk::new(16 * MIB);
    disk.start();
    disk.publish_well();
    let mut statuses = Vec::new();
    for pages in LEVELS {
        // What is stored of that takes most of the pages, so that a few that the daemon gives back just now make no difference.
        disk.write(64);
        disk.leave_free(pages * PAGE);
        let key = format!("with {pages} pages");
        statuses.push(disk.publish_as(&key).status);
        disk.check();
        // Whoever repeats a request is not kept waiting for what cannot be recorded yet.
        let asked = Instant::now();
        disk.publish_as(&key);
        assert!(asked.elapsed() < AT_ONCE, "with {pages} pages free: {:?}", asked.elapsed());
        disk.check();
        let temporary =
            disk.files("archive").into_iter().find(|(path, _)| path.extension().unwrap() == "tmp");
        assert_eq!(temporary, None, "with {pages} pages free");
    }
    assert!(statuses.contains(&507) && statuses.contains(&201), "{statuses:?}");
    disk.remove_ballast();
    disk.write(0);
    disk.publish_well();
    disk.check_settled();
    assert!(disk.world.stop().success());
    disk.start();
    disk.check_settled();
}

#[test]
fn wherever_the_space_ends_a_lease_is_granted_or_there_is_none() {
    let mut disk = SmallDisk::new(16 * MIB);
    disk.start();
    disk.publish_well();
    let mut refused = 0;
    let granted = LEVELS.map(|pages| pages + 8).any(|pages| {
        // The catalogue's log begins anew, and has to grow for every record.
        assert!(disk.world.stop().success());
        disk.start();
        disk.leave_free(pages * PAGE);
        let asked = Instant::now();
        let answer = disk.world.send("POST", "/versions/report@1/mounts", &json!({ "holder": "reader" }));
        assert!(asked.elapsed() < AT_ONCE, "with {pages} pages free: {:?}", asked.elapsed());
        disk.remove_ballast();
        if answer.status == 201 {
            let lease = answer.json()["lease"].as_str().unwrap().to_owned();
            let closed =
                disk.world.request("DELETE", &format!("/versions/report@1/mounts/{lease}"), &[], b"");
            assert_eq!(closed.status, 204, "{closed}");
            return true;
        }
        refused += 1;
        answer.expect_problem(507, "storage_full");
        // Any request has what could not be recorded before recorded now.
        disk.publish_unchanged();
        assert_eq!(disk.versions("")[0]["leases"], 0, "somebody got a lease who was told otherwise");
        let left: u64 = disk.files("copies").iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(left, 0, "a copy is left that nobody leases, with {pages} pages free");
        false
    });
    assert!(granted && refused > 0, "{refused} refused");
    disk.check_settled();
    assert_eq!(disk.retire("report@1").status, 200);
    assert!(disk.world.stop().success());
    assert_eq!(disk.files("copies"), [], "the copy of a version that was given up is still there");
}

#[test]
fn wherever_the_space_ends_a_retirement_is_done_or_refused_and_a_kill_changes_nothing_about_that() {
    let mut disk = SmallDisk::new(16 * MIB);
    disk.start();
    for _ in LEVELS {
        disk.write(0);
        disk.publish_well();
    }
    let (mut done, mut refused) = (0, 0);
    for pages in LEVELS {
        disk.leave_free(pages * PAGE);
        let version = disk.kept.keys().next().unwrap().clone();
        for _ in 0..2 {
            let asked = Instant::now();
            match disk.retire(&version).status {
                200 => done += 1,
                _ => refused += 1,
            }
            assert!(asked.elapsed() < AT_ONCE, "with {pages} pages free: {:?}", asked.elapsed());
        }
        disk.check();
        if pages % 3 == 2 {
            disk.world.kill();
            disk.remove_ballast();
            disk.start();
            disk.check();
        }
    }
    assert!(done > 0 && refused > 0, "{done} and {refused}");
    disk.leave_free(MIB);
    disk.remove_ballast();
    disk.write(0);
    disk.publish_well();
    disk.check_settled();
}

#[test]
fn a_daemon_that_is_killed_on_a_full_disk_starts_again_when_there_is_room() {
    let mut disk = SmallDisk::new(16 * MIB);
    disk.start();
    for _ in 0..3 {
        disk.write(64);
        disk.publish_well();
    }
    disk.leave_free(0);
    disk.write(64);
    assert_eq!(disk.publish().status, 507);
    disk.world.kill();
    // It may be able to start without any room; where it is not, it says what it lacks.
    match disk.try_start() {
        Ok(()) => {
            disk.check();
            disk.world.kill();
        }
        Err(log) => assert!(log.contains("full") || log.contains("No space left"), "{log}"),
    }
    disk.remove_ballast();
    disk.start();
    disk.check_settled();
    disk.publish_well();
    disk.check_settled();
}
