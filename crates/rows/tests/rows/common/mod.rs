//! What the tests of rows share: files as sources of pages, random histories, and what SQL says of them.

#![allow(dead_code)]

pub mod dice;
pub mod history;
pub mod session;
pub mod source;
pub mod truth;
