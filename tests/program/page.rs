//! The status page and the API reference as people meet them: in a real browser, Chromium without a window, on a real daemon.

mod acting;
mod browser;
mod changes;
mod elsewhere;
mod finding;
mod images;
mod looks;
mod reading;
mod reference;
mod sessions;
mod site;
