//! The records: what a daemon that starts again knows. They are kept in memory, since a catalogue takes its time; in some runs also by
//! the real one, in a file that lies in memory, which has to give back the same.

use std::path::Path;

use asat_catalogue::Catalogue;
use asat_core::event::Change;
use asat_core::guard::GuardEntry;
use asat_core::register::Register;
use tempfile::TempDir;

use crate::Violation;

/// All that was committed.
pub(crate) struct Records {
    register: Register,
    file: Option<File>,
}

/// The real catalogue. It is closed before its folder is removed.
struct File {
    catalogue: Option<Catalogue>,
    folder: TempDir,
}

impl File {
    fn new() -> Result<Self, Violation> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.map_err(|error| Violation::new(format!("no folder for a catalogue: {error}")))?;
        Ok(Self { catalogue: None, folder })
    }

    /// The catalogue; it is opened if it is not open.
    fn catalogue(&mut self) -> Result<&mut Catalogue, Violation> {
        let open = || Catalogue::open(&self.folder.path().join("catalogue.db"));
        let catalogue = self.catalogue.take().map_or_else(open, Ok)?;
        Ok(self.catalogue.insert(catalogue))
    }
}

impl Records {
    pub(crate) fn new(real: bool) -> Result<Self, Violation> {
        let file = real.then(File::new).transpose()?;
        Ok(Self { register: Register::default(), file })
    }

    /// What is recorded.
    pub(crate) fn register(&self) -> &Register {
        &self.register
    }

    /// Commits changes to the real catalogue, if there is one. Each has still to be taken in.
    pub(crate) fn commit(&mut self, changes: &[Change]) -> Result<(), Violation> {
        match &mut self.file {
            Some(file) => Ok(file.catalogue()?.record(changes)?),
            None => Ok(()),
        }
    }

    /// Takes a committed change in.
    pub(crate) fn take_in(&mut self, change: &Change) {
        self.register.evolve(change);
    }

    /// Logs what the guard did.
    pub(crate) fn log(&mut self, entry: &GuardEntry) -> Result<(), Violation> {
        match &mut self.file {
            Some(file) => Ok(file.catalogue()?.log_guard(std::slice::from_ref(entry))?),
            None => Ok(()),
        }
    }

    /// What a daemon that starts now finds.
    pub(crate) fn load(&mut self) -> Result<Register, Violation> {
        if let Some(file) = &mut self.file {
            // It is closed first.
            file.catalogue = None;
            if file.catalogue()?.load()? != self.register {
                return Err(Violation::new("the catalogue gives back other records than were committed"));
            }
        }
        Ok(self.register.clone())
    }
}

impl From<asat_catalogue::Error> for Violation {
    fn from(error: asat_catalogue::Error) -> Self {
        Self::new(format!("the catalogue refuses: {error}"))
    }
}
