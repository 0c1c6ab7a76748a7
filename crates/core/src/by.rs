//! Who wants something done.

use serde::{Deserialize, Serialize};

/// Who wants something done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct By {
    /// His name: `token report server`, `uid 1000 (ann)`, or `asat` where nobody asked.
    pub actor: String,
    /// What the request is called, by the caller or by the daemon; nothing where there was none.
    pub request: Option<String>,
}

impl By {
    /// The longest name of a request, in characters.
    pub const MAX_REQUEST: usize = 200;

    /// What asat does by itself: by rule, for space, or because something has happened.
    #[must_use]
    pub fn asat() -> Self {
        Self { actor: "asat".to_owned(), request: None }
    }

    /// The holder of a token of this name.
    #[must_use]
    pub fn token(name: &str) -> Self {
        Self { actor: format!("token {name}"), request: None }
    }

    /// A user of the machine, by his number and his name where he has one.
    #[must_use]
    pub fn user(uid: u32, name: Option<&str>) -> Self {
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        Self { actor: format!("uid {uid}{name}"), request: None }
    }
}
