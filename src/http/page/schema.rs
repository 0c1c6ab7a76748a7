//! JSON Schemas in words: what a value is, within which bounds, and an example of it.

use serde_json::{Map, Value};

/// A field of an object, or a parameter.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// Where a parameter stands; empty for a field.
    pub(super) place: String,
    pub(super) bounds: String,
    pub(super) text: Text,
}

/// What a value is, as text with links to the objects that it names.
pub(super) struct Kind(pub(super) Vec<Word>);

/// A piece of a text.
pub(super) enum Word {
    Plain(String),
    Code(String),
    /// The name of a described object.
    Object(String),
}

/// A description: paragraphs with code in them.
pub(super) struct Text(pub(super) Vec<Vec<Word>>);

impl Text {
    pub(super) fn of(value: &Value) -> Self {
        let paragraphs =
            value.as_str().unwrap_or_default().split("\n\n").filter(|text| !text.trim().is_empty());
        Self(paragraphs.map(|paragraph| words(&paragraph.replace('\n', " "))).collect())
    }
}

/// What stands between backticks is code.
fn words(text: &str) -> Vec<Word> {
    let pieces = text.split('`').enumerate().filter(|(_, piece)| !piece.is_empty());
    pieces
        .map(
            |(n, piece)| {
                if n % 2 == 0 { Word::Plain(piece.to_owned()) } else { Word::Code(piece.to_owned()) }
            },
        )
        .collect()
}

impl Field {
    /// The fields of an object's schema, in their order.
    pub(super) fn all(schema: &Value) -> Vec<Self> {
        let required: Vec<&str> = list(&schema["required"]).filter_map(Value::as_str).collect();
        let field = |(name, schema): (&String, &Value)| {
            Self::new(name, schema, required.contains(&name.as_str()), "", &schema["description"])
        };
        schema["properties"].as_object().into_iter().flat_map(Map::iter).map(field).collect()
    }

    /// A parameter of an operation.
    pub(super) fn parameter(parameter: &Value) -> Self {
        let text = |name: &str| parameter[name].as_str().unwrap_or_default();
        Self::new(
            text("name"),
            &parameter["schema"],
            parameter["required"] == true,
            text("in"),
            &parameter["description"],
        )
    }

    fn new(name: &str, schema: &Value, required: bool, place: &str, description: &Value) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::of(schema),
            required,
            place: place.to_owned(),
            bounds: bounds(schema),
            text: Text::of(description),
        }
    }
}

impl Kind {
    pub(super) fn of(schema: &Value) -> Self {
        let mut words = Vec::new();
        put(schema, &mut words);
        Self(words)
    }
}

fn put(schema: &Value, words: &mut Vec<Word>) {
    let mut say = |text: &str| words.push(Word::Plain(text.to_owned()));
    if let Some(name) = referred(schema) {
        words.push(Word::Object(name.to_owned()));
        return;
    }
    if let Some(alternatives) = ["oneOf", "anyOf", "allOf"].into_iter().find_map(|key| schema[key].as_array())
    {
        for (n, alternative) in alternatives.iter().enumerate() {
            if n > 0 {
                words.push(Word::Plain(" or ".to_owned()));
            }
            put(alternative, words);
        }
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        several => list(several).filter_map(Value::as_str).collect(),
    };
    if types.is_empty() {
        say("any value");
    }
    for (n, name) in types.into_iter().enumerate() {
        let mut say = |text: &str| words.push(Word::Plain(text.to_owned()));
        if n > 0 {
            say(" or ");
        }
        match (name, schema["format"].as_str()) {
            ("string", Some("date-time")) => say("instant (RFC 3339)"),
            ("string", Some("date")) => say("date (YYYY-MM-DD)"),
            ("array", _) => {
                say("list of ");
                put(&schema["items"], words);
            }
            (name, _) => say(name),
        }
    }
}

/// The name of the described object that a schema refers to.
pub(super) fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// The limits of a value, its default and an example.
fn bounds(schema: &Value) -> String {
    let mut said = Vec::new();
    for (key, before, after) in [
        ("minimum", "at least ", ""),
        ("maximum", "at most ", ""),
        ("minLength", "at least ", " characters"),
        ("maxLength", "at most ", " characters"),
    ] {
        if let Some(limit) = schema.get(key).filter(|limit| **limit != 0) {
            said.push(format!("{before}{limit}{after}"));
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        said.push(format!("one of {}", values.iter().map(written).collect::<Vec<_>>().join(", ")));
    }
    for (key, before) in [("default", "by default "), ("example", "for example ")] {
        if let Some(value) = schema.get(key).filter(|value| !value.is_null()) {
            said.push(format!("{before}{}", written(value)));
        }
    }
    said.join("; ")
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The elements of a list; none of anything else.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// An object with its required fields, and those of which an example is given.
pub(super) fn example(schema: &Value) -> Value {
    let required: Vec<&str> = list(&schema["required"]).filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flat_map(Map::iter);
    let fields = fields.filter_map(|(name, schema)| {
        let given = schema.get("example").cloned();
        let value = given.or_else(|| required.contains(&name.as_str()).then(|| Value::from("…")))?;
        Some((name.clone(), value))
    });
    fields.collect::<Map<String, Value>>().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(words: &[Word]) -> String {
        let word = |word: &Word| match word {
            Word::Plain(text) => text.clone(),
            Word::Code(text) => format!("<{text}>"),
            Word::Object(text) => format!("[{text}]"),
        };
        words.iter().map(word).collect()
    }

    #[test]
    fn schemas_read_as_a_person_would_say_them() {
        let cases = [
            (json!({ "type": "string", "format": "date-time" }), "instant (RFC 3339)"),
            (json!({ "type": ["string", "null"] }), "string or null"),
            (json!({ "type": "array", "items": { "$ref": "#/components/schemas/Pin" } }), "list of [Pin]"),
            (
                json!({ "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/Pin" }] }),
                "null or [Pin]",
            ),
            (json!({}), "any value"),
        ];
        for (schema, expected) in cases {
            assert_eq!(text(&Kind::of(&schema).0), expected, "{schema}");
        }
        let schema = json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 });
        assert_eq!(bounds(&schema), "at least 1; at most 1000; by default 100");
        assert_eq!(
            bounds(&json!({ "minimum": 0, "enum": ["a", 2], "example": "a" })),
            "one of a, 2; for example a"
        );
        let said = Text::of(&json!("Names `report@12`\nor a tag.\n\n`x`"));
        let said: Vec<String> = said.0.iter().map(|paragraph| text(paragraph)).collect();
        assert_eq!(said, ["Names <report@12> or a tag.", "<x>"]);
    }

    #[test]
    fn an_example_has_what_is_required() {
        let schema = json!({ "required": ["reason"], "properties": {
            "reason": { "type": "string", "example": "audit" }, "owner": { "type": "string" }, "batch": { "example": 4 } } });
        assert_eq!(example(&schema), json!({ "reason": "audit", "batch": 4 }));
        assert_eq!(
            example(&json!({ "required": ["holder"], "properties": { "holder": {} } })),
            json!({ "holder": "…" })
        );
    }
}
