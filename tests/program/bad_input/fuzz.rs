//! Requests put together at random: none of them finds an error of the daemon itself, or its end.
//!
//! The seed is printed; `SEED=… cargo test --test bad_input fuzz` runs the same requests again.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::bad_input::Kept;
use crate::common::{Answer, PATIENCE, try_request};

const REQUESTS: u32 = 3000;

/// A small generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// Changes a few bytes of a text, at random places.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(3) {
                0 if at < bytes.len() => drop(bytes.remove(at)),
                1 if at < bytes.len() => bytes[at] = self.bytes(1)[0],
                _ => {
                    let length = self.below(9);
                    bytes.splice(at..at, self.bytes(length));
                }
            }
        }
    }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "OPTIONS", "PATCH", "BREW"];

const SEGMENTS: [&str; 24] = [
    "versions",
    "snapshots",
    "stores",
    "as-of",
    "mounts",
    "pin",
    "database",
    "verify",
    "report",
    "report@1",
    "report@latest",
    "report%401",
    "report@2",
    "report@0",
    "other@1",
    "..",
    "%2e%2e",
    "%00",
    "%ff",
    "%",
    "2026-11-19T17:00:00Z",
    "9999-12-31T23:59:59Z",
    "healthz",
    "openapi.json",
];

/// Calls that there are.
const ROUTES: [(&str, &str); 14] = [
    ("GET", "/versions"),
    ("GET", "/versions/report@1"),
    ("POST", "/versions/report@1/mounts"),
    ("PUT", "/versions/report@latest/mounts/none"),
    ("DELETE", "/versions/report@1/mounts/none"),
    ("GET", "/versions/report@1/database"),
    ("HEAD", "/versions/report@1/database"),
    ("PUT", "/versions/report@1/pin"),
    ("DELETE", "/versions/report@1/pin"),
    ("POST", "/snapshots"),
    ("GET", "/stores"),
    ("POST", "/stores/report/verify"),
    ("GET", "/as-of/9999-01-01T00:00:00Z"),
    ("GET", "/readyz"),
];

const QUERIES: [&str; 16] = [
    "limit=1",
    "limit=0",
    "limit=99999999999",
    "store=report",
    "store=%00",
    "label=a",
    "from=2026-11-19T17:00:00Z",
    "to=x",
    "state=any",
    "state=ready,lost",
    "cursor=a.b.c",
    "version=1",
    "version=99",
    "&&&",
    "a[]=1",
    "=%ff",
];

const HEADERS: [(&str, &str); 14] = [
    ("Content-Type", "application/json"),
    ("Content-Type", "text/plain"),
    ("Idempotency-Key", "k"),
    ("Idempotency-Key", "\u{fc}"),
    ("Range", "bytes=0-99"),
    ("Range", "bytes=-1"),
    ("Range", "bytes=9999999999-"),
    ("Range", "bytes=0-0,4-9"),
    ("If-Range", "\"x\""),
    ("If-None-Match", "*"),
    ("Expect", "100-continue"),
    ("Accept", "image/png"),
    ("Authorization", "Bearer x"),
    ("X-A", "\u{1}"),
];

const BODIES: [&str; 12] = [
    "",
    "{}",
    "[]",
    "null",
    r#"{"label": "a", "note": "b"}"#,
    r#"{"store": "report"}"#,
    r#"{"store": "../x"}"#,
    r#"{"holder": "a", "ttl_seconds": 5}"#,
    r#"{"ttl_seconds": 5}"#,
    r#"{"reason": "a", "hot": true}"#,
    r#"{"reason": "a", "expires_at": "2199-01-01T00:00:00Z"}"#,
    r#"{"business_date": "2026-11-19", "certified_by": "a"}"#,
];

/// A method and a target, mostly of a call that there is.
fn call(random: &mut Random) -> (&'static str, String) {
    let (mut method, path) = ROUTES[random.below(ROUTES.len())];
    let mut target = path.to_owned();
    if random.below(4) == 0 {
        method = random.pick(&METHODS);
    }
    if random.below(5) == 0 {
        target = (0..random.below(5)).map(|_| format!("/{}", random.pick(&SEGMENTS))).collect();
    }
    if random.below(8) == 0 {
        // Letters and signs that a request line can carry; everything else is for the raw requests.
        let noise = random.bytes(6).into_iter().map(|byte| char::from(0x21 + byte % 0x5e));
        target.extend(noise.filter(|c| *c != '#'));
    }
    if random.below(4) == 0 {
        let queries: Vec<&str> = (0..=random.below(3)).map(|_| random.pick(&QUERIES)).collect();
        target = format!("{target}?{}", queries.join("&"));
    }
    let retires = method == "DELETE" && !["/pin", "/mounts/none"].iter().any(|part| target.contains(part));
    // With the version retired, little else would be reached.
    (
        if retires { "GET" } else { method },
        if target.starts_with('/') { target } else { format!("/{target}") },
    )
}

fn request(kept: &Kept, random: &mut Random) -> Option<(String, Answer)> {
    let (method, target) = call(random);
    let mut body = random.pick(&BODIES).as_bytes().to_vec();
    if random.below(4) == 0 {
        random.mutate(&mut body);
    }
    let mut headers: Vec<(&str, &str)> =
        (0..random.below(4)).map(|_| HEADERS[random.below(HEADERS.len())]).collect();
    if random.below(2) == 0 {
        headers = vec![("Content-Type", "application/json")];
    }
    let said = format!("{method} {target} {headers:?} {}", String::from_utf8_lossy(&body));
    let answer = try_request(&kept.socket(), method, &target, &headers, &body);
    let answer = answer.unwrap_or_else(|error| panic!("{said}: {error}"));
    // What the parser of HTTP itself refuses has no body and is no operation's answer.
    if answer.status != 400 || !answer.body.is_empty() {
        let checked = kept.contract.as_ref().unwrap().check(method, &target, &answer);
        checked.unwrap_or_else(|why| panic!("{said}: {why}\n{answer}"));
    }
    Some((said, answer))
}

/// Bytes that may be a request, or were one once.
fn garbage(kept: &Kept, random: &mut Random) -> Option<(String, Answer)> {
    let length = random.below(300);
    let mut bytes = random.bytes(length);
    if random.below(3) > 0 {
        let ((method, target), body) = (call(random), random.pick(&BODIES));
        let length = body.len();
        bytes = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes();
        random.mutate(&mut bytes);
    }
    if bytes.windows(7).any(|window| window == b"/events") {
        return None;
    }
    let mut stream = UnixStream::connect(kept.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The daemon may hang up before it has taken everything.
    let _ = stream.write_all(&bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let said = String::from_utf8_lossy(&bytes).into_owned();
    let status = std::str::from_utf8(reply.get(9..12)?).ok()?.parse().ok()?;
    Some((said, Answer { status, headers: Vec::new(), body: reply }))
}

#[test]
#[allow(clippy::print_stdout)]
fn random_requests_find_no_error_of_the_daemon() {
    let seed = std::env::var("SEED").ok().map_or(0xa5a7, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let kept = Kept::start();
    let mut random = Random(seed);
    let mut answered = std::collections::BTreeMap::new();
    for _ in 0..REQUESTS {
        let send = if random.below(4) == 0 { garbage } else { request };
        let Some((said, answer)) = send(&kept, &mut random) else { continue };
        assert!(answer.status < 500, "{said}\n{answer}");
        *answered.entry(answer.status).or_insert(0) += 1;
    }
    // Random requests that all fall at the first hurdle would show nothing.
    for status in [200, 201, 206, 304, 400, 404, 405, 415, 422] {
        assert!(answered.contains_key(&status), "{answered:?}");
    }
    let report = kept.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(report["ok"], true, "{report}");
    kept.sqlite().execute("delete from ledger", []).unwrap();
    assert_eq!(kept.publish("after all this")["reused"], false);
    let latest = kept.get("/versions/report@latest/database");
    assert_eq!(latest.status, 200);
}
