//! The OpenAPI document: what the handlers say of themselves, completed by what is true of all of them.

use asat_core::Code;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::access;

/// The media type of problems (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// The whole document, as it is answered.
pub(super) fn complete(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_else(|error| {
        tracing::error!("the OpenAPI document cannot be written: {error}");
        json!({ "paths": {} })
    });
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, item) in paths.into_iter().flatten() {
        for (_, operation) in item.as_object_mut().into_iter().flatten() {
            complete_operation(path, operation);
        }
    }
    if let Some(code) = document.pointer_mut("/components/schemas/ProblemBody/properties/code") {
        code["enum"] = Code::ALL.map(|code| code.text().0).into_iter().collect();
    }
    if let Some(components) = document.get_mut("components") {
        let description = "Needed over TCP; over the Unix socket the kernel says who calls.";
        let bearer = json!({ "type": "http", "scheme": "bearer", "description": description });
        components["securitySchemes"] = json!({ "token": bearer });
    }
    document
}

fn complete_operation(path: &str, operation: &mut Value) {
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    if path != "/healthz" {
        add(responses, "500", "An unexpected error");
    }
    let public = access::is_public(path);
    if !public {
        add(responses, "401", "Over TCP: no valid token, or one that has expired");
        add(responses, "403", "The caller has no role, or one that does not allow this");
    }
    for (_, response) in responses.iter_mut().filter(|(status, _)| status.as_str() >= "400") {
        let content = response.get_mut("content").and_then(Value::as_object_mut);
        if let Some((content, schema)) = content.and_then(|c| c.remove("application/json").map(|s| (c, s))) {
            content.insert(PROBLEM.to_owned(), schema);
        }
    }
    operation["security"] = if public { json!([]) } else { json!([{}, { "token": [] }]) };
}

/// Documents one more problem, where the operation does not itself say what it means.
fn add(responses: &mut Map<String, Value>, status: &str, description: &str) {
    let schema = json!({ "$ref": "#/components/schemas/ProblemBody" });
    let content = json!({ PROBLEM: { "schema": schema } });
    let response = json!({ "description": description, "content": content });
    responses.entry(status).or_insert(response);
}
