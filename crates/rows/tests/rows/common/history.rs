//! Random histories: a store, and what it became.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, MAIN_DB};

use super::dice::Dice;

pub struct History {
    pub folder: tempfile::TempDir,
    pub old: PathBuf,
    pub new: PathBuf,
    /// Tables by their new names, with the old ones.
    pub tables: BTreeMap<String, String>,
    /// Columns that were renamed, by table: the new name, and the old one.
    pub columns: BTreeMap<String, (String, String)>,
    /// Tables that have nothing but their names from those that they were.
    pub made_anew: BTreeSet<String>,
    pub told: Vec<String>,
}

const SCHEMA: &str = "
    create table t (id integer primary key, a, b text, c real, d int);
    create index t_b on t (b);
    create index t_c on t (c, d);
    create table n (x, y);
    create table w (v, k text, d, primary key (k collate nocase, d desc)) without rowid;
    create table r (k text collate rtrim primary key, v, z) without rowid;
    create table g (id integer primary key, a text, v as (a || 'x') virtual, s int as (length(a)) stored, e);
    create table u (id integer primary key, name text unique, n int);
    create table p (code text primary key, v, unique (v, code));
    create table s (id integer primary key autoincrement, v int default 5) strict;
    create table \"odd \"\"one\" (\"a b\", [from], rowid text);
    create view l as select * from t;
    create trigger m after insert on s begin update s set v = 0 where id < 0; end;";

impl History {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
        let mut told = Vec::new();
        begin(&old, &mut dice, &mut told);
        let connection = open(&old);
        connection.execute_batch(&format!("begin; {SCHEMA}")).unwrap();
        let rows = dice.pick(&[5, 40, 150, 400]);
        insert(&connection, &mut dice, rows);
        connection.execute_batch("commit").unwrap();
        drop(connection);
        std::fs::copy(&old, &new).unwrap();
        let (tables, columns, made_anew) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut history = Self { folder, old, new, tables, columns, made_anew, told };
        for name in ["t", "n", "w", "r", "g", "u", "p", "s", "odd \"one"] {
            history.tables.insert(name.to_owned(), name.to_owned());
        }
        history.go_on(&mut dice);
        history
    }

    fn go_on(&mut self, dice: &mut Dice) {
        let connection = open(&self.new);
        connection.execute_batch("begin").unwrap();
        if dice.percent(80) {
            change(&connection, dice);
        }
        if dice.percent(50) {
            let edits = dice.pick(&[1, 3, 20]);
            (0..edits).for_each(|_| edit_in_place(&connection, dice));
        }
        if dice.percent(50) {
            let rows = dice.pick(&[1, 5, 100]);
            insert(&connection, dice, rows);
        }
        connection.execute_batch("commit").unwrap();
        if dice.percent(30) {
            self.change_schema(&connection, dice);
        }
        match dice.below(12) {
            0 | 1 => self.run(&connection, "vacuum"),
            2 => {
                let size = dice.pick(&[512, 1024, 4096, 8192]);
                self.run(&connection, &format!("pragma page_size = {size}; vacuum"));
            }
            3 | 4 => {
                self.told.push("incremental vacuum".to_owned());
                let mut statement = connection.prepare("pragma incremental_vacuum(20)").unwrap();
                let mut rows = statement.query([]).unwrap();
                while rows.next().unwrap().is_some() {}
            }
            5 => self.run(&connection, "analyze"),
            _ => {}
        }
    }

    fn run(&mut self, connection: &Connection, sql: &str) {
        self.told.push(sql.to_owned());
        connection.execute_batch(sql).unwrap();
    }

    fn change_schema(&mut self, connection: &Connection, dice: &mut Dice) {
        let mut done = Vec::new();
        for _ in 0..=dice.below(3) {
            let kind = dice.below(12);
            // The same once more would fail.
            if done.contains(&kind) {
                continue;
            }
            done.push(kind);
            match kind {
                0 => self.run(connection, "alter table t add column e1 text default 'it''s'"),
                1 => self.run(connection, "alter table n add column e2 real default 5"),
                2 => self.run(connection, "alter table w add column e3"),
                3 if self.tables.contains_key("t") && !self.has(connection, "t", "e4") => {
                    self.run(
                        connection,
                        "alter table t add column e4 int default -7; update t set e4 = 1 where id % 50 = 0",
                    );
                }
                4 => self.run(connection, "alter table g drop column e"),
                5 if self.columns.is_empty() => {
                    self.run(connection, "alter table u rename column n to m");
                    self.columns.insert("u".to_owned(), ("m".to_owned(), "n".to_owned()));
                    return;
                }
                6 if self.tables.contains_key("n") => {
                    self.run(connection, "alter table n rename to n2");
                    self.tables.remove("n");
                    // With a pointer map root pages stay too; the name alone tells what was renamed.
                    self.tables.insert("n2".to_owned(), "n".to_owned());
                    return;
                }
                7 => {
                    self.run(
                        connection,
                        "drop table p; create table q (a, b); insert into q values (1, 2), (x'00', 'q')",
                    );
                    self.tables.remove("p");
                    self.tables.insert("q".to_owned(), String::new());
                    return;
                }
                8 => self.run(connection, "drop index t_b; create unique index t_x on u (name, id)"),
                9 | 10 => {
                    self.make_anew(connection, dice);
                    return;
                }
                _ => self.run(
                    connection,
                    "drop view l; create view l2 as select 1; drop trigger m; pragma user_version = 7",
                ),
            }
            if dice.percent(70) {
                return;
            }
        }
    }

    /// Puts another table in the place of one, with its name, some of the names of its columns, and some of its rows.
    fn make_anew(&mut self, connection: &Connection, dice: &mut Dice) {
        let (table, definition, copied) = dice.pick(&[
            ("t", "(a integer primary key, id, b int, d real unique)", "(a, id, b, d) select id, c, b, d"),
            ("t", "(id int primary key, a text not null, c collate nocase)", "(id, a, c) select id, a, b"),
            ("n", "(x integer primary key, y text check (y <> 'x'))", "(x, y) select rowid, y"),
            ("n", "(rowid int, oid integer primary key, y)", "(rowid, oid, y) select x, rowid, y"),
            ("u", "(n integer primary key, id real, name blob)", "(n, id, name) select id, n, name"),
            ("p", "(v integer primary key, code text unique)", "(v, code) select rowid, code"),
            ("g", "(a text, id, v int as (1) virtual, s text as (typeof(a)) stored)", "(a, id) select a, id"),
            (
                "w",
                "(k int, d real, v, primary key (k collate nocase, d desc)) without rowid",
                "(k, d, v) select k, d, v",
            ),
            (
                "w",
                "(k text collate nocase, v, primary key (k collate binary)) without rowid",
                "(k, v) select k, v",
            ),
            ("r", "(k numeric collate rtrim primary key, z int, v text) without rowid", "(k, z, v) select *"),
        ]);
        if self.tables.get(table).is_none_or(|before| before != table) {
            return;
        }
        self.columns.remove(table);
        self.made_anew.insert(table.to_owned());
        let rows = dice.pick(&[0, 10, 1000]);
        self.run(
            connection,
            &format!(
                "alter table {table} rename to before; create table {table} {definition};
                 insert or ignore into {table} {copied} from before limit {rows}; drop table before"
            ),
        );
    }

    fn has(&self, connection: &Connection, table: &str, column: &str) -> bool {
        let sql = "select count(*) from pragma_table_info(?1) where name = ?2";
        connection.query_row(sql, [table, column], |row| row.get::<_, i64>(0)).unwrap() > 0
    }
}

/// A file with a page size, an encoding, a mode of vacuuming, and reserved bytes.
fn begin(path: &Path, dice: &mut Dice, told: &mut Vec<String>) {
    let page_size: usize =
        dice.pick(&[512, 512, 512, 1024, 1024, 2048, 4096, 4096, 8192, 16384, 32768, 65536]);
    let encoding = dice.pick(&["UTF-8", "UTF-8", "UTF-16le", "UTF-16be"]);
    let (vacuum, reserved) = (dice.below(3), dice.pick(&[0_u8, 0, 0, 0, 8, 32]));
    told.push(format!("{page_size} {encoding} auto_vacuum {vacuum} reserved {reserved}"));
    let connection = open(path);
    let pragmas = format!(
        "pragma page_size = {page_size}; pragma encoding = '{encoding}'; pragma auto_vacuum = {vacuum}; pragma user_version = 1"
    );
    connection.execute_batch(&pragmas).unwrap();
    drop(connection);
    let mut bytes = std::fs::read(path).unwrap();
    let end = page_size - usize::from(reserved);
    bytes[20] = reserved;
    bytes[105..107].copy_from_slice(&u16::try_from(end % 65536).unwrap().to_be_bytes());
    std::fs::write(path, bytes).unwrap();
}

pub fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("pragma journal_mode = off; pragma synchronous = off").unwrap();
    connection
}

fn value(dice: &mut Dice) -> Value {
    match dice.below(9) {
        0 => Value::Null,
        1 => Value::Integer(dice.pick(&[0, 1, -1, 127, 128, -32769, 1 << 40, i64::MAX, i64::MIN])),
        2 => Value::Integer(dice.roll().cast_signed() >> dice.below(64)),
        3 => Value::Real(dice.pick(&[0.0, 1.5, -2.0, 1e300, 0.1, f64::INFINITY, -1e-320])),
        4 => Value::Real(f64::from_bits(dice.roll() & 0xbfff_ffff_ffff_ffff)),
        5 => Value::Text("x'\"\n".repeat(usize::try_from(dice.below(30)).unwrap())),
        6 => Value::Text("é𝄞".repeat(usize::try_from(dice.below(300)).unwrap())),
        7 => Value::Text(dice.pick(&["a\0b", "", "12", "1.5"]).to_owned()),
        _ => {
            let len = dice.pick(&[0, 5, 300, 3000, 9000]);
            Value::Blob((0..len).map(|_| dice.roll().to_le_bytes()[0]).collect())
        }
    }
}

/// A key: some are long, and some are alike but for case or spaces.
fn key(dice: &mut Dice) -> String {
    let number = dice.below(5000);
    let start = if dice.percent(50) { "k" } else { "K" };
    let end = dice.pick(&["", "", "", " ", "  "]);
    let middle = "z".repeat(dice.pick(&[0, 0, 0, 0, 0, 0, 700]));
    format!("{start}{number}{middle}{end}")
}

fn insert(connection: &Connection, dice: &mut Dice, rows: usize) {
    let has = |sql: &str| connection.prepare(sql).is_ok();
    let into = |sql: &str, values: Vec<Value>| {
        // What is not there any more, or is there already, is left.
        if has(sql) {
            let _ = connection.execute(sql, rusqlite::params_from_iter(values));
        }
    };
    let text = |dice: &mut Dice| Value::Text(key(dice));
    for _ in 0..rows {
        let id = Value::Integer(dice.below(1_000_000).cast_signed());
        let values = vec![id.clone(), value(dice), text(dice), value(dice), value(dice)];
        into("insert or replace into t values (?, ?, ?, ?, ?)", values);
        into("insert into n values (?, ?)", vec![value(dice), value(dice)]);
        let number = if dice.percent(50) { Value::Integer(1) } else { Value::Real(1.5) };
        into("insert or replace into w (v, k, d) values (?, ?, ?)", vec![value(dice), text(dice), number]);
        into("insert or replace into r values (?, ?, ?)", vec![text(dice), value(dice), value(dice)]);
        into(
            "insert or replace into g (id, a, e) values (?, ?, ?)",
            vec![id.clone(), text(dice), value(dice)],
        );
        into("insert or replace into u values (?, ?, ?)", vec![id, text(dice), value(dice)]);
        into("insert or replace into p values (?, ?)", vec![text(dice), value(dice)]);
        into("insert into s (v) values (?)", vec![Value::Integer(dice.below(9).cast_signed())]);
        into("insert into \"odd \"\"one\" values (?, ?, ?)", vec![value(dice), value(dice), text(dice)]);
    }
}

/// Deletes and updates some rows of each table.
fn change(connection: &Connection, dice: &mut Dice) {
    let some = |dice: &mut Dice, key: &str| {
        let (every, nth) = (dice.pick(&[3, 20, 200]), dice.below(3));
        format!("abs(random_of({key})) % {every} = {nth}")
    };
    let seed = dice.roll();
    let flags = rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC;
    connection
        .create_scalar_function("random_of", 1, flags, move |context| {
            let text = format!("{:?}", context.get_raw(0));
            let mut dice =
                Dice::new(text.bytes().fold(seed, |sum, byte| sum.rotate_left(5) ^ u64::from(byte)));
            Ok(dice.roll().cast_signed() >> 1)
        })
        .unwrap();
    for (table, key, column) in [
        ("t", "id", "a"),
        ("t", "id", "c"),
        ("n", "rowid", "y"),
        ("w", "k", "v"),
        ("r", "k", "z"),
        ("g", "id", "a"),
        ("u", "id", "n"),
        ("p", "rowid", "v"),
        ("\"odd \"\"one\"", "_rowid_", "[from]"),
    ] {
        if dice.percent(40) {
            let which = some(dice, key);
            connection.execute(&format!("delete from {table} where {which}"), []).unwrap();
        }
        if dice.percent(60) {
            let (which, value) = (some(dice, key), value(dice));
            connection
                .execute(&format!("update or replace {table} set {column} = ? where {which}"), [value])
                .unwrap();
        }
    }
    if dice.percent(30) {
        let which = some(dice, "k");
        connection.execute(&format!("update or replace w set k = upper(k) where {which}"), []).unwrap();
        let which = some(dice, "k");
        connection.execute(&format!("update or replace r set k = rtrim(k) where {which}"), []).unwrap();
        // Names change places.
        connection.execute_batch("update u set name = 'swap' || id; update u set name = 'swap' || (id + 1) where id in (select id from u order by id desc)").unwrap_or_default();
    }
    connection.remove_function("random_of", 1).unwrap();
}

/// Changes a byte of a blob without rewriting its row.
fn edit_in_place(connection: &Connection, dice: &mut Dice) {
    let (table, column) = dice.pick(&[("n", "y"), ("t", "a")]);
    let sql = format!(
        "select rowid, length({column}) from {table} where typeof({column}) = 'blob' and length({column}) > 250 order by (rowid * ?1) % 1009 limit 1"
    );
    let factor = dice.below(1000).cast_signed();
    let Ok((rowid, len)) =
        connection.query_row(&sql, [factor], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)))
    else {
        return;
    };
    let mut blob = connection.blob_open(MAIN_DB, table, column, rowid, false).unwrap();
    let at = usize::try_from(dice.below(u64::from(len))).unwrap();
    blob.write_at(&[dice.roll().to_le_bytes()[0]], at).unwrap();
}
