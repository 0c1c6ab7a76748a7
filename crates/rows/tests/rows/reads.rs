//! What is read of two versions: what changed, and little else.

use asat_rows::{Comparison, Counts, Version};

use crate::common::dice::Dice;
use crate::common::history::open;
use crate::common::source::{Memory, changed};

const ROWS: u64 = 100_000;

#[test]
fn interior_pages_and_changed_leaves_are_read_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    let connection = open(&old);
    let fill = format!(
        "begin; create table valuation (id integer primary key, desk text, amount real, note text);
        create index by_desk on valuation (desk, amount);
        with recursive n(id) as (select 1 union all select id + 1 from n where id < {ROWS})
        insert into valuation select id, 'desk ' || id % 17, id * 1.25, hex(id * 7919) || ' is the note of this row' from n; commit"
    );
    connection.execute_batch(&fill).unwrap();
    drop(connection);
    std::fs::copy(&old, &new).unwrap();
    let connection = open(&new);
    let mut dice = Dice::new(7);
    connection.execute_batch("begin").unwrap();
    for _ in 0..ROWS * 15 / 10_000 {
        let id = i64::try_from(1 + dice.below(ROWS)).unwrap();
        connection.execute("update valuation set amount = amount + 1 where id = ?1", [id]).unwrap();
    }
    connection.execute_batch("commit").unwrap();
    drop(connection);

    let (old, new) = (Memory::open(&old), Memory::open(&new));
    let pages = changed(&old, &new);
    // Leaves of a table begin with 13; those of the index, which changed too, do not count.
    let page_len = new.bytes.len() / usize::try_from(asat_rows::Pages::page_count(&new)).unwrap();
    let is_leaf = |page: &&u32| new.bytes[(usize::try_from(**page).unwrap() - 1) * page_len] == 13;
    let leaves = u64::try_from(pages.iter().filter(is_leaf).count()).unwrap();
    let (before, now) = (Version::open("old", &old).unwrap(), Version::open("new", &new).unwrap());
    let comparison = Comparison::new(&before, &now, pages).unwrap();
    let table = comparison.table("valuation").unwrap();
    let counts = comparison.rows(table).unwrap().count().unwrap();
    assert_eq!((counts.inserted, counts.deleted), (0, 0));
    assert!(counts != Counts::default() && counts.updated <= ROWS * 15 / 10_000);
    for (name, version) in [("old", &old), ("new", &new)] {
        let reads = version.reads.get();
        assert!(2 * reads <= 3 * leaves, "{reads} pages of the {name} version are read for {leaves} leaves");
    }
}
