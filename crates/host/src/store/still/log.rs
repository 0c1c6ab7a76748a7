//! Holding a store in WAL mode still: checkpoints are kept off its database file, and writers go on.

use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::writers::Writers;
use super::{CommitWait, Still, Witness};
use crate::store::codes::is_lock;
use crate::store::error::Error;
use crate::store::file::StoreFile;
use crate::store::open;
use crate::store::transaction::Transaction;
use crate::store::wait::Wait;

/// How often the steps are tried before writers are held for them. The first time also does the bulk.
const ATTEMPTS: u32 = 7;

/// How long readers and other checkpoints that are about to end are waited for while writers are held, at most.
/// To hold them for the snapshot takes several times as long.
pub(super) const SETTLING: Duration = Duration::from_millis(200);

/// The pause in which a reader or another checkpoint may end. It doubles each time while nobody is held.
const PAUSE: Duration = Duration::from_millis(1);

/// Holds the store still, holding writers as little as it takes.
pub(super) fn hold(mut reader: Transaction, wait: &Wait<'_>) -> Result<Still, Error> {
    open::check_writable(reader.connection(), &reader.file)?;
    let mut seen = Vec::new();
    for attempt in 0..ATTEMPTS {
        match put_into_the_file(&mut reader, wait, PAUSE * (1 << attempt))? {
            Outcome::Whole => return still(reader, CommitWait::Nobody, Duration::ZERO),
            Outcome::Busy => {}
            other => seen.push(other),
        }
    }
    let settling = if is_pinned(&seen) { Duration::ZERO } else { SETTLING.min(wait.limits.hold / 4) };
    let writers = Writers::hold(&reader.file, wait)?;
    // What was seen last is from before.
    reader.renew(wait, |_| Ok(()))?;
    let mut still = under(reader, writers, settling, wait)?;
    if still.reader.is_some() {
        // What was found whole is so, whether or not the bound has ended the hold by now.
        still.blocked += still.writers.take().map_or(Duration::ZERO, Writers::let_go);
    }
    Ok(still)
}

/// Holds the store still under the writers' lock, which stays: with the file alone, where readers and other checkpoints let
/// that be within `settling`, and else with the WAL.
pub(super) fn under(
    mut reader: Transaction,
    writers: Writers,
    settling: Duration,
    wait: &Wait<'_>,
) -> Result<Still, Error> {
    loop {
        if put_into_the_file(&mut reader, wait, PAUSE)? == Outcome::Whole {
            let still = still(reader, CommitWait::Checkpoint, Duration::ZERO)?;
            return Ok(Still { writers: Some(writers), ..still });
        }
        if writers.age() > settling {
            return with_log(reader, writers, wait);
        }
    }
}

/// Moves the bulk of the WAL into the database file; that holds nobody.
pub(super) fn prepare(mut reader: Transaction, wait: &Wait<'_>) -> Result<(), Error> {
    open::check_writable(reader.connection(), &reader.file)?;
    put_into_the_file(&mut reader, wait, Duration::ZERO)?;
    reader.end();
    Ok(())
}

/// Whether a reader was in the way at the same frame all the time: it is not about to end.
fn is_pinned(seen: &[Outcome]) -> bool {
    let is_stuck = |outcome: &Outcome| matches!(outcome, Outcome::Stuck(_)) && Some(outcome) == seen.first();
    seen.len() > 1 && seen.iter().all(is_stuck)
}

/// How far the database file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is the state that the transaction sees, and stays so while that lasts.
    Whole,
    /// A reader keeps the frames after this one out of it.
    Stuck(u32),
    /// Somebody committed meanwhile.
    Raced,
    /// Another checkpoint is at work.
    Busy,
}

/// Checkpoints the WAL between two read transactions. Where that was not complete, waits for as long as `pause`.
fn put_into_the_file(reader: &mut Transaction, wait: &Wait<'_>, pause: Duration) -> Result<Outcome, Error> {
    wait.check(&reader.file)?;
    let file = reader.file.clone();
    let before = data_version(reader)?;
    let log = reader.renew(wait, |connection| {
        let log = checkpoint(connection, "PASSIVE", &file)?;
        if log.is_none_or(|log| log.done < log.frames) {
            thread::sleep(pause);
        }
        Ok(log)
    })?;
    Ok(match log {
        Some(Log { frames, done }) if done < frames => Outcome::Stuck(done),
        Some(_) if data_version(reader)? == before => Outcome::Whole,
        Some(_) => Outcome::Raced,
        None => Outcome::Busy,
    })
}

fn still(reader: Transaction, hold: CommitWait, blocked: Duration) -> Result<Still, Error> {
    let witness = Witness::of_file(&reader)?;
    let still = Still::new(reader.file.clone(), reader.content, reader.cut_at, hold, witness);
    Ok(Still { reader: Some(reader), blocked, ..still })
}

/// With the writers' lock, the database file and the WAL together are the state.
fn with_log(mut reader: Transaction, writers: Writers, wait: &Wait<'_>) -> Result<Still, Error> {
    let file = reader.file.clone();
    let log = reader.renew(wait, |connection| checkpoint(connection, "NOOP", &file))?;
    let witness = Witness::with_log(&reader, log.map_or(0, |log| log.frames))?;
    let (content, cut_at) = (reader.content, reader.cut_at);
    reader.end();
    let still = Still::new(file, content, cut_at, CommitWait::Snapshot, witness);
    Ok(Still { writers: Some(writers), ..still })
}

/// What a checkpoint says of the WAL, in frames.
#[derive(Clone, Copy)]
struct Log {
    frames: u32,
    done: u32,
}

/// Checkpoints the WAL. Nothing where another checkpoint is at work.
fn checkpoint(connection: &Connection, kind: &str, file: &StoreFile) -> Result<Option<Log>, Error> {
    let sql = format!("PRAGMA wal_checkpoint({kind})");
    let answer = connection.query_row(&sql, [], |row| {
        let (busy, frames, done): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((busy == 0).then_some((frames, done)))
    });
    match answer {
        Ok(answer) => Ok(answer.and_then(|(frames, done)| {
            Some(Log { frames: u32::try_from(frames).ok()?, done: u32::try_from(done).ok()? })
        })),
        Err(error) if is_lock(&error) => Ok(None),
        Err(error) => Err(Error::from_sqlite("checkpoint", &file.path, &error)),
    }
}

/// A number that moves when the transaction sees another state than the connection's last one did.
fn data_version(reader: &Transaction) -> Result<i64, Error> {
    let version: rusqlite::Result<i64> =
        reader.connection().query_row("PRAGMA data_version", [], |row| row.get(0));
    version.map_err(|error| Error::from_sqlite("read", &reader.file.path, &error))
}
