//! What can be told without a mount: what was made by somebody else is not touched.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

fn set_up() -> (TempDir, Mounts, VersionId) {
    let folder = tempfile::tempdir().unwrap();
    let mounts = Mounts::new(folder.path().join("mnt"));
    (folder, mounts, "report@12".parse().unwrap())
}

#[test]
fn before_the_first_mount_there_is_nothing() {
    let (folder, mounts, id) = set_up();
    assert_eq!(mounts.survey().unwrap(), []);
    mounts.hide(&id).unwrap();
    mounts.unmount(&id).unwrap();
    let error = mounts.show(&id, Path::new("/r.db")).unwrap_err();
    assert!(matches!(&error, Error::NotMounted(at) if *at == mounts.inside(&id)), "{error}");
    assert_eq!(mounts.file(&id, Path::new("/srv/r.db")), mounts.inside(&id).join("srv/r.db"));
    assert!(!folder.path().join("mnt").exists());
}

#[test]
fn what_cannot_be_mounted_is_refused_before_anything_is_made() {
    let (folder, mounts, id) = set_up();
    let error = mounts.mount(&id, Path::new("/dev/null"), (254, 3), "btrfs", Log::Empty).unwrap_err();
    assert!(matches!(&error, Error::UnsupportedFs(fs) if fs == "btrfs"), "{error}");
    let error = mounts.mount(&id, Path::new("/dev/null"), (254, 3), "ext4", Log::Empty).unwrap_err();
    assert!(matches!(&error, Error::NotTheDevice { expected: (254, 3), .. }), "{error}");
    assert!(!folder.path().join("mnt").exists());
}

#[test]
fn a_survey_removes_empty_folders_of_versions_and_nothing_else() {
    let (folder, mounts, id) = set_up();
    let root = folder.path().join("mnt");
    let outside = folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    for leftover in ["report@1", ".snapshots/report@1", ".snapshots/report@2"] {
        fs::create_dir_all(root.join(leftover)).unwrap();
    }
    let placeholder = mounts.path(&id);
    disk::make_folder(placeholder.parent().unwrap(), FOLDER_MODE, |_| true).unwrap();
    disk::make_placeholder(&placeholder).unwrap();
    assert!(fs::File::open(&placeholder).is_err(), "a placeholder opens");
    let foreign = ["report@3/other", ".snapshots/report@4/file", "report@5/report.db/sub", "notes/report.db"];
    for file in foreign {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "somebody's").unwrap();
    }
    symlink(&outside, root.join("report@6")).unwrap();
    assert_eq!(mounts.survey().unwrap(), []);
    for gone in ["report@1", ".snapshots/report@1", ".snapshots/report@2", "report@12"] {
        assert!(!root.join(gone).exists(), "{gone}");
    }
    assert!(foreign.iter().all(|file| fs::read(root.join(file)).unwrap() == b"somebody's"));
    assert!(outside.exists() && root.join("report@6").is_symlink());
}

#[test]
fn folders_of_others_are_refused_and_named() {
    let (folder, ..) = set_up();
    let refused = |path: &Path, made: Result<(), Error>| match made {
        Err(Error::InTheWay { path: named, .. }) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    };
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").unwrap();
    symlink(folder.path(), at("link")).unwrap();
    for name in ["file", "link"] {
        refused(&at(name), disk::make_folder(&at(name), 0o700, |_| true));
    }
    fs::create_dir_all(at("full/sub")).unwrap();
    let mode = fs::metadata(at("full")).unwrap().permissions();
    refused(&at("full/sub"), disk::make_folder(&at("full"), 0o700, |name| name == "report.db"));
    assert_eq!(fs::metadata(at("full")).unwrap().permissions(), mode);
    fs::create_dir(at("open")).unwrap();
    fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
    refused(&at("open"), disk::make_root(&at("open"), ROOT_MODE));
    disk::make_root(&at("new"), ROOT_MODE).unwrap();
    assert_eq!(fs::metadata(at("new")).unwrap().permissions().mode() & 0o7777, ROOT_MODE);
    fs::set_permissions(at("new"), fs::Permissions::from_mode(0o755)).unwrap();
    disk::make_root(&at("new"), ROOT_MODE).unwrap();
    assert_eq!(fs::metadata(at("new")).unwrap().permissions().mode() & 0o7777, 0o755);
}
