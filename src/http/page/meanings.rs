//! `/docs/problems/CODE`: what a kind of problem means, and what to do about it.
//!
//! Its address is the `type` of each such problem (RFC 9457, section 3.1.1). Nobody needs a token for it: who was refused may read why.

use asat_core::Code;
use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;

use super::super::problem::{self, Failure};
use super::super::{Answer, extract};
use super::Frame;
use super::schema::{Text, Word};

/// The document that has a table of all codes.
const DOCUMENT: &str = include_str!("../../../docs/troubleshooting.md");

#[derive(Template)]
#[template(path = "meaning.html")]
struct Page {
    frame: Frame,
    code: &'static str,
    title: &'static str,
    status: u16,
    means: Text,
    to_do: Text,
}

pub(super) async fn show(Path(code): Path<String>) -> Answer<Response> {
    let known = Code::ALL.into_iter().find(|known| known.text().0 == code);
    let found = known.and_then(|known| Some((known, meaning(known.text().0)?)));
    let Some((known, (means, to_do))) = found else {
        return Err(Failure::new(
            Code::NotFound,
            format!("no problem has the code {}", extract::shorten(&code, 60)),
            "see /docs",
        ));
    };
    let (code, title) = known.text();
    let (means, to_do) = (Text::of(&means.into()), Text::of(&to_do.into()));
    let page =
        Page { frame: Frame::new(None), code, title, status: problem::status(known).as_u16(), means, to_do };
    Ok(super::answer(StatusCode::OK, &page))
}

/// What a code means and what to do, as the document says: its row has the code, the status, the exit code and these.
fn meaning(code: &str) -> Option<(String, String)> {
    let cells =
        |line: &'static str| line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect::<Vec<_>>();
    DOCUMENT.lines().map(cells).find_map(|cells| match cells.as_slice() {
        [name, status, _, means, to_do]
            if name.trim_matches('`') == code && status.parse::<u16>().is_ok() =>
        {
            Some((without_links(means), without_links(to_do)))
        }
        _ => None,
    })
}

/// A text of the document without the addresses of its links, which lead from file to file.
fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("](")
        && let Some((around, words)) = before.rsplit_once('[')
        && let Some((_, further)) = after.split_once(')')
    {
        plain.extend([around, words]);
        rest = further;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_meaning_and_something_to_do() {
        for code in Code::ALL {
            let (means, to_do) = meaning(code.text().0).unwrap_or_else(|| panic!("{code:?}"));
            assert!(!means.is_empty() && !to_do.is_empty(), "{code:?}");
            assert!(!format!("{means}{to_do}").contains("]("), "{code:?}: {means}, {to_do}");
        }
        assert_eq!(meaning("no_such_code"), None);
        assert_eq!(without_links("see [a](b.md#c), `[[x]]` and [d](e)"), "see a, `[[x]]` and d");
    }
}
