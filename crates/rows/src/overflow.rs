//! Finds rows that changed though their leaf did not.
//!
//! Where an update keeps the length of a long value, SQLite writes those overflow pages alone whose content differs
//! (`btreeOverwriteContent`), and so does incremental blob I/O. Such a page is among the changed ones, and nothing on it says whose it is.
//! So the changed pages are sorted: pages of trees and of the free list are no overflow pages, and most others hang from rows that are
//! compared anyway. Only if one is left over, its owner is looked for: by the pointer map if the store has one, else by
//! following the chains of the rows that were not to be read.

use crate::btree::Node;
use crate::bytes::{index, u32_at};
use crate::error::Error;
use crate::pages::PageSet;
use crate::schema::{ObjectKind, Schema};
use crate::version::Version;
use crate::walk::{Place, Places, Tree, Walk};

/// An overflow page begins with the number of the next one: in files of fewer pages the first byte tells it from a page of a b-tree.
const TELLING_PAGES: u32 = 1 << 25;

/// One page in so many is an interior page of an index, about: to ask all indexes for their pages takes as many reads.
const FOR_EACH_INTERIOR: u32 = 256;

/// The changed pages that may be overflow pages in both versions. None: what hangs from a page that is the same is the same.
pub(crate) fn candidates(walk: &Walk<'_>, schema: &Schema) -> Result<PageSet, Error> {
    let (old, new) = (walk.old.version, walk.new.version);
    let mut left = PageSet::new(old.page_count());
    let Some(changed) = &walk.changed else { return Ok(left) };
    let end = old.page_count().min(new.page_count());
    let is_of_a_tree = |page| walk.old.seen.contains(page) || walk.new.seen.contains(page);
    for page in changed.iter().filter(|page| (2..=end).contains(page)) {
        if !is_of_a_tree(page) && !old.is_apart(page) {
            left.insert(page);
        }
    }
    if left.len() > old.page_count() / FOR_EACH_INTERIOR {
        without_indexes(&mut left, old, schema)?;
    }
    if !left.is_empty() {
        without_free(&mut left, old)?;
    }
    for page in left.iter().collect::<Vec<_>>() {
        let is_one = looks_like_one(old, page)? && looks_like_one(new, page)?;
        if !is_one {
            left.remove(page);
        }
    }
    Ok(left)
}

fn looks_like_one(version: &Version<'_>, page: u32) -> Result<bool, Error> {
    if version.page_count() >= TELLING_PAGES {
        return Ok(true);
    }
    Ok(version.page(page, page)?.first().is_some_and(|&first| first <= 1))
}

/// Takes out the pages of indexes.
fn without_indexes(left: &mut PageSet, version: &Version<'_>, schema: &Schema) -> Result<(), Error> {
    let mut tree = Tree::new(version);
    for index in schema.objects(ObjectKind::Index) {
        let listed = tree.shape(index.root).and_then(|shape| tree.list(index.root, 1, shape));
        tree.places.clear();
        // A damaged index keeps nobody from reading the table: its pages are looked at.
        unless_damaged(listed)?;
    }
    tree.seen.iter().for_each(|page| _ = left.remove(page));
    Ok(())
}

fn unless_damaged(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Damaged { .. }) => Ok(()),
        other => other,
    }
}

/// Takes out the pages of the free list (<https://sqlite.org/fileformat2.html#the_freelist>).
fn without_free(left: &mut PageSet, version: &Version<'_>) -> Result<(), Error> {
    let (mut trunk, mut seen) = (version.header.free, PageSet::new(version.page_count()));
    while trunk > 0 && trunk <= version.page_count() && seen.insert(trunk) {
        left.remove(trunk);
        let page = version.page(trunk, trunk)?;
        let count = u32_at(&page, 4).map_or(0, index).min(page.len() / 4);
        let free = page.get(8..).unwrap_or_default().as_chunks().0.iter().take(count);
        free.for_each(|number| _ = left.remove(u32::from_be_bytes(*number)));
        trunk = u32_at(&page, 0).unwrap_or_default();
    }
    Ok(())
}

/// Looks for whose the candidates are.
pub(crate) struct Search<'v> {
    old: &'v Version<'v>,
    /// The candidates whose owner is not known.
    left: PageSet,
    /// The overflow pages that were gone through: chains may not run in circles.
    walked: PageSet,
    /// Pages of tables that have to be read though they are the same.
    pub(crate) owners: PageSet,
}

impl<'v> Search<'v> {
    pub(crate) fn new(old: &'v Version<'v>, candidates: &PageSet) -> Self {
        let (walked, owners) = (PageSet::new(old.page_count()), PageSet::new(old.page_count()));
        Self { old, left: candidates.clone(), walked, owners }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// Follows the chains of rows that are compared anyway.
    pub(crate) fn among_compared(&mut self, places: &Places) -> Result<(), Error> {
        for_each_page(self.old, &places.old, |node| {
            self.claim(node)?;
            Ok(!self.is_over())
        })
    }

    /// Asks the pointer map.
    pub(crate) fn in_pointer_map(&mut self, walk: &Walk<'_>) -> Result<(), Error> {
        for page in self.left.iter().collect::<Vec<_>>() {
            let Some(owner) = self.owner_by_map(page)? else { continue };
            let node = match self.old.node(owner, page) {
                Ok(node) => node,
                Err(Error::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            if self.claim(&node)? && walk.old.seen.contains(owner) {
                self.owners.insert(owner);
            }
        }
        Ok(())
    }

    /// The page of a tree from which an overflow page hangs, as the pointer map has it.
    fn owner_by_map(&self, page: u32) -> Result<Option<u32>, Error> {
        let (mut page, mut steps) = (page, PageSet::new(self.old.page_count()));
        while page > 2 && page <= self.old.page_count() && steps.insert(page) {
            let map_page = self.old.map_page_of(page);
            let map = self.old.page(map_page, page)?;
            let Some(nth) = page.checked_sub(map_page + 1) else { return Ok(None) };
            let entry = 5 * index(nth);
            let leads_to = u32_at(&map, entry + 1).unwrap_or_default();
            match map.get(entry) {
                Some(3) => return Ok(Some(leads_to)),
                Some(4) => page = leads_to,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Follows the chains of changed pages of indexes.
    pub(crate) fn in_changed_indexes(&mut self, walk: &Walk<'_>) -> Result<(), Error> {
        let Some(changed) = &walk.changed else { return Ok(()) };
        let pages = changed.iter().filter(|&page| page <= self.old.page_count() && page > 1);
        for page in pages.filter(|&page| !walk.old.seen.contains(page) && !self.old.is_apart(page)) {
            match self.old.node(page, page) {
                Ok(node) if !node.kind.is_table() => unless_damaged(self.claim(&node).map(drop))?,
                Ok(_) | Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Follows the chains of rows that were not to be read.
    pub(crate) fn among_same(&mut self, places: &[Place], changed: &PageSet) -> Result<(), Error> {
        for_each_page(self.old, places, |node| {
            if !changed.contains(node.number) && self.claim(node)? {
                self.owners.insert(node.number);
            }
            Ok(!self.is_over())
        })
    }

    /// Takes out the pages of all chains that hang from a page; answers whether one was a candidate.
    fn claim(&mut self, node: &Node) -> Result<bool, Error> {
        let mut claimed = false;
        for nth in 0..node.len() {
            let cell = node.cell(nth).map_err(|what| self.old.damaged(node.number, what))?;
            let (mut page, mut from, mut left) = (cell.overflow, node.number, cell.len);
            left -= crate::bytes::long(cell.local.len());
            while page > 0 && left > 0 && self.walked.insert(page) {
                claimed |= self.left.remove(page);
                let bytes = self.old.page(page, from)?;
                (from, page) = (page, u32_at(&bytes, 0).unwrap_or_default());
                left = left.saturating_sub(crate::bytes::long(self.old.header.on_overflow_page()));
            }
        }
        Ok(claimed)
    }
}

/// Reads the pages of these places, each once, for as long as `wants` says so.
fn for_each_page(
    version: &Version<'_>,
    places: &[Place],
    mut wants: impl FnMut(&Node) -> Result<bool, Error>,
) -> Result<(), Error> {
    for place in places.iter().filter(|place| place.cell.is_none_or(|nth| nth == 0)) {
        let node = version.node(place.page, place.from)?;
        if !wants(&node)? {
            break;
        }
    }
    Ok(())
}
