//! Where the stores of a world lie, and by what they are cut.
//!
//! Usually that is the world's own folder, and pages. If the environment names folders on logical volumes, every world
//! has its stores in a folder of its own on one of them, so that the same tests hold for the backends on volumes. Worlds
//! side by side use different volumes: LVM suspends a volume with all its snapshots to change one of them, and newer kernels
//! refuse that while another world mounts or unmounts one. Only the stores lie there: the state may not lie on a volume that
//! is cut.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::World;

/// The environment's name for the folders on volumes, written as in `PATH`.
pub const FOLDERS: &str = "ASAT_TEST_FOLDERS";
/// The environment's name for the backend that stores on it must be cut by.
pub const BACKEND: &str = "ASAT_TEST_BACKEND";

/// Where stores lie. Worlds that share a store have one ground.
#[derive(Clone)]
pub struct Ground {
    pub folder: PathBuf,
    /// The backend that the daemon must cut them by.
    pub backend: String,
    /// The folder on a volume, if it is not in the world's own.
    volume: Option<Arc<Place>>,
}

/// A folder of a world on one of the volumes.
struct Place {
    folder: TempDir,
    /// The volume's own folder.
    volume: PathBuf,
}

/// How many worlds of this process are on each volume now.
static WORLDS: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

impl Place {
    /// On the volume that the fewest worlds are on.
    fn on_one_of(volumes: impl Iterator<Item = PathBuf>) -> Self {
        let mut worlds = WORLDS.lock().unwrap();
        let volume = volumes.min_by_key(|volume| worlds.get(volume).copied()).unwrap();
        let folder = tempfile::Builder::new().prefix("world.").tempdir_in(&volume).unwrap();
        *worlds.entry(volume.clone()).or_default() += 1;
        Self { folder, volume }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *WORLDS.lock().unwrap().get_mut(&self.volume).unwrap() -= 1;
    }
}

impl Ground {
    /// What the environment says; else a folder of this world.
    pub fn of(world: &Path) -> Self {
        let Some(volumes) = std::env::var_os(FOLDERS) else {
            return Self { folder: world.join("store"), backend: "pages".to_owned(), volume: None };
        };
        let backend = std::env::var(BACKEND).unwrap();
        let place = Place::on_one_of(std::env::split_paths(&volumes));
        Self { folder: place.folder.path().to_owned(), backend, volume: Some(Arc::new(place)) }
    }

    /// Whether versions are held by snapshots before they are in the archive.
    pub fn is_volume(&self) -> bool {
        self.volume.is_some()
    }

    /// The line of a store's configuration that asks for the backend. Without a volume nothing is asked.
    pub fn asked(&self) -> String {
        match &self.volume {
            Some(place) if self.is_cloned() => {
                // Each installation has a folder of its own in it.
                let clones = place.volume.join("clones");
                format!("backend = \"{}\"\nclones = \"{}\"", self.backend, clones.display())
            }
            Some(_) => format!("backend = \"{}\"", self.backend),
            None => String::new(),
        }
    }

    /// Whether versions are read in their snapshots, as long as they are there.
    pub fn is_shown(&self) -> bool {
        self.is_volume() && !self.is_cloned()
    }

    /// Whether versions are cut by clones.
    pub fn is_cloned(&self) -> bool {
        self.backend == "reflink"
    }

    /// Whether the newest archived version stays in its snapshot, for the next one to be compared with.
    pub fn keeps_base(&self) -> bool {
        self.is_cloned() || self.backend == "lvm-thin"
    }
}

impl World {
    /// A path for a store, beside the first one.
    pub fn store_at(&self, file: &str) -> PathBuf {
        self.ground.folder.join(file)
    }

    /// A store's path as the configuration has it: from the world's folder on, where it is in there.
    pub fn written<'a>(&self, store: &'a Path) -> std::path::Display<'a> {
        store.strip_prefix(self.folder.path()).unwrap_or(store).display()
    }

    /// Another store, with this content, in a file of its name; these lines are added to its configuration.
    pub fn add_store(&mut self, name: &str, content: &str, config: &str) {
        let file = self.store_at(&format!("{name}.db"));
        std::fs::create_dir_all(&self.ground.folder).unwrap();
        rusqlite::Connection::open(&file).unwrap().execute_batch(content).unwrap();
        let path = self.written(&file);
        self.store_config += &format!("\n[[store]]\nname = \"{name}\"\npath = \"{path}\"\n{config}\n");
    }

    /// Waits until what the API says of a version is as it is wanted; answers that.
    pub fn until(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let now = || Some(self.get(&format!("/versions/{id}")).json()).filter(|version| wanted(version));
        now().unwrap_or_else(|| {
            // Whatever happens from here on is heard, and the listener's patience ends the wait.
            let mut events = self.listen();
            loop {
                if let Some(version) = now() {
                    return version;
                }
                events.next().expect("the daemon goes on");
            }
        })
    }

    /// Waits until a version is in the archive; it may be in its snapshot as well.
    pub fn archived(&self, id: &str) -> Value {
        self.until(id, |version| held_by(version).contains("archive"))
    }

    /// Waits until a version is where it stays: in the archive, and out of the snapshot that it may have been cut by. That of
    /// the newest one may stay, for the next one to be compared with.
    pub fn settled(&self, id: &str) -> Value {
        self.until(id, |version| {
            let held = held_by(version);
            let may_stay = || self.ground.keeps_base() && self.newest_archived(id) == id;
            held.contains("archive") && (held.len() == 1 || may_stay())
        })
    }

    /// The newest version in the archive of those of this one's store.
    fn newest_archived(&self, id: &str) -> String {
        let store = id.split('@').next().unwrap();
        let list = self.get(&format!("/versions?store={store}&state=ready&limit=1000")).json();
        let archived = |version: &&Value| held_by(version).contains("archive");
        let newest = list["versions"].as_array().unwrap().iter().find(archived);
        newest.map_or_else(String::new, |version| version["id"].as_str().unwrap().to_owned())
    }

    /// Removes by hand what holds versions besides the archive, while no daemon runs.
    pub fn remove_snapshots(&self, snapshots: &BTreeSet<String>) {
        if self.ground.is_cloned() {
            snapshots.iter().for_each(|clone| std::fs::remove_dir_all(clone).unwrap());
        } else {
            self.take_off();
        }
    }

    /// Takes everything of this world that is mounted off the volume, and the snapshots with it.
    fn take_off(&self) {
        let (mounts, table) = (self.path("mnt"), std::fs::read_to_string("/proc/self/mounts").unwrap());
        let mounted = table.lines().rev().filter_map(|line| {
            let mut words = line.split(' ');
            words.next().zip(words.next()).filter(|(_, at)| Path::new(at).starts_with(&mounts))
        });
        let mut devices = BTreeSet::new();
        for (device, at) in mounted {
            run("umount", &[at]);
            devices.insert(device.to_owned());
        }
        devices.extend(self.unmounted());
        if !devices.is_empty() {
            let mut arguments = vec!["-q", "--force", "--yes"];
            arguments.extend(devices.iter().map(String::as_str));
            run("lvremove", &arguments);
        }
    }

    /// The snapshots of this world that are mounted nowhere: its daemon may have been killed as it had just made one.
    fn unmounted(&self) -> Vec<String> {
        let catalogue = rusqlite::Connection::open(self.path("state/catalogue.db"));
        let installation = catalogue.and_then(|catalogue| {
            let asked = "select value from meta where key = 'installation'";
            catalogue.query_row(asked, [], |row| row.get::<_, String>(0))
        });
        let Ok(installation) = installation else { return Vec::new() };
        let listed = Command::new("lvs").args(["--noheadings", "-o", "lv_path", "@asat"]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        // The end of the id is in their names.
        let own = format!(".{}.", &installation[24..]);
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        // The kernel spells the names in mounts in its own way; those are found by their mounts.
        let is_mounted = |path: &str| {
            let name = path.rsplit('/').next().unwrap().replace('-', "--");
            mounts.lines().any(|line| line.split(' ').next().unwrap().ends_with(&name))
        };
        let paths = listed.lines().map(str::trim).filter(|path| path.contains(&own) && !is_mounted(path));
        paths.map(str::to_owned).collect()
    }

    /// Gives a version up; answers it when it is gone. On a volume that waits until neither it nor the next one is on
    /// its way into the archive; by pages it is refused by nothing.
    pub fn retire(&self, id: &str) -> Value {
        let mut events = self.listen();
        let id = loop {
            let answer = self.request("DELETE", &format!("/versions/{id}"), &[], b"");
            if answer.status == 200 {
                break answer.json()["id"].as_str().unwrap().to_owned();
            }
            assert!(self.ground.is_volume(), "{answer}");
            answer.expect_problem(409, "in_use");
            events.next().expect("the daemon goes on");
        };
        self.until(&id, |version| version["state"] == "retired")
    }

    /// The volumes that hold the snapshots of this world's versions, as `group/volume`.
    pub fn snapshots(&self) -> BTreeSet<String> {
        let list = self.get("/versions?state=any&limit=1000").json();
        let holdings =
            list["versions"].as_array().unwrap().iter().flat_map(|v| v["holdings"].as_array().unwrap());
        holdings.filter_map(|holding| Some(holding["name"].as_str()?.to_owned())).collect()
    }
}

/// What kinds of things hold a version's pages.
pub fn held_by(version: &Value) -> BTreeSet<&str> {
    version["holdings"].as_array().unwrap().iter().map(|holding| holding["kind"].as_str().unwrap()).collect()
}

impl Drop for World {
    /// Takes what is left off the volume: other worlds go on there, and each snapshot slows them down.
    fn drop(&mut self) {
        if !self.ground.is_volume() {
            return;
        }
        if let Some(mut running) = self.daemon.take() {
            running.terminate();
            running.exit();
        }
        self.take_off();
    }
}

/// Runs a command; a failure fails the test, unless it has failed already.
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success() || std::thread::panicking(), "{program} {arguments:?}: {output:?}");
}
