//! The Debian package: installed, upgraded, removed and purged, with the history that it must not touch.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::before::make_catalogue_of_before;
use crate::nspawn::{in_machine, property, run, said, wait_until};
use crate::service::site::{CONFIG, STORE, make_store, prepare_for_packages, write};

const CATALOGUE: &str = "/var/lib/asat/catalogue.db";

/// Packs this build's program as a version.
fn package(version: &str) -> String {
    prepare_for_packages();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/deb/build");
    let mut build = Command::new(script);
    build.args([env!("CARGO_BIN_EXE_asat"), version, "/root/packages"]);
    let tools = Path::new(env!("CARGO")).parent().unwrap().display();
    build.env("COMPRESSION", "none").env("PATH", format!("{tools}:{}", std::env::var("PATH").unwrap()));
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let architecture = run("dpkg", &["--print-architecture"]);
    format!("/root/packages/asat_{version}_{}.deb", architecture.trim())
}

fn is_running() -> bool {
    property("asat", "ActiveState") == "active"
}

#[test]
fn nspawn_the_package_is_installed_upgraded_removed_and_purged_and_history_stays() {
    in_machine(|| {
        let [before, now] = ["0.0.9", "0.1.0"].map(package);
        run("dpkg", &["--install", &before]);
        assert!(is_running());
        assert_eq!(run("systemctl", &["is-enabled", "asat.service"]).trim(), "enabled");
        assert_eq!(run("stat", &["--format=%U:%G %a", CONFIG]).trim(), "root:asat 640");
        assert_eq!(run("stat", &["--format=%U:%G %a", "/var/lib/asat"]).trim(), "asat:asat 710");
        for page in ["asat", "asat-publish"] {
            assert!(Path::new(&format!("/usr/share/man/man1/{page}.1.gz")).exists(), "{page}");
        }

        make_store(STORE);
        let text = fs::read_to_string(CONFIG).unwrap();
        fs::write(CONFIG, format!("{text}\n[[store]]\nname = \"report\"\npath = \"{STORE}\"\n")).unwrap();
        run("systemctl", &["reload", "asat"]);
        wait_until("it has the store", || run("asat", &["stores"]).contains("report"));
        run("asat", &["publish", "--label", "before"]);

        // The older one has another schema, and nobody is there to answer dpkg's questions.
        run("systemctl", &["stop", "asat"]);
        fs::remove_file(CATALOGUE).unwrap();
        make_catalogue_of_before(Path::new(CATALOGUE));
        run("chown", &["asat:asat", CATALOGUE]);
        run("dpkg", &["--install", &now]);
        assert!(is_running());
        assert!(Path::new(&format!("{CATALOGUE}.v9")).exists(), "the catalogue is migrated");
        assert!(fs::read_to_string(CONFIG).unwrap().contains("name = \"report\""));
        let pid = property("asat", "MainPID");
        run("dpkg", &["--install", &now]);
        assert!(is_running());
        assert_ne!(property("asat", "MainPID"), pid, "the new program runs");
        assert_eq!(run("dpkg-query", &["--show", "--showformat=${Version}", "asat"]), "0.1.0");
        write(STORE, "insert into sale values (2)");
        run("asat", &["publish", "--label", "after"]);
        let versions = run("asat", &["ls"]);
        assert!(versions.contains("before") && versions.contains("after"), "{versions}");

        run("dpkg", &["--remove", "asat"]);
        assert_eq!(property("asat", "ActiveState"), "inactive");
        assert!(!Path::new("/usr/bin/asat").exists() && Path::new(CONFIG).exists());
        run("dpkg", &["--install", &now]);
        run("asat", &["verify"]);

        let told = run("dpkg", &["--purge", "asat"]);
        assert!(!Path::new("/etc/asat").exists());
        assert!(told.contains("the history in /var/lib/asat is kept"), "{told}");
        // What was kept can be read again, though nobody names the store any more.
        run("dpkg", &["--install", &now]);
        assert_eq!(run("asat", &["ls"]), versions);
        run("asat", &["verify", "report"]);
    });
}

#[test]
fn nspawn_a_package_that_kept_nothing_leaves_nothing() {
    in_machine(|| {
        let package = package("0.1.0");
        run("systemctl", &["mask", "asat.service"]);
        run("dpkg", &["--install", &package]);
        run("dpkg", &["--purge", "asat"]);
        for path in ["/etc/asat", "/var/lib/asat", "/usr/bin/asat", "/usr/share/doc/asat"] {
            assert!(!Path::new(path).exists(), "{path}");
        }
    });
}
