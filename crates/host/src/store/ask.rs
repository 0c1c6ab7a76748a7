//! Asking a store for the marker of watch mode: one query that only reads, in a transaction of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use asat_core::check::Rows;

use super::Limits;
use super::check::{Answer, Until, query};
use super::error::Error;
use super::target::Target;
use super::transaction::Transaction;
use super::wait::Wait;

/// The first rows that a query of the configuration gives of the store's newest committed state. It is ended at the deadline,
/// which waiting for the store's lock is part of. In the rollback-journal modes a commit waits meanwhile, no longer than
/// `most_hold`.
///
/// # Errors
/// Where the store cannot be read, and [`Error::Marker`] where the query has no answer, which says why.
pub fn ask(
    store: impl Into<Target>,
    sql: &str,
    deadline: Duration,
    most_hold: Duration,
    cancel: &Arc<AtomicBool>,
) -> Result<Rows, Error> {
    let limits = Limits { busy: deadline, hold: most_hold };
    let since = Instant::now();
    let wait = Wait { limits: &limits, cancel, since };
    let store = store.into();
    let mut transaction = Transaction::begin(&store, &wait)?;
    let bound = if transaction.content.wal { deadline } else { deadline.min(most_hold) };
    let end = if transaction.content.wal {
        since + deadline
    } else {
        (since + deadline).min(transaction.since + bound)
    };
    let answer = query(transaction.connection_mut(), &store.path, sql, true, Until { end, bound }, cancel);
    transaction.end();
    let failed = |what| Error::Marker { path: store.path.clone(), what };
    match answer? {
        Answer::Rows(rows) => Ok(rows),
        Answer::Refused(why) => Err(failed(why)),
        Answer::TooLate => Err(failed(format!("it did not end within {} ms", bound.as_millis()))),
    }
}
