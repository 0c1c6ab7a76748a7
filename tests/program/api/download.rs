//! `GET /versions/{id}/database`: a version as a download.

use crate::api::{publish_change, world};
use crate::common::{Answer, World};

const PATH: &str = "/versions/report@1/database";

/// A version of some dozen pages, and the bytes that its as-at copy has.
fn published() -> (World, Vec<u8>) {
    let world = world();
    world.sqlite().execute("insert into ledger values (randomblob(70000))", []).unwrap();
    world.publish("first");
    // The entity tag is another one until then.
    world.archived("report@1");
    let bytes = std::fs::read(world.open("report@1")).unwrap();
    publish_change(&world, "a change that must not be seen");
    (world, bytes)
}

fn get(world: &World, headers: &[(&str, &str)]) -> Answer {
    world.request("GET", PATH, headers, b"")
}

fn etag(world: &World) -> String {
    let version = world.get("/versions/report@1").json();
    format!("\"{}\"", version["fingerprint"].as_str().unwrap())
}

#[test]
fn the_download_is_the_as_at_copy_byte_for_byte() {
    let (world, bytes) = published();
    let answer = get(&world, &[]);
    assert_eq!(answer.status, 200);
    assert!(answer.body == bytes, "the download is another file");
    let headers = [
        ("content-type", "application/vnd.sqlite3"),
        ("content-length", &bytes.len().to_string()),
        ("accept-ranges", "bytes"),
        ("etag", &etag(&world)),
        ("content-disposition", "attachment; filename=\"report@1.db\""),
    ];
    for (name, value) in headers {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let file = world.path("download.db");
    std::fs::write(&file, &answer.body).unwrap();
    let connection =
        rusqlite::Connection::open_with_flags(&file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let rows: i64 = connection.query_row("select count(*) from ledger", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3);
}

#[test]
fn a_store_in_wal_mode_is_downloaded_as_a_database_that_needs_no_sidecars() {
    let world = world();
    let connection = world.sqlite();
    connection.execute_batch("pragma journal_mode = wal; insert into ledger values ('in the wal')").unwrap();
    world.publish("first");
    let body = get(&world, &[]).body;
    assert_eq!(body[18..20], [1, 1]);
    assert!(body == std::fs::read(world.open("report@1")).unwrap());
}

#[test]
fn a_head_request_tells_everything_but_the_bytes() {
    let (world, bytes) = published();
    let answer = world.request("HEAD", PATH, &[], b"");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(answer.header("content-length"), Some(bytes.len().to_string().as_str()));
    assert_eq!(answer.header("etag"), Some(etag(&world).as_str()));
    let part = world.request("HEAD", PATH, &[("Range", "bytes=0-9")], b"");
    assert_eq!((part.status, part.header("content-length")), (206, Some("10")));
}

#[test]
fn conditional_requests_spare_a_download_that_the_caller_has() {
    let (world, bytes) = published();
    let etag = etag(&world);
    let cases = [
        (etag.clone(), 304),
        (format!("W/{etag}"), 304),
        (format!("\"other\", {etag}"), 304),
        ("*".to_owned(), 304),
        ("\"other\"".to_owned(), 200),
        (etag.trim_matches('"').to_owned(), 200),
    ];
    for (given, status) in cases {
        let answer = get(&world, &[("If-None-Match", &given)]);
        assert_eq!(answer.status, status, "{given}");
        assert_eq!(answer.header("etag"), Some(etag.as_str()), "{given}");
        assert_eq!(answer.body.len(), if status == 304 { 0 } else { bytes.len() }, "{given}");
    }
}

#[test]
fn ranges_answer_the_bytes_that_they_name() {
    let (world, bytes) = published();
    let length = bytes.len();
    let cases = [
        ("bytes=0-0".to_owned(), 0..1),
        ("bytes=0-".to_owned(), 0..length),
        ("bytes=100-199".to_owned(), 100..200),
        // Across the borders of pages.
        ("bytes=4095-8192".to_owned(), 4095..8193),
        (format!("bytes={}-", length - 1), length - 1..length),
        ("bytes=-1".to_owned(), length - 1..length),
        ("bytes=-99999999".to_owned(), 0..length),
        (format!("bytes=4096-{}", u64::MAX), 4096..length),
    ];
    for (range, expected) in cases {
        let answer = get(&world, &[("Range", &range)]);
        assert_eq!(answer.status, 206, "{range}: {:?}", answer.headers);
        let told = format!("bytes {}-{}/{length}", expected.start, expected.end - 1);
        assert_eq!(answer.header("content-range"), Some(told.as_str()), "{range}");
        assert!(answer.body == bytes[expected], "{range}");
    }
    for range in ["bytes=9-3", "bytes=0-1,5-6", "pages=0-1", "bytes=x-", "bytes", ""] {
        let answer = get(&world, &[("Range", range)]);
        assert_eq!((answer.status, answer.body.len()), (200, length), "{range}");
    }
}

#[test]
fn a_range_beyond_the_end_is_refused_with_the_length() {
    let (world, bytes) = published();
    for range in
        [format!("bytes={}-", bytes.len()), "bytes=99999999-99999999".to_owned(), "bytes=-0".to_owned()]
    {
        let answer = get(&world, &[("Range", &range)]);
        answer.expect_problem(416, "range_not_satisfiable");
        assert_eq!(answer.header("content-range"), Some(format!("bytes */{}", bytes.len()).as_str()));
    }
}

#[test]
fn a_range_of_another_entity_is_answered_with_the_whole() {
    let (world, bytes) = published();
    let etag = etag(&world);
    let cases = [
        (etag.clone(), 206),
        (format!("W/{etag}"), 200),
        ("\"other\"".to_owned(), 200),
        ("*".to_owned(), 200),
        ("Thu, 19 Nov 2026 17:00:00 GMT".to_owned(), 200),
    ];
    for (given, status) in cases {
        let answer = get(&world, &[("Range", "bytes=5-9"), ("If-Range", &given)]);
        assert_eq!(answer.status, status, "{given}");
        assert!(answer.body == if status == 206 { &bytes[5..10] } else { &bytes[..] }, "{given}");
    }
}

#[test]
fn a_download_that_was_broken_off_goes_on_where_it_stopped() {
    let (world, bytes) = published();
    let etag = etag(&world);
    let mut have = get(&world, &[("Range", "bytes=0-12344")]).body;
    while have.len() < bytes.len() {
        let range = format!("bytes={}-{}", have.len(), have.len() + 30_000);
        let answer = get(&world, &[("Range", &range), ("If-Range", &etag)]);
        assert_eq!(answer.status, 206);
        have.extend(answer.body);
    }
    assert!(have == bytes, "the parts make another file");
}

#[test]
fn a_download_larger_than_any_buffer_arrives_whole() {
    let world = world();
    world.sqlite().execute("insert into ledger values (randomblob(3000000))", []).unwrap();
    world.publish("first");
    assert!(get(&world, &[]).body == std::fs::read(world.open("report@1")).unwrap());
}

#[test]
fn what_cannot_be_downloaded_says_why() {
    let (world, _) = published();
    world.get("/versions/report@9/database").expect_problem(404, "unknown_version");
    world.get("/versions/other@1/database").expect_problem(404, "unknown_store");
    world.get("/versions/report/database").expect_problem(400, "malformed");
    world.retire("report@2");
    world.get("/versions/report@2/database").expect_problem(410, "retired");
    let head = world.request("HEAD", "/versions/report@2/database", &[], b"");
    assert_eq!((head.status, head.body.len()), (410, 0));
}
