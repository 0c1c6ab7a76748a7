//! Bad input: whatever is wrong with a store or a request is refused with a clear error, and nothing is lost.

mod bodies;
mod fuzz;
mod requests;
mod stores;

use crate::common::{Running, World};

/// A daemon with one version, and what its download is.
struct Kept {
    world: World,
    first: Vec<u8>,
}

impl std::ops::Deref for Kept {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Kept {
    fn start() -> Self {
        Self::configured("")
    }

    /// With more lines in the store's configuration.
    fn configured(store: &str) -> Self {
        let mut world = World::new();
        store.clone_into(&mut world.store_config);
        Self::start_in(world)
    }

    fn start_in(mut world: World) -> Self {
        let rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)";
        world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
        world.sqlite().execute(&format!("insert into ledger {rows} select 'row ' || i from n"), []).unwrap();
        world.start_under_contract();
        world.publish("kept");
        let first = world.get("/versions/report@1/database").body;
        Self { world, first }
    }

    /// Checks that there is what there was, and nothing else.
    fn check_unharmed(&self, after: &str) {
        let list = self.get("/versions?state=any").json();
        let versions = list["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 1, "after {after}: {list}");
        assert_eq!(versions[0]["state"], "ready", "after {after}: {list}");
        assert_eq!(versions[0]["publications"].as_array().unwrap().len(), 1, "after {after}: {list}");
        assert_eq!(versions[0]["leases"], 0, "after {after}: {list}");
        assert!(self.get("/versions/report@1/database").body == self.first, "after {after}");
        let report = self.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(report["ok"], true, "after {after}: {report}");
    }
}

#[test]
fn a_log_that_nobody_reads_any_more_ends_nothing() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
    let mut command = std::process::Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_asat");
    // The reader of the log ends with the first line; `exec` lets the daemon itself be stopped.
    let script = format!("exec {binary} serve --config {} 2> pipe", world.write_config().display());
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, world.path("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    command.args(["-c", &script]).current_dir(world.folder.path());
    world.daemon = Some(Running::spawn(command));
    let mut log = std::io::BufReader::new(std::fs::File::open(world.path("pipe")).unwrap());
    while !std::io::BufRead::lines(&mut log).next().unwrap().unwrap().ends_with("ready") {}
    drop(log);
    for n in 1..=2 {
        world.sqlite().execute("insert into ledger values ('x')", []).unwrap();
        assert_eq!(world.publish("unheard")["version"]["number"], n);
    }
    assert!(world.stop().success());
    assert!(!world.socket().exists());
}
