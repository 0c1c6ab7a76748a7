//! What somebody with a publisher's credentials can destroy: buckets of every kind, as real servers keep them.

use asat_remote::{Bucket as _, Mode, Protection, Removal, Repository, Retention, Service, Stop};
use std::sync::Arc;

use crate::contract::service;
use crate::servers::{self, Server};

const PUBLISHER: [&str; 2] = ["publisher", "testtest2"];
const DAYS_30: Retention = Retention { mode: Mode::Governance, days: 30, years: 0 };

/// Makes the bucket.
fn make(server: &Server, kind: &str, policy: Option<&str>) {
    let policy: Vec<&str> = policy.into_iter().collect();
    server.boto(include_str!("bucket.py"), &[&[kind], &policy[..]].concat());
}

fn found(server: &Server) -> Protection {
    service(server, "a/prefix").protection().unwrap()
}

/// A publisher's service, whose credentials have what `docs/remote.md` gives it and these rights more.
fn publisher(server: &Server, kind: &str, more: &str) -> Service {
    let [access, secret] = PUBLISHER;
    server.user(access, secret);
    let statement = |actions: &str, resource: &str| {
        format!(
            r#"{{"Effect": "Allow", "Principal": {{"AWS": ["{access}"]}}, "Action": [{actions}], "Resource": ["arn:aws:s3:::{resource}"]}}"#
        )
    };
    let objects = statement(&format!(r#""s3:GetObject", "s3:PutObject"{more}"#), "history/a/prefix/*");
    let bucket = statement(
        r#""s3:ListBucket", "s3:GetBucketVersioning", "s3:GetBucketObjectLockConfiguration""#,
        "history",
    );
    let policy = format!(r#"{{"Version": "2012-10-17", "Statement": [{objects}, {bucket}]}}"#);
    make(server, kind, Some(&policy));
    let options = [
        ("endpoint", server.endpoint.as_str()),
        ("access_key_id", access),
        ("secret_access_key", secret),
        ("region", "us-east-1"),
        ("allow_http", "true"),
        ("checksum_algorithm", "sha256"),
    ];
    Service::open_with("s3://history/a/prefix", Stop::new(), &options).unwrap()
}

#[test]
fn a_folder_protects_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::open(&format!("file://{}", folder.path().display()), Stop::new()).unwrap();
    assert_eq!(service.protection().unwrap(), Protection::Folder);
}

#[test]
fn a_bucket_without_versions() {
    let plain = Protection::Plain { may_replace: Ok(true), may_delete: Ok(true) };
    for server in [servers::moto(), servers::versitygw()] {
        make(&server, "plain", None);
        assert_eq!(found(&server), plain, "{}", server.name);
        let left = service(&server, "a/prefix").list("", None, 9).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
    let server = servers::versitygw();
    make(&server, "Suspended", None);
    assert_eq!(found(&server), plain);
}

#[test]
fn a_bucket_with_versions_that_can_be_deleted() {
    for server in [servers::moto(), servers::versitygw()] {
        make(&server, "Enabled", None);
        let expected = Protection::Versioned { removal: Removal::Done, retention: Ok(None) };
        assert_eq!(found(&server), expected, "{}", server.name);
    }
}

#[test]
fn a_bucket_with_object_lock() {
    // Its owner may go past governance, and nobody past compliance.
    for (kind, mode, removal) in [
        ("GOVERNANCE", Mode::Governance, Removal::Bypassed),
        ("COMPLIANCE", Mode::Compliance, Removal::Locked),
    ] {
        let server = servers::versitygw();
        make(&server, kind, None);
        let expected = Protection::Versioned { removal, retention: Ok(Some(Retention { mode, ..DAYS_30 })) };
        assert_eq!(found(&server), expected);
    }
}

#[test]
fn a_publisher_without_the_right_to_delete() {
    for (kind, retention) in [("Enabled", None), ("GOVERNANCE", Some(DAYS_30))] {
        let server = servers::versitygw();
        let service = Arc::new(publisher(&server, kind, ""));
        // All else works.
        let (repository, is_made) = Repository::init(service.clone(), None).unwrap();
        assert!(is_made);
        repository.probe().unwrap();
        let protection = service.protection().unwrap();
        assert_eq!(protection, Protection::Versioned { removal: Removal::NoRight, retention: Ok(retention) });
        let parts = (0..3).map(|_| Ok(vec![7; 8 << 20]));
        service.store("s/report/f/large", 24 << 20, &mut { parts }).unwrap();
        assert!(service.delete("s/report/f/large").is_err());
        assert_eq!(service.look("s/report/f/large").unwrap().unwrap().bytes, 24 << 20);
    }
}

#[test]
fn a_publisher_that_may_delete_but_no_version() {
    let server = servers::versitygw();
    let service = publisher(&server, "Enabled", r#", "s3:DeleteObject""#);
    let expected = Protection::Versioned { removal: Removal::NoRight, retention: Ok(None) };
    assert_eq!(service.protection().unwrap(), expected);
    service.create("s/x", b"x").unwrap();
    service.delete("s/x").unwrap();
    assert_eq!(service.look("s/x").unwrap(), None, "what reads it sees the marker");
}

#[test]
fn a_publisher_whose_only_bar_is_object_lock() {
    let server = servers::versitygw();
    let service = publisher(&server, "GOVERNANCE", r#", "s3:DeleteObject", "s3:DeleteObjectVersion""#);
    let expected = Protection::Versioned { removal: Removal::Locked, retention: Ok(Some(DAYS_30)) };
    assert_eq!(service.protection().unwrap(), expected);
}

#[test]
fn a_publisher_without_versions_may_replace() {
    let server = servers::versitygw();
    let found = publisher(&server, "plain", "").protection().unwrap();
    assert_eq!(found, Protection::Plain { may_replace: Ok(true), may_delete: Ok(false) });
}

#[test]
fn a_service_that_cannot_be_asked() {
    let server = servers::versitygw();
    let service = service(&server, "a/prefix");
    let Protection::Unknown { why, may_delete: Err(_) } = service.protection().unwrap() else { panic!() };
    assert!(why.contains("NoSuchBucket"), "{why}");
}
