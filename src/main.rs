//! The command `asat`: daemon and client in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    asat::cli::run()
}
