//! The rows of a report: texts by the names of their fields.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Deserialize;

use super::super::units::{Bytes, Percent};

/// A row of a report.
#[derive(Debug)]
pub(super) struct Row(BTreeMap<String, String>);

#[derive(Deserialize)]
struct Report {
    report: Vec<BTreeMap<String, serde_json::Value>>,
}

/// Reads the rows of one kind: `lv`, `vg` or `pv`. Other sections are passed over, but this one must be
/// there: an empty list says that there are none, and a missing one says nothing.
pub(super) fn read(text: &str, kind: &str) -> Result<Vec<Row>, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| format!("it is no report: {error}"))?;
    let mut sections = report.report.into_iter().filter_map(|mut section| section.remove(kind)).peekable();
    if sections.peek().is_none() {
        return Err(format!("it has no section {kind:?}"));
    }
    let mut rows = Vec::new();
    for section in sections {
        let section: Vec<BTreeMap<String, String>> =
            serde_json::from_value(section).map_err(|error| format!("a row is no row: {error}"))?;
        rows.extend(section.into_iter().map(Row));
    }
    Ok(rows)
}

impl Row {
    pub(super) fn text(&self, field: &str) -> Result<&str, String> {
        self.0.get(field).map(String::as_str).ok_or_else(|| format!("a row has no {field}"))
    }

    pub(super) fn parse<T: FromStr>(&self, field: &str) -> Result<T, String> {
        self.parse_text(field, self.text(field)?)
    }

    /// Parses a text that was taken from a field.
    pub(super) fn parse_text<T: FromStr>(&self, field: &str, text: &str) -> Result<T, String> {
        text.parse().map_err(|_| self.wrong(field))
    }

    /// A value that may be empty.
    pub(super) fn optional<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        if self.text(field)?.is_empty() { Ok(None) } else { read(self, field).map(Some) }
    }

    /// Digits alone, where `u64::from_str` would also take a sign.
    pub(super) fn number(&self, field: &str) -> Result<u64, String> {
        let text = self.text(field)?;
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| plain).ok_or_else(|| self.wrong(field))
    }

    pub(super) fn bytes(&self, field: &str) -> Result<Bytes, String> {
        self.number(field).map(Bytes)
    }

    pub(super) fn percent(&self, field: &str) -> Result<Option<Percent>, String> {
        self.optional(field, |row, field| Percent::parse(row.text(field)?).ok_or_else(|| row.wrong(field)))
    }

    /// A list with commas between. A tag cannot have one.
    pub(super) fn set(&self, field: &str) -> Result<BTreeSet<String>, String> {
        let text = self.text(field)?;
        Ok(text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect())
    }

    /// A device's number. A volume that is not active has -1 for both.
    pub(super) fn device(&self, major: &str, minor: &str) -> Result<Option<(u32, u32)>, String> {
        if self.text(major)? == "-1" && self.text(minor)? == "-1" {
            return Ok(None);
        }
        let part = |field| u32::try_from(self.number(field)?).map_err(|_| self.wrong(field));
        Ok(Some((part(major)?, part(minor)?)))
    }

    /// The complaint about a value.
    pub(super) fn wrong(&self, field: &str) -> String {
        let value: String = self.0.get(field).into_iter().flat_map(|text| text.chars()).take(80).collect();
        format!("{value:?} can be no {field}")
    }
}
