//! What can be configured, told to people: the sample, which has every key, and the same as a document.

/// A configuration with every key, what it does and its default.
pub const SAMPLE: &str = include_str!("../../config/asat.toml");

/// The document of all keys, as Markdown: what stands in [`SAMPLE`], section by section.
#[must_use]
pub fn markdown() -> String {
    let mut document = String::from(
        "# Configuration\n\n`asat configuration` prints what follows as a file to begin with, and `asat serve --check --config FILE` says \
         whether a file is right. This is what `asat configuration --markdown` prints.\n",
    );
    for block in SAMPLE.split("\n\n") {
        let (code, text): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| is_code(line));
        document.push_str(&heading(&code));
        document.push_str(&prose(&text));
        if !code.is_empty() {
            document.push_str(&format!("\n```toml\n{}\n```\n", code.join("\n")));
        }
    }
    document
}

/// Whether a line of the sample is a section or a key, which may stand behind a #, and not text.
fn is_code(line: &str) -> bool {
    section(bare(line)).is_some() || key(bare(line)).is_some()
}

/// A line without the # that it stands behind.
fn bare(line: &str) -> &str {
    line.strip_prefix('#').map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest))
}

/// The name of the section that begins with a line, as `store.watch`.
fn section(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.split_once(']')?.0;
    let name = name.strip_prefix('[').unwrap_or(name);
    name.bytes().all(|byte| byte == b'.' || byte.is_ascii_lowercase()).then_some(name)
}

/// The key that a line gives a value to.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.split_once(" = ")?;
    key.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit()).then_some(key)
}

/// The sections that a key belongs to, as they are written in the file.
pub(super) fn sections_of(wanted: &str) -> Vec<String> {
    let (mut within, mut found) = ("the beginning of the file".to_owned(), Vec::new());
    for line in SAMPLE.lines().map(bare) {
        if section(line).is_some() {
            within = line.split_inclusive(']').take_while(|part| part.ends_with(']')).collect();
        } else if key(line) == Some(wanted) && !found.contains(&within) {
            found.push(within.clone());
        }
    }
    found
}

/// The heading of a block: its section, or else the keys that it tells of.
fn heading(code: &[&str]) -> String {
    if let Some(name) = code.iter().find_map(|line| section(bare(line))) {
        return format!("\n## `[{name}]`\n");
    }
    let keys: Vec<String> =
        code.iter().filter_map(|line| key(bare(line))).map(|key| format!("`{key}`")).collect();
    if keys.is_empty() { String::new() } else { format!("\n### {}\n", keys.join(", ")) }
}

/// Lines of text as one paragraph; what is indented is code.
fn prose(lines: &[&str]) -> String {
    let mut prose = String::new();
    for line in lines.iter().map(|line| bare(line)) {
        match (line.starts_with("  "), line.trim()) {
            (false, "") => prose.push_str("\n\n"),
            (true, code) => prose.push_str(&format!("\n\n```sh\n{code}\n```\n\n")),
            (false, text) => {
                prose.push_str(if prose.is_empty() || prose.ends_with('\n') { "" } else { " " });
                prose.push_str(text);
            }
        }
    }
    if prose.is_empty() { prose } else { format!("\n{}\n", prose.trim()) }
}

/// The keys of the sample with their sections, as `store.watch.marker`.
#[cfg(test)]
pub(super) fn keys() -> std::collections::BTreeSet<String> {
    let (mut keys, mut within) = (std::collections::BTreeSet::new(), String::new());
    for line in SAMPLE.lines().map(bare) {
        if let Some(name) = section(line) {
            within = format!("{name}.");
        } else if let Some(key) = key(line) {
            keys.insert(format!("{within}{key}"));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;
    use serde::de::value::Error;
    use serde::de::{Deserializer, Error as _, Visitor};

    use super::*;
    use crate::config::raw;

    /// Notes which fields a structure wants, and gives it none.
    struct Fields<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("it is no structure"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            *self.0 = fields;
            Err(Error::custom("it is known"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    /// The keys of a section, but for those that are sections themselves.
    fn of<T: Deserialize<'static>>(section: &str, sections: &[&str]) -> Vec<String> {
        let mut fields: &[&str] = &[];
        assert!(T::deserialize(Fields(&mut fields)).is_err() && !fields.is_empty(), "{section}");
        let keys = fields.iter().filter(|field| !sections.contains(field));
        keys.map(|key| format!("{section}{key}")).collect()
    }

    #[test]
    fn a_key_is_known_by_its_sections() {
        assert_eq!(sections_of("state"), ["the beginning of the file"]);
        assert_eq!(sections_of("unix"), ["[listen]"]);
        assert_eq!(sections_of("path"), ["[[store]]"]);
        assert!(sections_of("name").len() > 1 && sections_of("nothing").is_empty());
    }

    #[test]
    fn the_sample_has_every_key_that_there_is_and_no_other() {
        let sections = [
            "listen",
            "copies",
            "fuse",
            "archive",
            "retention",
            "clock",
            "log",
            "lvm",
            "guard",
            "track",
            "query",
            "feed",
            "remote",
            "follow",
            "token",
            "peer",
            "store",
            "set",
        ];
        let wanted: BTreeSet<String> = [
            of::<raw::Config>("", &sections),
            of::<raw::Listen>("listen.", &[]),
            of::<raw::Copies>("copies.", &[]),
            of::<raw::Fuse>("fuse.", &[]),
            of::<raw::Archive>("archive.", &[]),
            of::<raw::Grace>("retention.", &[]),
            of::<raw::Clock>("clock.", &[]),
            of::<raw::Log>("log.", &[]),
            of::<raw::Lvm>("lvm.", &[]),
            of::<raw::Guard>("guard.", &[]),
            of::<raw::Track>("track.", &[]),
            of::<raw::Query>("query.", &[]),
            of::<raw::Feed>("feed.", &[]),
            of::<raw::Remote>("remote.", &[]),
            of::<raw::Follow>("follow.", &[]),
            of::<raw::Token>("token.", &[]),
            of::<raw::Peer>("peer.", &[]),
            of::<raw::Store>("store.", &["retention", "check", "watch"]),
            of::<raw::Check>("store.check.", &[]),
            of::<raw::Watch>("store.watch.", &[]),
            of::<raw::Retention>("store.retention.", &["label"]),
            of::<raw::LabelRule>("store.retention.label.", &[]),
            of::<raw::Set>("set.", &[]),
        ]
        .into_iter()
        .flatten()
        .collect();
        assert_eq!(keys(), wanted);
    }

    #[test]
    fn the_document_has_each_section_each_key_and_what_it_does() {
        let document = markdown();
        for part in [
            "## `[listen]`",
            "### `unix_mode`\n\nThe socket's file mode, in octal digits.\n\n```toml\n# unix_mode = \"0660\"\n```",
            "## `[store.watch]`",
            "### `debounce`, `longest`",
        ] {
            assert!(document.contains(part), "{part}\n{document}");
        }
        for key in keys() {
            let key = key.rsplit('.').next().unwrap_or_default();
            assert!(document.contains(&format!("{key} = ")), "{key}");
        }
    }
}
