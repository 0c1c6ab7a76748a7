//! What changed between versions, and queries over them: their rows are read and compared, out of the archive.

mod querying;
mod read_ahead;
mod row_history;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use asat_archive::Reader;
use asat_core::{Code, PageSize, Problem, VersionId};
use asat_host::summaries::Summaries;
use asat_rows::{Compared, Comparison, Counts, Pages, SourceError, TableChange, TableKind, Version};
use asat_wire::{Diff, SchemaChange, TableDiff};

use super::archives::Archives;
use crate::config::Config;
pub use querying::Changes;
use read_ahead::ReadAhead;
pub use row_history::{RowChanged, RowFound, RowOf};

/// With fewer pages to read, a thread is not worth its start.
const WORTH_A_THREAD: usize = 32;

/// Compares the versions of one state folder.
pub struct Comparisons {
    archives: Arc<Archives>,
    /// What is known of what differs between versions.
    pub(super) summaries: Summaries,
    /// Where the disks of queries lie.
    scratch: PathBuf,
}

/// The pages of a version, as its rows are read from them. Every page is checked.
pub struct VersionPages {
    id: VersionId,
    reader: Arc<Reader>,
    /// Reads what is asked for soon, as soon as that is known.
    ahead: OnceLock<Option<ReadAhead>>,
    /// Ends the reading.
    given_up: Arc<AtomicBool>,
}

impl Comparisons {
    /// Compares versions of these archives. What is known already is kept in the state folder.
    pub(super) fn open(config: &Config, archives: Arc<Archives>) -> Self {
        let summaries = Summaries::open(&config.summaries(), |text| tracing::warn!("{text}"));
        Self { archives, summaries, scratch: config.scratch() }
    }

    /// Opens the pages of an archived version. As soon as `given_up` is true, no more of them is read.
    ///
    /// # Errors
    /// If it is not in the archive, or cannot be read.
    pub fn pages(&self, id: &VersionId, given_up: &Arc<AtomicBool>) -> Result<VersionPages, Problem> {
        let reader = Arc::new(self.archives.read(id)?);
        Ok(VersionPages { id: id.clone(), reader, ahead: OnceLock::new(), given_up: Arc::clone(given_up) })
    }

    /// Compares two archived versions. As soon as `given_up` is true, that ends with an error.
    ///
    /// # Errors
    /// If one cannot be read, and what `work` fails with.
    pub fn compare<T>(
        &self,
        from: &VersionId,
        to: &VersionId,
        given_up: &Arc<AtomicBool>,
        work: impl FnOnce(&Comparison<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let (old, new) = (self.pages(from, given_up)?, self.pages(to, given_up)?);
        let differing = new.differing_from(&old)?;
        let old = Version::open(from.to_string(), &old)?;
        let new = Version::open(to.to_string(), &new)?;
        work(&Comparison::new(&old, &new, differing)?)
    }

    /// Says what differs between two archived versions, table by table; what is known is not found out again. As soon as `given_up` is
    /// true, that ends with an error.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn diff(
        &self,
        from: &VersionId,
        to: &VersionId,
        given_up: &Arc<AtomicBool>,
    ) -> Result<Diff, Problem> {
        if let Some(known) = self.known_diff(from, to) {
            return Ok(known);
        }
        let differing = |table: &&TableChange| table.is_schema_changed() || table.may_differ();
        let tables = self.compare(from, to, given_up, |comparison| {
            let tables = comparison.tables().iter().filter(differing).map(|table| counted(comparison, table));
            Ok(tables.filter(is_worth_telling).collect())
        })?;
        if given_up.load(Ordering::Relaxed) {
            return Err(nobody_waits());
        }
        let diff = Diff { from: Some(from.to_string()), to: to.to_string(), tables, problem: None };
        // Damage may be put right.
        if diff.tables.iter().all(|table| table.problem.is_none() || table.compared == "not")
            && let Ok(text) = serde_json::to_string(&diff)
            && let (Some(old), Some(new)) = (self.content_of(from), self.content_of(to))
        {
            self.summaries.keep(&old, &new, &text);
        }
        Ok(diff)
    }

    /// What differs between two versions, if it was found out before.
    #[must_use]
    pub fn known_diff(&self, from: &VersionId, to: &VersionId) -> Option<Diff> {
        serde_json::from_str(&self.summaries.find(&self.content_of(from)?, &self.content_of(to)?)?).ok()
    }

    /// What a summary is kept by: a version and its content. In a state folder that was put back from a backup, the same number may be
    /// given to another content.
    fn content_of(&self, id: &VersionId) -> Option<String> {
        Some(format!("{id} {}", self.archives.certified(id)?))
    }
}

fn nobody_waits() -> Problem {
    Problem::new(Code::Stopping, "nobody waits for the answer any more", "ask again")
}

fn is_worth_telling(table: &TableDiff) -> bool {
    table.schema.is_some() || table.problem.is_some() || table.inserted + table.deleted + table.updated > 0
}

/// What differs in a table. Damage in one table does not hide what others have.
fn counted(comparison: &Comparison<'_>, table: &TableChange) -> TableDiff {
    let counts = comparison.rows(table).and_then(asat_rows::Differences::count);
    let problem = counts.as_ref().err().map(ToString::to_string);
    let Counts { inserted, deleted, updated } = counts.unwrap_or_default();
    TableDiff {
        table: table.name.clone(),
        renamed_from: table.renamed_from.clone(),
        kind: kind(table.kind).to_owned(),
        schema: table.is_schema_changed().then(|| schema_change(table)),
        compared: compared(&table.compared).to_owned(),
        inserted,
        deleted,
        updated,
        problem,
    }
}

fn kind(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Ordinary => "table",
        TableKind::Shadow => "shadow",
        TableKind::Internal => "internal",
        TableKind::Virtual => "virtual",
    }
}

fn compared(compared: &Compared) -> &'static str {
    match compared {
        Compared::ChangedPages => "changed_pages",
        Compared::AllPages => "all_pages",
        Compared::Replaced => "replaced",
        Compared::Not(_) => "not",
    }
}

fn schema_change(table: &TableChange) -> SchemaChange {
    let columns = |is_one: fn(&asat_rows::ColumnPair) -> bool| {
        let is_whole = table.old.is_none() || table.new.is_none();
        let columns = table.columns.iter().filter(|column| !is_whole && is_one(column));
        columns.map(|column| column.name.clone()).collect()
    };
    SchemaChange {
        change: table.schema_change().to_owned(),
        before: table.old.as_ref().map(|table| table.sql.clone()),
        after: table.new.as_ref().map(|table| table.sql.clone()),
        columns_added: columns(|column| column.old.is_none()),
        columns_dropped: columns(|column| column.new.is_none()),
    }
}

impl VersionPages {
    /// The version.
    #[must_use]
    pub fn id(&self) -> &VersionId {
        &self.id
    }

    /// The pages that may differ from those of another version: all of them if that is one of another store.
    ///
    /// # Errors
    /// If what the archive knows of its pages is damaged.
    pub fn differing_from(&self, other: &Self) -> Result<Vec<u32>, Problem> {
        if self.id.store == other.id.store {
            return Ok(self.reader.differing_from(&other.reader)?);
        }
        Ok((1..=self.page_count().min(other.page_count())).collect())
    }

    /// The number of the manifest by which the version is read.
    #[must_use]
    pub fn manifest(&self) -> u64 {
        self.reader.manifest()
    }

    /// The version at which a page became what it is.
    ///
    /// # Errors
    /// If what the archive knows of its pages is damaged.
    pub fn since(&self, page: u32) -> Result<u64, Problem> {
        Ok(self.reader.since(page)?)
    }
}

impl Pages for VersionPages {
    fn page_size(&self) -> PageSize {
        self.reader.meta().page_size
    }

    fn page_count(&self) -> u32 {
        self.reader.meta().page_count
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), SourceError> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(nobody_waits().into());
        }
        let ahead = self.ahead.get().and_then(Option::as_ref).and_then(|ahead| ahead.take(number));
        match ahead.filter(|ahead| ahead.len() == page.len()) {
            Some(ahead) => page.copy_from_slice(&ahead),
            None => self.reader.read_page(number, page)?,
        }
        Ok(())
    }

    fn expect(&self, numbers: &[u32]) {
        if numbers.len() < WORTH_A_THREAD && self.ahead.get().is_none() {
            return;
        }
        if let Some(ahead) = self.ahead.get_or_init(|| ReadAhead::start(Arc::clone(&self.reader))) {
            ahead.expect(numbers);
        }
    }
}
