//! A wall clock that a test can set, for a daemon of its own: a small library before the system's, which is compiled here.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clock.
pub struct Clock {
    library: PathBuf,
    ahead: PathBuf,
}

impl Clock {
    /// A clock that is right. The library, and the file that says by how much it is ahead, are put into the folder.
    pub fn new(folder: &Path) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/setting/clock.c");
        let (library, ahead) = (folder.join("clock.so"), folder.join("ahead"));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
        let output = compiler.output().expect("this test needs a C compiler as `cc`");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(&ahead, 0_i64.to_ne_bytes()).unwrap();
        Self { library, ahead }
    }

    /// What a daemon must find in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![("LD_PRELOAD".to_owned(), text(&self.library)), ("CLOCK_AHEAD".to_owned(), text(&self.ahead))]
    }

    /// From now on it is ahead by so many seconds. The file stays as long as it is, since it is mapped.
    pub fn set(&self, seconds: i64) {
        let file = OpenOptions::new().write(true).open(&self.ahead).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}
