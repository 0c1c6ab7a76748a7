//! `store-worker`: the process in which the daemon works on a store. Nobody types this, so help, manual and completions do not
//! name it.

use std::io;

use asat_core::{Code, Problem};
use asat_host::worker;

use super::args::StoreWorkerArgs;
use super::output::Failure;

pub(super) fn work(args: &StoreWorkerArgs) -> Result<(), Failure> {
    worker::serve(io::stdin(), args.as_user.as_ref()).map_err(|error| {
        let what = format!("cannot work on a store: {error}");
        Problem::new(Code::Internal, what, "the daemon starts this itself").into()
    })
}
