//! Stores that cannot be published.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::bad_input::Kept;
use crate::common::World;

/// Puts something in the store's place. The second path is where the good store lies.
type Put = fn(&Path, &Path);

/// What is put there, the code that it is refused with, and what the refusal says.
const CASES: [(&str, Put, &str, &str); 16] = [
    ("nothing", |_, _| {}, "store_missing", "is not there"),
    ("a dangling link", |at, _| symlink("nowhere", at).unwrap(), "store_missing", "is not there"),
    ("a folder", |at, _| fs::create_dir(at).unwrap(), "store_unreadable", "a folder"),
    ("a pipe", make_pipe, "store_unreadable", "a pipe"),
    ("a socket", |at, _| drop(UnixListener::bind(at).unwrap()), "store_unreadable", "a socket"),
    ("a device", |at, _| symlink("/dev/zero", at).unwrap(), "store_unreadable", "a device"),
    ("an empty file", |at, _| fs::write(at, b"").unwrap(), "store_unreadable", "is empty"),
    ("a few bytes", |at, _| fs::write(at, b"SQLite").unwrap(), "store_unreadable", "not a SQLite database"),
    (
        "a text",
        |at, _| fs::write(at, "id;amount\n1;2\n".repeat(999)).unwrap(),
        "store_unreadable",
        "not a SQLite",
    ),
    ("an encrypted store", |at, _| fs::write(at, noise(40_960)).unwrap(), "store_unreadable", "encrypted"),
    ("zeros", |at, _| fs::write(at, [0; 8192]).unwrap(), "store_unreadable", "not a SQLite database"),
    ("a header alone", |at, good| cut_to(at, good, 100), "store_unreadable", "damaged"),
    ("half a page", |at, good| cut_to(at, good, 2048), "store_unreadable", "damaged"),
    ("half of the pages", |at, good| cut_to(at, good, 3 * 4096), "store_unreadable", "damaged"),
    ("a file with two names", link_twice, "store_unreadable", "has 2 names"),
    ("a page size that there is not", wrong_page_size, "store_unreadable", ""),
];

fn make_pipe(at: &Path, _: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

fn cut_to(at: &Path, good: &Path, length: usize) {
    fs::write(at, &fs::read(good).unwrap()[..length]).unwrap();
}

fn link_twice(at: &Path, good: &Path) {
    fs::copy(good, at).unwrap();
    // The other name may be anywhere on the file system.
    let other = at.with_extension("other");
    let _ = fs::remove_file(&other);
    fs::hard_link(at, other).unwrap();
}

fn wrong_page_size(at: &Path, good: &Path) {
    let mut bytes = fs::read(good).unwrap();
    bytes[16..18].copy_from_slice(&[0x03, 0x03]);
    fs::write(at, bytes).unwrap();
}

/// Bytes without any order, the same each time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56).to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn what_is_no_readable_store_is_refused_by_what_it_is() {
    let kept = Kept::start();
    let (store, good) = (kept.store(), kept.path("good.db"));
    for (what, put, code, said) in CASES {
        fs::rename(&store, &good).unwrap();
        put(&store, &good);
        let beside = fs::read_dir(store.parent().unwrap()).unwrap().count();
        let problem = kept.request("POST", "/snapshots", &[], b"").expect_problem(422, code);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(said) && detail.contains("report.db"), "{what}: {problem}");
        assert_eq!(fs::read_dir(store.parent().unwrap()).unwrap().count(), beside, "{what} got company");
        kept.check_unharmed(what);
        if store.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            fs::remove_dir(&store).unwrap();
        } else {
            let _ = fs::remove_file(&store);
        }
        fs::rename(&good, &store).unwrap();
    }
    assert_eq!(kept.publish("the good one again")["version"]["id"], "report@1");
}

#[test]
fn a_store_whose_folder_is_gone_is_missing() {
    let kept = Kept::start();
    fs::rename(kept.path("store"), kept.path("elsewhere")).unwrap();
    kept.request("POST", "/snapshots", &[], b"").expect_problem(422, "store_missing");
    fs::write(kept.path("store"), "a file in the folder's place").unwrap();
    kept.request("POST", "/snapshots", &[], b"").expect_problem(422, "store_missing");
    kept.check_unharmed("the folder's end");
    fs::remove_file(kept.path("store")).unwrap();
    fs::rename(kept.path("elsewhere"), kept.path("store")).unwrap();
    kept.publish("back");
}

#[test]
fn a_store_that_could_not_be_published_is_not_well_until_it_is() {
    let kept = Kept::start();
    assert_eq!(kept.get("/healthz").json()["status"], "ok");
    let away = kept.path("away.db");
    fs::rename(kept.store(), &away).unwrap();
    kept.request("POST", "/snapshots", &[], b"").expect_problem(422, "store_missing");
    // A mistake of somebody who asks changes nothing in that.
    let json = [("Content-Type", "application/json")];
    kept.request("POST", "/snapshots", &json, br#"{"label": ""}"#).expect_problem(422, "invalid");
    let health = kept.get("/healthz").json();
    assert_eq!(
        (&health["status"], &health["trouble"]["code"]),
        (&"degraded".into(), &"store_missing".into())
    );
    let stores = kept.get("/stores").json();
    assert!(stores["stores"][0]["failed"]["detail"].as_str().unwrap().contains("is not there"), "{stores}");
    let status = kept.asat(&["status"]);
    let said = String::from_utf8(status.stdout).unwrap();
    assert_eq!(status.status.code(), Some(13), "{said}");
    assert!(said.contains(": 1 thing needs attention\n") && said.contains("! report: "), "{said}");
    assert_eq!(said.matches("is not there").count(), 1, "{said}");
    let page = String::from_utf8(kept.get("/").body).unwrap();
    assert!(page.contains("report could not be published"), "{page}");

    // With the key of an earlier publication nobody looks at the store.
    let keyed = [("Content-Type", "application/json"), ("Idempotency-Key", "one")];
    kept.request("POST", "/snapshots", &keyed, b"{}").expect_problem(422, "store_missing");
    fs::rename(&away, kept.store()).unwrap();
    assert_eq!(kept.request("POST", "/snapshots", &keyed, b"{}").status, 200);
    assert_eq!(kept.get("/healthz").json()["status"], "ok");
    assert_eq!(kept.get("/stores").json()["stores"][0].get("failed"), None);

    fs::rename(kept.store(), &away).unwrap();
    kept.request("POST", "/snapshots", &[], b"").expect_problem(422, "store_missing");
    assert_eq!(kept.request("POST", "/snapshots", &keyed, b"{}").status, 200, "it is answered again");
    assert_eq!(kept.get("/healthz").json()["status"], "degraded");
    fs::rename(&away, kept.store()).unwrap();
    kept.publish("back");
    assert_eq!(kept.get("/healthz").json()["status"], "ok");
}

#[test]
fn a_store_that_the_daemon_may_not_read_is_refused_with_who_should_let_it() {
    let mut world = World::new();
    world.ordinary = true;
    let kept = Kept::start_in(world);
    fs::set_permissions(kept.store(), fs::Permissions::from_mode(0o000)).unwrap();
    let problem = kept.request("POST", "/snapshots", &[], b"").expect_problem(422, "store_unreadable");
    assert!(problem["detail"].as_str().unwrap().contains("may not be read"), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("user"), "{problem}");
    kept.check_unharmed("a store without permissions");
    fs::set_permissions(kept.store(), fs::Permissions::from_mode(0o600)).unwrap();
    kept.publish("back");
}

#[test]
fn a_store_that_stays_locked_is_busy_and_the_answer_names_who_is_in_the_way() {
    for mode in ["pragma journal_mode = delete", "pragma journal_mode = wal; pragma locking_mode = exclusive"]
    {
        let kept = Kept::configured("busy_timeout = \"200ms\"");
        let holder = kept.sqlite();
        // A store in which nothing was committed is published again whoever has it locked.
        holder.execute_batch(&format!("{mode}; insert into ledger values ('committed')")).unwrap();
        holder.execute_batch("begin exclusive; insert into ledger values ('x')").unwrap();
        let answer = kept.request("POST", "/snapshots", &[], b"");
        let problem = answer.expect_problem(503, "store_busy");
        let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!(seconds >= 1);
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        let detail = problem["detail"].as_str().unwrap();
        for part in [&std::process::id().to_string(), name.trim(), "report.db"] {
            assert!(detail.contains(part), "{part}: {problem}");
        }
        kept.check_unharmed(mode);
        holder.execute_batch("rollback").unwrap();
        drop(holder);
        assert_eq!(kept.request("POST", "/snapshots", &[], b"").status / 100, 2);
    }
}
