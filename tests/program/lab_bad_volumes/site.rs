//! A daemon on a store that lies on a logical volume, and what it said of every version.

#![allow(unreachable_pub)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::common::{Answer, PATIENCE, World};
use crate::lab::{Fs, Lab, Machine, Volume, VolumeGroup, wait_until};

/// A guest with disks, and with time: these checks run dozens of LVM's commands, one after another.
pub fn lab(disks: usize, size: &str) -> Lab {
    Lab::new().disks(disks, size)
}

pub struct Site<'a> {
    /// Its daemon must go before its volume does.
    pub world: World,
    store: Connection,
    pub machine: &'a Machine,
    pub group: VolumeGroup<'a>,
    pub origin: Volume,
    /// The content of every acknowledged version.
    kept: BTreeMap<String, String>,
    /// Volumes that look like asat's and are somebody else's.
    pub strangers: Vec<String>,
}

impl<'a> Site<'a> {
    /// A group called `vg` on the first disk with the store's volume `data` in it, and no daemon yet.
    pub fn classic(machine: &'a Machine, size: &str) -> Self {
        let group = machine.volume_group("vg", &[0]);
        let origin = group.origin("data", size, Fs::Ext4);
        Self::on(machine, group, origin, "lvm-classic")
    }

    /// The same with the volume in a pool called `pool`, whose metadata is small.
    pub fn thin(machine: &'a Machine, pool: &str, size: &str) -> Self {
        let group = machine.volume_group("vg", &[0]);
        machine.run("vgchange", &["-q", "--physicalextentsize", "1M", "vg"]);
        let small = ["--poolmetadatasize", "2M", "--poolmetadataspare", "n", "--chunksize", "64K"];
        let pool = ["-q", "--yes", "--type", "thin-pool", "-L", pool, "-n", "pool", "vg"];
        machine.run("lvcreate", &[&pool[..], &small].concat());
        let origin = group.thin_origin("pool", "data", size, Fs::Ext4);
        Self::on(machine, group, origin, "lvm-thin")
    }

    fn on(machine: &'a Machine, group: VolumeGroup<'a>, origin: Volume, backend: &str) -> Self {
        let mut world = World::new();
        std::os::unix::fs::symlink(origin.folder.as_ref().unwrap(), world.path("store")).unwrap();
        world.store_config = format!("backend = \"{backend}\"");
        let store = open(&world);
        Self { world, machine, group, origin, store, kept: BTreeMap::new(), strangers: Vec::new() }
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        self.machine.run(program, arguments)
    }

    /// Unmounts a version's snapshot by hand, in a moment in which the daemon reads nothing there.
    pub fn unmount(&self, id: &str) {
        let at = self.mounted_at(id);
        wait_until("the snapshot is unmounted", || self.machine.try_run("umount", &[&at]).is_ok());
    }

    /// Starts the daemon on another configuration of the store; answers its log until it is ready.
    pub fn restart_with(&mut self, store_config: &str) -> String {
        if self.world.daemon.is_some() {
            assert!(self.world.stop().success());
        }
        store_config.clone_into(&mut self.world.store_config);
        self.world.start_under_contract()
    }

    /// The daemon ends and starts again.
    pub fn restart(&mut self) -> String {
        self.restart_with(&self.world.store_config.clone())
    }

    /// Makes the state folder a small disk, so that it can be filled. Copies go elsewhere.
    pub fn put_state_on_small_disk(&self) {
        let (state, copies) = (self.world.path("state"), self.machine.folder("copies"));
        std::fs::create_dir(&state).unwrap();
        self.run("mount", &["-t", "tmpfs", "-o", "size=64m,mode=0700", "small", state.to_str().unwrap()]);
        std::os::unix::fs::symlink(copies, state.join("copies")).unwrap();
    }

    /// Leaves the archive no room for anything large, while the catalogue has enough.
    pub fn hold_up_archiving(&self) {
        let (state, ballast) = (self.world.path("state"), self.world.path("state/ballast"));
        let fill = || {
            let space = rustix::fs::statvfs(&state).unwrap();
            let length = (space.f_bavail * space.f_frsize - (2 << 20)).to_string();
            self.machine.try_run("fallocate", &["-l", &length, ballast.to_str().unwrap()])
        };
        // What the daemon writes just then takes some of what was free.
        let filled = (0..10).map(|_| fill()).find(Result::is_ok);
        assert!(filled.is_some(), "{:?}", fill());
    }

    pub fn let_archiving_go_on(&self) {
        std::fs::remove_file(self.world.path("state/ballast")).unwrap();
    }

    /// Publishes something that cannot be archived yet; answers the version and its snapshot's name.
    pub fn publish_hot(&mut self) -> (String, String) {
        let version = self.publish_kib(6 << 10);
        let id = version["id"].as_str().unwrap().to_owned();
        assert_eq!(self.state(&id), "ready snapshot");
        (id, version["holdings"][0]["name"].as_str().unwrap().to_owned())
    }

    /// Where a version's snapshot is mounted.
    pub fn mounted_at(&self, id: &str) -> String {
        self.world.path("mnt/.snapshots").join(id).to_str().unwrap().to_owned()
    }

    /// A commit of so many KiB that nothing compresses.
    pub fn write(&self, kib: u32) {
        self.store.execute("delete from t", ()).unwrap();
        let fill = "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1)
                    insert into t select i, randomblob(8000) from n";
        self.store.execute(fill, [kib.div_ceil(8).max(1)]).unwrap();
    }

    /// Lets the store's volume be unmounted.
    pub fn close_store(&mut self) {
        self.store = Connection::open_in_memory().unwrap();
    }

    pub fn open_store(&mut self) {
        self.store = open(&self.world);
    }

    pub fn ask_to_publish(&self) -> Answer {
        self.world.send("POST", "/snapshots", &json!({}))
    }

    /// Publishes something new of so many KiB; answers the version.
    pub fn publish_kib(&mut self, kib: u32) -> Value {
        self.write(kib);
        let answer = self.ask_to_publish();
        assert_eq!(answer.status, 201, "{answer}");
        let version = answer.json()["version"].clone();
        self.kept.insert(version["id"].as_str().unwrap().to_owned(), content(&self.store));
        version
    }

    pub fn publish(&mut self) -> String {
        self.publish_kib(64)["id"].as_str().unwrap().to_owned()
    }

    /// A publication must be refused so, and nothing may be changed by it.
    pub fn refused(&self, status: u16, code: &str, said: &[&str]) -> Value {
        let before = (self.volumes(), self.versions(), content(&self.store));
        let answer = self.ask_to_publish();
        let problem = answer.expect_problem(status, code);
        println!("{}\n    {}", problem["detail"], problem["hint"]);
        for part in said {
            assert!(answer.to_string().contains(part), "{part:?} is not in {answer}");
        }
        assert_eq!((self.volumes(), self.versions(), content(&self.store)), before);
        problem
    }

    pub fn version(&self, id: &str) -> Value {
        self.world.get(&format!("/versions/{id}")).json()
    }

    pub fn versions(&self) -> Vec<Value> {
        self.world.get("/versions").json()["versions"].as_array().unwrap().clone()
    }

    /// The state of a version, with what holds it: `ready archive`.
    pub fn state(&self, id: &str) -> String {
        let version = self.version(id);
        let kinds = version["holdings"].as_array().unwrap().iter();
        let kinds: Vec<&str> = kinds.map(|holding| holding["kind"].as_str().unwrap()).collect();
        format!("{} {}", version["state"].as_str().unwrap(), kinds.join("+"))
    }

    /// Every volume of the group, with its tags.
    pub fn volumes(&self) -> Vec<String> {
        let report = self.run("lvs", &["--noheadings", "--all", "--options", "lv_name,lv_tags"]);
        // Columns are as wide as the longest name.
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        report.lines().map(words).collect()
    }

    /// The volumes that look like asat's.
    pub fn snapshots(&self) -> Vec<String> {
        self.volumes().into_iter().filter(|line| line.contains("asat.")).collect()
    }

    /// Opens each acknowledged version, and finds in it what was published.
    pub fn check_content(&self) {
        for (id, content) in &self.kept {
            assert!(self.version(id)["state"] == "ready", "{:#}", self.version(id));
            self.check_content_of(id, content);
        }
    }

    fn check_content_of(&self, id: &str, expected: &str) {
        let body = json!({ "holder": "a check" });
        let answer = self.world.send("POST", &format!("/versions/{id}/mounts"), &body);
        assert_eq!(answer.status, 201, "{answer}");
        let lease = answer.json();
        assert_eq!(content(&read(Path::new(lease["path"].as_str().unwrap()))), expected, "{id}");
        let lease = lease["lease"].as_str().unwrap();
        let closed = self.world.request("DELETE", &format!("/versions/{id}/mounts/{lease}"), &[], b"");
        assert_eq!(closed.status, 204, "{closed}");
    }

    /// From now on nothing is expected of this version.
    pub fn forget(&mut self, id: &str) {
        self.kept.remove(id);
    }

    /// The volume that may stay, for the next version to be compared with: the thin snapshot of the newest version that is in
    /// the archive, where the store is cut by such.
    fn base(&self) -> Option<String> {
        let stores = self.world.get("/stores").json();
        if stores["stores"][0]["backend"] != "lvm-thin" {
            return None;
        }
        let is_archived = |version: &Value| held(version).any(|holding| holding["kind"] == "archive");
        let newest = self.versions().into_iter().find(is_archived)?;
        let thin = held(&newest).find(|holding| holding["backend"] == "lvm-thin")?;
        Some(thin["name"].as_str().unwrap().to_owned())
    }

    /// Whether every version is in the archive.
    pub fn is_archived(&self) -> bool {
        self.versions().iter().all(|version| held(version).any(|holding| holding["kind"] == "archive"))
    }

    /// Waits until everything is in the archive, and no volume of asat's is left but the one that may stay. The guard may
    /// take that one too, where the pool is small and the machine fast.
    pub fn settle(&mut self) {
        let is_settled = || {
            let (versions, base) = (self.versions(), self.base());
            let snapshots = versions.iter().flat_map(held).filter(|holding| holding["kind"] == "snapshot");
            let mut names = snapshots.map(|holding| holding["name"].as_str());
            let base_alone = names.all(|name| name == base.as_deref());
            let base = base.as_ref().map(|name| name.rsplit('/').next().unwrap());
            let is_base = |line: &String| line.split(' ').next() == base;
            let (bases, others): (Vec<_>, Vec<_>) = self.snapshots().into_iter().partition(is_base);
            base_alone && bases.len() == usize::from(base.is_some()) && others == self.strangers
        };
        let patience = Instant::now() + PATIENCE / 2;
        while !is_settled() {
            if Instant::now() > patience {
                let (versions, volumes) = (self.versions(), self.volumes());
                let mut daemon = self.world.daemon.take().unwrap();
                daemon.child.kill().unwrap();
                panic!("{volumes:#?}\n{versions:?}\n{}", daemon.rest_of_log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// With the trouble over, publishing goes on, all is as it was published, and no volume is left behind.
    pub fn check_that_all_is_well(&mut self) {
        self.publish();
        self.settle();
        self.check_content();
    }

    /// The part of this installation's id that is in the names of its volumes, and the whole.
    pub fn installation(&self) -> (String, String) {
        let catalogue = read(&self.world.path("state/catalogue.db"));
        let sql = "select value from meta where key = 'installation'";
        let id: String = catalogue.query_row(sql, (), |row| row.get(0)).unwrap();
        (id[24..].to_owned(), id)
    }

    pub fn device(&self) -> &str {
        self.origin.device.to_str().unwrap()
    }

    pub fn folder(&self) -> PathBuf {
        self.origin.folder.clone().unwrap()
    }
}

fn open(world: &World) -> Connection {
    let store = world.sqlite();
    let schema = "pragma journal_mode = wal; create table if not exists t (n integer primary key, x blob)";
    store.execute_batch(schema).unwrap();
    store
}

/// What holds a version.
fn held(version: &Value) -> impl Iterator<Item = &Value> {
    version["holdings"].as_array().unwrap().iter()
}

pub fn read(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// What tells one content of the store from all others.
pub fn content(store: &Connection) -> String {
    let sql = "select count(*) || ' ' || coalesce(group_concat(hex(substr(x, 1, 8)), ''), '') from t";
    store.query_row(sql, (), |row| row.get(0)).unwrap()
}
