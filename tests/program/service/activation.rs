//! Socket activation: systemd listens, and hands the socket over.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::nspawn::{in_machine, log, property, run, said, tried};
use crate::service::site::{PROGRAM, asat, install};

#[test]
fn nspawn_a_client_starts_the_daemon_and_is_refused_at_no_restart() {
    in_machine(|| {
        install();
        run("systemctl", &["start", "asat.socket"]);
        assert_eq!(property("asat", "ActiveState"), "inactive");
        asat(&["publish"]);
        assert_eq!(property("asat", "ActiveState"), "active");
        let log = log();
        assert!(log.contains("listening on unix:/run/asat/asat.sock, which was handed over"), "{log}");

        let is_over = AtomicBool::new(false);
        let asked = std::thread::scope(|scope| {
            let clients = scope.spawn(|| {
                let mut asked = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let answer = tried(PROGRAM, &["ls"]);
                    // One whose request just comes in may be told that the daemon stops. None finds nobody there.
                    assert!(!said(&answer).contains("cannot reach the daemon"), "{}", said(&answer));
                    asked += 1;
                }
                asked
            });
            for _ in 0..3 {
                run("systemctl", &["restart", "asat"]);
                asat(&["ls"]);
            }
            is_over.store(true, Ordering::Relaxed);
            clients.join().unwrap()
        });
        assert!(asked > 3);

        // The socket stays when the daemon stops, and the next client starts it again.
        run("systemctl", &["stop", "asat"]);
        let answer = asat(&["ls"]);
        assert!(answer.contains("report@1"), "{answer}");
        let mode = run("stat", &["--format=%U:%G %a", "/run/asat/asat.sock"]);
        assert_eq!(mode.trim(), "asat:asat 660");
    });
}
