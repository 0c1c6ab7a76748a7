//! Who may what: over the Unix socket everything, over TCP what the token's role allows.

use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::common::contract::VERSION;
use crate::common::{Answer, PATIENCE, World, exchange};

/// A token's text is its role's name here.
const ROLES: [&str; 3] = ["read", "publish", "admin"];

/// The configuration of a token.
fn token(role: &str) -> String {
    let digest: String = Sha256::digest(role).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\n[[token]]\nname = \"the {role}er\"\nrole = \"{role}\"\nsha256 = \"{digest}\"")
}

/// A path with the version of the API and without.
fn both(path: &str) -> [String; 2] {
    [path.to_owned(), format!("{VERSION}{path}")]
}

struct Tcp {
    world: World,
    address: SocketAddr,
}

impl Tcp {
    /// A daemon with a store, one version of it, and a TCP listener.
    fn start() -> Self {
        let mut world = World::new();
        world.config = "tcp = \"127.0.0.1:0\"".to_owned();
        world.config += &ROLES.map(token).concat();
        Self::begin(world)
    }

    /// The same with the configuration of this world.
    fn begin(mut world: World) -> Self {
        world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
        let log = world.start_under_contract();
        let address = log.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        let address = address.unwrap_or_else(|| panic!("{log}")).parse().unwrap();
        world.publish("first");
        Self { world, address }
    }

    fn call(&self, method: &str, path: &str, authorization: Option<&str>, body: &str) -> Answer {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(authorization.map(|value| ("Authorization", value)));
        let answer = exchange(stream, method, path, &headers, body.as_bytes());
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let contract = self.world.contract.as_ref().unwrap();
        contract
            .check(method, path, &answer)
            .unwrap_or_else(|why| panic!("{method} {path}: {why}\n{answer}"));
        answer
    }
}

#[test]
fn each_role_may_do_what_its_name_says_and_what_the_ones_before_it_may() {
    let tcp = Tcp::start();
    let calls = [
        ("GET", "/versions", "", ROLES.as_slice()),
        ("GET", "/versions/report@1", "", &ROLES),
        ("GET", "/versions/report@1/database", "", &ROLES),
        ("HEAD", "/versions/report@1/database", "", &ROLES),
        ("GET", "/as-of/9999-01-01T00:00:00Z", "", &ROLES),
        ("GET", "/as-of-business-date/9999-01-01", "", &ROLES),
        ("GET", "/version?as_of=now", "", &ROLES),
        ("POST", "/mounts?as_of=now", "{\"holder\":\"x\"}", &ROLES),
        ("GET", "/stores", "", &ROLES),
        ("GET", "/stores/report/archive", "", &ROLES),
        ("GET", "/stores/report/retention", "", &ROLES),
        ("GET", "/stores/report/retention?rules={}", "", &ROLES),
        ("GET", "/versions/report@1/retirement", "", &ROLES),
        ("GET", "/openapi.json", "", &ROLES),
        ("POST", "/stores/report/verify", "", &ROLES),
        ("POST", "/versions/report@1/mounts", "{\"holder\":\"x\"}", &ROLES),
        ("PUT", "/versions/report@1/mounts/x", "{}", &ROLES),
        ("DELETE", "/versions/report@1/mounts/x", "", &ROLES),
        ("POST", "/snapshots", "{}", &ROLES[1..]),
        ("PUT", "/versions/report@1/pin", "{\"reason\":\"x\"}", &ROLES[1..]),
        ("DELETE", "/versions/report@1/pin", "", &ROLES[2..]),
        ("DELETE", "/versions/report@9", "", &ROLES[2..]),
        ("POST", "/stores/report/restore", "{\"version\":\"report@9\"}", &ROLES[2..]),
        ("GET", "/capacity", "", &ROLES),
        ("GET", "/versions/report@1/why", "", &ROLES),
        ("POST", "/capacity/alarms/acknowledge", "{\"key\":\"x\"}", &ROLES[2..]),
        ("POST", "/clock/accept", "{}", &ROLES[2..]),
        ("GET", "/audit", "", &ROLES[2..]),
        ("HEAD", "/audit", "", &ROLES[2..]),
        ("GET", "/leases", "", &ROLES),
        ("DELETE", "/leases/x?reason=x", "", &ROLES[2..]),
        // Names of versions are the caller's text, and open no doors.
        ("DELETE", "/versions/mounts@1", "", &ROLES[2..]),
        ("PUT", "/versions/mounts@1/pin", "{\"reason\":\"x\"}", &ROLES[1..]),
        ("DELETE", "/versions/report@9?/mounts", "", &ROLES[2..]),
    ];
    for (method, path, body, allowed) in calls {
        for (role, path) in ROLES.into_iter().flat_map(|role| both(path).map(|path| (role, path))) {
            let answer = tcp.call(method, &path, Some(&format!("Bearer {role}")), body);
            let refused = answer.status == 403;
            assert_eq!(refused, !allowed.contains(&role), "{method} {path} as {role}: {answer}");
            if refused && method != "HEAD" {
                let problem = answer.expect_problem(403, "forbidden");
                assert!(problem["detail"].as_str().unwrap().to_lowercase().contains(role), "{problem}");
            }
        }
    }
}

#[test]
fn a_path_with_the_version_and_the_same_without_are_one_route_to_every_caller() {
    let tcp = Tcp::start();
    let operations = tcp.world.contract.as_ref().unwrap().operations();
    let versioned: Vec<(String, &str)> = operations
        .iter()
        .filter_map(|(method, path)| Some((method.to_uppercase(), path.strip_prefix(VERSION)?)))
        // Its answer has no end.
        .filter(|(_, path)| *path != "/events")
        .collect();
    assert!(versioned.len() > 30, "{versioned:?}");
    let patched = versioned.iter().map(|(_, path)| ("PATCH".to_owned(), *path));
    let calls: Vec<(String, &str)> = versioned.iter().cloned().chain(patched).collect();
    for (method, template) in &calls {
        let body = if ["POST", "PUT"].contains(&method.as_str()) { "{}" } else { "" };
        // Names that nothing has, so that no call changes what the next one is answered.
        let path =
            template.replace("{id}", "report@9").replace("{name}", "other").replace("{other}", "report@9");
        for role in [None, Some("Bearer read"), Some("Bearer publish"), Some("Bearer admin")] {
            let [newest, versioned] = both(&path).map(|path| {
                let answer = tcp.call(method, &path, role, body);
                let code = serde_json::from_slice::<Value>(&answer.body).map(|body| body["code"].clone());
                (answer.status, code.unwrap_or_default())
            });
            assert_eq!(newest, versioned, "{method} {path} as {role:?}");
        }
    }
}

#[test]
fn tokens_that_do_not_count_are_told_of_and_not_each_nor_what_they_are() {
    let mut tcp = Tcp::start();
    let began = std::time::Instant::now();
    tcp.call("GET", "/versions", None, "").expect_problem(401, "unauthenticated");
    for _ in 0..50 {
        tcp.call("GET", "/versions", Some("Bearer the-wrong-one"), "").expect_problem(401, "unauthenticated");
    }
    let mut daemon = tcp.world.daemon.take().unwrap();
    daemon.terminate();
    assert!(daemon.child.wait().unwrap().success());
    let log = daemon.rest_of_log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a token from 127.0.0.1:")).collect();
    let most = 1 + usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!((1..=most).contains(&lines.len()), "{log}");
    assert!(lines[0].contains("WARN") && lines[0].contains(" was refused: "), "{log}");
    // Those of which there is no line are counted, at the latest when the daemon ends.
    let left_out = log.lines().filter_map(|line| {
        let (before, _) = line.split_once(" more tokens from 127.0.0.1 were refused")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    assert_eq!(lines.len() + left_out.sum::<usize>(), 50, "{log}");
    assert!(!log.contains("the-wrong-one"), "{log}");
}

#[test]
fn without_a_valid_token_nothing_is_told_but_that_the_daemon_lives() {
    let tcp = Tcp::start();
    let operations = tcp.world.contract.as_ref().unwrap().operations();
    let wrong = [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer READ"),
        Some("Basic read"),
        Some("read"),
    ];
    for (method, template) in operations {
        let path = template.replace("{id}", "report@1").replace("{name}", "report").replace("{lease}", "x");
        for authorization in wrong {
            let answer = tcp.call(&method.to_uppercase(), &path, authorization, "");
            if ["/healthz", "/readyz"].contains(&path.as_str()) {
                assert_eq!(answer.status, 200, "{path}: {answer}");
                assert_eq!(answer.json().as_object().unwrap().len(), 2, "{answer}");
            } else {
                answer.expect_problem(401, "unauthenticated");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{method} {path}");
            }
        }
    }
    for path in ["/nothing", "/healthz/", "/versions/x/y/z"] {
        tcp.call("GET", path, None, "").expect_problem(401, "unauthenticated");
        tcp.call("GET", path, Some("Bearer read"), "").expect_problem(404, "not_found");
    }
    tcp.call("POST", "/snapshots", None, &"x".repeat(100_000)).expect_problem(401, "unauthenticated");
}

#[test]
fn the_kind_of_a_token_is_written_in_any_case_and_the_token_itself_exactly() {
    let tcp = Tcp::start();
    for authorization in ["Bearer read", "bearer read", "BEARER read", "Bearer  read"] {
        assert_eq!(tcp.call("GET", "/versions", Some(authorization), "").status, 200, "{authorization}");
    }
    for authorization in ["Bearer Read", "Bearer reader", "Bearer the reader", "Bearer read,publish"] {
        assert_eq!(tcp.call("GET", "/versions", Some(authorization), "").status, 401, "{authorization}");
    }
}

#[test]
fn over_tcp_and_over_the_socket_the_answers_are_the_same() {
    let tcp = Tcp::start();
    for path in ["/versions", "/versions/report@1", "/versions/report@1/database"] {
        let (over_tcp, over_socket) = (tcp.call("GET", path, Some("Bearer read"), ""), tcp.world.get(path));
        assert!(over_tcp.status == over_socket.status && over_tcp.body == over_socket.body, "{path}");
    }
    let path = "/versions/report@7";
    let answers = [tcp.call("GET", path, Some("Bearer read"), ""), tcp.world.get(path)];
    let [over_tcp, over_socket] = answers.map(|answer| {
        let mut problem = answer.expect_problem(404, "unknown_version");
        // That alone is never the same.
        problem.as_object_mut().unwrap().remove("request").unwrap();
        problem
    });
    assert_eq!(over_tcp, over_socket);
    let published: Value = tcp.call("POST", "/snapshots", Some("Bearer publish"), "").json();
    assert_eq!(published["reused"], true);
    // But for that a token is needed over TCP, and over the socket none.
    let [mut over_tcp, mut over_socket] = [
        tcp.call("GET", "/openapi.json", Some("Bearer read"), "").json(),
        tcp.world.get("/openapi.json").json(),
    ];
    let security = "/paths/~1v1~1versions/get/security";
    assert_eq!(over_tcp.pointer(security), Some(&serde_json::json!([{ "token": [] }])));
    assert_eq!(over_socket.pointer(security), Some(&serde_json::json!([{}, { "token": [] }])));
    for document in [&mut over_tcp, &mut over_socket] {
        let paths = document["paths"].as_object_mut().unwrap().values_mut();
        for operation in paths.flat_map(|item| item.as_object_mut().unwrap().values_mut()) {
            operation.as_object_mut().unwrap().remove("security").unwrap();
        }
    }
    assert_eq!(over_tcp, over_socket);
}

#[test]
fn a_tcp_listener_without_tokens_is_refused_at_the_start() {
    let mut world = World::new();
    world.config = "tcp = \"127.0.0.1:0\"".to_owned();
    let mut running = world.spawn();
    let log = running.wait_for("ready").unwrap_err();
    assert_eq!(running.exit().code(), Some(78), "{log}");
    assert!(log.contains("listen.tcp") && log.contains("[[token]]"), "{log}");
}

#[test]
fn tokens_stand_in_a_file_of_their_own_too_and_are_named_in_the_audit_trail() {
    let mut world = World::new();
    let file = world.path("tokens.toml");
    std::fs::write(&file, token("publish")).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.config = "tcp = \"127.0.0.1:0\"\ntokens = \"tokens.toml\"".to_owned() + &token("admin");
    let tcp = Tcp::begin(world);
    assert_eq!(tcp.call("POST", "/snapshots", Some("Bearer publish"), "{\"label\":\"x\"}").status, 200);
    let list = tcp.call("GET", "/audit?limit=1", Some("Bearer admin"), "").json();
    assert_eq!(list["entries"][0]["actor"], "token the publisher");
}

#[test]
fn a_token_that_has_expired_lets_nobody_in_and_says_so_to_its_bearer_alone() {
    let mut world = World::new();
    let until = |end: &str| format!("{}\nexpires = {end}", token("admin"));
    world.config = "tcp = \"127.0.0.1:0\"".to_owned() + &until("\"2026-01-31\"") + &token("read");
    let tcp = Tcp::begin(world);
    let problem =
        tcp.call("GET", "/versions", Some("Bearer admin"), "").expect_problem(401, "unauthenticated");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("\"the adminer\" has expired at 2026-02-01T00:00:00Z"), "{problem}");
    for wrong in [None, Some("Bearer other"), Some("Bearer ADMIN")] {
        let problem = tcp.call("GET", "/versions", wrong, "").expect_problem(401, "unauthenticated");
        assert!(!problem["detail"].as_str().unwrap().contains("expired"), "{problem}");
    }
    assert_eq!(tcp.call("GET", "/versions", Some("Bearer read"), "").status, 200);
    assert_eq!(tcp.call("GET", "/healthz", Some("Bearer admin"), "").status, 200);

    let mut world = World::new();
    world.config = "tcp = \"127.0.0.1:0\"".to_owned() + &until("2199-01-31T12:00:00Z");
    assert_eq!(Tcp::begin(world).call("GET", "/audit", Some("Bearer admin"), "").status, 200);
}

#[test]
fn who_may_what_changes_with_the_configuration_of_a_running_daemon() {
    let mut tcp = Tcp::start();
    let status =
        |tcp: &Tcp, role: &str| tcp.call("GET", "/versions", Some(&format!("Bearer {role}")), "").status;
    assert_eq!((status(&tcp, "read"), status(&tcp, "publish")), (200, 200));
    let sections = |more: &str| format!("tcp = \"127.0.0.1:0\"{}{more}", token("publish"));
    // Root, by whom tests may be run, may do everything in any case.
    tcp.world.config = sections("\n[[peer]]\nuser = \"4000000\"\nrole = \"read\"");
    tcp.world.reload("is in force");
    assert_eq!((status(&tcp, "read"), status(&tcp, "publish")), (401, 200));

    // What is wrong, or would leave a listener without a token, changes nothing.
    let without = "tcp = \"127.0.0.1:0\"".to_owned();
    for (wrong, why) in
        [(sections("\n[copies]\nmax_size = \"much\""), "copies.max_size"), (without, "no token")]
    {
        tcp.world.config = wrong;
        let log = tcp.world.reload("the one before stays");
        assert!(log.contains(why), "{log}");
        assert_eq!((status(&tcp, "read"), status(&tcp, "publish")), (401, 200));
    }
}
