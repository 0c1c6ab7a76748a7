//! Effect boundaries: the places at which a crash must be survivable.
//!
//! Code that changes something durable announces each step here. In service nothing listens. A crash test
//! installs a listener that ends the process at the n-th step, for every n, and looks at what is left.

use std::sync::OnceLock;

static LISTENER: OnceLock<fn(&'static str)> = OnceLock::new();

/// Installs the listener of a crash test. The first one stays.
pub fn listen(listener: fn(&'static str)) {
    LISTENER.get_or_init(|| listener);
}

/// Announces that the step called `name` is about to be taken or has just been taken.
#[inline]
pub fn pass(name: &'static str) {
    if let Some(listener) = LISTENER.get() {
        listener(name);
    }
}
