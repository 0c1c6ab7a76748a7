//! A changed configuration while the daemon runs.

use crate::nspawn::{in_machine, log, property, refused, run, wait_until};
use crate::service::site::{STORE, asat, config, configure, install, make_store, versions, write};

/// How often the log says something.
fn times(what: &str) -> usize {
    log().matches(what).count()
}

#[test]
fn nspawn_a_reload_takes_up_what_can_change_and_names_what_cannot() {
    in_machine(|| {
        install();
        make_store("/srv/other/other.db");
        run("systemctl", &["start", "asat"]);
        let pid = property("asat", "MainPID");
        for row in 2..=4 {
            write(STORE, &format!("insert into sale values ({row})"));
            asat(&["publish", "report"]);
        }
        let changed = format!(
            "{}keep = \"the last 1\"\n[[store]]\nname = \"other\"\npath = \"/srv/other/other.db\"\n\
             [[store.check]]\nname = \"rows\"\nquery = \"select count(*) from sale\"\nat_least = 2\n",
            config("mounts = \"/run/asat/elsewhere\"")
                .replace("report.db\"\n", "report.db\"\n[store.retention]\n")
        );
        configure(&changed);
        run("systemctl", &["reload", "asat"]);
        wait_until("it goes by it", || times("the configuration was read again, and is in force") == 1);
        wait_until("systemd knows", || property("asat", "ActiveState") == "active");
        assert_eq!(property("asat", "MainPID"), pid);

        // Versions go by the new rule, a store is there that was not, and it is asked what is configured.
        wait_until("the older versions have gone", || versions() == ["report@3"]);
        let unmet = refused("/usr/local/bin/asat", &["publish", "other"]);
        assert!(unmet.contains("rows"), "{unmet}");
        write("/srv/other/other.db", "insert into sale values (2)");
        asat(&["publish", "other"]);
        // What waits for a start is named, to those who read the log and to those who ask systemd.
        assert_eq!(times("mounts has changed, which takes effect when asat is restarted"), 1);
        let status = property("asat", "StatusText");
        assert!(status.ends_with("except for what waits for a restart: mounts"), "{status}");

        // A store that leaves keeps its versions.
        configure(&config(""));
        run("systemctl", &["reload", "asat"]);
        wait_until("it goes by that", || times("the configuration was read again, and is in force") == 2);
        refused("/usr/local/bin/asat", &["publish", "other"]);
        assert_eq!(versions().len(), 2);
        wait_until("systemd knows", || property("asat", "StatusText") == "Uses the new configuration");
    });
}

#[test]
fn nspawn_a_configuration_that_is_wrong_is_refused_and_changes_nothing() {
    in_machine(|| {
        install();
        run("systemctl", &["start", "asat"]);
        let pid = property("asat", "MainPID");
        configure(&config("stop_timeout = \"soon\""));
        // Whoever reloads by systemd is told at once, and the daemon hears nothing of it.
        refused("systemctl", &["reload", "asat"]);
        let told = log();
        assert!(told.contains("stop_timeout: \"soon\" is not a duration"), "{told}");
        assert!(!told.contains("reading the configuration again"), "{told}");

        // Who sends the signal himself finds it in the log, and in the status.
        run("kill", &["-HUP", &pid]);
        let refused = "the new configuration is refused, and the one before stays: ";
        wait_until("it is refused", || times(refused) == 1);
        wait_until("systemd knows", || property("asat", "StatusText").contains("stop_timeout"));
        wait_until("it goes on", || property("asat", "ActiveState") == "active");
        assert_eq!(property("asat", "MainPID"), pid);
        asat(&["publish"]);
    });
}
