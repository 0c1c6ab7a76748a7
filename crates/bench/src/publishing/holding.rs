//! How long it takes, within the process, to hold the newest version and let it go.

use std::sync::Barrier;
use std::time::Instant;

use asat_core::{Problem, StoreName};

use crate::failed;
use crate::statistics::ms_since;
use asat::newest::Newest;

/// How many milliseconds it took so many threads to do so this often each.
pub(super) fn hold(threads: usize, times: u32) -> Result<f64, Problem> {
    let store: StoreName = "report".parse().map_err(|error| failed("name a store", error))?;
    let newest = Newest::default();
    newest.offer(&store, Some((1, ())));
    let start = Barrier::new(threads + 1);
    let hold = || {
        start.wait();
        (0..times).all(|_| newest.hold(&store).get().is_some())
    };
    std::thread::scope(|scope| {
        let holding: Vec<_> = (0..threads).map(|_| scope.spawn(hold)).collect();
        start.wait();
        let since = Instant::now();
        let held: Vec<bool> = holding.into_iter().map(|thread| thread.join().unwrap_or(false)).collect();
        let took_ms = ms_since(since);
        match held.contains(&false) {
            false => Ok(took_ms),
            true => Err(failed("hold a version", "it was not there")),
        }
    })
}
