//! A wall clock that a test can set, and a machine that it can boot, for a daemon of its own: a small library before the system's, which is compiled here.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clock.
pub struct Clock {
    library: PathBuf,
    ahead: PathBuf,
    boot: PathBuf,
}

impl Clock {
    /// A clock that is right. The library, and the file that says by how much it is ahead, are put into the folder.
    pub fn new(folder: &Path) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/common/setting/clock.c");
        let [library, ahead, boot] = ["clock.so", "ahead", "boot"].map(|name| folder.join(name));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
        let output = compiler.output().expect("this test needs a C compiler as `cc`");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(&ahead, [0; 16]).unwrap();
        Self { library, ahead, boot }
    }

    /// What a daemon must find in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let files = [("LD_PRELOAD", &self.library), ("CLOCK_AHEAD", &self.ahead), ("CLOCK_BOOT", &self.boot)];
        files.map(|(name, file)| (name.to_owned(), text(file))).into()
    }

    /// From now on it is ahead by so many seconds. The file stays as long as it is, since it is mapped.
    pub fn set(&self, seconds: i64) {
        self.write(seconds, 0);
    }

    /// A daemon that starts from now on finds that the machine was booted just now.
    pub fn reboot(&self) {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        self.write(uptime.split('.').next().unwrap().parse().unwrap(), 8);
        std::fs::write(&self.boot, format!("booted at {uptime}")).unwrap();
    }

    fn write(&self, seconds: i64, at: u64) {
        let file = OpenOptions::new().write(true).open(&self.ahead).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), at).unwrap();
    }
}
