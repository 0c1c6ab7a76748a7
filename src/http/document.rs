//! The OpenAPI document: what the handlers say of themselves, completed by what is true of all of them.

mod shapes;

use std::collections::BTreeSet;

use asat_core::Code;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::access::{self, Access};
use super::route;

/// The media type of problems (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// The whole document, as it is answered to those who come in by `access`.
pub(super) fn complete(document: &OpenApi, access: &Access) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_else(|error| {
        tracing::error!("the OpenAPI document cannot be written: {error}");
        json!({ "paths": {} })
    });
    let optional = optional_bodies(&document);
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, item) in paths.into_iter().flatten() {
        let path = route::plain(path);
        for (_, operation) in item.as_object_mut().into_iter().flatten() {
            complete_operation(path, operation, access);
            complete_body(operation, &optional);
            shapes::complete_parameters(path, operation);
        }
    }
    if let Some(code) = document.pointer_mut("/components/schemas/ProblemBody/properties/code") {
        code["enum"] = Code::ALL.map(|code| code.text().0).into_iter().collect();
    }
    if let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        shapes::complete_requests(schemas);
    }
    if let Some(components) = document.get_mut("components") {
        let description = "Needed over TCP; over the Unix socket the kernel says who calls.";
        let bearer = json!({ "type": "http", "scheme": "bearer", "description": description });
        components["securitySchemes"] = json!({ "token": bearer });
    }
    shapes::complete_numbers(&mut document);
    document
}

fn complete_operation(path: &str, operation: &mut Value, access: &Access) {
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    if path != "/healthz" {
        add(responses, "500", "An unexpected error");
    }
    // What cannot be read, or is not taken, is refused before a handler is asked.
    add(responses, "400", "The query has a parameter, and none is taken; or the request cannot be read");
    add(responses, "503", "The daemon does as much of this at once as it may, or stops");
    let public = access::is_public(path);
    if !public {
        add(responses, "401", "Over TCP: no valid token, or one that has expired");
        add(
            responses,
            "403",
            "The caller has no role, or one that does not allow this; or a page of another site asks for it",
        );
    }
    for (_, response) in responses.iter_mut().filter(|(status, _)| status.as_str() >= "400") {
        let content = response.get_mut("content").and_then(Value::as_object_mut);
        if let Some((content, schema)) = content.and_then(|c| c.remove("application/json").map(|s| (c, s))) {
            content.insert(PROBLEM.to_owned(), schema);
        }
    }
    for status in ["429", "503"] {
        if let Some(response) = responses.get_mut(status) {
            let description =
                "After how many seconds to ask again; absent if somebody has to do something first";
            let schema = json!({ "type": "integer", "minimum": 1 });
            response["headers"] =
                json!({ "Retry-After": { "description": description, "required": false, "schema": schema } });
        }
    }
    operation["security"] = match access {
        _ if public => json!([]),
        Access::Socket(_) => json!([{}, { "token": [] }]),
        Access::Tokens(_) => json!([{ "token": [] }]),
    };
}

/// Documents one more problem, where the operation does not itself say what it means.
fn add(responses: &mut Map<String, Value>, status: &str, description: &str) {
    let schema = json!({ "$ref": "#/components/schemas/ProblemBody" });
    let content = json!({ PROBLEM: { "schema": schema } });
    let response = json!({ "description": description, "content": content });
    responses.entry(status).or_insert(response);
}

/// The schemas without a field that must be there: an empty body stands for `{}`, so it may be left out.
fn optional_bodies(document: &Value) -> BTreeSet<String> {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let optional = schemas.into_iter().flatten().filter(|(_, schema)| schema.get("required").is_none());
    optional.map(|(name, _)| format!("#/components/schemas/{name}")).collect()
}

fn complete_body(operation: &mut Value, optional: &BTreeSet<String>) {
    let schema = operation.pointer("/requestBody/content/application~1json/schema/$ref");
    let is_optional = schema.and_then(Value::as_str).is_some_and(|schema| optional.contains(schema));
    if let Some(required) = operation.pointer_mut("/requestBody/required").filter(|_| is_optional) {
        *required = json!(false);
    }
}
