//! Sessions: a browser cannot send a token with a link, so it shows the token once and gets a cookie for it.
//!
//! They are kept in memory alone. A session stands for its token: it may what that may, as long as the token counts and for at
//! most [`LASTS`], and ends with the daemon.

use std::sync::{Mutex, PoisonError};

use asat_core::{Code, Problem};
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::site::is_encrypted;
use super::tokens;
use crate::config::Token;
use asat_wire::hex;

/// How long a session lasts: a working day, and not the next one.
const LASTS: SignedDuration = SignedDuration::from_hours(10);
/// How many there are at most for one token; a further one ends the oldest of them, and nobody else's.
const MOST: usize = 32;
/// How many cookies of the name are looked at. A browser sends one.
const MOST_COOKIES: usize = 4;
const NAME: &str = "asat-session";

/// The sessions that are open, oldest first.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Vec<Session>>);

/// Names and tokens are kept as digests: one who reads the memory has neither.
struct Session {
    name: [u8; 32],
    token: [u8; 32],
    ends_at: Timestamp,
}

impl Sessions {
    /// Begins a session for the bearer of a token; answers the cookie, which the browser sends over encrypted connections
    /// alone if it came over one.
    ///
    /// # Errors
    /// [`Code::Internal`] where the machine has no random numbers.
    pub(super) fn begin(
        &self,
        token: &Token,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<String, Problem> {
        let secret = asat_host::random::secret().map_err(|error| {
            let detail = format!("no session can be begun: {error}");
            Problem::new(Code::Internal, detail, "try again, or use the token itself")
        })?;
        let name = hex(&secret);
        let session = Session { name: digest(&name), token: token.sha256, ends_at: now + LASTS };
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|session| now < session.ends_at);
        let of_token = |other: &Session| other.token == session.token;
        if open.iter().filter(|other| of_token(other)).count() >= MOST
            && let Some(oldest) = open.iter().position(of_token)
        {
            open.remove(oldest);
        }
        open.push(session);
        Ok(cookie(&name, LASTS.as_secs(), headers))
    }

    /// The token for which a session was begun that still lasts, where the request has its cookie.
    pub(super) fn token<'a>(
        &self,
        tokens: &'a [Token],
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<&'a Token> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lasts = |session: &&Session| now < session.ends_at;
        let digest = names(headers).find_map(|name| {
            open.iter().filter(lasts).fold(None, |found, session| {
                if bool::from(session.name.ct_eq(&name)) { Some(session.token) } else { found }
            })
        })?;
        tokens::find(tokens, digest, now).filter(|token| token.expires_at.is_none_or(|end| now < end))
    }

    /// Ends the sessions whose cookies the request has; answers the cookie that takes theirs away.
    pub(super) fn end(&self, headers: &HeaderMap) -> String {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names(headers) {
            open.retain(|session| !bool::from(session.name.ct_eq(&name)));
        }
        cookie("", 0, headers)
    }
}

/// No page's script can read it, and no other site's page can have it sent.
fn cookie(name: &str, lasts_s: i64, headers: &HeaderMap) -> String {
    let secure = if is_encrypted(headers) { "; Secure" } else { "" };
    format!("{NAME}={name}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}")
}

/// The digests of the sessions' names that a request carries.
fn names(headers: &HeaderMap) -> impl Iterator<Item = [u8; 32]> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let cookies =
        values.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.filter(|(name, _)| *name == NAME).take(MOST_COOKIES).map(|(_, value)| digest(value))
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Role;

    fn now() -> Timestamp {
        "2026-11-19T17:00:00Z".parse().unwrap()
    }

    fn token(text: &str, expires_at: Option<Timestamp>) -> Token {
        Token { name: text.to_owned(), role: Role::Publish, sha256: digest(text), expires_at }
    }

    fn headers(cookie: &str) -> HeaderMap {
        [(COOKIE, cookie.parse().unwrap())].into_iter().collect()
    }

    /// What a browser sends back of a cookie that it was given.
    fn sent(cookie: &str) -> &str {
        cookie.split(';').next().unwrap()
    }

    #[test]
    fn a_session_is_as_good_as_its_token_for_a_while() {
        let (sessions, tokens) = (Sessions::default(), [token("a", None), token("b", None)]);
        let cookie = sessions.begin(&tokens[1], &HeaderMap::new(), now()).unwrap();
        assert!(cookie.ends_with("; Path=/; Max-Age=36000; HttpOnly; SameSite=Strict"), "{cookie}");
        let by_tls = [("x-forwarded-proto", "https".parse().unwrap())]
            .into_iter()
            .map(|(name, value)| (name.parse::<axum::http::HeaderName>().unwrap(), value))
            .collect();
        let secure = sessions.begin(&tokens[1], &by_tls, now()).unwrap();
        assert!(secure.ends_with("; SameSite=Strict; Secure"), "{secure}");
        let of = |tokens: &[Token], cookie: &str, at| {
            sessions.token(tokens, &headers(cookie), at).map(|token| token.name.clone())
        };
        assert_eq!(of(&tokens, sent(&cookie), now()).as_deref(), Some("b"));
        assert_eq!(of(&tokens, &format!("x=y; {NAME}=0;{}", sent(&cookie)), now()).as_deref(), Some("b"));
        assert_eq!(of(&tokens, sent(&cookie), now() + LASTS), None, "it is over");
        assert_eq!(of(&tokens[..1], sent(&cookie), now()), None, "the token was taken away");
        let expiring = [token("b", Some(now() + SignedDuration::from_secs(1)))];
        assert_eq!(of(&expiring, sent(&cookie), now()).as_deref(), Some("b"));
        assert_eq!(
            of(&expiring, sent(&cookie), now() + SignedDuration::from_secs(1)),
            None,
            "it has expired"
        );
        for wrong in ["", "=", NAME, &format!("{NAME}="), &format!("{NAME}=b"), &sent(&cookie)[1..]] {
            assert_eq!(of(&tokens, wrong, now()), None, "{wrong:?}");
        }
        let gone = sessions.end(&headers(sent(&cookie)));
        assert!(gone.starts_with(&format!("{NAME}=; Path=/; Max-Age=0")), "{gone}");
        assert_eq!(of(&tokens, sent(&cookie), now()), None, "it was ended");
    }

    #[test]
    fn names_differ_and_there_are_never_too_many_sessions() {
        let (sessions, tokens) = (Sessions::default(), [token("a", None), token("b", None)]);
        let cookies: Vec<String> =
            (0..MOST + 3).map(|_| sessions.begin(&tokens[0], &HeaderMap::new(), now()).unwrap()).collect();
        let open = cookies.iter().filter(|c| sessions.token(&tokens, &headers(sent(c)), now()).is_some());
        assert_eq!(open.count(), MOST);
        let other = sessions.begin(&tokens[1], &HeaderMap::new(), now()).unwrap();
        sessions.begin(&tokens[0], &HeaderMap::new(), now()).unwrap();
        assert!(sessions.token(&tokens, &headers(sent(&other)), now()).is_some(), "another's goes on");
        assert!(
            sessions.token(&tokens, &headers(sent(&cookies[2])), now()).is_none(),
            "the oldest end first"
        );
        let later = now() + LASTS;
        sessions.begin(&tokens[0], &HeaderMap::new(), later).unwrap();
        assert_eq!(sessions.0.lock().unwrap().len(), 1, "those that are over are forgotten");
    }
}
