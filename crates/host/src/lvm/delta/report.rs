//! What `thin_delta` says two thin volumes have in common, read from its report.
//!
//! The report is XML, of which only what that command writes is known here. Whatever else is in it is an error: pages would go
//! unread for what is taken wrongly.

use std::ops::Range;

/// Of what the report must speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The numbers of the volumes in their pool.
    pub(crate) numbers: [u64; 2],
    /// The size of the pool's blocks, in sectors.
    pub(crate) block: u64,
}

/// Where both volumes have the same blocks of the pool, in blocks, in order. What neither has is not among it.
///
/// # Errors
/// With what is wrong with the report.
pub(crate) fn parse(text: &str, asked: Asked) -> Result<Vec<Range<u64>>, &'static str> {
    let mut tags = Tags(text);
    let mut next = || tags.next_tag().and_then(|tag| tag.ok_or("it ends too early"));
    let superblock = next()?.opening("superblock")?;
    if superblock.number("data_block_size")? != asked.block {
        return Err("the blocks in it have another size than the pool's");
    }
    let diff = next()?.opening("diff")?;
    if [diff.number("left")?, diff.number("right")?] != asked.numbers {
        return Err("it is not about the volumes that were asked about");
    }
    let (mut same, mut reached) = (Vec::<Range<u64>>::new(), 0);
    loop {
        let tag = next()?;
        if tag.kind == Kind::Closing {
            tag.closing("diff")?;
            break;
        }
        let range = tag.range()?;
        if range.start < reached {
            return Err("its ranges are not in order");
        }
        reached = range.end;
        match (tag.name, same.last_mut()) {
            ("same", Some(last)) if last.end == range.start => last.end = range.end,
            ("same", _) => same.push(range),
            ("different" | "left_only" | "right_only", _) => {}
            _ => return Err("it has an unknown element in it"),
        }
    }
    next()?.closing("superblock")?;
    match tags.next_tag()? {
        None => Ok(same),
        Some(_) => Err("something follows its end"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `<name ...>`
    Opening,
    /// `</name>`
    Closing,
    /// `<name .../>`
    Alone,
}

struct Tag<'a> {
    kind: Kind,
    name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
}

impl Tag<'_> {
    fn opening(self, name: &str) -> Result<Self, &'static str> {
        let is_it = self.kind == Kind::Opening && self.name == name;
        is_it.then_some(self).ok_or("its elements are not nested as they should be")
    }

    fn closing(&self, name: &str) -> Result<(), &'static str> {
        let is_it = self.kind == Kind::Closing && self.name == name && self.attributes.is_empty();
        is_it.then_some(()).ok_or("its elements are not nested as they should be")
    }

    /// An attribute that must be there once, in digits alone.
    fn number(&self, name: &str) -> Result<u64, &'static str> {
        let mut values = self.attributes.iter().filter(|(known, _)| *known == name);
        let (Some((_, value)), None) = (values.next(), values.next()) else {
            return Err("an attribute is missing, or there twice");
        };
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        value.parse().ok().filter(|_| digits).ok_or("a number in it is none")
    }

    /// The blocks of an element that stands alone and says of nothing else.
    fn range(&self) -> Result<Range<u64>, &'static str> {
        if self.kind != Kind::Alone || self.attributes.len() != 2 {
            return Err("it has an unknown element in it");
        }
        let (begin, length) = (self.number("begin")?, self.number("length")?);
        let end = begin.checked_add(length).filter(|_| length > 0);
        Ok(begin..end.ok_or("a range in it is empty, or has no end")?)
    }
}

/// The rest of a report.
struct Tags<'a>(&'a str);

impl<'a> Tags<'a> {
    /// The next tag; `None` at the end. Between tags may only be white space.
    fn next_tag(&mut self) -> Result<Option<Tag<'a>>, &'static str> {
        let rest = self.0.trim_ascii_start();
        if rest.is_empty() {
            return Ok(None);
        }
        let tag = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let (inside, rest) = tag.ok_or("there is text in it, or an unfinished element")?;
        self.0 = rest;
        let (kind, inside) = match (inside.strip_prefix('/'), inside.strip_suffix('/')) {
            (Some(inside), None) => (Kind::Closing, inside),
            (None, Some(inside)) => (Kind::Alone, inside),
            (None, None) => (Kind::Opening, inside),
            (Some(_), Some(_)) => return Err("there is text in it, or an unfinished element"),
        };
        let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        Ok(Some(Tag { kind, name, attributes: parse_attributes(attributes)? }))
    }
}

/// Reads `left="1" right="2"`.
fn parse_attributes(text: &str) -> Result<Vec<(&str, &str)>, &'static str> {
    let mut found = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let attribute = rest.split_once("=\"").and_then(|(name, rest)| {
            let (value, rest) = rest.split_once('"')?;
            Some((name, value, rest))
        });
        let (name, value, after) = attribute.ok_or("an attribute in it cannot be read")?;
        found.push((name, value));
        rest = after.trim_ascii_start();
        if !rest.is_empty() && rest.len() == after.len() {
            return Err("an attribute in it cannot be read");
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
