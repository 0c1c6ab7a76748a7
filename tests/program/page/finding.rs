//! Where things are: stores, versions, days, who did what, and what somebody looks for.

use serde_json::{Value, json};

use crate::common::World;
use crate::page::browser::Browser;
use crate::page::site::{Site, all_tokens};

fn ids(browser: &Browser) -> Value {
    browser.run("return [...document.querySelectorAll('.version .id')].map((id) => id.textContent)")
}

#[test]
fn a_click_on_a_store_leads_to_its_versions_and_one_on_a_version_to_its_page() {
    let site = Site::start();
    site.publish_change("first");
    let browser = site.browser("admin");
    browser.follow(".store h3 a");
    assert_eq!(browser.run("return location.search + location.hash"), "?store=report#versions");
    assert_eq!(browser.text("#versions-title"), "Versions of report");
    site.world.open("report@1");
    browser.go(&site.url("/"));
    for place in ["#verdict a", ".store .id", ".version a.id", "#leases a.id", "#trail a.id"] {
        let leads = browser.run(&format!("return document.querySelector({place:?}).getAttribute('href')"));
        assert_eq!(leads, "/page/versions/report@1", "{place}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_store_has_a_page_that_says_what_retention_retires_next_and_what_was_verified() {
    let mut world = World::new();
    world.store_config = "[store.retention]\nkeep = \"all for 10 days\"".to_owned();
    let site = Site::of(world, &all_tokens());
    site.publish_change("first");
    site.publish_change("second");
    let browser = site.browser("read");
    browser.follow(".store a[href='/page/stores/report']");
    let retention = browser.text("#retention");
    assert!(retention.contains("By age: all for 10 days."), "{retention}");
    let table = browser.text("#retention tbody");
    assert!(table.contains("report@1") && table.contains("by 20") && !table.contains("report@2"), "{table}");
    assert!(browser.text("#verified").contains("It was not verified since the daemon was started"));
    assert!(browser.text("#certified").contains("1 published day from"));
    site.world.send("POST", "/stores/report/verify", &json!({}));
    browser.go(&site.url("/page/stores/report"));
    let verified = browser.text("#verified");
    assert!(
        verified.contains("2 versions") && verified.contains("everything is as it was written"),
        "{verified}"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // A browser gets a page, whatever is wrong with an address.
    let cookie = site.session("read");
    for path in ["/page/stores/nowhere", "/page/versions/report@99", "/page/nothing", "/?day=2026-02-30"] {
        let answer = site.call("GET", path, &[("Cookie", &cookie), ("Accept", "text/html")], "");
        let (kind, page) =
            (answer.header("content-type").unwrap_or_default(), String::from_utf8_lossy(&answer.body));
        assert!(answer.status >= 400 && kind.starts_with("text/html"), "{path}: {answer}");
        assert!(
            page.contains("Back to the status page") && page.contains("The log names this request"),
            "{path}: {page}"
        );
    }
    let unknown = site.world.get("/page/stores/nowhere");
    unknown.expect_problem(404, "unknown_store");
}

#[test]
fn the_audit_trail_is_there_for_administrators_and_for_nobody_else() {
    let site = Site::start();
    site.publish(&json!({ "label": "<b>close</b>" }));
    site.world.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit 2026" }));
    let browser = site.browser("admin");
    let trail = browser.text("#trail");
    assert!(trail.contains("pin report@1") && trail.contains("publish report@1"), "{trail}");
    browser.follow("#trail .more");
    let all = browser.text("#main tbody");
    assert!(all.contains("reason audit 2026") && all.contains("<b>close</b>"), "{all}");
    browser.run("document.querySelector('#action').value = 'pin'");
    browser.follow(".search button");
    let pins = browser.text("#main tbody");
    assert!(pins.contains("audit 2026") && !pins.contains("publish"), "{pins}");
    assert_eq!(
        browser.run("return document.querySelector('#action').value"),
        "pin",
        "the form says what was asked"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());

    let browser = site.browser("publish");
    assert_eq!(
        browser.run(
            "return [document.querySelector('#trail'), document.querySelector('nav [href=\"/page/audit\"]')]"
        ),
        json!([null, null])
    );
    let cookie = site.session("publish");
    site.call("GET", "/page/audit", &[("Cookie", &cookie)], "").expect_problem(403, "forbidden");
    let asked = site.call("GET", "/page/audit", &[], "");
    assert_eq!(asked.status, 401, "who has not signed in is asked to: {asked}");
    let unknown = site.world.get("/page/audit?action=bake");
    assert!((400..500).contains(&unknown.status), "{unknown}");
}

#[test]
fn versions_are_found_by_label_person_and_day_without_a_script() {
    let site = Site::start();
    for (label, person, day) in [
        ("October close", "ann", "2024-10-31"),
        ("November close", "bob", "2024-11-30"),
        ("test", "ann", "2024-11-30"),
    ] {
        site.publish(&json!({ "label": label, "certified_by": person, "business_date": day }));
    }
    let browser = Browser::start();
    browser.chromium("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.go(&site.url("/"));
    browser.fill("#token", "read");
    browser.follow("form button.main");
    assert_eq!(ids(&browser), json!(["report@3", "report@2", "report@1"]));
    browser.fill("#by-label", "CLOSE");
    browser.follow(".search button");
    assert_eq!(ids(&browser), json!(["report@2", "report@1"]));
    browser.fill("#by-person", "an");
    browser.follow(".search button");
    assert_eq!(ids(&browser), json!(["report@1"]));
    assert_eq!(browser.text("#versions-title"), "Versions that match");
    for (query, found) in [
        ("day=2024-11-30", json!(["report@3", "report@2"])),
        ("store=report&label=&person=bob&day=", json!(["report@2"])),
        ("label=%3Cb%3E", json!([])),
    ] {
        browser.go(&site.url(&format!("/?{query}")));
        assert_eq!(ids(&browser), found, "{query}");
    }
    assert!(browser.text("#versions").contains("No version matches."));
    site.world.get("/?day=2026-02-30").expect_problem(422, "invalid");
    site.world.get("/?colour=red").expect_problem(400, "malformed");
    site.world.get("/?store=nowhere").expect_problem(404, "unknown_store");
}

#[test]
fn a_year_shows_the_days_that_were_certified_and_leads_to_their_versions() {
    let site = Site::start();
    let yesterday =
        site.world.get("/clock").json()["believed_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
            - jiff::SignedDuration::from_hours(24);
    let day = yesterday.strftime("%Y-%m-%d").to_string();
    for label in ["first", "second"] {
        site.publish(&json!({ "label": label, "business_date": day }));
    }
    site.publish_change("today");
    let browser = site.browser("read");
    let kinds = browser.run(
        "return ['once', 'often', 'none'].map((kind) => document.querySelectorAll(`.days .${kind}`).length)",
    );
    assert_eq!(kinds, json!([1, 1, 363]));
    assert!(browser.text("#certified").contains("2 published days"));
    // With keys one goes by the list: 365 squares would be as many stops.
    browser.click("#certified summary");
    browser.follow("#certified .listed li:last-child a");
    assert_eq!(browser.run("return new URL(location).searchParams.get('day')"), day);
    assert_eq!(ids(&browser), json!(["report@2", "report@1"]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_store_that_should_have_been_published_is_not_well() {
    let mut site = Site::start();
    let health = || site.world.get("/healthz").json();
    assert_eq!(health()["status"], "ok");
    let browser = site.browser("read");
    assert!(browser.text("#verdict").contains("report was never published"), "{}", browser.text("#verdict"));
    assert_eq!(browser.text("h1"), "Nothing is kept of report yet");

    site.world.store_config = "expect = \"every hour\"".to_owned();
    site.world.reload("is in force");
    browser.go(&site.url("/"));
    assert_eq!(browser.text("h1"), "1 thing needs somebody to see to it");
    assert!(browser.text("#verdict").contains("report is expected every hour, and was never published"));
    assert_eq!(browser.text(".expected"), "Expected every hour: never published.");
    let health = |site: &Site| site.world.get("/healthz").json();
    assert_eq!(
        (health(&site)["status"].as_str(), health(&site)["trouble"]["code"].as_str()),
        (Some("degraded"), Some("late"))
    );
    let late = |site: &Site| {
        String::from_utf8(site.world.get("/metrics").body)
            .unwrap()
            .contains("asat_store_late{store=\"report\"} 1")
    };
    assert!(late(&site));

    site.publish_change("first");
    browser.go(&site.url("/"));
    assert_eq!(browser.text("h1"), "All is well");
    assert!(
        browser.text(".expected").starts_with("Expected every hour: next due "),
        "{}",
        browser.text(".expected")
    );
    assert_eq!(health(&site)["status"], "ok");
    assert!(!late(&site));
    let store = site.world.get("/stores").json()["stores"][0]["expected"].clone();
    assert!(store["late_since"].is_null() && store["due_at"].is_string(), "{store}");
}
