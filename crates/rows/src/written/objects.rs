//! The indexes, views and triggers that a script drops at its beginning and creates at its end.

use crate::comparison::{Comparison, TableChange};
use crate::schema::{Object, ObjectKind};
use crate::written::Selection;

/// What is dropped and what is created, each in an order that works.
pub(super) struct Objects<'c> {
    pub(super) dropped: Vec<&'c Object>,
    pub(super) created: Vec<&'c Object>,
}

impl<'c> Objects<'c> {
    /// Those of a script that writes these tables: triggers, which must not be fired meanwhile, and the indexes and views that differ or
    /// whose table is made anew.
    pub(super) fn of(comparison: &'c Comparison<'c>, selection: &Selection, tables: &[&TableChange]) -> Self {
        let (old, new) = (&comparison.old_schema.objects, &comparison.new_schema.objects);
        let is_wanted = |object: &&Object| {
            object.sql.is_some()
                && (selection.table.is_none() || tables.iter().any(|table| belongs_to(object, table)))
        };
        let mut dropped: Vec<&Object> =
            old.iter().filter(is_wanted).filter(|object| changes(object, new, tables)).collect();
        // A view takes its triggers along.
        dropped.sort_by_key(|object| match object.kind {
            ObjectKind::Trigger => 0,
            ObjectKind::View => 1,
            ObjectKind::Index => 2,
        });
        let created = new.iter().filter(is_wanted).filter(|object| changes(object, old, tables)).collect();
        Self { dropped, created }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.created.is_empty()
    }
}

/// Whether an object goes, or comes, beside those of the other version.
fn changes(object: &Object, others: &[Object], tables: &[&TableChange]) -> bool {
    let is_same = |other: &Object| {
        (object.kind, &object.name, &object.table, &object.sql)
            == (other.kind, &other.name, &other.table, &other.sql)
    };
    let is_made_anew = || tables.iter().any(|table| table.is_schema_changed() && belongs_to(object, table));
    match object.kind {
        ObjectKind::Trigger => !tables.is_empty() || !others.iter().any(is_same),
        ObjectKind::Index => is_made_anew() || !others.iter().any(is_same),
        ObjectKind::View => !others.iter().any(is_same),
    }
}

fn belongs_to(object: &Object, table: &TableChange) -> bool {
    let names = [Some(&table.name), table.renamed_from.as_ref()];
    names.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(&object.table))
}
