//! Queries over versions, and the tables of what changed that they may name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use asat_core::{PageSize, Problem, VersionId};
use asat_host::query::{Asked, CutVersion, MadeUp, Workspace, run};
use asat_rows::{Comparison, Encoding, Error, Pages, SourceError, Version};
use jiff::Timestamp;

use super::Comparisons;

/// The command by which this program answers a query.
const COMMAND: &str = "query-worker";

/// The versions whose changes a query asks for, oldest first.
pub struct Changes {
    /// The versions with the instants at which they were cut.
    pub versions: Vec<(VersionId, Timestamp)>,
    /// The names of the tables, with what they begin with.
    pub tables: BTreeSet<String>,
    /// Only the first and the last are compared, and not all neighbours.
    pub of_two: bool,
}

impl Comparisons {
    /// The disk for a query: so many bytes.
    ///
    /// # Errors
    /// If the machine refuses.
    pub fn workspace(&self, bytes: u64) -> Result<Workspace, Problem> {
        Workspace::create(&self.scratch, bytes)
    }

    /// Has a query answered, by a process of its own. As soon as `given_up` is true, that is ended.
    ///
    /// # Errors
    /// If it cannot be answered.
    pub fn query(
        &self,
        asked: &Asked,
        workspace: &Workspace,
        given_up: &AtomicBool,
        out: &mut dyn Write,
    ) -> Result<(), Problem> {
        // The file of the program may be another one's by now, as after an upgrade.
        run(Path::new("/proc/self/exe"), &[OsStr::new(COMMAND)], asked, workspace, given_up, out)
    }

    /// Makes the tables of what changed that a query names.
    ///
    /// # Errors
    /// If there is no such table, there are more rows than may be, or a version cannot be read.
    pub fn made_up(
        &self,
        changes: &Changes,
        most_rows: u64,
        workspace: &Workspace,
        given_up: &Arc<AtomicBool>,
    ) -> Result<MadeUp, Problem> {
        let mut made = MadeUp::create(workspace, most_rows, self.encoding(changes, given_up)?)?;
        for table in &changes.tables {
            match table.split_once('_') {
                Some((kind, of)) if kind.eq_ignore_ascii_case("diff") => {
                    made.begin_diff(of, &self.columns(changes, of, given_up)?)?;
                    self.add_diffs(changes, of, given_up, &mut made)?;
                }
                Some((_, of)) => {
                    made.begin_history(of, &self.columns(changes, of, given_up)?)?;
                    self.add_history(changes, of, given_up, &mut made)?;
                }
                None => {}
            }
        }
        made.finish()?;
        Ok(made)
    }

    /// The encoding of the newest version's texts.
    fn encoding(&self, changes: &Changes, given_up: &Arc<AtomicBool>) -> Result<Encoding, Problem> {
        let Some((newest, _)) = changes.versions.last() else { return Ok(Encoding::Utf8) };
        Ok(Version::open(newest.to_string(), &self.pages(newest, given_up)?)?.encoding())
    }

    /// The columns of a table, in the newest version that has it.
    fn columns(
        &self,
        changes: &Changes,
        table: &str,
        given_up: &Arc<AtomicBool>,
    ) -> Result<Vec<String>, Problem> {
        for (id, _) in changes.versions.iter().rev() {
            let pages = self.pages(id, given_up)?;
            let schema = Version::open(id.to_string(), &pages)?.schema()?;
            let definition = schema.table(table).and_then(|table| table.definition.as_ref());
            if let Some(definition) = definition {
                return Ok(definition.columns.iter().map(|column| column.name.clone()).collect());
            }
        }
        Err(Error::NoSuchTable { name: table.to_owned() }.into())
    }

    fn add_diffs(
        &self,
        changes: &Changes,
        table: &str,
        given_up: &Arc<AtomicBool>,
        made: &mut MadeUp,
    ) -> Result<(), Problem> {
        let versions = &changes.versions;
        let ends: Vec<_> = versions.first().into_iter().zip(versions.last()).collect();
        let neighbours: Vec<_> = versions.iter().zip(versions.iter().skip(1)).collect();
        for ((from, _), (to, _)) in if changes.of_two { ends } else { neighbours } {
            self.compare(from, to, given_up, |comparison| {
                made.add_diff(comparison, table, from.number, to.number)
            })?;
        }
        Ok(())
    }

    fn add_history(
        &self,
        changes: &Changes,
        table: &str,
        given_up: &Arc<AtomicBool>,
        made: &mut MadeUp,
    ) -> Result<(), Problem> {
        let moment = |(id, cut_at): &(VersionId, Timestamp)| {
            let cut_at = cut_at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
            CutVersion { number: id.number, cut_at }
        };
        let Some(first) = changes.versions.first() else { return Ok(()) };
        let pages = self.pages(&first.0, given_up)?;
        let nothing = Nothing(pages.page_size());
        let (before, now) =
            (Version::open("nothing", &nothing)?, Version::open(first.0.to_string(), &pages)?);
        made.add_history(&Comparison::new(&before, &now, [])?, table, &moment(first))?;
        for (from, to) in changes.versions.iter().zip(changes.versions.iter().skip(1)) {
            self.compare(&from.0, &to.0, given_up, |comparison| {
                made.add_history(comparison, table, &moment(to))
            })?;
        }
        Ok(())
    }
}

/// What a store is before its first version.
struct Nothing(PageSize);

impl Pages for Nothing {
    fn page_size(&self) -> PageSize {
        self.0
    }

    fn page_count(&self) -> u32 {
        0
    }

    fn read(&self, _: u32, _: &mut [u8]) -> Result<(), SourceError> {
        Err("it has no pages".into())
    }
}
