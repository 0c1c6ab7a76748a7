//! Request lines, queries, headers and bytes that are no request at all.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::bad_input::Kept;
use crate::common::PATIENCE;

#[test]
fn what_was_never_made_is_unknown_and_what_cannot_be_its_name_is_malformed() {
    let kept = Kept::start();
    let cases = [
        ("GET", "/versions/report@2", 404, "unknown_version"),
        ("GET", "/versions/report@18446744073709551615", 404, "unknown_version"),
        ("GET", "/versions/other@1", 404, "unknown_store"),
        ("GET", "/versions/other@latest", 404, "unknown_store"),
        ("DELETE", "/versions/report@2", 404, "unknown_version"),
        ("GET", "/versions/report@2/database", 404, "unknown_version"),
        ("DELETE", "/versions/report@2/pin", 404, "unknown_version"),
        ("DELETE", "/versions/report@1/mounts/none", 404, "unknown_lease"),
        ("PUT", "/versions/report@1/mounts/none", 404, "unknown_lease"),
        ("DELETE", "/versions/report@2/mounts/none", 404, "unknown_version"),
        ("POST", "/stores/other/verify", 404, "unknown_store"),
        ("POST", "/stores/report/verify?version=2", 404, "unknown_version"),
        ("GET", "/versions?store=other", 404, "unknown_store"),
        ("GET", "/versions/report", 400, "malformed"),
        ("GET", "/versions/report@", 400, "malformed"),
        ("GET", "/versions/@1", 400, "malformed"),
        ("GET", "/versions/report@0", 400, "malformed"),
        ("GET", "/versions/report@01", 400, "malformed"),
        ("GET", "/versions/report@+1", 400, "malformed"),
        ("GET", "/versions/report@-1", 400, "malformed"),
        ("GET", "/versions/report@1.0", 400, "malformed"),
        ("GET", "/versions/report@1e0", 400, "malformed"),
        ("GET", "/versions/report@18446744073709551616", 400, "malformed"),
        ("GET", "/versions/report@Latest", 400, "malformed"),
        ("GET", "/versions/report@1@1", 400, "malformed"),
        ("GET", "/versions/report@%201", 400, "malformed"),
        ("GET", "/versions/rep%20ort@1", 400, "malformed"),
        ("GET", "/versions/report@%D9%A1", 400, "malformed"),
        ("GET", "/versions?store=", 400, "malformed"),
        ("GET", "/versions?from=2026-11-20T00:00:00Z&to=2026-11-19T00:00:00Z", 422, "invalid"),
        ("GET", "/versions?store=a%20b", 400, "malformed"),
        ("POST", "/stores/%20/verify", 400, "malformed"),
    ];
    for (method, path, status, code) in cases {
        kept.request(method, path, &[], b"").expect_problem(status, code);
    }
    kept.check_unharmed("unknown names");
}

#[test]
fn an_instant_has_a_date_a_time_and_an_offset() {
    let kept = Kept::start();
    let bad = [
        "now",
        "2026-11-19",
        "2026-11-19T17:00:00",
        "17:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-19T25:00:00Z",
        "0",
        "1763571600",
        "2026-11-19T17:00:00ZZ",
        "2026-11-19T17:00:00%2B99:00",
        "%00",
        "2026-11-19T17%3A00%3A00",
        "-",
        "%F0%9F%8E%89",
        "19999-01-01T00:00:00Z",
    ];
    for text in bad {
        for path in
            [format!("/as-of/{text}"), format!("/versions?from={text}"), format!("/versions?to={text}")]
        {
            let problem = kept.get(&path).expect_problem(400, "malformed");
            assert!(problem["hint"].as_str().unwrap().contains("RFC 3339"), "{path}: {problem}");
        }
    }
    for path in ["/versions?from=", "/versions?to=%20"] {
        kept.get(path).expect_problem(400, "malformed");
    }
    // In a query a plus sign is a space, and the answer says how to write one.
    let problem = kept.get("/versions?from=2026-11-19T17:00:00+01:00").expect_problem(400, "malformed");
    assert!(problem["hint"].as_str().unwrap().contains("%2B"), "{problem}");
    kept.check_unharmed("bad instants");
}

#[test]
fn parameters_are_known_and_within_their_bounds() {
    let kept = Kept::start();
    let cases = [
        ("limit=0", 422, "invalid"),
        ("limit=1001", 422, "invalid"),
        ("limit=4294967295", 422, "invalid"),
        ("limit=-1", 400, "malformed"),
        ("limit=abc", 400, "malformed"),
        ("limit=", 400, "malformed"),
        ("limit=1.0", 400, "malformed"),
        ("limit=1e2", 400, "malformed"),
        ("limit=4294967296", 400, "malformed"),
        ("limit=1&limit=2", 400, "malformed"),
        ("state=redy", 422, "invalid"),
        ("state=", 422, "invalid"),
        ("state=ready,", 422, "invalid"),
        ("state=READY", 422, "invalid"),
        ("unknown=1", 400, "malformed"),
        ("Limit=1", 400, "malformed"),
        ("%00=1", 400, "malformed"),
        ("cursor=", 400, "malformed"),
        ("cursor=abc", 400, "malformed"),
        ("cursor=%00", 400, "malformed"),
        ("cursor=0.0.report@1", 422, "cursor_mismatch"),
        ("cursor=x.99999999999999999999.report@1", 400, "malformed"),
    ];
    for (query, status, code) in cases {
        let answer = kept.get(&format!("/versions?{query}"));
        answer.expect_problem(status, code);
        assert!(answer.body.len() < 1000, "{query}: {answer}");
    }
    for path in ["/as-of/9999-01-01T00:00:00Z?shop=report", "/versions?verison=1"] {
        let problem = kept.get(path).expect_problem(400, "malformed");
        assert!(problem["detail"].as_str().unwrap().contains("there is no"), "{problem}");
    }
    for query in ["version=x", "version=-1", "version=", "all=1"] {
        kept.request("POST", &format!("/stores/report/verify?{query}"), &[], b"")
            .expect_problem(400, "malformed");
    }
    let long = kept.get(&format!("/versions?{}=1", "x".repeat(30_000)));
    long.expect_problem(400, "malformed");
    assert!(long.body.len() < 1000);
    kept.check_unharmed("bad parameters");
}

#[test]
fn what_takes_no_parameters_refuses_each_and_does_nothing() {
    let kept = Kept::start();
    let calls = [
        ("GET", "/versions/report@1?at=now"),
        ("HEAD", "/versions/report@1?at=now"),
        ("GET", "/versions/report@1/database?at=now"),
        ("PUT", "/versions/report@1/pin?dry_run=true"),
        ("POST", "/snapshots?dry_run=true"),
        ("POST", "/stores/report/restore?dry_run=true"),
        ("GET", "/stores/report/archive?x=1"),
        ("GET", "/stores/report/tags?x=1"),
        ("GET", "/stores?x=1"),
        ("GET", "/capacity?x=1"),
        ("GET", "/metrics?x=1"),
        ("GET", "/events?x=1"),
        ("GET", "/healthz?x=1"),
    ];
    for (method, path) in calls {
        let answer = kept.request(method, path, &[], b"");
        assert_eq!(answer.status, 400, "{method} {path}: {answer}");
        if method != "HEAD" {
            let problem = answer.expect_problem(400, "malformed");
            assert!(problem["detail"].as_str().unwrap().contains("unknown parameter"), "{problem}");
        }
    }
    // A route that takes some names them.
    let refused = kept.request("DELETE", "/versions/report@1?now=true&force=no", &[], b"");
    let problem = refused.expect_problem(400, "malformed");
    assert!(problem["detail"].as_str().unwrap().contains("there is no \"force\" here"), "{problem}");
    assert_eq!(kept.get("/stores?").status, 200);
    kept.check_unharmed("parameters that nothing takes");
}

#[test]
fn a_query_that_cannot_be_read_is_refused_on_every_route() {
    let kept = Kept::start();
    for query in ["label=%ff", "label=%zz", "%ff=1", "label=%", "%c3%28"] {
        for path in ["/versions", "/audit", "/stores", "/capacity", "/"] {
            kept.get(&format!("{path}?{query}")).expect_problem(400, "malformed");
        }
    }
}

#[test]
fn the_end_of_time_is_an_instant() {
    let kept = Kept::start();
    for end in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999-12:00", "9999-12-30T22:00:01Z"] {
        assert_eq!(kept.get(&format!("/as-of/{end}")).json()["id"], "report@1", "{end}");
        for (filter, found) in [("to", 1), ("from", 0)] {
            let list = kept.get(&format!("/versions?{filter}={end}")).json();
            assert_eq!(list["versions"].as_array().unwrap().len(), found, "{filter} {end}: {list}");
        }
    }
    for text in ["9999-12-31", "9999-12-31T23:59:59", "9999-12-32T00:00:00Z", "9999-12-31T24:00:00Z"] {
        kept.get(&format!("/as-of/{text}")).expect_problem(400, "malformed");
    }
}

#[test]
fn a_cursor_leads_on_in_its_own_list_only() {
    let kept = Kept::start();
    kept.sqlite().execute("delete from ledger", []).unwrap();
    kept.publish("kept");
    let page = kept.get("/versions?limit=1&label=kept").json();
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(
        kept.get(&format!("/versions?label=kept&cursor={cursor}")).json()["versions"][0]["id"],
        "report@1"
    );
    for query in [
        "",
        "label=other",
        "label=kept&store=report",
        "label=kept&state=any",
        "label=kept&from=2000-01-01T00:00:00Z",
    ] {
        kept.get(&format!("/versions?{query}&cursor={cursor}")).expect_problem(422, "cursor_mismatch");
    }
    for end in [1, cursor.len() / 2, cursor.len() - 1] {
        kept.get(&format!("/versions?label=kept&cursor={}", &cursor[..end])).expect_problem(400, "malformed");
    }
}

#[test]
fn no_path_leads_out_of_the_routes() {
    let kept = Kept::start();
    let long = "a".repeat(10_000);
    let cases = [
        ("/versions/..".to_owned(), 400),
        ("/versions/.".to_owned(), 400),
        ("/versions/%2e%2e".to_owned(), 400),
        ("/versions/%2e%2e%2f%2e%2e%2fetc%2fpasswd".to_owned(), 400),
        ("/versions/..%2F..%2Fcatalogue.db/database".to_owned(), 400),
        ("/versions/report%2F@1".to_owned(), 400),
        ("/versions/report@1%2Fdatabase".to_owned(), 400),
        ("/versions/..@1".to_owned(), 400),
        ("/versions/%252e%252e@1".to_owned(), 400),
        ("/versions/report@1%00".to_owned(), 400),
        ("/versions/%00report@1".to_owned(), 400),
        ("/versions/report@1%0d%0aX-Evil:%201".to_owned(), 400),
        ("/versions/%ff%fe@1".to_owned(), 400),
        ("/versions/%zz@1".to_owned(), 400),
        ("/versions/report@%".to_owned(), 400),
        (format!("/versions/{long}@1"), 400),
        (format!("/versions/report@{}", "9".repeat(10_000)), 400),
        (format!("/as-of/{long}"), 400),
        (format!("/versions/{}@1", "a".repeat(64)), 404),
        (format!("/versions/{}@1", "a".repeat(65)), 400),
        ("/versions/../stores".to_owned(), 404),
        ("/../../etc/passwd".to_owned(), 404),
        ("/%2e%2e/versions".to_owned(), 404),
        ("/versions\\report@1".to_owned(), 404),
        ("/versions%2Freport@1".to_owned(), 404),
        ("/versions//database".to_owned(), 400),
        ("/versions;a=b".to_owned(), 404),
        (format!("/{long}"), 404),
        (format!("/{}", "a/".repeat(5_000)), 404),
    ];
    for (path, status) in cases {
        let answer = kept.get(&path);
        let start: String = path.chars().take(60).collect();
        answer.expect_problem(status, answer.json()["code"].as_str().unwrap());
        assert!(answer.body.len() < 1000, "{start}: {answer}");
        assert!(answer.header("x-evil").is_none());
    }
    for lease in ["..%2f..%2flock", "%00", "%ff", &long] {
        for method in ["PUT", "DELETE"] {
            let answer = kept.request(method, &format!("/versions/report@1/mounts/{lease}"), &[], b"");
            assert!([400, 404].contains(&answer.status) && answer.body.len() < 1000, "{answer}");
        }
    }
    kept.check_unharmed("tricks with paths");
}

/// Sends bytes and nothing after them; answers what comes back, which is no more than one refusal.
fn raw(kept: &Kept, bytes: &[u8]) -> String {
    let stream = sent(kept, bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    reply(stream)
}

fn sent(kept: &Kept, bytes: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(kept.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The daemon may hang up before it has taken everything.
    let _ = stream.write_all(bytes);
    stream
}

fn reply(mut stream: UnixStream) -> String {
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn bytes_that_are_no_request_are_refused_or_dropped() {
    let kept = Kept::start();
    let post = |headers: &str, body: &str| {
        format!(
            "POST /snapshots HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{headers}\r\n{body}"
        )
        .into_bytes()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", b"".to_vec()),
        ("a line end", b"\r\n".to_vec()),
        ("zeros", vec![0; 4096]),
        ("high bytes", vec![0xff; 4096]),
        ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("an HTTP/2 greeting", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("an unfinished line", b"GET /versions".to_vec()),
        ("unfinished headers", b"GET /versions HTTP/1.1\r\nHost: a\r\nX: ".to_vec()),
        ("no version", b"GET /versions\r\n\r\n".to_vec()),
        ("another version", b"GET /versions HTTP/9.9\r\n\r\n".to_vec()),
        ("a method of symbols", b"G@T /versions HTTP/1.1\r\n\r\n".to_vec()),
        ("a zero in the path", b"GET /versions\0 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("a space in the path", b"GET /versions report HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("a header without a colon", b"GET /versions HTTP/1.1\r\nHost\r\n\r\n".to_vec()),
        ("a zero in a header", b"GET /versions HTTP/1.1\r\nHost: a\0b\r\n\r\n".to_vec()),
        ("a header that is folded", b"GET /versions HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n".to_vec()),
        ("a negative length", post("Content-Length: -1\r\n", "{}")),
        ("a length that is no number", post("Content-Length: two\r\n", "{}")),
        ("two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n", "{} ")),
        ("a length beyond all numbers", post("Content-Length: 99999999999999999999999\r\n", "{}")),
        ("less than was promised", post("Content-Length: 100\r\n", "{\"label\": \"x\"}")),
        ("a chunk without a size", post("Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n")),
        (
            "a chunk of all memory",
            post("Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        ),
        ("chunks without an end", post("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n")),
        ("an unknown encoding", post("Transfer-Encoding: zip\r\n", "{}")),
        ("a thousand headers", post(&"X-A: b\r\n".repeat(1000), "")),
        ("a header of a megabyte", post(&format!("X-A: {}\r\n", "b".repeat(1 << 20)), "")),
        ("a path of a megabyte", format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20)).into_bytes()),
        ("a name of a megabyte", post(&format!("{}: x\r\n", "b".repeat(1 << 20)), "")),
    ];
    for (what, bytes) in cases {
        let reply = raw(&kept, &bytes);
        assert!(
            reply.is_empty() || reply.starts_with("HTTP/1.1 4") || reply.starts_with("HTTP/1.0 4"),
            "{what}: {reply}"
        );
        kept.check_unharmed(what);
    }
    // A refusal ends the connection: what follows is not taken for a request.
    let smuggled = b"BAD\r\n\r\nPOST /snapshots HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(raw(&kept, smuggled).matches("HTTP/1.1").count(), 1);
    let both = post(
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\nPOST /snapshots HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    );
    assert!(raw(&kept, &both).matches("HTTP/1.1 2").count() <= 1);
}

#[test]
fn a_request_says_for_which_host_it_is_and_its_body_is_plain_utf_8() {
    let kept = Kept::start();
    for (head, status) in [
        ("GET /stores HTTP/1.1\r\n", "400"),
        ("GET /stores HTTP/1.1\r\nHost: a\r\nHost: b\r\n", "400"),
        ("GET /stores HTTP/1.1\r\nHost:\r\n", "200"),
        ("GET /stores HTTP/1.0\r\n", "200"),
    ] {
        // Who says that nothing more will come is taken to have gone, and gets no answer that is not ready.
        let reply = reply(sent(&kept, format!("{head}Connection: close\r\n\r\n").as_bytes()));
        assert_eq!(reply.split(' ').nth(1), Some(status), "{head}: {reply}");
    }
    let json = "application/json";
    for headers in [
        [("Content-Type", json), ("Content-Encoding", "gzip")],
        [("Content-Type", json), ("Content-Encoding", "identity, br")],
        [("Content-Type", "application/json; charset=latin1"), ("X-Other", "")],
    ] {
        kept.request("POST", "/query", &headers, b"{\"sql\":\"select 1\"}")
            .expect_problem(415, "unsupported_media_type");
    }
    for headers in [
        [("Content-Type", "application/json; charset=UTF-8"), ("Content-Encoding", "identity")],
        [("Content-Type", "application/json;charset=\"utf-8\""), ("X-Other", "")],
    ] {
        let answer = kept.request("POST", "/query", &headers, b"{\"sql\":\"select 1\"}");
        assert_eq!(answer.status, 200, "{headers:?}: {answer}");
    }
}

#[test]
fn connections_that_say_nothing_keep_nobody_waiting() {
    let mut kept = Kept::start();
    let silent: Vec<UnixStream> = (0..200).map(|_| UnixStream::connect(kept.socket()).unwrap()).collect();
    let mut halves: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(kept.socket()).unwrap()).collect();
    for stream in &mut halves {
        stream.write_all(b"POST /snapshots HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{").unwrap();
    }
    kept.check_unharmed("silent connections");
    drop((silent, halves));
    assert!(kept.world.stop().success());
}
