//! Who may: tokens, in the configuration or in a file of their own, and users and groups of the machine.

use std::path::Path;

use asat_core::check_line;
use asat_core::{Code, Problem};
use asat_host::peer::user_number;
use asat_host::tree::group_number;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::mistakes;
use super::raw;
use super::validate::{at, wrong};
use crate::secret;

/// The longest file of tokens, in bytes.
const MAX_TOKENS: u64 = 1 << 20;

/// What a caller may do; each role may do what the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// List, open and download.
    Read,
    /// Publish and pin.
    Publish,
    /// Unpin, retire, restore, revoke leases, and read the audit trail.
    Admin,
}

impl Role {
    /// The role as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Admin => "admin",
        }
    }
}

/// A token, by the SHA-256 of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose it is, for people and for the audit trail.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The SHA-256 of the token.
    pub sha256: [u8; 32],
    /// From when on it allows nothing.
    pub expires_at: Option<Timestamp>,
}

/// Whom a rule about callers on the Unix socket is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The user of this number.
    User(u32),
    /// Everybody in the group of this number.
    Group(u32),
}

/// What somebody may do who connects to the Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRule {
    /// Who.
    pub who: Who,
    /// What he may do.
    pub role: Role,
}

/// All tokens: those of the configuration, then those of the file that it names.
pub(super) fn tokens(raw: &raw::Config, folder: &Path) -> Result<Vec<Token>, Problem> {
    let mut tokens = raw.token.iter().map(token).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = &raw.listen.tokens {
        let path = at("listen.tokens", folder, path)?;
        let in_file = |problem: Problem| {
            let detail = format!("listen.tokens: {}: {}", path.display(), problem.detail);
            Problem { detail, ..problem }
        };
        let text = secret::read("the file of tokens", &path, MAX_TOKENS)
            .map_err(|problem| Problem { detail: format!("listen.tokens: {}", problem.detail), ..problem })?;
        let file: raw::Tokens = toml::from_str(&text).map_err(|error| {
            // What stands in that file is nobody's business, so the line is not shown.
            let detail = mistakes::without_quoting(&error);
            in_file(Problem::new(Code::Configuration, detail, "write [[token]] sections, and nothing else"))
        })?;
        for raw in &file.token {
            tokens.push(token(raw).map_err(in_file)?);
        }
    }
    Ok(tokens)
}

/// Whether this is the text of a file of tokens; answers whose they are.
///
/// # Errors
/// [`Code::Configuration`], naming the key.
pub fn check_tokens(text: &str) -> Result<Vec<String>, Problem> {
    let file: raw::Tokens = toml::from_str(text).map_err(|error| {
        // What stands in that file is nobody's business, so the line is not shown.
        let detail = mistakes::without_quoting(&error);
        Problem::new(Code::Configuration, detail, "write [[token]] sections, and nothing else")
    })?;
    file.token.iter().map(|raw| token(raw).map(|token| token.name)).collect()
}

fn token(raw: &raw::Token) -> Result<Token, Problem> {
    check_line("token.name", Some(&raw.name), 100)
        .map_err(|problem| wrong("token", problem.detail, "choose a short name that says whose it is"))?;
    let bad = || {
        let what = format!("of token {:?} is not 64 hexadecimal digits", raw.name);
        wrong("token.sha256", what, "asat token new makes a token, and prints the section to write")
    };
    if raw.sha256.len() != 64 || !raw.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let mut sha256 = [0; 32];
    for (byte, digits) in sha256.iter_mut().zip(raw.sha256.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
    }
    if sha256 == <[u8; 32]>::from(Sha256::digest(b"")) {
        let what = format!("of token {:?} is that of an empty text, which anybody can guess", raw.name);
        return Err(wrong("token.sha256", what, "make the token first, for example: openssl rand -hex 32"));
    }
    let expires_at = raw.expires.as_ref().map(|expires| end(&raw.name, expires)).transpose()?;
    Ok(Token { name: raw.name.clone(), role: raw.role, sha256, expires_at })
}

/// The instant from which on a token is of no use: a day counts to its end, in UTC.
fn end(name: &str, expires: &toml::Value) -> Result<Timestamp, Problem> {
    let text = match expires {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(at) => at.to_string(),
        other => other.to_string(),
    };
    let instant = text.parse::<Timestamp>().ok();
    let end_of_day = || {
        let day = text.parse::<Date>().ok().filter(|day| day.to_string() == text)?;
        Some(day.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    instant.or_else(end_of_day).ok_or_else(|| {
        let what = format!("of token {name:?} is {text:?}, which is neither a day nor an instant");
        wrong("token.expires", what, "write for example \"2027-06-30\" or \"2027-06-30T12:00:00Z\"")
    })
}

/// What callers on the Unix socket may do.
pub(super) fn peers(raw: &[raw::Peer]) -> Result<Vec<PeerRule>, Problem> {
    raw.iter().map(peer).collect()
}

fn peer(raw: &raw::Peer) -> Result<PeerRule, Problem> {
    let found = |key: &str, kind: &str, name: &str, number: std::io::Result<Option<u32>>| {
        let hint = format!("name a {kind} of this machine");
        match number {
            Ok(Some(number)) => Ok(number),
            Ok(None) => Err(wrong(key, format!("there is no {kind} {name:?}"), &hint)),
            Err(error) => Err(wrong(key, format!("{name:?} cannot be looked up: {error}"), &hint)),
        }
    };
    let who = match (&raw.user, &raw.group) {
        (Some(user), None) => Who::User(found("peer.user", "user", user, user_number(user))?),
        (None, Some(group)) => Who::Group(found("peer.group", "group", group, group_number(group))?),
        (Some(_), Some(_)) => {
            let what = "a [[peer]] has both user and group".to_owned();
            return Err(wrong("peer", what, "make it two: each stands for itself"));
        }
        (None, None) => {
            return Err(wrong(
                "peer",
                "a [[peer]] has neither user nor group".to_owned(),
                "write user = \"NAME\" or group = \"NAME\"",
            ));
        }
    };
    Ok(PeerRule { who, role: raw.role })
}
