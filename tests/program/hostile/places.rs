//! What lies where the daemon begins: its socket, its state folder, its log.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::common::{Running, World};

fn world() -> World {
    let world = World::new();
    world
        .sqlite()
        .execute_batch("create table ledger (entry text); insert into ledger values ('x')")
        .unwrap();
    world
}

/// What a daemon says that does not start.
fn refused(world: &World) -> String {
    ended(world, 78)
}

fn ended(world: &World, with: i32) -> String {
    let mut daemon = world.spawn();
    let log = daemon.wait_for("listen: ready").expect_err("it should not start");
    assert_eq!(daemon.exit().code(), Some(with), "{log}");
    log
}

#[test]
fn the_socket_of_a_killed_daemon_is_no_obstacle() {
    let mut world = world();
    world.start();
    world.publish("before");
    world.kill();
    assert!(world.socket().exists());
    world.start();
    assert_eq!(world.get("/versions/report@1").json()["state"], "ready");
    assert!(world.stop().success());
    assert!(!world.socket().exists());
}

#[test]
fn what_else_is_at_the_sockets_path_is_left_alone() {
    let world = world();
    let other = UnixListener::bind(world.socket()).unwrap();
    // It may be free at the next try.
    assert!(ended(&world, 5).contains("another program listens"));
    drop(other);
    fs::remove_file(world.socket()).unwrap();
    fs::write(world.socket(), "mine").unwrap();
    assert!(refused(&world).contains("is no socket"));
    assert_eq!(fs::read(world.socket()).unwrap(), b"mine");
    fs::remove_file(world.socket()).unwrap();
    symlink("elsewhere", world.socket()).unwrap();
    assert!(refused(&world).contains("is no socket"));
    assert!(fs::symlink_metadata(world.socket()).unwrap().is_symlink());
}

#[test]
fn a_state_folder_that_others_may_write_is_refused_with_what_mends_it() {
    let world = world();
    let state = world.path("state");
    fs::create_dir(&state).unwrap();
    for mode in [0o777, 0o702] {
        fs::set_permissions(&state, Permissions::from_mode(mode)).unwrap();
        let log = refused(&world);
        assert!(log.contains(&format!("chmod go-w {}", state.display())), "{log}");
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0, "nothing is begun there");
    }
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&state, Permissions::from_mode(0o710)).unwrap();
        std::os::unix::fs::chown(&state, Some(65534), None).unwrap();
        let log = refused(&world);
        assert!(log.contains("belongs to user 65534") && log.contains("chown 0 "), "{log}");
    }
}

#[test]
fn a_log_on_a_full_disk_ends_nothing() {
    let mut world = world();
    let script = format!(
        "exec {} serve --config {} 2> /dev/full",
        env!("CARGO_BIN_EXE_asat"),
        world.write_config().display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(world.folder.path());
    world.daemon = Some(Running::spawn(command));
    // Nothing is printed that could be waited for.
    let output = loop {
        let output = world.asat(&["publish", "report"]);
        if output.status.success() {
            break output;
        }
        let daemon = &mut world.daemon.as_mut().unwrap().child;
        assert!(daemon.try_wait().unwrap().is_none(), "it has ended: {output:?}");
    };
    assert!(String::from_utf8_lossy(&output.stdout).contains("report@1"), "{output:?}");
    assert!(world.stop().success());
}
