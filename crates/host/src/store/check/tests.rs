//! Which queries can be refused before there is a store.

use super::*;

#[test]
fn queries_that_are_refused_without_a_store() {
    let cases = [
        ("", "begins with \"\""),
        ("-- only this", "begins with \"\""),
        ("delete from t", "begins with \"delete\""),
        ("/* select */ insert into t values (1)", "begins with \"insert\""),
        ("attach 'x.db' as x", "begins with \"attach\""),
        ("pragma quick_check", "begins with \"pragma\""),
        ("explain select 1", "begins with \"explain\""),
        ("vacuum into 'x'", "begins with \"vacuum\""),
        ("commit", "begins with \"commit\""),
        ("selct 1", "begins with \"selct\""),
        ("select", "incomplete input"),
        ("select 1 from", "incomplete input"),
        ("select 1; select 2", "more than one statement"),
        ("select 1; create table t(x)", "something else than reading"),
        ("with n as (select 1) delete from sqlite_schema", "may not be modified"),
        ("select load_extension('x')", "not authorized"),
        ("select 'a", "unrecognized token"),
        ("select 1 \0", "nul"),
    ];
    for (sql, expected) in cases {
        let why = check_query(sql).expect_err(sql);
        assert!(why.contains(expected), "{sql:?}: {why}");
    }
}

#[test]
fn queries_that_are_taken_without_a_store() {
    for sql in [
        "select 1",
        " \n-- why\n/* how */ SELECT 1 ;\n -- done",
        "values (1)",
        "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n",
        "select id from booking where account not in (select id from account)",
        "select own(x) from t",
    ] {
        assert_eq!(check_query(sql), Ok(()), "{sql:?}");
    }
}
