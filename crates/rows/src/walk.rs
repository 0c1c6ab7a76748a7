//! Finds the pages of a table that may differ, without reading those that do not.
//!
//! The trees of two versions are walked together. Pages of SQLite's b-trees are changed in place, so an interior page stays as it is
//! while leaves below it change: it is read once, and its children are compared by their numbers. A leaf that has the same number in both
//! trees, and is not among the changed pages, holds the same rows in both, and is not read. That is right however rows have moved:
//! each row lies on one page a version; if that page is the same in both, so is the row.

use crate::btree::{MOST_LEVELS, Node};
use crate::error::Error;
use crate::pages::PageSet;
use crate::version::Version;

/// Where rows lie that may differ: a leaf, or one cell of an interior page of a tree without rowids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: u32,
    /// `None`: all cells.
    pub(crate) cell: Option<u16>,
    /// The page that leads to it.
    pub(crate) from: u32,
}

/// Places in the order of keys, of one version.
#[derive(Debug)]
pub(crate) struct Tree<'v> {
    pub(crate) version: &'v Version<'v>,
    pub(crate) places: Vec<Place>,
    /// All pages of trees that were found: a page belongs to one tree, and once.
    pub(crate) seen: PageSet,
}

/// How many levels there are below a root, and what kind of tree it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    levels: usize,
    pub(crate) is_table: bool,
}

impl<'v> Tree<'v> {
    pub(crate) fn new(version: &'v Version<'v>) -> Self {
        Self { version, places: Vec::new(), seen: PageSet::new(version.page_count()) }
    }

    /// The way down to the leftmost leaf says how high a tree is: all its leaves are equally deep.
    pub(crate) fn shape(&self, root: u32) -> Result<Shape, Error> {
        let (mut page, mut from) = (root, 1);
        for levels in 0..MOST_LEVELS {
            let node = self.version.node(page, from)?;
            if node.kind.is_leaf() {
                return Ok(Shape { levels, is_table: node.kind.is_table() });
            }
            (from, page) = (page, self.told(page, node.child(0))?);
        }
        Err(self.version.damaged(root, format!("more than {MOST_LEVELS} levels lie below it")))
    }

    /// Lists all places of a tree.
    pub(crate) fn list(&mut self, page: u32, from: u32, shape: Shape) -> Result<(), Error> {
        self.visit(page, from)?;
        let Some(below) = shape.below() else {
            self.places.push(Place { page, cell: None, from });
            return Ok(());
        };
        let node = self.interior(page, from, shape)?;
        for nth in 0..=node.len() {
            let child = self.told(page, node.child(nth))?;
            self.list(child, page, below)?;
            self.put_cell(&node, nth, shape);
        }
        Ok(())
    }

    /// An interior page of a tree of this kind.
    fn interior(&self, page: u32, from: u32, shape: Shape) -> Result<Node, Error> {
        let node = self.version.node(page, from)?;
        if node.kind.is_leaf() || node.kind.is_table() != shape.is_table {
            return Err(self
                .version
                .damaged(page, format!("it is {}, and its tree has none there", node.kind)));
        }
        Ok(node)
    }

    /// The row between two children, if there is one.
    fn put_cell(&mut self, node: &Node, nth: usize, shape: Shape) {
        if nth < node.len() && !shape.is_table {
            self.places.push(Place { page: node.number, cell: u16::try_from(nth).ok(), from: node.number });
        }
    }

    fn visit(&mut self, page: u32, from: u32) -> Result<(), Error> {
        if page == 0 || page > self.version.page_count() {
            let count = self.version.page_count();
            return Err(self
                .version
                .damaged(from, format!("it leads to page {page}, and there are {count}")));
        }
        if self.seen.insert(page) {
            Ok(())
        } else {
            Err(self.version.damaged(from, format!("it leads to page {page}, which is elsewhere already")))
        }
    }

    fn told<T>(&self, page: u32, result: Result<T, String>) -> Result<T, Error> {
        result.map_err(|what| self.version.damaged(page, what))
    }
}

impl Shape {
    fn below(self) -> Option<Self> {
        Some(Self { levels: self.levels.checked_sub(1)?, ..self })
    }
}

/// A walk of two versions.
#[derive(Debug)]
pub(crate) struct Walk<'v> {
    pub(crate) old: Tree<'v>,
    pub(crate) new: Tree<'v>,
    /// The pages that differ. `None`: nothing can be told by the numbers of pages.
    pub(crate) changed: Option<PageSet>,
}

/// Rows that may differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) old: Vec<Place>,
    pub(crate) new: Vec<Place>,
    /// How many leaves hold the same in both.
    pub(crate) same: u32,
}

impl<'v> Walk<'v> {
    pub(crate) fn new(old: &'v Version<'v>, new: &'v Version<'v>, changed: Option<PageSet>) -> Self {
        Self { old: Tree::new(old), new: Tree::new(new), changed }
    }

    /// Whether a page is the same in both versions.
    fn is_same(&self, page: u32) -> bool {
        self.changed.as_ref().is_some_and(|changed| !changed.contains(page))
    }

    /// Where rows of a table may differ that is in both versions.
    pub(crate) fn both(&mut self, old: u32, new: u32) -> Result<Places, Error> {
        let (mut same, shape) = (0, self.old.shape(old)?);
        let shapes = (shape, self.new_shape(old, new, shape)?);
        self.pair((old, new), (1, 1), shapes, &mut same)?;
        let places = self.listed(same);
        Ok(self.cancel(places))
    }

    /// All places of a table in each version that has it.
    pub(crate) fn all(&mut self, old: Option<u32>, new: Option<u32>) -> Result<Places, Error> {
        if let Some(root) = old {
            self.old.list(root, 1, self.old.shape(root)?)?;
        }
        if let Some(root) = new {
            self.new.list(root, 1, self.new.shape(root)?)?;
        }
        Ok(self.listed(0))
    }

    fn listed(&mut self, same: u32) -> Places {
        let (old, new) = (std::mem::take(&mut self.old.places), std::mem::take(&mut self.new.places));
        Places { old, new, same }
    }

    /// The shape of the new tree. If the tree is one leaf that is the same in both, nothing has to be read.
    fn new_shape(&self, old: u32, new: u32, shape: Shape) -> Result<Shape, Error> {
        let is_known = old == new && self.is_same(new) && shape.levels == 0;
        if is_known { Ok(shape) } else { self.new.shape(new) }
    }

    /// Walks two trees that have the same place in their tables.
    fn pair(
        &mut self,
        (old, new): (u32, u32),
        from: (u32, u32),
        shapes: (Shape, Shape),
        same: &mut u32,
    ) -> Result<(), Error> {
        let (Some(below), true) = (shapes.0.below(), shapes.0 == shapes.1) else {
            if old == new && shapes.0 == shapes.1 && self.is_same(old) {
                self.old.visit(old, from.0)?;
                self.new.visit(new, from.1)?;
                *same += 1;
                return Ok(());
            }
            self.old.list(old, from.0, shapes.0)?;
            return self.new.list(new, from.1, shapes.1);
        };
        self.old.visit(old, from.0)?;
        self.new.visit(new, from.1)?;
        let node = self.new.interior(new, from.1, shapes.1)?;
        if old == new && self.is_same(old) {
            for nth in 0..=node.len() {
                let child = self.new.told(new, node.child(nth))?;
                self.pair((child, child), (old, new), (below, below), same)?;
            }
            return Ok(());
        }
        let before = self.old.interior(old, from.0, shapes.0)?;
        self.pair_children(&before, &node, shapes.0, same)
    }

    /// Walks the children of two pages: those that both begin and end with by pairs, and what lies between by itself.
    fn pair_children(&mut self, old: &Node, new: &Node, shape: Shape, same: &mut u32) -> Result<(), Error> {
        let Some(below) = shape.below() else { return Ok(()) };
        let olds = self.old.told(old.number, old.children())?;
        let news = self.new.told(new.number, new.children())?;
        let from = (old.number, new.number);
        let begin = olds.iter().zip(&news).take_while(|(old, new)| old == new).count();
        let (old_rest, new_rest) =
            (olds.get(begin..).unwrap_or_default(), news.get(begin..).unwrap_or_default());
        let end =
            old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
        let (old_end, new_end) = (olds.len() - end, news.len() - end);
        for (nth, &child) in olds.iter().enumerate() {
            if nth < begin {
                self.pair((child, child), from, (below, below), same)?;
                self.old.put_cell(old, nth, shape);
                self.new.put_cell(new, nth, shape);
            } else if nth < old_end {
                self.old.list(child, from.0, below)?;
                self.old.put_cell(old, nth, shape);
            }
        }
        for (nth, &child) in news.iter().enumerate().skip(begin) {
            if nth < new_end {
                self.new.list(child, from.1, below)?;
                self.new.put_cell(new, nth, shape);
                continue;
            }
            self.pair((child, child), from, (below, below), same)?;
            self.old.put_cell(old, nth + olds.len() - news.len(), shape);
            self.new.put_cell(new, nth, shape);
        }
        Ok(())
    }

    /// Takes out what both have, wherever it is.
    fn cancel(&self, mut places: Places) -> Places {
        if self.changed.is_none() || places.old.is_empty() || places.new.is_empty() {
            return places;
        }
        let set = |places: &[Place], is_leaf: bool| {
            let mut set = PageSet::new(self.old.version.page_count());
            let kept =
                places.iter().filter(|place| place.cell.is_none() == is_leaf && self.is_same(place.page));
            kept.for_each(|place| _ = set.insert(place.page));
            set
        };
        let both = |is_leaf: bool| {
            let (old, mut both) = (set(&places.old, is_leaf), set(&places.new, is_leaf));
            let gone: Vec<u32> = both.iter().filter(|&page| !old.contains(page)).collect();
            gone.into_iter().for_each(|page| _ = both.remove(page));
            both
        };
        let (leaves, interiors) = (both(true), both(false));
        let differs = |place: &Place| {
            let same = if place.cell.is_none() { &leaves } else { &interiors };
            !same.contains(place.page)
        };
        places.old.retain(differs);
        places.new.retain(differs);
        places.same += leaves.len();
        places
    }
}
