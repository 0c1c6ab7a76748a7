//! The history of a row: the versions in which it became what it then was.
//!
//! The newest version is asked first. A look-up reads the pages on the way to the row; the archive knows since which version each of them is
//! what it is. As long as these and the schema's number are the same, so is the row, and nothing is looked up in older versions.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use asat_core::{Code, PageSize, Problem, VersionId};
use asat_rows::{Error, Key, Pages, SourceError, Version, write_key, write_row};
use asat_wire::Fields;

use super::{Comparisons, VersionPages};

/// Where SQLite keeps a number that changes with the schema (<https://sqlite.org/fileformat2.html#schema_cookie>).
const SCHEMA_COOKIE: std::ops::Range<usize> = 40..44;

/// Which row.
#[derive(Clone, Debug)]
pub struct RowOf {
    /// Its table.
    pub table: String,
    /// Its key, as [`Key::parse`] reads it.
    pub key: String,
    /// Only changes of this column count.
    pub column: Option<String>,
}

/// A change of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChanged {
    /// The first version that has it so.
    pub version: VersionId,
    /// The version before; `None` for the oldest.
    pub since: Option<VersionId>,
    /// The row before, if there was one.
    pub before: Option<Fields>,
    /// The row after, if there is one.
    pub after: Option<Fields>,
}

/// What was found of a row.
#[derive(Debug, Default)]
pub struct RowFound {
    /// Its key.
    pub key: Fields,
    /// Its changes, the newest first.
    pub changes: Vec<RowChanged>,
    /// The version from which to go on, if there may be more.
    pub next: Option<VersionId>,
}

/// A row in a version, and since when it is what it is.
struct Look {
    row: Option<Fields>,
    key: Option<Fields>,
    has_table: bool,
    since: u64,
    manifest: u64,
    cookie: Vec<u8>,
}

impl Comparisons {
    /// Finds the versions in which a row changed, among these, which are in the archive, the newest first; at most so many changes. As
    /// soon as `given_up` is true, that ends with an error.
    ///
    /// # Errors
    /// If no version has the table, the key is none of it, or a version cannot be read.
    pub fn row_history(
        &self,
        versions: &[VersionId],
        row: &RowOf,
        limit: usize,
        given_up: &Arc<AtomicBool>,
    ) -> Result<RowFound, Problem> {
        let mut found = RowFound::default();
        let mut has_table = false;
        let mut run: Option<(Look, &VersionId)> = None;
        for id in versions {
            let pages = self.pages(id, given_up)?;
            if let Some((look, first)) = &mut run
                && id.number >= look.since
                && look.manifest == pages.manifest()
                && look.cookie == cookie(&pages)?
            {
                *first = id;
                continue;
            }
            let mut look = look(&pages, row)?;
            has_table |= look.has_table;
            if let Some(key) = look.key.take() {
                found.key = key;
            }
            if let Some((newer, first)) = run.take()
                && row.differs(look.row.as_ref(), newer.row.as_ref())
            {
                let change = RowChanged {
                    version: first.clone(),
                    since: Some(id.clone()),
                    before: look.row.clone(),
                    after: newer.row,
                };
                found.changes.push(change);
                if found.changes.len() == limit {
                    found.next = Some(id.clone());
                    return Ok(found);
                }
            }
            run = Some((look, id));
        }
        if let Some((Look { row: Some(row), .. }, first)) = run {
            let change = RowChanged { version: first.clone(), since: None, before: None, after: Some(row) };
            found.changes.push(change);
        }
        if has_table || versions.is_empty() {
            Ok(found)
        } else {
            Err(Error::NoSuchTable { name: row.table.clone() }.into())
        }
    }
}

impl RowOf {
    /// Whether two states of the row differ in what is asked for.
    fn differs(&self, before: Option<&Fields>, after: Option<&Fields>) -> bool {
        match (&self.column, before, after) {
            (Some(column), Some(before), Some(after)) => {
                let value = |Fields(fields): &Fields| {
                    let own = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(column));
                    own.map(|(_, value)| value.clone())
                };
                value(before) != value(after)
            }
            _ => before != after,
        }
    }
}

/// Looks a row up in a version.
fn look(pages: &VersionPages, wanted: &RowOf) -> Result<Look, Problem> {
    let recorded = Recorded { pages, read: RefCell::default() };
    let version = Version::open(pages.id().to_string(), &recorded)?;
    let schema = version.schema()?;
    let mut look = Look {
        row: None,
        key: None,
        has_table: false,
        since: 0,
        manifest: pages.manifest(),
        cookie: cookie(pages)?,
    };
    if let Some(table) = schema.table(&wanted.table) {
        look.has_table = true;
        let Some(definition) = &table.definition else {
            let why = "it is virtual, or its definition is not understood".to_owned();
            return Err(Error::NotComparable { table: table.name.clone(), why }.into());
        };
        if let Some(column) = wanted.column.as_ref().filter(|column| definition.column(column).is_none()) {
            let detail = format!("the table {} of {} has no column {column}", table.name, pages.id());
            return Err(Problem::new(Code::Invalid, detail, "ask without a column, which shows them all"));
        }
        let key = Key::parse(&table.name, definition, version.encoding(), &wanted.key)?;
        if let Some(row) = version.find(&schema, table, &key)? {
            look.row = Some(fields(|out| write_row(&row, out))?);
            look.key = Some(fields(|out| write_key(&row, out))?);
        }
    }
    // The first page changes with nearly every commit; what counts of it is the schema, which has a number.
    for page in recorded.read.into_inner().into_iter().filter(|page| *page > 1) {
        look.since = look.since.max(pages.since(page)?);
    }
    Ok(look)
}

/// What was written as a JSON object.
fn fields(write: impl FnOnce(&mut dyn std::io::Write) -> Result<(), Error>) -> Result<Fields, Problem> {
    let mut text = Vec::new();
    write(&mut text)?;
    serde_json::from_slice(&text).map_err(|error| {
        Problem::new(Code::Internal, format!("a row cannot be shown: {error}"), "report this as a defect")
    })
}

/// The number of a version's schema.
fn cookie(pages: &VersionPages) -> Result<Vec<u8>, Problem> {
    if pages.page_count() == 0 {
        return Ok(Vec::new());
    }
    let mut page = vec![0; pages.page_size().as_usize()];
    let read = pages.read(1, &mut page);
    read.map_err(|source| Error::Source { version: pages.id().to_string(), page: 1, source })?;
    Ok(page.get(SCHEMA_COOKIE).unwrap_or_default().to_vec())
}

/// The pages of a version, with a note of those that were read.
struct Recorded<'p> {
    pages: &'p VersionPages,
    read: RefCell<Vec<u32>>,
}

impl Pages for Recorded<'_> {
    fn page_size(&self) -> PageSize {
        self.pages.page_size()
    }

    fn page_count(&self) -> u32 {
        self.pages.page_count()
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), SourceError> {
        self.read.borrow_mut().push(number);
        self.pages.read(number, page)
    }
}
