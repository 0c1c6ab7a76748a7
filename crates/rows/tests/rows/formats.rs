//! What each format looks like.

use asat_rows::{Comparison, Error, Format, Selection, Version, Written};

use crate::common::dice::Dice;
use crate::common::history::History;
use crate::common::source::{Memory, changed};

const OLD: &str = "
    create table sale(id integer primary key, name text, price real);
    insert into sale values (1, 'a', 1), (2, 'it''s', 2.5), (3, null, 3);
    create table pair(a, b);
    insert into pair values (x'00ff', 1), ('x', 9007199254740993);
    create view v as select 1;";
const NEW: &str = "
    delete from sale where id = 1;
    update sale set name = '<b>, \"é\"', price = 9e999 where id = 2;
    insert into sale values (4, '', -0.25);
    insert into pair values (cast(x'ff' as text), 'a' || char(0) || 'b');
    create table fresh(x integer);
    drop view v;";

fn files() -> (Memory, Memory) {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    rusqlite::Connection::open(&old).unwrap().execute_batch(OLD).unwrap();
    std::fs::copy(&old, &new).unwrap();
    rusqlite::Connection::open(&new).unwrap().execute_batch(NEW).unwrap();
    (Memory::open(&old), Memory::open(&new))
}

fn write(selection: &Selection, format: Format) -> Result<(String, Written), Error> {
    let (old, new) = files();
    let pages = changed(&old, &new);
    let (before, now) = (Version::open("old", &old)?, Version::open("new", &new)?);
    let comparison = Comparison::new(&before, &now, pages)?;
    let mut out = Vec::new();
    let written = asat_rows::write(&comparison, selection, format, &|place| format!("at {place}"), &mut out)?;
    Ok((String::from_utf8_lossy(&out).into_owned(), written))
}

fn all(format: Format) -> String {
    write(&Selection::default(), format).unwrap().0
}

#[test]
fn json_lines() {
    let expected = r#"{"table":"sale","op":"delete","key":{"id":1},"before":{"id":1,"name":"a","price":1.0},"after":null}
{"table":"sale","op":"update","key":{"id":2},"changed":["name","price"],"before":{"id":2,"name":"it's","price":2.5},"after":{"id":2,"name":"<b>, \"é\"","price":{"real":"inf"}}}
{"table":"sale","op":"insert","key":{"id":4},"before":null,"after":{"id":4,"name":"","price":-0.25}}
{"table":"pair","op":"insert","key":{"rowid":3},"before":null,"after":{"a":{"text_hex":"ff"},"b":"a\u0000b"}}
{"table":"fresh","op":"schema","change":"created","before":null,"after":"CREATE TABLE fresh(x integer)"}
{"op":"end","rows":4,"next_cursor":null}
"#;
    assert_eq!(all(Format::JsonLines), expected);
}

#[test]
fn a_script() {
    let expected = "\
PRAGMA foreign_keys=OFF;
PRAGMA legacy_alter_table=ON;
BEGIN;
DROP VIEW IF EXISTS \"v\";
CREATE TABLE fresh(x integer);
DELETE FROM \"sale\" WHERE \"id\"=1;
UPDATE \"sale\" SET \"name\"='<b>, \"é\"',\"price\"=9e999 WHERE \"id\"=2;
INSERT INTO \"sale\"(\"id\",\"name\",\"price\") VALUES(4,'',-0.25);
INSERT INTO \"pair\"(\"a\",\"b\",rowid) VALUES(CAST(X'ff' AS TEXT),CAST(X'610062' AS TEXT),3);
COMMIT;
";
    assert_eq!(all(Format::Sql), expected);
}

#[test]
fn comma_separated_values() {
    let expected = "table,op,id,name,price\r\n\
        sale,delete,1,a,1.0\r\n\
        sale,before,2,it's,2.5\r\n\
        sale,after,2,\"<b>, \"\"é\"\"\",inf\r\n\
        sale,insert,4,\"\",-0.25\r\n\
        \r\n\
        table,op,a,b\r\n\
        pair,insert,\"\u{fffd}\",a\0b\r\n\
        \r\n\
        table,op,x\r\n";
    assert_eq!(all(Format::Csv), expected);
}

#[test]
fn a_page() {
    let page = all(Format::Html);
    for part in [
        "<h2>sale</h2>",
        "<tr class=\"delete\"><th scope=\"row\">delete</th><td>1</td><td>a</td><td>1.0</td></tr>",
        "<td><mark>&lt;b&gt;, &quot;é&quot;</mark></td><td><mark>inf</mark></td>",
        "<i>text of 1 bytes</i>",
        "<p>The table was created.</p>\n<pre>CREATE TABLE fresh(x integer)</pre>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
}

#[test]
fn a_changeset_says_nothing_of_definitions() {
    let sale = Selection { table: Some("sale".to_owned()), ..Selection::default() };
    assert!(write(&sale, Format::Changeset).unwrap().0.starts_with("T\u{3}\u{1}\0\0sale\0"));
    let refused = write(&Selection::default(), Format::Changeset).unwrap_err().to_string();
    assert!(refused.contains("fresh") && refused.contains("use the format sql"), "{refused}");
}

#[test]
fn a_part_is_followed_by_the_next_one() {
    let whole = all(Format::JsonLines);
    let mut rows = String::new();
    for skip in 0..4 {
        let part = Selection { skip, limit: Some(1), ..Selection::default() };
        let (text, written) = write(&part, Format::JsonLines).unwrap();
        assert_eq!(written, Written { rows: 1, more: skip < 3 }, "{skip}");
        let end = text.lines().last().unwrap();
        let next = if skip < 3 { format!("\"at {}\"", skip + 1) } else { "null".to_owned() };
        assert_eq!(end, format!("{{\"op\":\"end\",\"rows\":1,\"next_cursor\":{next}}}"));
        rows.push_str(&text[..text.len() - end.len() - 1]);
    }
    let end = whole.lines().last().unwrap();
    assert_eq!(rows, whole[..whole.len() - end.len() - 1]);
}

#[test]
fn a_table_that_is_not_there_is_refused() {
    let none = Selection { table: Some("nope".to_owned()), ..Selection::default() };
    for format in Format::ALL {
        assert!(matches!(write(&none, format), Err(Error::NoSuchTable { .. })), "{format}");
    }
}

/// Rows joined by a column: those that were renumbered are the same.
#[test]
fn rows_are_joined_by_other_columns() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    let create = "create table t(name text, n int);";
    let of = |path, sql: &str| {
        rusqlite::Connection::open(path).unwrap().execute_batch(&format!("{create}{sql}")).unwrap();
        Memory::open(path)
    };
    let old = of(&old, "insert into t values ('a', 1), ('b', 2), ('c', 3), ('d', 4), ('d', 4)");
    let new = of(&new, "insert into t values ('b', 2), ('c', 30), ('a', 1), ('e', 5), ('d', 4)");
    let pages = changed(&old, &new);
    let (before, now) = (Version::open("old", &old).unwrap(), Version::open("new", &new).unwrap());
    let comparison = Comparison::new(&before, &now, pages).unwrap();
    let write = |by: &[&str]| {
        let by = by.iter().map(|name| (*name).to_owned()).collect();
        let selection = Selection { table: Some("t".to_owned()), by, ..Selection::default() };
        let mut out = Vec::new();
        asat_rows::write(&comparison, &selection, Format::Csv, &|_| String::new(), &mut out)?;
        Ok::<_, Error>(String::from_utf8(out).unwrap())
    };
    let expected = "table,op,name,n\r\nt,before,c,3\r\nt,after,c,30\r\nt,insert,e,5\r\nt,delete,d,4\r\n";
    let found = write(&["NAME"]).unwrap();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&found), sorted(expected));
    assert!(write(&["nope"]).unwrap_err().to_string().contains("it has no column nope"));
}

/// Whatever is in a page, each format is written to its end, or refused.
#[test]
fn damaged_files_are_written_or_refused() {
    let (mut written, mut refused) = (0, 0);
    for seed in 0..60 {
        let history = History::new(seed);
        let mut dice = Dice::new(seed);
        let (old, mut new) = (Memory::open(&history.old), Memory::open(&history.new));
        for _ in 0..30 {
            let len = u64::try_from(new.bytes.len()).unwrap();
            let place = usize::try_from(dice.below(len - 100)).unwrap() + 100;
            new.bytes[place] = dice.roll().to_le_bytes()[0];
        }
        let pages = changed(&old, &new);
        for format in Format::ALL {
            let result = Version::open("new", &new).and_then(|now| {
                let before = Version::open("old", &old)?;
                let comparison = Comparison::new(&before, &now, pages.iter().copied())?;
                asat_rows::write(
                    &comparison,
                    &Selection::default(),
                    format,
                    &|_| String::new(),
                    &mut std::io::sink(),
                )
            });
            match result {
                Ok(_) => written += 1,
                Err(Error::Damaged { .. } | Error::NotComparable { .. }) => refused += 1,
                Err(other) => panic!("seed {seed}, {format}: {other}"),
            }
        }
    }
    assert!(written > 50 && refused > 50, "{written} written, {refused} refused");
}
