//! What lies among clones and is not ours is left alone, and what is ours and gone is missed.

use std::fs;
use std::os::unix::fs::chown;

use crate::common::ground::held_by;
use crate::lab::in_lab;
use crate::lab_reflink::site::{self, clone_of, entries, publish};

#[test]
fn lab_each_version_is_what_was_published_and_one_clone_stays() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        for journal in ["delete", "wal"] {
            world.sqlite().pragma_update(None, "journal_mode", journal).unwrap();
            let log = world.start();
            assert!(log.contains("backend=\"reflink\"") || log.contains("backend=reflink"), "{log}");
            let first = publish(&world, journal);
            let said = entries(&world, &first);
            let second = publish(&world, "more");
            assert_eq!(
                (entries(&world, &first), entries(&world, &second)),
                (said.clone(), format!("{said},more"))
            );
            let clone = clone_of(&world.get(&format!("/versions/{second}")).json());
            let clones: Vec<_> =
                fs::read_dir(clone.parent().unwrap()).unwrap().map(|e| e.unwrap().path()).collect();
            assert_eq!(clones, [clone]);
            let beside = fs::read_dir(ground.join("store")).unwrap().map(|entry| entry.unwrap().file_name());
            let strange: Vec<_> =
                beside.filter(|name| !name.to_str().unwrap().starts_with("report.db")).collect();
            assert!(strange.is_empty(), "{strange:?} lies beside the store");
            assert!(world.stop().success());
        }
        world.start();
        let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], true, "{verified}");
    });
}

#[test]
fn lab_a_file_of_another_owner_is_not_cloned() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        world.start();
        publish(&world, "b");
        let other = ground.join("store/other.db");
        fs::copy(world.store(), &other).unwrap();
        chown(&other, Some(2), Some(2)).unwrap();
        fs::rename(other, world.store()).unwrap();
        let answer = world.send("POST", "/snapshots", &serde_json::json!({}));
        assert_eq!(answer.status, 422, "{answer}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("and belonged to the user root"), "{detail}");
    });
}

#[test]
fn lab_what_is_not_a_clone_of_a_version_is_left_alone() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        world.start();
        let id = publish(&world, "b");
        let clone = clone_of(&world.get(&format!("/versions/{id}")).json());
        let folder = clone.parent().unwrap().to_owned();
        // A file, a folder of a version that nobody knows, one that is about to have its name taken, and a link.
        fs::write(folder.join("notes.txt"), "mine").unwrap();
        fs::create_dir(folder.join("report@77")).unwrap();
        fs::write(folder.join("report@77/report.db"), "mine").unwrap();
        fs::create_dir(folder.join("report@2")).unwrap();
        fs::write(folder.join("report@2/report.db"), "mine").unwrap();
        std::os::unix::fs::symlink("/etc", folder.join("report@88")).unwrap();
        world.sqlite().execute("insert into ledger values ('c')", []).unwrap();
        let refused = world.send("POST", "/snapshots", &serde_json::json!({}));
        assert!(
            refused.status == 500 && refused.json()["detail"].as_str().unwrap().contains("is in the way"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(folder.join("report@2/report.db")).unwrap(), "mine");
        assert!(world.stop().success());
        let log = world.start();
        for (name, said) in [
            ("notes.txt", "is no clone of a version"),
            ("report@77", "was taken for report@77, and is left alone: others may look into it"),
            ("report@2", "was taken for report@2, and is left alone: others may look into it"),
            ("report@88", "was taken for report@88, and is left alone: it is not a folder"),
        ] {
            assert!(log.contains(&format!("{name} {said}")), "{name}: {log}");
            assert!(folder.join(name).symlink_metadata().is_ok(), "{name}");
        }
        for name in ["report@77", "report@2"] {
            assert_eq!(fs::read_to_string(folder.join(name).join("report.db")).unwrap(), "mine");
        }
        // Their numbers are given to no version.
        let next = world.publish("c");
        assert_eq!(next["version"]["id"], "report@89");
        assert_eq!(entries(&world, "report@89"), "a,b,c");
        assert_eq!(entries(&world, &id), "a,b");
    });
}

#[test]
fn lab_a_clone_that_somebody_replaced_or_took_away_is_not_believed() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = site::world(machine, &ground);
        world.start();
        let id = publish(&world, "b");
        let clone = clone_of(&world.get(&format!("/versions/{id}")).json());
        fs::rename(&clone, ground.join("elsewhere")).unwrap();
        fs::create_dir(&clone).unwrap();
        fs::write(clone.join("report.db"), "mine").unwrap();
        // The next version is read whole, and what has the clone's name stays.
        world.sqlite().execute("insert into ledger values ('c')", []).unwrap();
        let next = world.publish("c")["version"]["id"].as_str().unwrap().to_owned();
        world.archived(&next);
        world.until(&id, |version| !held_by(version).contains("snapshot"));
        assert_eq!(fs::read_to_string(clone.join("report.db")).unwrap(), "mine");
        assert_eq!((entries(&world, &id), entries(&world, &next)), ("a,b".to_owned(), "a,b,c".to_owned()));
        let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], true, "{verified}");
    });
}
