//! The command `asat`: daemon and client in one binary.

use std::process::ExitCode;

/// The static program brings an allocator of its own: musl's has one lock for all threads, and compressing threads would wait for each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    asat::cli::run()
}
