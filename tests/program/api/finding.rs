//! `GET /versions`, `GET /versions/{id}` and `GET /as-of/{timestamp}`.

use serde_json::{Value, json};

use crate::api::{ids, publish_change, world};
use crate::common::World;

fn cut_at(published: &Value) -> jiff::Timestamp {
    published["version"]["cut_at"].as_str().unwrap().parse().unwrap()
}

/// An instant with so many microseconds more, as it is written in a path.
fn shifted(at: jiff::Timestamp, microseconds: i64) -> String {
    (at + jiff::SignedDuration::from_micros(microseconds)).to_string()
}

/// Two stores: three versions of `report`, labelled `a`, `b` and `b`, the second of them retired, and between
/// the last two one of `second`.
fn history() -> (World, [Value; 3]) {
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
    world.add_store("second", "create table u(y)", "");
    world.start_under_contract();
    let publish = |store: &str, label: &str| {
        let answer = world.send("POST", "/snapshots", &json!({ "store": store, "label": label }));
        assert_eq!(answer.status, 201, "{answer}");
        world.sqlite().execute("insert into ledger values ('x')", []).unwrap();
        answer.json()
    };
    let (a, b) = (publish("report", "a"), publish("report", "b"));
    publish("second", "b");
    let c = publish("report", "b");
    world.retire("report@2");
    (world, [a, b, c])
}

#[test]
fn the_list_shows_what_can_be_read_newest_first() {
    let (world, _) = history();
    let one = world.settled("report@3");
    let list = world.get("/versions").json();
    assert_eq!(ids(&list), ["report@3", "second@1", "report@1"]);
    assert_eq!(list["next_cursor"], Value::Null);
    assert_eq!(list["versions"][0], one);
}

#[test]
fn the_list_is_empty_before_anything_is_published() {
    let world = world();
    assert_eq!(world.get("/versions").json(), json!({ "versions": [], "next_cursor": null }));
}

#[test]
fn filters_restrict_the_list() {
    let (world, [first, _, last]) = history();
    let (first, last) = (cut_at(&first), cut_at(&last));
    let berlin = first.to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(1)));
    let offset = berlin.strftime("%Y-%m-%dT%H:%M:%S%.f%%2B01:00").to_string();
    let cases: Vec<(String, &[&str])> = vec![
        ("store=report".into(), &["report@3", "report@1"]),
        ("store=second".into(), &["second@1"]),
        ("label=a".into(), &["report@1"]),
        ("label=b".into(), &["report@3", "second@1"]),
        ("label=B".into(), &[]),
        ("store=report&label=b".into(), &["report@3"]),
        (format!("from={last}"), &["report@3"]),
        (format!("from={}", shifted(last, 1)), &[]),
        (format!("to={first}"), &["report@1"]),
        (format!("to={}", shifted(first, -1)), &[]),
        (format!("from={first}&to={last}"), &["report@3", "second@1", "report@1"]),
        (format!("from={}&to={}", shifted(first, 1), shifted(last, -1)), &["second@1"]),
        (format!("to={offset}"), &["report@1"]),
        ("state=ready".into(), &["report@3", "second@1", "report@1"]),
        ("state=retired".into(), &["report@2"]),
        ("state=retired,ready&store=report".into(), &["report@3", "report@2", "report@1"]),
        ("state=any&store=report".into(), &["report@3", "report@2", "report@1"]),
        ("state=failed,lost,cutting".into(), &[]),
        ("limit=1".into(), &["report@3"]),
        ("limit=1000".into(), &["report@3", "second@1", "report@1"]),
    ];
    for (query, expected) in cases {
        let answer = world.get(&format!("/versions?{query}"));
        assert_eq!(answer.status, 200, "{query}: {answer}");
        assert_eq!(ids(&answer.json()), expected, "{query}");
    }
}

#[test]
fn paging_has_no_gaps_and_no_repeats_while_new_versions_are_published() {
    let world = world();
    for n in 1..=7 {
        publish_change(&world, &format!("v{n}"));
    }
    let (mut seen, mut next) = (Vec::new(), Some("/versions?limit=2".to_owned()));
    while let Some(path) = next {
        let page = world.get(&path).json();
        assert!(ids(&page).len() <= 2);
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        next = page["next_cursor"].as_str().map(|cursor| format!("/versions?limit=2&cursor={cursor}"));
        // New ones come before the first page; giving up what was seen does not move the place either.
        publish_change(&world, "meanwhile");
        world.retire(seen.last().unwrap());
    }
    let expected: Vec<String> = (1..=7).rev().map(|n| format!("report@{n}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_page_that_is_exactly_full_at_the_end_is_the_last() {
    let world = world();
    publish_change(&world, "1");
    publish_change(&world, "2");
    for limit in [2, 3] {
        let list = world.get(&format!("/versions?limit={limit}")).json();
        assert_eq!((ids(&list).len(), &list["next_cursor"]), (2, &Value::Null));
    }
    // The limit is no part of the list's identity: the page size may change on the way.
    let cursor = world.get("/versions?limit=1").json()["next_cursor"].as_str().unwrap().to_owned();
    assert_eq!(ids(&world.get(&format!("/versions?limit=9&cursor={cursor}")).json()), ["report@1"]);
}

#[test]
fn a_version_is_found_by_its_number_or_as_the_latest_in_any_spelling_of_the_path() {
    let (world, _) = history();
    let cases = [
        ("report@1", "report@1"),
        ("report%401", "report@1"),
        ("report%40latest", "report@3"),
        ("report@latest", "report@3"),
        ("re%70ort@3", "report@3"),
        ("second@latest", "second@1"),
        ("report@2", "report@2"),
    ];
    for (written, id) in cases {
        assert_eq!(world.get(&format!("/versions/{written}")).json()["id"], id, "{written}");
    }
}

#[test]
fn the_latest_is_the_newest_that_can_be_read() {
    let world = world();
    world.get("/versions/report@latest").expect_problem(404, "unknown_version");
    publish_change(&world, "1");
    publish_change(&world, "2");
    assert_eq!(world.retire("report@latest")["id"], "report@2");
    assert_eq!(world.get("/versions/report@latest").json()["id"], "report@1");
}

#[test]
fn as_of_an_instant_is_the_newest_version_cut_at_or_before_it() {
    let world = world();
    let cuts = ["1", "2", "3"].map(|label| cut_at(&publish_change(&world, label)));
    let zone = |hours| jiff::tz::TimeZone::fixed(jiff::tz::offset(hours));
    let offset = |at: jiff::Timestamp, hours, sign: &str| {
        let text = at.to_zoned(zone(hours)).strftime("%Y-%m-%dT%H:%M:%S%.f").to_string();
        format!("{text}{sign}{:02}:00", hours.abs())
    };
    let cases = [
        (cuts[0].to_string(), "report@1"),
        (shifted(cuts[0], 1), "report@1"),
        (shifted(cuts[1], -1), "report@1"),
        (cuts[1].to_string(), "report@2"),
        (shifted(cuts[2], -1), "report@2"),
        (cuts[2].to_string(), "report@3"),
        ("9999-01-01T00:00:00Z".to_owned(), "report@3"),
        (offset(cuts[1], 5, "+"), "report@2"),
        (offset(cuts[1], 5, "%2B"), "report@2"),
        (offset(cuts[1], -7, "-"), "report@2"),
        (cuts[1].to_string().to_lowercase(), "report@2"),
        (cuts[1].to_string().replace(':', "%3A"), "report@2"),
    ];
    for (at, id) in cases {
        for query in ["", "?store=report"] {
            let answer = world.get(&format!("/as-of/{at}{query}"));
            assert_eq!(answer.status, 200, "{at}: {answer}");
            assert_eq!(answer.json()["id"], id, "{at}");
        }
    }
    for at in [shifted(cuts[0], -1), "1970-01-01T00:00:00Z".to_owned(), "-000100-01-01T00:00:00Z".to_owned()]
    {
        let problem = world.get(&format!("/as-of/{at}")).expect_problem(404, "before_first");
        assert!(
            problem["hint"].as_str().unwrap().contains(&format!("report@1, cut at {}", cuts[0])),
            "{problem}"
        );
    }
}

#[test]
fn as_of_a_moment_whose_version_was_retired_is_refused_with_its_neighbours_and_never_another_version() {
    let world = world();
    let cuts = ["1", "2", "3"].map(|label| cut_at(&publish_change(&world, label)));
    world.retire("report@2");
    for at in [cuts[1].to_string(), shifted(cuts[2], -1)] {
        let problem = world.get(&format!("/as-of/{at}")).expect_problem(410, "retired");
        let hint = problem["hint"].as_str().unwrap();
        for (id, cut) in [("report@1", cuts[0]), ("report@3", cuts[2])] {
            assert!(hint.contains(&format!("{id} cut at {cut}")), "{problem}");
        }
        assert!(problem["detail"].as_str().unwrap().contains("report@2"), "{problem}");
    }
    assert_eq!(world.get(&format!("/as-of/{}", cuts[2])).json()["id"], "report@3");
}

#[test]
fn as_of_needs_the_store_where_there_are_several_and_knows_each_stores_own_past() {
    let (world, [first, ..]) = history();
    let at = cut_at(&first);
    world.get(&format!("/as-of/{at}")).expect_problem(422, "invalid");
    assert_eq!(world.get(&format!("/as-of/{at}?store=report")).json()["id"], "report@1");
    world.get(&format!("/as-of/{at}?store=second")).expect_problem(404, "before_first");
    world.get(&format!("/as-of/{at}?store=third")).expect_problem(404, "unknown_store");
}

#[test]
fn a_business_day_leads_to_the_version_that_was_published_for_it_last() {
    let world = world();
    for (day, who) in [("2026-10-30", "ann"), ("2026-10-31", "bob"), ("2026-10-30", "ann")] {
        world.sqlite().execute("insert into ledger values (?1)", [day]).unwrap();
        let request = json!({ "label": day, "business_date": day, "certified_by": who });
        assert_eq!(world.send("POST", "/snapshots", &request).status, 201);
    }
    for (day, id) in [("2026-10-30", "report@3"), ("2026-10-31", "report@2"), ("9999-12-31", "report@2")] {
        let answer = world.get(&format!("/as-of-business-date/{day}"));
        assert_eq!((answer.status, &answer.json()["id"]), (200, &json!(id)), "{day}: {answer}");
    }
    world.get("/as-of-business-date/2026-10-29").expect_problem(404, "before_first");
    world.get("/as-of-business-date/2026-10-30?store=third").expect_problem(404, "unknown_store");
    for day in ["2026-10-32", "20261030", "yesterday", "2026-10-30T00:00:00Z", "%00"] {
        world.get(&format!("/as-of-business-date/{day}")).expect_problem(422, "invalid");
        world.get(&format!("/versions?business_date={day}")).expect_problem(422, "invalid");
    }
    let listed = |query: &str| {
        let versions = world.get(&format!("/versions?{query}")).json();
        let ids = versions["versions"].as_array().unwrap().iter();
        ids.map(|version| version["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(listed("business_date=2026-10-30"), [3, 1]);
    assert_eq!(listed("certified_by=bob"), [2]);
    assert_eq!(listed("certified_by=bob&business_date=2026-10-30"), [0; 0]);
}

#[test]
fn one_version_is_found_by_a_moment_a_business_day_or_a_label_in_the_words_of_the_command_line() {
    let world = world();
    for (label, day) in [("october", "2026-10-31"), ("november", "2026-11-30"), ("november", "2026-11-30")] {
        world.sqlite().execute("insert into ledger values (?1)", [label]).unwrap();
        let request = json!({ "label": label, "business_date": day });
        assert_eq!(world.send("POST", "/snapshots", &request).status, 201);
    }
    let second = world.get("/versions/report@2").json()["cut_at"].as_str().unwrap().to_owned();
    for (query, id) in [
        (format!("as_of={second}"), "report@2"),
        ("as_of=now".to_owned(), "report@3"),
        ("as_of=today".to_owned(), "report@3"),
        ("as_of=9999-12-31".to_owned(), "report@3"),
        ("as_of=9999-01-01%2017:00&store=report".to_owned(), "report@3"),
        ("business_date=2026-11-15".to_owned(), "report@1"),
        ("business_date=2026-11-30".to_owned(), "report@3"),
        ("label=october".to_owned(), "report@1"),
    ] {
        let found = world.get(&format!("/version?{query}"));
        assert_eq!((found.status, &found.json()["id"]), (200, &json!(id)), "{query}: {found}");
        assert_eq!(found.json(), world.get(&format!("/versions/{id}")).json(), "{query}");
    }
    for (query, status, code, said) in [
        ("", 422, "invalid", "no version is named"),
        ("as_of=now&label=october", 422, "invalid", "several ways"),
        ("as_of=-7d&business_date=2026-11-30", 422, "invalid", "several ways"),
        ("as_of=-7d", 404, "before_first", "report"),
        ("as_of=last%20week", 422, "invalid", "as_of: \"last week\""),
        ("business_date=now", 422, "invalid", "business_date: \"now\""),
        ("label=november", 422, "invalid", "report@3, report@2"),
        ("label=december", 404, "unknown_version", "december"),
        ("store=other&as_of=now", 404, "unknown_store", "other"),
        ("store=@&as_of=now", 400, "malformed", "@"),
        ("as_off=now", 400, "malformed", "as_off"),
    ] {
        let problem = world.get(&format!("/version?{query}")).expect_problem(status, code);
        assert!(problem["detail"].as_str().unwrap().contains(said), "{query}: {problem}");
        assert!(!problem["hint"].as_str().unwrap().is_empty(), "{problem}");
        let holder = json!({ "holder": "audit" });
        let opened = world.send("POST", &format!("/mounts?{query}"), &holder);
        let problem = opened.expect_problem(status, code);
        assert!(problem["detail"].as_str().unwrap().contains(said), "{query}: {problem}");
    }
    assert_eq!(world.get("/leases").json()["leases"], json!([]));
    let lost_plus = world.get("/version?as_of=2026-11-19T17:00:00+01:00").expect_problem(422, "invalid");
    assert_eq!(lost_plus["hint"], "write the + of the offset as %2B");
}

#[test]
fn as_of_anything_before_the_first_publication_there_is_nothing() {
    let world = world();
    let problem = world.get("/as-of/2026-11-19T17:00:00Z").expect_problem(404, "before_first");
    assert_eq!(problem["hint"], "nothing was published yet");
}

#[test]
fn a_version_is_known_by_its_newest_publication_that_somebody_certified() {
    let world = world();
    let publish = |body: &Value| {
        let json = [("Content-Type", "application/json")];
        let answer = world.request("POST", "/snapshots", &json, body.to_string().as_bytes());
        assert!([200, 201].contains(&answer.status), "{body}");
    };
    let known_by = |query: &str| {
        let version = world.get(&format!("/versions{query}")).json()["versions"][0].clone();
        let place = usize::try_from(version["known_by"].as_u64().unwrap()).unwrap();
        version["publications"][place]["note"].as_str().unwrap().to_owned()
    };
    publish(&json!({"note": "nothing said"}));
    assert_eq!(known_by(""), "nothing said");
    publish(&json!({"note": "labelled", "label": "a"}));
    publish(&json!({"note": "nothing said again"}));
    assert_eq!(known_by(""), "labelled");
    publish(&json!({"note": "certified", "certified_by": "ann", "attributes": {"batch": 41}}));
    publish(&json!({"note": "certified again", "certified_by": "ann"}));
    for number in 0..20 {
        publish(&json!({"note": format!("{number}"), "label": "by a job"}));
    }
    assert_eq!(known_by(""), "certified again");
    for (query, found) in
        [("label=a", "labelled"), ("attribute=batch:41", "certified"), ("label=by+a+job", "19")]
    {
        assert_eq!(known_by(&format!("?{query}")), found);
    }
}

#[test]
fn lists_have_the_newest_publications_of_each_version_and_say_how_many_there_are() {
    const MANY: usize = 1003;
    let world = world();
    for number in 1..=MANY {
        world.publish(&format!("close {number}"));
    }
    let labels = |list: &Value| -> Vec<String> {
        let label = |publication: &Value| publication["label"].as_str().unwrap().to_owned();
        list["publications"].as_array().unwrap().iter().map(label).collect()
    };
    let closes = |numbers: std::ops::RangeInclusive<usize>| -> Vec<String> {
        numbers.map(|number| format!("close {number}")).collect()
    };
    let listed = world.get("/versions").json()["versions"][0].clone();
    assert_eq!((labels(&listed), &listed["publication_count"]), (closes(MANY - 9..=MANY), &json!(MANY)));
    assert_eq!(listed["known_by"], 9);
    // The one that was asked for is there, however old it is.
    let asked = world.get("/versions?label=close%205").json()["versions"][0].clone();
    let found = [closes(5..=5), closes(MANY - 9..=MANY)].concat();
    assert_eq!((labels(&asked), &asked["known_by"]), (found, &json!(0)));
    let listed = world.asat(&["ls", "--label", "close 5"]);
    assert!(String::from_utf8(listed.stdout).unwrap().contains("  close 5  "));
    // One that is shown by itself has more of them, and all are in a list of their own.
    let shown = world.get("/versions/report@1").json();
    assert_eq!((labels(&shown), &shown["publication_count"]), (closes(MANY - 999..=MANY), &json!(MANY)));

    let (mut all, mut next) = (Vec::new(), Some("?limit=400".to_owned()));
    while let Some(query) = next {
        let page = world.get(&format!("/versions/report@latest/publications{query}")).json();
        all.extend(labels(&page));
        next = page["next_cursor"].as_str().map(|cursor| format!("?limit=400&cursor={cursor}"));
    }
    all.reverse();
    assert_eq!(all, closes(1..=MANY));

    publish_change(&world, "another version");
    let page = world.get("/versions/report@2/publications").json();
    assert_eq!((labels(&page), &page["next_cursor"]), (vec!["another version".to_owned()], &Value::Null));
    let of_first = world.get("/versions/report@1/publications?limit=1").json();
    let cursor = of_first["next_cursor"].as_str().unwrap();
    for (query, status, code) in [
        ("report@3/publications", 404, "unknown_version"),
        ("report/publications", 400, "malformed"),
        ("report@1/publications?limit=0", 422, "invalid"),
        ("report@1/publications?limit=1001", 422, "invalid"),
        ("report@1/publications?cursor=x", 400, "malformed"),
        ("report@1/publications?label=close", 400, "malformed"),
        (&format!("report@2/publications?cursor={cursor}"), 422, "cursor_mismatch"),
    ] {
        world.get(&format!("/versions/{query}")).expect_problem(status, code);
    }
}
