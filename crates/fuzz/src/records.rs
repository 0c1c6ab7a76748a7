//! Small files: what asat writes down for itself, what an export says, and the configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use asat::config::Config;
use asat::outside;
use asat_core::StoreName;
use asat_core::event::Change;
use asat_core::recorder::Understood;
use asat_core::register::Register;
use asat_core::version::Store;
use asat_host::store::Told;
use jiff::Timestamp;

use crate::{pieces, text};

pub(crate) fn newest(bytes: &[u8]) {
    if let Some(written) = asat_catalogue::outside::newest(bytes) {
        assert_eq!(asat_catalogue::outside::newest(&written), Some(written));
    }
}

pub(crate) fn chunk(bytes: &[u8]) {
    let store: StoreName = "report".parse().expect("it is a name");
    let added_at = Timestamp::UNIX_EPOCH;
    let register = || {
        let mut register = Register::default();
        let path = "/srv/report.db".into();
        register.evolve(&Change::Store(Store { name: store.clone(), path, added_at, damage: None }));
        register
    };
    let mut taken = register();
    if !taken.put_chunk(&store, 0, bytes.into()) {
        return;
    }
    let versions = &taken.history(&store).expect("it is there").versions;
    let mut lived = register();
    for entry in versions.values() {
        lived.evolve(&Change::Version(Box::new(entry.version.clone())));
        entry.publications.iter().for_each(|said| lived.evolve(&Change::Published(said.clone())));
    }
    if let Some(packed) = lived.packed(&store, 0) {
        let mut again = register();
        assert!(again.put_chunk(&store, 0, packed));
        assert_eq!(again, lived);
    }
}

/// What an archive has recorded: as it is in a file, or the texts that are in it.
pub(crate) fn recorded(bytes: &[u8]) {
    if let Some(written) = asat_archive::outside::records(bytes) {
        assert_eq!(asat_archive::outside::records(&written), Some(written));
    }
    let store: StoreName = "report".parse().expect("it is a name");
    if let Ok(values) = serde_json::from_slice(bytes)
        && let Ok(understood) = Understood::of(&store, &values)
    {
        assert!(
            understood.recorded.publications.iter().all(|said| said.version.store == store && said.reused)
        );
    }
}

pub(crate) fn told(bytes: &[u8]) {
    let text = text(bytes);
    let cut_at = Told::cut_at(text.lines());
    if let Ok(told) = Told::read(text.lines()) {
        assert_eq!(cut_at, Some(told.cut_at));
        let lines = told.lines();
        assert_eq!(Told::read(lines.iter().map(String::as_str)), Ok(told));
    }
}

pub(crate) fn copies(bytes: &[u8]) {
    let name = OsStr::from_bytes(bytes);
    if let Some(written) = asat_host::outside::copy_name(name) {
        assert_eq!(OsStr::new(&written), name);
    }
    let text = text(bytes);
    if let Some(written) = asat_host::outside::copy_identity(&text) {
        assert_eq!(written, text);
    }
}

pub(crate) fn manifest(bytes: &[u8]) {
    let text = text(bytes);
    if let Some(manifest) = outside::manifest(&text) {
        let written = serde_json::to_string(&manifest).expect("what was read can be written");
        assert_eq!(outside::manifest(&written), Some(manifest));
    }
    if let Some(sums) = outside::sums(&text) {
        assert!(sums <= text.lines().count());
    }
}

pub(crate) fn configuration(bytes: &[u8]) {
    let text = text(bytes);
    let once = Config::parse(&text, Path::new("/etc/asat"));
    if let Err(problem) = once {
        // Logs take it line by line.
        assert!(!problem.detail.is_empty() && !problem.detail.contains('\n'), "{problem}");
    }
}

/// A line with a key, and a manifest.
pub(crate) fn s3(bytes: &[u8]) {
    for status in [200, 204, 403, 404] {
        let read = asat_remote::outside::s3(status, bytes);
        let is_done = status < 300;
        assert!(is_done || read.keeps_versions.is_err(), "what is refused says nothing of versions");
        assert_eq!(read.is_deleted == Ok(true), is_done);
        if let Ok(Some(retention)) = read.retention {
            assert!(is_done && (retention.days > 0 || retention.years > 0));
        }
        let told = [read.keeps_versions.err(), read.retention.err(), read.is_deleted.err()];
        assert!(told.iter().flatten().all(|told| told.chars().count() < 1000 && !told.contains('\n')));
    }
}

pub(crate) fn remote(bytes: &[u8]) {
    let store = "report".parse().unwrap();
    let [key, manifest] = pieces(bytes);
    let key = String::from_utf8_lossy(key);
    if let (Some(number), _) = asat_remote::outside::key(&store, &key) {
        assert!((1..1_000_000_000_000).contains(&number));
    }
    if let Some((written, keys)) = asat_remote::outside::manifest(&store, 2, manifest) {
        let again = asat_remote::outside::manifest(&store, 2, &written);
        assert_eq!(again, Some((written, keys.clone())), "what is written is read");
        for key in keys {
            assert!(asat_remote::outside::key(&store, &key).1.is_some(), "{key}");
        }
    }
}
