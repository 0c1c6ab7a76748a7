//! Two versions of a store, compared: which tables there are, and where their rows may differ.

use crate::differences::Differences;
use crate::error::Error;
use crate::overflow::{Search, candidates};
use crate::pages::PageSet;
use crate::schema::table::{Definition, Generated};
use crate::schema::{Schema, Table, TableKind};
use crate::version::Version;
use crate::walk::{Places, Walk};

/// Two versions, and what of them may differ.
#[derive(Debug)]
pub struct Comparison<'v> {
    pub(crate) old: &'v Version<'v>,
    pub(crate) new: &'v Version<'v>,
    tables: Vec<TableChange>,
    pub(crate) old_schema: Schema,
    pub(crate) new_schema: Schema,
    /// The pages that differ. `None`: nothing can be told by the numbers of pages.
    pub(crate) changed: Option<PageSet>,
    /// Whether no overflow page differs: then a chain is the same if its first page has the same number.
    pub(crate) chains_are_same: bool,
}

/// A table, in one or both of the versions.
#[derive(Clone, Debug)]
pub struct TableChange {
    /// Its name: that in the newer version, if it is there.
    pub name: String,
    /// Its name in the older version, if it was another.
    pub renamed_from: Option<String>,
    /// What kind it is.
    pub kind: TableKind,
    /// The table in the older version; `None` if it was created since.
    pub old: Option<Table>,
    /// The table in the newer version; `None` if it was dropped.
    pub new: Option<Table>,
    /// Its columns with those of the older version, in the newer version's order, and then those that were dropped.
    pub columns: Vec<ColumnPair>,
    /// How its rows are compared.
    pub compared: Compared,
    pub(crate) places: Places,
}

/// A column in both versions, by its places in the two definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnPair {
    /// Its name: that in the newer version, if it is there.
    pub name: String,
    /// Its place in the older version; `None` if it was added.
    pub old: Option<usize>,
    /// Its place in the newer version; `None` if it was dropped.
    pub new: Option<usize>,
}

/// How the rows of a table are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Pages that are the same in both versions are not read.
    ChangedPages,
    /// No page is the same, so all rows are read: after `VACUUM`, with another page size, or if columns were dropped.
    AllPages,
    /// Rows of the two versions cannot be told to be the same, as the key is another: all old ones count as deleted, all new ones as inserted.
    Replaced,
    /// The rows cannot be read. It has what keeps from it.
    Not(String),
}

impl TableChange {
    /// Whether its definition is another, or it was created, dropped or renamed.
    #[must_use]
    pub fn is_schema_changed(&self) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.sql != new.sql || self.renamed_from.is_some(),
            _ => true,
        }
    }

    /// What happened to its definition, in a word; only that it is the same is not among them.
    #[must_use]
    pub fn schema_change(&self) -> &'static str {
        match (&self.old, &self.new) {
            (None, _) => "created",
            (_, None) => "dropped",
            _ if self.renamed_from.is_some() => "renamed",
            _ => "altered",
        }
    }

    /// Whether rows may differ: if not, nothing is read to say so.
    #[must_use]
    pub fn may_differ(&self) -> bool {
        !self.places.old.is_empty() || !self.places.new.is_empty()
    }

    /// The newer version of it, or the older one if it was dropped.
    #[must_use]
    pub fn table(&self) -> Option<&Table> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

impl<'v> Comparison<'v> {
    /// Compares two versions, without reading rows yet.
    ///
    /// `changed` has at least the numbers of all pages whose content differs; pages that only one of them has may be left out. What is
    /// in it needlessly costs time alone.
    ///
    /// # Errors
    /// Where a page cannot be read, or is damaged.
    pub fn new(
        old: &'v Version<'v>,
        new: &'v Version<'v>,
        changed: impl IntoIterator<Item = u32>,
    ) -> Result<Self, Error> {
        let changed = told_by_pages(old, new).then(|| changed_pages(old, new, changed));
        let mut walk = Walk::new(old, new, changed);
        let root = |version: &Version<'_>| (version.page_count() > 0).then_some(1);
        let schema = walk.all(root(old), root(new))?;
        let old_schema = Schema::read(old, &schema.old)?;
        let new_schema = Schema::read(new, &schema.new)?;
        let mut tables = pair(&old_schema, &new_schema);
        for table in &mut tables {
            table.find(&mut walk, old, new)?;
        }
        let candidates = candidates(&walk, &old_schema)?;
        let chains_are_same = walk.changed.is_some() && candidates.is_empty();
        if !candidates.is_empty() {
            find_owners(&mut walk, &mut tables, &candidates)?;
        }
        Ok(Self { old, new, tables, old_schema, new_schema, changed: walk.changed, chains_are_same })
    }

    /// All tables, by their order in the newer version, and then those that were dropped.
    #[must_use]
    pub fn tables(&self) -> &[TableChange] {
        &self.tables
    }

    /// A table by its name in either version.
    ///
    /// # Errors
    /// Where there is none of that name.
    pub fn table(&self, name: &str) -> Result<&TableChange, Error> {
        let is_it = |table: &&TableChange| table.name.eq_ignore_ascii_case(name);
        let was_it = |table: &&TableChange| {
            table.renamed_from.as_ref().is_some_and(|before| before.eq_ignore_ascii_case(name))
        };
        let found = self.tables.iter().find(is_it).or_else(|| self.tables.iter().find(was_it));
        found.ok_or_else(|| Error::NoSuchTable { name: name.to_owned() })
    }

    /// The rows of a table that differ, in the order of its key.
    ///
    /// # Errors
    /// Where its rows cannot be read at all ([`Compared::Not`]).
    pub fn rows<'c>(&'c self, table: &'c TableChange) -> Result<Differences<'c>, Error> {
        Differences::new(self, table)
    }

    /// A table as if it had been created since, with all of its rows.
    ///
    /// # Errors
    /// If a page cannot be read, or is damaged.
    pub fn as_created(&self, table: &TableChange) -> Result<TableChange, Error> {
        let mut created = TableChange::new(None, table.new.as_ref());
        created.find(&mut Walk::new(self.old, self.new, None), self.old, self.new)?;
        Ok(created)
    }

    /// Whether a page is the same in both versions.
    pub(crate) fn is_same_page(&self, page: u32) -> bool {
        self.changed.as_ref().is_some_and(|changed| !changed.contains(page))
    }
}

/// Whether pages of the same number and content mean the same in both versions.
fn told_by_pages(old: &Version<'_>, new: &Version<'_>) -> bool {
    old.page_len() == new.page_len()
        && old.header.usable == new.header.usable
        && old.encoding() == new.encoding()
}

fn changed_pages(old: &Version<'_>, new: &Version<'_>, changed: impl IntoIterator<Item = u32>) -> PageSet {
    let (least, most) = (old.page_count().min(new.page_count()), old.page_count().max(new.page_count()));
    let mut set = PageSet::new(most);
    for page in changed.into_iter().chain(least + 1..=most) {
        set.insert(page);
    }
    set
}

/// Looks for rows that changed on overflow pages alone, and has them compared.
fn find_owners(walk: &mut Walk<'_>, tables: &mut [TableChange], candidates: &PageSet) -> Result<(), Error> {
    let (old, new) = (walk.old.version, walk.new.version);
    let mut search = Search::new(old, candidates);
    for table in tables.iter() {
        search.among_compared(&table.places)?;
    }
    if !search.is_over() && old.header.has_pointer_map {
        search.in_pointer_map(walk)?;
    }
    if !search.is_over() {
        search.in_changed_indexes(walk)?;
    }
    let Some(changed) = walk.changed.as_mut().filter(|_| true) else { return Ok(()) };
    for table in tables.iter().filter(|table| table.old.is_some() && table.new.is_some()) {
        if search.is_over() {
            break;
        }
        let root = table.old.as_ref().map(|table| table.root).filter(|&root| root > 0);
        let all = Walk::new(old, new, None).all(root, None)?;
        search.among_same(&all.old, changed)?;
    }
    if search.owners.is_empty() {
        return Ok(());
    }
    search.owners.iter().for_each(|page| _ = changed.insert(page));
    let mut again = Walk::new(old, new, walk.changed.take());
    for table in tables.iter_mut() {
        table.find(&mut again, old, new)?;
    }
    walk.changed = again.changed;
    Ok(())
}

impl TableChange {
    fn new(old: Option<&Table>, new: Option<&Table>) -> Self {
        let (name, kind) = new
            .or(old)
            .map_or((String::new(), TableKind::Ordinary), |table| (table.name.clone(), table.kind));
        let before = old.map(|table| table.name.clone());
        let renamed_from = before.filter(|before| new.is_some() && !before.eq_ignore_ascii_case(&name));
        let (places, columns) = (Places::default(), columns(old, new));
        let compared = Compared::ChangedPages;
        Self { name, renamed_from, kind, old: old.cloned(), new: new.cloned(), columns, compared, places }
    }

    /// Finds where its rows may differ.
    fn find(&mut self, walk: &mut Walk<'_>, old: &Version<'_>, new: &Version<'_>) -> Result<(), Error> {
        let root = |table: &Option<Table>| table.as_ref().map(|table| table.root).filter(|&root| root > 0);
        let roots = (root(&self.old), root(&self.new));
        let is_replaced = self.is_replaced(old, new);
        self.places = match roots {
            (Some(old), Some(new)) if !is_replaced && self.is_laid_out_alike() => walk.both(old, new)?,
            roots => walk.all(roots.0, roots.1)?,
        };
        self.compared = match self.obstacle() {
            Some(why) => Compared::Not(why),
            None if is_replaced => Compared::Replaced,
            None if self.places.same == 0 && self.may_differ() => Compared::AllPages,
            None => Compared::ChangedPages,
        };
        Ok(())
    }

    /// What keeps from reading its rows.
    fn obstacle(&self) -> Option<String> {
        if self.kind == TableKind::Virtual {
            return Some("a module makes them up; compare the tables in which it keeps them".to_owned());
        }
        for table in [&self.old, &self.new].into_iter().flatten() {
            let Some(definition) = &table.definition else {
                return Some(format!("the definition is not understood: {}", table.sql));
            };
            let foreign = definition.key.iter().find_map(|part| part.collation.as_ref().err());
            if let (true, Some(name)) = (definition.without_rowid, foreign) {
                return Some(format!("its key is ordered by {name}, which is not SQLite's own"));
            }
        }
        None
    }

    fn definitions(&self) -> Option<(&Definition, &Definition)> {
        self.old.as_ref()?.definition.as_ref().zip(self.new.as_ref()?.definition.as_ref())
    }

    /// Whether rows of the two versions cannot be told to be the same.
    fn is_replaced(&self, old: &Version<'_>, new: &Version<'_>) -> bool {
        let Some((before, now)) = self.definitions() else { return false };
        let is_key_same = !now.without_rowid || {
            let names = |definition: &Definition| {
                let name = |column: usize| {
                    definition.columns.get(column).map(|column| column.name.to_ascii_lowercase())
                };
                definition
                    .key
                    .iter()
                    .map(|part| (name(part.column), part.collation.clone(), part.descending))
                    .collect::<Vec<_>>()
            };
            names(before) == names(now) && old.header.knows_descending == new.header.knows_descending
        };
        old.encoding() != new.encoding() || before.without_rowid != now.without_rowid || !is_key_same
    }

    /// Whether the same record means the same row in both.
    pub(crate) fn is_laid_out_alike(&self) -> bool {
        let Some((before, now)) = self.definitions() else {
            return self.old.as_ref().map(|table| &table.sql) == self.new.as_ref().map(|table| &table.sql);
        };
        let is_alike = |pair: &ColumnPair| {
            let old = pair.old.and_then(|old| before.columns.get(old));
            let new = pair.new.and_then(|new| now.columns.get(new));
            match (old, new) {
                (Some(old), Some(new)) => {
                    let is_alias = (pair.old == before.rowid_alias, pair.new == now.rowid_alias);
                    (old.field, old.affinity, &old.default) == (new.field, new.affinity, &new.default)
                        && is_alias.0 == is_alias.1
                }
                (None, _) => true,
                (Some(_), None) => false,
            }
        };
        self.columns.iter().all(is_alike)
    }
}

/// Pairs tables by their names. One was renamed if it begins with the columns of another that is gone, and has its root page, or, as
/// `VACUUM` moves those, no other is like it.
fn pair(old: &Schema, new: &Schema) -> Vec<TableChange> {
    let has_come = |table: &&Table| old.table(&table.name).is_none();
    let renamed = |now: &Table| {
        let gone = old.tables.iter().filter(|before| new.table(&before.name).is_none());
        let alike: Vec<&Table> = gone.filter(|before| begins_with(now, before)).collect();
        let in_place = alike.iter().copied().find(|before| before.root == now.root && now.root > 0);
        let alone = || {
            let [before] = alike.as_slice() else { return None };
            let come = new.tables.iter().filter(has_come).filter(|other| begins_with(other, before));
            (come.count() == 1).then_some(*before)
        };
        in_place.or_else(alone)
    };
    let mut taken: Vec<&str> = Vec::new();
    let mut tables = Vec::new();
    for table in &new.tables {
        let before = old
            .table(&table.name)
            .or_else(|| renamed(table))
            .filter(|before| (before.root == 0) == (table.root == 0));
        taken.extend(before.map(|before| before.name.as_str()));
        tables.push(TableChange::new(before, Some(table)));
    }
    let gone = old.tables.iter().filter(|table| !taken.contains(&table.name.as_str()));
    tables.extend(gone.map(|table| TableChange::new(Some(table), None)));
    tables
}

/// Whether a table has the columns of another one, and perhaps more behind them.
fn begins_with(table: &Table, other: &Table) -> bool {
    let (Some(columns), Some(others)) = (&table.definition, &other.definition) else { return false };
    let is_same = columns.columns.iter().zip(&others.columns).all(|(column, other_column)| {
        column.name.eq_ignore_ascii_case(&other_column.name)
            && table.text(column.rest_at.clone()) == other.text(other_column.rest_at.clone())
    });
    is_same && columns.columns.len() >= others.columns.len()
}

/// Pairs columns by their names. One without a partner is paired with what is in its place in the other version, if that has none
/// either and is defined alike but for the name: it was renamed.
fn columns(old: Option<&Table>, new: Option<&Table>) -> Vec<ColumnPair> {
    let is_stored = |definition: &Definition, place: usize| {
        definition.columns.get(place).is_some_and(|column| column.generated != Some(Generated::Virtual))
    };
    let (before, now) = (old.and_then(Table::understood), new.and_then(Table::understood));
    let old_place = |name: &str| before.and_then(|(_, old)| old.column(name));
    let mut pairs = Vec::new();
    if let Some((table, new)) = now {
        for (place, column) in new.columns.iter().enumerate().filter(|(place, _)| is_stored(new, *place)) {
            let in_place = before.and_then(|(old_table, old)| {
                let other = old.columns.get(place).filter(|_| old.columns.len() == new.columns.len())?;
                let is_alike = old_table.text(other.rest_at.clone()) == table.text(column.rest_at.clone());
                (new.column(&other.name).is_none() && is_alike).then_some(place)
            });
            let old = old_place(&column.name).or(in_place);
            let old = old.filter(|&old| before.is_some_and(|(_, definition)| is_stored(definition, old)));
            pairs.push(ColumnPair { name: column.name.clone(), old, new: Some(place) });
        }
    }
    if let Some((_, old)) = before {
        let is_paired = |place: usize| pairs.iter().any(|pair: &ColumnPair| pair.old == Some(place));
        let gone =
            old.columns.iter().enumerate().filter(|(place, _)| is_stored(old, *place) && !is_paired(*place));
        let gone: Vec<_> = gone
            .map(|(place, column)| ColumnPair { name: column.name.clone(), old: Some(place), new: None })
            .collect();
        pairs.extend(gone);
    }
    pairs
}
