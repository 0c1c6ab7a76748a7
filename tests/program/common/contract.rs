//! The OpenAPI document as a contract: every answer that a test sees is held against it.
//!
//! An answer must come from a documented operation, with a documented status, with a documented media type,
//! and with a body that its schema describes in full. What no operation covers must be refused as such.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Answer;

/// The version of the API, as the documented paths begin.
pub const VERSION: &str = "/v1";

/// What the daemon says of itself.
pub struct Contract {
    pub document: Value,
}

/// An operation: its method in lower case, and its path with the variable parts in braces.
pub type Operation = (String, String);

impl Contract {
    pub fn new(document: Value) -> Self {
        Self { document }
    }

    /// Every documented operation.
    pub fn operations(&self) -> BTreeSet<Operation> {
        let paths = self.document["paths"].as_object().unwrap();
        let methods = |(path, item): (&String, &Value)| {
            let methods: Vec<Operation> =
                item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())).collect();
            methods
        };
        paths.iter().flat_map(methods).collect()
    }

    /// Holds an answer against the document; says what is wrong with it.
    pub fn check(&self, method: &str, target: &str, answer: &Answer) -> Result<(), String> {
        let path = target.split('?').next().unwrap_or_default();
        let Some(template) = self.template(path) else {
            if is_for_people(path) {
                return is_page(answer);
            }
            return is_problem(answer, &[(404, "not_found"), (401, "unauthenticated"), (403, "forbidden")]);
        };
        let item = &self.document["paths"][&template];
        let method = if method == "HEAD" { "get".to_owned() } else { method.to_lowercase() };
        let Some(operation) = item.get(&method) else {
            is_problem(answer, &[(405, "method_not_allowed"), (401, "unauthenticated"), (403, "forbidden")])?;
            return if answer.status == 405 { allows(answer, item) } else { Ok(()) };
        };
        let documented = &operation["responses"][answer.status.to_string()];
        if documented.is_null() {
            return Err(format!("the status {} is not documented for {method} {template}", answer.status));
        }
        let documented = self.follow(documented);
        let headers = documented["headers"].as_object().into_iter().flatten();
        for (header, _) in headers.filter(|(_, described)| described["required"] != false) {
            answer.header(header).ok_or_else(|| format!("the documented header {header} is missing"))?;
        }
        self.check_body(documented, answer)
    }

    fn check_body(&self, documented: &Value, answer: &Answer) -> Result<(), String> {
        if answer.body.is_empty() {
            return Ok(());
        }
        let kind = answer.header("content-type").unwrap_or_default();
        let content = &documented["content"][kind];
        if content.is_null() {
            return Err(format!("the media type {kind:?} is not documented for {}", answer.status));
        }
        if kind == "application/x-ndjson" {
            let text = String::from_utf8(answer.body.clone()).map_err(|error| error.to_string())?;
            return text.lines().try_for_each(|line| {
                let line = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
                self.conforms(&content["schema"], &line, "$")
            });
        }
        if kind.ends_with("json") {
            return self.conforms(&content["schema"], &answer.json(), "$");
        }
        Ok(())
    }

    /// The documented path that a requested path falls under, with the version of the API or without; one without variable parts
    /// goes first.
    fn template(&self, path: &str) -> Option<String> {
        let versioned = format!("{VERSION}{path}");
        let mut fitting: Vec<&String> = self.document["paths"]
            .as_object()?
            .keys()
            .filter(|template| fits(template, path) || fits(template, &versioned))
            .collect();
        fitting.sort_by_key(|template| template.matches('{').count());
        fitting.first().map(|template| (*template).clone())
    }

    /// What a reference stands for.
    pub fn follow<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let pointer = reference.strip_prefix('#').expect("references stay in the document");
                self.document.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"))
            }
            None => schema,
        }
    }

    /// Checks a value against a schema, as far as this document uses JSON Schema. Undescribed fields are wrong.
    fn conforms(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let schema = self.follow(schema);
        let alternatives = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        if let Some(alternatives) = alternatives {
            let fits = |alternative| self.conforms(alternative, value, at);
            let refused: Vec<String> = alternatives.iter().filter_map(|a| fits(a).err()).collect();
            let all = refused.len() == alternatives.len();
            return if all { Err(refused.join("; ")) } else { Ok(()) };
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            Value::String(one) => vec![one.as_str()],
            _ => return Ok(()),
        };
        if !types.iter().any(|name| is_type(name, value)) {
            return Err(format!("{at} is {value}, and should be of type {types:?}"));
        }
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            return Err(format!("{at} is {value}, which is not one of {allowed:?}"));
        }
        match value {
            Value::Array(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(n, item)| self.conforms(&schema["items"], item, &format!("{at}[{n}]"))),
            Value::Object(fields) if schema["properties"].is_object() => {
                self.check_fields(schema, fields, at)
            }
            Value::String(text) => check_format(schema["format"].as_str(), text, at),
            _ => Ok(()),
        }
    }

    fn check_fields(&self, schema: &Value, fields: &Map<String, Value>, at: &str) -> Result<(), String> {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut missing = required.filter(|name| !fields.contains_key(*name));
        if let Some(name) = missing.next() {
            return Err(format!("{at}.{name} is missing"));
        }
        fields.iter().try_for_each(|(name, value)| match &schema["properties"][name] {
            Value::Null => Err(format!("{at}.{name} is not documented")),
            schema => self.conforms(schema, value, &format!("{at}.{name}")),
        })
    }
}

/// Whether a path is one of the status page's, which no program asks for: they are in no document.
fn is_for_people(path: &str) -> bool {
    matches!(path, "/" | "/docs" | "/sign-in" | "/sign-out")
        || path.starts_with("/assets/")
        || path.starts_with("/page/")
}

/// Checks that an answer is a page or a part of one, leads to one, or is a problem.
fn is_page(answer: &Answer) -> Result<(), String> {
    const KINDS: [&str; 5] =
        ["text/html", "text/css", "text/javascript", "image/svg+xml", "application/problem+json"];
    let kind = answer.header("content-type").unwrap_or_default();
    let is_kind = KINDS.iter().any(|known| kind.starts_with(known));
    match answer.status {
        303 => Ok(()),
        200..500 if is_kind => Ok(()),
        _ => Err("it should be a page, or a problem of the caller's".to_owned()),
    }
}

/// Checks that an answer is one of these problems.
fn is_problem(answer: &Answer, allowed: &[(u16, &str)]) -> Result<(), String> {
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let fits = |(status, code): &(u16, &str)| {
        answer.status == *status && (answer.body.is_empty() || problem["code"] == *code)
    };
    if allowed.iter().any(fits) && answer.header("content-type") == Some("application/problem+json") {
        return Ok(());
    }
    Err(format!(
        "nothing is documented there, so it should be one of {allowed:?} as application/problem+json"
    ))
}

/// Checks that `Allow` names the methods that are documented.
fn allows(answer: &Answer, item: &Value) -> Result<(), String> {
    let named: BTreeSet<String> = answer
        .header("allow")
        .unwrap_or_default()
        .split(',')
        .map(|method| method.trim().to_lowercase())
        .collect();
    let mut documented: BTreeSet<String> = item.as_object().unwrap().keys().cloned().collect();
    if documented.contains("get") {
        documented.insert("head".to_owned());
    }
    if named == documented {
        Ok(())
    } else {
        Err(format!("Allow names {named:?}, documented are {documented:?}"))
    }
}

fn fits(template: &str, path: &str) -> bool {
    // A variable part may be empty, though not at the end: that would be another path.
    let (wanted, given) = (template.split('/'), path.split('/'));
    let fit = |(wanted, given): (&str, &str)| wanted == given || wanted.starts_with('{');
    wanted.clone().count() == given.clone().count() && wanted.zip(given).all(fit) && !path.ends_with('/')
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn check_format(format: Option<&str>, text: &str, at: &str) -> Result<(), String> {
    let sound = match format {
        Some("date-time") => text.parse::<jiff::Timestamp>().is_ok() && text.ends_with('Z'),
        Some("date") => text.parse::<jiff::civil::Date>().is_ok(),
        _ => true,
    };
    if sound {
        Ok(())
    } else {
        Err(format!("{at} is {text:?}, and should be a {}", format.unwrap_or_default()))
    }
}
