//! Views and triggers that the owner of a store puts in the place of what a check or a marker asks for.

use std::thread;

use crate::common::World;
use crate::hostile_owner::{assert_others_are_served, publish, world};

/// One comparison of texts that takes longer than anybody lives, and that SQLite does not interrupt.
const ENDLESS_STEP: &str = "create view asked as select printf('%.2000c', 'a') like \
                            '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%ab' as a";
const ENDLESS_ROWS: &str = "create view asked as with recursive n(a) as (select 1 union all select a + 1 from n) \
                            select max(a) as a from n";
const HUGE_VALUE: &str = "create view asked as select hex(zeroblob(900000000)) as a";
const MANY_VALUES: &str = "create view asked as with recursive n(i) as (select 1 union all select i + 1 from n) \
                           select count(distinct printf('%.30000000c', 'x') || i) as a from n";

fn asked(view: &str, deadline: &str) -> World {
    let mut world = world();
    world.sqlite().execute_batch(view).unwrap();
    // It belongs to the store of the world, which is the first.
    let check = format!(
        "[[store.check]]\nname = \"asked\"\nquery = \"select a from asked\"\nequals = 1\ndeadline = \"{deadline}\"\n"
    );
    world.store_config = check + &world.store_config;
    world.start();
    world
}

#[test]
fn a_query_that_would_not_end_or_asks_for_too_much_fails_its_check() {
    for view in [ENDLESS_ROWS, HUGE_VALUE, MANY_VALUES] {
        let world = asked(view, "2s");
        thread::scope(|scope| {
            let publishing = scope.spawn(|| publish(&world.socket()));
            assert_others_are_served(&world);
            let answer = publishing.join().unwrap();
            assert!([422, 409, 500, 503].contains(&answer.status), "{view}: {answer}");
        });
        assert_others_are_served(&world);
    }
}

#[test]
fn a_step_that_nothing_interrupts_holds_up_neither_others_nor_the_daemons_end() {
    let mut world = asked(ENDLESS_STEP, "100ms");
    let socket = world.socket();
    let publishing = thread::spawn(move || {
        let headers = [("Content-Type", "application/json")];
        crate::common::try_request(&socket, "POST", "/snapshots", &headers, br#"{"store": "report"}"#)
    });
    // Its worker is at work from here on, and nothing ends it but the daemon.
    while crate::hostile_owner::processes::workers(&world).is_empty() {
        thread::yield_now();
    }
    assert_others_are_served(&world);
    assert!(world.stop().success());
    let _ = publishing.join().unwrap();
}

#[test]
fn a_huge_schema_is_refused_or_read_and_others_are_served() {
    let mut world = world();
    let store = world.sqlite();
    store
        .execute_batch(
            "pragma writable_schema = on; \
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 12) \
             insert into sqlite_schema (type, name, tbl_name, rootpage, sql) \
             select 'view', 'v' || i, 'v' || i, 0, 'create view v' || i || ' as select ''' || printf('%.30000000c', 'x') || '''' from n",
        )
        .unwrap();
    drop(store);
    world.start();
    let answer = publish(&world.socket());
    assert!(answer.status >= 400, "it takes more memory than a worker has: {answer}");
    assert_others_are_served(&world);
}
