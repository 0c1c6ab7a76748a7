//! Bodies and headers of requests that are refused.

use crate::bad_input::Kept;
use crate::common::{Answer, try_request};

const JSON: &str = "application/json";

fn send(kept: &Kept, method: &str, path: &str, body: &[u8]) -> Answer {
    kept.request(method, path, &[("Content-Type", JSON)], body)
}

/// Texts that are on no single line, or on too long a one.
fn bad_lines(max: usize) -> Vec<String> {
    let mut bad: Vec<String> =
        ["", " ", "\u{a0}", "a\nb", "a\tb", "a\rb", "a\0b", "\u{1b}[31mred", "a\u{7f}", "a\u{85}b"]
            .map(str::to_owned)
            .into();
    bad.extend(
        ["a\u{2028}b", "a\u{2029}b", "a\u{202e}b", "a\u{202a}b", "a\u{2066}b", "a\u{2069}b"]
            .map(str::to_owned),
    );
    bad.extend(["x".repeat(max + 1), "ü".repeat(max + 1), "x".repeat(10_240)]);
    bad
}

#[test]
fn bodies_that_cannot_be_read_are_malformed_and_values_that_are_not_taken_are_invalid() {
    let kept = Kept::start();
    let nested = |open: &str| format!("{open}{}", "[".repeat(50_000)).into_bytes();
    let cases: Vec<(Vec<u8>, u16, &str)> = vec![
        (b"certified".to_vec(), 400, "malformed"),
        (b"{".to_vec(), 400, "malformed"),
        (b"{\"label\": \"clo".to_vec(), 400, "malformed"),
        (b"{\"label\": \"close\"".to_vec(), 400, "malformed"),
        (b"{\"label\": \"close\"} {}".to_vec(), 400, "malformed"),
        (b"{\"label\": \"close\",}".to_vec(), 400, "malformed"),
        (b"{'label': 'close'}".to_vec(), 400, "malformed"),
        (b"{\"label\": \"clo\nse\"}".to_vec(), 400, "malformed"),
        (b"\xef\xbb\xbf{}".to_vec(), 400, "malformed"),
        (b"{\"label\": \"\xff\xfe\"}".to_vec(), 400, "malformed"),
        (b"{\"label\": \"\xc0\xaf\"}".to_vec(), 400, "malformed"),
        (b"{\"label\": \"\\ud800\"}".to_vec(), 400, "malformed"),
        (b" ".to_vec(), 400, "malformed"),
        (b"\0".to_vec(), 400, "malformed"),
        (b"store=report&label=close".to_vec(), 400, "malformed"),
        (b"null".to_vec(), 422, "invalid"),
        (b"true".to_vec(), 422, "invalid"),
        (b"\"report\"".to_vec(), 422, "invalid"),
        (b"[]".to_vec(), 422, "invalid"),
        (b" [\"report\", \"close\"]".to_vec(), 422, "invalid"),
        (b"{\"label\": 7}".to_vec(), 422, "invalid"),
        (b"{\"label\": [\"close\"]}".to_vec(), 422, "invalid"),
        (b"{\"label\": {}}".to_vec(), 422, "invalid"),
        (b"{\"note\": false}".to_vec(), 422, "invalid"),
        (b"{\"lable\": \"close\"}".to_vec(), 422, "invalid"),
        (b"{\"Label\": \"close\"}".to_vec(), 422, "invalid"),
        (b"{\"\": \"close\"}".to_vec(), 422, "invalid"),
        (b"{\"label\": \"a\", \"label\": \"b\"}".to_vec(), 422, "invalid"),
        (b"{\"label\": \"a\", \"lab\\u0065l\": \"b\"}".to_vec(), 422, "invalid"),
        (nested(""), 422, "invalid"),
        (nested("{\"label\":"), 422, "invalid"),
        (nested("{\"unknown\":"), 422, "invalid"),
        ("{\"a\":".repeat(9_000).into_bytes(), 422, "invalid"),
    ];
    for (body, status, code) in cases {
        let text = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = send(&kept, "POST", "/snapshots", &body);
        let problem = answer.expect_problem(status, code);
        let detail = problem["detail"].as_str().unwrap();
        let jargon = ["expected", "struct", "invalid type", "field `", "EOF", " column "];
        assert!(!jargon.iter().any(|word| detail.contains(word)), "{text}: {problem}");
        assert!(answer.body.len() < 1000, "{text}: {answer}");
    }
    let named = send(&kept, "POST", "/snapshots", b"{\"lable\": \"close\"}").expect_problem(422, "invalid");
    assert!(named["detail"].as_str().unwrap().contains("\"lable\""), "{named}");
    let long = format!("{{\"{}\": 1}}", "x".repeat(60_000));
    assert!(send(&kept, "POST", "/snapshots", long.as_bytes()).body.len() < 1000);
    kept.check_unharmed("bad bodies");
}

#[test]
fn a_body_that_is_too_large_is_refused_and_one_that_is_not_declared_as_json_too() {
    let kept = Kept::start();
    for size in [64 * 1024 + 1, 1 << 20, 16 << 20] {
        let body = format!("{{\"note\": \"{}\"}}", "n".repeat(size));
        for path in ["/snapshots", "/versions/report@1/mounts"] {
            let headers = [("Content-Type", JSON)];
            // Who refuses before reading on may break the connection while the rest is still being sent.
            match try_request(&kept.socket(), "POST", path, &headers, body.as_bytes()) {
                Ok(answer) => drop(answer.expect_problem(413, "too_large")),
                Err(error) => assert!(size > 64 * 1024 + 1, "{error}"),
            }
        }
    }
    let fits = format!("{{\"note\": \"{}\"}}", "n".repeat(60_000));
    send(&kept, "POST", "/snapshots", fits.as_bytes()).expect_problem(422, "invalid");
    let kinds = [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "json",
        "",
        "application/jsonp",
        "application/json2; x",
    ];
    for kind in kinds {
        let answer = kept.request("POST", "/snapshots", &[("Content-Type", kind)], b"{}");
        answer.expect_problem(415, "unsupported_media_type");
    }
    kept.request("POST", "/snapshots", &[], b"{}").expect_problem(415, "unsupported_media_type");
    kept.check_unharmed("large bodies and other media types");
    for kind in
        ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;"]
    {
        assert_eq!(
            kept.request("POST", "/snapshots", &[("Content-Type", kind)], b"{}").status,
            200,
            "{kind}"
        );
    }
}

#[test]
fn texts_that_would_not_fit_on_a_line_are_refused_by_the_name_of_their_field() {
    let kept = Kept::start();
    let fields = [
        ("POST", "/snapshots", "label", 200),
        ("POST", "/snapshots", "certified_by", 200),
        ("POST", "/versions/report@1/mounts", "holder", 200),
        ("PUT", "/versions/report@1/pin", "reason", 500),
        ("PUT", "/versions/report@1/pin", "owner", 200),
    ];
    for (method, path, field, max) in fields {
        for text in bad_lines(max) {
            let mut body = serde_json::json!({});
            if field == "owner" {
                body["reason"] = "audit".into();
            }
            body[field] = text.as_str().into();
            let answer = send(&kept, method, path, body.to_string().as_bytes());
            let problem = answer.expect_problem(422, "invalid");
            assert!(problem["detail"].as_str().unwrap().contains(field), "{text:?}: {problem}");
            assert!(answer.body.len() < 1000, "{answer}");
        }
    }
    for note in ["", "a\0b", "\u{202e}", "\u{1b}[2J", &"n".repeat(4001)] {
        let body = serde_json::json!({ "note": note }).to_string();
        send(&kept, "POST", "/snapshots", body.as_bytes()).expect_problem(422, "invalid");
    }
    kept.check_unharmed("bad texts");
}

#[test]
fn a_business_date_is_a_day_of_the_calendar_in_its_one_spelling() {
    let kept = Kept::start();
    for date in [
        "",
        "today",
        "2026-02-30",
        "2025-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-11-00",
        "2026-2-3",
        "20261119",
        "2026-11-19T00:00:00Z",
        "2026-11-19 ",
        " 2026-11-19",
        "19.11.2026",
        "11/19/2026",
        "26-11-19",
        "+002026-11-19",
        "99999-01-01",
        "2026-W47-4",
        "2026-323",
        "２０２６-11-19",
        "2026-11-19\u{0}",
    ] {
        let body = serde_json::json!({ "business_date": date }).to_string();
        let problem = send(&kept, "POST", "/snapshots", body.as_bytes()).expect_problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains("business_date"), "{date}: {problem}");
        assert!(problem["hint"].as_str().unwrap().contains("2026-11-19"), "{date}: {problem}");
    }
    kept.check_unharmed("bad dates");
}

#[test]
fn an_idempotency_key_is_short_visible_and_one() {
    let kept = Kept::start();
    let long = "k".repeat(256);
    let cases: [(&[&str], u16, &str); 6] = [
        (&[""], 422, "invalid"),
        (&["  "], 422, "invalid"),
        (&["a\tb"], 422, "invalid"),
        (&[&long], 422, "invalid"),
        (&["schlüssel"], 400, "malformed"),
        (&["a", "b"], 400, "malformed"),
    ];
    for (keys, status, code) in cases {
        let headers: Vec<(&str, &str)> = keys.iter().map(|key| ("Idempotency-Key", *key)).collect();
        let problem = kept.request("POST", "/snapshots", &headers, b"").expect_problem(status, code);
        assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{keys:?}: {problem}");
    }
    kept.check_unharmed("bad keys");
    let answer = kept.request("POST", "/snapshots", &[("Idempotency-Key", &long[..255])], b"");
    assert_eq!(answer.status, 200, "{answer}");
}

#[test]
fn leases_and_pins_are_refused_where_a_value_is_not_sensible() {
    let kept = Kept::start();
    let mounts = "/versions/report@1/mounts";
    let renew = "/versions/report@1/mounts/none";
    let pin = "/versions/report@1/pin";
    let cases = [
        ("POST", mounts, "", "holder"),
        ("POST", mounts, "{}", "holder"),
        ("POST", mounts, r#"{"holder": null}"#, "holder is null"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": 0}"#, "ttl_seconds"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": 2678401}"#, "2678400"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": 4294967295}"#, "ttl_seconds"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": 4294967296}"#, "smaller"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": -1}"#, "whole number"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": 1.5}"#, "whole number"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": "60"}"#, "whole number"),
        ("POST", mounts, r#"{"holder": "a", "ttl_seconds": null}"#, "whole number"),
        ("POST", mounts, r#"{"holder": "a", "ttl": 60}"#, "ttl_seconds"),
        ("POST", mounts, r#"["a", 60]"#, "object"),
        ("PUT", renew, r#"{"ttl_seconds": 0}"#, "ttl_seconds"),
        ("PUT", renew, r#"{"holder": "a"}"#, "holder"),
        ("PUT", renew, "[60]", "object"),
        ("PUT", pin, "", "reason"),
        ("PUT", pin, r#"{"owner": "a"}"#, "reason"),
        ("PUT", pin, r#"{"reason": "a", "expires_at": "2020-01-01T00:00:00Z"}"#, "expires_at"),
        ("PUT", pin, r#"{"reason": "a", "expires_at": "tomorrow"}"#, "expires_at"),
        ("PUT", pin, r#"{"reason": "a", "expires_at": "2199-01-01"}"#, "expires_at"),
        ("PUT", pin, r#"{"reason": "a", "expires_at": 4102444800}"#, "expires_at"),
        ("PUT", pin, r#"{"reason": "a", "hot": "yes"}"#, "hot is a text"),
        ("PUT", pin, r#"{"reason": "a", "until": "2199-01-01T00:00:00Z"}"#, "\"until\""),
    ];
    for (method, path, body, named) in cases {
        let problem = send(&kept, method, path, body.as_bytes()).expect_problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(named), "{body}: {problem}");
    }
    assert_eq!(kept.get("/versions/report@1").json()["pin"], serde_json::Value::Null);
    kept.check_unharmed("bad leases and pins");
}
