//! The values of a row by the names of its columns, in their order.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

/// Values by column, as a JSON object whose members are in the order of the table's columns.
#[derive(Clone, Debug, Default, PartialEq, ToSchema)]
#[schema(value_type = Object)]
pub struct Fields(pub Vec<(String, Value)>);

impl Fields {
    /// The value of a column.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == column).map(|(_, value)| value)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_order() {
        let text = r#"{"z":1,"a":{"hex":"00"},"m":null}"#;
        let fields: Fields = serde_json::from_str(text).unwrap();
        assert_eq!(fields.get("z"), Some(&Value::from(1)));
        assert_eq!(serde_json::to_string(&fields).unwrap(), text);
        assert!(serde_json::from_str::<Fields>("[1]").is_err());
    }
}
