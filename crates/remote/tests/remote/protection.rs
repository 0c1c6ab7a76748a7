//! What somebody with a publisher's credentials can destroy: buckets of every kind, as real servers keep them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use asat_core::Problem;
use asat_remote::{
    Bucket as _, Depth, Error, Keep, LockMode, Protection, Removal, Repository, Retention, Service, Stop,
    prune, verify,
};
use serde_json::{Value, json};

use crate::contract::service;
use crate::machine::{Machine, store};
use crate::servers::{self, Server};

const DAYS_30: Retention = Retention { mode: LockMode::Governance, days: 30, years: 0 };

/// Makes the bucket.
fn make(server: &Server, kind: &str) {
    server.boto(include_str!("bucket.py"), &[kind]);
}

fn found(server: &Server) -> Protection {
    service(server, "a/prefix").protection().unwrap()
}

/// The policies of `docs/remote.md` for a repository at `s3://history/reports`: of the publisher, who prunes, and followers.
fn policies() -> [Value; 3] {
    let document = include_str!("../../../../docs/remote.md");
    let shown = document.split("\n```json\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0);
    let policies: Vec<Value> = shown.map(|policy| serde_json::from_str(policy).unwrap()).collect();
    policies.try_into().unwrap()
}

/// Makes a bucket with users who have these policies, and answers their services.
fn users<const USERS: usize>(server: &Server, kind: &str, policies: [Value; USERS]) -> [Arc<Service>; USERS] {
    let mut statements = Vec::new();
    let services = policies.map(|policy| {
        let (access, secret) = (format!("user{}", statements.len()), "testtest2");
        server.user(&access, secret);
        for statement in policy["Statement"].as_array().unwrap() {
            let mut statement = statement.clone();
            statement["Principal"] = json!({ "AWS": [access] });
            statements.push(statement);
        }
        let options = [
            ("endpoint", server.endpoint.as_str()),
            ("access_key_id", access.as_str()),
            ("secret_access_key", secret),
            ("region", "us-east-1"),
            ("allow_http", "true"),
            ("checksum_algorithm", "sha256"),
        ];
        let service = Service::open_with("s3://history/reports", Stop::new(), &options).unwrap();
        Arc::new(service.in_parts_above(0))
    });
    let policy = json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
    server.boto(include_str!("bucket.py"), &[kind, &policy]);
    services
}

/// A publisher with these rights beyond those in `docs/remote.md`.
fn publisher(server: &Server, kind: &str, more: &[&str]) -> Arc<Service> {
    let [mut policy, ..] = policies();
    let actions = policy["Statement"][0]["Action"].as_array_mut().unwrap();
    actions.extend(more.iter().map(|action| json!(action)));
    let [service] = users(server, kind, [policy]);
    service
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
        make(&server, "plain");
        assert_eq!(found(&server), plain, "{}", server.name);
        let left = service(&server, "a/prefix").list("", None, 9).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
    let server = servers::versitygw();
    make(&server, "Suspended");
    assert_eq!(found(&server), plain);
}

#[test]
fn a_bucket_with_versions_that_can_be_deleted() {
    for server in [servers::moto(), servers::versitygw()] {
        make(&server, "Enabled");
        let expected = Protection::Versioned { removal: Removal::Done, retention: Ok(None) };
        assert_eq!(found(&server), expected, "{}", server.name);
    }
}

#[test]
fn a_bucket_with_object_lock() {
    // Its owner may go past governance, and nobody past compliance.
    for (kind, mode, removal) in [
        ("GOVERNANCE", LockMode::Governance, Removal::Bypassed),
        ("COMPLIANCE", LockMode::Compliance, Removal::Locked),
    ] {
        let server = servers::versitygw();
        make(&server, kind);
        let expected = Protection::Versioned { removal, retention: Ok(Some(Retention { mode, ..DAYS_30 })) };
        assert_eq!(found(&server), expected);
    }
}

#[test]
fn a_publisher_without_the_right_to_delete() {
    for (kind, retention) in [("Enabled", None), ("GOVERNANCE", Some(DAYS_30))] {
        let server = servers::versitygw();
        let service = publisher(&server, kind, &[]);
        // All else works.
        let (repository, is_made) = Repository::init(service.clone(), None).unwrap();
        assert!(is_made);
        repository.probe().unwrap();
        let protection = service.protection().unwrap();
        assert_eq!(protection, Protection::Versioned { removal: Removal::NoRight, retention: Ok(retention) });
        let parts = (0..3).map(|_| Ok(vec![7; 8 << 20]));
        service.store("s/report/f/large", 24 << 20, &mut { parts }).unwrap();
        let refused = service.delete("s/report/f/large");
        assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
        assert_eq!(service.look("s/report/f/large").unwrap().unwrap().bytes, 24 << 20);
    }
}

#[test]
fn a_publisher_that_may_delete_but_no_version() {
    let server = servers::versitygw();
    let service = publisher(&server, "Enabled", &["s3:DeleteObject"]);
    let expected = Protection::Versioned { removal: Removal::NoRight, retention: Ok(None) };
    assert_eq!(service.protection().unwrap(), expected);
    service.create("s/x", b"x").unwrap();
    service.delete("s/x").unwrap();
    assert_eq!(service.look("s/x").unwrap(), None, "what reads it sees the marker");
}

#[test]
fn a_publisher_whose_only_bar_is_object_lock() {
    let server = servers::versitygw();
    let service = publisher(&server, "GOVERNANCE", &["s3:DeleteObject", "s3:DeleteObjectVersion"]);
    let expected = Protection::Versioned { removal: Removal::Locked, retention: Ok(Some(DAYS_30)) };
    assert_eq!(service.protection().unwrap(), expected);
}

#[test]
fn a_publisher_without_versions_may_replace() {
    let server = servers::versitygw();
    let found = publisher(&server, "plain", &[]).protection().unwrap();
    assert_eq!(found, Protection::Plain { may_replace: Ok(true), may_delete: Ok(false) });
}

#[test]
fn a_publisher_that_may_not_ask() {
    let server = servers::versitygw();
    let [mut policy, ..] = policies();
    policy["Statement"][1]["Action"] = json!(["s3:ListBucket"]);
    let [service] = users(&server, "Enabled", [policy]);
    let Protection::Unknown { why, may_delete } = service.protection().unwrap() else { panic!() };
    assert!(why.contains("403, AccessDenied") && may_delete == Ok(false), "{why}");
}

#[test]
fn a_service_that_cannot_be_asked() {
    let server = servers::versitygw();
    let service = service(&server, "a/prefix");
    let Protection::Unknown { why, may_delete: Err(_) } = service.protection().unwrap() else { panic!() };
    assert!(why.contains("NoSuchBucket"), "{why}");
}

#[test]
fn who_publishes_prunes_and_follows_with_the_documented_policies() {
    for kind in ["plain", "Enabled", "COMPLIANCE"] {
        let server = servers::versitygw();
        let [publisher, pruner, follower] = users(&server, kind, policies());
        let (repository, _) = Repository::init(publisher.clone(), None).unwrap();
        let mut machine = Machine::steady("first", Machine::folder());
        let mut push = |content| {
            machine.publish(content);
            if content == 11 {
                machine.archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
            }
            assert_eq!(machine.push(&repository).unwrap(), machine.versions);
        };
        (0..12).for_each(&mut push);
        let spare = Keep { grace: Duration::ZERO, manifests: 1 };
        // The service's clock has seconds.
        std::thread::sleep(Duration::from_millis(1100));
        let pruned = prune(&Repository::open(pruner).unwrap().history(&store()), &spare, false).unwrap();
        assert!(pruned.files > 0 && pruned.manifests > 0, "{kind}: {pruned:?}");
        push(12);
        let followed = Repository::open(follower.clone()).unwrap();
        assert_eq!(followed.stores().unwrap(), [store()]);
        let report = verify(&followed.history(&store()), Depth::Read).unwrap();
        assert!(report.findings.is_empty(), "{kind}: {report:?}");
        assert!(follower.create("s/x", b"x").is_err() && publisher.delete("asat.json").is_err());
        // All that was pruned is still there, if the bucket keeps it.
        let kept = if kind == "plain" { 0 } else { pruned.files + pruned.manifests };
        server.boto(include_str!("versions.py"), &[&kept.to_string()]);
    }
}

#[test]
fn who_must_send_checksums_is_told_how() {
    let server = servers::moto();
    make(&server, "GOVERNANCE");
    let Err(error) = Repository::init(Arc::new(service(&server, "a/prefix")), None) else { panic!() };
    assert!(Problem::from(error).hint.contains("checksum_algorithm"));
}
