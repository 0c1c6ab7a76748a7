//! Looks for more than the corpora have, guided by what of the parsers is reached: libFuzzer on the target that `FUZZ_TARGET` names.
//!
//! `tools/fuzz` builds it as it must be, and calls it.
#![no_main]

use std::sync::OnceLock;

use asat_fuzz::{Target, bound_memory, target};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&Target> = OnceLock::new();

/// The target that is asked for. Where there is none of that name, this ends the program.
fn asked() -> &'static Target {
    TARGET.get_or_init(|| {
        bound_memory();
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name} names no target"))
    })
}

fuzz_target!(init: asked(), |bytes: &[u8]| (asked().feed)(bytes));
