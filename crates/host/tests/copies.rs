//! As-at copies on disk: made once, noticed when they are no longer what they were, and let go.

#[cfg(test)]
mod copies {
    use std::cell::Cell;
    use std::fs::{self, File, OpenOptions};
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use asat_core::{Code, Problem, VersionId, boundary};
    use asat_host::Copies;
    use tempfile::TempDir;

    fn id(text: &str) -> VersionId {
        text.parse().unwrap()
    }

    fn copies() -> (TempDir, Copies) {
        let folder = tempfile::tempdir().unwrap();
        let copies = Copies::new(folder.path().join("copies"));
        (folder, copies)
    }

    fn write(text: &str) -> impl FnOnce(&mut File) -> Result<(), Problem> + '_ {
        |file| {
            file.write_all(text.as_bytes()).unwrap();
            Ok(())
        }
    }

    /// Makes the copy and says whether it was written anew.
    fn is_made(copies: &Copies, version: &str, text: &str) -> bool {
        let filled = Cell::new(false);
        let len = text.len() as u64;
        let made = copies.make(&id(version), len, |file| {
            filled.set(true);
            write(text)(file)
        });
        assert_eq!(made, Ok(len));
        assert_eq!(fs::read_to_string(copies.path(&id(version))).unwrap(), text);
        filled.get()
    }

    /// Every path below a folder, without the records.
    fn tree(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![folder.to_owned()];
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    open.push(path.clone());
                }
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
        found.retain(|path| !path.starts_with(".identities"));
        found.sort();
        found
    }

    #[test]
    fn a_copy_is_made_once_and_can_be_read_by_all() {
        let (_folder, copies) = copies();
        assert!(copies.survey().unwrap().is_empty());
        let old_mask = rustix::process::umask(0o077.into());
        assert!(is_made(&copies, "report@12", "twelve"));
        rustix::process::umask(old_mask);
        assert!(!is_made(&copies, "report@12", "twelve"));
        assert!(!is_made(&Copies::new(copies.root().to_owned()), "report@12", "twelve"));
        let path = copies.path(&id("report@12"));
        assert_eq!(path, copies.root().join("report@12/report.db"));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&path), 0o440);
        assert_eq!(mode(path.parent().unwrap()), 0o750);
        assert_eq!(mode(copies.root()), 0o750);
        assert_eq!(mode(&copies.root().join(".identities")), 0o700);
        assert_eq!(copies.survey().unwrap(), [id("report@12")]);
        assert!(!is_made(&copies, "report@12", "twelve"), "a survey changes nothing");
    }

    type Change = fn(&Path);

    /// Waits for the clock of the file system, which on older kernels stands still for some milliseconds: what is
    /// changed from now on has another time of change than the file.
    fn let_the_clock_move(path: &Path) {
        let changed = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        let probe = path.parent().unwrap().parent().unwrap().join("probe");
        loop {
            fs::write(&probe, "x").unwrap();
            if changed(&probe) > changed(path) {
                break fs::remove_file(&probe).unwrap();
            }
        }
    }

    #[test]
    fn a_copy_that_somebody_changed_is_made_again() {
        let changes: [(&str, Change); 9] = [
            ("written", |path| {
                OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"T", 0).unwrap();
            }),
            ("written, and the time set back", |path| {
                let time = fs::metadata(path).unwrap().modified().unwrap();
                let file = OpenOptions::new().write(true).open(path).unwrap();
                file.write_all_at(b"T", 0).unwrap();
                file.set_modified(time).unwrap();
            }),
            ("cut", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(1).unwrap()),
            ("replaced", |path| {
                let text = fs::read(path).unwrap();
                fs::remove_file(path).unwrap();
                fs::write(path, text).unwrap();
            }),
            ("removed", |path| fs::remove_file(path).unwrap()),
            ("made writable", |path| {
                fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
            }),
            ("a link", |path| {
                let other = path.parent().unwrap().parent().unwrap().join("moved.db");
                fs::rename(path, &other).unwrap();
                symlink(&other, path).unwrap();
            }),
            ("with a journal beside it", |path| {
                fs::write(path.with_extension("db-journal"), "hot").unwrap();
            }),
            ("without a record", |path| {
                let root = path.parent().unwrap().parent().unwrap();
                fs::remove_file(root.join(".identities/report@12")).unwrap();
            }),
        ];
        for (name, change) in changes {
            let (_folder, copies) = copies();
            assert!(is_made(&copies, "report@12", "twelve"));
            let path = copies.path(&id("report@12"));
            let_the_clock_move(&path);
            change(&path);
            assert!(is_made(&copies, "report@12", "twelve"), "{name}");
            assert!(!is_made(&copies, "report@12", "twelve"), "{name}");
            let_the_clock_move(&path);
            change(&path);
            assert_eq!(copies.survey().unwrap(), [], "{name}");
            assert!(!path.parent().unwrap().exists(), "{name}");
        }
    }

    #[test]
    fn another_length_is_another_copy() {
        let (_folder, copies) = copies();
        assert!(is_made(&copies, "report@12", "twelve"));
        assert!(is_made(&copies, "report@12", "twelve and more"));
        assert!(is_made(&copies, "empty@1", ""));
        assert!(!is_made(&copies, "empty@1", ""));
    }

    #[test]
    fn whoever_has_a_copy_open_keeps_reading_it() {
        let (_folder, copies) = copies();
        is_made(&copies, "report@12", "twelve");
        let mut reader = File::open(copies.path(&id("report@12"))).unwrap();
        let mut text = String::new();
        is_made(&copies, "report@12", "another twelve");
        reader.read_to_string(&mut text).unwrap();
        copies.drop_copy(&id("report@12")).unwrap();
        reader.rewind().unwrap();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "twelvetwelve");
        assert_eq!(tree(copies.root()), Vec::<PathBuf>::new());
        copies.drop_copy(&id("report@12")).unwrap();
        copies.drop_copy(&id("never@1")).unwrap();
    }

    #[test]
    fn a_copy_that_cannot_be_made_leaves_nothing() {
        let (_folder, copies) = copies();
        let version = id("report@12");
        let problem = copies.make(&version, 1 << 52, |_| panic!("there is no room for 4 PiB")).unwrap_err();
        assert_eq!(problem.code, Code::StorageFull);
        assert!(problem.detail.contains(&(1_u64 << 52).to_string()), "{problem}");
        let damaged = Problem::new(Code::Damaged, "page 7 is damaged", "restore it");
        let failed = copies.make(&version, 6, |file| {
            write("twe")(file)?;
            Err(damaged.clone())
        });
        assert_eq!(failed, Err(damaged));
        for wrong in ["", "twelv", "twelve!"] {
            let problem = copies.make(&version, 6, write(wrong)).unwrap_err();
            assert_eq!(problem.code, Code::Internal);
            assert!(problem.detail.contains("should have 6"), "{problem}");
        }
        assert_eq!(tree(copies.root()), Vec::<PathBuf>::new());
        // An older copy that is still good stays, although a longer one cannot be made.
        is_made(&copies, "report@12", "twelve");
        copies.make(&version, 1 << 52, |_| panic!("no room")).unwrap_err();
        assert!(!is_made(&copies, "report@12", "twelve"));
    }

    #[test]
    fn what_is_not_ours_is_not_touched() {
        let (_folder, copies) = copies();
        is_made(&copies, "report@12", "twelve");
        let root = copies.root().to_owned();
        let keep =
            ["notes.txt", "report@013/report.db", "lost+found/x", "report@14/mine.txt", "report@15.tmp/mine"];
        let remove = [
            "report@14/report.db",
            "report@15.tmp/report.db",
            "report@16.tmp/report.db",
            "report@17/report.db",
        ];
        for path in keep.iter().chain(&remove) {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "x").unwrap();
        }
        fs::write(root.join("report@18"), "a file").unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        fs::write(root.join("elsewhere/report.db"), "x").unwrap();
        symlink(root.join("elsewhere"), root.join("report@19")).unwrap();
        assert_eq!(copies.survey().unwrap(), [id("report@12")]);
        assert_eq!(copies.survey().unwrap(), [id("report@12")]);
        for path in keep.iter().chain(&["report@18", "report@19/report.db"]) {
            assert!(root.join(path).exists(), "{path}");
        }
        for path in remove {
            assert!(!root.join(path).exists(), "{path}");
        }
        for version in ["report@15", "report@18", "report@19"] {
            let problem = copies.make(&id(version), 1, write("x")).unwrap_err();
            assert!(problem.detail.contains("in the way") && problem.detail.contains(version), "{problem}");
        }
        assert!(!is_made(&copies, "report@12", "twelve"));
    }

    static STEPS_LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);
    static CRASHES: std::sync::Mutex<Option<std::thread::ThreadId>> = std::sync::Mutex::new(None);

    /// Ends what the crashing thread does at the n-th step.
    fn crash(_: &'static str) {
        let crashes = *CRASHES.lock().unwrap();
        if crashes == Some(std::thread::current().id()) && STEPS_LEFT.fetch_sub(1, Ordering::Relaxed) == 0 {
            STEPS_LEFT.store(usize::MAX, Ordering::Relaxed);
            *CRASHES.lock().unwrap() = None;
            std::panic::panic_any("crash");
        }
    }

    #[test]
    fn after_a_crash_at_any_step_a_copy_is_whole_or_not_there() {
        boundary::listen(crash);
        let mut crashed = 0;
        // In memory where that is to be had: a crash of the process loses nothing there either.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        for steps in 0.. {
            let copies = Copies::new(folder.path().join(steps.to_string()));
            is_made(&copies, "report@11", "eleven");
            let doubtful = copies.path(&id("report@13"));
            is_made(&copies, "report@13", "thirteen");
            fs::write(doubtful.with_extension("db-wal"), "litter").unwrap();
            *CRASHES.lock().unwrap() = Some(std::thread::current().id());
            STEPS_LEFT.store(steps, Ordering::Relaxed);
            let ended = std::panic::catch_unwind(|| {
                copies.drop_copy(&id("report@11")).unwrap();
                copies.make(&id("report@12"), 6, write("twelve")).unwrap();
                copies.make(&id("report@13"), 10, write("thirteen 2")).unwrap();
            });
            *CRASHES.lock().unwrap() = None;
            for version in copies.survey().unwrap() {
                let text = fs::read_to_string(copies.path(&version)).unwrap();
                let expected = match version.number {
                    11 => "eleven",
                    12 => "twelve",
                    _ => "thirteen 2",
                };
                assert_eq!(text, expected, "step {steps}");
            }
            let left = tree(copies.root());
            assert_eq!(left.len(), 2 * copies.survey().unwrap().len(), "step {steps}: {left:?}");
            is_made(&copies, "report@12", "twelve");
            if ended.is_ok() {
                break;
            }
            crashed += 1;
        }
        assert!(crashed > 30, "{crashed}");
    }
}
