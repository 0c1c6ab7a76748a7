//! What a caller presents to be known by.

use hyper::header::HeaderValue;

/// Longer than any token.
const MOST_BYTES: usize = 4096;

/// A token. It is sent, and shown nowhere.
#[derive(Clone, Debug)]
pub struct Token(HeaderValue);

impl Token {
    /// Reads a token that has a line to itself, as in a file; none if this is no token.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let token = text.trim();
        if token.is_empty() || token.len() > MOST_BYTES || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    /// The value of the `Authorization` header.
    pub(crate) fn header(&self) -> &HeaderValue {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        for (text, expected) in [
            ("s3cret\n", Some("Bearer s3cret")),
            ("  s3cret  ", Some("Bearer s3cret")),
            ("", None),
            ("\n", None),
            ("two words", None),
            ("zwölf", None),
            ("a\nb", None),
            (&"a".repeat(MOST_BYTES + 1), None),
        ] {
            let token = Token::read(text);
            let sent = token.as_ref().and_then(|token| token.header().to_str().ok());
            assert_eq!(sent, expected, "{text:?}");
            assert!(!format!("{token:?}").contains("s3cret"));
        }
    }
}
