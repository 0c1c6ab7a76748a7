//! The catalogue is saved, lost, and made anew; and what `docs/recover.md` says of it is typed as it stands.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::World;
use serde_json::Value;

const RECOVER: &str = include_str!("../docs/recover.md");
const ASAT: &str = env!("CARGO_BIN_EXE_asat");

/// A daemon with three versions, of which the second is given up and the third is published twice and has a pin.
fn world() -> World {
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world.start();
    for version in 1..=3 {
        world
            .sqlite()
            .execute("insert into ledger values (?1)", [format!("{version}").repeat(9000)])
            .unwrap();
        world.publish(&format!("close {version}"));
    }
    world.publish("once more");
    world.send("PUT", "/versions/report@3/pin", &serde_json::json!({ "reason": "audit" }));
    assert_eq!(world.request("DELETE", "/versions/report@2", &[], b"").status, 200);
    world
}

fn asat(world: &World, arguments: &[&str]) -> Output {
    let config = world.path("asat.toml");
    let mut command = Command::new(ASAT);
    command.args(arguments).arg("--json").arg("--config").arg(config).envs(world.env.iter().cloned());
    command.stdin(Stdio::null()).output().unwrap()
}

fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Why a command was refused.
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the packs say of every version: its instant, its fingerprint, and the publication that it was made for.
fn known(world: &World) -> Vec<Value> {
    let list = world.get("/versions").json();
    let versions = list["versions"].as_array().unwrap().iter();
    versions
        .map(|version| {
            let first = &version["publications"][0]["label"];
            serde_json::json!([version["id"], version["cut_at"], version["fingerprint"], first])
        })
        .collect()
}

/// Everything that is recorded of every version, but for the space that it takes.
fn recorded(world: &World) -> Vec<Value> {
    let list = world.get("/versions?state=any").json();
    let versions = list["versions"].as_array().unwrap().iter();
    let fields = ["id", "state", "fingerprint", "publications", "pin"];
    versions.map(|version| fields.map(|field| version[field].clone()).into_iter().collect()).collect()
}

/// The files in the state folder that are a catalogue or were one.
fn catalogues(world: &World) -> Vec<String> {
    let names = fs::read_dir(world.path("state")).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("catalogue"));
    names.sort();
    names
}

#[test]
fn a_copy_is_taken_beside_the_running_daemon_and_is_the_catalogue_again() {
    let mut world = world();
    let copy = world.path("copy.db");
    let to = copy.to_str().unwrap().to_owned();
    let told = answer(&asat(&world, &["backup", &to]));
    let head = world.get("/audit").json()["head"]["place"].clone();
    assert_eq!((&told["path"], &told["audit_head"]), (&Value::from(to.clone()), &head));
    assert!(refused(&asat(&world, &["backup", &to])).contains(&to));
    assert!(refused(&asat(&world, &["backup", "/dev/full/copy.db"])).contains("/dev/full/copy.db"));
    let before = recorded(&world);
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    world.publish("later");
    assert!(world.stop().success());
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    fs::copy(&copy, world.path("state/catalogue.db")).unwrap();
    world.start();
    let after = recorded(&world);
    // What was published since the copy is in the archive, and is taken over from there.
    assert_eq!(after[0][3][0]["label"], "later");
    assert_eq!(after[1..], before[..]);
}

#[test]
fn a_catalogue_that_is_made_anew_knows_what_the_packs_say() {
    let mut world = world();
    let before = known(&world);
    let refusal = refused(&asat(&world, &["rebuild-catalogue", "--replace"]));
    assert!(refusal.contains("in use by another asat"), "{refusal}");
    assert!(world.stop().success());
    let refusal = refused(&asat(&world, &["rebuild-catalogue"]));
    assert!(refusal.contains("there is a catalogue") && refusal.contains("--replace"), "{refusal}");
    assert_eq!(catalogues(&world), ["catalogue.db"], "nothing has changed");
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    let rebuilt = answer(&asat(&world, &["rebuild-catalogue"]));
    assert_eq!(rebuilt["versions"], serde_json::json!(["report@1", "report@3"]));
    assert_eq!(rebuilt["kept"], Value::Null);
    let again = answer(&asat(&world, &["rebuild-catalogue", "--replace"]));
    assert_eq!(again["versions"], rebuilt["versions"]);
    world.start();
    assert_eq!(known(&world), before);
    let report = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(report["ok"], true, "{report}");
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    assert_eq!(world.publish("goes on")["version"]["id"], "report@4");
}

#[test]
fn a_catalogue_that_cannot_be_read_is_kept_and_made_anew() {
    let mut world = world();
    let before = known(&world);
    assert!(world.stop().success());
    fs::write(world.path("state/catalogue.db"), "rubbish").unwrap();
    let rebuilt = answer(&asat(&world, &["rebuild-catalogue", "--replace"]));
    assert_eq!(fs::read(Path::new(rebuilt["kept"].as_str().unwrap())).unwrap(), b"rubbish");
    world.start();
    assert_eq!(known(&world), before);
}

#[cfg(debug_assertions)]
#[test]
fn whoever_is_killed_amid_it_leaves_the_one_or_the_other() {
    let mut world = world();
    let before = known(&world);
    world.kill();
    for boundary in 1.. {
        world.env = vec![("ASAT_CRASH_AT".to_owned(), boundary.to_string())];
        let ran = asat(&world, &["rebuild-catalogue", "--replace"]);
        world.env.clear();
        world.start();
        assert_eq!(known(&world), before, "killed at boundary {boundary}");
        world.kill();
        if ran.status.success() {
            assert!(boundary > 3, "it is killed somewhere");
            break;
        }
    }
    let drafts = |name: &String| name.contains(".anew");
    assert!(!catalogues(&world).iter().any(drafts), "{:?}", catalogues(&world));
}

#[test]
fn the_recipe_for_a_lost_catalogue_runs_as_it_stands() {
    let (_, section) = RECOVER.split_once("\n## The catalogue is gone\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let recipe = section.split("\n```sh\n").nth(1).unwrap().split("\n```").next().unwrap();
    let mut world = world();
    let before = known(&world);
    assert!(world.stop().success());
    fs::write(world.path("state/catalogue.db"), "rubbish").unwrap();
    // The service manager's part is played by the test.
    let (stop, rest) = recipe.split_once('\n').unwrap();
    let (rebuild, start) = rest.split_once('\n').unwrap();
    assert_eq!([stop, start], ["systemctl stop asat", "systemctl start asat"]);
    let rebuild = rebuild.replace("/etc/asat/asat.toml", world.path("asat.toml").to_str().unwrap());
    let path = format!("{}:{}", Path::new(ASAT).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    let output =
        shell.args(["-euc", &rebuild.replace("runuser -u asat -- ", "")]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.start();
    assert_eq!(known(&world), before);
}
