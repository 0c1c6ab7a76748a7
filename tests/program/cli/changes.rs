//! `diff`, `history` and `sql`: the question of the tutorial in `docs/changes.md`, and how each command ends.

use serde_json::json;

use super::{World, done, refused, text, world};

/// The store of the tutorial: three versions of a table with a key.
fn sales() -> World {
    let world = world();
    for (sql, label, day) in [
        (
            "create table sale(id integer primary key, month text, region text, amount real);
             insert into sale values (1, '2026-10', 'north', 100), (2, '2026-10', 'south', 250), (3, '2026-10', 'west', 75)",
            "October",
            "2026-10-31",
        ),
        (
            "update sale set amount = 205 where id = 2; insert into sale values (4, '2026-11', 'north', 120)",
            "mid November",
            "2026-11-15",
        ),
        ("delete from sale where id = 3", "corrections", "2026-11-20"),
    ] {
        world.sqlite().execute_batch(sql).unwrap();
        done(&world, &["publish", "--label", label, "--certified-by", "anna", "--business-date", day]);
    }
    world
}

/// Runs a comparison of versions that differ; answers what it prints.
fn differs(world: &World, arguments: &[&str]) -> String {
    let output = world.asat(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    text(&output.stdout)
}

#[test]
fn rows_that_differ_are_shown_as_people_read_a_difference() {
    let world = sales();
    let rows = "- report@1\n+ report@3\n@ sale\n~ id=2  amount: 250.0 -> 205.0\n\
                - id=3 month='2026-10' region='west' amount=75.0\n+ id=4 month='2026-11' region='north' amount=120.0\n";
    assert_eq!(differs(&world, &["diff", "report@1", "report@latest", "--rows"]), rows);
    let summary = differs(&world, &["diff", "report@1", "report@3"]);
    assert!(summary.contains("sale"), "{summary}");
    // One version alone is compared with the one before it, and a day names the version of its end.
    let last = differs(&world, &["diff", "report@3", "--rows"]);
    assert!(last.contains("- id=3") && !last.contains("id=2"), "{last}");
    let by_region = differs(
        &world,
        &["diff", "report@1", "report@2", "--table", "sale", "--by", "region,month", "--rows"],
    );
    assert!(by_region.contains("250.0 -> 205.0"), "{by_region}");
}

#[test]
fn the_exit_code_says_whether_versions_differ() {
    let world = sales();
    for format in ["summary", "jsonl", "sql", "csv", "changeset", "html"] {
        let compare = |to: &str| world.asat(&["diff", "report@2", to, "--format", format]).status.code();
        assert_eq!((compare("report@2"), compare("report@3")), (Some(0), Some(1)), "{format}");
    }
    // An index is no row: only a script, which creates it, says that something differs.
    world.sqlite().execute_batch("create index by_region on sale(region)").unwrap();
    done(&world, &["publish"]);
    done(&world, &["diff", "report@3", "report@4"]);
    let script = differs(&world, &["diff", "report@3", "report@4", "--format", "sql"]);
    assert!(script.contains("CREATE INDEX by_region on sale(region);\n"), "{script}");
    refused(&world, &["diff", "report@3", "report@9"], 4, "unknown_version");
    refused(&world, &["diff", "report@1"], 4, "before_first");
}

#[test]
fn the_life_of_a_row_names_who_certified_each_change() {
    let world = sales();
    let told = done(&world, &["history", "report", "sale", "2"]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "id=2 of report.sale");
    assert!(
        lines[1].starts_with("report@2 ") && lines[1].ends_with("certified by anna, for 2026-11-15"),
        "{told}"
    );
    assert_eq!(lines[2], "  ~ id=2  amount: 250.0 -> 205.0");
    assert!(lines[3].starts_with("report@1 ") && lines[3].contains("October"), "{told}");
    let regions = done(&world, &["history", "report", "sale", "2", "--column", "region"]);
    assert!(!regions.contains("report@2"), "{regions}");
    refused(&world, &["history", "report", "sale", "two"], 3, "invalid");
}

#[test]
fn a_query_reads_several_versions_in_each_format() {
    let world = sales();
    let sql = "select (select sum(amount) from report@1.sale where month = '2026-10') as certified,
                      (select sum(amount) from report@latest.sale where month = '2026-10') as now";
    for (format, printed) in [
        ("csv", "certified,now\n425.0,305.0\n"),
        ("jsonl", "{\"certified\":425.0,\"now\":305.0}\n"),
        ("json", "[{\"certified\":425.0,\"now\":305.0}]\n"),
        ("markdown", "| certified | now |\n| --- | --- |\n| 425.0 | 305.0 |\n"),
    ] {
        assert_eq!(done(&world, &["sql", "--format", format, sql]), printed, "{format}");
    }
    let changes = "select op, to_version from report.diff_sale where coalesce(from_id, to_id) = 2";
    assert_eq!(done(&world, &["sql", changes]), "op,to_version\nupdate,2\n");
    let problem = refused(&world, &["sql", "delete from report.sale"], 3, "invalid");
    assert_eq!(problem["hint"], json!("a query only reads: begin it with SELECT, WITH or VALUES"));
}
