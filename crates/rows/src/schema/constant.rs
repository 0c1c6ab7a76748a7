//! Values that a schema states: the defaults of columns. A row that is older than a column has its default.

use crate::schema::affinity::{Affinity, number};
use crate::schema::tokens::{Kind, Token};

/// A value of a default.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The value of a default, as a column of this affinity stores it. `None`: it is not one that SQLite takes for a column that is added.
pub(crate) fn constant(tokens: &[Token<'_>], affinity: Affinity) -> Option<Constant> {
    let mut tokens = tokens;
    while let [first, inner @ .., last] = tokens
        && first.is_sign("(")
        && last.is_sign(")")
    {
        tokens = inner;
    }
    let mut sign = String::new();
    while let [first, rest @ ..] = tokens
        && first.kind == Kind::Sign
    {
        match first.text {
            "-" if sign.is_empty() => sign.push('-'),
            "-" => sign.clear(),
            "+" => {}
            _ => return None,
        }
        tokens = rest;
    }
    let [token] = tokens else { return tokens.is_empty().then_some(Constant::Null) };
    let value = match token.kind {
        Kind::Number => return numeric(&sign, token.text, affinity),
        Kind::Text | Kind::Quoted => Constant::Text(sign + &token.name()),
        Kind::Blob => Constant::Blob(hex(token.text.get(2..token.text.len() - 1)?)?),
        Kind::Word if token.is_word("null") => Constant::Null,
        Kind::Word if token.is_word("true") => Constant::Integer(if sign.is_empty() { 1 } else { -1 }),
        Kind::Word if token.is_word("false") => Constant::Integer(0),
        Kind::Word if token.text.to_ascii_lowercase().starts_with("current_") => return None,
        // A name alone stands for its text.
        Kind::Word => Constant::Text(token.text.to_owned()),
        Kind::Sign => return None,
    };
    Some(affinity.apply(value))
}

/// A number: a column of texts keeps the digits as they are written.
fn numeric(sign: &str, digits: &str, affinity: Affinity) -> Option<Constant> {
    let digits = digits.replace('_', "");
    let hex = digits.get(..2).filter(|start| start.eq_ignore_ascii_case("0x"));
    if let Some(hex) = hex.and_then(|_| digits.get(2..)) {
        let value = u64::from_str_radix(hex, 16).ok()?.cast_signed();
        let value = if sign.is_empty() { value } else { value.checked_neg()? };
        return Some(affinity.apply(Constant::Integer(value)));
    }
    let written = format!("{sign}{digits}");
    match affinity {
        Affinity::Text => Some(Constant::Text(written)),
        affinity => number(&written).map(|value| affinity.apply(value)),
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    odd.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}
