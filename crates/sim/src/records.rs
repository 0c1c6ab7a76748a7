//! The records: what a daemon that starts again knows. In most runs they are kept in memory, since a catalogue takes
//! its time; in some they are kept by the real one, in a file that lies in memory.

use asat_catalogue::Catalogue;
use asat_core::event::Change;
use asat_core::guard::GuardEntry;
use asat_core::register::Register;
use tempfile::TempDir;

use crate::Violation;

/// Where the records are.
pub(crate) enum Records {
    Memory(Box<Register>),
    File { folder: TempDir, catalogue: Option<Box<Catalogue>> },
}

impl Records {
    pub(crate) fn new(real: bool) -> Result<Self, Violation> {
        if !real {
            return Ok(Self::Memory(Box::default()));
        }
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.map_err(|error| Violation::new(format!("no folder for a catalogue: {error}")))?;
        let mut records = Self::File { folder, catalogue: None };
        records.open()?;
        Ok(records)
    }

    fn open(&mut self) -> Result<(), Violation> {
        if let Self::File { folder, catalogue } = self {
            // The one before is closed first.
            *catalogue = None;
            *catalogue = Some(Box::new(Catalogue::open(&folder.path().join("catalogue.db"))?));
        }
        Ok(())
    }

    /// Commits changes that a register has yet to take in.
    pub(crate) fn commit(&mut self, changes: &[Change]) -> Result<(), Violation> {
        match self {
            Self::Memory(register) => changes.iter().for_each(|change| register.evolve(change)),
            Self::File { catalogue: Some(catalogue), .. } => catalogue.record(changes)?,
            Self::File { .. } => return Err(Violation::new("the catalogue is closed")),
        }
        Ok(())
    }

    /// Logs what the guard did.
    pub(crate) fn log(&mut self, entry: &GuardEntry) -> Result<(), Violation> {
        match self {
            Self::File { catalogue: Some(catalogue), .. } => {
                Ok(catalogue.log_guard(std::slice::from_ref(entry))?)
            }
            _ => Ok(()),
        }
    }

    /// What a daemon that starts now finds.
    pub(crate) fn load(&mut self) -> Result<Register, Violation> {
        self.open()?;
        match self {
            Self::Memory(register) => Ok((**register).clone()),
            Self::File { catalogue: Some(catalogue), .. } => Ok(catalogue.load()?),
            Self::File { .. } => Err(Violation::new("the catalogue is closed")),
        }
    }
}

impl From<asat_catalogue::Error> for Violation {
    fn from(error: asat_catalogue::Error) -> Self {
        Self::new(format!("the catalogue refuses: {error}"))
    }
}
