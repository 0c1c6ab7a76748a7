//! The files of an archive are those of another history: of a copy of the state folder that went on by itself.

use std::fs;
use std::process::Command;

use super::world;
use crate::common::World;

/// Publishes rows that only this history has.
fn go_on(world: &World, of: &str) {
    for nth in 4..=5 {
        let entry = format!("{of} {nth}").repeat(2000);
        world.sqlite().execute("insert into ledger values (?1)", [entry]).unwrap();
        world.publish(&format!("{of} {nth}"));
    }
}

#[test]
fn what_was_not_certified_here_is_not_given_and_comes_back_with_its_own_files() {
    let mut world = world();
    world.stop();
    let (state, fork, aside) = (world.path("state"), world.path("fork"), world.path("aside"));
    assert!(Command::new("cp").arg("-a").args([&state, &fork]).status().unwrap().success());
    world.start();
    go_on(&world, "ours");
    let ours = world.get("/versions/report@4/database").body;
    world.stop();
    fs::rename(&state, &aside).unwrap();
    fs::rename(&fork, &state).unwrap();
    world.start();
    go_on(&world, "theirs");
    world.stop();
    fs::rename(&state, &fork).unwrap();
    fs::rename(&aside, &state).unwrap();
    let archive = |folder: &std::path::Path| folder.join("archive/report");
    let own = world.path("own");
    fs::rename(archive(&state), &own).unwrap();
    assert!(Command::new("cp").arg("-a").args([archive(&fork), archive(&state)]).status().unwrap().success());

    // At the first start, and at the next one.
    for _ in 0..2 {
        world.start();
        let states =
            ["report@3", "report@4", "report@5"].map(|id| world.get(&format!("/versions/{id}")).json());
        assert_eq!(states.map(|version| version["state"].clone()), ["ready", "lost", "lost"]);
        for id in ["report@4", "report@5"] {
            let refused = world.get(&format!("/versions/{id}/database"));
            assert!(refused.status >= 400, "{refused}");
        }
        assert_eq!(world.get("/versions/report@3/database").status, 200);
        let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], false);
        assert!(verified.to_string().contains("another report@4 than was certified"), "{verified}");
        world.stop();
    }

    fs::remove_dir_all(archive(&state)).unwrap();
    fs::rename(&own, archive(&state)).unwrap();
    world.start();
    assert_eq!(world.get("/versions/report@4/database").body, ours);
}
