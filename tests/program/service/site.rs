//! The units of this source and this build's program, installed as `make install` does.

use std::fs;
use std::path::Path;

use crate::nspawn::run;

pub const UNITS: &str = "/etc/systemd/system";
pub const CONFIG: &str = "/etc/asat/asat.toml";
pub const PROGRAM: &str = "/usr/local/bin/asat";
pub const STORE: &str = "/srv/report/report.db";

/// A configuration of one store, with what else is wanted at its top.
pub fn config(top: &str) -> String {
    format!("{top}\n[guard]\nleast_free = \"1 KiB\"\n[[store]]\nname = \"report\"\npath = \"{STORE}\"\n")
}

/// Installs units, program and configuration, and makes a store; nothing is started.
pub fn install() {
    // A copy would take a second, and the service may not look where it was built.
    fs::write(PROGRAM, "").unwrap();
    run("mount", &["--bind", env!("CARGO_BIN_EXE_asat"), PROGRAM]);
    for folder in ["/etc/sysusers.d", "/etc/asat", "/srv/report"] {
        fs::create_dir_all(folder).unwrap();
    }
    let unit = |name: &str, text: &str| fs::write(Path::new(UNITS).join(name), text).unwrap();
    unit("asat.service", include_str!("../../../systemd/asat.service"));
    unit("asat.socket", include_str!("../../../systemd/asat.socket"));
    fs::write("/etc/sysusers.d/asat.conf", include_str!("../../../systemd/asat.sysusers")).unwrap();
    run("systemd-sysusers", &[]);
    configure(&config(""));
    make_store(STORE);
    run("systemctl", &["daemon-reload"]);
}

/// Makes the machine one on which packages are installed as on any other, and faster: it is thrown away in any case.
pub fn prepare_for_packages() {
    // A machine that images are made of may say that nothing is to be started while packages are installed.
    let _ = fs::remove_file("/usr/sbin/policy-rc.d");
    // All manual pages of the machine would be indexed anew each time.
    let _ = fs::remove_file("/var/lib/man-db/auto-update");
    fs::write("/etc/dpkg/dpkg.cfg.d/asat-test", "force-unsafe-io\n").unwrap();
}

/// Writes the configuration, as the package's are: the daemon's group may read it, and nobody but root may write it.
pub fn configure(text: &str) {
    fs::write(CONFIG, text).unwrap();
    run("chown", &["root:asat", CONFIG]);
    run("chmod", &["640", CONFIG]);
}

/// A drop-in of the service.
pub fn drop_in(text: &str) {
    unit_drop_in(&format!("[Service]\n{text}"));
}

/// The same, with its sections.
pub fn unit_drop_in(text: &str) {
    let folder = Path::new(UNITS).join("asat.service.d");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("test.conf"), text).unwrap();
    run("systemctl", &["daemon-reload"]);
}

/// A store with one row that is the daemon's user's, as its writers' is not of interest here.
pub fn make_store(path: &str) {
    let folder = Path::new(path).parent().unwrap().to_str().unwrap();
    run("mkdir", &["-p", folder]);
    write(path, "create table sale (amount integer); insert into sale values (1)");
    run("chown", &["-R", "asat:asat", folder]);
}

pub fn write(path: &str, sql: &str) {
    run("sqlite3", &[path, sql]);
}

/// The client.
pub fn asat(arguments: &[&str]) -> String {
    run(PROGRAM, arguments)
}

/// The names of the versions that can be read, newest first.
pub fn versions() -> Vec<String> {
    let answer: serde_json::Value =
        serde_json::from_str(&asat(&["ls", "--state", "ready", "--json"])).unwrap();
    let found = answer["versions"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    found.iter().map(|version| version["id"].as_str().unwrap().to_owned()).collect()
}
