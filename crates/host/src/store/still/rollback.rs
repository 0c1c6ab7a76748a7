//! Holding a store in a rollback mode still: a look at the file, or the writers' lock.

use std::thread;
use std::time::Duration;

use super::writers::Writers;
use super::{CommitWait, Still, Witness, log};
use crate::store::error::Error;
use crate::store::transaction::Transaction;
use crate::store::wait::Wait;

/// How often the file is looked at before writers are held.
const LOOKS: u32 = 3;

/// Holds the store still: until it is known what the file is, or with `must_hold` until the snapshot is taken.
pub(super) fn hold(mut reader: Transaction, wait: &Wait<'_>, must_hold: bool) -> Result<Still, Error> {
    let mut blocked = Duration::ZERO;
    for _ in 0..if must_hold { 0 } else { LOOKS } {
        // Nobody can write while this transaction lasts, so whoever writes does so after this look.
        let witness = Witness::of_file(&reader)?;
        let Some(unsettled) = witness.unsettled() else { break };
        if unsettled.is_zero() {
            let (file, content, cut_at) = (reader.file.clone(), reader.content, reader.cut_at);
            blocked += reader.end();
            return Ok(Still { blocked, ..Still::new(file, content, cut_at, CommitWait::Nobody, witness) });
        }
        blocked += reader.age();
        reader.renew(wait, |_| {
            thread::sleep(unsettled);
            Ok(())
        })?;
        wait.check(&reader.file)?;
        if reader.content.wal {
            return log::hold(reader, wait);
        }
    }
    blocked += reader.age();
    let file = reader.file.clone();
    let writers = reader.renew(wait, |_| Writers::hold(&file, wait))?;
    if reader.content.wal {
        drop(writers);
        return log::hold(reader, wait);
    }
    let still = under(reader, writers)?;
    Ok(Still { blocked, ..still })
}

/// Holds the store still with the writers' lock.
pub(super) fn under(reader: Transaction, writers: Writers) -> Result<Still, Error> {
    let witness = Witness::of_file(&reader)?;
    let (file, content, cut_at) = (reader.file.clone(), reader.content, reader.cut_at);
    reader.end();
    let still = Still::new(file, content, cut_at, CommitWait::Snapshot, witness);
    Ok(Still { writers: Some(writers), ..still })
}
