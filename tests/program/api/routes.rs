//! The routes as a whole: what there is, what the OpenAPI document says of it, and what there is not.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::world;
use crate::common::contract::{Contract, VERSION};

/// Every call that there is, without the version of the API.
const CALLS: [(&str, &str); 43] = [
    ("delete", "/leases/{lease}"),
    ("delete", "/stores/{name}/tags/{tag}"),
    ("delete", "/versions/{id}"),
    ("delete", "/versions/{id}/mounts/{lease}"),
    ("delete", "/versions/{id}/pin"),
    ("get", "/as-of/{timestamp}"),
    ("get", "/as-of-business-date/{date}"),
    ("get", "/audit"),
    ("get", "/capacity"),
    ("get", "/clock"),
    ("get", "/events"),
    ("get", "/healthz"),
    ("get", "/leases"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
    ("get", "/readyz"),
    ("get", "/stores"),
    ("get", "/stores/{name}/archive"),
    ("get", "/stores/{name}/retention"),
    ("get", "/stores/{name}/tables/{table}/rows/{key}/history"),
    ("get", "/stores/{name}/tags"),
    ("get", "/version"),
    ("get", "/versions"),
    ("get", "/versions/{id}"),
    ("get", "/versions/{id}/database"),
    ("get", "/versions/{id}/diff/{other}"),
    ("get", "/versions/{id}/publications"),
    ("get", "/versions/{id}/retirement"),
    ("get", "/versions/{id}/why"),
    ("post", "/capacity/alarms/acknowledge"),
    ("post", "/clock/accept"),
    ("post", "/mounts"),
    ("post", "/query"),
    ("post", "/snapshots"),
    ("post", "/stores/{name}/remote/push"),
    ("post", "/stores/{name}/remote/take-over"),
    ("post", "/stores/{name}/restore"),
    ("post", "/stores/{name}/verify"),
    ("post", "/versions/{id}/mounts"),
    ("post", "/versions/{id}/unretire"),
    ("put", "/stores/{name}/tags/{tag}"),
    ("put", "/versions/{id}/mounts/{lease}"),
    ("put", "/versions/{id}/pin"),
];

/// What has no version.
const UNVERSIONED: [&str; 3] = ["/healthz", "/metrics", "/readyz"];

/// A path as the document has it.
fn documented(path: &str) -> String {
    if UNVERSIONED.contains(&path) { path.to_owned() } else { format!("{VERSION}{path}") }
}

fn operation<'a>(contract: &'a Contract, (method, path): (&str, &str)) -> &'a Value {
    &contract.document["paths"][documented(path)][method]
}

/// Calls `visit` with every value in a document and its place.
fn walk(value: &Value, at: &str, visit: &mut dyn FnMut(&Value, &str)) {
    visit(value, at);
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| walk(item, &format!("{at}/{n}"), visit))
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| walk(field, &format!("{at}/{name}"), visit))
        }
        _ => {}
    }
}

#[test]
fn the_document_describes_exactly_these_calls() {
    let world = world();
    let operations = world.contract.as_ref().unwrap().operations();
    assert_eq!(operations, CALLS.map(|(method, path)| (method.to_owned(), documented(path))).into());
}

#[test]
fn the_document_is_openapi_3_1() {
    let world = world();
    let contract = world.contract.as_ref().unwrap();
    let document = &contract.document;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."), "{}", document["openapi"]);
    for field in ["title", "version", "description"] {
        assert!(document["info"][field].is_string(), "info.{field}");
    }
    let mut ids = BTreeSet::new();
    for call @ (method, path) in CALLS {
        let operation = operation(contract, call);
        assert!(path.starts_with('/'));
        assert!(
            ids.insert(operation["operationId"].as_str().unwrap()),
            "{method} {path}: its operationId is used twice"
        );
        for field in ["summary", "tags", "security"] {
            assert!(!operation[field].is_null(), "{method} {path} has no {field}");
        }
        let none = Vec::new();
        let parameters = operation["parameters"].as_array().unwrap_or(&none);
        let declared: BTreeSet<&str> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path" && parameter["required"] == true)
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let written = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        assert_eq!(declared, written, "{method} {path}");
        assert!(parameters.iter().all(|parameter| parameter["schema"].is_object()), "{method} {path}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!((100..600).contains(&status.parse::<u16>().unwrap()), "{method} {path}: {status}");
            assert!(!response["description"].as_str().unwrap().is_empty(), "{method} {path}: {status}");
            let problem = response["content"]["application/problem+json"].is_object();
            assert_eq!(problem, status.as_str() >= "400", "{method} {path}: {status}");
        }
    }
    walk(document, "#", &mut |value, at| {
        if value["$ref"].is_string() {
            contract.follow(value);
        }
        let object = value["properties"].as_object();
        for name in value["required"].as_array().into_iter().flatten() {
            assert!(
                object.unwrap().contains_key(name.as_str().unwrap()),
                "{at} requires {name} and has no such field"
            );
        }
        // Version 3.1 knows null as a type and no more as an attribute.
        assert!(value.get("nullable").is_none(), "{at}");
    });
}

#[test]
fn every_documented_call_answers() {
    let world = world();
    world.send("POST", "/snapshots", &json!({ "label": "first", "business_date": "2026-10-31" }));
    for (method, template) in CALLS.into_iter().rev().filter(|call| call.1 != "/events") {
        let path =
            template.replace("{id}", "report@1").replace("{name}", "report").replace("{lease}", "none");
        let path = path.replace("{tag}", "month-end").replace("{other}", "report@1");
        let path = path.replace("{table}", "ledger").replace("{key}", "1");
        let path = path.replace("{timestamp}", "9999-01-01T00:00:00Z").replace("{date}", "2026-10-31");
        let body = match template {
            "/query" => json!({ "sql": "select 1" }),
            "/capacity/alarms/acknowledge" => json!({ "key": "none" }),
            "/versions/{id}/mounts" | "/mounts" => json!({ "holder": "a" }),
            "/stores/{name}/restore" | "/stores/{name}/tags/{tag}" => json!({ "version": "report@1" }),
            "/versions/{id}/pin" => json!({ "reason": "a" }),
            _ => json!({}),
        };
        let query = if ["/version", "/mounts"].contains(&template) { "?label=first" } else { "" };
        let (method, target) = (method.to_uppercase(), format!("{path}{query}"));
        let answer = match method.as_str() {
            "DELETE" => world.request(&method, &target, &[], b""),
            _ => world.send(&method, &target, &body),
        };
        match template {
            "/versions/{id}/mounts/{lease}" | "/leases/{lease}" => {
                drop(answer.expect_problem(404, "unknown_lease"))
            }
            "/capacity/alarms/acknowledge" => drop(answer.expect_problem(404, "not_found")),
            "/stores/{name}/remote/push" | "/stores/{name}/remote/take-over" => {
                drop(answer.expect_problem(422, "invalid"))
            }
            "/versions/{id}/retirement" => drop(answer.expect_problem(409, "leased")),
            "/versions/{id}" if method == "DELETE" => drop(answer.expect_problem(409, "leased")),
            _ => assert!(answer.status < 300, "{method} {path}: {answer}"),
        }
    }
    assert!(world.listen().head.contains("200 OK"));
}

#[test]
fn a_head_request_answers_as_get_without_the_body() {
    let world = world();
    world.publish("first");
    for (_, template) in CALLS.into_iter().filter(|call| call.0 == "get" && call.1 != "/events") {
        let path = template
            .replace("{id}", "report@1")
            .replace("{timestamp}", "9999-01-01T00:00:00Z")
            .replace("{date}", "2026-10-31");
        let (get, head) = (world.get(&path), world.request("HEAD", &path, &[], b""));
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
    assert_eq!(world.request("HEAD", "/versions/report@9", &[], b"").status, 404);
}

#[test]
fn what_does_not_exist_is_a_problem_and_so_is_a_method_that_a_route_does_not_take() {
    let world = world();
    for path in [
        "/nothing",
        "/versions/",
        "/Versions",
        "//versions",
        "/versions/report@1/",
        "/versions/a/b",
        "/stores/report",
        "/snapshots/1",
        "/metrics.json",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/healthz",
        "/v1/metrics",
        "/v1/docs",
        "/v1/v1/versions",
        "/v2/versions",
    ] {
        for method in ["GET", "POST", "DELETE", "OPTIONS", "PROPFIND"] {
            let problem = world.request(method, path, &[], b"").expect_problem(404, "not_found");
            assert!(problem["detail"].as_str().unwrap().ends_with(path), "{problem}");
        }
        assert_eq!(world.request("HEAD", path, &[], b"").status, 404);
    }
    for (_, template) in CALLS {
        let path = template.replace("{id}", "report@1");
        let taken: Vec<&str> =
            CALLS.into_iter().filter(|call| call.1 == template).map(|call| call.0).collect();
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"] {
            if !taken.contains(&method.to_lowercase().as_str()) {
                let answer = world.request(method, &path, &[], b"");
                let problem = answer.expect_problem(405, "method_not_allowed");
                assert!(problem["detail"].as_str().unwrap().contains(method), "{problem}");
                for allowed in &taken {
                    assert!(
                        answer.header("allow").unwrap().contains(&allowed.to_uppercase()),
                        "{method} {path}: {answer}"
                    );
                }
            }
        }
        if !taken.contains(&"get") {
            assert_eq!(world.request("HEAD", &path, &[], b"").status, 405, "{path}");
        }
    }
}

#[test]
fn the_daemon_says_that_it_lives_and_that_it_is_ready() {
    let world = world();
    for path in ["/healthz", "/readyz"] {
        let answer = world.get(path);
        assert_eq!(answer.json(), json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }), "{path}");
    }
}
