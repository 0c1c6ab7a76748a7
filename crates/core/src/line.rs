//! Texts of one line, as people give them.

use crate::{Code, Problem};

/// The longest label, in characters.
pub(crate) const MAX_LABEL: usize = 200;

/// Refuses a text that is empty or cannot be seen, is too long, or has control characters.
///
/// # Errors
/// [`Code::Invalid`], naming the field.
pub fn check_line(field: &str, text: Option<&str>, max_chars: usize) -> Result<(), Problem> {
    let Some(text) = text else { return Ok(()) };
    let length = text.chars().count();
    let wrong = if text.trim().is_empty() {
        "is empty".to_owned()
    } else if length > max_chars {
        format!("has {length} characters, and at most {max_chars} are taken")
    } else if text.chars().any(is_unprintable) {
        "has control characters".to_owned()
    } else if !text.chars().any(is_visible) {
        "has no character that can be seen".to_owned()
    } else {
        return Ok(());
    };
    let hint = if length > max_chars {
        "shorten"
    } else if text.trim().is_empty() {
        "write something as"
    } else {
        "correct"
    };
    Err(Problem::new(Code::Invalid, format!("{field} {wrong}"), format!("{hint} {field}")))
}

/// Control characters, and the invisible ones that reorder the text around them.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What is not blank and has a shape of its own. The standard library escapes what has none, but for a few letters and signs
/// that are drawn as nothing.
fn is_visible(c: char) -> bool {
    let is_drawn_blank = matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    !c.is_whitespace() && !is_drawn_blank && c.escape_debug().nth(1) != Some('u')
}
