//! `brake`: the process that the daemon has beside it, and what puts right what that may leave behind. Nobody types
//! this, so help, manual and completions do not name it.

use std::io::{self, PipeReader};
use std::path::Path;

use asat_core::{Code, Problem};
use asat_host::brake;
use asat_host::dm::Control;
use tokio::signal::unix::{SignalKind, signal};

use super::args::BrakeArgs;
use super::output::{Failure, Output};

/// Enough for a thread that waits for a signal; all of it is locked in memory.
const STACK: usize = 256 << 10;

pub(super) fn brake(args: &BrakeArgs, output: &Output) -> Result<(), Failure> {
    if args.let_go {
        let control = Control::open().map_err(Problem::from)?;
        let resumed = brake::let_go(&control, Path::new(brake::RECORDS)).map_err(Problem::from)?;
        return output.answer(&resumed, |resumed| match &resumed[..] {
            [] => "nothing was left suspended".to_owned(),
            names => format!("resumed: {}", names.join(", ")),
        });
    }
    let stop = told_to_stop().map_err(|error| {
        Problem::new(
            Code::Internal,
            format!("cannot listen for signals: {error}"),
            "look at the kernel's log",
        )
    })?;
    Ok(brake::serve(io::stdin(), io::stdout(), stop).map_err(Problem::from)?)
}

/// A pipe that ends when a signal says that it is time to stop.
fn told_to_stop() -> io::Result<PipeReader> {
    let (told, tell) = io::pipe()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _inside = runtime.enter();
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal)
    };
    let [terminate, interrupt, hangup] = signals;
    let (mut terminate, mut interrupt, mut hangup) = (terminate?, interrupt?, hangup?);
    std::thread::Builder::new().name("signals".to_owned()).stack_size(STACK).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        drop(tell);
    })?;
    Ok(told)
}
