//! How names are spelled, wherever a request writes one: the grammar of the core's names as patterns of JSON Schema.

use serde_json::{Map, Value, json};

/// A store or a set.
const NAME: &str = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}";
/// A tag. No number is one, so where it begins with digits there is something else soon.
const TAG: &str = "([A-Za-z]|[0-9]+([.][0-9]+)*[A-DF-Za-df-z_-])[A-Za-z0-9_-]*([.][A-Za-z0-9_-]+)*";
const NUMBER: &str = "[1-9][0-9]{0,18}";
const STATE: &str = "(cutting|ready|retiring|retired|failed|lost)";

/// Says of each parameter that is a name how it is spelled.
pub(super) fn complete_parameters(path: &str, operation: &mut Value) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(schema) = parameter.get_mut("schema") {
            spell(schema, path, &name);
        }
    }
}

/// Says the same of the fields of requests, and that a store and a set exclude each other.
pub(super) fn complete_requests(schemas: &mut Map<String, Value>) {
    for (_, schema) in schemas.iter_mut().filter(|(name, _)| name.ends_with("Request")) {
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
        fields.into_iter().flatten().for_each(|(name, field)| spell(field, "", name));
    }
    if let Some(publish) = schemas.get_mut("PublishRequest") {
        // What is null counts as left out.
        let named = |name: &str| json!({ "required": [name], "properties": { name: { "type": "string" } } });
        publish["not"] = json!({ "allOf": [named("store"), named("set")] });
    }
}

/// Says how large a number may be that has no sign, and calls its format by the name in the OpenAPI registry.
pub(super) fn complete_numbers(value: &mut Value) {
    let bounds = match value.get("format").and_then(Value::as_str) {
        Some("u-int32") => Some(("uint32", json!(u32::MAX))),
        Some("u-int64") => Some(("uint64", json!(u64::MAX))),
        _ => None,
    };
    if let (Some((format, most)), Some(schema)) = (bounds, value.as_object_mut()) {
        schema.insert("format".to_owned(), json!(format));
        schema.entry("maximum").or_insert(most);
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(complete_numbers),
        Value::Array(items) => items.iter_mut().for_each(complete_numbers),
        _ => {}
    }
}

/// Adds how what has this name is spelled, if that has a grammar of its own. A version's number alone is called
/// `version`, too, and is no text.
fn spell(schema: &mut Value, path: &str, name: &str) {
    let is_text = match schema.get("type") {
        Some(Value::Array(types)) => types.contains(&json!("string")),
        kind => kind.is_some_and(|kind| kind == "string"),
    };
    if let Some(pattern) = pattern(path, name).filter(|_| is_text) {
        schema["pattern"] = json!(format!("^{pattern}$"));
        if name == "tag" {
            schema["maxLength"] = json!(asat_core::StoreName::MAX_LEN);
        }
    }
}

/// A text without what cannot be printed, but for what is `allowed`, and with something in it that can be seen. Which characters
/// have no shape is more than a pattern can say: it names the common ones.
fn line(allowed: &str) -> String {
    let controls = if allowed.is_empty() { "\\x00-\\x1f" } else { "\\x00-\\x08\\x0b-\\x1f" };
    let unprintable = format!("{controls}\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069");
    let unseen =
        "\\s\\xad\\u115f\\u1160\\u200b-\\u200f\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0";
    format!("[^{unprintable}]*[^{unprintable}{unseen}][^{unprintable}]*")
}

fn pattern(path: &str, name: &str) -> Option<String> {
    Some(match (name, path) {
        ("name" | "store" | "set", _) => NAME.to_owned(),
        ("tag", _) => TAG.to_owned(),
        ("id" | "version" | "other", _) => format!("{NAME}@(?=[^@]{{1,64}}$)({NUMBER}|{TAG})"),
        ("cursor", "/versions") => format!("[0-9a-f]{{12}}[.]-?[0-9]{{1,17}}[.]{NAME}@{NUMBER}"),
        ("cursor", _) => format!("[0-9a-f]{{12}}[.]{NUMBER}"),
        ("state", _) => format!("(any|{STATE}(,{STATE})*)"),
        ("attribute", _) => "[^:]+:.*".to_owned(),
        ("noted", _) => format!("(0|{NUMBER}):[0-9a-f]{{64}}"),
        ("label" | "certified_by" | "holder" | "owner" | "reason", "") => line(""),
        ("note", "") => line("\\t\\n"),
        ("Idempotency-Key", _) => "[!-~]([ -~]{0,253}[!-~])?".to_owned(),
        _ => return None,
    })
}
