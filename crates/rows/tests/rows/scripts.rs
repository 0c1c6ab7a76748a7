//! Random histories: a script or a changeset, applied to the older version by SQLite, gives the newer one.
//!
//! A failing seed is printed; `SEED=n cargo test -p asat-rows --test rows scripts::` runs that one again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use asat_rows::{Comparison, Format, Selection, Version};
use rusqlite::Connection;

use crate::common::history::{History, open};
use crate::common::session;
use crate::common::source::{Memory, changed};

/// What a format says of the way from one file to another.
fn written(old: &Path, new: &Path, format: Format) -> Result<Vec<u8>, asat_rows::Error> {
    let (old, new) = (Memory::open(old), Memory::open(new));
    let pages = changed(&old, &new);
    let (before, now) = (Version::open("old", &old).unwrap(), Version::open("new", &new).unwrap());
    let comparison = Comparison::new(&before, &now, pages).unwrap();
    let mut out = Vec::new();
    asat_rows::write(&comparison, &Selection::default(), format, &|_| String::new(), &mut out)?;
    Ok(out)
}

/// All rows of all tables; with rowids, if they are to be the same too.
fn content(file: &Path, with_rowids: bool) -> BTreeSet<Vec<String>> {
    let connection = open(file);
    let mut all = BTreeSet::new();
    let mut tables = connection
        .prepare("select name, wr from pragma_table_list where schema = 'main' and type in ('table', 'shadow') and name not like 'sqlite_stat%' and name <> 'sqlite_schema'")
        .unwrap();
    let tables: Vec<(String, bool)> =
        tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    // A changeset says nothing of the numbers that AUTOINCREMENT goes on with.
    let tables = tables.into_iter().filter(|(table, _)| with_rowids || table != "sqlite_sequence");
    for (table, without_rowid) in tables {
        let mut columns =
            connection.prepare("select name from pragma_table_xinfo(?1) where hidden in (0, 3)").unwrap();
        let columns: Vec<String> =
            columns.query_map([&table], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let mut wanted: Vec<String> = columns
            .iter()
            .map(|name| quoted(name))
            .map(|name| format!("typeof({name}), case when typeof({name}) in ('text', 'blob') then hex({name}) else quote({name}) end"))
            .collect();
        if with_rowids && !without_rowid {
            let free = ["rowid", "_rowid_"].into_iter().find(|name| !columns.iter().any(|own| own == name));
            wanted.push(format!("quote({})", free.unwrap()));
        } else {
            // Equal rows count as often as they are there.
            wanted.push(format!("(select count(*) from {})", quoted(&table)));
        }
        let mut rows =
            connection.prepare(&format!("select {} from {}", wanted.join(", "), quoted(&table))).unwrap();
        let count = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let mut line = vec![table.clone()];
            line.extend((0..count).map(|nth| {
                row.get::<_, rusqlite::types::Value>(nth).map(|value| format!("{value:?}")).unwrap()
            }));
            all.insert(line);
        }
    }
    all
}

/// The definitions of everything, and the number that the user gives.
fn definitions(file: &Path) -> BTreeSet<Vec<Option<String>>> {
    let connection = open(file);
    let mut all = connection
        .prepare("select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_stat%' union all select 'user_version', user_version, '', '' from pragma_user_version")
        .unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        (0..4)
            .map(|nth| Ok(row.get::<_, rusqlite::types::Value>(nth).ok().map(|value| format!("{value:?}"))))
            .collect()
    };
    all.query_map([], row).unwrap().map(Result::unwrap).collect()
}

fn expect_same(seed: u64, what: &str, told: &[String], one: &Path, other: &Path, with_rowids: bool) {
    let (found, expected) = (content(one, with_rowids), content(other, with_rowids));
    assert!(
        found == expected,
        "seed {seed}, {what}, {told:?}:\nfound {}\nand not {}",
        shortest(&mut found.difference(&expected)),
        shortest(&mut expected.difference(&found)),
    );
}

/// The shortest of some rows.
fn shortest(rows: &mut dyn Iterator<Item = &Vec<String>>) -> String {
    let text = rows.map(|row| row.join(" ")).min_by_key(String::len);
    text.map_or_else(|| "nothing".to_owned(), |text| text.chars().take(400).collect())
}

fn copy(history: &History, name: &str) -> PathBuf {
    let copy = history.folder.path().join(name);
    std::fs::copy(&history.old, &copy).unwrap();
    copy
}

fn check_script(seed: u64) {
    let history = History::new(seed);
    let script = String::from_utf8(written(&history.old, &history.new, Format::Sql).unwrap()).unwrap();
    let copy = copy(&history, "script.db");
    Connection::open(&copy)
        .unwrap()
        .execute_batch(&script)
        .unwrap_or_else(|error| panic!("seed {seed}, {:?}: {error}", history.told));
    expect_same(seed, "script", &history.told, &copy, &history.new, true);
    assert_eq!(definitions(&copy), definitions(&history.new), "seed {seed}, {:?}", history.told);
    let nothing = written(&history.new, &history.new, Format::Sql).unwrap();
    assert!(nothing.is_empty(), "seed {seed}: nothing differs, and it has {} bytes", nothing.len());
}

/// Applies a changeset, and what it says the other way round; answers whether there can be one.
fn check_changeset(seed: u64) -> bool {
    let history = History::new(seed);
    let changes = match written(&history.old, &history.new, Format::Changeset) {
        Ok(changes) => changes,
        Err(error) => {
            let why = error.to_string();
            assert!(why.contains("format sql"), "seed {seed}, {:?}: {why}", history.told);
            return false;
        }
    };
    let copy = copy(&history, "changes.db");
    let connection = open(&copy);
    // What a trigger does stands in the changes, too.
    connection.execute_batch("drop trigger if exists m").unwrap();
    session::apply(&connection, &changes)
        .unwrap_or_else(|error| panic!("seed {seed}, {:?}: {error}", history.told));
    expect_same(seed, "changeset", &history.told, &copy, &history.new, false);
    match session::apply(&connection, &session::invert(&changes)) {
        Ok(()) => expect_same(seed, "inverted changeset", &history.told, &copy, &history.old, false),
        // A key of which the case alone changed is deleted and inserted. Turned round, it is inserted first, beside its equal.
        Err(error) => assert_eq!(error, session::ROW_IS_THERE, "seed {seed}, {:?}", history.told),
    }
    true
}

fn check_all(seeds: impl Iterator<Item = u64>) {
    let asked = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds: Vec<u64> = asked.map_or_else(|| seeds.collect(), |seed| vec![seed]);
    let all = seeds.len();
    let can =
        seeds.into_iter().inspect(|seed| check_script(*seed)).filter(|seed| check_changeset(*seed)).count();
    assert!(can * 2 > all || all == 1, "only {can} of {all} histories have a changeset");
}

#[test]
fn scripts_and_changesets_give_the_newer_version() {
    check_all(0..250);
}

#[test]
fn more_scripts_and_changesets_give_the_newer_version() {
    check_all(250..500);
}

#[test]
#[ignore = "minutes; `make sim` runs it"]
fn five_thousand_scripts_and_changesets_give_the_newer_version() {
    check_all(1000..6000);
}
