//! The service as an administrator meets it, under a real systemd: starting, stopping, reloading, installing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, unreachable_pub)]

mod nspawn;

#[path = "service/activation.rs"]
mod activation;
#[path = "common/before.rs"]
mod before;
#[path = "service/hardening.rs"]
mod hardening;
#[path = "service/installing.rs"]
mod installing;
#[path = "service/logging.rs"]
mod logging;
#[path = "service/packaging.rs"]
mod packaging;
#[path = "service/reloading.rs"]
mod reloading;
#[path = "service/running.rs"]
mod running;
#[path = "service/site.rs"]
mod site;
