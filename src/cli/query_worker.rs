//! `query-worker`: the process in which the daemon has a query answered. Nobody types this, so help, manual and completions do not
//! name it.

use std::io;

use asat_core::{Code, Problem};
use asat_host::query;

use super::output::Failure;

pub(super) fn work() -> Result<(), Failure> {
    query::serve(io::stdin(), io::stdout()).map_err(|error| {
        let what = format!("cannot answer a query: {error}");
        Problem::new(Code::Internal, what, "the daemon starts this itself").into()
    })
}
