//! The status page and the API reference as people meet them: in a real browser, Chromium without a window, on a real daemon.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    unreachable_pub
)]

mod common;

#[path = "page/acting.rs"]
mod acting;
#[path = "page/browser.rs"]
mod browser;
#[path = "page/changes.rs"]
mod changes;
#[path = "page/elsewhere.rs"]
mod elsewhere;
#[path = "page/looks.rs"]
mod looks;
#[path = "page/reading.rs"]
mod reading;
#[path = "page/reference.rs"]
mod reference;
#[path = "page/sessions.rs"]
mod sessions;
#[path = "page/site.rs"]
mod site;
