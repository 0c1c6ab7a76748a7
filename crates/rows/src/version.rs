//! One version of a store: what its header says, and its pages.

use crate::btree::Node;
use crate::bytes::{u16_at, u32_at};
use crate::error::Error;
use crate::pages::Pages;

/// The page at this offset is never used: SQLite locks bytes of it (<https://sqlite.org/fileformat2.html#the_lock_byte_page>).
const LOCK_BYTE: u64 = 1 << 30;

/// How texts are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, the low byte first.
    Utf16Le,
    /// UTF-16, the high byte first.
    Utf16Be,
}

impl Encoding {
    /// What SQLite calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16le",
            Self::Utf16Be => "UTF-16be",
        }
    }
}

/// What the header of the file says (<https://sqlite.org/fileformat2.html#the_database_header>).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// The bytes of a page that SQLite uses.
    pub(crate) usable: usize,
    pub(crate) encoding: Encoding,
    /// Whether some pages map others to what leads to them.
    pub(crate) has_pointer_map: bool,
    /// The numbers that the application has put there (`user_version`, `application_id`).
    pub(crate) user_version: i32,
    pub(crate) application_id: i32,
    /// The first trunk page of the free list, or 0.
    pub(crate) free: u32,
    /// Whether keys may be in descending order.
    pub(crate) knows_descending: bool,
}

/// A version of a store, open for reading its rows.
pub struct Version<'p> {
    name: String,
    pages: &'p dyn Pages,
    pub(crate) header: Header,
}

impl std::fmt::Debug for Version<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Version").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'p> Version<'p> {
    /// Reads the header of a version. `name` is what errors call it.
    ///
    /// # Errors
    /// Where the first page cannot be read, or is not that of a SQLite database of this page size.
    pub fn open(name: impl Into<String>, pages: &'p dyn Pages) -> Result<Self, Error> {
        let header = Header::of_nothing(pages);
        let mut version = Self { name: name.into(), pages, header };
        if pages.page_count() > 0 {
            let page = version.page(1, 1)?;
            version.header = Header::read(&page).map_err(|what| version.damaged(1, what))?;
        }
        Ok(version)
    }

    /// What errors call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its texts are stored.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.header.encoding
    }

    pub(crate) fn page_count(&self) -> u32 {
        self.pages.page_count()
    }

    pub(crate) fn page_len(&self) -> usize {
        self.pages.page_size().as_usize()
    }

    pub(crate) fn expect(&self, numbers: &[u32]) {
        self.pages.expect(numbers);
    }

    /// Reads the page of this number, to which the page `from` leads.
    pub(crate) fn page(&self, number: u32, from: u32) -> Result<Vec<u8>, Error> {
        if number == 0 || number > self.page_count() {
            let count = self.page_count();
            return Err(self.damaged(from, format!("it leads to page {number}, and there are {count}")));
        }
        let mut page = vec![0; self.page_len()];
        match self.pages.read(number, &mut page) {
            Ok(()) => Ok(page),
            Err(source) => Err(Error::Source { version: self.name.clone(), page: number, source }),
        }
    }

    /// Reads a page of a b-tree, to which the page `from` leads.
    pub(crate) fn node(&self, number: u32, from: u32) -> Result<Node, Error> {
        let page = self.page(number, from)?;
        Node::new(number, page, self.header.usable).map_err(|what| self.damaged(number, what))
    }

    pub(crate) fn damaged(&self, page: u32, what: impl Into<String>) -> Error {
        Error::Damaged { version: self.name.clone(), page, what: what.into() }
    }

    /// Whether a page has a place of its own in the file: it belongs to no tree and no chain.
    pub(crate) fn is_apart(&self, number: u32) -> bool {
        let start = u64::from(number - 1) * u64::from(self.pages.page_size().bytes());
        start == LOCK_BYTE || (self.header.has_pointer_map && self.map_page_of(number) == number)
    }

    /// The page of the pointer map that has the entry of this page (<https://sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages>).
    pub(crate) fn map_page_of(&self, number: u32) -> u32 {
        let entries = u32::try_from(self.header.usable / 5).unwrap_or(1) + 1;
        let map = number.saturating_sub(2) / entries * entries + 2;
        let start = u64::from(map - 1) * u64::from(self.pages.page_size().bytes());
        if start == LOCK_BYTE { map + 1 } else { map }
    }
}

impl Header {
    /// A database without pages.
    fn of_nothing(pages: &dyn Pages) -> Self {
        Self {
            usable: pages.page_size().as_usize(),
            encoding: Encoding::Utf8,
            has_pointer_map: false,
            user_version: 0,
            application_id: 0,
            free: 0,
            knows_descending: true,
        }
    }

    fn read(page: &[u8]) -> Result<Self, String> {
        if !page.starts_with(b"SQLite format 3\0") {
            return Err("it does not begin as a SQLite database".to_owned());
        }
        let stated = match u16_at(page, 16).unwrap_or_default() {
            1 => 1 << 16,
            size => usize::from(size),
        };
        if stated != page.len() {
            return Err(format!("it says that pages have {stated} bytes, and they have {}", page.len()));
        }
        let number = |at| u32_at(page, at).unwrap_or_default();
        let reserved = usize::from(page.get(20).copied().unwrap_or_default());
        let usable = page.len() - reserved;
        if usable < 480 {
            return Err(format!("it says that of each page {reserved} bytes are reserved"));
        }
        let encoding = match number(56) {
            0 | 1 => Encoding::Utf8,
            2 => Encoding::Utf16Le,
            3 => Encoding::Utf16Be,
            other => return Err(format!("it says that texts have the encoding {other}, which there is not")),
        };
        Ok(Self {
            usable,
            encoding,
            has_pointer_map: number(52) != 0,
            user_version: number(60).cast_signed(),
            application_id: number(68).cast_signed(),
            free: number(32),
            knows_descending: number(44) >= 4 || number(44) == 0,
        })
    }

    /// How many bytes of a payload lie on one overflow page.
    pub(crate) fn on_overflow_page(&self) -> usize {
        self.usable - 4
    }
}

/// Where on a page its own content begins: the first one has the header before it.
pub(crate) fn first_byte(number: u32) -> usize {
    if number == 1 { 100 } else { 0 }
}
