//! What every bucket must do for us: the model, a folder, and real servers.

use std::ops::Range;
use std::sync::Arc;

use asat_remote::{Bucket, Error, Part, Service, Stop};

use crate::model::{Dice, Model};
use crate::servers::{self, Server};

/// Reads an object whole.
fn read(bucket: &dyn Bucket, key: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let found = bucket.read(key, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    found.unwrap().then_some(bytes)
}

fn store(bucket: &dyn Bucket, key: &str, parts: &[&[u8]]) {
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut parts = parts.iter().map(|part| Ok(part.to_vec()));
    bucket.store(key, u64::try_from(bytes).unwrap(), &mut parts).unwrap();
}

fn keys(bucket: &dyn Bucket, prefix: &str, after: Option<&str>, most: usize) -> Vec<String> {
    bucket.list(prefix, after, most).unwrap().into_iter().map(|entry| entry.key).collect()
}

/// The contract.
fn hold(bucket: &dyn Bucket) {
    // A key is given once, and what was created stays as it was.
    assert!(bucket.create("report/m/2-1.json", b"one").unwrap());
    assert!(!bucket.create("report/m/2-1.json", b"two").unwrap());
    assert_eq!(read(bucket, "report/m/2-1.json").unwrap(), b"one");
    assert_eq!(read(bucket, "report/m/2"), None, "the beginning of a key is no key");
    // Storing replaces.
    store(bucket, "report/f/1", &[b"first"]);
    store(bucket, "report/f/1", &[b"again"]);
    assert_eq!(read(bucket, "report/f/1").unwrap(), b"again");
    assert!(!bucket.create("report/f/1", b"").unwrap());
    // Listings are in order, and say lengths.
    store(bucket, "report/f/3", &[b""]);
    store(bucket, "report/f/2", &[b"12345"]);
    store(bucket, "reports/f/4", &[b"another store"]);
    assert_eq!(keys(bucket, "report/f/", None, 9), ["report/f/1", "report/f/2", "report/f/3"]);
    assert_eq!(keys(bucket, "report/f/", None, 1), ["report/f/1"]);
    assert_eq!(keys(bucket, "report/f/", Some("report/f/1"), 9), ["report/f/2", "report/f/3"]);
    assert_eq!(keys(bucket, "", Some("report0"), 1), ["reports/f/4"]);
    assert_eq!(keys(bucket, "nothing/", None, 9), [""; 0]);
    let entry = bucket.look("report/f/2").unwrap().unwrap();
    assert_eq!((entry.key.as_str(), entry.bytes), ("report/f/2", 5));
    assert_eq!(bucket.look("report/f/9").unwrap(), None);
    // Time does not go back.
    assert!(bucket.look("reports/f/4").unwrap().unwrap().modified >= entry.modified);
    // What is deleted is gone, and may be deleted twice.
    for _ in 0..2 {
        bucket.delete("report/f/2").unwrap();
        assert_eq!(read(bucket, "report/f/2"), None);
    }
    assert!(bucket.create("report/f/2", b"new").unwrap());
    // A large object goes in parts, and nothing of it is there if one of them cannot be had.
    let large: Vec<u8> = (0..20_u32 << 20).map(|nth| (nth % 251).to_le_bytes()[0]).collect();
    store(bucket, "report/f/large", &large.chunks(8 << 20).collect::<Vec<_>>());
    assert!(read(bucket, "report/f/large").unwrap() == large);
    let damaged = || asat_archive::Error::Damaged { path: "x".into(), what: "it is damaged".to_owned() };
    for good in [0, 1] {
        let good = large.chunks(8 << 20).take(good).map(|part| Ok(part.to_vec()));
        let mut parts = good.chain([Err(damaged())]);
        let failed = bucket.store("report/f/damaged", 20 << 20, &mut parts);
        assert!(matches!(failed, Err(Error::Archive(_))), "{failed:?}");
        assert_eq!(read(bucket, "report/f/damaged"), None);
    }
    hold_of_parts(bucket, &large);
    // Who reads may say that it is enough.
    let failed = bucket.read("report/f/large", &mut |_| Err(Error::Stopped));
    assert!(matches!(failed, Err(Error::Stopped)), "{failed:?}");
}

/// The contract as far as parts of objects are read. There is a large object by now.
fn hold_of_parts(bucket: &dyn Bucket, large: &[u8]) {
    type Wanted<'a> = (&'static str, Range<u64>, Option<&'a [u8]>);
    let (megabyte, end) = (1 << 20, u64::try_from(large.len()).unwrap());
    let parts: [Wanted<'_>; 14] = [
        ("report/f/1", 0..5, Some(b"again")),
        ("report/f/large", 3 * megabyte + 1..4 * megabyte, Some(&large[(3 << 20) + 1..4 << 20])),
        ("report/f/9", 0..5, None),
        ("report/f/1", 1..3, Some(b"ga")),
        ("report/f/1", 2..3, Some(b"a")),
        // It ends before the part does.
        ("report/f/1", 3..4096, Some(b"in")),
        ("report/f/large", end - 7..end + megabyte, Some(&large[large.len() - 7..])),
        ("report/f/large", 0..end + 1, Some(large)),
        // It ends where the part begins, or before that.
        ("report/f/1", 5..6, Some(b"")),
        ("report/f/1", 6..4096, Some(b"")),
        ("report/f/3", 0..1, Some(b"")),
        ("report/f/large", end..end + 1, Some(b"")),
        ("report/f/large", end + megabyte..end + 2 * megabyte, Some(b"")),
        ("report/f/", 0..5, None),
    ];
    let wanted = parts.clone().map(|(key, range, _)| Part { key: key.to_owned(), range });
    let read: Vec<Option<Vec<u8>>> =
        bucket.read_parts(&wanted).into_iter().map(|read| read.unwrap()).collect();
    assert_eq!(read.len(), parts.len());
    for ((key, range, expected), read) in parts.into_iter().zip(read) {
        assert!(read.as_deref() == expected, "{key}, {range:?}: {:?}", read.map(|read| read.len()));
    }
    assert!(bucket.read_parts(&[]).is_empty());
    // More than are on their way at once.
    let range = |nth: u64| nth * 4099..(nth + 1) * 4099;
    let many: Vec<Part> =
        (0..60).map(|nth| Part { key: "report/f/large".to_owned(), range: range(nth) }).collect();
    let read: Vec<Vec<u8>> =
        bucket.read_parts(&many).into_iter().map(|read| read.unwrap().unwrap()).collect();
    assert!(read.concat() == large[..60 * 4099]);
}

/// The contract with what one of the servers of the tests does not keep, or not in time: moto lets two of those win who create an object at the
/// same moment.
fn hold_all(bucket: &dyn Bucket) {
    hold(bucket);
    many(bucket);
    race(bucket);
}

/// More objects than one listing has.
fn many(bucket: &dyn Bucket) {
    let names: Vec<String> = (0..1100).map(|nth| format!("many/f/{nth:04}")).collect();
    names.iter().for_each(|name| store(bucket, name, &[b"x"]));
    assert_eq!(keys(bucket, "many/f/", None, 2000), names);
    assert_eq!(keys(bucket, "many/f/", Some(&names[1049]), 2000), names[1050..]);
}

/// Of several who create an object at the same moment, one does.
fn race(bucket: &dyn Bucket) {
    for round in 0..20 {
        let key = format!("race/{round}");
        let created: Vec<Result<bool, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6_u8)
                .map(|nth| {
                    scope.spawn({
                        let key = &key;
                        move || bucket.create(key, &[nth])
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<usize> = (0..6).filter(|nth| matches!(created[*nth], Ok(true))).collect();
        assert_eq!(winners.len(), 1, "{created:?}");
        assert_eq!(read(bucket, &key).unwrap(), [u8::try_from(winners[0]).unwrap()]);
    }
}

#[test]
fn the_model_does() {
    hold_all(&Model::new(Arc::new(Dice::new(1))));
}

#[test]
fn a_folder_does() {
    for whole_bytes in [0, 64 << 20] {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().display());
        hold_all(&Service::open(&url, Stop::new()).unwrap().in_parts_above(whole_bytes));
    }
}

/// A service of a server, with a prefix of its own.
pub(crate) fn service(server: &Server, prefix: &str) -> Service {
    service_with(server, prefix, &[])
}

/// The same with more options.
fn service_with(server: &Server, prefix: &str, more: &[(&str, &str)]) -> Service {
    let options = [
        ("endpoint", server.endpoint.as_str()),
        ("access_key_id", servers::ACCESS_KEY),
        ("secret_access_key", servers::SECRET_KEY),
        ("region", "us-east-1"),
        ("allow_http", "true"),
    ];
    Service::open_with(&format!("s3://history/{prefix}"), Stop::new(), &[&options, more].concat()).unwrap()
}

#[test]
fn moto_does() {
    let server = servers::moto();
    server.bucket("history");
    hold(&service(&server, "a/prefix").in_parts_above(0));
    hold(&service(&server, ""));
}

#[test]
fn versitygw_does() {
    let server = servers::versitygw();
    server.bucket("history");
    hold_all(&service(&server, "a/prefix"));
    hold(&service(&server, "parts").in_parts_above(0));
    hold(&service_with(&server, "checksums", &[("checksum_algorithm", "sha256")]));
}
