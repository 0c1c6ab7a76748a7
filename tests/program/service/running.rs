//! Starting, stopping, and coming back by itself.

use crate::nspawn::{in_machine, log, property, run, said, tried, wait_until};
use crate::service::site::{PROGRAM, STORE, asat, config, configure, drop_in, install, versions, write};

#[test]
fn nspawn_what_was_published_is_there_after_a_stop_and_after_a_kill() {
    in_machine(|| {
        install();
        run("systemctl", &["start", "asat"]);
        // It counts as started once it answers.
        asat(&["publish", "--label", "first"]);
        let pid = property("asat", "MainPID");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(!status.contains("Uid:\t0"), "it is root:\n{status}");
        run("systemctl", &["stop", "asat"]);
        assert_eq!(property("asat", "Result"), "success");
        assert!(!std::path::Path::new("/run/asat/asat.sock").exists());

        run("systemctl", &["start", "asat"]);
        assert_eq!(versions(), ["report@1"]);
        write(STORE, "insert into sale values (2)");
        asat(&["publish", "--label", "second"]);

        // Its socket is left behind, and in nobody's way.
        run("systemctl", &["kill", "--signal=KILL", "asat"]);
        wait_until("it runs again", || {
            property("asat", "NRestarts") == "1" && property("asat", "ActiveState") == "active"
        });
        assert_eq!(versions(), ["report@2", "report@1"]);
        asat(&["verify"]);
    });
}

#[test]
fn nspawn_a_daemon_whose_guard_stands_still_is_started_anew() {
    in_machine(|| {
        install();
        // A person has more patience than a test.
        drop_in("WatchdogSec=2s\nTimeoutAbortSec=1s\n");
        run("systemctl", &["start", "asat"]);
        asat(&["publish"]);
        let pid = property("asat", "MainPID");
        run("kill", &["-STOP", &pid]);
        wait_until("it is started anew", || {
            property("asat", "NRestarts") != "0" && property("asat", "ActiveState") == "active"
        });
        assert_ne!(property("asat", "MainPID"), pid);
        assert_eq!(versions(), ["report@1"]);
        // On a busy machine a healthy one may rest for two seconds, too.
        drop_in("WatchdogSec=10s\n");
        run("systemctl", &["restart", "asat"]);
        // A healthy one feeds the watchdog: it outlives it while others work.
        let pid = property("asat", "MainPID");
        let fed = || property("asat", "WatchdogTimestampMonotonic").parse::<u64>().unwrap();
        let first = fed();
        wait_until("it was fed for longer than it is waited for", || fed() > first + 11_000_000);
        assert_eq!(property("asat", "MainPID"), pid);
    });
}

#[test]
fn nspawn_a_state_folder_that_is_not_its_own_is_refused_and_not_tried_again() {
    in_machine(|| {
        install();
        let state = "/srv/state";
        run("mkdir", &[state]);
        configure(&config("state = \"/srv/state\""));
        drop_in("ReadWritePaths=/srv\n");
        let refusals = [
            (["root:asat", "0770"], "belongs to user 0, and this process runs as user"),
            (["asat:asat", "0777"], "can be written by others than its owner"),
        ];
        for ([owner, mode], why) in refusals {
            run("chown", &[owner, state]);
            run("chmod", &[mode, state]);
            assert!(!tried("systemctl", &["start", "asat"]).status.success());
            wait_until("it has ended", || property("asat", "ActiveState") == "failed");
            assert_eq!(
                (property("asat", "ExecMainStatus"), property("asat", "NRestarts")),
                ("78".into(), "0".into())
            );
            let log = log();
            assert!(log.contains(&format!("the state folder {state} {why}")), "{log}");
        }
        run("chmod", &["0750", state]);
        run("systemctl", &["start", "asat"]);
        asat(&["publish"]);
    });
}

/// Starts the service with a configuration with which that fails, and waits until it has been tried more often than systemd does by
/// itself. What keeps it is mended then, and it runs by its next try.
fn fails_until(mend: impl FnOnce(), why: &str) {
    run("systemctl", &["start", "--no-block", "asat"]);
    wait_until("it was tried often", || property("asat", "NRestarts").parse::<u32>().unwrap() > 7);
    assert!(log().contains(why), "{}", log());
    mend();
    wait_until("it runs", || property("asat", "ActiveState") == "active");
    asat(&["publish"]);
}

#[test]
fn nspawn_a_start_for_which_there_is_no_room_is_tried_until_there_is() {
    in_machine(|| {
        install();
        run("mkdir", &["/srv/state"]);
        run("mount", &["-t", "tmpfs", "-o", "size=16M", "tmpfs", "/srv/state"]);
        run("chown", &["asat:asat", "/srv/state"]);
        run("chmod", &["0710", "/srv/state"]);
        assert!(!tried("sh", &["-c", "cat /dev/zero > /srv/state/left"]).status.success());
        configure(&config("state = \"/srv/state\""));
        drop_in("ReadWritePaths=/srv\nRestartSec=100ms\n");
        fails_until(|| drop(run("rm", &["/srv/state/left"])), "No space left on device");
    });
}

#[test]
fn nspawn_an_address_that_is_not_free_yet_is_waited_for() {
    in_machine(|| {
        install();
        let other = std::net::TcpListener::bind("127.0.0.1:7878").unwrap();
        let token =
            format!("[[token]]\nname = \"other\"\nrole = \"read\"\nsha256 = \"{}\"\n", "ab".repeat(32));
        let listen = "[listen]\nunix = \"/run/asat/asat.sock\"\ntcp = \"127.0.0.1:7878\"\n";
        configure(&format!("{}{listen}{token}", config("")));
        drop_in("RestartSec=100ms\n");
        fails_until(|| drop(other), "asat: cannot listen on 127.0.0.1:7878");
    });
}

#[test]
fn nspawn_a_daemon_that_can_record_nothing_any_more_ends_and_is_started_anew() {
    in_machine(|| {
        install();
        drop_in("Environment=\"ASAT_CRASH_AT=catalogue: commit#3!\"\nRestartSec=100ms\n");
        run("systemctl", &["start", "asat"]);
        wait_until("it is started anew", || {
            tried(PROGRAM, &["publish"]);
            property("asat", "NRestarts") != "0"
        });
        assert!(log().contains("the driver has ended"), "{}", log());
        drop_in("");
        run("systemctl", &["restart", "asat"]);
        asat(&["publish"]);
        asat(&["verify"]);
    });
}

#[test]
fn nspawn_a_stop_amid_a_publication_breaks_it_off_and_undoes_it() {
    in_machine(|| {
        install();
        let endless =
            "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n where i < 0";
        let check =
            format!("[[store.check]]\nname = \"endless\"\nquery = \"{endless}\"\ndeadline = \"1h\"\n");
        // The daemon asks for the time that it needs.
        drop_in("TimeoutStopSec=3s\n");
        configure(&format!("{}{check}", config("stop_timeout = \"4s\"")));
        run("systemctl", &["start", "asat"]);
        std::thread::scope(|scope| {
            let client = scope.spawn(|| tried(PROGRAM, &["publish", "--label", "never"]));
            wait_until("it is under way", || asat(&["ls", "--state", "cutting"]).contains("report@1"));
            run("systemctl", &["stop", "asat"]);
            let answer = client.join().unwrap();
            assert_eq!(
                answer.status.code(),
                Some(6),
                "its caller is told that the daemon stops: {}",
                said(&answer)
            );
        });
        assert_eq!(property("asat", "Result"), "success");
        configure(&config(""));
        run("systemctl", &["start", "asat"]);
        assert!(versions().is_empty());
        asat(&["publish", "--label", "at last"]);
        asat(&["verify"]);
    });
}
