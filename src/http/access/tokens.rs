//! Tokens: what the header says, and whose it is.

use asat_core::{Code, Problem};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Caller;
use crate::config::Token;

/// Who presents a token.
///
/// # Errors
/// [`Code::Unauthenticated`] if the header has none that counts. That one has expired, only the one who shows it hears.
pub(super) fn caller(tokens: &[Token], headers: &HeaderMap, now: Timestamp) -> Result<Caller, Problem> {
    let given = bearer(headers);
    if let Some(token) = shown(tokens, given.unwrap_or_default(), now)? {
        return Ok(Caller::with(token));
    }
    let send = "send the header Authorization: Bearer TOKEN, or give the command --token-file FILE; `asat token new` makes one";
    let (what, hint) = match given {
        Some(_) => (
            "the token of the request is not known",
            "see that it was copied whole; one that was added to the configuration counts after a reload",
        ),
        None if headers.contains_key(AUTHORIZATION) => {
            ("the header Authorization has no token: it does not read Bearer TOKEN", send)
        }
        None => ("the request carries no token", send),
    };
    Err(Problem::new(Code::Unauthenticated, what, hint))
}

/// The token of this text; `None` if it is not known.
///
/// # Errors
/// [`Code::Unauthenticated`] if it has expired.
pub(super) fn shown<'a>(
    tokens: &'a [Token],
    given: &str,
    now: Timestamp,
) -> Result<Option<&'a Token>, Problem> {
    match find(tokens, Sha256::digest(given.as_bytes()).into(), now) {
        Some(Token { name, expires_at: Some(end), .. }) if *end <= now => {
            let detail = format!("the token {name:?} has expired at {end}");
            Err(Problem::new(Code::Unauthenticated, detail, "ask the administrator of asat for a new token"))
        }
        found => Ok(found),
    }
}

/// The token that the header says. A proxy's own authentication may stand there, too.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok())?;
    let (kind, token) = header.split_once(' ')?;
    kind.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token of this digest; if there are several, one that counts, and that allows most. Every token is compared, each in
/// constant time, so that the time tells nothing. That of an empty text is refused with the configuration.
pub(super) fn find(tokens: &[Token], given: [u8; 32], now: Timestamp) -> Option<&Token> {
    let rank = |token: &Token| (token.expires_at.is_none_or(|end| now < end), token.role);
    let mut found: Option<&Token> = None;
    for token in tokens {
        if bool::from(token.sha256.ct_eq(&given)) && found.is_none_or(|best| rank(token) > rank(best)) {
            found = Some(token);
        }
    }
    found
}
