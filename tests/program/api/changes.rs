//! What changed: differences of versions, the history of a row, queries over versions, and the feed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::api::{configured, world};
use crate::common::{Answer, World};

/// A store of which three versions were published: in the second, rows and in the third, definitions changed too.
fn published(world: &World) {
    let change = |sql: &str, label: &str| {
        world.sqlite().execute_batch(sql).unwrap();
        let body = json!({ "label": label, "certified_by": "ops", "business_date": "2026-11-19" });
        let published = world.send("POST", "/snapshots", &body);
        assert_eq!(published.status, 201, "{published}");
        let id = published.json()["version"]["id"].as_str().unwrap().to_owned();
        world.archived(&id);
    };
    change(
        "create table sale(id integer primary key, name text, price real);
         create table pair(a text, b int, v, primary key(a, b)) without rowid;
         create table free(x);
         insert into sale values (1, 'a', 1), (2, 'b', 2.5), (3, 'c', 3);
         insert into pair values ('EUR', 1, 'one'), ('EUR', 2, 'two'); insert into free values (1), (2)",
        "one",
    );
    change(
        "delete from sale where id = 1; update sale set price = 7 where id = 2; insert into sale values (4, 'd', 4);
         update pair set v = 'zwei' where b = 2",
        "two",
    );
    change(
        "alter table sale add column note text; drop table free; create table fresh(y); insert into fresh values (x'00ff');
         delete from sale where id = 2",
        "three",
    );
}

fn history() -> World {
    let world = world();
    published(&world);
    world
}

/// The same of a store whose texts have another encoding than UTF-8.
fn history_in(encoding: &str) -> World {
    let mut world = World::new();
    let create = format!("pragma encoding = '{encoding}'; create table ledger(entry text)");
    world.sqlite().execute_batch(&create).unwrap();
    world.start_under_contract();
    published(&world);
    world
}

fn lines(answer: &Answer) -> Vec<Value> {
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ask(world: &World, sql: &str) -> Vec<Value> {
    let answer = world.send("POST", "/query", &json!({ "sql": sql }));
    assert_eq!(answer.status, 200, "{sql}: {answer}");
    lines(&answer)
}

/// What a table's summary says, without what is the same for all.
fn told(diff: &Value) -> Vec<(String, Value, Value)> {
    let tables = diff["tables"].as_array().unwrap().iter();
    let counts = |table: &Value| json!([table["inserted"], table["deleted"], table["updated"]]);
    tables
        .map(|table| {
            (table["table"].as_str().unwrap().to_owned(), counts(table), table["schema"]["change"].clone())
        })
        .collect()
}

#[test]
fn a_summary_counts_rows_by_table() {
    let world = history();
    let diff = world.get("/versions/report@1/diff/report@2").json();
    assert_eq!((&diff["from"], &diff["to"]), (&json!("report@1"), &json!("report@2")));
    let expected = [("sale", json!([1, 1, 1]), Value::Null), ("pair", json!([0, 0, 1]), Value::Null)];
    assert_eq!(told(&diff), expected.map(|(name, counts, change)| (name.to_owned(), counts, change)));
    // Once more, from what is known.
    assert_eq!(world.get("/versions/report@1/diff/report@2").json(), diff);

    let diff = world.get("/versions/report@2/diff/report@latest").json();
    let expected = [
        ("sale", json!([0, 1, 0]), json!("altered")),
        ("fresh", json!([1, 0, 0]), json!("created")),
        ("free", json!([0, 2, 0]), json!("dropped")),
    ];
    assert_eq!(told(&diff), expected.map(|(name, counts, change)| (name.to_owned(), counts, change)));
    assert_eq!(diff["tables"][0]["schema"]["columns_added"], json!(["note"]));
    let back = world.get("/versions/report@2/diff/report@1").json();
    assert_eq!(told(&back)[0].1, json!([1, 1, 1]), "the other way round");
    assert_eq!(world.get("/versions/report@2/diff/report@2").json()["tables"], json!([]));
    let one = world.get("/versions/report@1/diff/report@2?table=PAIR").json();
    assert_eq!(told(&one).len(), 1);
    assert_eq!(world.get("/versions/report@1/diff/report@2?table=free").json()["tables"], json!([]));
}

#[test]
fn rows_come_line_by_line_and_page_by_page() {
    let world = history();
    let path = "/versions/report@1/diff/report@2?format=jsonl";
    let answer = world.get(path);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let all = lines(&answer);
    assert_eq!(all[0]["op"], "delete");
    assert_eq!(
        all[1],
        json!({"table": "sale", "op": "update", "key": {"id": 2}, "changed": ["price"],
               "before": {"id": 2, "name": "b", "price": 2.5}, "after": {"id": 2, "name": "b", "price": 7.0}})
    );
    assert_eq!(all.last().unwrap(), &json!({"op": "end", "rows": 4, "next_cursor": null}));
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = lines(&world.get(&format!("{path}&limit=1{cursor}")));
        let end = page.pop().unwrap();
        rows.extend(page);
        match end["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(rows, all[..4]);
    let foreign = world.get(&format!("/versions/report@1/diff/report@3?format=jsonl{cursor}"));
    foreign.expect_problem(422, "cursor_mismatch");
}

#[test]
fn scripts_and_changesets_make_the_older_version_the_newer_one() {
    let world = history();
    let script = world.get("/versions/report@1/diff/report@3?format=sql");
    assert_eq!(script.header("content-type"), Some("application/sql"));
    let (old, new) = (world.path("old.db"), world.open("report@3"));
    fs::write(&old, world.get("/versions/report@1/database").body).unwrap();
    let dump = |file: &std::path::Path| {
        let dump = std::process::Command::new("sqlite3").arg(file).arg(".dump").output().unwrap();
        let mut lines: Vec<String> =
            String::from_utf8(dump.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let script_file = world.path("script.sql");
    fs::write(&script_file, &script.body).unwrap();
    let script = fs::File::open(&script_file).unwrap();
    let ran = std::process::Command::new("sqlite3").arg("-bail").arg(&old).stdin(script).output().unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(dump(&old), dump(&new));
    let changes = world.get("/versions/report@1/diff/report@2?format=changeset");
    assert_eq!((changes.status, changes.body[0]), (200, b'T'));
    world.get("/versions/report@1/diff/report@3?format=changeset").expect_problem(422, "invalid");
    for (format, kind, begins) in [
        ("csv", "text/csv; charset=utf-8", "table,op,id"),
        ("html", "text/html; charset=utf-8", "<!doctype html>"),
    ] {
        let answer = world.get(&format!("/versions/report@1/diff/report@2?format={format}"));
        assert_eq!(answer.header("content-type"), Some(kind));
        assert!(answer.body.starts_with(begins.as_bytes()), "{format}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let world = history();
    for (path, status, code) in [
        ("/versions/report@1/diff/report@9", 404, "unknown_version"),
        ("/versions/report@1/diff/nonsense", 400, "malformed"),
        ("/versions/report@1/diff/report@2?table=nope", 422, "invalid"),
        ("/versions/report@1/diff/report@2?table=nope&format=sql", 422, "invalid"),
        ("/versions/report@1/diff/report@2?format=xml", 422, "invalid"),
        ("/versions/report@1/diff/report@2?format=sql&limit=1", 422, "invalid"),
        ("/versions/report@1/diff/report@2?limit=0&format=jsonl", 422, "invalid"),
        ("/versions/report@1/diff/report@2?by=id", 422, "invalid"),
        ("/versions/report@1/diff/report@2?by=nope&table=sale&format=csv", 422, "invalid"),
        ("/versions/report@1/diff/report@2?cursor=x&format=jsonl", 400, "malformed"),
        ("/stores/nope/tables/sale/rows/1/history", 404, "unknown_store"),
        ("/stores/report/tables/nope/rows/1/history", 422, "invalid"),
        ("/stores/report/tables/sale/rows/one/history", 422, "invalid"),
        ("/stores/report/tables/pair/rows/EUR/history", 422, "invalid"),
        ("/stores/report/tables/sale/rows/1/history?column=nope", 422, "invalid"),
        ("/stores/report/tables/sale/rows/1/history?limit=0", 422, "invalid"),
    ] {
        world.get(path).expect_problem(status, code);
    }
    world.retire("report@1");
    world.get("/versions/report@1/diff/report@2").expect_problem(410, "retired");
}

#[test]
fn the_life_of_a_row() {
    let world = history();
    let history = world.get("/stores/report/tables/sale/rows/2/history").json();
    assert_eq!(history["key"], json!({"id": 2}));
    let changes = history["changes"].as_array().unwrap();
    let ops: Vec<_> =
        changes.iter().map(|change| (&change["version"], &change["op"], &change["since"])).collect();
    let expected = json!([
        ["report@3", "delete", "report@2"],
        ["report@2", "update", "report@1"],
        ["report@1", "insert", null]
    ]);
    assert_eq!(json!(ops), expected);
    assert_eq!(changes[1]["changed"], json!(["price"]));
    assert_eq!((&changes[1]["label"], &changes[1]["certified_by"]), (&json!("two"), &json!("ops")));
    assert_eq!(changes[1]["business_date"], "2026-11-19");
    let row = |price: f64| json!({"id": 2, "name": "b", "price": price});
    assert_eq!((&changes[1]["before"], &changes[1]["after"]), (&row(2.5), &row(7.0)));

    let first = world.get("/stores/report/tables/sale/rows/2/history?limit=1").json();
    let rest = format!(
        "/stores/report/tables/sale/rows/2/history?cursor={}",
        first["next_cursor"].as_str().unwrap()
    );
    assert_eq!(json!([first["changes"][0]]), json!([changes[0]]));
    assert_eq!(world.get(&rest).json()["changes"], json!(changes[1..]));

    let pair = world.get("/stores/report/tables/pair/rows/%5B%22EUR%22,2%5D/history?column=v").json();
    assert_eq!(pair["changes"].as_array().unwrap().len(), 2);
    let name = world.get("/stores/report/tables/sale/rows/4/history?column=name").json();
    assert_eq!(name["changes"].as_array().unwrap().len(), 1, "a column that was added changes no name");
    assert_eq!(world.get("/stores/report/tables/sale/rows/99/history").json()["changes"], json!([]));
}

#[test]
fn one_query_over_several_moments() {
    answers_queries(&history());
}

#[test]
fn queries_read_texts_of_each_encoding() {
    for encoding in ["UTF-16le", "UTF-16be"] {
        let world = history_in(encoding);
        answers_queries(&world);
        let texts = ask(&world, "select from_v, to_v from report@1..2.diff_pair");
        assert_eq!(texts[1], json!(["two", "zwei"]), "{encoding}");
    }
}

fn answers_queries(world: &World) {
    world.send("PUT", "/stores/report/tags/month-end", &json!({ "version": "report@2" }));
    let sql = "select a.id, a.price, b.price from report@1.sale a join \"report@month-end\".sale b using (id) where a.price <> b.price";
    let expected = [
        json!({"columns": ["id", "price", "price"]}),
        json!([2, 2.5, 7.0]),
        json!({"op": "end", "rows": 1, "more": false}),
    ];
    assert_eq!(ask(world, sql), expected);
    // What is named without a version is of the newest one.
    assert_eq!(ask(world, "select y from fresh")[1], json!([{"hex": "00ff"}]));
    assert_eq!(ask(world, "select count(*) from report.sale")[1], json!([2]));
    let diff = ask(world, "select op, from_price, to_price from report@1..2.diff_sale order by 1");
    assert_eq!(
        diff[1..4],
        [json!(["delete", 1.0, null]), json!(["insert", null, 4.0]), json!(["update", 2.5, 7.0])]
    );
    let all = ask(world, "select from_version, to_version, count(*) from diff_sale group by 1, 2");
    assert_eq!(all[1..3], [json!([1, 2, 3]), json!([2, 3, 1])]);
    let states =
        ask(world, "select id, valid_from, valid_to, price, note from report.history_sale order by 1, 2");
    let expected = [
        json!([1, 1, 2, 1.0, null]),
        json!([2, 1, 2, 2.5, null]),
        json!([2, 2, 3, 7.0, null]),
        json!([3, 1, null, 3.0, null]),
        json!([4, 2, null, 4.0, null]),
    ];
    assert_eq!(states[1..6], expected);
    let dropped = ask(world, "select x, valid_from, valid_to from report.history_free order by 1");
    assert_eq!(dropped[1..3], [json!([1, 1, 3]), json!([2, 1, 3])]);
    assert_eq!(world.get("/leases").json()["leases"], json!([]), "nothing stays leased");
}

/// Columns whose names are those of the made-up tables' own, or differ by the case of a letter that SQLite does not fold.
#[test]
fn made_up_tables_have_every_column_of_a_table() {
    let world = world();
    let publish = |sql: &str| {
        world.sqlite().execute_batch(sql).unwrap();
        let published = world.send("POST", "/snapshots", &json!({ "store": "report" }));
        assert_eq!(published.status, 201, "{published}");
        world.archived(published.json()["version"]["id"].as_str().unwrap());
    };
    let wide: Vec<String> = (0..1995).map(|n| format!("c{n}")).collect();
    publish(&format!(
        "create table t(id integer primary key, Ü, ü, version, valid_from, \"valid_from_\");
         insert into t values (1, 'A', 'a', 'v', '2026', 'f');
         create table wide(id integer primary key, {wide}); insert into wide(id) values (1);
         create table wider(id integer primary key, {wide}, d); insert into wider(id) values (1)",
        wide = wide.join(", ")
    ));
    publish("update t set Ü = 'B'; update wide set c1994 = 1");
    let states = "select valid_from, valid_to, Ü, ü, version, valid_from__, valid_from_ from report.history_t order by 1";
    // The table's own columns come in their order, and one whose name is taken gets a longer one.
    let named = ask(&world, "select * from report.history_t where 0")[0]["columns"].clone();
    assert_eq!(
        named,
        json!([
            "valid_from",
            "valid_to",
            "valid_from_at",
            "valid_to_at",
            "id",
            "Ü",
            "ü",
            "version",
            "valid_from_",
            "valid_from__"
        ])
    );
    let found = ask(&world, states);
    assert_eq!(
        found[1..3],
        [json!([1, 2, "A", "a", "v", "f", "2026"]), json!([2, null, "B", "a", "v", "f", "2026"])]
    );
    let diff = ask(
        &world,
        "select from_version, to_version, from_Ü, to_Ü, from_ü, to_ü, from_version_, to_version_ from diff_t",
    );
    assert_eq!(diff[1], json!([1, 2, "A", "B", "a", "a", "v", "v"]));
    // As many columns as SQLite takes, and one more.
    assert_eq!(
        ask(&world, "select count(*), sum(c1994) from report.history_wide where valid_to is null")[1],
        json!([1, 1])
    );
    for (sql, width) in
        [("select * from report.history_wider", "2001"), ("select * from report.diff_wide", "3995")]
    {
        let problem = world.send("POST", "/query", &json!({ "sql": sql })).expect_problem(422, "invalid");
        let said = format!("would have {width} columns, and SQLite takes 2000 at most");
        assert!(problem["detail"].as_str().unwrap().contains(&said), "{sql}: {problem}");
    }
    assert_eq!(world.get("/leases").json()["leases"], json!([]), "nothing stays leased");
}

#[test]
fn a_query_can_do_nothing_but_read_and_has_bounds() {
    let world = configured("[query]\nmax_rows = 50\nmax_time = \"2s\"\nmax_memory = \"16 MiB\"\n", "");
    published(&world);
    for (sql, said) in [
        ("delete from sale", "something else than reading"),
        ("select 1; select 2", "more than one statement"),
        ("attach '/etc/passwd' as p", "something else than reading"),
        ("select load_extension('x')", "not authorized to use function"),
        ("pragma journal_mode", "something else than reading"),
        ("create table t(a)", "something else than reading"),
        ("insert into report.sale values (1, 2, 3)", "something else than reading"),
        ("vacuum into '/tmp/x'", "not a query that only reads"),
        ("select * from nowhere", "no such table: nowhere"),
        ("select zeroblob(2000000000)", "too big"),
        ("select 'open", "does not end"),
        ("", "not a query that only reads"),
        ("-- nothing", "not a query that only reads"),
        (
            "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c",
            "had not ended after 2 s",
        ),
        (
            "with recursive c(x) as (select randomblob(1000000) union all select randomblob(1000000) from c) select group_concat(x) from c",
            "memory",
        ),
        ("select * from report@1..2.diff_nope", "no table nope"),
        ("select * from report@1.sale\0, nonsense", "nul character"),
    ] {
        let answer = world.send("POST", "/query", &json!({ "sql": sql }));
        let problem = answer.expect_problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{sql}: {problem}");
    }
    for (sql, status, code) in [
        ("select * from report@9.sale", 404, "unknown_version"),
        ("select * from \"other@1\".sale", 404, "unknown_store"),
        ("select * from \"report@no such\".sale", 400, "malformed"),
    ] {
        world.send("POST", "/query", &json!({ "sql": sql })).expect_problem(status, code);
    }
    for body in [
        json!({}),
        json!({ "sql": 1 }),
        json!({ "sql": "select 1", "limit": 0 }),
        json!({ "sql": "select 1", "by": 1 }),
    ] {
        world.send("POST", "/query", &body).expect_problem(422, "invalid");
    }
    let many = "with recursive c(x) as (select 1 union all select x + 1 from c) select x from c";
    let answer = ask(&world, many);
    assert_eq!(answer.last().unwrap(), &json!({"op": "end", "rows": 50, "more": true}));
    // What goes wrong after the first rows were sent is the last line.
    let late = "with recursive c(x) as (select 1 union all select x + 1 from c) select x, hex(zeroblob(2000)) from c where x < 40";
    let answer = ask(&world, late);
    let last = answer.last().unwrap();
    assert_eq!((answer.len(), &last["op"], &last["code"]), (41, &json!("problem"), &json!("invalid")));
    assert!(last["detail"].as_str().unwrap().contains("had not ended after 2 s"), "{last}");
    let few = world.send("POST", "/query", &json!({ "sql": many, "limit": 3 }));
    assert_eq!(lines(&few).len(), 5);
    let wide: Vec<String> = (0..1500).map(|n| format!("{n} as \"c\"\"{n}\"")).collect();
    assert_eq!(ask(&world, &format!("select {}", wide.join(", ")))[1].as_array().unwrap().len(), 1500);
    assert_eq!(world.get("/leases").json()["leases"], json!([]), "nothing stays leased");
    let scratch = world.path("state/scratch");
    assert!(!scratch.exists() || fs::read_dir(scratch).unwrap().next().is_none(), "nothing is left");
}

#[test]
fn what_a_query_sorts_beyond_its_memory_is_on_the_disk_and_has_a_bound() {
    let world = configured("[query]\nmax_memory = \"16 MiB\"\nmax_disk = \"24 MiB\"\n", "");
    published(&world);
    // Rows of 1 KB each, which no index sorts.
    let sorted = |select: &str, rows: u32| {
        format!(
            "with recursive c(n, x) as (select 1, randomblob(1000) union all select n + 1, randomblob(1000) from c where n < {rows}) {select}"
        )
    };
    // Each of these sorts fits, and all of them together do not.
    let one_sort = "(select count(*) from (select x from c group by x))";
    let several_sorts = format!("select {}", [one_sort; 3].join(", "));
    assert_eq!(ask(&world, &sorted(&format!("select {one_sort}"), 18_000))[1], json!([18_000]));
    for sql in [sorted("select x from c order by x", 40_000), sorted(&several_sorts, 18_000)] {
        let answer = world.send("POST", "/query", &json!({ "sql": sql }));
        let problem = answer.expect_problem(422, "invalid");
        let said = "sorts more than its temporary files may hold";
        assert!(problem["detail"].as_str().unwrap().contains(said), "{sql}: {problem}");
    }
    assert!(fs::read_dir(world.path("state/scratch")).unwrap().next().is_none(), "nothing is left");
}

#[test]
fn the_feed_tells_what_each_new_version_changed() {
    let world = configured("", "");
    let mut events = world.listen();
    published(&world);
    let mut heard = Vec::new();
    while heard.len() < 3 {
        heard.extend(
            events
                .until(|name, _| name == "diff")
                .into_iter()
                .filter(|(name, _)| name == "diff")
                .map(|(_, data)| data),
        );
    }
    assert_eq!(
        (&heard[0]["from"], &heard[0]["to"], &heard[0]["tables"]),
        (&Value::Null, &json!("report@1"), &json!([]))
    );
    assert_eq!(heard[1], world.get("/versions/report@1/diff/report@2").json());
    assert_eq!(told(&heard[2]).len(), 3);
}

/// The command gets every version once, in order; one that fails is started again, and a restart of the daemon goes on.
#[test]
fn a_command_is_told_of_each_version() {
    let mut world = World::new();
    let (script, log, broken) = (world.path("told.sh"), world.path("told"), world.path("broken"));
    let text = format!(
        "#!/bin/sh\n[ -e {broken} ] && exit 1\necho \"$ASAT_STORE $ASAT_VERSION $ASAT_SINCE $(cat)\" >> {log}\n",
        broken = broken.display(),
        log = log.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    world.config = format!("[feed]\ncommand = [\"{}\"]\n", script.display());
    world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
    world.start();
    let mut events = world.listen();
    world.publish("first");
    world.wait_for_log("the command of the feed has the message");
    fs::write(&broken, "").unwrap();
    world.sqlite().execute_batch("insert into ledger values ('x')").unwrap();
    world.publish("second");
    events.until(|name, data| name == "diff" && data["to"] == "report@2");
    world.wait_for_log("which is started again");
    world.stop();
    fs::remove_file(&broken).unwrap();
    let said = "the command of the feed has the message";
    // It may be told before the daemon is ready.
    if !world.start().contains(said) {
        world.wait_for_log(said);
    }
    let told = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[0].starts_with("report report@1  {") && lines[1].starts_with("report report@2 report@1 {"),
        "{told}"
    );
    let diff: Value = serde_json::from_str(
        lines[1].split_once(" {").map(|(_, json)| format!("{{{json}")).as_deref().unwrap(),
    )
    .unwrap();
    assert_eq!(diff["tables"][0]["inserted"], 1);
    assert_eq!(lines.len(), 2, "{told}");
}

/// What is kept of summaries can be lost, or be anything.
#[test]
fn summaries_that_are_lost_are_made_again() {
    let mut world = history();
    let diff = world.get("/versions/report@1/diff/report@2").json();
    world.stop();
    fs::write(world.path("state/summaries.db"), "nonsense".repeat(1000)).unwrap();
    world.start();
    assert_eq!(world.get("/versions/report@1/diff/report@2").json(), diff);
    world.stop();
    let connection = Connection::open(world.path("state/summaries.db")).unwrap();
    connection.execute_batch("update summary set text = 'x'").unwrap();
    drop(connection);
    world.start();
    assert_eq!(world.get("/versions/report@1/diff/report@2").json(), diff);
}

/// A state folder that was put back from a backup gives a number to another content: what was found out of the first is not told of it.
#[test]
fn what_was_found_out_counts_for_that_content_alone() {
    let mut world = world();
    world.publish("first");
    world.archived("report@1");
    world.stop();
    let (state, backup) = (world.path("state"), world.path("backup"));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        assert!(std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    };
    copy(&state, &backup);
    let inserted = |world: &World| {
        world.sqlite().execute("insert into ledger values ('x')", []).unwrap();
        world.publish("second");
        world.archived("report@2");
        world.get("/versions/report@1/diff/report@2").json()["tables"][0]["inserted"].clone()
    };
    world.start();
    assert_eq!(inserted(&world), 1);
    world.stop();
    fs::copy(state.join("summaries.db"), backup.join("summaries.db")).unwrap();
    fs::remove_dir_all(&state).unwrap();
    copy(&backup, &state);
    world.start();
    let mut events = world.listen();
    assert_eq!(inserted(&world), 2);
    let heard = events.until(|name, data| name == "diff" && data["to"] == "report@2");
    assert_eq!(heard.last().unwrap().1["tables"][0]["inserted"], 2);
}
