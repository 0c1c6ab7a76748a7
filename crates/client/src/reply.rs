//! From an HTTP answer to a value, or to the problem that the daemon named.
//!
//! Whatever answers may be another program, another version of asat, or broken. What it sends is never taken
//! for more than it is, and the error says what came instead.

use asat_core::{Code, Problem};
use hyper::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// An answer that was read in full.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: StatusCode,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// The parts of a problem's body that matter here. An older or newer daemon may say more or less.
#[derive(Deserialize)]
struct Body {
    code: String,
    detail: String,
    #[serde(default)]
    hint: String,
}

impl Reply {
    /// The value that the answer holds.
    pub(crate) fn value<T: DeserializeOwned>(self, from: &str) -> Result<T, Problem> {
        if !self.status.is_success() {
            return Err(self.problem(from));
        }
        let error = match serde_json::from_slice(&self.body) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let begins = begins(&self.body);
        Err(if serde_json::from_slice::<serde_json::Value>(&self.body).is_ok() {
            let detail = format!("{from} sent an answer that this client does not understand: {error}");
            Problem::new(Code::Internal, detail, "use a client and a daemon of the same version")
        } else {
            let detail = format!("{from} sent something that is not JSON, beginning {begins}");
            Problem::new(Code::Unreachable, detail, NOT_ASAT)
        })
    }

    /// Whether the daemon did it.
    pub(crate) fn done(self, from: &str) -> Result<(), Problem> {
        if self.status.is_success() { Ok(()) } else { Err(self.problem(from)) }
    }

    /// The problem that the answer names.
    pub(crate) fn problem(&self, from: &str) -> Problem {
        let status = self.status;
        let Ok(body) = serde_json::from_slice::<Body>(&self.body) else {
            let detail = match begins(&self.body) {
                text if text == "\"\"" => format!("{from} answered {status} and nothing more"),
                text => format!("{from} answered {status} and no problem that asat knows, beginning {text}"),
            };
            return Problem::new(of_status(status), detail, NOT_ASAT);
        };
        match Code::from_text(&body.code) {
            Some(code) => Problem::new(code, body.detail, body.hint),
            None => {
                let detail = format!("{} ({}, HTTP {})", body.detail, body.code, status.as_u16());
                Problem::new(of_status(status), detail, body.hint)
            }
        }
    }
}

/// What to do where somebody else seems to answer.
pub(crate) const NOT_ASAT: &str = "make sure that --server names an asat daemon";

/// The kind of problem, as far as a status alone tells.
fn of_status(status: StatusCode) -> Code {
    match status {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::Forbidden,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::CONFLICT => Code::InUse,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Code::StoreBusy,
        StatusCode::INSUFFICIENT_STORAGE => Code::StorageFull,
        status if status.is_client_error() => Code::Invalid,
        _ => Code::Internal,
    }
}

/// The beginning of a body, quoted.
fn begins(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    format!("{:?}", text.chars().take(60).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status: StatusCode::from_u16(status).unwrap(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn problems_come_back_as_they_were_sent() {
        for code in Code::ALL {
            let sent = asat_body(code.text().0);
            let problem = reply(503, &sent).problem("X");
            assert_eq!(problem, Problem::new(code, "what happened", "what to do"));
        }
    }

    #[test]
    fn an_unknown_code_is_kept() {
        let problem = reply(409, &asat_body("too_purple")).problem("X");
        assert_eq!(problem.code, Code::InUse);
        assert_eq!(problem.detail, "what happened (too_purple, HTTP 409)");
        assert_eq!(problem.hint, "what to do");
    }

    #[test]
    fn answers_that_are_no_problems() {
        for (status, body, code) in [
            (500, "", Code::Internal),
            (502, "<html>Bad gateway", Code::Internal),
            (401, "{}", Code::Unauthenticated),
            (404, "[]", Code::NotFound),
            (400, "null", Code::Invalid),
            (301, "", Code::Internal),
        ] {
            let problem = reply(status, body).problem("X");
            assert_eq!(problem.code, code, "{status}");
            assert!(problem.detail.starts_with("X answered "), "{}", problem.detail);
        }
    }

    #[test]
    fn values() {
        assert_eq!(reply(200, "[1, 2]").value::<Vec<u8>>("X"), Ok(vec![1, 2]));
        let problem = reply(200, "<html>").value::<Vec<u8>>("X").unwrap_err();
        assert_eq!(problem.code, Code::Unreachable);
        assert!(problem.detail.contains("not JSON, beginning \"<html>\""), "{}", problem.detail);
        let problem = reply(200, "{}").value::<Vec<u8>>("X").unwrap_err();
        assert_eq!(problem.code, Code::Internal);
        assert_eq!(reply(204, "").done("X"), Ok(()));
        assert_eq!(reply(404, "").done("X").map_err(|p| p.code), Err(Code::NotFound));
    }

    fn asat_body(code: &str) -> String {
        serde_json::json!({
            "type": "about:blank", "title": "T", "status": 503,
            "code": code, "detail": "what happened", "hint": "what to do",
        })
        .to_string()
    }
}
