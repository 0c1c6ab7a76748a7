//! The service as an administrator meets it, under a real systemd: starting, stopping, reloading, installing.

mod activation;
mod hardening;
mod installing;
mod logging;
mod packaging;
mod reloading;
mod running;
mod site;
