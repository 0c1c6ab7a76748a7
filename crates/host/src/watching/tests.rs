//! Commits by SQLite itself, in every journal mode, and what may become of a store's folder.

use std::fs;
use std::io::pipe;
use std::os::unix::fs::symlink;

use rusqlite::Connection;

use super::*;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that is watched, and the pipe whose end would end that.
struct Scene {
    folder: tempfile::TempDir,
    watching: Watching,
    end: PipeReader,
    _open: io::PipeWriter,
}

impl Scene {
    /// A folder that is made ready, and the store that is watched in it.
    fn new(path: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let watching = Watching::begin(&folder.path().join(path)).unwrap();
        let (end, open) = pipe().unwrap();
        Self { folder, watching, end, _open: open }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until a change is noticed.
    fn notices(&mut self) {
        loop {
            match self.watching.wait(Some(PATIENCE), &self.end).unwrap() {
                Noticed::Change => return self.calms_down(),
                Noticed::Nothing => {}
                Noticed::End => panic!("the pipe is open"),
            }
        }
    }

    /// Takes what is left to be told.
    fn calms_down(&mut self) {
        while self.watching.wait_for_any(Some(Duration::ZERO), &self.end).unwrap() == Noticed::Change {
            self.watching.wait(None, &self.end).unwrap();
        }
    }

    /// Whether nothing that matters is told.
    fn is_quiet(&mut self) -> bool {
        while self.watching.wait_for_any(Some(Duration::ZERO), &self.end).unwrap() == Noticed::Change {
            if self.watching.wait(None, &self.end).unwrap() == Noticed::Change {
                return false;
            }
        }
        true
    }
}

fn store(path: &Path, mode: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", mode).unwrap();
    connection.execute_batch("create table if not exists t (a); insert into t values (1)").unwrap();
    connection
}

fn commit(connection: &Connection) {
    connection.execute("insert into t values (2)", []).unwrap();
}

#[test]
fn a_commit_is_noticed_in_every_journal_mode_and_a_reader_is_not() {
    for mode in ["wal", "delete", "truncate", "persist", "memory", "off"] {
        let mut writer = None;
        let mut scene = Scene::new("r.db", |folder| writer = Some(store(&folder.join("r.db"), mode)));
        let writer = writer.unwrap();
        assert!(scene.is_quiet(), "{mode}");
        for _ in 0..3 {
            commit(&writer);
            scene.notices();
        }
        let reader = Connection::open(scene.at("r.db")).unwrap();
        reader.query_row("select count(*) from t", [], |_| Ok(())).unwrap();
        fs::write(scene.at("other.db"), "x").unwrap();
        fs::write(scene.at("r.db-shm2"), "x").unwrap();
        assert!(scene.is_quiet(), "{mode}");
    }
}

#[test]
fn a_store_that_comes_to_be_is_noticed_with_all_its_folders() {
    let mut scene = Scene::new("a/b/c/r.db", |_| {});
    fs::create_dir(scene.at("a")).unwrap();
    scene.notices();
    fs::create_dir_all(scene.at("a/b/c")).unwrap();
    scene.notices();
    let writer = store(&scene.at("a/b/c/r.db"), "wal");
    scene.notices();
    commit(&writer);
    scene.notices();
}

#[test]
fn a_store_that_is_replaced_or_removed_and_made_again_is_watched_on() {
    let mut scene = Scene::new("r.db", |folder| drop(store(&folder.join("r.db"), "delete")));
    drop(store(&scene.at("new.db"), "delete"));
    assert!(scene.is_quiet());
    fs::rename(scene.at("new.db"), scene.at("r.db")).unwrap();
    scene.notices();
    commit(&Connection::open(scene.at("r.db")).unwrap());
    scene.notices();
    fs::remove_file(scene.at("r.db")).unwrap();
    scene.notices();
    drop(store(&scene.at("r.db"), "delete"));
    scene.notices();
}

#[test]
fn a_folder_that_is_moved_away_or_removed_and_made_again_is_watched_on() {
    let mut scene = Scene::new("up/in/r.db", |folder| {
        fs::create_dir_all(folder.join("up/in")).unwrap();
        drop(store(&folder.join("up/in/r.db"), "delete"));
    });
    // The folder itself, the one above it, and both for good.
    for (from, to) in [("up/in", "up/away"), ("up", "down")] {
        fs::rename(scene.at(from), scene.at(to)).unwrap();
        scene.notices();
        fs::create_dir_all(scene.at("up/in")).unwrap();
        scene.notices();
        let writer = store(&scene.at("up/in/r.db"), "wal");
        scene.notices();
        commit(&writer);
        scene.notices();
    }
    fs::remove_dir_all(scene.at("up")).unwrap();
    scene.notices();
    fs::create_dir_all(scene.at("up/in")).unwrap();
    scene.notices();
    drop(store(&scene.at("up/in/r.db"), "delete"));
    scene.notices();
}

#[test]
fn a_link_is_followed_and_noticed_when_it_leads_elsewhere() {
    let mut scene = Scene::new("link.db", |folder| {
        for name in ["one", "two"] {
            fs::create_dir(folder.join(name)).unwrap();
            drop(store(&folder.join(name).join("r.db"), "wal"));
        }
        symlink("one/r.db", folder.join("link.db")).unwrap();
    });
    let one = Connection::open(scene.at("one/r.db")).unwrap();
    commit(&one);
    scene.notices();
    symlink("two/r.db", scene.at("new")).unwrap();
    fs::rename(scene.at("new"), scene.at("link.db")).unwrap();
    scene.notices();
    let two = Connection::open(scene.at("two/r.db")).unwrap();
    commit(&two);
    scene.notices();
    commit(&one);
    assert!(scene.is_quiet(), "it is another store now");
}

#[test]
fn what_the_kernel_did_not_tell_is_seen_when_it_is_looked_for() {
    let mut scene = Scene::new("folder/r.db", |folder| {
        for name in ["one", "two"] {
            fs::create_dir(folder.join(name)).unwrap();
            drop(store(&folder.join(name).join("r.db"), "delete"));
        }
        symlink("one", folder.join("folder")).unwrap();
    });
    assert!(!scene.watching.look_again().unwrap());
    // A link among the folders.
    fs::remove_file(scene.at("folder")).unwrap();
    symlink("two", scene.at("folder")).unwrap();
    assert!(scene.watching.look_again().unwrap());
    assert!(!scene.watching.look_again().unwrap());
    commit(&Connection::open(scene.at("two/r.db")).unwrap());
    scene.notices();
}

#[test]
fn waiting_ends_with_the_pipe_and_with_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut watching = Watching::begin(&folder.path().join("r.db")).unwrap();
    let (end, open) = pipe().unwrap();
    assert_eq!(watching.wait(Some(Duration::from_millis(1)), &end).unwrap(), Noticed::Nothing);
    assert!(!sleep(Duration::from_millis(1), &end).unwrap());
    drop(open);
    assert_eq!(watching.wait(None, &end).unwrap(), Noticed::End);
    assert!(sleep(PATIENCE, &end).unwrap());
}
