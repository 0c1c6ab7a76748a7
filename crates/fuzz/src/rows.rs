//! Stores as their rows are read and compared, and the names of versions in queries.

use std::io::{self, Write};

use asat_core::PageSize;
use asat_rows::{Comparison, Error, Format, Key, Pages, Selection, SourceError, Version};

use crate::{pieces, text};

/// What differs is not written beyond so many bytes: two small files may say of a few rows that they are very long.
const MOST: usize = 1 << 20;

/// A file in memory.
struct Memory<'b> {
    bytes: &'b [u8],
    page_size: PageSize,
}

impl<'b> Memory<'b> {
    fn of(bytes: &'b [u8]) -> Self {
        let stated = bytes.get(16..18).map_or(0, |size| u32::from(u16::from_be_bytes([size[0], size[1]])));
        let stated = if stated == 1 { 65536 } else { stated };
        Self { bytes, page_size: PageSize::new(stated).unwrap_or(PageSize::new(512).unwrap()) }
    }
}

impl Pages for Memory<'_> {
    fn page_size(&self) -> PageSize {
        self.page_size
    }

    fn page_count(&self) -> u32 {
        u32::try_from(self.bytes.len() / self.page_size.as_usize()).unwrap()
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), SourceError> {
        assert!((1..=self.page_count()).contains(&number), "no page is read that the file does not have");
        let start = (usize::try_from(number)? - 1) * page.len();
        page.copy_from_slice(&self.bytes[start..start + page.len()]);
        Ok(())
    }
}

/// Takes so much, and no more.
struct Bounded(usize);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MOST { Err(io::Error::other("it is enough")) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn rows(bytes: &[u8]) {
    let [old, new] = pieces(bytes);
    let (old, new) = (Memory::of(old), Memory::of(new));
    let differing = |number: &u32| {
        let page = |file: &Memory<'_>| {
            let mut page = vec![0; file.page_size.as_usize()];
            (*number <= file.page_count()).then(|| file.read(*number, &mut page)).map(|_| page)
        };
        page(&old) != page(&new)
    };
    let pages = (1..=old.page_count().max(new.page_count())).filter(differing);
    let _ = compare(&old, &new, pages.collect());
    let _ = find(&new);
}

fn compare(old: &Memory<'_>, new: &Memory<'_>, pages: Vec<u32>) -> Result<(), Error> {
    let (before, now) = (Version::open("old", old)?, Version::open("new", new)?);
    let comparison = Comparison::new(&before, &now, pages)?;
    for format in Format::ALL {
        let selection = Selection { all_kinds: true, ..Selection::default() };
        let _ = asat_rows::write(&comparison, &selection, format, &|_| String::new(), &mut Bounded(0));
    }
    Ok(())
}

fn find(file: &Memory<'_>) -> Result<(), Error> {
    let version = Version::open("new", file)?;
    let schema = version.schema()?;
    for name in ["t", "w", "p"] {
        let Some(table) = schema.table(name) else { continue };
        let Some(definition) = &table.definition else { continue };
        for text in ["1", "k", "[\"k\", 1]"] {
            if let Ok(key) = Key::parse(name, definition, version.encoding(), text) {
                let _ = version.find(&schema, table, &key);
            }
        }
    }
    Ok(())
}

pub(crate) fn sql(bytes: &[u8]) {
    let sql = text(bytes);
    let stores = ["report".to_owned(), "ledger".to_owned()];
    let Ok(query) = asat_rows::query::read(&sql, &stores) else { return };
    // What was written for SQLite says the same when it is read once more.
    let again = asat_rows::query::read(&query.sql, &stores).unwrap();
    assert_eq!(again.sql, query.sql);
}
