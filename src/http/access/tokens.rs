//! Tokens: what the header says, and whose it is.

use asat_core::audit::By;
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
/// [`Code::Unauthenticated`] where the header has none that counts. That one has expired is told only to who shows it.
pub(super) fn caller(tokens: &[Token], headers: &HeaderMap, now: Timestamp) -> Result<Caller, Problem> {
    let given = bearer(headers).unwrap_or_default();
    match find(tokens, given, now) {
        Some(Token { name, expires_at: Some(end), .. }) if *end <= now => {
            let detail = format!("the token {name:?} has expired at {end}");
            Err(Problem::new(Code::Unauthenticated, detail, "ask whoever runs asat for a new token"))
        }
        Some(token) => Ok(Caller { role: token.role, by: By::token(&token.name) }),
        None => {
            let hint = "send the header Authorization: Bearer TOKEN with a token of the configuration";
            Err(Problem::new(Code::Unauthenticated, "the request carries no valid token", hint))
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok())?;
    let (kind, token) = header.split_once(' ')?;
    kind.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token of this text; where there are several, one that counts, and that allows most. Every token is compared, each in
/// constant time, so that the time tells nothing. That of an empty text is refused with the configuration.
fn find<'a>(tokens: &'a [Token], given: &str, now: Timestamp) -> Option<&'a Token> {
    let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
    let rank = |token: &Token| (token.expires_at.is_none_or(|end| now < end), token.role);
    let mut found: Option<&Token> = None;
    for token in tokens {
        if bool::from(token.sha256.ct_eq(&given)) && found.is_none_or(|best| rank(token) > rank(best)) {
            found = Some(token);
        }
    }
    found
}
