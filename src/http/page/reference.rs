//! `/docs`: the API reference, made of the OpenAPI document, so that it says what the document says.

use std::collections::BTreeMap;
use std::sync::Arc;

use asat_core::Code;
use askama::Template;
use axum::Extension;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value};

use super::super::access::{self, Caller, SignedIn};
use super::super::{problem, route};
use super::Frame;
use super::schema::{self, Field, Kind, Text, Word};

/// What an operation's path and query are called with in the examples.
const EXAMPLES: [(&str, &str); 6] = [
    ("{id}", "report@12"),
    ("{name}", "report"),
    ("{tag}", "month-end"),
    ("{lease}", "LEASE"),
    ("{timestamp}", "2026-11-19T17:00:00Z"),
    ("{date}", "2026-11-19"),
];

/// The whole reference.
pub(super) struct Reference {
    groups: Vec<Group>,
    objects: Vec<Object>,
    problems: Vec<(u16, &'static str, &'static str)>,
}

/// Operations on one subject.
struct Group {
    name: String,
    operations: Vec<Operation>,
}

struct Operation {
    id: String,
    method: String,
    path: String,
    summary: Text,
    text: Text,
    /// The least role that may; `None` where everybody may.
    role: Option<&'static str>,
    parameters: Vec<Field>,
    body: Vec<Field>,
    answers: Vec<Answer>,
    curl: String,
}

struct Answer {
    status: String,
    text: String,
    media: String,
    kind: Kind,
}

/// An object that requests and answers consist of.
struct Object {
    name: String,
    text: Text,
    fields: Vec<Field>,
    /// What it is, if it has no fields of its own.
    kind: Kind,
}

#[derive(Template)]
#[template(path = "reference.html")]
struct Page<'a> {
    frame: Frame,
    reference: &'a Reference,
}

pub(super) async fn show(
    caller: Caller,
    Extension(signed_in): Extension<SignedIn>,
    Extension(reference): Extension<Arc<Reference>>,
) -> Response {
    super::answer(StatusCode::OK, &Page { frame: Frame::of(&caller, signed_in), reference: &reference })
}

impl Reference {
    pub(super) fn new(document: &Value) -> Self {
        let mut groups: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flat_map(Map::iter) {
            for (method, operation) in item.as_object().into_iter().flat_map(Map::iter) {
                let group =
                    operation.pointer("/tags/0").and_then(Value::as_str).unwrap_or("other").to_owned();
                groups.entry(group).or_default().push(Operation::new(document, method, path, operation));
            }
        }
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        let object = |(name, schema): (&String, &Value)| Object {
            name: name.clone(),
            text: Text::of(&schema["description"]),
            fields: Field::all(schema),
            kind: Kind::of(schema),
        };
        let problem = |code: Code| (problem::status(code).as_u16(), code.text().0, code.text().1);
        Self {
            groups: groups.into_iter().map(|(name, operations)| Group { name, operations }).collect(),
            objects: schemas.into_iter().flat_map(Map::iter).map(object).collect(),
            problems: Code::ALL.into_iter().map(problem).collect(),
        }
    }
}

impl Operation {
    fn new(document: &Value, method: &str, path: &str, operation: &Value) -> Self {
        let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
        let method = method.to_uppercase();
        let route = route::plain(path);
        let role = Method::from_bytes(method.as_bytes()).ok().filter(|_| !access::is_public(route));
        let body = operation
            .pointer("/requestBody/content/application~1json/schema")
            .map(|schema| object(document, schema));
        let responses = operation["responses"].as_object().into_iter().flat_map(Map::iter);
        Self {
            id: text("operationId"),
            role: role.map(|method| access::needed(&method, route).text()),
            summary: Text::of(&operation["summary"]),
            text: Text::of(&operation["description"]),
            parameters: schema::list(&operation["parameters"]).map(Field::parameter).collect(),
            body: body.map(Field::all).unwrap_or_default(),
            answers: responses.map(|(status, response)| Answer::new(status, response)).collect(),
            curl: curl(&method, path, body),
            method,
            path: path.to_owned(),
        }
    }
}

impl Answer {
    fn new(status: &str, response: &Value) -> Self {
        let content = response["content"].as_object().and_then(|content| content.iter().next());
        Self {
            status: status.to_owned(),
            text: response["description"].as_str().unwrap_or_default().to_owned(),
            media: content.map(|(media, _)| media.clone()).unwrap_or_default(),
            kind: content.map_or_else(|| Kind(Vec::new()), |(_, content)| Kind::of(&content["schema"])),
        }
    }
}

/// The object that a schema is, or refers to.
fn object<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let found =
        schema::referred(schema).and_then(|name| document.pointer(&format!("/components/schemas/{name}")));
    found.unwrap_or(schema)
}

/// A command that makes the request, over the Unix socket where a service has it.
fn curl(method: &str, path: &str, body: Option<&Value>) -> String {
    let path = EXAMPLES.iter().fold(path.to_owned(), |path, (part, value)| path.replace(part, value));
    let mut command = String::from("curl --unix-socket /run/asat/asat.sock");
    if method != "GET" && !(method == "POST" && body.is_some()) {
        command += &format!(" -X {method}");
    }
    if route::plain(&path) == "/events" {
        command += " --no-buffer";
    }
    command += &format!(" 'http://asat{path}'");
    if let Some(body) = body {
        let body = schema::example(body).to_string().replace('\'', "'\\''");
        command += &format!(" \\\n     -H 'Content-Type: application/json' -d '{body}'");
    }
    command
}
