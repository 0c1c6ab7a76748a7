//! asat keeps a SQLite store's history as it was at each certified moment.
//!
//! This package is the composition root and the faces: it alone knows every room. The daemon joins the pure
//! engine of `asat-core` with the catalogue, the archive and the machine; the HTTP face and the command line
//! are two ways to talk to it.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod doctor;
pub mod http;
mod log;
pub mod metrics;
mod misread;
pub mod newest;
#[doc(hidden)]
pub mod outside;
mod secret;
mod text;
mod when;
