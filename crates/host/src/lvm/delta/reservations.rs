//! Which states of pools' metadata are kept for this installation, so that what a killed daemon left behind is let go by the next.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::Error;
use crate::dm::target::ThinPool;
use crate::dm::{self, Control, Selector};

/// A folder with a file for each pool that keeps a state of its metadata for us, in which is by what block it is known.
#[derive(Clone, Debug)]
pub struct Reservations(PathBuf);

/// What is recorded of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// It was about to be told to keep a state, when it kept none.
    Intended,
    /// It keeps the state that is known by this block.
    Block(u64),
}

impl Reservations {
    /// The records in a folder. It is made with the first of them.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Has every pool let go what it keeps for a process of ours that ended in the middle, since what it keeps takes space in
    /// it. A pool that is not active is left for another time. It is for somebody who knows that nobody is asking at the moment.
    ///
    /// # Errors
    /// Where the records cannot be read, or a pool cannot be told. The others are told all the same.
    pub fn let_go(&self, control: impl FnOnce() -> Result<Control, dm::Error>) -> Result<(), Error> {
        let pools = self.pools()?;
        if pools.is_empty() {
            return Ok(());
        }
        let control = control()?;
        let results: Vec<_> = pools.iter().map(|pool| self.let_go_one(&control, pool)).collect();
        results.into_iter().collect()
    }

    fn let_go_one(&self, control: &Control, pool: &str) -> Result<(), Error> {
        match held(control, pool) {
            Err(Error::Mapper(dm::Error::NoSuchDevice(_))) => Ok(()),
            Err(error) => Err(error),
            Ok(state) => {
                if let Some(left) = state.block
                    && self.is_ours(pool, left)?
                {
                    control.release_metadata(pool)?;
                }
                self.forget(pool)
            }
        }
    }

    /// Has a pool keep a state of its metadata, instead of one that a process of ours has left behind.
    pub(super) fn reserve(&self, control: &Control, pool: &str) -> Result<(), Error> {
        let state = held(control, pool)?;
        if let Some(left) = state.block {
            if !self.is_ours(pool, left)? {
                return Err(Error::Reserved(state.name));
            }
            control.release_metadata(pool)?;
        }
        self.keep(pool, Recorded::Intended)?;
        if !control.reserve_metadata(pool)? {
            self.forget(pool)?;
            return Err(Error::Reserved(state.name));
        }
        let recorded = held(control, pool).and_then(|state| match state.block {
            Some(block) => self.keep(pool, Recorded::Block(block)),
            None => Err(Error::Reserved(state.name)),
        });
        if recorded.is_err() {
            self.release(control, pool)?;
        }
        recorded
    }

    /// Has a pool let go what it keeps for us.
    pub(super) fn release(&self, control: &Control, pool: &str) -> Result<(), Error> {
        let released = control.release_metadata(pool);
        released.map_err(|source| Error::Kept { pool: pool.to_owned(), source })?;
        self.forget(pool)
    }

    /// Whether what a pool keeps is what was recorded.
    fn is_ours(&self, pool: &str, left: u64) -> Result<bool, Error> {
        Ok(match self.of(pool)? {
            Some(Recorded::Block(block)) => block == left,
            // It kept none then, and hardly anybody else has come since.
            Some(Recorded::Intended) => true,
            None => false,
        })
    }

    /// The pools of which something is recorded.
    fn pools(&self) -> Result<Vec<String>, Error> {
        let failed = |source| Error::Record { path: self.0.clone(), source };
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string()));
        let names: Vec<_> = names.collect::<io::Result<_>>().map_err(failed)?;
        Ok(names.into_iter().flatten().collect())
    }

    /// What is recorded of a pool. What was not written to its end says nothing.
    fn of(&self, pool: &str) -> Result<Option<Recorded>, Error> {
        let text = match fs::read_to_string(self.0.join(pool)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| self.failed(pool, source))?,
        };
        Ok(match text.strip_suffix('\n') {
            Some(INTENDED) => Some(Recorded::Intended),
            block => block.and_then(|block| block.parse().ok()).map(Recorded::Block),
        })
    }

    /// Records what a pool keeps, to last: the pool's state lasts too.
    fn keep(&self, pool: &str, recorded: Recorded) -> Result<(), Error> {
        let written = fs::create_dir_all(&self.0).and_then(|()| {
            let mut file = File::create(self.0.join(pool))?;
            match recorded {
                Recorded::Intended => writeln!(file, "{INTENDED}"),
                Recorded::Block(block) => writeln!(file, "{block}"),
            }?;
            file.sync_all()?;
            File::open(&self.0)?.sync_all()
        });
        written.map_err(|source| self.failed(pool, source))
    }

    /// Forgets a pool that keeps nothing any more.
    fn forget(&self, pool: &str) -> Result<(), Error> {
        match fs::remove_file(self.0.join(pool)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.failed(pool, source)),
            _ => Ok(()),
        }
    }

    fn failed(&self, pool: &str, source: io::Error) -> Error {
        Error::Record { path: self.0.join(pool), source }
    }
}

/// What is recorded before a pool is told.
const INTENDED: &str = "intended";

/// What a pool keeps.
struct KeptState {
    /// The name of its device.
    name: String,
    /// The block of its metadata by which the state is known, where it keeps one.
    block: Option<u64>,
}

fn held(control: &Control, pool: &str) -> Result<KeptState, Error> {
    let state = control.status(Selector::Uuid(pool))?;
    let target = state.targets.first().map(ThinPool::parse).transpose()?;
    match target {
        Some(ThinPool::Running(running)) => Ok(KeptState { name: state.name, block: running.held_root }),
        Some(ThinPool::Failed) | None => Err(Error::NoDevice(state.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_found_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let records = Reservations::new(folder.path().join("pools"));
        let of = |pool: &str| records.of(pool).unwrap();
        assert_eq!((of("LVM-1-tpool"), records.pools().unwrap()), (None, Vec::new()));
        records.forget("LVM-1-tpool").unwrap();
        for recorded in [Recorded::Intended, Recorded::Block(77), Recorded::Block(123)] {
            records.keep("LVM-1-tpool", recorded).unwrap();
            assert_eq!((of("LVM-1-tpool"), of("LVM-2-tpool")), (Some(recorded), None));
        }
        assert_eq!(records.pools().unwrap(), ["LVM-1-tpool"]);
        assert!(
            records.is_ours("LVM-1-tpool", 123).unwrap() && !records.is_ours("LVM-1-tpool", 122).unwrap()
        );
        for damaged in ["", "123", "intended", "12x\n", "-1\n"] {
            fs::write(folder.path().join("pools/LVM-1-tpool"), damaged).unwrap();
            assert_eq!(of("LVM-1-tpool"), None, "{damaged:?}");
        }
        records.forget("LVM-1-tpool").unwrap();
        assert_eq!(fs::read_dir(folder.path().join("pools")).unwrap().count(), 0);
    }
}
