//! The tokens of SQL as SQLite splits it (<https://sqlite.org/lang_keywords.html>, <https://sqlite.org/syntax/literal-value.html>).

use std::borrow::Cow;
use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword, or a name without quotes.
    Word,
    /// A name in double quotes, backquotes or brackets.
    Quoted,
    /// A text in single quotes.
    Text,
    /// `X'…'`.
    Blob,
    Number,
    /// Anything else, one character.
    Sign,
}

/// A token, with its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Token<'s> {
    pub(crate) kind: Kind,
    pub(crate) text: &'s str,
    pub(crate) range: Range<usize>,
}

impl Token<'_> {
    /// Whether it is this keyword.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    /// The name that it is, without quotes.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        let quote = match self.text.get(..1) {
            Some(quote @ ("\"" | "`" | "'")) => quote,
            Some("[") => return Cow::Borrowed(self.text.trim_start_matches('[').trim_end_matches(']')),
            _ => return Cow::Borrowed(self.text),
        };
        let inner = self.text.get(1..self.text.len() - 1).unwrap_or_default();
        Cow::Owned(inner.replace(&quote.repeat(2), quote))
    }
}

/// All tokens of a text, without spaces and comments. `None`: a quote or a comment does not end.
pub(crate) fn tokens(sql: &str) -> Option<Vec<Token<'_>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(rest) = sql.get(at..).filter(|rest| !rest.is_empty()) {
        let (kind, len) = token(rest)?;
        if let Some(kind) = kind {
            found.push(Token { kind, text: rest.get(..len)?, range: at..at + len });
        }
        at += len;
    }
    Some(found)
}

/// The first token, or `None` for a space or a comment, and its length in bytes.
pub(crate) fn token(rest: &str) -> Option<(Option<Kind>, usize)> {
    let mut characters = rest.chars();
    let first = characters.next()?;
    let second = characters.next();
    Some(match (first, second) {
        ('-', Some('-')) => (None, rest.find('\n').map_or(rest.len(), |end| end + 1)),
        ('/', Some('*')) => (None, rest.get(2..)?.find("*/").map_or(rest.len(), |end| end + 4)),
        ('x' | 'X', Some('\'')) => (Some(Kind::Blob), 1 + quoted(rest.get(1..)?, '\'')?),
        ('\'', _) => (Some(Kind::Text), quoted(rest, '\'')?),
        ('"' | '`', _) => (Some(Kind::Quoted), quoted(rest, first)?),
        ('[', _) => (Some(Kind::Quoted), rest.find(']')? + 1),
        ('0'..='9', _) => (Some(Kind::Number), number(rest)),
        ('.', Some('0'..='9')) => (Some(Kind::Number), number(rest)),
        _ if first.is_ascii_whitespace() => (None, 1),
        _ if is_of_a_name(first) => (Some(Kind::Word), rest.find(|c| !is_of_a_name(c)).unwrap_or(rest.len())),
        _ => (Some(Kind::Sign), first.len_utf8()),
    })
}

fn is_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$') || !character.is_ascii()
}

/// The length of what is in quotes; a doubled quote stands for one.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == quote && characters.next_if(|&(_, next)| next == quote).is_none() {
            return Some(at + 1);
        }
    }
    None
}

/// The length of a number: an exponent may have a sign.
fn number(rest: &str) -> usize {
    let is_hex = rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    let mut before = ' ';
    let ends = |(_, character): &(usize, char)| {
        let is_sign = matches!(character, '+' | '-') && matches!(before, 'e' | 'E') && !is_hex;
        let is_part = is_of_a_name(*character) || *character == '.' || is_sign;
        before = *character;
        !is_part
    };
    rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_texts_numbers_and_comments_are_told_apart() {
        let sql = "a\"b\"\"c\"[d e]`f`'it''s' x'00' 1.5e-3 0x1F -- x\n/* y */(é$1)";
        let found = tokens(sql).unwrap();
        let texts: Vec<_> = found.iter().map(|token| token.name()).collect();
        let expected = ["a", "b\"c", "d e", "f", "it's", "x'00'", "1.5e-3", "0x1F", "(", "é$1", ")"];
        assert_eq!(texts, expected);
        assert!(tokens("'open").is_none() && tokens("\"").is_none());
    }
}
