//! Queries over versions.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A query over versions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest {
    /// The query: one SELECT, WITH or VALUES.
    #[schema(
        example = "select a.id from report@12.valuation a join report@11.valuation b using (id) where a.price <> b.price"
    )]
    pub sql: String,
    /// How many rows at most; as many as the configuration allows if it is left out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::whole::option::deserialize"
    )]
    #[schema(minimum = 1)]
    pub limit: Option<u64>,
    /// After how many seconds it is ended; as late as the configuration allows if it is left out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::whole::option::deserialize"
    )]
    #[schema(minimum = 1)]
    pub timeout_seconds: Option<u64>,
}

/// A line of the answer to a query.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum QueryLine {
    /// The first one.
    Columns {
        /// The names of the columns.
        columns: Vec<String>,
    },
    /// A row: its values, in the order of the columns.
    Row(Vec<Value>),
    /// The last one, if something went wrong after the first rows.
    Problem {
        /// `problem`.
        op: String,
        /// As in every problem.
        code: String,
        /// What happened.
        detail: String,
        /// What to do.
        hint: String,
    },
    /// The last one.
    End {
        /// `end`.
        op: String,
        /// How many rows were answered.
        rows: u64,
        /// Whether there are more than the limit.
        more: bool,
    },
}

/// A row is read as it comes: of a million, none is held in a form of no type first, as serde does for what has no tag.
impl<'de> Deserialize<'de> for QueryLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Told {
            Columns { columns: Vec<String> },
            Problem { op: String, code: String, detail: String, hint: String },
            End { op: String, rows: u64, more: bool },
        }

        struct Line;
        impl<'de> Visitor<'de> for Line {
            type Value = QueryLine;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a row, or an object that tells of the query")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, row: A) -> Result<QueryLine, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(row)).map(QueryLine::Row)
            }

            fn visit_map<A: MapAccess<'de>>(self, told: A) -> Result<QueryLine, A::Error> {
                Ok(match Told::deserialize(MapAccessDeserializer::new(told))? {
                    Told::Columns { columns } => QueryLine::Columns { columns },
                    Told::Problem { op, code, detail, hint } => QueryLine::Problem { op, code, detail, hint },
                    Told::End { op, rows, more } => QueryLine::End { op, rows, more },
                })
            }
        }

        deserializer.deserialize_any(Line)
    }
}
